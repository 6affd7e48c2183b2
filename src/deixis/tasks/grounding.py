"""A box for each noun phrase of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
from PIL import Image

from deixis.errors import DeixisError
from deixis.language.features.base import Floats
from deixis.language.sentence import Phrase, Sentence
from deixis.models.grounder import Grounder
from deixis.models.grounder_inputs import RegionInputs, words_and_spans
from deixis.models.hm_lstm import HMLSTM
from deixis.tasks.bundle import Bundle, PhotoLike, load, opened
from deixis.tasks.given import path_of, text_of
from deixis.tasks.hm_lstm_pointing import point_in_photo
from deixis.tasks.pictures.grounded import PhraseBoxes, draw_grounding
from deixis.tasks.pointing import region_scores
from deixis.tokens import words
from deixis.vision.features import FeatureMap
from deixis.vision.proposals import open_proposer
from deixis.vision.proposals.proposer import Proposals, Proposer

DEFAULT = "grounder"
"""The model that points where nobody names another."""

ABSENT = 0.1
"""A phrase that is less likely there is called absent. On dev that is said of 3.5 % of the phrases that are there, and
of 52 % of those of other photos whose thing no caption of the photo names."""


@dataclass(frozen=True)
class PointedPhrase:
    """A phrase, and where it is.

    Attributes
    ----------
    text, span
        As written, and its offsets in Unicode code points in the sentence, end exclusive.
    types
        Of `deixis.data.records.ENTITY_TYPES`.
    box
        ``x1, y1, x2, y2`` in pixels of the photo.
    score
        The share of all that the model believes, over the regions that it looked at.
    presence
        How likely the photo shows it at all, if half of all photos did; None where the model did not learn that.
    """

    text: str
    span: tuple[int, int]
    types: tuple[str, ...]
    box: tuple[float, float, float, float]
    score: float
    presence: float | None = None

    @property
    def absent(self) -> bool:
        """Whether the photo seems not to show it; the box is then where it would be."""
        return self.presence is not None and self.presence < ABSENT


@dataclass(frozen=True)
class Grounded:
    """A sentence in a photo.

    Attributes
    ----------
    sentence
        As given.
    size
        Width and height of the photo in pixels, upright.
    phrases
        In the order of the sentence.
    unknown
        The words of phrases that the model does not know, as it reads them: where they are it can only guess.
    """

    sentence: str
    size: tuple[int, int]
    phrases: tuple[PointedPhrase, ...]
    unknown: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What ``deixis ground --json`` prints, but for the photo's name."""
        return {
            "size": list(self.size),
            "unknown_words": list(self.unknown),
            "phrases": [
                {
                    "text": phrase.text,
                    "span": list(phrase.span),
                    "type": phrase.types[0] if phrase.types else "other",
                    "boxes": [{"box": [round(side, 1) for side in phrase.box], "score": round(phrase.score, 4)}],
                    **(
                        {}
                        if phrase.presence is None
                        else {"presence": round(phrase.presence, 4), "absent": phrase.absent}
                    ),
                }
                for phrase in self.phrases
            ],
        }

    def drawn(self, photo: Image.Image) -> Image.Image:
        """The photo with its boxes, and the sentence below in their colours; absent phrases have neither."""
        shown = [phrase for phrase in self.phrases if not phrase.absent]
        # As the command says it: how likely the phrase is there at all, where that is known.
        said = [phrase.score if phrase.presence is None else phrase.presence for phrase in shown]
        phrases = [PhraseBoxes(*phrase.span, (phrase.box,), share) for phrase, share in zip(shown, said, strict=True)]
        return draw_grounding(photo, [(self.sentence, phrases)])


@dataclass(frozen=True)
class Look:
    """A photo as a pointer sees it, kept where more sentences about it will come."""

    seen: FeatureMap
    proposals: Proposals


