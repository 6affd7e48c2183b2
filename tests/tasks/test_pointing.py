"""A model points at regions: the same scores one pair at a time, from stored features or from a photo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.of_data import regions_of
from deixis.evaluation.phrase_precision import phrase_precision
from deixis.evaluation.phrase_presence import presence
from deixis.evaluation.phrase_regions import Regions, distinct_phrases, usual_words
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder import Grounder, GrounderSettings
from deixis.tasks import pointing
from deixis.tasks.bundle import Bundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.cca import fit_cca
from deixis.tasks.learning import Learning
from deixis.tasks.pointing import gold_region_scores, predictions_of, region_scores, score_over_all_photos
from deixis.tasks.scores.scoring import seen_photos
from deixis.training.grounder_examples import region_inputs
from tests.tasks.coloured import SMALL
from tests.tasks.quarters import QUARTERS, make_quarters, use_small_encoders


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path)


@pytest.fixture(params=[0.0, 2.0], ids=["looks", "looks and places"])
def bundle(dataset: Dataset, request: pytest.FixtureRequest) -> Bundle:
    learning = Learning(learn="phrases", top=3, place=request.param)
    return fit_cca(dataset, replace(SMALL, components=3), learning).bundle


@pytest.fixture(params=["computed", "found"])
def seen(bundle: Bundle, dataset: Dataset, request: pytest.FixtureRequest) -> SeenPhotos:
    computed = seen_photos(bundle, dataset, dataset.split("dev"), regions=True)
    found = seen_photos(bundle, dataset, dataset.split("dev"), regions=True)
    return found if request.param == "found" else computed


def test_predictions_are_the_scores_of_the_photo_itself(bundle: Bundle, dataset: Dataset, seen: SeenPhotos) -> None:
    items = localization_items(dataset.split("dev"))
    found = predictions_of(bundle, seen, items)
    assert [prediction.key for prediction in found] == [(item.photo, item.caption, item.span) for item in items]
    for item, prediction in zip(items, found, strict=True):
        photo = bundle.image_encoder.encode([open_photo(dataset.path_of(dataset.photo(item.photo)))])[0]
        assert prediction.boxes.tolist() == [list(box) for box in QUARTERS[:3]]
        plain = region_scores(bundle, photo, QUARTERS[:3], [item.phrase])[:, 0]
        np.testing.assert_allclose(prediction.scores, plain, atol=0.02)  # stored in half precision


def test_gold_regions_meet_all_phrases(bundle: Bundle, dataset: Dataset, seen: SeenPhotos) -> None:
    gold = regions_of(dataset.split("dev"))
    scores = gold_region_scores(bundle, seen, gold)
    assert scores.shape == (len(gold.boxes), len(gold.phrases))
    ids = dataset.split("dev").ids
    for row in (0, 5, len(gold.boxes) - 1):
        photo = seen.store.map(ids[gold.photo_of_region[row]])
        plain = region_scores(bundle, photo, [gold.boxes[row]], gold.phrases)
        np.testing.assert_allclose(scores.rows(row, row + 1), plain, atol=1e-4)


def test_no_region_and_no_phrase_give_no_scores(bundle: Bundle, dataset: Dataset, seen: SeenPhotos) -> None:
    photo = seen.store.map(dataset.split("dev").ids[0])
    assert region_scores(bundle, photo, np.zeros((0, 4)), ["a dog"]).shape == (0, 1)
    assert region_scores(bundle, photo, QUARTERS, []).shape == (4, 0)


@pytest.mark.parametrize("protocol", ["union", "any"])
def test_phrases_are_looked_for_in_all_photos_as_one_pair_at_a_time(
    bundle: Bundle, dataset: Dataset, seen: SeenPhotos, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = localization_items(dataset.split("dev"))
    items[::2] = [replace(item, boxes=(*item.boxes, QUARTERS[3])) for item in items[::2]]  # any is right, union not
    ids = dataset.split("dev").ids
    scores = np.zeros((len(distinct_phrases(items)), 3 * len(ids)), dtype=np.float32)
    for row, phrase in enumerate(usual_words(items)):
        for place, photo_id in enumerate(ids):
            for number, vector in enumerate(seen.proposal_vectors(photo_id)):
                visual = bundle.model.prepare_visual(vector[None])
                scores[row, 3 * place + number] = bundle.similarity(visual, bundle.encode_sentences([phrase]))[0, 0]
    regions = Regions.of(dict.fromkeys(ids, QUARTERS[:3]))
    precision = phrase_precision(scores, items, regions, protocol=protocol)
    said = np.zeros((len(scores), len(ids)), dtype=bool)
    for row, places in enumerate(distinct_phrases(items).values()):
        said[row, [ids.index(items[place].photo) for place in places]] = True
    there = presence(scores.reshape(len(scores), len(ids), 3).max(axis=2), said)

    monkeypatch.setattr(pointing, "_PAIRS_AT_ONCE", 3 * 3 * len(ids))
    found = score_over_all_photos(bundle, seen, items, protocol=protocol)
    assert found.precision.photos == len(ids) == 8
    assert found.precision.ap == pytest.approx(precision.ap)
    assert found.precision.ap_nms == pytest.approx(precision.ap_nms)
    for phrase, row in precision.by_phrase.items():
        assert found.precision.by_phrase[phrase].ap == pytest.approx(row.ap)
    for name in ("ap", "roc", "pooled_roc", "share"):
        assert getattr(found.presence, name) == pytest.approx(getattr(there, name))


def test_each_pair_of_a_phrase_and_a_region_is_scored_once(
    bundle: Bundle, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = seen_photos(bundle, dataset, dataset.split("dev"), regions=True)
    items = localization_items(dataset.split("dev"))
    scored, told = [], []
    similarity = bundle.similarity
    monkeypatch.setattr(bundle, "similarity", lambda *both: scored.append(similarity(*both).size) or similarity(*both))
    monkeypatch.setattr(pointing, "_PAIRS_AT_ONCE", 2 * 24)
    score_over_all_photos(bundle, seen, items, on_progress=lambda *said: told.append(said))
    phrases = len(distinct_phrases(items))
    assert sum(scored) == 24 * phrases
    assert max(scored) == 2 * 24
    assert told[7] == ("reading regions", 8, 8)
    assert told[8][1:] == (2, phrases)
    assert told[-1] == ("looking for phrases in all photos", phrases, phrases)


def test_a_grounder_looks_for_phrases_in_all_photos_too(dataset: Dataset) -> None:
    dev = dataset.split("dev")
    items = localization_items(dev)
    cca = fit_cca(dataset, replace(SMALL, components=3), Learning(learn="phrases", top=3)).bundle
    seen = seen_photos(cca, dataset, dev, regions=True)
    contents = seen.store.contents
    words = Vocabulary.fit([item.phrase.lower().split() for item in items])
    model = Grounder(contents.channels, contents.dimension, words, GrounderSettings(dimension=4, hidden=4, word_size=4))
    found = score_over_all_photos(Bundle(cca.encoder, None, model, cca.learned), seen, items)
    photos = [region_inputs(seen.store, photo_id, 3) for photo_id in dev.ids]
    scores = model.scores(model.prepare_visual(photos), model.prepare_text(usual_words(items))).T
    regions = Regions.of(dict.fromkeys(dev.ids, QUARTERS[:3]))
    assert found.precision.ap == pytest.approx(phrase_precision(scores, items, regions).ap)
