"""Shipping models and parts: new weights, the description and the card of the shipped one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import ship_model
from ship_model import ship_part

import deixis
from deixis.language.vectors import shipped_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.hm_lstm.pipeline import HMLSTMPipeline
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.installed import SHIPPED
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.storage.artifacts import WEIGHTS, Artifact, read_artifact, write_artifact


def test_description_and_card_are_kept_and_the_rest_is_replaced(tmp_path: Path) -> None:
    described = {"summary": "tags words", "licence": "free", "opened_by": "open()"}
    old = Artifact("tagger", {"bits": 1}, {"a": np.zeros(2)}, provenance={**described, "seed": 1}, card="# Card\n")
    write_artifact(tmp_path / "tagger", old)
    ship_part(Artifact("tagger", {"bits": 2}, {"a": np.ones(3)}, provenance={"seed": 2}), tmp_path / "tagger")
    found = read_artifact(tmp_path / "tagger")
    assert (found.settings, found.card, found.provenance) == ({"bits": 2}, "# Card\n", {**described, "seed": 2})
    np.testing.assert_array_equal(found.arrays["a"], np.ones(3))


TEXTS = ["A man in an orange hat pets his dog.", "two dogs", "A puppy"]
DESCRIPTION = ("--summary=compares", "--trained-on=photos", "--licence=free", "--scores", "of=dev", "i2t_r1=50.8")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HMLSTMPipeline:
    """A model in ``run``, of the settings that ship but untrained; the package is a temporary directory."""
    monkeypatch.setattr(ship_model, "SHIPPED", tmp_path / "shipped")
    words = shipped_vectors().words[:4000]
    vocabulary = Vocabulary(tuple(words), tuple(range(len(words), 0, -1)))
    about = Provenance(EncoderInfo("deixis", "1"), "both")
    pipeline = HMLSTMPipeline(
        HMLSTM(384, shipped_vectors(), HMLSTMSettings(), vocabulary), about, card="# Made by training\n"
    )
    pipeline.save_pretrained(tmp_path / "run")
    return pipeline


def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Path:
    monkeypatch.setattr(sys, "argv", ["ship_model.py", str(tmp_path / "run"), "hm-lstm", *options])
    ship_model.main()
    return tmp_path / "shipped" / "hm-lstm"


def test_an_hm_lstm_is_shipped_in_four_megabytes(
    model: HMLSTMPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ship(tmp_path, monkeypatch, "--int8", *DESCRIPTION)
    assert sum(file.stat().st_size for file in folder.rglob("*")) < 4_000_000
    shipped = deixis.load(folder)
    exact, found = model.encode_sentences(TEXTS), shipped.encode_sentences(TEXTS)
    assert np.all((exact * found).sum(axis=1) > 0.999)
    assert (shipped.provenance.summary, shipped.provenance.scores) == ("compares", {"of": "dev", "i2t_r1": 50.8})
    assert shipped.card == "# Made by training\n"


def test_the_description_and_the_card_of_a_shipped_model_are_kept(
    model: HMLSTMPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ship(tmp_path, monkeypatch, *DESCRIPTION)
    (folder / "README.md").write_text("# By hand\n")
    shipped = deixis.load(ship(tmp_path, monkeypatch, "--int8", "--summary=grounds"))
    assert (shipped.provenance.summary, shipped.provenance.licence, shipped.card) == ("grounds", "free", "# By hand\n")


def test_a_new_model_without_a_description_is_refused(
    model: HMLSTMPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="--trained-on, --scores"):
        ship(tmp_path, monkeypatch, "--summary=compares", "--licence=free")
    assert not (tmp_path / "shipped").exists()


def test_graphs_are_exported_again_and_quantised_weights_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shipped" / "two-branch"
    shutil.copytree(SHIPPED / "two-branch", folder)
    weights, before = (folder / WEIGHTS).read_bytes(), deixis.load(folder).encode_sentences(TEXTS)
    os.utime(folder / "embed_text.onnx", (0, 0))
    monkeypatch.setattr(ship_model, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(sys, "argv", ["ship_model.py", str(folder), "two-branch"])
    ship_model.main()
    assert (folder / "embed_text.onnx").stat().st_mtime > 0
    assert (folder / WEIGHTS).read_bytes() == weights
    np.testing.assert_allclose(deixis.load(folder).encode_sentences(TEXTS), before, atol=1e-5)


def test_products_with_int8_weights_stay_when_graphs_are_exported_again(
    model: HMLSTMPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ship(tmp_path, monkeypatch, "--int8", "--products", *DESCRIPTION)
    files = [WEIGHTS, *(file.name for file in folder.glob("*.onnx"))]
    before = {name: (folder / name).read_bytes() for name in files}
    assert any(b"MatMulNBits" in content for content in before.values())
    monkeypatch.setattr(sys, "argv", ["ship_model.py", str(folder), "hm-lstm"])
    ship_model.main()
    assert {name: (folder / name).read_bytes() for name in files} == before
    exact, found = model.encode_sentences(TEXTS), deixis.load(folder).encode_sentences(TEXTS)
    assert np.all((exact * found).sum(axis=1) > 0.999)