class Pointer:
    """Finds the phrases of sentences in photos.

    Parameters
    ----------
    bundle
        A model that learned from phrases and regions.

    Examples
    --------
    >>> from deixis.data.samples import SAMPLES
    >>> found = Pointer(load("grounder")).ground(SAMPLES / "images" / "dogs.jpg", "Two dogs.")
    >>> found.phrases[0].text
    'Two dogs'
    """

    def __init__(self, bundle: Bundle) -> None:
        if bundle.learned.learn == "sentences":
            raise DeixisError(
                "the model learned from whole photos and sentences, so it cannot point; take one that learned from "
                "phrases, such as grounder"
            )
        self.bundle = bundle
        self.proposer: Proposer = open_proposer(bundle.learned.proposals, bundle.encoder.name)
        wanted = bundle.learned.proposals_fingerprint
        if wanted and self.proposer.fingerprint != wanted:
            raise DeixisError(
                f"the model learned from another version of the proposals {bundle.learned.proposals} "
                f"({wanted}, here is {self.proposer.fingerprint}); train it again"
            )

    def ground(self, photo: PhotoLike, sentence: str) -> Grounded:
        """A box for each noun phrase of an English sentence."""
        return self.ground_all(photo, [sentence])[0]

    def ground_all(self, photo: PhotoLike, sentences: Sequence[str]) -> list[Grounded]:
        """The same for several sentences about one photo, which is looked at once."""
        look = self.look_at(photo)
        return [self.ground_in(look, text) for text in sentences]

    def look_at(self, photo: PhotoLike) -> Look:
        """See a photo, which takes most of the time; `ground_in` asks about what was seen."""
        image = opened(photo)
        seen = self.bundle.image_encoder.encode([image])[0]
        return Look(seen, self.proposer.propose(image, seen, self.bundle.learned.top))

    def ground_in(self, look: Look, sentence: str) -> Grounded:
        """A box for each noun phrase of a sentence about a photo that was looked at."""
        return self._grounded(Sentence(text_of(sentence, "sentence")), look.seen, look.proposals)

    def regions_for(self, look: Look, sentence: Sentence, phrases: Sequence[Phrase]) -> tuple[Floats, Floats]:
        """Of any phrases of a sentence, what every region scores, and a better box for it.

        Returns
        -------
        tuple of array
            Scores (phrases, regions), and boxes in pixels (phrases, regions, 4).
        """
        scores, boxes, _ = self._pointed(sentence, phrases, look.seen, look.proposals)
        return scores, boxes

    def _grounded(self, sentence: Sentence, seen: FeatureMap, proposals: Proposals) -> Grounded:
        phrases = sentence.phrases
        if not phrases:
            return Grounded(sentence.text, seen.size, ())
        scores, boxes, presence = self._pointed(sentence, phrases, seen, proposals)
        best = scores.argmax(axis=1)
        found = tuple(
            PointedPhrase(
                phrase.text,
                phrase.span,
                phrase.types,
                tuple(map(float, boxes[row, best[row]])),  # type: ignore[arg-type] # four of them
                float(_shares(scores[row])[best[row]]),
                None if presence is None else float(presence[row]),
            )
            for row, phrase in enumerate(phrases)
        )
        return Grounded(sentence.text, seen.size, found, self._unknown(phrases))

    def _unknown(self, phrases: Sequence[Phrase]) -> tuple[str, ...]:
        known = getattr(self.bundle.model, "vocabulary", None)
        said = dict.fromkeys(word for phrase in phrases for word in words(phrase.text))
        return tuple(word for word in said if known is not None and word not in known)

    def _pointed(
        self, sentence: Sentence, phrases: Sequence[Phrase], seen: FeatureMap, proposals: Proposals
    ) -> tuple[Floats, Floats, Floats | None]:
        """Scores (phrases, regions), boxes in pixels (phrases, regions, 4), and presence where it is known."""
        model = self.bundle.model
        if isinstance(model, HMLSTM):
            scores, own = point_in_photo(model, seen, proposals.boxes, phrases, self.bundle.learned.place)
            # Cosines: over a temperature, or else the shares of all regions would be alike.
            return scores / model.settings.temperature, np.broadcast_to(own, (*scores.shape, 4)), None
        if not isinstance(model, Grounder):
            scores = region_scores(self.bundle, seen, proposals.boxes, [phrase.text for phrase in phrases]).T
            return scores, np.broadcast_to(proposals.boxes, (*scores.shape, 4)), None
        size = np.tile(seen.size, 2)
        regions = RegionInputs(
            seen.regions(proposals.boxes),
            proposals.boxes / size,
            proposals.scores,
            seen.whole,
            seen.cells if model.settings.cells else None,
        )
        read, spans = words_and_spans(sentence.tokens, [phrase.span for phrase in phrases])
        pointing = model.point(regions, read, spans)
        return pointing.scores, pointing.boxes * size, pointing.presence


def ground(photo: PhotoLike, sentence: str, *, model: str | PathLike[str] = DEFAULT) -> Grounded:
    """A box for each noun phrase of an English sentence.

    Parameters
    ----------
    photo
        A path, or a Pillow image that is open already.
    sentence
        In English.
    model
        A name that ``deixis models`` lists, or the directory of a model that learned from phrases.

    Examples
    --------
    >>> import deixis
    >>> from deixis.data.samples import SAMPLES
    >>> found = deixis.ground(SAMPLES / "images" / "bee.jpg", "A bee on a flower.")
    >>> [phrase.text for phrase in found.phrases]
    ['A bee', 'a flower']
    """
    text_of(sentence, "sentence")  # before a photo is looked at, which takes a while
    return _pointer(path_of(model, "model")).ground(photo, sentence)


@lru_cache(maxsize=2)
def _pointer(model: str) -> Pointer:
    return Pointer(load(model))


def _shares(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())
