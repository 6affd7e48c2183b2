"""What a network learns from and is watched on, as arrays: photos with sentences, or regions with phrases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.data.dataset import Dataset
from deixis.data.pairs import RegionPhrasePairs
from deixis.errors import DatasetError
from deixis.evaluation.retrieval import recall_at_k
from deixis.files.progress import OnProgress, silent
from deixis.language.features import TextFeatures
from deixis.models.similarity import SimilaritySettings
from deixis.models.two_branch import TwoBranchSettings
from deixis.tasks.features_of import SeenPhotos, sentence_vectors
from deixis.tasks.learning import Learning
from deixis.tasks.regions_of import phrase_vectors, region_set
from deixis.tasks.scores.localising import PreparesArrays, localisation_scores
from deixis.tasks.scores.scoring import dev_regions
from deixis.training.base import DevScores, Sampler
from deixis.training.samplers import (
    LabelledRegionSampler,
    LabelledSentenceSampler,
    RegionPhraseSampler,
    SentenceSampler,
)

Rows = NDArray[np.float16] | NDArray[np.float32]
TextInput = Rows | Sequence[str]
"""Features of texts, a row each; or the texts themselves, for a network that reads words."""

Watch = Callable[[PreparesArrays], DevScores]

MEAN_RECALL = "mean_recall"
"""What is watched of sentences: the mean of the six recalls."""


@dataclass(frozen=True)
class Texts:
    """How texts become what a network is given.

    Attributes
    ----------
    features
        Learned from the training split; None for a network that reads words.
    captions
        The vectors of all captions of the data set, memory-mapped; None there too.
    """

    features: TextFeatures | None = None
    captions: NDArray[np.float32] | None = None

    def of_phrases(self, phrases: Sequence[str], on_progress: OnProgress = silent) -> TextInput:
        """Of phrases, a row each."""
        return phrases if self.features is None else phrase_vectors(self.features, phrases, on_progress)

    def of_captions(self, dataset: Dataset, rows: NDArray[np.int64]) -> TextInput:
        """Of some rows of the table of captions."""
        return _said(dataset, rows) if self.captions is None else self.captions[rows]


def read_texts(dataset: Dataset, learning: Learning, on_progress: OnProgress = silent) -> Texts:
    """Text features, learned from the training split now if they are not there yet."""
    found = sentence_vectors(dataset, dataset.photos, learning.recipe(), train=learning.train, on_progress=on_progress)
    return Texts(found.features, found.vectors)


def _said(dataset: Dataset, rows: NDArray[np.int64]) -> list[str]:
    texts: list[str] = dataset.tables["captions"]["text"].take(rows).to_pylist()
    return texts


@dataclass(frozen=True)
class Lessons:
    """What a network learns from, and how it is watched.

    Attributes
    ----------
    visual, text
        What the network is given of photos or regions and of sentences or phrases, by the rows that samplers name.
    pairs
        Of regions and phrases; or for each sentence the row of its photo.
    said
        Every text that is learned from, as often as it is: what a vocabulary counts.
    watch
        Measures dev; None where there is none.
    """

    visual: Rows
    text: TextInput
    pairs: RegionPhrasePairs | NDArray[np.int64]
    said: Callable[[], Sequence[str]]
    watch: Watch | None

    @property
    def sentences(self) -> int:
        """From how many sentences it learns."""
        return 0 if isinstance(self.pairs, RegionPhrasePairs) else len(self.pairs)

    @property
    def phrases(self) -> int:
        """From how many pairs of a region and a phrase it learns."""
        return len(self.pairs) if isinstance(self.pairs, RegionPhrasePairs) else 0

    def sampler(self, settings: TwoBranchSettings | SimilaritySettings, batch_size: int) -> Sampler[Any]:
        """The batches that a network of these settings learns from."""
        if isinstance(self.pairs, RegionPhrasePairs):
            if isinstance(settings, TwoBranchSettings):
                return RegionPhraseSampler(self.pairs, settings, batch_size)
            return LabelledRegionSampler(self.pairs, settings, batch_size)
        if isinstance(settings, TwoBranchSettings):
            return SentenceSampler(self.pairs, settings, batch_size)
        return LabelledSentenceSampler(self.pairs, batch_size)


def sentence_lessons(dataset: Dataset, texts: Texts, seen: SeenPhotos, dev: SeenPhotos | None) -> Lessons:
    """Photos with their sentences, watched by the mean of the six recalls.

    Parameters
    ----------
    dataset, texts
        Whose sentences, and how they are read.
    seen, dev
        The photos to learn from and those to be watched on.
    """
    rows, owner = seen.photos.sentence_rows()
    if not len(rows):
        raise DatasetError(f"{dataset.path}: the photos to learn from have no sentences")
    text = texts.of_captions(dataset, rows)
    return Lessons(seen.vectors(), text, owner, lambda: _said(dataset, rows), _watch_sentences(dataset, texts, dev))


def _watch_sentences(dataset: Dataset, texts: Texts, dev: SeenPhotos | None) -> Watch | None:
    if dev is None or not len(dev.photos.sentence_rows()[0]):
        return None
    rows, owner = dev.photos.sentence_rows()
    visual, text = dev.vectors(), texts.of_captions(dataset, rows)

    def watch(model: PreparesArrays) -> DevScores:
        matrix = model.scores(model.prepare_visual(visual), model.prepare_text(text))
        scores = recall_at_k(matrix, owner).scores
        recalls = [value for name, value in scores.items() if "_r" in name]
        return DevScores(MEAN_RECALL, {MEAN_RECALL: float(np.mean(recalls)), **scores})

    return watch


def phrase_lessons(
    dataset: Dataset,
    learning: Learning,
    texts: Texts,
    seen: SeenPhotos,
    dev: SeenPhotos | None,
    on_progress: OnProgress = silent,
) -> Lessons:
    """Regions with their phrases, watched by R@1.

    Parameters
    ----------
    dataset, learning
        Whose phrases, and which of them.
    texts
        How they are read.
    seen, dev
        The photos to learn from and those to be watched on, with their proposals.
    on_progress
        Called as the work goes on.
    """
    regions = region_set(seen, learning, where=str(dataset.path), on_progress=on_progress)
    pairs = regions.pairs
    text = texts.of_phrases(pairs.phrases, on_progress)

    def said() -> list[str]:
        return [pairs.phrases[phrase] for phrase in pairs.phrase]

    return Lessons(regions.vectors, text, pairs, said, _watch_phrases(texts, dev, on_progress))


def _watch_phrases(texts: Texts, dev: SeenPhotos | None, on_progress: OnProgress) -> Watch | None:
    regions = dev_regions(dev, on_progress) if dev else None
    if regions is None:
        return None
    phrases = texts.of_phrases(regions.pairs.phrases, on_progress)
    return lambda model: DevScores("r1", localisation_scores(model, regions, phrases))
