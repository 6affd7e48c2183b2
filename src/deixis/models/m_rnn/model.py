"""The m-RNN as a model: generates sentences for photos, and scores sentences against photos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import Text
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Scorer
from deixis.models.inputs import check_rows, word_ids
from deixis.models.m_rnn.decoding import Context, Decoding, GeneratedSentence, Ids, State, decode, encode_start
from deixis.models.m_rnn.prefix_tree import Prefixes, PrefixTree, log_probability_matrix, read_prefixes
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact, Storable

if TYPE_CHECKING:
    from deixis.models.m_rnn.network import MRNNNetwork

_SENTENCES_PER_BLOCK = 256
_PHOTOS_PER_BLOCK = 1024
_REFERENCES = "references."


class VectorsAndCells(NamedTuple):
    """Photos as a network takes them: vectors (n, photo_size) and, with attention, cells (n, k, cell_size)."""

    vectors: NDArray[np.floating]
    cells: NDArray[np.floating] | None = None

    def take(self, rows: slice | NDArray[np.integer]) -> VectorsAndCells:
        return VectorsAndCells(self.vectors[rows], None if self.cells is None else self.cells[rows])


Photos = ArrayLike | VectorsAndCells
"""Vectors of photos or regions, one row each; with cells if the network has attention."""


def as_vectors_and_cells(photos: Photos) -> VectorsAndCells:
    return photos if isinstance(photos, VectorsAndCells) else VectorsAndCells(np.asarray(photos))


@dataclass(frozen=True)
class PreparedPhotos:
    """What a network has computed from photos, and their number."""

    context: Context
    count: int


@dataclass(frozen=True)
class PreparedSentences:
    """What is computed once for sentences, whatever the photos."""

    tree: PrefixTree
    prefixes: Prefixes | None  # None if they depend on the image
    log_prior: NDArray[np.float64]  # log P(w) (n,), averaged over the reference photos


class WordSteps:
    """The inference functions of a network on words: a `NextWordModel`.

    What words add to every step is computed when a word is first used.
    """

    def __init__(self, functions: Functions, settings: MRNNSettings, vocabulary_size: int) -> None:
        self.unknown, self.end, self.start = (vocabulary_size + offset for offset in range(3))
        self.settings = settings
        self.functions = functions
        self._computing = Lock()
        self._terms: Floats | None = None
        self._has_terms = np.zeros(vocabulary_size + 3, dtype=bool)

    def terms(self, words: Ids) -> Floats:
        """What words (…) add to a step (…, size)."""
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
        return (np.zeros((photos, width, self.settings.hidden_size), np.float32),) * self.settings.state_parts

    def step(self, context: Context, words: Ids, state: State) -> tuple[Floats, State]:
        log_p, *after = self.functions("step", self.terms(words), *state, *context)
        return log_p, tuple(after)

    def best_words(self, context: Context, words: Ids, state: State, count: int) -> tuple[Floats, Ids, State]:
        log_p, best, *after = self.functions("best_words", np.array([count]), self.terms(words), *state, *context)
        return log_p, best, tuple(after)

    def read_word(self, words: Ids, state: State, context: Context) -> tuple[Floats, State]:
        """The first half of a step: what words (photos, width) and those before them give to the multimodal layer."""
        language, *after = self.functions("read_word", self.terms(words), *state, *context[: self._read_parts])
        return language, tuple(after)

    def score_words(self, chosen: Ids, language: Floats, states: Floats, context: Context) -> Floats:
        """The second half: log-probabilities (photos, scores) of some words after some prefixes."""
        attending = (states,) if self.settings.attention else ()
        (log_p,) = self.functions("score_words", chosen, language, *attending, *context[self._read_parts :])
        return log_p

    @property
    def _read_parts(self) -> int:
        """Number of parts of the context that `read_word` needs; `score_words` needs the others."""
        return 0 if self.settings.language_ignores_image else 1


class MRNN(Storable, Scorer):
    """Generates sentences for photos, and scores sentences against photos, with one network.

    A new model is untrained: give `fit_statistics` the training photos, and train `network`.

    Parameters
    ----------
    photo_size
        Size of the vector of a photo or region.
    vocabulary
        The known words.
    settings
        Hyperparameters.
    cell_size
        Size of a cell of a feature map, with attention.
    functions
        Inference functions of a saved network; by default those of a new one.

    Examples
    --------
    >>> model = MRNN(8, Vocabulary(("a", "dog", "runs"), (3, 2, 1)))
    >>> _ = model.fit_statistics(np.eye(8))
    >>> [len(sentences) for sentences in model.generate(np.eye(8)[:2], Decoding(beam=3, top=3))]
    [3, 3]
    >>> model.scores(model.prepare_visual(np.eye(8)), model.prepare_text(["A dog runs.", "a cat"])).shape
    (8, 2)
    """

    KIND = "m-rnn"

    def __init__(
        self,
        photo_size: int,
        vocabulary: Vocabulary,
        settings: MRNNSettings | None = None,
        *,
        cell_size: int = 0,
        functions: Functions | None = None,
    ) -> None:
        self.settings = settings or MRNNSettings()
        self.photo_size, self.cell_size = photo_size, cell_size
        self.vocabulary = vocabulary
        self.functions = functions or Functions(self._make_network())
        self._words: WordSteps | None = None
        self.references_ = VectorsAndCells(np.zeros((0, photo_size), dtype=np.float32))

    def _make_network(self) -> MRNNNetwork:
        from deixis.models.m_rnn.network import MRNNNetwork

        return MRNNNetwork(self.photo_size, len(self.vocabulary), self.settings, self.cell_size).eval()

    @property
    def network(self) -> MRNNNetwork:
        """The torch module."""
        network: MRNNNetwork = self.functions.module
        return network

    @property
    def words(self) -> WordSteps:
        """The network's functions on words; new ones each time if the network may be trained in between."""
        if self._words is None or not self.functions.has_sessions:
            self._words = WordSteps(self.functions, self.settings, len(self.vocabulary))
        return self._words

    def fit_statistics(self, photos: Photos, seed: int = 0) -> Self:
        """Compute mean and deviation of the training photos, and choose the reference photos of eq. 7."""
        checked = self._checked(photos)
        self.network.set_statistics("photo", *_mean_and_deviation(checked.vectors))
        if checked.cells is not None:
            self.network.set_statistics("cell", *_mean_and_deviation(checked.cells))
        total = len(checked.vectors)
        count = min(self.settings.reference_photos, total)
        vectors, cells = checked.take(np.sort(np.random.default_rng(seed).choice(total, count, replace=False)))
        self.references_ = VectorsAndCells(
            vectors.astype(np.float32), None if cells is None else cells.astype(np.float32)
        )
        return self

    # Generation (section 5)

    def generate(
        self, photos: Photos, decoding: Decoding | None = None, start: str = ""
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
        self, photos: Photos, sentences: Sequence[Text], photo_of_sentence: ArrayLike | None = None
    ) -> list[NDArray[np.float64]]:
        """For each sentence the log-probabilities of its words and the end token, given its photo.

        Natural logarithms, as `deixis.evaluation.captions.perplexity_scores` takes them. A word outside the vocabulary
        counts as the unknown word. `photo_of_sentence` is the row of each sentence's photo; by default sentence i
        belongs to photo i.
        """
        checked = self._checked(photos)
        total = len(checked.vectors)
        rows = np.arange(len(sentences)) if photo_of_sentence is None else np.asarray(photo_of_sentence)
        if len(rows) != len(sentences) or (len(rows) and int(rows.max()) >= total):
            raise DeixisError(f"{len(sentences)} sentences need a photo each; {total} photos do not fit them")
        ids, lengths = word_ids(sentences, self.vocabulary)
        order = np.argsort(lengths, kind="stable")  # little padding
        words = self.words
        found: list[NDArray[np.float64]] = [np.zeros(0)] * len(sentences)
        for start in range(0, len(order), _SENTENCES_PER_BLOCK):
            some = order[start : start + _SENTENCES_PER_BLOCK]
            context = self._photo_terms(checked.take(rows[some]))
            values = _word_log_probabilities(words, context, ids[some, : lengths[some].max()], lengths[some])
            for row, each in zip(some.tolist(), values, strict=True):
                found[row] = each
        return found

    def unknown_words(self, sentences: Sequence[Text]) -> list[int]:
        ids, _ = word_ids(sentences, self.vocabulary)
        counts: list[int] = (ids == len(self.vocabulary)).sum(1).tolist()
        return counts

    # Retrieval (section 5)

    def prepare_visual(self, features: Photos) -> PreparedPhotos:
        """Compute what photos or regions add to every step."""
        blocks = list(self._prepare_blocks(features))
        if not blocks:
            return PreparedPhotos((), 0)
        parts = zip(*(block.context for block in blocks), strict=True)
        return PreparedPhotos(tuple(map(np.concatenate, parts)), sum(block.count for block in blocks))

    def prepare_text(self, features: Sequence[Text]) -> PreparedSentences:
        """Compute the language part of sentences or phrases, and log P(w) (eq. 7)."""
        words = self.words
        tree = PrefixTree.from_sentences(*word_ids(features, self.vocabulary), start=words.start, end=words.end)
        prefixes = read_prefixes(words, tree) if self.settings.language_ignores_image else None
        references = self.prepare_visual(self.references_)
        if not references.count:
            raise DeixisError("m-rnn: has no reference photos to normalize over; call fit_statistics first")
        log_p = log_probability_matrix(words, references.context, references.count, tree, prefixes)
        highest = log_p.max(0)
        log_prior = highest + np.log(np.exp(log_p - highest).mean(0))
        return PreparedSentences(tree, prefixes, log_prior)

    def scores(self, visual: PreparedPhotos, text: PreparedSentences) -> Floats:
        """Compute log P(w | I) − log P(w) of every pair, which ranks both sentences and photos."""
        log_p = log_probability_matrix(self.words, visual.context, visual.count, text.tree, text.prefixes)
        return (log_p - text.log_prior).astype(np.float32)

    # Refined image features (section 8)

    def refine(self, photos: Photos) -> Floats:
        """Compute g(V_I · I), by which consensus reranking finds nearest photos; needs no cells."""
        settings = self.settings
        if not settings.refines_images:
            raise DeixisError(f"image_input={settings.image_input}: the image does not feed the multimodal layer")
        return self.functions.in_blocks("refine", self._vectors(photos), columns=settings.multimodal_dim)

    # Saving

    def to_artifact(self) -> Artifact:
        known = self.vocabulary
        settings = {
            "photo_size": self.photo_size,
            "cell_size": self.cell_size,
            "settings": asdict(self.settings),
            "vocabulary": [known.words, known.counts, known.min_count],
        }
        vectors, cells = self._checked(self.references_)
        references = {f"{_REFERENCES}vectors": vectors}
        if cells is not None:
            references[f"{_REFERENCES}cells"] = cells
        return self.functions.to_artifact(self.KIND, settings, references)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings, known = artifact.settings, artifact.settings["vocabulary"]
        vocabulary = Vocabulary(tuple(known[0]), tuple(known[1]), known[2])
        chosen = MRNNSettings(**settings["settings"])
        _check_sizes(artifact, chosen, len(vocabulary))
        references = [name for name in artifact.arrays if name.startswith(_REFERENCES)]
        functions = Functions(artifact=artifact, make_module=lambda: model._make_network(), other_arrays=references)
        model = cls(settings["photo_size"], vocabulary, chosen, cell_size=settings["cell_size"], functions=functions)
        cells = artifact.arrays[f"{_REFERENCES}cells"] if chosen.attention else None
        model.references_ = model._checked(VectorsAndCells(artifact.arrays[f"{_REFERENCES}vectors"], cells))
        return model

    # Inputs

    def _checked(self, photos: Photos) -> VectorsAndCells:
        """Vectors and cells that fit the network."""
        vectors, cells = self._vectors(photos), as_vectors_and_cells(photos).cells
        if not self.settings.attention:
            return VectorsAndCells(vectors)
        if cells is None:
            raise DeixisError("m-rnn: with attention=true photos are given as VectorsAndCells(vectors, cells)")
        if cells.ndim != 3 or len(cells) != len(vectors) or cells.shape[2] != self.cell_size:
            raise DeixisError(f"cells of shape {cells.shape}: must be ({len(vectors)}, cells, {self.cell_size})")
        return VectorsAndCells(vectors, cells)

    def _vectors(self, photos: Photos) -> NDArray[Any]:
        return check_rows(as_vectors_and_cells(photos).vectors, self.photo_size, "photo or region")

    def _prepare_blocks(self, photos: Photos) -> Iterator[PreparedPhotos]:
        checked = self._checked(photos)
        for block in _blocks(len(checked.vectors)):
            some = checked.take(block)
            yield PreparedPhotos(self._photo_terms(some), len(some.vectors))

    def _photo_terms(self, photos: VectorsAndCells) -> Context:
        if self.settings.image_input == "nowhere" and photos.cells is None:
            return ()
        return self.functions("photo_terms", *(part for part in photos if part is not None))


