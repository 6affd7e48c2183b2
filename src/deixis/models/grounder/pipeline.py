"""The pipeline of the grounder, which encodes phrases in their sentence and all regions of a photo together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING

import numpy as np

from deixis.arrays import Floats
from deixis.geometry import Boxes
from deixis.language.sentence import Phrase, Sentence
from deixis.models.base import RegionInputs, read_regions
from deixis.models.describer.description import DescriptionSettings
from deixis.models.grounder.model import Grounder, GroundingOutput, RegionMembers, fit_box_sets, to_word_spans
from deixis.models.grounding import PhotoProposals, PhraseScores, RegionPipeline, make_region_inputs
from deixis.models.presence import PresenceModel
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from deixis.evaluation.items import Item
    from deixis.evaluation.predictions import Prediction
    from deixis.models.photo_features import PhotoFeatures
    from deixis.models.provenance import EncoderInfo


FITTED_PHRASES = 3000
"""Number of phrases that the selection of boxes is fitted to."""


class GrounderPipeline(RegionPipeline):
    """A grounder with its image encoder and region proposals."""

    MODEL = Grounder
    model: Grounder
    tasks = frozenset({"grounding"})
    uncalibrated_description = DescriptionSettings(prior=1.0, scale=0.5, bias=1.3)

    @property
    def capabilities(self) -> frozenset[str]:
        """Layers that combine regions and words leave no vectors for `describe`, unless presence was trained."""
        settings = self.model.settings
        return frozenset({"ground"} if settings.num_layers and not settings.presence_weight else {"ground", "describe"})

    @property
    def separates_boxes(self) -> bool:
        """Whether the model was trained to find one box for each thing that a phrase names."""
        return bool(self.model.settings.sets_weight)

    def encode_regions(self, regions: RegionInputs) -> Floats:
        return self.model.prepare_visual(regions)

    def score_phrases(self, regions: PhotoProposals, sentence: Sentence, phrases: Sequence[Phrase]) -> PhraseScores:
        inputs = make_region_inputs(regions, cells=self.model.settings.use_feature_map)
        spans = to_word_spans(sentence.tokens, [phrase.span for phrase in phrases])
        found = self.model.ground(inputs, *spans, presence=self._calibrated_presence is None)
        presence = found.presence
        if self._calibrated_presence is not None:
            presence = self._calibrated_presence.probabilities(inputs, phrases)
        size = np.tile(regions.features.size, 2)
        sets = None  # without regions there is nothing to select
        if len(inputs):
            sets = [replace(each, boxes=each.boxes * size) for each in self.model.select_boxes(found)]
        return PhraseScores(found.scores, found.boxes * size, presence, sets)

    @cached_property
    def _calibrated_presence(self) -> PresenceModel | None:
        """The photo model that presence was fitted to; None if there is none for this image encoder."""
        return self.presence_model(self.encoder)

    def presence_model(self, encoder: EncoderInfo) -> PresenceModel | None:
        opened = (each.open(encoder, self.photo_model) for each in self.model.presence_calibrations)
        return next((model for model in opened if model is not None), None)

    def proposal_vectors(self, features: PhotoFeatures, photo_id: str) -> Floats:
        return self.model.prepare_visual(read_regions(features.store, photo_id, features.max_proposals))

    def predict_boxes(
        self, features: PhotoFeatures, items: Sequence[Item], on_progress: OnProgress = no_progress
    ) -> list[Prediction]:
        from deixis.evaluation.predictions import Prediction

        found: list[Prediction] = []
        for in_caption, proposals, output in self._ground_captions(features, items):
            size = np.tile(features.store.sizes([in_caption[0].photo])[0], 2)
            sets = self.model.select_boxes(output) if len(proposals) and self.separates_boxes else None
            for row, item in enumerate(in_caption):
                boxes, scores = proposals.astype(np.float64), output.scores[row].astype(np.float64)
                if len(boxes):  # only the best box of a phrase is refined
                    best = int(np.argmax(scores))
                    boxes[best] = output.boxes[row, best].astype(np.float64) * size
                selected = None if sets is None else sets[row].boxes * size
                found.append(Prediction(item.photo, item.caption, item.span, boxes, scores, selected=selected))
            on_progress("grounding phrases", len(found), len(items))
        return found

    def fit_selection(self, features: PhotoFeatures, on_progress: OnProgress = no_progress) -> None:
        """Fit the thresholds of the selection of boxes to the phrases of the first photos that have boxes."""
        from deixis.evaluation.items import localization_items

        phrases: list[tuple[RegionMembers, Boxes]] = []
        items = list(islice(localization_items(features.photos), FITTED_PHRASES))
        for in_caption, proposals, output in self._ground_captions(features, items):
            if len(proposals):
                size = np.tile(features.store.sizes([in_caption[0].photo])[0], 2)
                golds = [np.array(item.boxes) / size for item in in_caption]
                phrases += zip(self.model.members(output), golds, strict=True)
            on_progress("fitting the selection of boxes", len(phrases), len(items))
        self.model.box_sets = fit_box_sets(phrases)

    def _ground_captions(
        self, features: PhotoFeatures, items: Sequence[Item]
    ) -> Iterator[tuple[list[Item], Boxes, GroundingOutput]]:
        """The items of each caption, the proposals of their photo, and the output of the model."""
        records = {photo.id: photo for photo in features.photos}
        most = self.provenance.max_proposals
        for photo_id, photo_items in groupby(items, key=lambda item: item.photo):
            regions = read_regions(features.store, photo_id, most, cells=self.model.settings.use_feature_map)
            proposals = features.store.proposals(photo_id).boxes[:most]
            for caption, caption_items in groupby(photo_items, key=lambda item: item.caption):
                in_caption = list(caption_items)
                tokens = records[photo_id].captions[caption].tokens
                spans = to_word_spans(tokens, [item.span for item in in_caption])
                yield in_caption, proposals, self.model.ground(regions, *spans)
