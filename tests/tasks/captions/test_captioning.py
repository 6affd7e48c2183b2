"""Sentences for photos, from a bundle and from `deixis.caption`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.data.dataset import Dataset
from deixis.errors import DeixisError, PhotoError
from deixis.models.decoding import Decoding
from deixis.tasks.bundle import Bundle
from deixis.tasks.captions.captioning import CaptionBundle, load_captioner, model_photos, pooled_cells
from deixis.tasks.features_of import encode_photos
from deixis.tasks.fit.m_rnn import CaptionData
from deixis.vision import encoders
from tests.tasks.coloured import COLOURS, make_coloured
from tests.tasks.writing import SMALL, train_writer
from tests.vision.store.small import colour_encoder


@pytest.fixture(autouse=True)
def _small_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in four colours in ./images, and in ./run a model that names them."""
    folder = tmp_path_factory.mktemp("writing")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_writer(make_coloured(folder), folder / "run")
    return folder


@pytest.fixture
def bundle(made: Path) -> CaptionBundle:
    return CaptionBundle.load(made / "run")


def test_photos_are_captioned_by_path_or_image_with_their_colours(made: Path, bundle: CaptionBundle) -> None:
    paths = [made / "images" / f"{number:04d}.png" for number in range(8, 12)]  # of dev
    found = bundle.caption(paths)
    assert [colour in result.text.split() for colour, result in zip(COLOURS, found, strict=True)] == [True] * 4
    with Image.open(paths[1]) as image:
        assert bundle.caption([image.convert("RGB")]) == [found[1]]
    assert bundle.caption([]) == []


def test_a_beam_gives_its_best_sentences_first(made: Path, bundle: CaptionBundle) -> None:
    [result] = bundle.caption([made / "images" / "0000.png"], Decoding(beam=4, count=3))
    likely = [caption.log_probability for caption in result.captions]
    assert likely == sorted(likely, reverse=True)
    assert result.text == result.captions[0].text
    assert [set(each) for each in result.as_json()["captions"]] == [{"text", "logprob", "perplexity"}] * 3


def test_first_words_are_kept_and_unknown_ones_refused_before_any_photo(made: Path, bundle: CaptionBundle) -> None:
    [result] = bundle.caption([made / "images" / "0000.png"], start="Everything here")
    assert result.text.startswith("everything here")
    with pytest.raises(DeixisError, match="the model does not know the word 'zebra'"):
        bundle.caption(["nowhere.png"], start="a zebra")
    with pytest.raises(DeixisError, match="the model does not know the word 'zebra'"):
        next(bundle.caption_files([Path("nowhere.png")], start="a zebra"))


def test_a_bad_file_gives_its_error_and_the_others_their_sentences(
    made: Path, bundle: CaptionBundle, tmp_path: Path
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    good = [made / "images" / f"{number:04d}.png" for number in range(2)]
    heard: list[int] = []
    paths = [good[0], tmp_path / "bad.jpg", good[1]]
    found = list(bundle.caption_files(paths, on_progress=lambda doing, done, total: heard.append(done)))
    assert [path for path, _ in found] == paths
    assert isinstance(found[1][1], PhotoError)
    assert [found[0][1], found[2][1]] == bundle.caption(good)
    assert heard == [1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "data"),
    [
        (replace(SMALL, attention=True), CaptionData(cells=2)),
        (SMALL, CaptionData(crops=10)),
        (replace(SMALL, photo_into="nowhere"), CaptionData()),
    ],
)
def test_a_file_is_seen_as_the_photos_of_the_data_were(made: Path, tmp_path: Path, settings, data) -> None:
    dataset = Dataset(made / "data", images=made / "images")
    train_writer(dataset, tmp_path / "run", settings=settings, data=data)
    bundle = CaptionBundle.load(tmp_path / "run")
    dev = dataset.split("dev")
    seen = encode_photos(dataset, dev, colour_encoder(), crops=data.crops)
    expected = [found[0].text for found in bundle.model.generate(bundle.photos_of(seen))]
    paths = [dataset.path_of(photo) for photo in dev]
    assert [result.text for _, result in bundle.caption_files(paths)] == expected
    assert [result.text for result in bundle.caption(paths)] == expected


def test_where_the_data_had_ten_crops_files_and_images_have_them_too(made: Path, tmp_path: Path) -> None:
    dataset = Dataset(made / "data", images=made / "images")
    train_writer(dataset, tmp_path / "run", data=CaptionData(crops=10))
    bundle = CaptionBundle.load(tmp_path / "run")
    framed = Image.new("RGB", (24, 24), "white")  # crops see less of the frame than the whole does
    framed.paste((200, 30, 30), (6, 6, 18, 18))
    framed.save(tmp_path / "framed.png")
    [[expected]] = bundle.model.generate(colour_encoder().encode_crops([framed]))
    [[whole]] = bundle.model.generate(colour_encoder().encode([framed])[0].whole[None])
    assert abs(expected.log_probability - whole.log_probability) > 0.01
    [(_, of_file)] = bundle.caption_files([tmp_path / "framed.png"])
    for result in (of_file, *bundle.caption([framed])):
        assert result.captions[0].log_probability == pytest.approx(expected.log_probability, abs=1e-4)  # type: ignore[union-attr]


def test_cells_of_a_data_set_are_those_of_its_maps(made: Path) -> None:
    dataset = Dataset(made / "data", images=made / "images")
    seen = encode_photos(dataset, dataset.split("dev"), colour_encoder())
    found = model_photos(seen, 2)
    for row, photo in enumerate(seen.photos.ids):
        expected = pooled_cells(seen.store.map(photo).cells, 2)
        np.testing.assert_allclose(found.cells[row], expected, atol=1e-3)  # type: ignore[union-attr]


def test_pooled_cells_are_means_row_by_row() -> None:
    cells = np.arange(2 * 4 * 4, dtype=np.float32).reshape(2, 4, 4)
    expected = [[cells[channel, y : y + 2, x : x + 2].mean() for channel in (0, 1)] for y in (0, 2) for x in (0, 2)]
    np.testing.assert_allclose(pooled_cells(cells, 2), expected)


def test_caption_is_a_name_of_the_package(made: Path) -> None:
    photo = made / "images" / "0000.png"
    found = deixis.caption(photo, beam=3, top=2, start="a", model=made / "run")
    assert len(found.captions) == 2
    assert found.text.startswith("a ")
    with pytest.raises(DeixisError, match="count=2: a beam of 1"):
        deixis.caption(photo, beam=1, top=2, model=made / "run")


def test_without_a_model_it_is_said_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeixisError, match="elsewhere: no such directory; make a model with: deixis train m-rnn"):
        load_captioner("elsewhere")


def test_models_of_the_other_kind_newer_and_damaged_ones_are_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="compares photos with sentences; one that writes captions is needed"):
        load_captioner("two-branch")
    with pytest.raises(DeixisError, match="writes captions; one that compares photos with sentences is needed"):
        Bundle.load(made / "run")
    about = json.loads((made / "run" / "model" / "bundle.json").read_text())
    for changed, words in (({"version": 2}, "written for version 2"), ({"cells": "few"}, "bundle.json")):
        (tmp_path / "bundle.json").write_text(json.dumps(about | changed))
        with pytest.raises(DeixisError, match=words):
            CaptionBundle.load(tmp_path)
