"""Models of OpenCLIP as pipelines: with a substitute for the package, and with the package if it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.models.open_clip import load_open_clip
from tests.models import clip_substitute
from tests.models.clip_substitute import SmallClip, save_weights

PHOTOS = [SAMPLES / "images" / name for name in ("cat.jpg", "dogs.jpg", "bee.jpg")]


@torch.no_grad()
def test_vectors_are_the_outputs_of_the_network_at_length_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clip_substitute.install(monkeypatch)
    model = deixis.load(f"open-clip:small:{save_weights(tmp_path / 'weights.pt')}", device="cpu")
    network = SmallClip()
    network.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    for vectors, expected in (
        (
            model.encode_images([*PHOTOS, Image.open(PHOTOS[0])]),
            network.encode_image(
                torch.stack([clip_substitute.small_transform(Image.open(path)) for path in [*PHOTOS, PHOTOS[0]]])
            ),
        ),
        (
            model.encode_sentences(["a cat", ["a", "cat"], Sentence("a cat")]),
            network.encode_text(clip_substitute.small_tokenizer(["a cat"] * 3)),
        ),
    ):
        lengths = np.linalg.norm(expected.numpy(), axis=1, keepdims=True)
        np.testing.assert_allclose(vectors, expected.numpy() / lengths, atol=1e-6)
    photos, sentences = model.encode_images(PHOTOS), model.encode_sentences(["a cat", "a dog"])
    np.testing.assert_allclose(model.similarity(photos, sentences), photos @ sentences.T)
    assert model.encode_images([]).shape == model.encode_sentences([]).shape == (0, 5)


def test_weights_are_a_file_or_a_name_by_default_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = clip_substitute.install(monkeypatch)
    save_weights(tmp_path / "weights.pt")
    monkeypatch.chdir(tmp_path)
    names = [deixis.load(name).name for name in ("open-clip:small", "open-clip:small:laion")]
    assert names == ["open-clip:small:openai", "open-clip:small:laion"]
    assert deixis.load("open-clip:small:weights.pt").name == f"open-clip:small:{tmp_path / 'weights.pt'}"
    used = [(call["pretrained"], call["force_quick_gelu"]) for call in calls]
    assert used == [("openai", True), ("laion", False), (str(tmp_path / "weights.pt"), False)]


def test_the_fingerprint_depends_on_the_weights_but_not_on_their_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clip_substitute.install(monkeypatch)
    files = [save_weights(tmp_path / "a.pt"), save_weights(tmp_path / "b.pt"), save_weights(tmp_path / "c.pt", seed=2)]
    first, second, third = (load_open_clip(f"open-clip:small:{file}").encoder.fingerprint for file in files)
    assert first == second != third


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("open-clip:", "name an architecture"),
        ("open-clip:small:none.pt", "none.pt: no such file; OpenCLIP downloads openai, laion$"),
        ("open-clip:bare", "open-clip:bare: give a file of weights"),
        ("open-clip:small:{file}", r"open-clip:small:.*weights.pt: OpenCLIP cannot open it"),
        ("open-clip:hf-hub:some/where", r"open-clip:hf-hub:some/where: OpenCLIP cannot open it \(Model config"),
    ],
)
def test_an_error_is_one_line_that_names_the_model(
    name: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clip_substitute.install(monkeypatch)
    (tmp_path / "weights.pt").write_bytes(b"no weights")
    with pytest.raises(DeixisError, match=line) as raised:
        deixis.load(name.format(file=tmp_path / "weights.pt"))
    assert "\n" not in str(raised.value)


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(DeixisError, match=r"open-clip:ViT-B-32 .*pip install 'deixis\[open-clip\]'"):
        deixis.load("open-clip:ViT-B-32")


def test_what_the_model_cannot_do_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clip_substitute.install(monkeypatch)
    model = deixis.load("open-clip:small")
    for action, line in (
        (lambda: model.ground(PHOTOS[0], "a cat"), "cannot ground phrases"),
        (lambda: model.save_pretrained(tmp_path / "saved"), "not saved"),
        (lambda: model.encode_sentences("a cat"), "give a list"),
        (lambda: model.encode_sentences([3]), r"sentences\[0\]: give a text, not int"),
    ):
        with pytest.raises(DeixisError, match=line):
            action()
