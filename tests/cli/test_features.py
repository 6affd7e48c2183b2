"""``deixis features`` end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.main import _run
from deixis.data.dataset import Dataset
from deixis.language.features.captions import KINDS, caption_vectors
from deixis.vision import encoders, proposals
from deixis.vision.feature_store import FeatureStore
from tests.conftest import Run
from tests.test_architecture import HEAVY, modules_after
from tests.vision.feature_store.small import Corners, colour_encoder, draw, make_data


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of twelve small photos, and an encoder that needs no weights."""
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder(name))
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder: Corners(), raising=False)
    return make_data(tmp_path, 12).path


def test_it_prints_the_result_and_the_path(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["features", str(data), "--encoder", "one"]) == 0
    path = data / "features" / "colours"
    assert capsys.readouterr().out == f"{path}: 12 photos, dimension 3 (12 new, 0 unchanged)\n"
    assert len(FeatureStore(path)) == 12
    assert _run(["features", str(data), "--encoder", "one"]) == 0
    assert capsys.readouterr().out == f"{path}: 12 photos, dimension 3 (0 new, 12 unchanged)\n"


def test_json_is_one_document(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "images" / "0001.png"
    bad.write_bytes(b"no photo")
    assert _run(["features", str(data), "--encoder", "one", "--out", str(tmp_path / "here"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.pop("seconds") >= 0
    assert answer == {
        "out": str(tmp_path / "here"),
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


def test_bad_photos_are_named_but_do_not_flood(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for photo in sorted((tmp_path / "images").iterdir())[:11]:
        photo.write_bytes(b"no photo")
    assert _run(["features", str(data), "--encoder", "one"]) == 0
    out, err = capsys.readouterr()
    assert "12 photos" not in out
    assert "(1 new, 0 unchanged, 11 skipped)" in out
    assert f"skipped: {tmp_path / 'images' / '0000.png'}: not a photo in a known format" in err
    assert "skipped: … and 1 more (--json lists all)" in err


def test_a_split_crops_and_proposals(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--split", "dev", "--crops", "10", "--proposals", "corners", "--top", "2"]
    assert _run(["features", str(data), "--encoder", "one", *options]) == 0
    store = FeatureStore(data / "features" / "colours,crops=10,corners=2")
    assert store.ids == ["0000", "0004", "0008"]
    assert store.crops().shape == (3, 3)
    assert len(store.proposals("0004").boxes) == 2


def test_features_of_another_encoder_are_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(["features", str(data), "--encoder", "one"])
    capsys.readouterr()
    assert _run(["features", str(data), "--encoder", "two"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "colours (one), not of colours (two)" in err
    assert len(err.splitlines()) == 1


def test_damaged_files_are_named_and_computed_again(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(["features", str(data), "--encoder", "one"])
    [shard] = (data / "features" / "colours").glob("*.safetensors")
    shard.write_bytes(b"")
    assert _run(["features", str(data), "--encoder", "one"]) == 0
    assert f"damaged: {shard}; its photos were computed again" in capsys.readouterr().err


def test_features_survive_a_new_import_and_only_changes_are_computed(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(["features", str(data), "--encoder", "one"])
    capsys.readouterr()
    draw(tmp_path / "images" / "0003.png", 999)
    make_data(tmp_path, 12, begin=2, replace=True)  # two photos have gone and two have come
    assert _run(["features", str(data), "--encoder", "one"]) == 0
    assert "12 photos, dimension 3 (2 new, 9 unchanged, 1 changed, 2 dropped)" in capsys.readouterr().out


def test_images_names_the_moved_photo_folder(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images").rename(tmp_path / "moved")
    assert _run(["features", str(data), "--encoder", "one"]) == 2
    assert "--images DIR" in capsys.readouterr().err
    assert _run(["features", str(data), "--encoder", "one", "--images", str(tmp_path / "moved")]) == 0


def test_precomputed_features_are_imported(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "vgg.npy", np.ones((12, 5)))
    (tmp_path / "ids.txt").write_text("".join(f"{n:04d}.jpg\n" for n in range(1, 13)))
    arguments = ["features", str(data), "--import", str(tmp_path / "vgg.npy"), "--ids", str(tmp_path / "ids.txt")]
    assert _run(arguments) == 0
    out, err = capsys.readouterr()
    path = data / "features" / "imported-vgg"
    assert out == f"{path}: 11 photos, dimension 5 (11 new, 0 unchanged, 1 skipped)\n"
    assert f"skipped: 0000: not in {tmp_path / 'vgg.npy'}" in err
    assert "skipped: 1 row of" in err
    assert len(FeatureStore(path)) == 11
    assert _run([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kept"], answer["unknown"], answer["encoder"][:9]) == (11, 1, "imported:")


@pytest.mark.parametrize("kind", KINDS)
def test_captions_become_vectors(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from deixis.language import features as text

    small = {"fisher": text.gmm_fisher_vectors, "hglmm": text.hglmm_features}
    monkeypatch.setattr(text, "gmm_fisher_vectors", lambda vectors: small["fisher"](vectors, components=1))
    monkeypatch.setattr(text, "hglmm_features", lambda vectors: small["hglmm"](vectors, dimension=2, components=1))
    words = ["noise", ".", *map(str, range(12))]
    numbers = np.random.default_rng(0).normal(size=(len(words), 3))
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, numbers, strict=True)]
    (tmp_path / "glove.txt").write_text("".join(lines))
    arguments = ["features", str(data), "--text", kind, "--vectors", str(tmp_path / "glove.txt")]
    assert _run(arguments) == 0, capsys.readouterr().err
    path = data / "features" / f"text-{kind}"
    vectors = caption_vectors(path, Dataset(data))
    expected = f"{path}: 12 captions, dimension {vectors.shape[1]} (learned from split train)\n"
    assert capsys.readouterr().out == expected
    assert len(vectors) == 12
    assert _run([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["captions"], answer["fitted"], answer["transformed"]) == (12, False, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--encoder", "one"], "nowhere: not a data set directory"),
        (["DATA"], "--encoder NAME, --import FILE and --text KIND"),
        (["DATA", "--encoder", "one", "--text", "mean"], "--encoder NAME"),
        (["DATA", "--encoder", "one", "--crops", "5"], "--crops 5"),
        (["DATA", "--encoder", "one", "--split", "test"], "no split 'test'"),
        (["DATA", "--import", "nowhere.npy"], "nowhere.npy"),
        (["DATA", "--text", "word2vec"], "mean, tfidf, fisher, hglmm"),
        (["DATA", "--text", "mean", "--vectors", "nowhere.txt"], "nowhere.txt"),
        (["DATA", "--text", "tfidf", "--train-split", "test"], "no split 'test'"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(
    data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert _run(["features", *(str(data) if word == "DATA" else word for word in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1
    assert not (data / "features").exists()


def test_an_unknown_encoder_is_named(deixis: Run, tmp_path: Path) -> None:
    make_data(tmp_path, 2)
    done = deixis("features", "data", "--encoder", "nobody")
    assert done.returncode == 2
    assert "no encoder nobody" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_loads_nothing_heavy() -> None:
    loaded = modules_after("-m", "deixis.cli.main", "features", "--help")
    assert loaded.isdisjoint({*HEAVY, "safetensors", "h5py"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "tfidf", "--crops", "10"], "--crops requires --encoder"),
        (["--text", "tfidf", "--proposals", "head"], "--proposals requires --encoder"),
        (["--encoder", "one", "--top", "5"], "--top requires --proposals"),
        (["--encoder", "one", "--ids", "names.txt"], "--ids requires --import"),
        (["--encoder", "one", "--vectors", "glove.txt"], "--vectors requires --text"),
    ],
)
def test_an_option_without_effect_is_refused(
    options: list[str], message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(["features", str(data), *options]) == 2
    assert capsys.readouterr().err == f"deixis: {message}\n"
    assert not (data / "features").exists()
