"""``deixis features`` end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.language.features.captions import KINDS, caption_vectors
from deixis.vision import encoders, proposals
from deixis.vision.feature_store import FeatureStore
from tests.cli.conftest import Command
from tests.vision.feature_store.small import Corners, colour_encoder, make_data

ENCODE = ("features", "data", "--encoder", "one")
STORE = Path("data/features/colours")


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set of twelve small photos, and an encoder that needs no weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder(name))
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder: Corners(), raising=False)
    make_data(tmp_path, 12)


def test_it_prints_the_result_and_the_path(command: Command) -> None:
    assert command(*ENCODE)[0] == f"{STORE}: 12 photos, dimension 3 (12 new, 0 unchanged)\n"
    assert len(FeatureStore(STORE)) == 12
    assert command(*ENCODE)[0] == f"{STORE}: 12 photos, dimension 3 (0 new, 12 unchanged)\n"


def test_json_is_one_document(tmp_path: Path, command: Command) -> None:
    bad = tmp_path / "images" / "0001.png"
    bad.write_bytes(b"no photo")
    document = command.json(*ENCODE, "--out", "here")
    assert document.pop("seconds") >= 0
    assert document == {
        "out": "here",
        "encoder": "colours",
        "fingerprint": "one",
        "dimension": 3,
        "channels": 3,
        "photos": 11,
        "new": 11,
        "redone": 0,
        "kept": 0,
        "dropped": 0,
        "damaged": [],
        "unknown": 0,
        "skipped": [{"path": str(bad), "reason": "not a photo in a known format"}],
    }


def test_bad_photos_are_named_but_do_not_flood(tmp_path: Path, command: Command) -> None:
    for photo in sorted(Path("images").iterdir())[:11]:
        photo.write_bytes(b"no photo")
    out, err = command(*ENCODE)
    assert "12 photos" not in out
    assert "(1 new, 0 unchanged, 11 skipped)" in out
    assert f"skipped: {tmp_path / 'images' / '0000.png'}: not a photo in a known format" in err
    assert "skipped: … and 1 more (--json lists all)" in err


def test_a_split_crops_and_proposals(command: Command) -> None:
    command(*ENCODE, "--split", "dev", "--crops", 10, "--proposals", "corners", "--top", 2)
    store = FeatureStore("data/features/colours,crops=10,corners=2")
    assert store.ids == ["0000", "0004", "0008"]
    assert store.crops().shape == (3, 3)
    assert len(store.proposals("0004").boxes) == 2


def test_images_names_the_moved_photo_folder(command: Command) -> None:
    Path("images").rename("moved")
    assert "--images DIR" in command.error(*ENCODE)
    command(*ENCODE, "--images", "moved")


def test_precomputed_features_are_imported(command: Command) -> None:
    np.save("vgg.npy", np.ones((12, 5)))
    Path("ids.txt").write_text("".join(f"{number:04d}.jpg\n" for number in range(1, 13)))
    arguments = ("features", "data", "--import", "vgg.npy", "--ids", "ids.txt")
    out, err = command(*arguments)
    assert out == "data/features/imported-vgg: 11 photos, dimension 5 (11 new, 0 unchanged, 1 skipped)\n"
    assert "skipped: 0000: not in vgg.npy" in err
    assert "skipped: 1 row of" in err
    assert len(FeatureStore("data/features/imported-vgg")) == 11
    again = command.json(*arguments)
    assert (again["kept"], again["unknown"], again["encoder"][:9]) == (11, 1, "imported:")


def test_regions_are_imported_with_their_boxes(command: Command) -> None:
    dataset, rng = Dataset("data"), np.random.default_rng(0)
    Path("regions").mkdir()
    for photo in dataset.photos:
        boxes = np.array([[0, 0, 6, 8], [2, 2, 12, 10]])
        np.savez(f"regions/{photo.id}.npz", x=rng.normal(size=(2, 6)), bbox=boxes)
    np.savez("fc7.npz", feats=rng.normal(size=(12, 9)), names=[photo.id for photo in dataset.photos])
    out, err = command("features", "data", "--regions", "regions", "--import", "fc7.npz")
    assert out == "data/features/imported-regions: 12 photos, dimension 9 (12 new, 0 unchanged)\n"
    assert "at most 2 regions per photo, dimension 6" in err
    store = FeatureStore("data/features/imported-regions")
    assert store.proposal_vectors("0003").shape == (2, 6)
    document = command.json("features", "data", "--regions", "regions", "--out", "alone")
    assert (document["dimension"], document["channels"], document["regions"]) == (6, 6, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_captions_become_vectors(command: Command, kind: str) -> None:
    words = ["noise", ".", *map(str, range(12))]
    numbers = np.random.default_rng(0).normal(size=(len(words), 3))
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, numbers, strict=True)]
    Path("glove.txt").write_text("".join(lines))
    arguments = ("features", "data", "--text", kind, "--vectors", "glove.txt")
    out, _ = command(*arguments)
    path = f"data/features/text-{kind}"
    vectors = caption_vectors(Path(path), Dataset("data"))
    assert out == f"{path}: 12 captions, dimension {vectors.shape[1]} (learned from split train)\n"
    assert len(vectors) == 12
    again = command.json(*arguments)
    assert (again["captions"], again["fitted"], again["transformed"]) == (12, False, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--encoder", "one"], "nowhere: not a data set directory"),
        (["data"], "--encoder NAME, --import FILE (or --regions PATH) and --text KIND"),
        (["data", "--encoder", "one", "--text", "mean"], "--encoder NAME"),
        (["data", "--encoder", "one", "--crops", "5"], "--crops 5"),
        (["data", "--encoder", "one", "--split", "test"], "no split 'test'"),
        (["data", "--import", "nowhere.npy"], "nowhere.npy"),
        (["data", "--text", "word2vec"], "mean, tfidf, fisher, hglmm"),
        (["data", "--text", "mean", "--vectors", "nowhere.txt"], "nowhere.txt"),
        (["data", "--text", "tfidf", "--train-split", "test"], "no split 'test'"),
        (["data", "--text", "tfidf", "--crops", "10"], "--crops requires --encoder"),
        (["data", "--text", "tfidf", "--proposals", "head"], "--proposals requires --encoder"),
        (["data", "--encoder", "one", "--top", "5"], "--top requires --proposals"),
        (["data", "--encoder", "one", "--ids", "names.txt"], "--ids requires --import"),
        (["data", "--encoder", "one", "--vectors", "glove.txt"], "--vectors requires --text"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(command: Command, arguments: list[str], words: str) -> None:
    assert words in command.error("features", *arguments)
    assert not Path("data/features").exists()


def test_an_unknown_encoder_is_named(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the true `open_encoder`
    assert "no encoder nobody" in command.error("features", tmp_path / "data", "--encoder", "nobody")
