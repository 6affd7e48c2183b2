"""Train the coreference model of `deixis.annotate` on photos with gold chains: pairs of mentions, coreferent or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from deixis.annotate.help.coreference import (
    MENTION_FEATURES,
    PAIR_FEATURES,
    UNKNOWN,
    Coreference,
    MentionFeatures,
    Pair,
    mention_features,
    mention_vectors,
    pair_features,
    possible_pairs,
    word_ids,
)
from deixis.annotate.material import Material, prepare_photo
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.storage.progress import OnProgress, no_progress


@dataclass(frozen=True)
class Batch:
    """A batch of mentions and of pairs of mentions.

    Attributes
    ----------
    heads, around
        Word ids: (mentions,) of the heads, and (mentions, n) of the words inside, before and after each mention.
    each
        (mentions, `MENTION_FEATURES`).
    pairs, two, same
        (pairs, 2) mention indices, (pairs, `PAIR_FEATURES`) features, and (pairs,) whether the two are coreferent.
    """

    heads: Tensor
    around: tuple[Tensor, ...]
    each: Tensor
    pairs: Tensor
    two: Tensor
    same: Tensor


class Network(nn.Module):
    """Two layers over trained word vectors."""

    def __init__(self, rows: int, dimension: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Embedding(rows, dimension, padding_idx=0)
        nn.init.normal_(self.vectors.weight, std=0.1)
        self.mention = nn.Linear(4 * dimension + MENTION_FEATURES, hidden)
        self.pair = nn.Linear(2 * hidden + PAIR_FEATURES, hidden)
        self.last = nn.Linear(hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits that the pairs are coreferent."""
        around = [self._mean(word_ids) for word_ids in batch.around]
        words = self.dropout(torch.cat([self.vectors(batch.heads), *around], dim=1))
        mentions = functional.relu(self.mention(torch.cat([words, batch.each], dim=1)))
        one, other = mentions[batch.pairs[:, 0]], mentions[batch.pairs[:, 1]]
        both = torch.cat([one * other, (one - other).abs(), batch.two], dim=1)
        hidden = self.dropout(functional.relu(self.pair(self.dropout(both))))
        found: Tensor = self.last(hidden)[:, 0]
        return found

    def _mean(self, word_ids: Tensor) -> Tensor:
        is_word = (word_ids > 0).float()[..., None]
        mean: Tensor = (self.vectors(word_ids) * is_word).sum(dim=1) / is_word.sum(dim=1).clamp(min=1)
        return mean

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the pairs."""
        return functional.binary_cross_entropy_with_logits(self(batch), batch.same)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights in the form of `deixis.annotate.help.coreference.Coreference`."""
        named = {
            "vectors": self.vectors.weight,
            "mention_w": self.mention.weight.T,
            "mention_b": self.mention.bias,
            "pair_w": self.pair.weight.T,
            "pair_b": self.pair.bias,
            "last_w": self.last.weight[0],
            "last_b": self.last.bias,
        }
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in named.items()}


@dataclass(frozen=True)
class CoreferenceSettings:
    """Hyperparameters of the training.

    Attributes
    ----------
    words
        Vocabulary size.
    embedding_dim, hidden_size
        Dimension of the word vectors, and size of the two layers.
    epochs, batch_size, learning_rate, weight_decay, dropout
        The batch size is in photos; the learning rate decays linearly to 0.
    seed
        Random seed.
    """

    words: int = 4000
    embedding_dim: int = 32
    hidden_size: int = 64
    epochs: int = 6
    batch_size: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    dropout: float = 0.2
    seed: int = 0


@dataclass(frozen=True)
class LabelledPhoto:
    """The mentions of a photo, their possible pairs, and which pairs are coreferent."""

    facts: list[MentionFeatures]
    pairs: list[Pair]
    same: NDArray[np.float32]


def label_photo(photo: Photo) -> LabelledPhoto:
    """Extract the labelled pairs of a photo."""
    material, chains = gold_material(photo)
    facts = mention_features(material)
    pairs = possible_pairs(facts)
    return LabelledPhoto(facts, pairs, np.array([chains[a] == chains[b] for a, b in pairs], np.float32))


def gold_material(photo: Photo) -> tuple[Material, list[str]]:
    """Return the material of a photo with only its mentions in gold chains, and the chain of each."""
    chain_of = {
        f"{number}:{mention.start}-{mention.end}": mention.chain
        for number, caption in enumerate(photo.sentences)
        for mention in caption.mentions
        if mention.chain is not None
    }
    sized = replace(photo, width=photo.width or 1, height=photo.height or 1)  # boxes are not used here
    material = prepare_photo(sized)
    mentions = tuple(mention for mention in material.mentions if mention.id in chain_of)
    return replace(material, mentions=mentions), [chain_of[mention.id] for mention in mentions]


