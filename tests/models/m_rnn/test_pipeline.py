"""Captions of photos, from the pipeline and from `deixis.caption`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.data.dataset import Dataset
from deixis.errors import DeixisError, PhotoError
from deixis.evaluation.items import Regions
from deixis.models.captioner.pipeline import pool_cells, vectors_and_cells
from deixis.models.m_rnn import pipeline as captioning
from deixis.models.m_rnn.pipeline import CaptionPipeline, CaptionResult, load_captioner
from deixis.models.m_rnn.spec import CaptionDataSettings
from deixis.models.photo_features import compute_features, find_or_compute_features
from deixis.vision import encoders
from tests.models.coloured import COLOURS
from tests.models.quarters import make_quarters, use_small_encoders
from tests.models.small_captioner import train_small_m_rnn
from tests.vision.feature_store.small import colour_encoder

pytestmark = pytest.mark.usefixtures("small_encoder")


@pytest.fixture
def captioner(captioner_folder: Path) -> CaptionPipeline:
    return load_captioner(captioner_folder / "run")


@pytest.fixture(scope="module")
def m_rnn_folder(captioner_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An m-RNN trained on the photos of the captioner."""
    folder = tmp_path_factory.mktemp("m_rnn")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_small_m_rnn(dataset_in(captioner_folder), folder)
    return folder


def dataset_in(folder: Path) -> Dataset:
    return Dataset(folder / "data", images=folder / "images")


def assert_close(found: Sequence[CaptionResult | PhotoError], expected: Sequence[CaptionResult]) -> None:
    """Same sentences, and log probabilities up to rounding, which depends on the batch size."""
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, CaptionResult)
        assert [caption.words for caption in one.captions] == [caption.words for caption in other.captions]
        probabilities = [caption.log_probability for caption in other.captions]
        assert [caption.log_probability for caption in one.captions] == pytest.approx(probabilities, rel=1e-4, abs=1e-5)


def test_photos_are_captioned_from_paths_and_from_images(captioner_folder: Path, captioner: CaptionPipeline) -> None:
    paths = [captioner_folder / "images" / f"{number:04d}.png" for number in range(8, 12)]  # of dev
    found = captioner.caption(paths)
    assert [colour in result.text.split() for colour, result in zip(COLOURS, found, strict=True)] == [True] * 4
    with Image.open(paths[1]) as image:
        assert_close(captioner.caption([image.convert("RGB")]), [found[1]])
    assert captioner.caption([]) == []


def test_captions_start_with_the_first_words_and_unknown_ones_are_refused_before_any_photo_is_opened(
    captioner_folder: Path, captioner: CaptionPipeline
) -> None:
    [result] = captioner.caption([captioner_folder / "images" / "0000.png"], start="Everything here")
    assert result.text.startswith("everything here")
    with pytest.raises(DeixisError, match="start: .*'zebra'"):
        captioner.caption(["nowhere.png"], start="a zebra")
    with pytest.raises(DeixisError, match="start: .*'zebra'"):
        next(captioner.caption_files([Path("nowhere.png")], start="a zebra"))


