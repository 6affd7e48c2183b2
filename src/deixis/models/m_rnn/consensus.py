"""Consensus reranking (m-RNN, section 8): of several sentences for a photo, prefer what captions of similar photos say.

For each photo, the k nearest training photos are found by their features (8.1). The score of a sentence is its mean
similarity to the m most similar of their captions (8.2). The paper states neither the distance of photos nor the BLEU
of two sentences; they are ours (cosine, smoothed) or those of the authors' released code (mRNN-CR).

`tune` chooses k and m on photos with known captions. Scores on these photos are then optimistic, so
`cross_validated_order` reranks each half of the photos with the choice of the other half.

The captions belong to the data set of the user who trained the model, so `Neighbours` are stored with the run, outside
the model directory that is passed on to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import FloatArray, Floats, IntArray
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.captions.metrics import bleu_from, bleu_statistics
from deixis.evaluation.captions.ngrams import (
    CIDER_SCALE,
    MAX_NGRAM,
    CaptionSet,
    EncodedSentences,
    NgramComparison,
    Numbering,
    References,
    sum_by_group,
)
from deixis.models.installed import model_folder
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence, best_first
from deixis.models.m_rnn.model import MRNN, PhotoArrays, PhotoInputs, photo_arrays
from deixis.models.m_rnn.pipeline import CaptionPipeline, CaptionResult, Ranker
from deixis.models.m_rnn.spec import BleuForm, NeighbourDistance, NeighbourFeature
from deixis.models.pipeline import Rerank
from deixis.models.provenance import EncoderInfo
from deixis.models.registry import get_spec
from deixis.storage.artifacts import CONFIG, Artifact, Storable, damaged, read_artifact
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import Text, words, words_of
from deixis.vision.encoder import FeatureMap

if TYPE_CHECKING:
    from deixis.models.photo_features import PhotoFeatures


CaptionMeasure = Literal["bleu", "cider"]

PAPER_TOP_CAPTIONS = {"bleu": 175, "cider": 125}
"""Section 8.2: m."""

_PHOTOS_PER_BLOCK = 512

_WORD_BITS = 31
"""Code of an n-gram: the number of its first n − 1 words, then the id of its last word in this many bits."""


@dataclass(frozen=True)
class RerankSettings:
    """How sentences are reranked with one similarity: smoothed BLEU-4 or CIDEr-D.

    `neighbours` is k of section 8.2, the number of nearest training photos. `top_captions` is m: the score is the mean
    over this number of most similar captions; None for the paper's.
    """

    similarity: CaptionMeasure = "cider"
    neighbours: int = 60
    top_captions: int | None = None

    def __post_init__(self) -> None:
        for name in ("neighbours", "top_captions"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DeixisError(f"{name}={value}: must be 1 or more")

    @property
    def m(self) -> int:
        return self.top_captions or PAPER_TOP_CAPTIONS[self.similarity]


class Consensus:
    """Training photos with their captions, which score sentences for other photos.

    `vectors` are image features, or the refined ones of an m-RNN (`MRNN.refine`), one row per photo. `distance` and
    `bleu` are settings of `ConsensusSettings`.

    Examples
    --------
    >>> consensus = Consensus(np.eye(2), [["a dog runs", "a dog in the snow"], ["two cats sleep"]])
    >>> sentences = [["a cat sleeps", "a dog runs"], ["two cats sleep", "a dog runs"]]
    >>> [each.tolist() for each in consensus.order(np.eye(2), sentences, RerankSettings(neighbours=1))]
    [[1, 0], [0, 1]]
    """

    def __init__(
        self,
        vectors: ArrayLike,
        captions: Sequence[Sequence[Text]],
        *,
        distance: NeighbourDistance = "cosine",
        bleu: BleuForm = "smoothed",
    ) -> None:
        self._distance, self._bleu = distance, bleu
        self._vectors = np.asarray(vectors, dtype=np.float32)
        self._captions = _words(captions)
        if self._vectors.ndim != 2 or len(self._vectors) != len(self._captions) or not len(self._captions):
            raise DeixisError(
                f"consensus: vectors of shape {self._vectors.shape} are not one row for each of "
                f"{len(self._captions)} photos"
            )
        counts = [len(texts) for texts in self._captions]
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def similarity(self) -> CaptionSimilarity:
        """Similarity of sentences to all captions; computed when first used."""
        return CaptionSimilarity(self._captions)

    def neighbours(self, vectors: ArrayLike, count: int) -> IntArray:
        """The rows of the training photos nearest to each photo, nearest first (section 8.1)."""
        queries = np.asarray(vectors, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self._vectors.shape[1]:
            raise DeixisError(
                f"consensus: vectors of shape {queries.shape}; photos have {self._vectors.shape[1]:,} features"
            )
        cosine = self._distance == "cosine"
        training = _normalize(self._vectors) if cosine else self._vectors
        # Half of the squared distance, less what is the same for all training photos.
        offset = 0.0 if cosine else np.einsum("ij,ij->i", training, training, dtype=np.float64) / 2
        blocks = []
        for first in range(0, len(queries), _PHOTOS_PER_BLOCK):
            block = queries[first : first + _PHOTOS_PER_BLOCK]
            products = _normalize(block) @ training.T if cosine else block.astype(np.float64) @ training.T
            blocks.append(np.argsort(offset - products, axis=1, kind="stable"))
        return np.concatenate([block[:, :count] for block in blocks] or [np.zeros((0, count), dtype=np.int64)])

    def similarities(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], similarity: CaptionMeasure, neighbours: int
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """Compare the sentences of each photo with the captions of its neighbours.

        Yields the end of each neighbour's captions, nearest neighbour first, and the similarities of sentences ×
        captions.
        """
        nearest = self.neighbours(vectors, neighbours)
        if len(nearest) != len(sentences):
            raise DeixisError(f"consensus: {len(nearest)} photos, but sentences for {len(sentences)}")
        name = "mean_f" if similarity == "bleu" and self._bleu == "mean-f" else similarity
        measure: Callable[[Sequence[Sequence[str]], IntArray], FloatArray] = getattr(self.similarity, name)
        for rows, texts in zip(nearest, _words(sentences), strict=True):
            captions = np.concatenate([np.arange(self._starts[row], self._starts[row + 1]) for row in rows])
            ends = np.cumsum(self._starts[rows + 1] - self._starts[rows])
            yield ends, measure(texts, captions)

    def scores(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], settings: RerankSettings | None = None
    ) -> list[FloatArray]:
        """For each photo the consensus scores of its sentences: the mean of the m highest similarities (8.2)."""
        settings = settings or RerankSettings()
        found = []
        for _, values in self.similarities(vectors, sentences, settings.similarity, settings.neighbours):
            highest = -np.sort(-values, axis=1)[:, : settings.m]
            found.append(highest.mean(1) if highest.size else np.zeros(len(values)))
        return found

    def order(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], settings: RerankSettings | None = None
    ) -> list[IntArray]:
        """For each photo the order of its sentences, best first; ties keep their order."""
        return [best_first(scores) for scores in self.scores(vectors, sentences, settings)]


def _words(texts: Sequence[Sequence[Text]]) -> list[list[list[str]]]:
    return [[list(words_of(text)) for text in of_photo] for of_photo in texts]


def oracle_scores(
    sentences: Sequence[Sequence[Text]], references: Sequence[Sequence[Text]], similarity: CaptionMeasure = "cider"
) -> list[FloatArray]:
    """Scores of sentences by the photos' own captions: the upper bound of reranking (oracle of Table 8).

    `references` are the own captions of each photo; CIDEr-D is computed over these photos.
    """
    candidates, captions = _words(sentences), _words(references)
    if similarity == "bleu":
        return list(map(_smoothed_bleu, candidates, captions))
    measure, ends = CaptionSimilarity(captions), np.cumsum([len(texts) for texts in captions])
    return [
        measure.cider(texts, np.arange(end - len(own), end)).mean(1)
        for texts, own, end in zip(candidates, captions, ends, strict=True)
    ]


def _smoothed_bleu(sentences: Sequence[Sequence[str]], captions: Sequence[Sequence[str]]) -> FloatArray:
    """BLEU-4 of each sentence with all captions as references."""
    ids = tuple(map(str, range(len(sentences))))  # each sentence stands for a photo of its own
    statistics = bleu_statistics(CaptionSet(ids, sentences, [captions] * len(sentences)))
    statistics[:, 1:MAX_NGRAM] += 1
    statistics[:, MAX_NGRAM + 1 : 2 * MAX_NGRAM] += 1
    return bleu_from(statistics)[:, -1]


def _normalize(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, np.finfo(np.float32).tiny))


NEIGHBOURS = (5, 10, 20, 40, 60, 90, 120, 200)
TOP_CAPTIONS = (5, 10, 25, 50, 75, 100, 125, 175, 250, 400)
"""The k and m that are tried, the paper's among them."""


