"""Synthetic photos in which phrases name the colours of regions, for the grounder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.language.vocabulary import WordTable
from deixis.models.grounder.data import GroundingExamples, build_vocabulary, collect_examples
from deixis.models.grounder.model import Grounder
from deixis.models.grounder.objective import GroundingObjective, GroundingSampler, score_examples
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.training.objective import DevScores
from deixis.models.training.run_record import DataDescription, RunDescription
from deixis.models.training.settings import TrainSettings, settings_to_json
from deixis.models.training.trainer import Trainer
from deixis.vision.encoder import FeatureMap
from deixis.vision.proposals import Proposals

COLOURS = ("red", "green", "blue", "white", "black", "yellow")
CHANNELS, WHOLE = 8, 5
SMALL = GrounderSettings(embedding_dim=16, word_dim=12, hidden_size=8, dropout=0.0, word_dropout=0.0, min_count=1)


class MadeUpStore:
    """A fake `FeatureStore`: the first proposals of a photo are near its boxes; `counts` limits their number."""

    def __init__(self, photos: list[Photo], counts: dict[str, int] | None = None, proposals: int = 9) -> None:
        self.photos = {photo.id: photo for photo in photos}
        self.counts = counts or {}
        self.most = proposals

    def sizes(self, ids: list[str]) -> np.ndarray:
        return np.array([(self.photos[one].width, self.photos[one].height) for one in ids])

    def whole(self, ids: list[str]) -> np.ndarray:
        return np.stack([self._rng(one, 1).normal(size=WHOLE) for one in ids]).astype(np.float32)

    def map(self, photo_id: str) -> FeatureMap:
        rows = 3 + int(photo_id) % 2  # maps of different sizes
        cells = self._rng(photo_id, 2).normal(size=(CHANNELS, rows, 4)).astype(np.float32)
        return FeatureMap(cells, self.whole([photo_id])[0], (100, 80))

    def proposals(self, photo_id: str) -> Proposals:
        rng = self._rng(photo_id, 3)
        gold = np.array([box.xyxy for box in self.photos[photo_id].boxes]).reshape(-1, 4)
        near = gold + rng.uniform(-2, 2, gold.shape)
        corner = rng.uniform(0, 50, (self.most, 2))
        others = np.hstack([corner, corner + rng.uniform(5, 25, (self.most, 2))])
        boxes = np.vstack([near, others])[: self.counts.get(photo_id, self.most)]
        return Proposals(boxes, np.sort(rng.uniform(0.05, 0.9, len(boxes)))[::-1])

    def proposal_vectors(self, photo_id: str) -> np.ndarray:
        rng = self._rng(photo_id, 4)
        boxes, count = self.photos[photo_id].boxes, len(self.proposals(photo_id).boxes)
        vectors = 0.1 * rng.normal(size=(max(count, len(boxes)), CHANNELS))
        for row, box in enumerate(boxes):
            vectors[row, COLOURS.index(box.chains[0])] += 1
        return vectors[:count].astype(np.float32)

    def _rng(self, photo_id: str, what: int) -> np.random.Generator:
        return np.random.default_rng([int(photo_id), what])


def made_photos(count: int = 12, seed: int = 0, captions: int = 2) -> list[Photo]:
    """Photos of three things of different colours; each caption names two of them."""
    rng = np.random.default_rng(seed)
    photos = []
    for number in range(count):
        shown = [str(colour) for colour in rng.permutation(COLOURS)[:3]]
        boxes = tuple(
            Box((5.0 + 30 * index, 10.0 + 5 * index, 30.0 + 30 * index, 50.0 + 5 * index), (colour,))
            for index, colour in enumerate(shown)
        )
        sentences = tuple(caption_of(*(str(one) for one in rng.permutation(shown)[:2])) for _ in range(captions))
        photos.append(Photo(str(number + 1000 * seed), sentences, tuple(map(Chain, shown)), boxes, 100, 80))
    return photos


def caption_of(first: str, second: str) -> Caption:
    text = f"Look, a shiny {first} by one {second}."
    phrases = [(f"a shiny {first}", first, "other"), (f"one {second}", second, "people")]
    mentions = (
        Mention(text.index(phrase), text.index(phrase) + len(phrase), chain, (kind,)) for phrase, chain, kind in phrases
    )
    return Caption.from_text(text, tuple(mentions))


def made_examples(
    settings: GrounderSettings = SMALL, count: int = 12, seed: int = 0, counts: dict[str, int] | None = None
) -> GroundingExamples:
    photos = made_photos(count, seed)
    vocabulary = build_vocabulary(made_photos(), settings.min_count)
    return collect_examples(photos, MadeUpStore(photos, counts), WordTable(vocabulary), settings, max_proposals=7)  # type: ignore[arg-type]


def made_model(settings: GrounderSettings = SMALL, seed: int = 0) -> Grounder:
    torch.manual_seed(seed)
    return Grounder(CHANNELS, WHOLE, build_vocabulary(made_photos(), settings.min_count), settings)


def trainer(out: Path, settings: GrounderSettings, training: TrainSettings) -> Trainer[torch.Tensor]:
    model, examples = made_model(settings, training.seed), made_examples(settings)
    return Trainer(
        model.network,
        GroundingSampler(examples, training.batch_size),
        GroundingObjective(settings, examples),
        training,
        out,
        about=RunDescription(
            "grounder", settings_to_json(settings), DataDescription("made up", "", {}, "free for all")
        ),
        keep=model.save,
        evaluate={"dev": lambda: DevScores("r1", score_examples(model.network, examples))},
    )
