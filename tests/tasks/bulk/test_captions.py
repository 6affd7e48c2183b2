"""Captions by workers are those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from deixis.errors import DeixisError, PhotoError
from deixis.models.decoding import Decoding
from deixis.tasks.bulk.captions import CaptionPlan, captions_by
from deixis.tasks.bulk.workers import Workers
from deixis.tasks.captions import captioning
from deixis.tasks.captions.captioning import CaptionResult, load_captioner
from deixis.tasks.fit.m_rnn import CaptionData
from deixis.vision.encoders.opened import IMAGENET
from deixis.vision.encoders.own import save_network
from deixis.vision.encoders.vit import VisionTransformer, ViTShape
from tests.tasks.coloured import make_coloured
from tests.tasks.writing import train_writer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in ./images, and in ./m-rnn a model that writes about them."""
    folder = tmp_path_factory.mktemp("writing")
    torch.manual_seed(0)
    save_network(
        folder / "tiny.safetensors", VisionTransformer(ViTShape(width=32, heads=2, blocks=2, grid=4)), 56, IMAGENET
    )
    data = CaptionData(encoder=f"deixis:{folder / 'tiny.safetensors'}", cells=2)
    train_writer(make_coloured(folder), folder / "m-rnn", data=data)
    return folder


HOW = [Decoding(beam=3, count=2), Decoding(method="sample", count=2, seed=5)]


@pytest.mark.parametrize("how", HOW, ids=["beam", "sample"])
def test_workers_write_what_one_process_writes(
    workers: Workers, made: Path, how: Decoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captioning, "_AT_ONCE", 16)  # here, as the parts of the workers
    paths = sorted((made / "images").iterdir())
    paths.insert(5, made / "nothing.png")
    plan = CaptionPlan.of(str(made / "m-rnn"), how)
    alone = dict(load_captioner(made / "m-rnn").caption_files(paths, how))
    many = dict(captions_by(workers, plan, paths))
    assert list(many) == paths
    assert {path: found for path, found in many.items() if isinstance(found, CaptionResult)} == {
        path: found for path, found in alone.items() if isinstance(found, CaptionResult)
    }
    missing = many[made / "nothing.png"]
    assert isinstance(missing, PhotoError)
    assert str(missing) == str(alone[made / "nothing.png"])


def test_a_worker_with_another_model_is_refused(workers: Workers, made: Path) -> None:
    plan = CaptionPlan(str(made / "m-rnn"), "another", HOW[0])
    with pytest.raises(DeixisError, match="a worker has another version of the model "):
        list(captions_by(workers, plan, [made / "images" / "0000.png"]))
