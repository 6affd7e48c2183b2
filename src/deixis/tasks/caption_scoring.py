"""How good a model that writes captions is on a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deixis.evaluation.captions import CaptionScores, PerplexityScores, caption_scores
from deixis.evaluation.of_data import sentences_of
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats
from deixis.models.decoding import Decoding
from deixis.tasks.captioning import CaptionBundle, taken
from deixis.tasks.features_of import SeenPhotos
from deixis.training.captions import perplexity_of

_PHOTOS_AT_A_TIME = 16


@dataclass(frozen=True)
class CaptionerScores:
    """How likely a model finds people's captions, and how good its own are.

    Attributes
    ----------
    perplexity
        Of the captions of the data.
    captions
        The scores of what the model writes.
    written
        From photo ids to what it writes.
    """

    perplexity: PerplexityScores
    captions: CaptionScores
    written: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """All scores as one plain document."""
        surprise, quality = self.perplexity.as_json(), self.captions.as_json()
        return {
            "perplexity": surprise["perplexity"],
            "oov": surprise["oov"],
            **quality,
            "interval": {
                name: [bounds.low, bounds.high]
                for part in (self.perplexity, self.captions)
                for name, bounds in part.interval.items()
            },
            "protocol": f"{quality['protocol']}; perplexity: {surprise['protocol']}",
        }


def captioner_retrieval(
    bundle: CaptionBundle, seen: SeenPhotos, texts: Sequence[str], on_progress: OnProgress = silent
) -> Floats:
    """Photos × sentences: log P(w | I) − log P(w), for both directions of retrieval.

    Every pair is a computation of its own, about a third of a millisecond each: minutes for a thousand photos.
    """
    photos, model = bundle.photos_of(seen, on_progress), bundle.model
    on_progress("scoring photos", 0, len(seen.photos))
    text = model.prepare_text(texts)
    rows = []
    for begin in range(0, len(seen.photos), _PHOTOS_AT_A_TIME):
        some = slice(begin, begin + _PHOTOS_AT_A_TIME)
        rows.append(model.scores(model.prepare_visual(taken(photos, some)), text))
        on_progress("scoring photos", begin + len(rows[-1]), len(seen.photos))
    return np.concatenate(rows)


def score_captioner(
    bundle: CaptionBundle,
    seen: SeenPhotos,
    how: Decoding,
    *,
    training: Iterable[str] | None = None,
    on_progress: OnProgress = silent,
) -> CaptionerScores:
    """Score a model on photos and their captions.

    Parameters
    ----------
    bundle
        The model.
    seen
        The photos; each has captions.
    how
        How it writes; of several sentences for a photo the first counts.
    training
        Captions that are not novel.
    on_progress
        Told how many feature maps are read, for attention.
    """
    photos, gold = bundle.photos_of(seen, on_progress), sentences_of(seen.photos)
    written = {
        photo: sentences[0].text
        for photo, sentences in zip(seen.photos.ids, bundle.model.generate(photos, how), strict=True)
    }
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in seen.photos}
    return CaptionerScores(
        perplexity_of(bundle.model, photos, gold.texts, np.array(gold.photo_of_sentence)),
        caption_scores(written, references, training=training),
        written,
    )
