"""Captions that workers generate equal those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.cluster import CaptionJob, ClusterWorkers, caption_photos, model_fingerprint
from deixis.errors import PhotoError
from deixis.models.captioner.spec import CaptionerDataSettings
from deixis.models.m_rnn import pipeline as captioning
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.pipeline import CaptionResult, load_captioner
from tests.cluster.conftest import tiny_encoder
from tests.models.coloured import make_coloured
from tests.models.small_captioner import train_small_captioner


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos in images and a captioner in m-rnn."""
    path = tmp_path_factory.mktemp("writing")
    data = CaptionerDataSettings(encoder=tiny_encoder(path / "tiny"), feature_grid=2)
    train_small_captioner(make_coloured(path), path / "m-rnn", data=data)
    return path


DECODINGS = [Decoding(beam=3, top=2), Decoding(method="sample", top=2, seed=5)]


@pytest.mark.parametrize("decoding", DECODINGS, ids=["beam", "sample"])
def test_workers_generate_the_captions_of_one_process(
    workers: ClusterWorkers, folder: Path, decoding: Decoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captioning, "_PHOTOS_PER_BLOCK", 16)  # as in the tasks of workers
    paths = sorted((folder / "images").iterdir())
    paths.insert(5, folder / "nothing.png")
    model = str(folder / "m-rnn")
    job = CaptionJob(model, model_fingerprint(model), decoding)
    alone = dict(load_captioner(folder / "m-rnn").caption_files(paths, decoding))
    many = dict(caption_photos(workers, job, paths))
    assert list(many) == paths
    for path, expected in alone.items():
        found = many[path]
        assert isinstance(found, CaptionResult) == isinstance(expected, CaptionResult)
        if isinstance(found, CaptionResult) and isinstance(expected, CaptionResult):
            assert [caption.words for caption in found.captions] == [caption.words for caption in expected.captions]
            probabilities = [caption.log_probability for caption in expected.captions]
            assert [caption.log_probability for caption in found.captions] == pytest.approx(probabilities, rel=1e-4)
    missing = many[folder / "nothing.png"]
    assert isinstance(missing, PhotoError)
    assert str(missing) == str(alone[folder / "nothing.png"])