@dataclass(frozen=True)
class Candidates:
    """For each photo the vector by which its neighbours are found, sentences to choose from, and its own captions."""

    vectors: ArrayLike
    sentences: Sequence[Sequence[Text]]
    references: Sequence[Sequence[Text]]


def tune(consensus: Consensus, candidates: Candidates, similarity: CaptionMeasure) -> RerankSettings:
    """The k and m with the best choices: by BLEU-4 over all photos for bleu, by CIDEr-D for cider."""
    trial = _Trial.of(consensus, candidates, similarity)
    return trial.best_on(np.arange(len(candidates.sentences)))


def cross_validated_order(
    consensus: Consensus, candidates: Candidates, similarity: CaptionMeasure
) -> tuple[list[IntArray], tuple[RerankSettings, RerankSettings]]:
    """Rerank each half of the photos (every other one) with the k and m chosen on the other half.

    Also gives the settings used for the first and the second half.
    """
    trial, photos = _Trial.of(consensus, candidates, similarity), np.arange(len(candidates.sentences))
    halves = photos[::2], photos[1::2]
    chosen = [trial.best_on(others if len(others) else own) for own, others in (halves, halves[::-1])]
    vectors = np.asarray(candidates.vectors)
    order: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(photos)
    for half, settings in zip(halves, chosen, strict=True):
        found = consensus.order(vectors[half], [candidates.sentences[photo] for photo in half], settings)
        for photo, each in zip(half.tolist(), found, strict=True):
            order[photo] = each
    return order, (chosen[0], chosen[1])


