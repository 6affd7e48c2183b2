"""Show whether words of similar meaning are near in the word embeddings of m-RNN (§3.2).

    python scripts/word_neighbours.py [--model m-rnn] [--near 10] [WORD …]

Words are compared by the Euclidean distance of embedding layer II. Two words are related if they share a stem or a
WordNet sense. Printed are the words with a related one, the percentage of them with a related word among the nearest,
the same if the nearest were drawn at random, and the nearest words of each WORD.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import deixis
from deixis.language.words import senses, stem


def related_words(words: tuple[str, ...]) -> np.ndarray:
    """(words, words) whether two different words share a stem or a sense."""
    members: dict[object, list[int]] = {}
    for number, word in enumerate(words):
        for meaning in (f"stem {stem(word)}", *senses(word)):
            members.setdefault(meaning, []).append(number)
    related = np.zeros((len(words), len(words)), dtype=bool)
    for group in members.values():
        related[np.ix_(group, group)] = True
    np.fill_diagonal(related, False)
    return related


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--model", default="m-rnn")
    parser.add_argument("--near", type=int, default=10)
    options = parser.parse_args()
    model = deixis.load(options.model).model
    words = model.vocabulary.words
    with torch.inference_mode():
        first = model.network.first(torch.arange(len(words)))
        vectors = first if model.network.second is None else model.network.second(first)
        distances = torch.cdist(vectors, vectors).fill_diagonal_(torch.inf).numpy()
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : options.near]
    related = related_words(words)
    having = np.flatnonzero(related.any(axis=1))
    found = related[having[:, None], nearest[having]].any(axis=1)
    share = related[having].sum(axis=1) / (len(words) - 1)
    chance = 1 - (1 - share) ** options.near
    print(f"{len(having):,} of {len(words):,} words have a related word")
    shares = f"{100 * found.mean():.1f} %, by chance {100 * chance.mean():.1f} %"
    print(f"related word among the {options.near} nearest: {shares}")
    for word in options.words:
        number = model.vocabulary.id_of(word)
        print(f"{word}: {'unknown' if number is None else ', '.join(words[near] for near in nearest[number])}")


if __name__ == "__main__":
    main()
