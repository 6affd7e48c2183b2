"""Encoders of models: opened once for all of them."""

from __future__ import annotations

import gc

import pytest

from deixis.errors import DeixisError
from deixis.models.provenance import EncoderInfo
from deixis.vision import encoders
from tests.vision.feature_store.small import colour_encoder


def test_models_share_an_open_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_encoder(name: str, device: str | None = None) -> object:
        opened.append(name)
        return colour_encoder()

    monkeypatch.setattr(encoders, "open_encoder", open_encoder)
    fingerprint = colour_encoder().fingerprint
    one, other = (EncoderInfo("a test's own", fingerprint, crops).open() for crops in (0, 10))
    assert one is other
    assert len(opened) == 1
    del one, other
    gc.collect()
    EncoderInfo("a test's own", fingerprint).open()
    assert len(opened) == 2


def test_only_the_encoder_of_the_package_has_a_fast_one() -> None:
    assert EncoderInfo("deixis", "0", feature_grid=9).faster().feature_grid == 9
    with pytest.raises(DeixisError, match="efficientnet-lite2"):
        EncoderInfo("efficientnet-lite2", "0").faster()