@dataclass(frozen=True)
class _Trial:
    """The sentence that every k and m chooses for each photo."""

    settings: list[RerankSettings]  # all k and m
    gained: FloatArray  # (photos, settings, …): what the chosen sentence adds to the score

    @classmethod
    def of(cls, consensus: Consensus, candidates: Candidates, similarity: CaptionMeasure) -> _Trial:
        """Try all k and m; similarities to the captions of the largest k are computed once."""
        settings = [RerankSettings(similarity, k, m) for k in NEIGHBOURS for m in TOP_CAPTIONS]
        if similarity == "cider":
            values = oracle_scores(candidates.sentences, candidates.references, "cider")
        else:
            values = _bleu_statistics(candidates)
        similarities = consensus.similarities(candidates.vectors, candidates.sentences, similarity, max(NEIGHBOURS))
        gained = [each[_choices(*found)] for each, found in zip(values, similarities, strict=True)]
        return cls(settings, np.stack(gained))

    def best_on(self, photos: IntArray) -> RerankSettings:
        """The settings with the best score on these photos; the first of equal ones."""
        total = self.gained[photos].sum(0)
        return self.settings[int(np.argmax(total if total.ndim == 1 else bleu_from(total)[:, -1]))]


def _choices(ends: IntArray, similarities: FloatArray) -> IntArray:
    """The sentence that each k and m ranks first."""
    chosen = []
    for k in NEIGHBOURS:
        captions = similarities[:, : int(ends[min(k, len(ends)) - 1])]
        sums = np.cumsum(-np.sort(-captions, axis=1), axis=1)
        for m in TOP_CAPTIONS:
            count = min(m, captions.shape[1])
            chosen.append(int(np.argmax(sums[:, count - 1])) if count else 0)
    return np.array(chosen)


def _bleu_statistics(candidates: Candidates) -> list[FloatArray]:
    """For each photo what each of its sentences adds to corpus BLEU."""
    counts = [len(texts) for texts in candidates.sentences]
    sentences = list(chain.from_iterable(_words(candidates.sentences)))
    # Each sentence stands for a photo of its own.
    captions = zip(_words(candidates.references), counts, strict=True)
    references = [texts for texts, count in captions for _ in range(count)]
    everything = CaptionSet(tuple(map(str, range(len(sentences)))), sentences, references)
    return np.split(bleu_statistics(everything), np.cumsum(counts)[:-1])


