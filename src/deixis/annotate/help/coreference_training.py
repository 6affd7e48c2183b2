"""Learning coreference from photos whose chains are known: pairs of mentions of different captions, the same or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deixis.annotate.help.coreference import UNKNOWN, Coreference, Pair, possible_pairs
from deixis.annotate.help.mention_facts import ABOUT_TWO, MentionFacts, about_each, about_two, facts_of, word_places
from deixis.annotate.material import Material, material_of
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent

if TYPE_CHECKING:
    from deixis.annotate.help.coreference_network import Batch


@dataclass(frozen=True)
class CoreferenceSettings:
    """How the model is learned.

    Attributes
    ----------
    words
        The size of the vocabulary, the commonest words of the captions.
    dimension, hidden
        Of the word vectors, and of the two layers.
    epochs, photos_at_once, rate, decay, dropout
        Of the training; the rate falls to 0.
    seed
        Of all chance.
    """

    words: int = 4000
    dimension: int = 32
    hidden: int = 64
    epochs: int = 6
    photos_at_once: int = 64
    rate: float = 2e-3
    decay: float = 1e-4
    dropout: float = 0.2
    seed: int = 0


@dataclass(frozen=True)
class Lesson:
    """A photo: its mentions, the pairs of them that can be asked about, and which of these are the same."""

    facts: list[MentionFacts]
    pairs: list[Pair]
    same: NDArray[np.float32]


def lesson_of(photo: Photo) -> Lesson:
    """What a photo teaches."""
    material, chains = gold_material(photo)
    facts = facts_of(material)
    pairs = possible_pairs(facts)
    return Lesson(facts, pairs, np.array([chains[a] == chains[b] for a, b in pairs], np.float32))


def gold_material(photo: Photo) -> tuple[Material, list[str]]:
    """A photo with the mentions that the data has put in chains, and the chain of each."""
    chain_of = {
        f"{number}:{mention.start}-{mention.end}": mention.chain
        for number, caption in enumerate(photo.sentences)
        for mention in caption.mentions
        if mention.chain is not None
    }
    sized = replace(photo, width=photo.width or 1, height=photo.height or 1)  # no box is drawn here
    material = material_of(sized)
    mentions = tuple(mention for mention in material.mentions if mention.id in chain_of)
    return replace(material, mentions=mentions), [chain_of[mention.id] for mention in mentions]


def gold_chains(chain_of: Sequence[str]) -> list[list[int]]:
    """The places of the mentions of each chain, from the chain of each mention.

    Examples
    --------
    >>> gold_chains(["a", "b", "a"])
    [[0, 2], [1]]
    """
    found: dict[str, list[int]] = {}
    for place, chain in enumerate(chain_of):
        found.setdefault(chain, []).append(place)
    return list(found.values())


def learn(
    lessons: Sequence[Lesson],
    settings: CoreferenceSettings | None = None,
    on_progress: OnProgress = silent,
) -> Coreference:
    """Learn a model.

    Parameters
    ----------
    lessons
        From photos, by `lesson_of`.
    settings
        How.
    on_progress
        Told how many epochs are done.
    """
    import torch

    from deixis.annotate.help.coreference_network import Network

    settings = settings or CoreferenceSettings()
    if not any(lesson.pairs for lesson in lessons):
        raise DeixisError("no photo has two captions with mentions of one type; there is nothing to learn from")
    torch.manual_seed(settings.seed)
    dice = np.random.default_rng(settings.seed)
    words = commonest_words(lessons, settings.words)
    examples = Examples(lessons, words)
    network = Network(len(words) + 2, settings.dimension, settings.hidden, settings.dropout)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=settings.decay)
    steps = settings.epochs * -(-len(lessons) // settings.photos_at_once)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for epoch in range(settings.epochs):
        on_progress("epochs", epoch, settings.epochs)
        order = dice.permutation(len(lessons)).tolist()
        for begin in range(0, len(order), settings.photos_at_once):
            batch = examples.batch(order[begin : begin + settings.photos_at_once])
            loss = network.loss(batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    on_progress("epochs", settings.epochs, settings.epochs)
    return Coreference(words, network.weights())


def commonest_words(lessons: Sequence[Lesson], most: int) -> list[str]:
    """The commonest words in and around mentions, by how often they occur."""
    counts: Counter[str] = Counter()
    for lesson in lessons:
        for each in lesson.facts:
            counts.update((each.head, *each.inside, *each.before, *each.after))
    return sorted(counts, key=lambda word: (-counts[word], word))[:most]


class Examples:
    """Lessons as arrays, to be put together in batches."""

    def __init__(self, lessons: Sequence[Lesson], words: Sequence[str]) -> None:
        place_of = {word: place for place, word in enumerate(words, start=2)}
        self._places = [word_places(lesson.facts, place_of, UNKNOWN) for lesson in lessons]
        self._each = [about_each(lesson.facts) for lesson in lessons]
        self._pairs = [np.array(lesson.pairs, np.int64).reshape(-1, 2) for lesson in lessons]
        self._two = [
            np.array([about_two(lesson.facts[a], lesson.facts[b]) for a, b in lesson.pairs], np.float32)
            for lesson in lessons
        ]
        self._same = [lesson.same for lesson in lessons]

    def batch(self, numbers: Sequence[int]) -> Batch:
        """The lessons of these numbers together."""
        import torch

        from deixis.annotate.help.coreference_network import Batch

        sizes = [len(self._each[number]) for number in numbers]
        begins = np.cumsum([0, *sizes[:-1]])
        heads, *around = (
            torch.from_numpy(np.concatenate([self._places[number][kind] for number in numbers])) for kind in range(4)
        )
        pairs = [self._pairs[number] + begin for number, begin in zip(numbers, begins, strict=True)]
        two = [self._two[number].reshape(-1, ABOUT_TWO) for number in numbers]
        return Batch(
            heads,
            tuple(around),
            torch.from_numpy(np.concatenate([self._each[number] for number in numbers])),
            torch.from_numpy(np.concatenate(pairs)),
            torch.from_numpy(np.concatenate(two)),
            torch.from_numpy(np.concatenate([self._same[number] for number in numbers])),
        )
