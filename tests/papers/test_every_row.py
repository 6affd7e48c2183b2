"""Every row of every table, with an encoder of random weights whose vectors of photos and of regions differ in size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.language.vectors import WordVectors
from deixis.models import provenance
from deixis.papers.runner import TableRunner
from deixis.papers.tables import Table, find_table, published_tables
from deixis.papers.training import ExperimentFolder, TableModels
from deixis.vision import encoders, proposals
from deixis.vision.encoder import ImageEncoder, InputSize, Pixels
from deixis.vision.feature_store import import_features
from tests.models.coloured import COLOURS
from tests.models.quarters import make_quarters
from tests.vision.feature_store.small import Corners

PHOTO_SIZE, REGION_SIZE = 7, 5
SMALL = (
    *("epochs=1", "neighbour_start_epoch=0", "round_epochs=1", "rounds=1", "batch_size=32", "max_proposals=4"),
    *("hidden_size=6", "second_embedding_dim=6", "first_embedding_dim=4", "multimodal_dim=8", "embedding_dim=2"),
    *("attention_dim=4", "attention_heads=2", "cell_layers=1", "cell_dim=4", "feature_grid=2"),
    *("word_dim=11", "text_hidden_size=5", "text_branch_size=6", "min_count=1", "max_length=6", "reference_photos=4"),
    *("regularization=0.5", "learning_rate=1e-3", "lr_schedule=constant", "device=cpu", "threads=1"),
)


def random_encoder() -> ImageEncoder:
    """Random projections of pixels: the global vector has other weights than the cells, and another size."""
    rng = np.random.default_rng(5)
    cell_weights, photo_weights = rng.normal(size=(REGION_SIZE, 3)), rng.normal(size=(PHOTO_SIZE, 3))

    def network(pixels: Pixels) -> tuple[np.ndarray, np.ndarray]:
        colours = pixels.astype(np.float64) / 255
        cells = np.einsum("cp,nhwp->nchw", cell_weights, colours)
        return cells.astype(np.float32), (colours.mean(axis=(1, 2)) @ photo_weights.T).astype(np.float32)

    return ImageEncoder("random", network, InputSize(8), REGION_SIZE, PHOTO_SIZE, "random-1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("every-row")


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return make_quarters(folder, 12)


@pytest.fixture(autouse=True)
def small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    provenance._ENCODERS.clear()
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: random_encoder())
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder=None: Corners())


def every_row(table: Table) -> Table:
    """All rows that can be computed, also those of other data sets."""
    return replace(table, rows=tuple(replace(row, data="") for row in table.rows if row.recipe))


def only(table: Table, key: str) -> Table:
    return replace(table, rows=(table.row(key),))


def make_runner(dataset: Dataset, folder: Path, *changes: str, inputs: Sequence[str] = ()) -> TableRunner:
    words = [*COLOURS, "a", "square", "beside", "the", "one", "corner", "."]
    if not (folder / "vectors").exists():
        WordVectors(np.eye(len(words), dtype=np.float32), words).save(folder / "vectors")
    own = (*SMALL, f"word_vectors={folder / 'vectors'}", *changes)
    # Scored on another split than dev, so that each network is trained once.
    given = {"inputs": (*own, *inputs)} if inputs else {"changes": own}
    return TableRunner(TableModels(dataset, ExperimentFolder(folder / "runs"), **given), "train", 1)


@pytest.mark.parametrize("name", published_tables())
def test_photos_and_regions_may_have_vectors_of_different_sizes(name: str, dataset: Dataset, folder: Path) -> None:
    table = every_row(published_tables()[name])
    found = make_runner(dataset, folder).run(table)
    named = {row.key for row in table.rows if row.recipe and not row.recipe.group}
    assert named <= set(found.ours)
    assert found.ours


@pytest.mark.parametrize("name", ["entities-3", "two-branch-1", "two-branch-5"])
def test_tables_of_regions_take_ten_crops_of_photos(name: str, dataset: Dataset, folder: Path) -> None:
    table = every_row(published_tables()[name])
    few = replace(table, rows=tuple(row for row in table.rows if row.key in ("cca", "chunks", "sae", "weighted")))
    found = make_runner(dataset, folder, "crops=10").run(few)
    assert set(found.ours) == {row.key for row in few.rows}
    assert found.about["encoder"] == ("random, ten crops (random-1)",)


@pytest.mark.parametrize("name", [name for name, table in published_tables().items() if table.paper_inputs])
def test_inputs_like_the_papers_fit_the_models_of_the_table(name: str, dataset: Dataset, folder: Path) -> None:
    table = every_row(published_tables()[name])
    rows = tuple(row for row in table.rows if row.key in ("cca", "chunks", "lstm", "m-rnn", "chain"))
    few = replace(table, rows=rows or table.rows)
    found = make_runner(dataset, folder, "text_components=2", inputs=table.paper_inputs).run(few)
    assert {row.key for row in few.rows if row.recipe and not row.recipe.group} <= set(found.ours)
    assert found.ours


@pytest.mark.parametrize(
    ("name", "key"),
    [("entities-3", "weighted"), ("two-branch-1", "sampling"), ("two-branch-2", "one-way"), ("hm-lstm-4", "hm-lstm")],
)
def test_imported_regions_and_photos_replace_the_encoder(name: str, key: str, dataset: Dataset, folder: Path) -> None:
    rng, store, regions = np.random.default_rng(2), folder / "imported", folder / "regions"
    if not store.exists():
        regions.mkdir()
        for photo in dataset.photos:
            boxes = [[x, y, x + 8, y + 8] for x in (0, 8) for y in (0, 8)]
            np.savez(regions / f"{photo.id}.npz", features=rng.normal(size=(4, 6)), boxes=boxes)
        vectors = rng.normal(size=(len(dataset.photos), 9))
        np.savez(folder / "photos.npz", features=vectors, ids=np.array(dataset.photos.ids))
        import_features(store, dataset, folder / "photos.npz", regions=regions)
    changes = (f"features_dir={store}", "proposals=imported", "max_proposals=100")
    table = every_row(published_tables()[name])
    found = make_runner(dataset, folder, *changes).run(only(table, key))
    assert list(found.ours) == [key]
    assert all(words[0].startswith("imported") for kind, words in found.about.items() if kind != "text")
    with pytest.raises(DeixisError, match="set proposals=imported"):
        make_runner(dataset, folder, changes[0], "proposals=head", *changes[2:]).run(
            only(find_table("two-branch-1"), "cca")
        )


@pytest.mark.parametrize(
    ("table", "key", "kind"), [("entities-3", "cca", "photo"), ("entities-3", "chunks", "region"),
                               ("entities-3", "sae", "both"), ("hm-lstm-1", "hm-lstm", "region")]
)  # fmt: skip
def test_a_photo_has_the_same_vector_in_a_data_set_and_as_a_file(
    table: str, key: str, kind: str, dataset: Dataset, folder: Path
) -> None:
    runner = make_runner(dataset, folder)
    training = published_tables()[table].row(key).recipe.model  # type: ignore[union-attr]
    assert training is not None
    [first, *_] = runner.models.alternatives(training)
    pipeline = runner.models.pipeline(first, 0)
    photos = dataset.split("dev")
    assert pipeline.encoder.photo_vector == kind
    features = pipeline.features(dataset, photos)
    sizes = {"photo": PHOTO_SIZE, "region": REGION_SIZE, "both": PHOTO_SIZE + REGION_SIZE}
    assert features.vectors().shape == (len(photos), sizes[kind])
    encoded = pipeline.encode_images([dataset.path_of(photo) for photo in photos])
    np.testing.assert_allclose(encoded, pipeline.model.prepare_visual(features.vectors()), atol=1e-2)
    assert pipeline.encode_images([]).shape == (0, encoded.shape[1])


def test_a_caption_model_scores_regions_if_it_learned_from_their_vectors(dataset: Dataset, folder: Path) -> None:
    runner = make_runner(dataset, folder)
    row = published_tables()["hm-lstm-4"].row("m-rnn-vgg")
    assert row.recipe is not None
    assert row.recipe.model is not None
    assert runner.models.for_regions(row.recipe.model).changes == ("photo_vector=region",)
    same_size = ImageEncoder("same", lambda pixels: None, InputSize(8), 4, 4, "same-1")  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: same_size)
        assert runner.models.for_regions(row.recipe.model) == row.recipe.model
