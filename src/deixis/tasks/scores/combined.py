"""Photos and sentences scored by their wholes and their parts together, from plain arrays of features.

Features may be arrays in memory or mapped from files: they are read and prepared a few thousand rows at a time, and
what stays in memory are the prepared vectors. A phrase that many sentences share is prepared and compared once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.data.records import Caption
from deixis.errors import DeixisError
from deixis.evaluation.scores import ScoreBlocks
from deixis.language.features.base import Floats
from deixis.language.mentions import find_mentions
from deixis.models.combined import Combined, WithParts

CELLS_OF_A_BLOCK = 1 << 22
"""Scores of photos and sentences that are computed in one go."""


@dataclass(frozen=True)
class SharedPhrases:
    """Which phrases each of some sentences has, every phrase written once.

    Attributes
    ----------
    texts
        The different phrases; features are wanted for these.
    which
        For each sentence in turn, where its phrases are among `texts`.
    counts
        How many phrases each sentence has; some have none.

    Examples
    --------
    >>> found = SharedPhrases.of([["a dog", "a cat"], [], ["a dog"]])
    >>> found.texts, found.which.tolist(), found.counts.tolist()
    (('a dog', 'a cat'), [0, 1, 0], [2, 0, 1])
    """

    texts: tuple[str, ...]
    which: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, phrases: Iterable[Sequence[str]]) -> SharedPhrases:
        """From the phrases of each sentence."""
        number: dict[str, int] = {}
        which: list[int] = []
        counts: list[int] = []
        for own in phrases:
            which += [number.setdefault(phrase, len(number)) for phrase in own]
            counts.append(len(own))
        return cls(tuple(number), np.array(which, dtype=np.int64), np.array(counts, dtype=np.int64))


def mentioned_phrases(captions: Iterable[Caption]) -> SharedPhrases:
    """The phrases that are marked in captions, as mentions; those that are marked as not visual too.

    Examples
    --------
    >>> from deixis.data.records import Mention
    >>> caption = Caption.from_text("A dog sees a cat.", (Mention(0, 5, "1"), Mention(11, 16, "2")))
    >>> mentioned_phrases([caption]).texts
    ('A dog', 'a cat')
    """
    return SharedPhrases.of([caption.phrase(mention) for mention in caption.mentions] for caption in captions)


def found_phrases(sentences: Iterable[str]) -> SharedPhrases:
    """The noun phrases that are found in plain English sentences, those that name something visible.

    Examples
    --------
    >>> found_phrases(["A dog sees a cat."]).texts
    ('A dog', 'a cat')
    """
    return SharedPhrases.of([phrase.text for phrase in find_mentions(sentence)] for sentence in sentences)


def photos_with_regions(
    wholes: Floats, regions: Sequence[Floats], *, most: int = 19, whole_regions: Floats | None = None
) -> WithParts:
    """The features of photos with those of their best proposals; the whole photo may be one more region.

    Parameters
    ----------
    wholes
        A row for each photo.
    regions
        For each photo, the rows of its proposals, the best first.
    most
        How many proposals of a photo are taken: 19 beside the whole photo, or 100, in Flickr30k Entities.
    whole_regions
        A row for each photo: its features as a region. Without it the whole photo is no region.

    Examples
    --------
    >>> wholes = np.zeros((2, 3), dtype=np.float32)
    >>> proposals = [np.ones((40, 3), dtype=np.float32), np.ones((7, 3), dtype=np.float32)]
    >>> photos_with_regions(wholes, proposals, whole_regions=wholes).counts.tolist()
    [20, 8]
    """
    if len(regions) != len(wholes) or (whole_regions is not None and len(whole_regions) != len(wholes)):
        raise DeixisError(f"{len(wholes):,} photos, but regions of {len(regions):,}")
    own = [rows[:most] for rows in regions]
    if whole_regions is not None:
        own = [np.concatenate([rows, whole_regions[photo][None]]) for photo, rows in enumerate(own)]
    return WithParts(wholes, np.concatenate(own), np.array([len(rows) for rows in own], dtype=np.int64))


def combined_scores(model: Combined, photos: WithParts, sentences: WithParts) -> ScoreBlocks:
    """Photos × sentences, computed when they are asked for; higher is better.

    Parameters
    ----------
    model
        Of wholes and of parts, with weight and exponent.
    photos
        Features of photos and of their regions, from `photos_with_regions`.
    sentences
        Features of sentences and of their phrases: `which` and `counts` as `SharedPhrases` has them.

    Examples
    --------
    >>> from deixis.models import CCA
    >>> rng = np.random.default_rng(0)
    >>> seen, read = rng.normal(size=(2, 50, 4)).astype(np.float32)
    >>> cca = CCA(components=2).fit(seen, read)
    >>> phrases = SharedPhrases.of([["a dog", "a cat"], [], ["a dog"]])
    >>> photos = photos_with_regions(seen[:5], [seen] * 5, whole_regions=seen[:5])
    >>> sentences = WithParts(read[:3], read[:2], phrases.counts, phrases.which)
    >>> combined_scores(Combined(cca, cca), photos, sentences).rows(0, 5).shape
    (5, 3)
    """
    visual, text = model.prepare_visual(photos), model.prepare_text(sentences)
    shape = len(visual.counts), len(text.counts)
    at_once = max(1, CELLS_OF_A_BLOCK // max(1, shape[1]))
    return ScoreBlocks(shape, lambda begin, end: model.scores(visual.run(begin, end), text), rows_at_once=at_once)
