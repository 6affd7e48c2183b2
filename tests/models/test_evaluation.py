"""A search for phrases in all photos, against scores of single pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.evaluation.items import Protocol, distinct_phrases, localization_items, typical_wording
from deixis.evaluation.phrase_precision import CandidateBoxes, phrase_precision
from deixis.evaluation.phrase_presence import score_presence
from deixis.language.vocabulary import Vocabulary
from deixis.models import evaluation
from deixis.models.base import read_regions
from deixis.models.evaluation import search_phrases
from deixis.models.grounder.model import Grounder, GrounderPipeline
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.grounding import EmbeddingPipeline
from deixis.models.photo_features import PhotoFeatures
from tests.models.quarters import QUARTERS


@pytest.mark.parametrize("protocol", ["union", "any"])
def test_a_search_in_all_photos_equals_scores_of_single_pairs(
    cca: EmbeddingPipeline,
    quarters: Dataset,
    features: PhotoFeatures,
    protocol: Protocol,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = localization_items(quarters.split("dev"))
    items[::2] = [replace(item, boxes=(*item.boxes, QUARTERS[3])) for item in items[::2]]  # any is right, union not
    ids = quarters.split("dev").ids
    scores = np.zeros((len(distinct_phrases(items)), 3 * len(ids)), dtype=np.float32)
    for row, phrase in enumerate(typical_wording(items)):
        for place, photo_id in enumerate(ids):
            for number, vector in enumerate(features.proposal_vectors(photo_id)):
                visual = cca.model.prepare_visual(vector[None])
                scores[row, 3 * place + number] = cca.compare(visual, cca.encode_phrases([phrase]))[0, 0]
    regions = CandidateBoxes.from_boxes(dict.fromkeys(ids, QUARTERS[:3]))
    precision = phrase_precision(scores, items, regions, protocol=protocol)
    mentioned = np.zeros((len(scores), len(ids)), dtype=bool)
    for row, places in enumerate(distinct_phrases(items).values()):
        mentioned[row, [ids.index(items[place].photo) for place in places]] = True
    presence = score_presence(scores.reshape(len(scores), len(ids), 3).max(axis=2), mentioned)

    monkeypatch.setattr(evaluation, "_PAIRS_AT_ONCE", 3 * 3 * len(ids))
    found_precision, found_presence = search_phrases(cca, features, items, protocol)
    assert found_precision.photos == len(ids) == 8
    assert found_precision.ap == pytest.approx(precision.ap)
    assert found_precision.ap_nms == pytest.approx(precision.ap_nms)
    for phrase, row in precision.by_phrase.items():
        assert found_precision.by_phrase[phrase].ap == pytest.approx(row.ap)
    for name in ("ap", "roc", "pooled_roc", "share"):
        assert getattr(found_presence, name) == pytest.approx(getattr(presence, name))


def test_a_grounder_searches_phrases_in_all_photos_too(
    cca: EmbeddingPipeline, quarters: Dataset, features: PhotoFeatures
) -> None:
    dev = quarters.split("dev")
    items = localization_items(dev)
    contents = features.store.contents
    words = Vocabulary.fit([item.phrase.lower().split() for item in items])
    model = Grounder(
        contents.channels, contents.dimension, words, GrounderSettings(embedding_dim=4, hidden_size=4, word_dim=4)
    )
    found, _ = search_phrases(GrounderPipeline(model, cca.provenance), features, items)
    photos = [read_regions(features.store, photo_id, 3) for photo_id in dev.ids]
    scores = model.scores(model.prepare_visual(photos), model.prepare_text(typical_wording(items))).T
    regions = CandidateBoxes.from_boxes(dict.fromkeys(dev.ids, QUARTERS[:3]))
    assert found.ap == pytest.approx(phrase_precision(scores, items, regions).ap)
