"""The m-RNN as a model: generates sentences for photos, and scores sentences against photos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import NetworkModel, Scorer, check_rows, word_ids
from deixis.models.m_rnn.decoding import (
    Context,
    Decoding,
    GeneratedSentence,
    Ids,
    State,
    decode,
    encode_start,
    take_photos,
)
from deixis.models.m_rnn.retrieval import Prefixes, PrefixTree, log_probability_matrix, read_prefixes
from deixis.models.m_rnn.spec import MRNNSettings, SentenceSettings
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact
from deixis.tokens import Text

if TYPE_CHECKING:
    from deixis.models.m_rnn.network import MRNNNetwork

_SENTENCES_PER_BLOCK = 256
_PHOTOS_PER_BLOCK = 1024
_REFERENCES = "references."

PhotoArrays = tuple[NDArray[Any], ...]
"""Photos as a network takes them, one row each: vectors (n, photo_size), and what else the network takes of photos."""

PhotoInputs = ArrayLike | PhotoArrays
"""Vectors of photos or regions, one row each; or all arrays that the network takes."""


def photo_arrays(photos: PhotoInputs) -> PhotoArrays:
    return photos if isinstance(photos, tuple) else (np.asarray(photos),)


@dataclass(frozen=True)
class PreparedPhotos:
    """Cached image terms of a batch."""

    context: Context
    count: int


@dataclass(frozen=True)
class PreparedSentences:
    """Image-independent sentence terms."""

    tree: PrefixTree
    prefixes: Prefixes | None  # None if they depend on the image
    log_prior: NDArray[np.float64]  # log P(w) (n,), averaged over the reference photos
    divisor: NDArray[np.float64] | float  # of the ratio: 1, or as Kiros et al. the number of words with the end token


class WordSteps:
    """The inference functions of a network on words. Sentences are grouped by photo: word ids are (photos, width).

    The terms of a word are computed when it is first used.
    """

    def __init__(
        self,
        functions: Functions,
        vocabulary_size: int,
        state_sizes: Sequence[int],
        *,
        ignores_image: bool,
        attends: bool,
    ) -> None:
        self.unknown, self.end, self.start = (vocabulary_size + offset for offset in range(3))
        self.functions = functions
        self.ignores_image = ignores_image
        self._state_sizes, self._attends = state_sizes, attends
        self._computing = Lock()
        self._terms: Floats | None = None
        self._has_terms = np.zeros(vocabulary_size + 3, dtype=bool)

    def terms(self, words: Ids) -> Floats:
        """Word terms (…, size) of a step, for words (…)."""
        known = self._has_terms[words]
        if self._terms is None or not known.all():
            with self._computing:
                self._compute_terms(np.unique(words[~known]))
        assert self._terms is not None  # noqa: S101 - computed
        return self._terms[words]

    def _compute_terms(self, words: Ids) -> None:
        (rows,) = self.functions("word_terms", words)
        if self._terms is None:
            self._terms = np.empty((len(self._has_terms), rows.shape[1]), np.float32)  # uses memory when it is written
        self._terms[words] = rows
        self._has_terms[words] = True

    def initial_state(self, photos: int, width: int) -> State:
        return tuple(np.zeros((photos, width, size), np.float32) for size in self._state_sizes)

    def step(self, context: Context, words: Ids, state: State) -> tuple[Floats, State]:
        """Log-probabilities (photos, width, words) of the word after `words`, and the state."""
        log_p, *after = self.functions("step", self.terms(words), *state, *context)
        return log_p, tuple(after)

    def best_words(self, context: Context, words: Ids, state: State, count: int) -> tuple[Floats, Ids, State]:
        """As `step`, of the `count` most probable words: log-probabilities, ids (photos, width, count), the state."""
        log_p, best, *after = self.functions("best_words", np.array([count]), self.terms(words), *state, *context)
        return log_p, best, tuple(after)

    def read_word(self, words: Ids, state: State, context: Context) -> tuple[Prefixes, State]:
        """The first half of a step: what words (photos, width) and those before them give to the multimodal layer."""
        language, *after = self.functions("read_word", self.terms(words), *state, *context[: self._read_parts])
        return (language, after[0]) if self._attends else (language,), tuple(after)

    def score_words(self, chosen: Ids, prefixes: Prefixes, context: Context) -> Floats:
        """The second half: log-probabilities (photos, scores) of some words after some prefixes."""
        (log_p,) = self.functions("score_words", chosen, *prefixes, *context[self._read_parts :])
        return log_p

    @property
    def _read_parts(self) -> int:
        """Number of parts of the context that `read_word` needs; `score_words` needs the others."""
        return 0 if self.ignores_image else 1


class MRNN(NetworkModel[SentenceSettings, "MRNNNetwork"], Scorer):
    """Generates sentences for photos, and scores sentences against photos, with one network.

    A new model is untrained: give `fit_statistics` the training photos, and train `network`. `photo_size` is the size
    of the vector of a photo or region.

    >>> model = MRNN(8, Vocabulary(("a", "dog", "runs"), (3, 2, 1)))
    >>> _ = model.fit_statistics(np.eye(8))
    >>> [len(sentences) for sentences in model.generate(np.eye(8)[:2], Decoding(beam=3, top=3))]
    [3, 3]
    >>> model.scores(model.prepare_visual(np.eye(8)), model.prepare_text(["A dog runs.", "a cat"])).shape
    (8, 2)
    """

    KIND = "m-rnn"
    SETTINGS: ClassVar[type[Any]] = MRNNSettings
    SIZES: ClassVar[tuple[str, ...]] = ("photo_size",)
    ARRAYS = (_REFERENCES,)
    INPUTS: ClassVar[tuple[str, ...]] = ("vectors",)
    """Names of the arrays that photos are given as."""
    ATTENDS: ClassVar[bool] = False
    """Whether the second half of a step needs the state."""

    def __init__(
        self,
        photo_size: int,
        vocabulary: Vocabulary,
        settings: SentenceSettings | None = None,
        *,
        functions: Functions | None = None,
    ) -> None:
        self.photo_size = photo_size
        self.vocabulary = vocabulary
        self._words: WordSteps | None = None
        self.references_: PhotoArrays = ()
        super().__init__(settings, functions)

    def make_network(self) -> MRNNNetwork:
        from deixis.models.m_rnn.network import MRNNNetwork

        settings: Any = self.settings
        return MRNNNetwork(self.photo_size, len(self.vocabulary), settings).eval()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """Sizes of the parts of the recurrent layer's state."""
        settings: Any = self.settings
        return (settings.second_embedding_dim,)

    @property
    def words(self) -> WordSteps:
        """The network's functions on words; new ones each time if the network may be trained in between."""
        if self._words is None or not self.functions.has_sessions:
            ignores_image = self.settings.language_ignores_image
            self._words = WordSteps(
                self.functions,
                len(self.vocabulary),
                self.state_sizes,
                ignores_image=ignores_image,
                attends=self.ATTENDS,
            )
        return self._words

    def fit_statistics(self, photos: PhotoInputs, seed: int = 0) -> Self:
        """Compute mean and deviation of the training photos, and choose the reference photos of eq. 7."""
        checked = self.check_photos(photos)
        for name, part in zip(("photo", "cell"), checked, strict=False):
            self.network.set_statistics(name, *_mean_and_deviation(part))
        total = len(checked[0])
        if not self.settings.reference_photos:
            self.references_ = tuple(part.mean(0, dtype=np.float64)[None].astype(np.float32) for part in checked)
            return self
        count = min(self.settings.reference_photos, total)
        rows = np.sort(np.random.default_rng(seed).choice(total, count, replace=False))
        self.references_ = tuple(part[rows].astype(np.float32) for part in checked)
        return self

    # Generation (section 5)

    def generate(
        self, photos: PhotoInputs, decoding: Decoding | None = None, start: str = ""
    ) -> list[list[GeneratedSentence]]:
        """Generate sentences that begin with the words of `start`: for each photo or region a list, the best first.

        The default is a beam search with a width of 5.
        """
        decoding = decoding or Decoding(max_length=self.settings.max_length)
        first = encode_start(start, self.vocabulary, decoding.max_length)
        words = self.words
        sentences: list[list[GeneratedSentence]] = []
        for block in self._prepare_blocks(photos):
            sentences += decode(words, block.context, block.count, self.vocabulary, decoding, first)
        return sentences

    # Likelihood (section 4)

    def log_probabilities(
        self, photos: PhotoInputs, sentences: Sequence[Text], photo_of_sentence: ArrayLike | None = None
    ) -> list[NDArray[np.float64]]:
        """For each sentence the log-probabilities of its words and the end token, given its photo.

        Natural logarithms, as `deixis.evaluation.captions.perplexity_scores` takes them. A word outside the vocabulary
        counts as the unknown word. `photo_of_sentence` is the row of each sentence's photo; by default sentence i
        belongs to photo i.
        """
        checked = self.check_photos(photos)
        total = len(checked[0])
        rows = np.arange(len(sentences)) if photo_of_sentence is None else np.asarray(photo_of_sentence)
        if len(rows) != len(sentences) or (len(rows) and int(rows.max()) >= total):
            raise DeixisError(f"{len(sentences)} sentences need a photo each; {total} photos do not fit them")
        ids, lengths = word_ids(sentences, self.vocabulary)
        order = np.argsort(lengths, kind="stable")  # little padding
        words = self.words
        found: list[NDArray[np.float64]] = [np.zeros(0)] * len(sentences)
        for start in range(0, len(order), _SENTENCES_PER_BLOCK):
            some = order[start : start + _SENTENCES_PER_BLOCK]
            context = self._photo_terms(take_photos(checked, rows[some]))
            values = _word_log_probabilities(words, context, ids[some, : lengths[some].max()], lengths[some])
            for row, each in zip(some.tolist(), values, strict=True):
                found[row] = each
        return found

    def unknown_words(self, sentences: Sequence[Text]) -> list[int]:
        ids, _ = word_ids(sentences, self.vocabulary)
        counts: list[int] = (ids == len(self.vocabulary)).sum(1).tolist()
        return counts

    # Retrieval (section 5)

    def prepare_visual(self, features: PhotoInputs) -> PreparedPhotos:
        """Compute what photos or regions add to every step."""
        blocks = list(self._prepare_blocks(features))
        if not blocks:
            return PreparedPhotos((), 0)
        parts = zip(*(block.context for block in blocks), strict=True)
        return PreparedPhotos(tuple(map(np.concatenate, parts)), sum(block.count for block in blocks))

    def prepare_text(self, features: Sequence[Text]) -> PreparedSentences:
        """Compute the language part of sentences or phrases, and log P(w) (eq. 7)."""
        words = self.words
        ids, lengths = word_ids(features, self.vocabulary)
        tree = PrefixTree.from_sentences(ids, lengths, start=words.start, end=words.end)
        prefixes = read_prefixes(words, tree) if self.settings.language_ignores_image else None
        if not self.references_:
            raise DeixisError(f"{self.KIND}: has no reference photos to normalize over; call fit_statistics first")
        references = self.prepare_visual(self.references_)
        log_p = log_probability_matrix(words, references.context, references.count, tree, prefixes)
        highest = log_p.max(0)
        log_prior = highest + np.log(np.exp(log_p - highest).mean(0))
        divisor = 1.0 if self.settings.reference_photos else lengths.astype(np.float64) + 1
        return PreparedSentences(tree, prefixes, log_prior, divisor)

    def scores(self, visual: PreparedPhotos, text: PreparedSentences) -> Floats:
        """Compute log P(w | I) − log P(w) (eq. 7) of every pair, which ranks both sentences and photos."""
        log_p = log_probability_matrix(self.words, visual.context, visual.count, text.tree, text.prefixes)
        return ((log_p - text.log_prior) / text.divisor).astype(np.float32)

    # Refined image features (section 8)

    def refine(self, photos: PhotoInputs) -> Floats:
        """Compute g(V_I · I), by which consensus reranking finds nearest photos, from vectors alone."""
        if not self.settings.refines_images:
            raise DeixisError(f"{self.KIND}: the image does not feed the multimodal layer; see image_input")
        vectors = self.check_vectors(photo_arrays(photos)[0])
        return self.functions.in_blocks("refine", vectors, columns=self.settings.multimodal_dim)

    # Saving

    def save_arguments(self) -> dict[str, Any]:
        return {**super().save_arguments(), "vocabulary": self.vocabulary.to_json()}

    @classmethod
    def load_arguments(cls, artifact: Artifact) -> dict[str, Any]:
        vocabulary = Vocabulary.from_json(artifact.settings["vocabulary"])
        return {**super().load_arguments(artifact), "vocabulary": vocabulary}

    def save_arrays(self) -> dict[str, NDArray[Any]]:
        return {_REFERENCES + name: part for name, part in zip(self.INPUTS, self.references_, strict=True)}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        shapes = [arrays[name].shape for name in ("from_state.weight", "word_bias")]
        expected = [(self.settings.multimodal_dim, self.state_sizes[0]), (len(self.vocabulary) + 2,)]
        if shapes != expected:  # arrays are made in these sizes
            raise ValueError(f"weights of shapes {shapes}; the settings say {expected}")
        self.references_ = self.check_photos(tuple(arrays[_REFERENCES + name] for name in self.INPUTS))

    # Inputs

    def check_photos(self, photos: PhotoInputs) -> PhotoArrays:
        """Return the arrays of photos, and raise if the network does not take them."""
        arrays = photo_arrays(photos)
        if len(arrays) != len(self.INPUTS):
            raise DeixisError(f"{self.KIND}: takes {' and '.join(self.INPUTS)} of photos; {len(arrays)} given")
        return (self.check_vectors(arrays[0]), *arrays[1:])

    def check_vectors(self, vectors: NDArray[Any]) -> NDArray[Any]:
        return check_rows(vectors, self.photo_size, "photo or region")

    def _prepare_blocks(self, photos: PhotoInputs) -> Iterator[PreparedPhotos]:
        checked = self.check_photos(photos)
        for block in _blocks(len(checked[0])):
            some = take_photos(checked, block)
            yield PreparedPhotos(self._photo_terms(some), len(some[0]))

    def _photo_terms(self, photos: PhotoArrays) -> Context:
        return self.functions("photo_terms", *photos) if self.settings.uses_images else ()


