"""The m-RNN as a model: it makes up sentences for photos, and says how likely given sentences are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, Text
from deixis.language.saved import Saved
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Scorer
from deixis.models.decoding import Decoding, Generated, decode, start_ids
from deixis.models.m_rnn import MRNNNetwork, MRNNSettings, Seen
from deixis.models.m_rnn_quick import QuickMRNN
from deixis.models.m_rnn_scoring import Beginnings, beginnings, log_probability_matrix, read_beginnings
from deixis.models.networks import checked_rows, give_weights, weights_of, without_weights
from deixis.models.saved import StoredModel
from deixis.models.text_encoders import word_ids

SENTENCES_AT_A_TIME = 256
PHOTOS_AT_A_TIME = 1024


class WithCells(NamedTuple):
    """Photos for a network with attention: their vectors (n, photo_size) and their cells (n, k, cell_size)."""

    vectors: NDArray[np.floating]
    cells: NDArray[np.floating]


Photos = ArrayLike | WithCells
"""Vectors of photos or regions, a row each; with their cells where the network has attention."""

See = Callable[[Tensor, Tensor | None], Seen]
"""Takes vectors, and cells where there are any."""


@dataclass(frozen=True)
class PreparedSentences:
    """What is computed once for sentences, whatever the photos.

    Attributes
    ----------
    tree
        Their beginnings.
    read
        What language alone gives for each; None where the network's language part sees the photo.
    alone
        (n,): log P(w), over the reference photos.
    """

    tree: Beginnings
    read: tuple[Tensor, Tensor] | None
    alone: Tensor


@dataclass(frozen=True)
class SeenPhotos:
    """What a network has made of so many photos."""

    seen: Seen
    count: int


class MRNN(StoredModel, Scorer):
    """Sentences for photos, and photos for sentences, by one network.

    What is made here is not trained: `look_at` is to be given the training photos, and the loop of `deixis.training`
    trains `network`.

    Parameters
    ----------
    photo_size
        Numbers in the vector of a photo or region.
    vocabulary
        The words that it knows.
    settings
        What can be chosen.
    cell_size
        Numbers in a cell of a feature map; for attention only.
    device
        Where to compute, as torch names it.

    Examples
    --------
    >>> model = MRNN(8, Vocabulary(("a", "dog", "runs"), (3, 2, 1)))
    >>> _ = model.look_at(np.eye(8))
    >>> [len(sentences) for sentences in model.generate(np.eye(8)[:2], Decoding(beam=3, count=3))]
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
        self._quick: tuple[list[tuple[int, int, int]], QuickMRNN] | None = None
        self.references_: Photos = np.zeros((0, photo_size), dtype=np.float32)

    def look_at(self, photos: Photos, seed: int = 0) -> Self:
        """Learn from the training photos what is usual, and choose those that sentences are normalised over.

        Parameters
        ----------
        photos
            All training photos.
        seed
            By which the reference photos are chosen.
        """
        vectors, cells = self._checked(photos)
        _standard(vectors, self.network.photo_mean, self.network.photo_scale)
        count = min(self.settings.reference_photos, len(vectors))
        chosen = np.sort(np.random.default_rng(seed).choice(len(vectors), count, replace=False))
        self.references_ = np.asarray(vectors[chosen], dtype=np.float32)
        if cells is not None:
            _standard(cells, self.network.cell_mean, self.network.cell_scale)
            self.references_ = WithCells(self.references_, np.asarray(cells[chosen], dtype=np.float32))
        return self

    def generate(self, photos: Photos, how: Decoding | None = None, start: str = "") -> list[list[Generated]]:
        """Make up sentences: for each photo a list, the best first.

        Parameters
        ----------
        photos
            Photos or regions.
        how
            Beam search with a width of 5 where nothing is said.
        start
            Words to begin with.
        """
        how = how or Decoding(longest=self.settings.longest)
        first = start_ids(start, self.vocabulary)
        writer = self.writer()
        made: list[list[Generated]] = []
        for seen in self._blocks(photos, writer.see):
            made += decode(writer, seen.seen, seen.count, self.vocabulary, how, first)
        return made

    def writer(self) -> QuickMRNN:
        """What writes as the network does and is quicker; made anew when its weights have changed."""
        weights = (*self.network.parameters(), self.network.cell_mean, self.network.cell_scale)
        # The place in memory too: a network that moves to another device keeps its tensors and their versions.
        stamp = [(id(weight), weight.data_ptr(), weight._version) for weight in weights]
        if self._quick is None or self._quick[0] != stamp:
            self._quick = stamp, QuickMRNN(self.network)
        return self._quick[1]

    def log_probabilities(
        self, photos: Photos, sentences: Sequence[Text], photo_of_sentence: ArrayLike | None = None
    ) -> list[NDArray[np.float64]]:
        """For each sentence the log-probability of each word and, last, of the end sign, given its photo.

        Natural logarithms, as `deixis.evaluation.captions.perplexity_scores` takes them. A word that is not in the
        vocabulary counts as the unknown word.

        Parameters
        ----------
        photos
            Photos or regions.
        sentences
            Texts, or their words.
        photo_of_sentence
            The row of each sentence's photo; without it sentence i is of photo i.
        """
        vectors, cells = self._checked(photos)
        rows = np.arange(len(sentences)) if photo_of_sentence is None else np.asarray(photo_of_sentence)
        if len(rows) != len(sentences) or (len(rows) and int(rows.max()) >= len(vectors)):
            raise DeixisError(f"{len(sentences)} sentences need a photo each; {len(vectors)} photos do not fit them")
        words, lengths = word_ids(sentences, self.vocabulary)
        order = torch.argsort(lengths, stable=True)  # as little as possible is read after ends
        found: list[NDArray[np.float64]] = [np.zeros(0)] * len(sentences)
        with self._at_rest():
            for some in torch.split(order, SENTENCES_AT_A_TIME) if len(order) else ():
                photo = rows[some.numpy()]
                looks = self._moved(vectors[photo]), None if cells is None else self._moved(cells[photo])
                seen = self.network.see(*looks)
                likely = self._of_words(seen, words[some, : int(lengths[some].max())], lengths[some])
                for place, values in zip(some.tolist(), likely, strict=True):
                    found[place] = values
        return found

    def unknown_words(self, sentences: Sequence[Text]) -> list[int]:
        """How many words of each sentence the model does not know, as `perplexity_scores` takes it."""
        words, _ = word_ids(sentences, self.vocabulary)
        counts: list[int] = (words == len(self.vocabulary)).sum(1).tolist()
        return counts

    def prepare_visual(self, features: Photos) -> SeenPhotos:
        """What photos or regions add to each word, whatever the sentences."""
        return self._seen(features, self.network.see)

    def prepare_writing(self, photos: Photos) -> SeenPhotos:
        """The same for `writer`."""
        return self._seen(photos, self.writer().see)

    def _seen(self, photos: Photos, see: See) -> SeenPhotos:
        parts = [block.seen for block in self._blocks(photos, see)]
        count = len(self._checked(photos)[0])
        joined = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name in ("multimodal", "words", "keys", "values")
            if parts and getattr(parts[0], name) is not None
        }
        return SeenPhotos(Seen(**joined), count)

    def prepare_text(self, features: Sequence[Text]) -> PreparedSentences:
        """What sentences or phrases are, whatever the photos: the language part, and log P(w) (eq. 7)."""
        words, lengths = word_ids(features, self.vocabulary)
        tree = beginnings(words.numpy(), lengths.numpy(), start=self.network.start, end=self.network.end)
        with self._at_rest():
            read = read_beginnings(self.network, tree) if self.network.language_alone else None
        references = self.prepare_visual(self.references_)
        if not references.count:
            raise DeixisError("m-rnn: has seen no training photos to normalise over; give them to look_at")
        likely = self._matrix(references, tree, read)
        return PreparedSentences(tree, read, likely.logsumexp(0) - np.log(references.count))

    def scores(self, visual: SeenPhotos, text: PreparedSentences) -> Floats:
        """Give log P(w | I) − log P(w) of every pair: one matrix for both directions."""
        matrix: Floats = (self._matrix(visual, text.tree, text.read) - text.alone).cpu().numpy()
        return matrix

    def refined(self, photos: Photos) -> Floats:
        """§8.1: photos as the multimodal layer sees them, by which like photos are found better; without cells too."""
        vectors = self._vectors(photos)
        with self._at_rest():
            made = [self.network.refined(self._moved(vectors[block])).cpu() for block in _blocks(len(vectors))]
        array: Floats = torch.cat(made).numpy() if made else np.zeros((0, self.settings.multimodal_size), np.float32)
        return array

    def saved(self) -> Saved:
        """What `save` writes."""
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
        return Saved(self.KIND, settings, arrays)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        settings, known = saved.settings, saved.settings["vocabulary"]
        vocabulary = Vocabulary(tuple(known[0]), tuple(known[1]), known[2])
        chosen, size, cells = MRNNSettings(**settings["settings"]), settings["photo_size"], settings["cell_size"]
        with without_weights():
            model = cls(size, vocabulary, chosen, cell_size=cells, device="meta")
        references = {name: array for name, array in saved.arrays.items() if name.startswith("references.")}
        give_weights(model.network, {name: saved.arrays[name] for name in saved.arrays.keys() - references})
        model.references_ = references["references.vectors"]
        if chosen.attention:
            model.references_ = WithCells(model.references_, references["references.cells"])
        model._checked(model.references_)
        return model

    def _matrix(self, photos: SeenPhotos, tree: Beginnings, read: tuple[Tensor, Tensor] | None) -> Tensor:
        with self._at_rest():
            return log_probability_matrix(self.network, photos.seen, photos.count, tree, read)

    def _checked(self, photos: Photos) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Vectors and cells, once it is certain that the network can take them."""
        vectors = self._vectors(photos)
        if not self.settings.attention:
            return vectors, None
        if not isinstance(photos, WithCells):
            raise DeixisError("m-rnn: with attention=true photos are given as WithCells(vectors, cells)")
        cells = photos.cells
        if cells.ndim != 3 or len(cells) != len(vectors) or cells.shape[2] != self.cell_size:
            wanted = (len(vectors), "cells", self.cell_size)
            raise DeixisError(f"cells of shape {cells.shape}: they must be {wanted}")
        return vectors, cells

    def _vectors(self, photos: Photos) -> NDArray[Any]:
        rows = photos.vectors if isinstance(photos, WithCells) else photos
        return checked_rows(rows, self.photo_size, "photo or region").numpy()

    def _blocks(self, photos: Photos, see: See) -> Iterator[SeenPhotos]:
        """What is made of photos, some at a time."""
        vectors, cells = self._checked(photos)
        for block in _blocks(len(vectors)):
            with self._at_rest():
                seen = see(self._moved(vectors[block]), None if cells is None else self._moved(cells[block]))
            yield SeenPhotos(seen, len(vectors[block]))

    def _moved(self, rows: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(rows)).to(self.network.word_bias)

    @torch.inference_mode()
    def _of_words(self, seen: Seen, words: Tensor, lengths: Tensor) -> list[NDArray[np.float64]]:
        device = self.network.word_bias.device
        read, written, real = self.network.signed(words.to(device), lengths.to(device))
        logits, _ = self.network(seen, read)
        likely = logits.log_softmax(-1).gather(2, written[:, :, None])[:, :, 0].cpu().double().numpy()
        # Rounding may leave a certain word a hair above probability 1.
        return [np.minimum(row[kept], 0) for row, kept in zip(likely, real.cpu().numpy(), strict=True)]

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """The network as in use, not as in learning."""
        was_training = self.network.training
        if was_training:  # to tell every layer takes as long as to write a word
            self.network.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            if was_training:
                self.network.train()


def _standard(rows: NDArray[Any], mean: Tensor, scale: Tensor) -> None:
    """Learn mean and deviation of each number of (…, size), some rows at a time."""
    size = rows.shape[-1]
    if not len(rows):
        raise DeixisError("m-rnn: there is no training photo to learn from")
    total, squares, count = np.zeros(size), np.zeros(size), 0
    for block in _blocks(len(rows)):
        flat = np.asarray(rows[block], dtype=np.float64).reshape(-1, size)
        total, squares, count = total + flat.sum(0), squares + (flat**2).sum(0), count + len(flat)
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0))
    mean.copy_(torch.from_numpy(total / count))
    # A number that never varies says nothing: it becomes 0, whatever it is divided by.
    scale.copy_(torch.from_numpy(np.where(deviation > 1e-6, deviation, 1.0)))


def _blocks(count: int) -> Iterator[slice]:
    return (slice(begin, begin + PHOTOS_AT_A_TIME) for begin in range(0, count, PHOTOS_AT_A_TIME))
