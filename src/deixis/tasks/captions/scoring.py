"""How good a model that writes captions is on a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deixis.errors import DeixisError
from deixis.evaluation.captions import CaptionScores, PerplexityScores, caption_scores
from deixis.evaluation.of_data import Regions, sentences_of
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats
from deixis.models.decoding import Decoding
from deixis.models.m_rnn_model import Photos
from deixis.tasks.captions.captioning import CaptionBundle, CaptionResult, Judge, results_of, taken
from deixis.tasks.features_of import SeenPhotos
from deixis.training.captions import perplexity_of
from deixis.training.distributed import chosen_device

_AT_A_TIME = 16


@dataclass(frozen=True)
class CaptionerScores:
    """How likely a model finds people's captions, and how good its own are.

    Attributes
    ----------
    perplexity
        Of the captions of the data.
    captions
        The scores of what the model writes.
    results
        From photo ids to what it writes, the best first.
    way
        How that was written, in words.
    """

    perplexity: PerplexityScores
    captions: CaptionScores
    results: Mapping[str, CaptionResult]
    way: str

    @property
    def written(self) -> dict[str, str]:
        """From photo ids to the best caption."""
        return {photo: result.text for photo, result in self.results.items()}

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
            "protocol": f"{quality['protocol']}; perplexity: {surprise['protocol']}; sentences: {self.way}",
        }


def on_best_device(bundle: CaptionBundle) -> CaptionBundle:
    """The same model, moved to a GPU where there is one."""
    bundle.model.network.to(chosen_device("auto"))
    return bundle


def captioner_retrieval(
    bundle: CaptionBundle, seen: SeenPhotos, texts: Sequence[str], on_progress: OnProgress = silent
) -> Floats:
    """Photos × sentences: log P(w | I) − log P(w), for both directions of retrieval.

    Every pair is a computation of its own, about a quarter of a millisecond each on a processor: twenty minutes for a
    thousand photos with five captions each, seconds on a GPU.
    """
    photos = bundle.photos_of(seen, on_progress)
    groups = (slice(begin, begin + _AT_A_TIME) for begin in range(0, len(seen.photos), _AT_A_TIME))
    return _likely(bundle, (taken(photos, some) for some in groups), texts, len(seen.photos), "photos", on_progress)


def captioner_regions(
    bundle: CaptionBundle, seen: SeenPhotos, gold: Regions, on_progress: OnProgress = silent
) -> Floats:
    """Gold regions × all phrases, by the same: a region stands for the photo, and a phrase for the sentence."""
    if bundle.cells:
        raise DeixisError("a model with attention looks at the cells of whole photos; it cannot score regions")
    boxes, ids = np.array(gold.boxes, dtype=np.float64), seen.photos.ids
    starts = np.searchsorted(gold.photo_of_region, np.arange(len(ids) + 1))
    groups = (
        seen.region_vectors(ids[place], boxes[starts[place] : starts[place + 1]])
        for place in np.unique(gold.photo_of_region)
    )
    return _likely(bundle, _together(groups, _AT_A_TIME), gold.phrases, len(boxes), "regions", on_progress)


def _likely(
    bundle: CaptionBundle,
    groups: Iterable[Photos],
    texts: Sequence[str],
    total: int,
    noun: str,
    on_progress: OnProgress,
) -> Floats:
    """A row for each photo or region of the groups."""
    model = on_best_device(bundle).model
    on_progress(f"scoring {noun}", 0, total)
    # Texts that occur many times are read once.
    distinct = list(dict.fromkeys(texts))
    column = {text: place for place, text in enumerate(distinct)}
    columns = np.array([column[text] for text in texts])
    text = model.prepare_text(distinct)
    rows: list[Floats] = []
    done = 0
    for group in groups:
        rows.append(model.scores(model.prepare_visual(group), text)[:, columns])
        done += len(rows[-1])
        on_progress(f"scoring {noun}", done, total)
    return np.concatenate(rows)


def _together(groups: Iterable[Floats], count: int) -> Iterator[Floats]:
    """Join small groups of rows until there are so many."""
    waiting: list[Floats] = []
    for group in groups:
        waiting.append(group)
        if sum(map(len, waiting)) >= count:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


def score_captioner(
    bundle: CaptionBundle,
    seen: SeenPhotos,
    how: Decoding,
    *,
    judge: Judge | None = None,
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
    judge
        What puts the sentences for a photo in another order: a `Reranker`, or an `Oracle`.
    training
        Captions that are not novel.
    on_progress
        Told how many feature maps are read, for attention.
    """
    model = on_best_device(bundle).model
    photos, gold = bundle.photos_of(seen, on_progress), sentences_of(seen.photos)
    made = results_of(photos, model.generate(photos, how), judge)
    results = dict(zip(seen.photos.ids, made, strict=True))
    written = {photo: result.text for photo, result in results.items()}
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in seen.photos}
    return CaptionerScores(
        perplexity_of(bundle.model, photos, gold.texts, np.array(gold.photo_of_sentence)),
        caption_scores(written, references, training=training),
        results,
        _way(how, reordered=judge is not None),
    )


def _way(how: Decoding, *, reordered: bool) -> str:
    """How sentences are written, for those who compare scores."""
    said = {"beam": f"a beam of {how.beam}", "greedy": "greedily", "sample": "by chance"}[how.method]
    if how.method == "beam" and how.length_power:
        said += f", by log-probability over words^{how.length_power:g}"
    return f"{said}, put in another order" if reordered else said