def test_an_unreadable_file_gives_its_error_and_the_others_are_captioned(
    captioner_folder: Path, captioner: CaptionPipeline, tmp_path: Path
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    good = [captioner_folder / "images" / f"{number:04d}.png" for number in range(2)]
    progress: list[int] = []
    paths = [good[0], tmp_path / "bad.jpg", good[1]]
    found = list(captioner.caption_files(paths, on_progress=lambda doing, done, total: progress.append(done)))
    assert [path for path, _ in found] == paths
    assert isinstance(found[1][1], PhotoError)
    assert_close([found[0][1], found[2][1]], captioner.caption(good))
    assert progress == [1, 2, 3]


@pytest.mark.parametrize("m_rnn", [False, True])
def test_files_are_encoded_as_the_training_photos_were(captioner_folder: Path, m_rnn_folder: Path, m_rnn: bool) -> None:
    dataset, captioner = (
        dataset_in(captioner_folder),
        load_captioner(m_rnn_folder if m_rnn else captioner_folder / "run"),
    )
    features = compute_features(dataset, dataset.split("dev"), colour_encoder())
    expected = [found[0].text for found in captioner.model.generate(captioner.model_inputs(features))]
    paths = [dataset.path_of(photo) for photo in dataset.split("dev")]
    assert [result.text for _, result in captioner.caption_files(paths)] == expected
    assert [result.text for result in captioner.caption(paths)] == expected


def test_a_model_trained_on_ten_crops_encodes_files_and_images_with_ten_crops(
    captioner_folder: Path, tmp_path: Path
) -> None:
    train_small_m_rnn(dataset_in(captioner_folder), tmp_path / "run", data=CaptionDataSettings(crops=10))
    captioner = load_captioner(tmp_path / "run")
    framed = Image.new("RGB", (24, 24), "white")  # crops show less of the frame than the whole photo
    framed.paste((200, 30, 30), (6, 6, 18, 18))
    framed.save(tmp_path / "framed.png")
    [[expected]] = captioner.model.generate(colour_encoder().encode_crops([framed]))
    [[whole]] = captioner.model.generate(colour_encoder().encode([framed])[0].whole[None])
    assert abs(expected.log_probability - whole.log_probability) > 1e-3
    [(_, of_file)] = captioner.caption_files([tmp_path / "framed.png"])
    for result in (of_file, *captioner.caption([framed])):
        assert result.captions[0].log_probability == pytest.approx(expected.log_probability, abs=1e-4)  # type: ignore[union-attr]


def test_cells_are_means_of_the_feature_map_in_row_order(captioner_folder: Path) -> None:
    cells = np.arange(2 * 4 * 4, dtype=np.float32).reshape(2, 4, 4)
    expected = [[cells[channel, y : y + 2, x : x + 2].mean() for channel in (0, 1)] for y in (0, 2) for x in (0, 2)]
    np.testing.assert_allclose(pool_cells(cells, 2), expected)
    dataset = dataset_in(captioner_folder)
    features = compute_features(dataset, dataset.split("dev"), colour_encoder())
    found = vectors_and_cells(features, 2)
    for row, photo in enumerate(features.photos.ids):
        expected = pool_cells(features.store.map(photo).cells, 2)
        np.testing.assert_allclose(found.cells[row], expected, atol=1e-3)


@pytest.mark.parametrize("m_rnn", [False, True])
def test_retrieval_scores_do_not_depend_on_the_block_size(
    captioner_folder: Path, m_rnn_folder: Path, monkeypatch: pytest.MonkeyPatch, m_rnn: bool
) -> None:
    monkeypatch.setattr(captioning, "_SCORED_PER_BLOCK", 3)
    dataset = dataset_in(captioner_folder)
    captioner = load_captioner(m_rnn_folder if m_rnn else captioner_folder / "run")
    features = find_or_compute_features(captioner.encoder, dataset, dataset.split("dev"))
    texts = ["A red wall.", "A blue wall.", "Everything here is green."]
    progress: list[int] = []
    found = captioner.retrieval_scores(features, texts, lambda doing, done, total: progress.append(done))
    model = captioner.model
    whole = model.scores(model.prepare_visual(captioner.model_inputs(features)), model.prepare_text(texts))
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-4)
    assert (found.argmax(0) % 4).tolist() == [0, 2, 1]  # red, blue and green photos
    assert progress[-4:] == [0, 3, 6, 8]


def test_regions_are_scored_by_their_own_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_encoders(monkeypatch)
    monkeypatch.setattr(captioning, "_SCORED_PER_BLOCK", 2)
    dataset = make_quarters(tmp_path, 12)
    train_small_m_rnn(dataset, tmp_path / "run")
    captioner, dev = load_captioner(tmp_path / "run"), dataset.split("dev")
    features = find_or_compute_features(captioner.encoder, dataset, dev)
    boxes = ((0, 0, 8, 8), (8, 8, 16, 16), (0, 8, 8, 16), (8, 0, 16, 8), (0, 0, 16, 16))
    photos = (0, 0, 2, 3, 3)  # the second has none
    phrases = ("a red square", "the blue one", "a red square")
    gold = Regions(boxes, photos, phrases, (0, 0, 2), ((0, 0),))
    progress: list[int] = []
    found = captioner.region_scores(features, gold, lambda doing, done, total: progress.append(done))
    vectors = np.concatenate(
        [features.region_vectors(dev.ids[photo], np.array([box])) for box, photo in zip(boxes, photos, strict=True)]
    )
    expected = captioner.model.scores(captioner.model.prepare_visual(vectors), captioner.model.prepare_text(phrases))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert len({tuple(row.round(3)) for row in found}) == 5
    assert progress == [0, 2, 5]


def test_deixis_caption_captions_a_photo(captioner_folder: Path) -> None:
    photo = captioner_folder / "images" / "0000.png"
    found = deixis.caption(photo, beam=3, top=2, start="a", model=captioner_folder / "run")
    assert len(found.captions) == 2
    assert found.text.startswith("a ")
    with pytest.raises(DeixisError, match="top=2"):
        deixis.caption(photo, beam=1, top=2, model=captioner_folder / "run")


def test_models_that_do_not_write_captions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeixisError, match="elsewhere"):
        load_captioner("elsewhere")
    with pytest.raises(DeixisError, match="^two-branch: .*caption.*captioner"):
        load_captioner("two-branch")


def test_an_m_rnn_has_no_confidence_and_no_ranking_by_match(m_rnn_folder: Path, captioner_folder: Path) -> None:
    m_rnn = load_captioner(m_rnn_folder)
    [result] = m_rnn.caption([captioner_folder / "images" / "0000.png"], top=3)
    assert (len(result.captions), result.confidence, result.sure) == (3, (), ())
    with pytest.raises(DeixisError, match="--rerank match: .*captioner"):
        m_rnn.caption([captioner_folder / "images" / "0000.png"], rerank="match")
