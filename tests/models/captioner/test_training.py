"""Training runs of the captioner on a data set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption
from deixis.errors import DatasetError, DeixisError, PhotoError
from deixis.models.captioner.pipeline import Captioner
from deixis.models.captioner.ranking import MatchRanking
from deixis.models.captioner.spec import CaptionerDataSettings, CaptionerSettings
from deixis.models.captioner.training import View, encode_views, random_views
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.models.provenance import EncoderInfo
from deixis.models.training.runner import TrainResult
from deixis.vision.encoder import FeatureMap, ImageEncoder
from tests.models.coloured import coloured_photos
from tests.models.small_captioner import BRIEF, SMALL, Train, brief_runs
from tests.vision.feature_store.small import colour_encoder


@pytest.fixture
def dataset(coloured_store: Path) -> Dataset:
    return Dataset(coloured_store / "data")


@pytest.fixture
def data(coloured_store: Path) -> CaptionerDataSettings:
    return CaptionerDataSettings(features_dir=str(coloured_store / "features"), feature_grid=2)


@pytest.fixture
def train_captioner(dataset: Dataset, data: CaptionerDataSettings, tmp_path: Path) -> Train:
    return brief_runs("captioner", dataset, tmp_path, data, SMALL)


def model_of(found: TrainResult) -> Captioner:
    return load_captioner(found.outcome.model).model


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[list[View]]:
    """The views that are encoded, each time by the encoder of the store."""
    chosen: list[list[View]] = []

    def encode(encoder: ImageEncoder, paths: Iterable[Path], views: Iterable[list[View]]) -> Iterator[list[FeatureMap]]:
        wanted = list(views)
        chosen.extend(wanted)
        yield from encode_views(encoder, paths, wanted)

    monkeypatch.setattr(EncoderInfo, "open", lambda self, device: colour_encoder())
    monkeypatch.setattr("deixis.models.captioner.training.encode_views", encode)
    return chosen


def test_training_on_views_learns_the_photos(
    train_captioner: Train, data: CaptionerDataSettings, views: list[list[View]]
) -> None:
    found = train_captioner(data=replace(data, views=4), training=replace(BRIEF, epochs=30, learning_rate=0.02))
    assert [len(each) for each in views] == [4] * 16
    assert (found.photos, found.sentences) == (16, 32)
    assert found.dev
    assert found.dev.scores["perplexity"] < 2


def test_attention_and_the_reward_take_views_too(
    train_captioner: Train, data: CaptionerDataSettings, views: list[list[View]]
) -> None:
    settings = replace(SMALL, attention_dim=8, max_length=8)
    first = train_captioner("likelihood", data=replace(data, views=3), settings=settings)
    rewarded = replace(data, views=3, objective="cider", init_from=str(first.outcome.model))
    second = train_captioner("rewarded", data=rewarded, settings=settings)
    assert np.isfinite(second.outcome.best.value)
    assert len(views) == 32


def test_kept_views_are_encoded_once_for_the_same_photos_and_settings(
    train_captioner: Train, data: CaptionerDataSettings, tmp_path: Path, views: list[list[View]]
) -> None:
    kept = replace(data, views=3, views_folder=str(tmp_path / "views"))
    first = train_captioner("first", data=kept)
    second = train_captioner("second", data=kept)
    assert len(views) == 16
    assert second.outcome.best == first.outcome.best
    train_captioner("third", data=replace(kept, views=4))
    assert len(views) == 32


def test_photos_whose_captions_name_a_side_are_not_mirrored(
    train_captioner: Train, data: CaptionerDataSettings, coloured_store: Path, tmp_path: Path, views: list[list[View]]
) -> None:
    photos = coloured_photos(coloured_store / "images", 24)
    aside = replace(photos[1], captions=(*photos[1].captions, Caption.from_text("A Left wall.")))
    make_dataset(tmp_path / "sides", [photos[0], aside, *photos[2:]], images=coloured_store / "images")
    train_captioner(on=Dataset(tmp_path / "sides"), data=replace(data, views=9))
    assert [any(view.mirrored for view in each) for each in views] == [True, False, *[True] * 14]


def test_views_need_photos(
    train_captioner: Train, data: CaptionerDataSettings, coloured_store: Path, tmp_path: Path
) -> None:
    make_dataset(tmp_path / "texts", coloured_photos(coloured_store / "images", 24))
    with pytest.raises(DatasetError, match="has no photos to encode"):
        train_captioner(on=Dataset(tmp_path / "texts"), data=replace(data, views=2))


def test_self_critical_training_starts_from_a_trained_model(
    train_captioner: Train, data: CaptionerDataSettings, tmp_path: Path
) -> None:
    data = replace(data, monitor="cider")
    settings = replace(SMALL, dropout=0.1)
    first = train_captioner("words", data=data, settings=settings)
    on = replace(data, objective="cider", init_from=str(tmp_path / "words"), reward_samples=3)
    training = replace(BRIEF, epochs=40, learning_rate=0.02, evaluate_every=10)
    then = train_captioner("cider", data=on, settings=replace(settings, dropout=0.0), training=training)
    assert first.outcome.best.monitor == then.outcome.best.monitor == "cider_d"
    assert then.outcome.best.scores["cider_d"] > first.outcome.best.scores["cider_d"]
    assert model_of(then).settings.dropout == 0


def test_wrong_words_lower_the_reward(train_captioner: Train, data: CaptionerDataSettings) -> None:
    settings, training = replace(SMALL, max_length=8), replace(BRIEF, epochs=1, log_every=1)
    first = train_captioner("likelihood", settings=settings, training=training)
    rewards = []
    for penalty in (0.0, 1.0):
        rewarded = replace(data, objective="cider", init_from=str(first.outcome.model), wrong_word_penalty=penalty)
        found = train_captioner(f"penalty-{penalty}", data=rewarded, settings=settings, training=training)
        log = (found.outcome.model.parent / "log.jsonl").read_text()
        rewards.append(json.loads(log.splitlines()[0])["terms"]["reward"])
    free, penalized = rewards  # of the same sentences: both begin with the same model
    assert penalized < free - 0.1


def test_training_photos_of_a_repeated_split_are_drawn_twice(
    train_captioner: Train, data: CaptionerDataSettings, dataset: Dataset
) -> None:
    training = replace(BRIEF, epochs=1, batch_size=1, log_every=1)
    first = train_captioner("likelihood", training=replace(BRIEF, epochs=1))
    photos = len(dataset.split("train"))
    for split, steps in (("", photos), ("train", 2 * photos), ("dev", photos)):
        on = replace(data, objective="cider", init_from=str(first.outcome.model), repeated_split=split)
        found = train_captioner(f"repeated-{split}", data=on, training=training)
        lines = map(json.loads, (found.outcome.model.parent / "log.jsonl").read_text().splitlines())
        assert sum("terms" in line for line in lines) == steps
    with pytest.raises(DatasetError, match="absent"):
        train_captioner("absent", data=replace(on, repeated_split="absent"), training=training)


def test_a_matching_model_is_saved_as_the_ranking_of_captions(
    train_captioner: Train, data: CaptionerDataSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = replace(data, match_model="two-branch", match_weight=0.5)
    with pytest.raises(DeixisError, match="match_model="):  # two-branch has other features
        train_captioner("refused", data=on)
    monkeypatch.setattr(MatchRanking, "open", lambda *_: None)
    pipeline = load_captioner(train_captioner("ranked", data=on).outcome.model)
    assert pipeline.ranking is not None
    assert (pipeline.ranking.model, pipeline.ranking.weight) == ("two-branch", 0.5)


def test_training_starts_only_from_the_same_network(
    train_captioner: Train, data: CaptionerDataSettings, tmp_path: Path
) -> None:
    first = train_captioner("first", training=replace(BRIEF, epochs=1))
    data = replace(data, init_from=str(tmp_path / "first"))
    still = replace(BRIEF, epochs=1, learning_rate=1e-12, seed=5)
    again = train_captioner("again", data=data, training=still)
    torch.testing.assert_close(model_of(again).network.state_dict(), model_of(first).network.state_dict())
    with pytest.raises(DeixisError, match="multimodal_dim=16, not multimodal_dim=20"):
        train_captioner(data=data, settings=replace(SMALL, multimodal_dim=20))
    with pytest.raises(DeixisError, match="feature_grid"):
        train_captioner(data=replace(data, feature_grid=1))
    with pytest.raises(DeixisError, match="nowhere"):
        train_captioner(data=replace(data, init_from="nowhere"))


def test_impossible_settings_are_named() -> None:
    data = {"reward_samples": 1, "feature_grid": 0, "repetition_penalty": -1}
    for kind, wrong in ((CaptionerDataSettings, data), (CaptionerSettings, {"dropout": 1.0, "attention_heads": 5})):
        for setting, value in wrong.items():
            with pytest.raises(DeixisError, match=f"{setting}={value}"):
                kind(**{setting: value})


def quarters(width: int = 40, height: int = 20) -> Image.Image:
    """A photo whose left half is red and right half blue, darker below."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, : width // 2, 0], pixels[:, width // 2 :, 2] = 200, 200
    pixels[height // 2 :] //= 2
    return Image.fromarray(pixels)


def test_views_are_the_photo_its_mirror_image_and_large_parts_of_it() -> None:
    views = random_views(200, np.random.default_rng(0))
    assert views[0] == View()
    assert views[1] == View(mirrored=True)
    sides = np.array([view.box for view in views[2:]])
    assert sides.min() >= 0
    assert sides.max() <= 1 + 1e-9
    areas = (sides[:, 2:] - sides[:, :2]).prod(axis=1)
    assert 0.45 < areas.min() < 0.6
    assert 0.9 < areas.max() <= 1
    assert 60 < sum(view.mirrored for view in views[2:]) < 140
    light = np.array([(view.brightness, view.contrast) for view in views[2:]])
    assert 0.7 <= light.min() < 0.75
    assert 1.25 < light.max() <= 1.3


def test_the_same_seed_gives_the_same_views() -> None:
    first, second, other = (random_views(5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == second != other


def test_a_view_shows_its_part_of_the_photo() -> None:
    right = np.asarray(View((0.5, 0.0, 1.0, 0.5)).of(quarters()))
    assert right.shape == (10, 20, 3)
    assert (right == (0, 0, 200)).all()
    mirrored = np.asarray(View(mirrored=True).of(quarters()))
    assert (mirrored[0, 0] == (0, 0, 200)).all()
    assert np.asarray(View(brightness=0.5).of(quarters()))[0, 0].tolist() == [100, 0, 0]
    flat = np.asarray(View(contrast=0.5).of(quarters()))
    assert 0 < flat[0, 0, 1] < flat[0, 0, 0] < 200


def test_a_view_of_a_tiny_photo_has_a_pixel() -> None:
    assert View((0.4, 0.4, 0.45, 0.45)).of(quarters(2, 2)).size == (1, 1)


def test_views_are_encoded_like_photos_of_what_they_show(tmp_path: Path) -> None:
    encoder, views = colour_encoder(), random_views(3, np.random.default_rng(0))
    paths = []
    for number in range(20):
        paths.append(tmp_path / f"{number}.png")
        quarters(40 + number, 30).save(paths[-1])
    found = list(encode_views(encoder, paths, [views] * 20))
    assert [len(photo) for photo in found] == [3] * 20
    for path, photo in zip(paths, found, strict=True):
        with Image.open(path) as opened:
            expected = encoder.encode([view.of(opened) for view in views])
        for view, other in zip(photo, expected, strict=True):
            np.testing.assert_array_equal(view.cells, other.cells)
            np.testing.assert_array_equal(view.whole, other.whole)


def test_a_photo_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PhotoError):
        list(encode_views(colour_encoder(), [tmp_path / "none.png"], [[View()]]))