def _word_log_probabilities(words: WordSteps, context: Context, ids: Ids, lengths: Ids) -> list[NDArray[np.float64]]:
    """For each sentence, the log-probabilities of its words and the end token; one photo each."""
    count, longest = ids.shape
    ids = np.where(np.arange(longest) < lengths[:, None], ids, words.end)
    inputs = np.hstack([np.full((count, 1), words.start), ids])
    targets = np.hstack([ids, np.full((count, 1), words.end)])
    state, read = words.initial_state(count, 1), []
    for column in inputs.T:
        found, state = words.read_word(column[:, None], state, context)
        read.append(found)
    chosen = np.arange(longest + 1) * (words.end + 1) + targets
    prefixes = tuple(np.concatenate(part, 1) for part in zip(*read, strict=True))
    log_p = words.score_words(chosen, prefixes, context)
    # Rounding may leave a certain word slightly above probability 1.
    return [np.minimum(row[: length + 1], 0).astype(np.float64) for row, length in zip(log_p, lengths, strict=True)]


def _mean_and_deviation(rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of features (…, size), computed a block of rows at a time."""
    size = rows.shape[-1]
    if not len(rows):
        raise DeixisError("there is no training photo")
    total, squares, count = np.zeros(size), np.zeros(size), 0
    for block in _blocks(len(rows)):
        flat = np.asarray(rows[block], dtype=np.float64).reshape(-1, size)
        total, squares, count = total + flat.sum(0), squares + (flat**2).sum(0), count + len(flat)
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0))
    # A constant feature becomes 0 for any divisor.
    return total / count, np.where(deviation > 1e-6, deviation, 1.0)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, first + _PHOTOS_PER_BLOCK) for first in range(0, count, _PHOTOS_PER_BLOCK))
