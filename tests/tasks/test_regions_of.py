"""Regions with their phrases, and how often a model finds them: as plain loops would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.pairs import RegionPhrasePairs
from deixis.data.records import Caption
from deixis.errors import DatasetError
from deixis.evaluation.grounding import localization
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.predictions import Prediction
from deixis.language.features import TfIdf
from deixis.language.sentence import Sentence
from deixis.models import CCA
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.learning import Learning, see_photos
from deixis.tasks.regions_of import phrase_vectors, region_set
from deixis.tasks.scores.localising import localisation_scores
from deixis.vision import proposals
from deixis.vision.proposals import Proposals
from tests.tasks.quarters import make_quarters, quarter_photo, use_small_encoders
from tests.vision.store.small import Corners

PHRASES = Learning(learn="phrases", top=4)


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 9)


@pytest.fixture
def seen(dataset: Dataset) -> SeenPhotos:
    return see_photos(dataset, dataset.photos, PHRASES)


def test_rows_are_the_regions_of_the_pairs(seen: SeenPhotos) -> None:
    found = region_set(seen, PHRASES)
    pairs = found.pairs
    assert found.vectors.dtype == np.float16
    assert len(found.vectors) == len(pairs.boxes) == 9 * (2 + 4)
    for row, (photo, box) in enumerate(zip(pairs.region_photo, pairs.boxes, strict=True)):
        plain = seen.store.map(pairs.photos[photo]).regions([box])[0]
        np.testing.assert_allclose(found.vectors[row], plain, atol=2e-3)


def test_gold_boxes_alone_need_no_proposals(seen: SeenPhotos) -> None:
    gold, everything = region_set(seen, PHRASES, gold_only=True), region_set(seen, PHRASES)
    assert len(gold.vectors) == 18
    np.testing.assert_array_equal(gold.vectors, everything.vectors[everything.pairs.gold])
    assert gold.pairs.phrases == everything.pairs.phrases


def test_relations_are_those_of_one_sentence_at_a_time(seen: SeenPhotos) -> None:
    found = region_set(seen, replace(PHRASES, relations=True)).pairs
    plain = RegionPhrasePairs.of_photos(
        seen.photos,
        seen.proposals,
        more_phrases=lambda caption, mentions: Sentence.of_caption(caption).relations(mentions),
    )
    assert found.phrases == plain.phrases
    np.testing.assert_array_equal(found.boxes, plain.boxes)
    assert len(found) > len(region_set(seen, PHRASES).pairs)


def test_so_many_regions_for_a_phrase(seen: SeenPhotos) -> None:
    pairs = region_set(seen, replace(PHRASES, most_regions=1)).pairs
    assert len(pairs) == len(pairs.phrases) < 18


def test_no_phrase_with_a_box_is_one_line_that_names_the_data(tmp_path: Path, dataset: Dataset) -> None:
    images = tmp_path / "images"
    photos = [replace(quarter_photo(images, 0), boxes=(), captions=(Caption.from_text("A photo."),))]
    make_dataset(tmp_path / "silent", photos, images=images)
    silent = Dataset(tmp_path / "silent")
    with pytest.raises(
        DatasetError, match="^silent: no phrase has a box: there are no pairs of a region and a phrase$"
    ):
        region_set(see_photos(silent, silent.photos, PHRASES), PHRASES, where="silent")


def test_phrases_come_in_chunks_and_keep_their_order() -> None:
    text = TfIdf(minimum=1).fit(["a red one", "a blue one"])
    many = [f"the {colour} one" for colour in ("red", "blue", "green")] * 700
    np.testing.assert_allclose(phrase_vectors(text, many), text.transform(many), atol=1e-3)


class Overlapping(Corners):
    """Proposes boxes that overlap the quarters in every way, exactly by half too."""

    name = "overlapping"
    # Each comes again, so that many are equally good.
    BOXES = 6 * ((4, 8, 12, 16), (0, 0, 16, 16), (8, 0, 16, 8), (0, 0, 8, 16), (0, 8, 3, 16), (0, 2, 8, 8))

    def propose(self, photo: object, features: object, top: int) -> Proposals:
        return Proposals(np.array(self.BOXES[:top], dtype=np.float64), np.linspace(1, 0.5, 36)[:top])


@pytest.mark.parametrize("flat", [False, True], ids=["scores", "equal scores"])
@pytest.mark.parametrize("top", [3, 36])
def test_localisation_is_what_the_evaluation_makes_of_the_same_boxes(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, flat: bool, top: int
) -> None:
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder=None: Overlapping())
    seen = see_photos(dataset, dataset.photos, replace(PHRASES, top=top))
    regions = region_set(seen, PHRASES)
    pairs = regions.pairs
    text = TfIdf(minimum=1).fit(pairs.phrases)
    model = CCA(2, 0.1).fit(regions.vectors[pairs.gold[pairs.chain]], text.transform(pairs.phrases)[pairs.phrase])
    if flat:
        model.correlations_ = np.zeros_like(model.correlations_)
    found = localisation_scores(model, regions, text.transform(pairs.phrases))
    predictions = []
    for item in localization_items(seen.photos):
        vectors = model.prepare_visual(seen.proposal_vectors(item.photo))
        scores = model.scores(vectors, model.prepare_text(text.transform([item.phrase])))[:, 0]
        predictions.append(Prediction(item.photo, item.caption, item.span, seen.proposals(item.photo), scores))
    plain = localization(predictions, localization_items(seen.photos), rounds=2)
    assert found == pytest.approx({name: getattr(plain, name) for name in ("r1", "r5", "r10", "upper_bound")})
    assert found["upper_bound"] == (0 if top == 3 else 100)
    if flat and top == 36:
        assert (found["r1"], found["r5"]) == (0, 100)
