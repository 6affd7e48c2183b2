"""What `--rerank` needs: training photos with their captions, kept beside a model, and sentences in their order.

The captions are those of the data set that somebody trained on, so they stay with the run, outside the folder of the
model that people pass on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DatasetError, DeixisError
from deixis.language.saved import FILE, Saved, Storable
from deixis.models.m_rnn_model import MRNN, Photos, WithCells
from deixis.tasks.bundle import EncoderOfBundle
from deixis.tasks.captions.consensus import Consensus, ConsensusSettings, Similarity, oracle_scores
from deixis.tasks.shipped_models import place_of
from deixis.tokens import words

if TYPE_CHECKING:
    from deixis.models.decoding import Generated
    from deixis.tasks.captions.captioning import CaptionBundle
    from deixis.tasks.captions.similarity import Numbers
    from deixis.tasks.features_of import SeenPhotos

Rerank = Literal["none", "bleu", "cider"]
Feature = Literal["refined", "photo"]

FOLDER = "neighbours"
"""Beside the folder of the model, in the run that trained it."""


@dataclass(frozen=True)
class HowReranked:
    """How neighbours are found and asked.

    Attributes
    ----------
    feature
        refined (g(V_I · I), §8.1) or photo: the vectors by which photos are alike.
    bleu, cider
        k and m of each similarity.
    tuned_on
        How many photos k and m were chosen on; 0 for the paper's.

    Examples
    --------
    >>> HowReranked().of("bleu").captions
    175
    """

    feature: Feature = "refined"
    bleu: ConsensusSettings = field(default_factory=lambda: ConsensusSettings("bleu"))
    cider: ConsensusSettings = field(default_factory=lambda: ConsensusSettings("cider"))
    tuned_on: int = 0

    def __post_init__(self) -> None:
        if self.feature not in get_args(Feature) or (self.bleu.similarity, self.cider.similarity) != ("bleu", "cider"):
            raise ValueError(f"no way to rerank: {self!r}")

    def of(self, similarity: Similarity) -> ConsensusSettings:
        """Its k and m."""
        return self.bleu if similarity == "bleu" else self.cider


class Neighbours(Storable):
    """Training photos with their captions.

    Parameters
    ----------
    encoder
        That saw the photos.
    photos
        Their ids.
    vectors, captions
        For each photo its vector and the words of its captions.
    how
        How they are asked.

    Examples
    --------
    >>> seen = EncoderOfBundle("deixis", "1f2e")
    >>> made = Neighbours(seen, ("1", "2"), np.eye(2), [[("a", "dog")], [("two", "cats")]])
    >>> made.captions_of(1)
    ['two cats']
    """

    KIND = "neighbours"

    def __init__(
        self,
        encoder: EncoderOfBundle,
        photos: Sequence[str],
        vectors: NDArray[np.floating],
        captions: Sequence[Sequence[Sequence[str]]],
        how: HowReranked | None = None,
    ) -> None:
        if not len(photos) == len(vectors) == len(captions):
            raise DeixisError(f"neighbours: {len(photos)} photos, {len(vectors)} vectors, captions of {len(captions)}")
        self.encoder = encoder
        self.photos = tuple(photos)
        self.vectors = vectors
        self.captions = captions
        self.how = how or HowReranked()

    @classmethod
    def of(cls, seen: SeenPhotos, encoder: EncoderOfBundle, how: HowReranked | None = None) -> Self:
        """The photos of a data set, those that have captions."""
        captions = [[words(caption.text) for caption in photo.sentences] for photo in seen.photos]
        kept = np.array([row for row, texts in enumerate(captions) if texts], dtype=np.int64)
        if not len(kept):
            raise DatasetError("no photo to learn from has a caption; there is nothing to rerank by")
        ids = seen.photos.ids
        return cls(encoder, [ids[row] for row in kept], seen.vectors()[kept], [captions[row] for row in kept], how)

    def captions_of(self, row: int) -> list[str]:
        """The captions of a photo."""
        return [" ".join(each) for each in self.captions[row]]

    def consensus(self, model: MRNN) -> Consensus:
        """What these photos say of sentences that a model writes."""
        return Consensus(looked_up(model, self.vectors, self.how.feature), self.captions)

    def saved(self) -> Saved:
        """What `save` writes."""
        settings = {
            "encoder": asdict(self.encoder),
            "photos": list(self.photos),
            "captions": [[" ".join(each) for each in texts] for texts in self.captions],
            "how": asdict(self.how),
        }
        return Saved(self.KIND, settings, {"vectors": np.asarray(self.vectors, dtype=np.float32)})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        kept = saved.settings
        captions = [[text.split(" ") if text else [] for text in texts] for texts in kept["captions"]]
        vectors = np.array(saved.arrays["vectors"])  # in memory: torch wants arrays that could be written
        return cls(EncoderOfBundle(**kept["encoder"]), kept["photos"], vectors, captions, _how(kept["how"]))


@dataclass(frozen=True)
class Reranker:
    """Puts the sentences that a model has written in the order that its neighbours give them.

    Attributes
    ----------
    neighbours
        Who is asked.
    model
        That writes.
    settings
        By which similarity, with which k and m.
    """

    neighbours: Neighbours
    model: MRNN
    settings: ConsensusSettings

    @cached_property
    def consensus(self) -> Consensus:
        """Made when it is first needed, and then kept."""
        return self.neighbours.consensus(self.model)

    def looked_up(self, photos: Photos) -> NDArray[np.floating]:
        """Photos as their neighbours are found."""
        vectors = photos.vectors if isinstance(photos, WithCells) else np.asarray(photos)
        return looked_up(self.model, vectors, self.neighbours.how.feature)

    def nearest(self, photos: Photos, count: int) -> Numbers:
        """The rows of the nearest training photos, for each photo."""
        return self.consensus.neighbours(self.looked_up(photos), count)

    def scores(self, photos: Photos, made: Sequence[Sequence[Generated]]) -> list[NDArray[np.float64]]:
        """The consensus score of each sentence."""
        return self.consensus.scores(
            self.looked_up(photos), [[each.words for each in some] for some in made], self.settings
        )


@dataclass(frozen=True)
class Oracle:
    """Puts sentences in the order that the photos' own captions give them, which no reranking can beat.

    Attributes
    ----------
    references
        For each photo its captions.
    similarity
        BLEU or CIDEr.
    """

    references: Sequence[Sequence[str]]
    similarity: Similarity

    def scores(self, photos: Photos, made: Sequence[Sequence[Generated]]) -> list[NDArray[np.float64]]:
        """How good each sentence is."""
        return oracle_scores([[each.words for each in some] for some in made], self.references, self.similarity)


def open_reranker(
    rerank: Similarity,
    model: str | PathLike[str],
    bundle: CaptionBundle,
    neighbours: str | PathLike[str] | None = None,
) -> Reranker:
    """What reranks the sentences of a model.

    Parameters
    ----------
    rerank
        By BLEU or by CIDEr.
    model, bundle
        The model's name or directory, and the `CaptionBundle` that was opened there.
    neighbours
        What ``deixis train consensus`` made; without it, what ``deixis train m-rnn`` left beside the model.
    """
    place = Path(neighbours) if neighbours else _beside(model)
    name = fspath(model)
    make = f"deixis train consensus --data DATA --set model={name}"
    if place is None or not (place / FILE).is_file():
        where = f"{place} holds none" if place else f"{name} has none beside it"
        raise DeixisError(
            f"--rerank {rerank}: needs training photos with their captions, and {where}; make them from your own data "
            f"with: {make}, and name them with --neighbours consensus.model"
        )
    found = Neighbours.load(place)
    if (found.encoder.fingerprint, found.encoder.crops) != (bundle.encoder.fingerprint, bundle.encoder.crops):
        raise DeixisError(
            f"{place}: its photos were seen by {_in_words(found.encoder)}, those of the model by "
            f"{_in_words(bundle.encoder)}; make it again with: {make}"
        )
    return Reranker(found, bundle.model, found.how.of(rerank))


def looked_up(model: MRNN, vectors: NDArray[np.floating], feature: Feature) -> NDArray[np.floating]:
    """Vectors of photos as the model refines them, or as they are."""
    if feature == "photo":
        return vectors
    return model.refined(np.asarray(vectors, dtype=np.float32))


def feature_of(model: MRNN) -> Feature:
    """Refined, where photos go into the multimodal layer of a network, so that it refines them."""
    return "refined" if model.settings.photo_into in ("multimodal", "both", "both-shared") else "photo"


def _in_words(encoder: EncoderOfBundle) -> str:
    return f"{encoder.name} ({encoder.fingerprint}{', ten crops' if encoder.crops else ''})"


def _beside(model: str | PathLike[str]) -> Path | None:
    """Where ``deixis train m-rnn`` leaves them, given the run or the folder of the model in it."""
    place = place_of(model)
    return next((each for each in (place / FOLDER, place.parent / FOLDER) if (each / FILE).is_file()), None)


def _how(kept: Mapping[str, Any]) -> HowReranked:
    ways = {name: ConsensusSettings(**kept[name]) for name in ("bleu", "cider")}
    return HowReranked(kept["feature"], ways["bleu"], ways["cider"], int(kept["tuned_on"]))
