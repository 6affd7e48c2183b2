"""Captions of photos: the pipeline of a model that generates sentences, and its image encoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import numpy as np

from deixis.arrays import FloatArray, Floats
from deixis.errors import DeixisError, PhotoError
from deixis.models.arguments import PhotoLike, check_count, open_image
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence, best_first, encode_start, take_photos
from deixis.models.m_rnn.model import MRNN, PhotoArrays, PhotoInputs
from deixis.models.pipeline import DEFAULT_CAPTIONER, Pipeline, Rerank, load
from deixis.runtime.devices import choose_device
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.vision.encoder import BATCH, FeatureMap, encode_full_size, encode_photos

if TYPE_CHECKING:
    from deixis.evaluation.items import Regions
    from deixis.models.m_rnn.consensus import CaptionMeasure, Reranker
    from deixis.models.photo_features import PhotoFeatures

BEAM, RERANK_BEAM = 5, 10
"""Default beam widths: the paper found these best for direct output and for consensus reranking (section 8)."""

_PHOTOS_PER_BLOCK = 64
_SCORED_PER_BLOCK = 128


@dataclass(frozen=True)
class CaptionResult:
    """The captions of a photo.

    Attributes
    ----------
    captions
        Best first, or samples in the order drawn.
    consensus
        Consensus scores of the captions, if they were reranked.
    confidence
        Probability that each caption is right, if the model has a calibration.
    sure
        Whether each caption is grammatical and probably right; None if it is grammatical and has no confidence.
    """

    captions: tuple[GeneratedSentence, ...]
    consensus: tuple[float, ...] = ()
    confidence: tuple[float | None, ...] = ()
    sure: tuple[bool | None, ...] = ()

    @property
    def text(self) -> str:
        """The best caption."""
        return self.captions[0].text

    @property
    def is_unsure(self) -> bool:
        """Whether the best caption is probably wrong, or ungrammatical."""
        return self.sure[:1] == (False,)

    @property
    def lines(self) -> list[str]:
        """The captions as they are shown to people."""
        sure = self.sure or (None,) * len(self.captions)
        return [
            f"not sure: perhaps {caption.text}" if is_sure is False else caption.text
            for caption, is_sure in zip(self.captions, sure, strict=True)
        ]

    def as_json(self) -> dict[str, Any]:
        """The document that ``deixis caption --json`` prints for a photo, without the photo's name."""
        documents: list[dict[str, Any]] = [
            {
                "text": caption.text,
                "logprob": round(caption.log_probability, 4),
                "perplexity": round(caption.perplexity, 4),
            }
            for caption in self.captions
        ]
        for index, document in enumerate(documents):
            confidence = self.confidence[index] if self.confidence else None
            document["confidence"] = None if confidence is None else round(confidence, 4)
            document["sure"] = self.sure[index] if self.sure else None
            if self.consensus:
                document["consensus"] = round(self.consensus[index], 4)
        return {"captions": documents}

    def first(self, count: int) -> CaptionResult:
        return CaptionResult(self.captions[:count], self.consensus[:count], self.confidence[:count], self.sure[:count])


class Ranker(Protocol):
    """Scores generated sentences to order them, such as a `Reranker` or an `Oracle`."""

    @property
    def is_consensus(self) -> bool:
        """Whether the scores are consensus scores (section 8), which are kept with the captions."""
        ...

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> Sequence[FloatArray]:
        """For each photo a score for each of its sentences; higher is better."""
        ...


