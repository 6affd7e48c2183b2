"""The pipeline of the HM-LSTM: a phrase is a node of its sentence's tree, and the whole photo is a candidate region."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from deixis.evaluation.items import Item
from deixis.evaluation.predictions import Prediction
from deixis.geometry import Boxes
from deixis.language.sentence import Phrase, Sentence
from deixis.models.grounding import EmbeddingPipeline, PhotoProposals, PhraseScores
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.photo_features import PhotoFeatures
from deixis.models.region_inputs import append_locations, append_whole_location
from deixis.storage.progress import OnProgress, no_progress


class HMLSTMPipeline(EmbeddingPipeline):
    """An HM-LSTM with its image encoder and region proposals."""

    MODEL = HMLSTM
    model: HMLSTM
    grounds_nested_phrases = True  # every noun phrase of a tree is a node

    def score_phrases(self, regions: PhotoProposals, sentence: Sentence, phrases: Sequence[Phrase]) -> PhraseScores:
        photo, boxes, weight = regions.features, regions.proposals.boxes, self.provenance.location_weight
        whole = append_whole_location(photo.photo_vector(self.encoder.photo_vector)[None], weight)
        vectors = np.vstack([whole, append_locations(photo.regions(boxes), boxes, photo.size, weight)])
        scores = self.model.scores_in_photo(self.model.prepare_visual(vectors), self.model.prepare_text(phrases)).T
        candidates = _add_whole_photo(boxes, photo.size)
        return PhraseScores(scores, np.broadcast_to(candidates, (*scores.shape, 4)), are_cosines=True)

    def predict_boxes(
        self, features: PhotoFeatures, items: Sequence[Item], on_progress: OnProgress = no_progress
    ) -> list[Prediction]:
        text = self.model.prepare_text(_phrases_in_sentences(features, items))
        row_of = {photo_id: row for row, photo_id in enumerate(features.photos.ids)}
        sizes = features.store.sizes(features.photos.ids)
        found: list[Prediction] = []
        for photo_id, photo_items in groupby(items, key=lambda item: item.photo):
            in_photo, row = list(photo_items), row_of[photo_id]
            boxes = _add_whole_photo(features.proposals(photo_id), sizes[row])
            vectors = np.vstack([features.vectors(row, row + 1), features.proposal_vectors(photo_id)])
            phrases = text[len(found) : len(found) + len(in_photo)]
            scores = self.model.scores_in_photo(self.model.prepare_visual(vectors), phrases).astype(np.float64)
            found += [
                Prediction(item.photo, item.caption, item.span, boxes, scores[:, column])
                for column, item in enumerate(in_photo)
            ]
            on_progress("grounding phrases", len(found), len(items))
        return found


def _add_whole_photo(boxes: npt.ArrayLike, size: npt.ArrayLike) -> Boxes:
    return np.vstack([[0, 0, *np.asarray(size)], np.asarray(boxes).reshape(-1, 4)]).astype(np.float64)


def _phrases_in_sentences(features: PhotoFeatures, items: Sequence[Item]) -> list[Phrase]:
    records = {photo.id: photo for photo in features.photos}
    sentences: dict[tuple[str, int], Sentence] = {}
    for item in items:
        key = item.photo, item.caption
        if key not in sentences:
            sentences[key] = Sentence.from_caption(records[item.photo].captions[item.caption])
    return [sentences[item.photo, item.caption].phrase(*item.span) for item in items]
