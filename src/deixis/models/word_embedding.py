"""`WordEmbedding`: the word vectors of a text encoder in training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from deixis.arrays import Floats
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary


class WordEmbedding(nn.Embedding):
    """Learned rows of the words of a vocabulary and of the unknown word, zeros as padding, and optional frozen vectors.

    Takes word ids as `WordTable.encode` gives them, for training; or the vectors of `WordTable.vectors`, which it
    returns unchanged. The weights are `WordTable.learned`.
    """

    frozen: Tensor | None

    def __init__(self, vocabulary_size: int, word_dim: int) -> None:
        super().__init__(vocabulary_size + 2, word_dim, padding_idx=vocabulary_size + 1)
        # If all training words are known, the embedding of unknown words is never trained: it must be neutral.
        nn.init.zeros_(self.weight[vocabulary_size])
        self.delta_dropout = 0.0
        self._frozen_by_id: Callable[[], Floats] | None = None
        self.register_buffer("frozen", None, persistent=False)

    @torch.no_grad()
    def init_from(self, vocabulary: Vocabulary, vectors: WordVectors) -> None:
        """Initialize the rows of words that have a word vector."""
        rows = torch.from_numpy(vectors.rows_of(vocabulary.words))
        known = (rows >= 0).nonzero()[:, 0]
        self.weight[known] = torch.from_numpy(vectors.take(rows[known].numpy()))

    def add_frozen(self, frozen_by_id: Callable[[], Floats], delta_dropout: float) -> None:
        """Add frozen vectors, from `WordTable.frozen_by_id`; the weights become differences from them, at first zero.

        In training, the difference of a word is dropped with probability `delta_dropout`, so that the network learns to
        read frozen vectors alone, as words have that are not in the training texts.
        """
        nn.init.zeros_(self.weight)
        self.delta_dropout = delta_dropout
        self._frozen_by_id = frozen_by_id

    def forward(self, words: Tensor) -> Tensor:
        """Vectors (…, word_dim) of word ids (…); vectors are returned unchanged."""
        if words.is_floating_point():
            return words
        if self._frozen_by_id is None:
            return super().forward(words)
        if self.frozen is None:  # made when it is needed: inference passes vectors
            with torch.inference_mode(False):
                self.frozen = torch.from_numpy(self._frozen_by_id()).to(self.weight)
        assert self.padding_idx is not None  # noqa: S101 - for type checkers
        delta = super().forward(words.clamp(max=self.padding_idx))
        if self.training and self.delta_dropout:
            kept = torch.rand(words.shape, device=words.device) >= self.delta_dropout
            delta = delta * kept[..., None]
        return self.frozen[words] + delta
