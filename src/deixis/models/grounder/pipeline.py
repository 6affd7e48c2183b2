"""The pipeline of the grounder, which encodes phrases in their sentence and all regions of a photo together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from deixis.arrays import Floats
from deixis.evaluation.items import Item
from deixis.evaluation.predictions import Prediction
from deixis.language.sentence import Phrase, Sentence
from deixis.models.describer.description import DescriptionSettings
from deixis.models.grounder.data import read_regions
from deixis.models.grounder.inputs import to_word_spans
from deixis.models.grounder.model import Grounder
from deixis.models.grounding import PhotoProposals, PhraseScores, RegionPipeline, make_region_inputs
from deixis.models.photo_features import PhotoFeatures, RegionInputs
from deixis.storage.artifacts import Artifact
from deixis.storage.progress import OnProgress, no_progress


class GrounderPipeline(RegionPipeline):
    """A grounder with its image encoder and region proposals."""

    model: Grounder
    tasks = frozenset({"grounding"})
    uncalibrated_description = DescriptionSettings(prior=1.0, scale=0.5, bias=1.3)

    @property
    def capabilities(self) -> frozenset[str]:
        """Layers that combine regions and words leave no vectors for `describe`, unless presence was trained."""
        settings = self.model.settings
        return frozenset({"ground"} if settings.num_layers and not settings.presence_weight else {"ground", "describe"})

    def encode_regions(self, regions: RegionInputs) -> Floats:
        return self.model.prepare_visual(regions)

    def presence(self, scores: Floats) -> Floats:
        if self.model.settings.presence_weight:
            return self.model.presence_probability(scores)
        return super().presence(scores)

    def score_phrases(self, regions: PhotoProposals, sentence: Sentence, phrases: Sequence[Phrase]) -> PhraseScores:
        inputs = make_region_inputs(regions, cells=self.model.settings.use_feature_map)
        found = self.model.ground(inputs, *to_word_spans(sentence.tokens, [phrase.span for phrase in phrases]))
        return PhraseScores(found.scores, found.boxes * np.tile(regions.features.size, 2), found.presence)

    def proposal_vectors(self, features: PhotoFeatures, photo_id: str) -> Floats:
        return self.model.prepare_visual(read_regions(features.store, photo_id, features.max_proposals))

    def predict_boxes(
        self, features: PhotoFeatures, items: Sequence[Item], on_progress: OnProgress = no_progress
    ) -> list[Prediction]:
        found: list[Prediction] = []
        records = {photo.id: photo for photo in features.photos}
        for photo_id, photo_items in groupby(items, key=lambda item: item.photo):
            regions = read_regions(
                features.store, photo_id, features.max_proposals, cells=self.model.settings.use_feature_map
            )
            proposals, size = features.proposals(photo_id), np.tile(features.store.sizes([photo_id])[0], 2)
            for caption, caption_items in groupby(photo_items, key=lambda item: item.caption):
                in_caption = list(caption_items)
                tokens = records[photo_id].captions[caption].tokens
                output = self.model.ground(regions, *to_word_spans(tokens, [item.span for item in in_caption]))
                for item, scores, refined in zip(in_caption, output.scores, output.boxes, strict=True):
                    boxes = proposals.astype(np.float64)
                    if len(boxes):  # only the best box of a phrase is refined
                        best = int(np.argmax(scores))
                        boxes[best] = refined[best].astype(np.float64) * size
                    found.append(Prediction(item.photo, item.caption, item.span, boxes, scores.astype(np.float64)))
            on_progress("grounding phrases", len(found), len(items))
        return found

    @classmethod
    def load_model(cls, artifact: Artifact) -> Grounder:
        return Grounder.from_artifact(artifact)