def _word_log_probabilities(words: WordSteps, context: Context, ids: Ids, lengths: Ids) -> list[NDArray[np.float64]]:
    """For each sentence, the log-probabilities of its words and the end token; one photo each."""
    count, longest = ids.shape
    ids = np.where(np.arange(longest) < lengths[:, None], ids, words.end)
    inputs = np.hstack([np.full((count, 1), words.start), ids])
    targets = np.hstack([ids, np.full((count, 1), words.end)])
    state, language, states = words.initial_state(count, 1), [], []
    for column in inputs.T:
        found, state = words.read_word(column[:, None], state, context)
        language.append(found)
        states.append(state[0])
    chosen = np.arange(longest + 1) * (words.end + 1) + targets
    log_p = words.score_words(chosen, np.concatenate(language, 1), np.concatenate(states, 1), context)
    # Rounding may leave a certain word slightly above probability 1.
    return [np.minimum(row[: length + 1], 0).astype(np.float64) for row, length in zip(log_p, lengths, strict=True)]


def _check_sizes(artifact: Artifact, settings: MRNNSettings, vocabulary_size: int) -> None:
    """Refuse settings that are not those of the weights, because arrays are made in these sizes."""
    shapes = {name: artifact.arrays[name].shape for name in ("from_state.weight", "word_bias")}
    expected = {
        "from_state.weight": (settings.multimodal_dim, settings.hidden_size),
        "word_bias": (vocabulary_size + 2,),
    }
    if shapes != expected:
        raise DeixisError(f"{artifact.folder}: weights of shapes {shapes}; the settings say {expected}")


def _mean_and_deviation(rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of features (…, size), computed a block of rows at a time."""
    size = rows.shape[-1]
    if not len(rows):
        raise DeixisError("m-rnn: there is no training photo")
    total, squares, count = np.zeros(size), np.zeros(size), 0
    for block in _blocks(len(rows)):
        flat = np.asarray(rows[block], dtype=np.float64).reshape(-1, size)
        total, squares, count = total + flat.sum(0), squares + (flat**2).sum(0), count + len(flat)
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0))
    # A constant feature becomes 0, whatever it is divided by.
    return total / count, np.where(deviation > 1e-6, deviation, 1.0)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, first + _PHOTOS_PER_BLOCK) for first in range(0, count, _PHOTOS_PER_BLOCK))
