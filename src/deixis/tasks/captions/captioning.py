"""Sentences for photos: a model that writes captions, with the encoder whose features it has learned from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError, PhotoError
from deixis.files.progress import OnProgress, silent, told
from deixis.language.features.base import Floats
from deixis.language.saved import damaged
from deixis.models.decoding import Decoding, Generated, refuse_long, start_ids
from deixis.models.m_rnn_model import MRNN, Photos, WithCells
from deixis.tasks.bundle import (
    CAPTIONS_FORMAT,
    CARD,
    FILE,
    VERSION,
    EncoderOfBundle,
    PhotoLike,
    opened,
    opened_folder,
)
from deixis.tasks.captions.consensus import Similarity, best_first
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.given import count_of, path_of
from deixis.tasks.shipped_models import place_of
from deixis.vision.encoder import ImageEncoder
from deixis.vision.features import FeatureMap
from deixis.vision.reading import encode_photos, encode_whole_photos

if TYPE_CHECKING:
    from deixis.tasks.captions.reranking import Rerank, Reranker

DEFAULT = "m-rnn"
"""The model that writes where nobody names another."""

USUAL_BEAM, RERANKED_BEAM = 5, 10
"""The paper found these best: for direct output, and to choose from (§8)."""

_AT_ONCE = 64


@dataclass(frozen=True)
class CaptionResult:
    """What a model says of a photo.

    Attributes
    ----------
    captions
        The best first, or samples in the order drawn.
    consensus
        Where they were reranked: how like each is to the captions of like training photos.

    Examples
    --------
    >>> CaptionResult((Generated(("a", "dog"), -3.0),)).as_json()
    {'captions': [{'text': 'a dog', 'logprob': -3.0, 'perplexity': 2.7183}]}
    """

    captions: tuple[Generated, ...]
    consensus: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """The best caption."""
        return self.captions[0].text

    def as_json(self) -> dict[str, Any]:
        """What ``deixis caption --json`` prints, but for the photo's name."""
        plain: list[dict[str, Any]] = [
            {
                "text": caption.text,
                "logprob": round(caption.log_probability, 4),
                "perplexity": round(caption.perplexity, 4),
            }
            for caption in self.captions
        ]
        for document, score in zip(plain, self.consensus, strict=False):
            document["consensus"] = round(score, 4)
        return {"captions": plain}

    def first(self, count: int) -> CaptionResult:
        """So many of them."""
        return CaptionResult(self.captions[:count], self.consensus[:count])


class Judge(Protocol):
    """What says how good sentences are that were written of photos: a `Reranker`, or an `Oracle`."""

    def scores(self, photos: Photos, made: Sequence[Sequence[Generated]]) -> Sequence[NDArray[np.float64]]:
        """For each photo a number for each sentence, higher is better."""
        ...


@dataclass(frozen=True)
class _Look:
    """A photo as the model takes it; without cells where it has no attention."""

    vector: Floats
    cells: Floats | None


