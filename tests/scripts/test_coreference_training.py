"""Learning coreference."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from coreference_training import (
    CoreferenceSettings,
    Examples,
    gold_chains,
    gold_material,
    label_photo,
    learn,
    most_frequent_words,
)

from deixis.data.records import Caption, Chain, Mention, Photo
from deixis.errors import DeixisError
from tests.annotate.fakes import gold

SMALL = CoreferenceSettings(
    words=50, embedding_dim=8, hidden_size=16, epochs=40, batch_size=4, learning_rate=0.02, dropout=0.0
)


def photo_of_pair(name: str, one: str, other: str, same: bool) -> Photo:
    """Two captions, "A <one>." and "A <other>.", that name the same, or not."""
    captions = tuple(
        Caption.from_text(f"A {word}.", (Mention(0, 2 + len(word), chain, ("people",)),))
        for word, chain in ((one, "1"), (other, "1" if same else "2"))
    )
    return Photo(name, captions, (Chain("1"), Chain("2")), width=4, height=3)


PHOTOS = [
    photo_of_pair(f"{one} {other}", one, other, (one in "man guy") == (other in "man guy"))
    for one, other in product(("man", "guy", "girl", "child"), repeat=2)
]


def test_the_chains_of_a_photo_become_labelled_pairs() -> None:
    photo = label_photo(gold())
    material, chains = gold_material(gold())
    assert [each.head for each in photo.facts] == [mention.head for mention in material.mentions]
    for (a, b), same in zip(photo.pairs, photo.same.tolist(), strict=True):
        assert same == (chains[a] == chains[b])
    assert sum(map(len, gold_chains(chains))) == len(chains)


def test_coreferent_words_are_learned() -> None:
    model = learn([label_photo(photo) for photo in PHOTOS], SMALL)
    for photo in PHOTOS:
        material, chains = gold_material(photo)
        likely = model.probabilities(material)[0, 1]
        assert (likely > 0.5) == (chains[0] == chains[1])


def test_numpy_and_torch_give_the_same_logits() -> None:
    import torch
    from coreference_training import Network

    photos = [label_photo(gold())]
    words = most_frequent_words(photos, 50)
    torch.manual_seed(0)
    network = Network(len(words) + 2, 8, 16, 0.5).eval()
    from deixis.annotate.help.coreference import Coreference

    ours = Coreference(words, network.weights()).probabilities(gold_material(gold())[0])
    theirs = torch.sigmoid(network(Examples(photos, words).batch([0]))).detach().numpy()
    assert np.allclose(list(ours.values()), theirs, atol=1e-6)


def test_photos_without_pairs_are_an_error() -> None:
    alone = Photo("1", (Caption.from_text("A dog."),), width=4, height=3)
    with pytest.raises(DeixisError, match="no pairs"):
        learn([label_photo(alone)], SMALL)
