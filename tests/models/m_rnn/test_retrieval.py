"""Log-probabilities of all pairs of photos and sentences, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deixis.models.m_rnn import retrieval
from deixis.models.m_rnn.retrieval import PrefixTree, log_probability_matrix
from tests.models.m_rnn.networks import CAPTIONERS, PAPERS, make_network, photo_tensors, take, word_steps

KINDS = {**PAPERS, "captioner": CAPTIONERS["second attention"]}
PHOTOS = 5
SENTENCES = [[0, 1, 2], [0, 1], [0, 1, 2], [3], [0, 4, 4, 5, 6], [0, 1, 7]]


def padded(sentences: list[list[int]], after: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(sentence) for sentence in sentences])
    words = np.full((len(sentences), lengths.max()), after)
    for row, sentence in zip(words, sentences, strict=True):
        row[: len(sentence)] = sentence
    return words, lengths


def network_and_photos(kind: str):
    """A network, its visual context of photos, its functions on words, and what they take of the photos."""
    network = make_network(KINDS[kind])
    photos = photo_tensors(network, PHOTOS)
    with torch.inference_mode():
        context, terms = network.visual_context(*photos), network.photo_terms(*photos)
    return network, context, word_steps(network), tuple(part.numpy() for part in terms)


@pytest.mark.parametrize("rows", [1, 7, 4096])
@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix_equals_a_plain_loop_over_pairs(kind: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "ROWS_PER_BLOCK", {"cpu": rows})
    monkeypatch.setattr(retrieval, "_PHOTOS_PER_BLOCK", 3)
    network, context, steps, terms = network_and_photos(kind)
    tree = PrefixTree.from_sentences(*padded(SENTENCES, network.end), start=network.start, end=network.end)
    found = log_probability_matrix(steps, terms, PHOTOS, tree)
    expected = np.zeros((PHOTOS, len(SENTENCES)))
    with torch.inference_mode():
        for photo in range(PHOTOS):
            for place, words in enumerate(SENTENCES):
                logits, _ = network(take(context, slice(photo, photo + 1)), torch.tensor([[network.start, *words]]))
                log_p = logits[0].log_softmax(-1)
                expected[photo, place] = sum(log_p[row, word].item() for row, word in enumerate([*words, network.end]))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_each_prefix_occurs_once() -> None:
    tree = PrefixTree.from_sentences(*padded(SENTENCES, 8), start=9, end=8)
    distinct = {tuple(words[:length]) for words in SENTENCES for length in range(len(words) + 1)}
    assert len(tree) == len(distinct)
    spelled: list[tuple[int, ...]] = [()]
    for parent, word in zip(tree.parent[1:], tree.word[1:], strict=True):
        spelled.append((*spelled[parent], int(word)))
    assert set(spelled) == distinct
    steps = {(tuple(words[:place]), word) for words in SENTENCES for place, word in enumerate([*words, 8])}
    assert {(spelled[of], int(word)) for of, word in zip(tree.origin, tree.next_word, strict=True)} == steps
    assert len(tree.origin) == len(steps)
    assert len(tree.step) == sum(len(words) + 1 for words in SENTENCES)