# Similarity of sentences and captions (section 8.2)


class CaptionSimilarity:
    """Similarity of any sentences to a fixed set of captions.

    `captions` are those of each photo, as words. Document frequencies are counted over these photos.
    """

    def __init__(self, captions: Sequence[Sequence[Sequence[str]]]) -> None:
        sentences = list(chain.from_iterable(captions))
        photo_of = np.repeat(np.arange(len(captions)), [len(photo) for photo in captions])
        self._ids = Numbering()
        self._references = References(EncodedSentences.of(sentences, self._ids.encode), photo_of, len(captions))
        self._lengths = self._references.lengths

    def bleu(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> FloatArray:
        """BLEU-4 of each sentence (row) with each of these captions (column) as its only reference.

        Precisions of n-grams longer than one word are (matches + 1) / (n-grams + 1), after Lin and Och (2004): few
        pairs share four words in a row, and without smoothing all others would be 0.
        """
        length = _lengths(sentences).astype(np.float64)[:, None]
        logs = np.zeros((len(sentences), len(captions)))
        for n, matches in enumerate(self._matches(sentences, captions)):
            smooth = 1.0 if n else 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                logs += np.nan_to_num(np.log((matches + smooth) / (np.maximum(length - n, 0) + smooth)), nan=-np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            brevity = np.minimum(0, 1 - np.nan_to_num(self._lengths[captions] / length, posinf=np.inf))
        return np.asarray(np.exp(logs / MAX_NGRAM + brevity))

    def mean_f(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> FloatArray:
        """BLEU as in the authors' released code, of each sentence (row) with each caption (column).

        The mean over n = 1 … 4 of 2 · matches / (n-grams of the sentence + n-grams of the caption); 0 if one of them
        has fewer than four words.
        """
        ours, theirs = _lengths(sentences)[:, None], self._lengths[captions]
        total = np.zeros((len(sentences), len(captions)))
        for n, matches in enumerate(self._matches(sentences, captions)):
            total += 2 * matches / np.maximum(np.maximum(ours - n, 0) + np.maximum(theirs - n, 0), 1)
        long = (ours >= MAX_NGRAM) & (theirs >= MAX_NGRAM)
        return np.asarray(np.where(long, total / MAX_NGRAM, 0.0))

    def cider(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> FloatArray:
        """CIDEr-D (0 to 10) of each sentence (row) with each of these captions (column) as its only reference."""
        return CIDER_SCALE * self._compare(sentences, captions).cider().reshape(len(sentences), len(captions))

    def _compare(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> NgramComparison:
        return self._references.compare_all(EncodedSentences.of(sentences, self._ids.look_up), captions)

    def _matches(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> Iterator[FloatArray]:
        """For n = 1, 2, …: the number of n-grams of each sentence that each caption has as often."""
        compared = self._compare(sentences, captions)
        for n in range(1, MAX_NGRAM + 1):
            shared, common = compared.common_counts(n)
            yield sum_by_group(shared.pair, common, len(compared.sentence)).reshape(len(sentences), len(captions))


def _lengths(sentences: Sequence[Sequence[str]]) -> IntArray:
    return np.array([len(words) for words in sentences], dtype=np.int64)


FOLDER = "neighbours"
"""Folder of the training photos in the run of a captioner."""


@dataclass(frozen=True)
class RerankConfig:
    """How the neighbours of photos are found (section 8.1), and k and m of each similarity."""

    neighbour_feature: NeighbourFeature = "refined"
    bleu: RerankSettings = field(default_factory=lambda: RerankSettings("bleu"))
    cider: RerankSettings = field(default_factory=lambda: RerankSettings("cider"))
    neighbour_distance: NeighbourDistance = "cosine"
    bleu_form: BleuForm = "smoothed"

    def __post_init__(self) -> None:
        similarities = (self.bleu.similarity, self.cider.similarity)
        known = (
            self.neighbour_feature in get_args(NeighbourFeature)
            and self.neighbour_distance in get_args(NeighbourDistance)
            and self.bleu_form in get_args(BleuForm)
        )
        if not known or similarities != ("bleu", "cider"):
            raise ValueError(f"not a configuration of reranking: {self!r}")

    def settings(self, similarity: CaptionMeasure) -> RerankSettings:
        return self.bleu if similarity == "bleu" else self.cider

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RerankConfig:
        """Read what `dataclasses.asdict` gave."""
        return cls(**{**document, **{name: RerankSettings(**document[name]) for name in ("bleu", "cider")}})


class Neighbours(Storable):
    """Training photos: their ids, vectors, and the words of their captions."""

    KIND = "neighbours"

    def __init__(
        self,
        encoder: EncoderInfo,
        photos: Sequence[str],
        vectors: NDArray[np.floating],
        captions: Sequence[Sequence[Sequence[str]]],
        config: RerankConfig | None = None,
    ) -> None:
        if not len(photos) == len(vectors) == len(captions):
            raise DeixisError(f"neighbours: {len(photos)} photos, {len(vectors)} vectors, captions of {len(captions)}")
        self.encoder = encoder
        self.photos = tuple(photos)
        self.vectors = vectors
        self.captions = captions
        self.config = config or RerankConfig()

    @classmethod
    def from_features(cls, features: PhotoFeatures, encoder: EncoderInfo, config: RerankConfig | None = None) -> Self:
        """The photos of a data set that have captions."""
        captions = [[words(caption.text) for caption in photo.sentences] for photo in features.photos]
        kept = np.array([row for row, texts in enumerate(captions) if texts], dtype=np.int64)
        if not len(kept):
            raise DatasetError("no training photo has a caption; there is nothing to rerank by")
        ids = features.photos.ids
        vectors = features.vectors()[kept]
        return cls(encoder, [ids[row] for row in kept], vectors, [captions[row] for row in kept], config)

    def captions_of(self, row: int) -> list[str]:
        return [" ".join(each) for each in self.captions[row]]

    def consensus(self, model: MRNN) -> Consensus:
        vectors = neighbour_vectors(model, self.vectors, self.config.neighbour_feature)
        config = self.config
        return Consensus(vectors, self.captions, distance=config.neighbour_distance, bleu=config.bleu_form)

    def to_artifact(self) -> Artifact:
        settings = {
            "encoder": asdict(self.encoder),
            "photos": list(self.photos),
            "captions": [self.captions_of(row) for row in range(len(self.captions))],
            "config": asdict(self.config),
        }
        return Artifact(self.KIND, settings, {"vectors": np.asarray(self.vectors, dtype=np.float32)})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings = artifact.settings
        captions = [[text.split(" ") if text else [] for text in texts] for texts in settings["captions"]]
        config = RerankConfig.from_json(settings["config"])
        vectors = artifact.arrays["vectors"]
        return cls(EncoderInfo(**settings["encoder"]), settings["photos"], vectors, captions, config)


def neighbour_vectors(model: MRNN, vectors: NDArray[np.floating], feature: NeighbourFeature) -> NDArray[np.floating]:
    """The features by which similar photos are found."""
    return vectors if feature == "photo" else model.refine(np.asarray(vectors, dtype=np.float32))


@dataclass(frozen=True)
class Reranker:
    """Scores generated sentences by the captions of similar training photos."""

    is_consensus = True

    neighbours: Neighbours
    model: MRNN
    settings: RerankSettings

    @cached_property
    def consensus(self) -> Consensus:
        return self.neighbours.consensus(self.model)

    def nearest(self, photos: PhotoInputs, count: int) -> IntArray:
        """The rows of the nearest training photos, for each photo."""
        return self.consensus.neighbours(self._vectors(photos), count)

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        texts = [[each.words for each in some] for some in sentences]
        return self.consensus.scores(self._vectors(photos), texts, self.settings)

    def _vectors(self, photos: PhotoInputs) -> NDArray[np.floating]:
        vectors = photo_arrays(photos)[0]
        return neighbour_vectors(self.model, vectors, self.neighbours.config.neighbour_feature)


@dataclass(frozen=True)
class Oracle:
    """Scores generated sentences by the photos' own captions: the upper bound of reranking."""

    is_consensus = True

    references: Sequence[Sequence[str]]
    similarity: CaptionMeasure

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        return oracle_scores([[each.words for each in some] for some in sentences], self.references, self.similarity)


def open_reranker(
    rerank: CaptionMeasure, pipeline: CaptionPipeline, neighbours: str | PathLike[str] | None = None
) -> Reranker:
    """Open the reranker of a captioner; see `CaptionPipeline.reranker`."""
    folder = Path(neighbours) if neighbours else _folder_beside(pipeline.name)
    command = f"deixis train consensus --data DATA --set captioner={pipeline.name}"
    if folder is None or not (folder / CONFIG).is_file():
        missing = f"{folder} has none" if folder else f"{pipeline.name} has none beside it"
        raise DeixisError(
            f"--rerank {rerank}: needs training photos with their captions, and {missing}; make them from your own "
            f"data with: {command}, and give --neighbours consensus.model"
        )
    found = load_neighbours(folder)
    if (found.encoder.fingerprint, found.encoder.crops) != (pipeline.encoder.fingerprint, pipeline.encoder.crops):
        raise DeixisError(
            f"{folder}: its photos were encoded by {_describe(found.encoder)}, those of the model by "
            f"{_describe(pipeline.encoder)}; make it again with: {command}"
        )
    return Reranker(found, pipeline.model, found.config.settings(rerank))


def load_neighbours(folder: Path) -> Neighbours:
    """Read the training photos of a training run, or those that ``deixis train consensus`` made."""
    artifact = read_artifact(folder)
    if artifact.kind not in (Neighbours.KIND, ConsensusPipeline.KIND):
        raise DeixisError(f"{folder / CONFIG}: holds {artifact.kind!r}, not training photos with captions")
    with damaged(folder / CONFIG):
        return Neighbours.from_artifact(artifact)


def _folder_beside(model: str) -> Path | None:
    """Where training leaves them, for the run directory or the model directory in it."""
    folder = model_folder(model)
    return next((each for each in (folder / FOLDER, folder.parent / FOLDER) if (each / CONFIG).is_file()), None)


def _describe(encoder: EncoderInfo) -> str:
    return f"{encoder.name} ({encoder.fingerprint}{', ten crops' if encoder.crops else ''})"


class ConsensusPipeline(CaptionPipeline):
    """A captioner with training photos, by whose captions its own are reranked by default."""

    KIND = "consensus"

    def __init__(self, captioner: CaptionPipeline, neighbours: Neighbours, *, card: str = "") -> None:
        super().__init__(captioner.model, captioner.provenance, card=card)
        self.captioner, self.neighbours = captioner, neighbours
        self.name = self.KIND

    @property
    def default_rerank(self) -> Rerank:
        return "cider"

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def tasks(self) -> frozenset[str]:
        return self.captioner.tasks

    @property
    def match_ranker(self) -> Ranker:
        return self.captioner.match_ranker

    def model_inputs(self, features: PhotoFeatures, on_progress: OnProgress = no_progress) -> PhotoArrays:
        return self.captioner.model_inputs(features, on_progress)

    def caption_inputs(
        self, photos: PhotoArrays, decoding: Decoding | None = None, start: str = "", *, ranker: Ranker | None = None
    ) -> list[CaptionResult]:
        return self.captioner.caption_inputs(photos, decoding, start, ranker=ranker)

    def _model_input(self, features: FeatureMap, crops: Floats | None = None) -> PhotoArrays:
        return self.captioner._model_input(features, crops)

    def _open_reranker(self, rerank: CaptionMeasure, neighbours: str | PathLike[str] | None) -> Reranker:
        if neighbours is not None:
            return super()._open_reranker(rerank, neighbours)
        return Reranker(self.neighbours, self.model, self.neighbours.config.settings(rerank))

    def to_artifact(self, *, half: bool = False) -> Artifact:
        captioner = self.captioner.to_artifact(half=half)
        own = self.neighbours.to_artifact()
        parts = {"captioner": replace(captioner, card="")}
        return Artifact(self.KIND, own.settings, own.arrays, parts, captioner.provenance, self.card)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        part = artifact.parts["captioner"]
        captioner: Any = get_spec(part.kind).load(part)
        return cls(captioner, Neighbours.from_artifact(artifact), card=artifact.card)