class CaptionBundle:
    """A model that writes captions, with all it needs.

    Parameters
    ----------
    encoder
        Of the photos.
    model
        That writes.
    cells
        Cells along each side to which a photo's feature map is brought, for attention; 0 without attention.

    Examples
    --------
    >>> bundle = CaptionBundle.load("m-rnn.model")  # doctest: +SKIP
    >>> bundle.caption(["dogs.jpg"], Decoding(beam=10))[0].text  # doctest: +SKIP
    'two dogs run through the snow'
    """

    def __init__(self, encoder: EncoderOfBundle, model: MRNN, cells: int = 0) -> None:
        self.encoder = encoder
        self.model = model
        self.cells = cells

    def caption(
        self,
        photos: Sequence[PhotoLike],
        how: Decoding | None = None,
        start: str = "",
        *,
        reranker: Judge | None = None,
    ) -> list[CaptionResult]:
        """Sentences for photos, given as paths or as open Pillow images.

        Parameters
        ----------
        photos
            One result for each.
        how
            Beam search with a width of 5 where nothing is said.
        start
            Words to begin with.
        reranker
            What puts them in another order, as `deixis.tasks.captions.reranking.open_reranker` gives it.
        """
        self.refuse_unknown(start)
        found: list[CaptionResult] = []
        for begin in range(0, len(photos), _AT_ONCE):
            looks = [self._look_at(photo) for photo in photos[begin : begin + _AT_ONCE]]
            found += self._written(looks, how, start, reranker)
        return found

    def caption_files(
        self,
        paths: Sequence[Path],
        how: Decoding | None = None,
        start: str = "",
        *,
        reranker: Judge | None = None,
        on_progress: OnProgress = silent,
    ) -> Iterator[tuple[Path, CaptionResult | PhotoError]]:
        """The same for photo files: decoded ahead, and one that cannot be read gives its error, and the rest goes on.

        Yields
        ------
        path, result or error
            In the order of the paths.
        """
        self.refuse_unknown(start)
        looks = told(self._looks_at_files(paths), "captioning photos", len(paths), on_progress)
        while group := list(islice(looks, _AT_ONCE)):
            readable = [each for _, each in group if isinstance(each, _Look)]
            written = iter(self._written(readable, how, start, reranker))
            for path, each in group:
                yield path, each if isinstance(each, PhotoError) else next(written)

    def refuse_unknown(self, start: str) -> None:
        """Say that a word to begin with is not known, or that there are too many, before any photo is looked at."""
        refuse_long(start_ids(start, self.model.vocabulary), self.model.settings.longest)

    def photos_of(self, seen: SeenPhotos, on_progress: OnProgress = silent) -> Photos:
        """Photos of a data set as the model takes them."""
        return model_photos(seen, self.cells, on_progress)

    def write(self, folder: Path, card: str = "") -> None:
        """Write into a folder that `deixis.tasks.bundle.new_bundle` gave."""
        about = {
            "format": CAPTIONS_FORMAT,
            "version": VERSION,
            "encoder": asdict(self.encoder),
            "cells": self.cells,
        }
        (folder / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        self.model.save(folder / "model")
        if card:
            (folder / CARD).write_text(card, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> CaptionBundle:
        """Open a folder that `write` filled, or that of a training run with such a folder in it."""
        path, about = opened_folder(folder, CAPTIONS_FORMAT)
        with damaged(path / FILE):
            encoder = EncoderOfBundle(**about["encoder"])
            cells = int(about["cells"])
        return cls(encoder, MRNN.load(path / "model"), cells)

    @cached_property
    def image_encoder(self) -> ImageEncoder:
        """The encoder itself, opened when it is first needed."""
        return self.encoder.open()

    def _look_at(self, photo: PhotoLike) -> _Look:
        image = opened(photo)
        features = self.image_encoder.encode([image])[0]
        return self._look(features, self.image_encoder.encode_crops([image])[0] if self.encoder.crops else None)

    def _looks_at_files(self, paths: Sequence[Path]) -> Iterator[tuple[Path, _Look | PhotoError]]:
        encoder = self.image_encoder
        if self.encoder.crops:
            for path, whole in encode_whole_photos(encoder, paths):
                if isinstance(whole, PhotoError):
                    yield path, whole
                else:
                    yield path, self._look(whole.features, encoder.encode_crops([whole.photo])[0])
            return
        for path, seen in encode_photos(encoder, paths):
            yield path, seen if isinstance(seen, PhotoError) else self._look(seen)

    def _look(self, features: FeatureMap, crops: Floats | None = None) -> _Look:
        cells = pooled_cells(features.cells, self.cells) if self.cells else None
        return _Look(features.whole if crops is None else crops, cells)

    def _written(
        self, looks: Sequence[_Look], how: Decoding | None, start: str, reranker: Judge | None
    ) -> list[CaptionResult]:
        if not looks:
            return []
        photos: Photos = np.stack([look.vector for look in looks])
        cells = [look.cells for look in looks if look.cells is not None]
        if cells:
            photos = WithCells(np.asarray(photos), np.stack(cells))
        return results_of(photos, self.model.generate(photos, how, start), reranker)


def results_of(
    photos: Photos, made: Sequence[Sequence[Generated]], reranker: Judge | None = None
) -> list[CaptionResult]:
    """What was written of photos, in its own order or in that of a judge."""
    if reranker is None:
        return [CaptionResult(tuple(written)) for written in made]
    results = []
    for written, scores in zip(made, reranker.scores(photos, made), strict=True):
        order = best_first(scores)
        results.append(CaptionResult(tuple(written[place] for place in order), tuple(scores[order].tolist())))
    return results


def model_photos(seen: SeenPhotos, side: int, on_progress: OnProgress = silent) -> Photos:
    """Photos of a data set as an m-RNN takes them: their vectors, and `side` × `side` cells of their maps if not 0."""
    vectors = seen.vectors()
    if not side:
        return vectors
    # In half precision, as the store holds maps: the cells of all photos are in memory together.
    cells = np.empty((len(vectors), side * side, seen.store.contents.channels), np.float16)
    ids = seen.photos.ids
    for row, photo_id in enumerate(told(ids, "reading feature maps", len(ids), on_progress)):
        cells[row] = pooled_cells(seen.store.map(photo_id).cells, side)
    return WithCells(vectors, cells)


def taken(photos: Photos, rows: slice) -> Photos:
    """Some of the photos."""
    if isinstance(photos, WithCells):
        return WithCells(photos.vectors[rows], photos.cells[rows])
    return np.asarray(photos)[rows]


def pooled_cells(cells: NDArray[np.floating], side: int) -> Floats:
    """A feature map (channels, rows, columns) as (side · side, channels), each the mean over its part of the map.

    Examples
    --------
    >>> pooled_cells(np.arange(8.0).reshape(2, 2, 2), 1).tolist()
    [[1.5, 5.5]]
    """
    import torch
    from torch.nn.functional import adaptive_avg_pool2d

    pooled = adaptive_avg_pool2d(torch.from_numpy(np.asarray(cells, dtype=np.float32))[None], side)[0]
    flat: Floats = pooled.flatten(1).T.contiguous().numpy()
    return flat


def load_captioner(model: str | PathLike[str] = DEFAULT) -> CaptionBundle:
    """Open a model that writes captions: the shipped one, the directory of a model, or that of the run that trained it.

    Examples
    --------
    >>> load_captioner("nowhere")
    Traceback (most recent call last):
    deixis.errors.DeixisError: nowhere: no such directory; make a model with: deixis train m-rnn --data DATA
    """
    place = place_of(model)
    if place.is_dir():
        return CaptionBundle.load(place)
    raise DeixisError(f"{model}: no such directory; make a model with: deixis train m-rnn --data DATA")


def caption(
    photo: PhotoLike,
    *,
    beam: int | None = None,
    top: int = 1,
    start: str = "",
    rerank: Rerank = "none",
    model: str | PathLike[str] = DEFAULT,
) -> CaptionResult:
    """Sentences for a photo.

    Parameters
    ----------
    photo
        A path, or a Pillow image that is open already.
    beam
        How many unfinished sentences are kept at each word; 5, or 10 to rerank, where nothing is said.
    top
        How many sentences; no more than `beam`.
    start
        Words to begin with.
    rerank
        bleu or cider: the sentences of the beam in the order that the captions of like training photos give them.
    model
        The directory of a model that ``deixis train m-rnn`` made.

    Examples
    --------
    >>> import deixis
    >>> deixis.caption("dogs.jpg", beam=10, model="m-rnn.model").text  # doctest: +SKIP
    'two dogs run through the snow'
    """
    name = path_of(model, "model")
    bundle = _captioner(name)
    reranker = None if rerank == "none" else _reranker(rerank, name)
    how = beam_of(bundle, beam, top, reranked=reranker is not None)
    return bundle.caption([photo], how, start, reranker=reranker)[0].first(top)


def beam_of(
    bundle: CaptionBundle, beam: int | None, top: int, *, length_power: float = 0.0, reranked: bool = False
) -> Decoding:
    """Beam search of a width that suits what follows: where sentences are reranked, the whole beam is kept."""
    usual = RERANKED_BEAM if reranked else USUAL_BEAM
    width = usual if beam is None else count_of(beam, "beam")
    count = max(width, count_of(top, "top")) if reranked else count_of(top, "top")
    return Decoding(beam=width, count=count, length_power=length_power, longest=bundle.model.settings.longest)


@lru_cache(maxsize=2)
def _captioner(model: str) -> CaptionBundle:
    return load_captioner(model)


@lru_cache(maxsize=2)
def _reranker(rerank: Similarity, model: str) -> Reranker:
    from deixis.tasks.captions.reranking import open_reranker

    return open_reranker(rerank, model, _captioner(model))
