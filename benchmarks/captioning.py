"""How fast sentences are made up and photos and sentences compared, beyond the encoder of photos.

python benchmarks/captioning.py [--model DIR] [--photos N] [--sentences N] [--captions FILE] [--threads N]

Without a model: the paper's network with random weights and 2,600 words, whose sentences never end by themselves; they
are cut at 12 words, about the length of a caption with its end sign. Times are seconds of the processor for a sentence,
the best of several rounds, on one thread unless told otherwise: on a busy machine the clock says little.

greedy, beam 10: one photo at a time.
batched: all photos in one call, and how many times as many sentences a second that is.
retrieval: log P(w | I) of photos and sentences, in three ways: each pair by itself; the language part once for each
sentence; and, as it is done, every beginning of a sentence once. Give real captions with --captions, a file with one a
line: made-up ones share fewer beginnings.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from deixis.language.vocabulary import Vocabulary
from deixis.models.decoding import Decoding
from deixis.models.m_rnn import PAPERS
from deixis.models.m_rnn_model import MRNN
from deixis.models.m_rnn_scoring import beginnings, log_probability_matrix
from deixis.models.text_encoders import word_ids

KNOWN, PHOTO_SIZE, LENGTH = 2600, 384, 12


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def random_model() -> MRNN:
    torch.manual_seed(0)
    vocabulary = Vocabulary(tuple(f"w{number}" for number in range(KNOWN)), (1,) * KNOWN)
    model = MRNN(PHOTO_SIZE, vocabulary, PAPERS["papers/m-rnn"])
    with torch.no_grad():
        model.network.word_bias[model.network.end] = -100
    return model


def photo_vectors(model: MRNN, count: int) -> NDArray[np.float32]:
    """Photos that the model keeps with it, again and again if need be; random ones for a random model."""
    kept = np.asarray(model.references_, dtype=np.float32)
    if not len(kept):
        return np.random.default_rng(0).normal(size=(count, model.photo_size)).astype(np.float32)
    return kept[np.arange(count) % len(kept)]


def print_decoding(model: MRNN, photos: int, longest: int) -> None:
    vectors = photo_vectors(model, photos)
    for name, how in (
        ("greedy", Decoding("greedy", longest=longest)),
        ("beam 5", Decoding(beam=5, longest=longest)),
        ("beam 10", Decoding(beam=10, count=10, longest=longest)),
    ):
        model.generate(vectors[:2], how)
        # Each photo's own best round: a sentence takes so short that others leave some rounds undisturbed.
        one = np.mean([seconds(partial(model.generate, vectors[i : i + 1], how), rounds=15) for i in range(20)])
        many = seconds(partial(model.generate, vectors, how), rounds=4) / photos
        print(
            f"{name:8s} {1000 * one:6.2f} ms a sentence alone, {1000 * many:6.2f} ms among {photos} "
            f"({one / many:.1f} times as many a second)"
        )


def sentences(count: int, known: int) -> list[list[str]]:
    """Words as common as in captions (1 / rank), so that some beginnings come again."""
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, known + 1)
    drawn = rng.choice(known, size=(count, LENGTH - 1), p=shares / shares.sum())
    return [[f"w{number}" for number in row] for row in drawn]


def print_retrieval(model: MRNN, photos: int, texts: list[list[str]]) -> None:
    vectors = photo_vectors(model, photos)
    network = model.network.eval()
    words, lengths = word_ids(texts, model.vocabulary)
    tree = beginnings(words.numpy(), lengths.numpy(), start=network.start, end=network.end)
    seen = model.prepare_visual(vectors)

    def each_pair() -> None:
        for photo in range(photos):
            model.log_probabilities(vectors, texts, np.full(len(texts), photo))

    @torch.inference_mode()
    def language_once() -> None:
        read, written, real = network.signed(words, lengths)
        language, states, _ = network.read(read, network.first_state(len(read)))
        for photo in range(photos):
            some = seen.seen.take(slice(photo, photo + 1))
            likely = network.write(network.join(language[real][None], states[real][None], some))[0].log_softmax(-1)
            likely.gather(1, written[real][:, None])

    ways = {
        "each pair by itself": each_pair,
        "language once a sentence": language_once,
        "every beginning once": lambda: log_probability_matrix(network, seen.seen, photos, tree),
    }
    for name, way in ways.items():
        taken = seconds(way, rounds=2)
        print(f"{name:26s} {1e6 * taken / photos / len(texts):8.1f} µs a pair")
    print(f"{len(tree):,} beginnings for {len(tree.step):,} words and end signs of {len(texts):,} sentences")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--captions", help="a file with a sentence a line, for retrieval")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    model = MRNN.load(asked.model) if asked.model else random_model()
    print_decoding(model, asked.photos, model.settings.longest if asked.model else LENGTH)
    texts = sentences(asked.sentences, len(model.vocabulary))
    if asked.captions:
        with open(asked.captions, encoding="utf-8") as lines:  # noqa: PTH123
            texts = [line.lower().split() for line in lines][: asked.sentences]
    print_retrieval(model, min(20, asked.photos), texts)


if __name__ == "__main__":
    main()