def gold_chains(chain_of: Sequence[str]) -> list[list[int]]:
    """Group the indices of mentions by chain.

    Examples
    --------
    >>> gold_chains(["a", "b", "a"])
    [[0, 2], [1]]
    """
    found: dict[str, list[int]] = {}
    for index, chain in enumerate(chain_of):
        found.setdefault(chain, []).append(index)
    return list(found.values())


def learn(
    photos: Sequence[LabelledPhoto], settings: CoreferenceSettings | None = None, on_progress: OnProgress = no_progress
) -> Coreference:
    """Train a model.

    Parameters
    ----------
    photos
        Labelled photos, from `label_photo`.
    settings
        Hyperparameters.
    on_progress
        Progress callback, called for each epoch.
    """
    settings = settings or CoreferenceSettings()
    if not any(photo.pairs for photo in photos):
        raise DeixisError("no photo has two captions with mentions of one type, so there are no pairs to train on")
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    words = most_frequent_words(photos, settings.words)
    examples = Examples(photos, words)
    network = Network(len(words) + 2, settings.embedding_dim, settings.hidden_size, settings.dropout)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    steps = settings.epochs * -(-len(photos) // settings.batch_size)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for epoch in range(settings.epochs):
        on_progress("epochs", epoch, settings.epochs)
        order = rng.permutation(len(photos)).tolist()
        for begin in range(0, len(order), settings.batch_size):
            batch = examples.batch(order[begin : begin + settings.batch_size])
            loss = network.loss(batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    on_progress("epochs", settings.epochs, settings.epochs)
    return Coreference(words, network.weights())


def most_frequent_words(photos: Sequence[LabelledPhoto], limit: int) -> list[str]:
    """Return the most frequent words in and around mentions, sorted by frequency."""
    counts: Counter[str] = Counter()
    for photo in photos:
        for each in photo.facts:
            counts.update((each.head, *each.inside, *each.before, *each.after))
    return sorted(counts, key=lambda word: (-counts[word], word))[:limit]


class Examples:
    """Labelled photos as arrays, for batches."""

    def __init__(self, photos: Sequence[LabelledPhoto], words: Sequence[str]) -> None:
        id_of = {word: number for number, word in enumerate(words, start=2)}
        self._word_ids = [word_ids(photo.facts, id_of, UNKNOWN) for photo in photos]
        self._each = [mention_vectors(photo.facts) for photo in photos]
        self._pairs = [np.array(photo.pairs, np.int64).reshape(-1, 2) for photo in photos]
        self._two = [
            np.array([pair_features(photo.facts[a], photo.facts[b]) for a, b in photo.pairs], np.float32)
            for photo in photos
        ]
        self._same = [photo.same for photo in photos]

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Return the batch of the photos with these numbers."""
        sizes = [len(self._each[number]) for number in numbers]
        begins = np.cumsum([0, *sizes[:-1]])
        heads, *around = (
            torch.from_numpy(np.concatenate([self._word_ids[number][kind] for number in numbers])) for kind in range(4)
        )
        pairs = [self._pairs[number] + begin for number, begin in zip(numbers, begins, strict=True)]
        two = [self._two[number].reshape(-1, PAIR_FEATURES) for number in numbers]
        return Batch(
            heads,
            tuple(around),
            torch.from_numpy(np.concatenate([self._each[number] for number in numbers])),
            torch.from_numpy(np.concatenate(pairs)),
            torch.from_numpy(np.concatenate(two)),
            torch.from_numpy(np.concatenate([self._same[number] for number in numbers])),
        )


def find_chains(model: Coreference, material: Material) -> list[list[int]]:
    """Return the groups of mentions that name the same, as indices."""
    return group_mentions(len(material.mentions), model.probabilities(material), model.join_from)


def group_mentions(count: int, probabilities: Mapping[Pair, float], join_from: float) -> list[list[int]]:
    """Cluster mentions by the mean log odds of their pairs; a pair that is not listed separates two groups."""
    odds = np.full((count, count), -np.inf)
    for (a, b), probability in probabilities.items():
        odds[a, b] = odds[b, a] = log_odds(probability)
    groups = [[number] for number in range(count)]
    threshold = log_odds(join_from)
    while len(groups) > 1:
        means = [(odds[np.ix_(groups[a], groups[b])].mean(), a, b) for a, b in combinations(range(len(groups)), 2)]
        best, first, second = max(means, key=lambda each: each[0])
        if best < threshold:
            break
        groups[first] = sorted(groups[first] + groups.pop(second))
    return sorted(groups)


def log_odds(probability: float) -> float:
    """Return the log odds, finite also for 0 and 1."""
    clipped = min(max(probability, 1e-6), 1 - 1e-6)
    return float(np.log(clipped / (1 - clipped)))
