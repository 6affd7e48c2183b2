"""Grounding: by the shipped model in the sample photos, and by small models whose scores a plain loop can check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from deixis import geometry
from deixis.arrays import Floats
from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.evaluation.items import localization_items, regions_of
from deixis.models.base import append_locations
from deixis.models.grounder.pipeline import GrounderPipeline
from deixis.models.grounding import (
    ABSENT,
    BoxSet,
    EmbeddingPipeline,
    GroundedPhrase,
    Grounding,
    PhraseScores,
    RegionPipeline,
    load_grounding_model,
)
from deixis.models.photo_features import PhotoFeatures, compute_features
from deixis.models.training.data import MatchingDataSettings
from deixis.pictures.grounded import PhraseBoxes, draw_grounding
from deixis.vision.feature_map import FeatureMap
from tests.models.coloured import SMALL, fit_cca
from tests.models.quarters import QUARTERS

CAT = SAMPLES / "images" / "cat.jpg"


@pytest.fixture(scope="module")
def grounder() -> RegionPipeline:
    return load_grounding_model()


def test_every_noun_phrase_gets_a_box_within_the_photo(grounder: RegionPipeline) -> None:
    found = grounder.ground(CAT, "A cat with green eyes looks at the camera.")
    assert [phrase.text for phrase in found.phrases] == ["A cat", "green eyes"]
    with Image.open(CAT) as photo:
        assert found.size == photo.size
    for phrase in found.phrases:
        assert found.sentence[slice(*phrase.span)] == phrase.text
        x1, y1, x2, y2 = phrase.box
        assert 0 <= x1 < x2 <= found.size[0] + 0.01
        assert 0 <= y1 < y2 <= found.size[1] + 0.01
        assert 0 < phrase.region_probability <= 1
    assert found.phrases[0].types == ("animals",)


def test_most_phrases_of_the_sample_photos_are_found(grounder: RegionPipeline, sample_data: Dataset) -> None:
    hits = []
    for photo in sample_data.photos:
        regions = grounder.propose(sample_data.path_of(photo))
        for caption in photo.sentences:
            found = grounder.ground_regions(regions, caption.text)
            gold = {(m.start, m.end): photo.boxes_of(m.chain) for m in caption.mentions if m.chain}
            for phrase in found.phrases:
                if boxes := gold.get(phrase.span):
                    union = geometry.union(np.array([box.xyxy for box in boxes]))
                    hits.append(float(geometry.iou(union[None], np.array([phrase.box]))[0, 0]) >= 0.5)
    assert len(hits) > 30
    assert np.mean(hits) > 0.45


def test_scores_from_a_photo_equal_scores_from_its_feature_store(
    grounder: RegionPipeline, sample_data: Dataset
) -> None:
    """`evaluate grounding --model` and `ground` must not be two opinions."""
    some = sample_data.photos[:1]
    features = compute_features(
        sample_data, some, grounder.image_encoder, proposals=grounder.provenance.proposal_source
    )
    item = localization_items(some)[0]
    prediction = grounder.predict_boxes(features, [item])[0]
    best = prediction.boxes[int(np.argmax(prediction.scores))]
    caption = some[0].captions[item.caption]
    grounding = grounder.ground(sample_data.path_of(some[0]), caption.text)
    mine = next(phrase for phrase in grounding.phrases if phrase.span == item.span)
    np.testing.assert_allclose(mine.box, best, atol=2.0)


def test_a_sentence_without_noun_phrases_gives_no_boxes(grounder: RegionPipeline) -> None:
    assert grounder.ground(CAT, "").phrases == ()


def test_absent_phrases_are_reported_and_not_drawn() -> None:
    photo = Image.new("RGB", (80, 60), "white")
    there, away = (
        GroundedPhrase(text, span, ("animals",), (10.0, 10.0, 40.0, 50.0), 0.7, presence)
        for text, span, presence in (("A dog", (0, 5), ABSENT), ("a cat", (10, 15), ABSENT - 0.01))
    )
    found = Grounding("A dog and a cat.", (80, 60), (there, away))
    assert [phrase["absent"] for phrase in found.as_json()["phrases"]] == [False, True]
    expected = draw_grounding(photo, [(found.sentence, [PhraseBoxes(0, 5, (there.box,), ABSENT)])])
    assert found.draw(photo).tobytes() == expected.tobytes()


def test_a_phrase_has_one_box_unless_the_model_finds_several_things() -> None:
    one = GroundedPhrase("A dog", (0, 5), ("animals",), (10.0, 10.0, 40.0, 50.0), 0.7)
    assert one.boxes == (one.box,)
    assert Grounding("A dog.", (80, 60), (one,)).as_json()["phrases"][0]["boxes"] == [
        {"box": [10, 10, 40, 50], "score": 0.7}
    ]


def test_several_things_are_drawn_and_written_one_by_one(
    grounder: RegionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, left, right = [10.0, 10, 70, 50], [10.0, 10, 30, 50], [50.0, 10, 70, 50]
    sets = [BoxSet(np.array([right, left]), np.array([0.9, 0.8])), BoxSet(np.array([both]))]
    scores = PhraseScores(np.array([[0.0, -50], [0, -50]]), np.array([[both, left], [both, left]]), sets=sets)
    monkeypatch.setattr(grounder, "score_phrases", lambda *given: scores)
    photo = Image.new("RGB", (80, 60), "white")
    found = grounder.ground(photo, "Two dogs in snow.")
    assert [phrase.boxes for phrase in found.phrases] == [(tuple(right), tuple(left)), (tuple(both),)]
    dogs, snow = found.as_json()["phrases"]
    assert dogs["box"] == both
    assert dogs["boxes"] == [{"box": right, "score": 0.9}, {"box": left, "score": 0.8}]
    assert snow["boxes"] == [{"box": both, "score": 1.0}]
    drawn = [PhraseBoxes(0, 8, (tuple(right), tuple(left)), 1.0), PhraseBoxes(12, 16, (tuple(both),), 1.0)]  # type: ignore[arg-type]
    assert found.draw(photo).tobytes() == draw_grounding(photo, [(found.sentence, drawn)]).tobytes()


def test_proposals_of_another_version_are_refused(grounder: RegionPipeline) -> None:
    about = replace(grounder.provenance, proposals_fingerprint="0123")
    with pytest.raises(DeixisError, match="proposals head"):
        GrounderPipeline(grounder.model, about).ground(CAT, "A cat.")


@pytest.fixture(params=[0.0, 2.0], ids=["looks", "looks and places"])
def cca(quarters: Dataset, request: pytest.FixtureRequest) -> EmbeddingPipeline:
    data = MatchingDataSettings(train_on="phrases", max_proposals=3, location_weight=request.param)
    return fit_cca(quarters, replace(SMALL, embedding_dim=3), data)


@pytest.fixture
def features(cca: EmbeddingPipeline, quarters: Dataset) -> PhotoFeatures:
    return cca.features(quarters, quarters.split("dev"), regions=True)


def plain_scores(cca: EmbeddingPipeline, photo: FeatureMap, boxes: npt.ArrayLike, phrases: list[str]) -> Floats:
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    vectors = append_locations(photo.regions(boxes), boxes, photo.size, cca.provenance.location_weight)
    return cca.compare(cca.model.prepare_visual(vectors), cca.encode_phrases(phrases))


def test_predictions_equal_the_scores_of_the_photo(
    cca: EmbeddingPipeline, quarters: Dataset, features: PhotoFeatures
) -> None:
    items = localization_items(quarters.split("dev"))
    found = cca.predict_boxes(features, items)
    assert [prediction.key for prediction in found] == [(item.photo, item.caption, item.span) for item in items]
    for item, prediction in zip(items, found, strict=True):
        photo = cca.image_encoder.encode([open_photo(quarters.path_of(quarters.photo(item.photo)))])[0]
        assert prediction.boxes.tolist() == [list(box) for box in QUARTERS[:3]]
        plain = plain_scores(cca, photo, QUARTERS[:3], [item.phrase])[:, 0]
        np.testing.assert_allclose(prediction.scores, plain, atol=0.02)  # stored in half precision


def test_every_gold_region_is_scored_against_all_phrases(
    cca: EmbeddingPipeline, quarters: Dataset, features: PhotoFeatures
) -> None:
    gold = regions_of(quarters.split("dev"))
    scores = cca.region_scores(features, gold)
    assert scores.shape == (len(gold.boxes), len(gold.phrases))
    ids = quarters.split("dev").ids
    for row in (0, 5, len(gold.boxes) - 1):
        photo = features.store.map(ids[gold.photo_of_region[row]])
        plain = plain_scores(cca, photo, [gold.boxes[row]], gold.phrases)
        np.testing.assert_allclose(scores.rows(row, row + 1), plain, atol=1e-4)


def test_a_model_of_cosines_shows_the_similarity_of_the_best_region(cca: EmbeddingPipeline, quarters: Dataset) -> None:
    path = quarters.path_of(quarters.split("dev")[0])
    found = cca.ground(path, "A red square and a blue square.")
    proposed = cca.propose(path)
    plain = plain_scores(cca, proposed.features, proposed.proposals.boxes, [each.text for each in found.phrases])
    for column, phrase in enumerate(found.phrases):
        assert phrase.similarity == phrase.score == pytest.approx(float(plain[:, column].max()), abs=1e-4)
        assert phrase.region_probability is None
    shown = found.as_json()["phrases"][0]["boxes"][0]["score"]
    assert shown == pytest.approx(plain[:, 0].max(), abs=1e-3)
    assert found.draw(open_photo(path)).width > 0