class CaptionPipeline(Pipeline):
    """A model that generates sentences, with its image encoder."""

    MODEL: ClassVar[type[MRNN]] = MRNN
    model: MRNN
    capabilities = frozenset({"caption"})

    @property
    def default_rerank(self) -> Rerank:
        return "none"

    @property
    def tasks(self) -> frozenset[str]:
        return frozenset({"captions", "retrieval", "regions"})

    def _caption(
        self, photos: Sequence[PhotoLike], *, beam: int | None, top: int, start: str, rerank: Rerank | None
    ) -> list[CaptionResult]:
        ranker = self.ranker(rerank)
        decoding = self.beam_search(beam, top, ranker=ranker)
        return [result.first(top) for result in self.caption_photos(photos, decoding, start, ranker=ranker)]

    def ranker(self, rerank: Rerank | None = None, neighbours: str | PathLike[str] | None = None) -> Ranker | None:
        """Score that orders captions; None for their probability. By default, the model's."""
        rerank = self.default_rerank if rerank is None else rerank
        if rerank == "none":
            return None
        return self.match_ranker if rerank == "match" else self.reranker(rerank, neighbours)

    @property
    def match_ranker(self) -> Ranker:
        """Orders captions by how well they match the photo."""
        raise DeixisError(f"--rerank match: {self.name} cannot; a model of deixis train captioner can")

    def reranker(self, rerank: CaptionMeasure, neighbours: str | PathLike[str] | None = None) -> Reranker:
        """The reranker by captions of similar training photos.

        `neighbours` is a directory that ``deixis train consensus`` made; by default the model's own training photos, or
        those that its training left beside it.
        """
        key = rerank, neighbours
        if key not in self._rerankers:
            self._rerankers[key] = self._open_reranker(rerank, neighbours)
        return self._rerankers[key]

    def _open_reranker(self, rerank: CaptionMeasure, neighbours: str | PathLike[str] | None) -> Reranker:
        from deixis.models.m_rnn.consensus import open_reranker

        return open_reranker(rerank, self, neighbours)

    @cached_property
    def _rerankers(self) -> dict[tuple[str, str | PathLike[str] | None], Reranker]:
        return {}

    def beam_search(
        self, beam: int | None, top: int, *, length_power: float = 0.0, ranker: Ranker | None = None
    ) -> Decoding:
        """Beam search for `top` captions; with a ranker the whole beam is kept."""
        width = default_beam(ranker) if beam is None else check_count(beam, "beam")
        count = max(width, check_count(top, "top")) if ranker else check_count(top, "top")
        return Decoding(beam=width, top=count, length_power=length_power, max_length=self.model.settings.max_length)

    def caption_photos(
        self,
        photos: Sequence[PhotoLike],
        decoding: Decoding | None = None,
        start: str = "",
        *,
        ranker: Ranker | None = None,
    ) -> list[CaptionResult]:
        """Caption photos, given as paths or open Pillow images.

        The default is a beam search with a width of 5.
        """
        self.check_start(start)
        results: list[CaptionResult] = []
        for first in range(0, len(photos), _PHOTOS_PER_BLOCK):
            block = photos[first : first + _PHOTOS_PER_BLOCK]
            inputs = [each for at in range(0, len(block), BATCH) for each in self._encode(block[at : at + BATCH])]
            results += self._generate(inputs, decoding, start, ranker)
        return results

    def caption_files(
        self,
        paths: Sequence[Path],
        decoding: Decoding | None = None,
        start: str = "",
        *,
        ranker: Ranker | None = None,
        on_progress: OnProgress = no_progress,
    ) -> Iterator[tuple[Path, CaptionResult | PhotoError]]:
        """As `caption_photos`, for many files: photos are decoded ahead, and one that cannot be read gives its error.

        Results are in the order of the paths.
        """
        self.check_start(start)
        encoded = track(self._encode_files(paths), "captioning photos", len(paths), on_progress)
        while block := list(islice(encoded, _PHOTOS_PER_BLOCK)):
            inputs = [each for _, each in block if not isinstance(each, PhotoError)]
            results = iter(self._generate(inputs, decoding, start, ranker))
            for path, each in block:
                yield path, each if isinstance(each, PhotoError) else next(results)

    def check_start(self, start: str) -> None:
        """Raise if the first words are unknown or too many."""
        encode_start(start, self.model.vocabulary, self.model.settings.max_length)

    def use_best_device(self) -> Self:
        """Move the model to a GPU if there is one."""
        self.model.functions.to(choose_device("auto"))
        return self

    def model_inputs(self, features: PhotoFeatures, on_progress: OnProgress = no_progress) -> PhotoArrays:
        """The photos of a data set as the model takes them."""
        return (features.vectors(),)

    def retrieval_scores(
        self, features: PhotoFeatures, texts: Sequence[str], on_progress: OnProgress = no_progress
    ) -> Floats:
        """Eq. 7, photos × sentences: log P(w | I) − log P(w), for both directions of retrieval.

        Each pair takes about a quarter of a millisecond of a core: twenty minutes for a thousand photos with five
        captions each on one core, and seconds on a GPU.
        """
        photos, count = self.model_inputs(features, on_progress), len(features.photos)
        blocks = (take_photos(photos, slice(at, at + _SCORED_PER_BLOCK)) for at in range(0, count, _SCORED_PER_BLOCK))
        return self._score_blocks(blocks, texts, count, "photos", on_progress)

    def region_scores(self, features: PhotoFeatures, gold: Regions, on_progress: OnProgress = no_progress) -> Floats:
        """Eq. 7, gold regions × phrases, with regions instead of photos."""
        self.require("regions")
        blocks = _join_rows(features.gold_vectors(gold))
        return self._score_blocks(blocks, gold.phrases, len(gold.boxes), "regions", on_progress)

    match_score = "log of how many times more probable the photo makes the sentence; below 0: less than without it"

    def _match_scores(self, photo: PhotoLike, sentences: Sequence[str]) -> Floats:
        """Eq. 7 for one photo."""
        scores: Floats = self._score_blocks(self._encode([photo]), sentences, 1, "sentences", no_progress)[0]
        return scores

    def _score_blocks(
        self, blocks: Iterable[PhotoInputs], texts: Sequence[str], total: int, noun: str, on_progress: OnProgress
    ) -> Floats:
        model = self.use_best_device().model
        on_progress(f"scoring {noun}", 0, total)
        column = {text: number for number, text in enumerate(dict.fromkeys(texts))}  # repeated texts are read once
        columns = np.array([column[text] for text in texts])
        prepared = model.prepare_text(list(column))
        rows: list[Floats] = []
        done = 0
        for block in blocks:
            rows.append(model.scores(model.prepare_visual(block), prepared)[:, columns])
            done += len(rows[-1])
            on_progress(f"scoring {noun}", done, total)
        return np.concatenate(rows)

    def _encode(self, photos: Sequence[PhotoLike]) -> list[PhotoArrays]:
        """A batch of photos as the model takes them. Photos are resized at once to save memory."""
        encoder, prepared, crops = self.image_encoder, [], []
        for photo in photos:
            image = open_image(photo)
            prepared.append(encoder.prepare(image))
            crops.append(encoder.encode_crops([image])[0] if self.encoder.crops else None)
        return [self._model_input(*each) for each in zip(encoder.encode_prepared(prepared), crops, strict=True)]

    def _encode_files(self, paths: Sequence[Path]) -> Iterator[tuple[Path, PhotoArrays | PhotoError]]:
        encoder = self.image_encoder
        if self.encoder.crops:
            for path, found in encode_full_size(encoder, paths):
                if isinstance(found, PhotoError):
                    yield path, found
                else:
                    photo, whole = found
                    yield path, self._model_input(whole, encoder.encode_crops([photo])[0])
            return
        for path, features in encode_photos(encoder, paths):
            yield path, features if isinstance(features, PhotoError) else self._model_input(features)

    def _model_input(self, features: FeatureMap, crops: Floats | None = None) -> PhotoArrays:
        """One photo as the model takes it."""
        return (features.photo_vector(self.encoder.photo_vector, crops)[None],)

    def _generate(
        self, inputs: Sequence[PhotoArrays], decoding: Decoding | None, start: str, ranker: Ranker | None
    ) -> list[CaptionResult]:
        if not inputs:
            return []
        photos = tuple(np.concatenate(part) for part in zip(*inputs, strict=True))
        return self.caption_inputs(photos, decoding, start, ranker=ranker)

    def caption_inputs(
        self, photos: PhotoArrays, decoding: Decoding | None = None, start: str = "", *, ranker: Ranker | None = None
    ) -> list[CaptionResult]:
        """Caption photos as the model takes them."""
        return rank_captions(photos, self.model.generate(photos, decoding, start), ranker)


def rank_captions(
    photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]], ranker: Ranker | None = None
) -> list[CaptionResult]:
    """The generated sentences of photos as results, in their own order or in that of a ranker."""
    if ranker is None:
        return [CaptionResult(tuple(each)) for each in sentences]
    results = []
    for each, scores in zip(sentences, ranker.scores(photos, sentences), strict=True):
        order = best_first(scores)
        kept = tuple(scores[order].tolist()) if ranker.is_consensus else ()
        results.append(CaptionResult(tuple(each[index] for index in order), kept))
    return results


def default_beam(ranker: Ranker | None) -> int:
    return RERANK_BEAM if ranker and ranker.is_consensus else BEAM


def _join_rows(groups: Iterable[Floats]) -> Iterator[Floats]:
    """Join groups of rows until a block is full."""
    waiting: list[Floats] = []
    for group in groups:
        waiting.append(group)
        if sum(map(len, waiting)) >= _SCORED_PER_BLOCK:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


def load_captioner(model: str | PathLike[str] = DEFAULT_CAPTIONER) -> CaptionPipeline:
    """Open a model, and raise unless it generates captions."""
    pipeline = load(model)
    pipeline.require("caption")
    return cast(CaptionPipeline, pipeline)
