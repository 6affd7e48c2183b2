"""The m-RNN as a model: generates sentences for photos, and scores sentences against photos."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import Text
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Scorer
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence, decode, encode_start
from deixis.models.m_rnn.fast_network import FastMRNN
from deixis.models.m_rnn.network import MRNNNetwork, VisualContext
from deixis.models.m_rnn.prefix_tree import PrefixTree, log_probability_matrix, read_prefixes
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.models.networks import check_rows, eval_mode, word_ids
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.networks import set_weights, weights_of, without_weights

_SENTENCES_PER_BLOCK = 256
_PHOTOS_PER_BLOCK = 1024


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

    context: VisualContext
    count: int


@dataclass(frozen=True)
class PreparedSentences:
    """What is computed once for sentences, whatever the photos."""

    tree: PrefixTree
    prefixes: tuple[Tensor, Tensor] | None  # of the language part for each prefix; None if it depends on the image
    log_prior: Tensor  # log P(w) (n,), averaged over the reference photos


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
    device
        Torch device.

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
        device: str | torch.device = "cpu",
    ) -> None:
        self.settings = settings or MRNNSettings()
        self.photo_size, self.cell_size = photo_size, cell_size
        self.vocabulary = vocabulary
        self.network = MRNNNetwork(photo_size, len(vocabulary), self.settings, cell_size).to(device).eval()
        self._fast: tuple[list[tuple[int, int, int]], FastMRNN] | None = None
        self.references_ = VectorsAndCells(np.zeros((0, photo_size), dtype=np.float32))

    def fit_statistics(self, photos: Photos, seed: int = 0) -> Self:
        """Compute mean and deviation of the training photos, and choose the reference photos of eq. 7."""
        checked = self._checked(photos)
        _fit_standardization(checked.vectors, self.network.photo_mean, self.network.photo_scale)
        if checked.cells is not None:
            _fit_standardization(checked.cells, self.network.cell_mean, self.network.cell_scale)
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
        network = self.fast_network()
        sentences: list[list[GeneratedSentence]] = []
        for block in self._prepare_blocks(photos, network.visual_context):
            sentences += decode(network, block.context, block.count, self.vocabulary, decoding, first)
        return sentences

    def fast_network(self) -> FastMRNN:
        """The network for generation; made again when its weights have changed."""
        weights = (*self.network.parameters(), self.network.cell_mean, self.network.cell_scale)
        # The address too: a network that moves to another device keeps its tensors and their versions.
        stamp = [(id(weight), weight.data_ptr(), weight._version) for weight in weights]
        if self._fast is None or self._fast[0] != stamp:
            self._fast = stamp, FastMRNN(self.network)
        return self._fast[1]

    def prepare_generation(self, photos: Photos) -> PreparedPhotos:
        """Compute the visual context of photos for `fast_network`."""
        return self._prepare(photos, self.fast_network().visual_context)

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
        words, lengths = word_ids(sentences, self.vocabulary)
        order = torch.argsort(lengths, stable=True)  # little padding
        found: list[NDArray[np.float64]] = [np.zeros(0)] * len(sentences)
        with self._eval_mode():
            for some in torch.split(order, _SENTENCES_PER_BLOCK) if len(order) else ():
                context = self.network.visual_context(*self._to_tensors(checked.take(rows[some.numpy()])))
                values = self._word_log_probabilities(context, words[some, : int(lengths[some].max())], lengths[some])
                for row, each in zip(some.tolist(), values, strict=True):
                    found[row] = each
        return found

    @torch.inference_mode()
    def _word_log_probabilities(
        self, context: VisualContext, words: Tensor, lengths: Tensor
    ) -> list[NDArray[np.float64]]:
        device = self.network.word_bias.device
        inputs, targets, real = self.network.add_boundary_tokens(words.to(device), lengths.to(device))
        logits, _ = self.network(context, inputs)
        log_p = logits.log_softmax(-1).gather(2, targets[:, :, None])[:, :, 0].cpu().double().numpy()
        # Rounding may leave a certain word slightly above probability 1.
        return [np.minimum(row[kept], 0) for row, kept in zip(log_p, real.cpu().numpy(), strict=True)]

    def unknown_words(self, sentences: Sequence[Text]) -> list[int]:
        words, _ = word_ids(sentences, self.vocabulary)
        counts: list[int] = (words == len(self.vocabulary)).sum(1).tolist()
        return counts

    # Retrieval (section 5)

    def prepare_visual(self, features: Photos) -> PreparedPhotos:
        """Compute the visual context of photos or regions."""
        return self._prepare(features, self.network.visual_context)

    def prepare_text(self, features: Sequence[Text]) -> PreparedSentences:
        """Compute the language part of sentences or phrases, and log P(w) (eq. 7)."""
        words, lengths = word_ids(features, self.vocabulary)
        tree = PrefixTree.from_sentences(words.numpy(), lengths.numpy(), start=self.network.start, end=self.network.end)
        with self._eval_mode():
            prefixes = read_prefixes(self.network, tree) if self.network.language_ignores_image else None
        references = self.prepare_visual(self.references_)
        if not references.count:
            raise DeixisError("m-rnn: has no reference photos to normalize over; call fit_statistics first")
        log_p = self._log_probability_matrix(references, tree, prefixes)
        return PreparedSentences(tree, prefixes, log_p.logsumexp(0) - np.log(references.count))

    def scores(self, visual: PreparedPhotos, text: PreparedSentences) -> Floats:
        """Compute log P(w | I) − log P(w) of every pair, which ranks both sentences and photos."""
        log_p = self._log_probability_matrix(visual, text.tree, text.prefixes)
        matrix: Floats = (log_p - text.log_prior).cpu().numpy()
        return matrix

    def _log_probability_matrix(
        self, photos: PreparedPhotos, tree: PrefixTree, prefixes: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        with self._eval_mode():
            return log_probability_matrix(self.network, photos.context, photos.count, tree, prefixes)

    # Refined image features (section 8)

    def refine(self, photos: Photos) -> Floats:
        """Compute g(V_I · I), by which consensus reranking finds nearest photos; needs no cells."""
        vectors = self._vectors(photos)
        with self._eval_mode():
            blocks = [self.network.refine(self._to_tensor(vectors[block])).cpu() for block in _blocks(len(vectors))]
        refined: Floats = (
            torch.cat(blocks).numpy() if blocks else np.zeros((0, self.settings.multimodal_dim), np.float32)
        )
        return refined

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
        arrays = weights_of(self.network) | {"references.vectors": vectors}
        if cells is not None:
            arrays["references.cells"] = cells
        return Artifact(self.KIND, settings, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings, known = artifact.settings, artifact.settings["vocabulary"]
        vocabulary = Vocabulary(tuple(known[0]), tuple(known[1]), known[2])
        chosen, size, cells = MRNNSettings(**settings["settings"]), settings["photo_size"], settings["cell_size"]
        with without_weights():
            model = cls(size, vocabulary, chosen, cell_size=cells, device="meta")
        references = {
            name: np.require(array, requirements="W")  # mapped arrays are read-only, and torch needs writable ones
            for name, array in artifact.arrays.items()
            if name.startswith("references.")
        }
        set_weights(model.network, {name: artifact.arrays[name] for name in artifact.arrays.keys() - references})
        reference_cells = references["references.cells"] if chosen.attention else None
        model.references_ = model._checked(VectorsAndCells(references["references.vectors"], reference_cells))
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
        return check_rows(as_vectors_and_cells(photos).vectors, self.photo_size, "photo or region").numpy()

    def _prepare(
        self, photos: Photos, visual_context: Callable[[Tensor, Tensor | None], VisualContext]
    ) -> PreparedPhotos:
        blocks = list(self._prepare_blocks(photos, visual_context))
        context = VisualContext.concatenate([block.context for block in blocks])
        return PreparedPhotos(context, sum(block.count for block in blocks))

    def _prepare_blocks(
        self, photos: Photos, visual_context: Callable[[Tensor, Tensor | None], VisualContext]
    ) -> Iterator[PreparedPhotos]:
        checked = self._checked(photos)
        for block in _blocks(len(checked.vectors)):
            some = checked.take(block)
            with self._eval_mode():
                context = visual_context(*self._to_tensors(some))
            yield PreparedPhotos(context, len(some.vectors))

    def _to_tensors(self, photos: VectorsAndCells) -> tuple[Tensor, Tensor | None]:
        return self._to_tensor(photos.vectors), None if photos.cells is None else self._to_tensor(photos.cells)

    def _to_tensor(self, rows: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(rows)).to(self.network.word_bias)

    @contextmanager
    def _eval_mode(self) -> Iterator[None]:
        with eval_mode(self.network), torch.inference_mode():
            yield


def _fit_standardization(rows: NDArray[Any], mean: Tensor, scale: Tensor) -> None:
    """Set mean and deviation of the features (…, size), a block of rows at a time."""
    size = rows.shape[-1]
    if not len(rows):
        raise DeixisError("m-rnn: there is no training photo")
    total, squares, count = np.zeros(size), np.zeros(size), 0
    for block in _blocks(len(rows)):
        flat = np.asarray(rows[block], dtype=np.float64).reshape(-1, size)
        total, squares, count = total + flat.sum(0), squares + (flat**2).sum(0), count + len(flat)
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0))
    mean.copy_(torch.from_numpy(total / count))
    # A constant feature becomes 0, whatever it is divided by.
    scale.copy_(torch.from_numpy(np.where(deviation > 1e-6, deviation, 1.0)))


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, first + _PHOTOS_PER_BLOCK) for first in range(0, count, _PHOTOS_PER_BLOCK))
