"""How fast sentences are made up and photos and sentences compared, beyond the encoder of photos.

python benchmarks/captioning.py [--model DIR] [--photos N] [--sentences N] [--captions FILE] [--threads N]

Without a model: the paper's network with random weights and 2,600 words, whose sentences never end by themselves; they
are cut at 12 words, about the length of a caption with its end sign. Times are seconds of the processor for a sentence,
the best of several rounds, on one thread unless told otherwise: on a busy machine the clock says little.

alone: one photo at a time.
among: all photos in one call, and how many times as many sentences a second that is; taken in turns with the former.
Beside it the same for the softmax's matrix product by itself: a beam of one photo has as many rows as it is wide, so
that there is little left to gain from more. What is gained beyond that is saved on the way to the product.
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

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.decoding import Decoding
from deixis.models.m_rnn import PAPERS
from deixis.models.m_rnn_model import MRNN, WithCells
from deixis.models.m_rnn_scoring import beginnings, log_probability_matrix
from deixis.models.text_encoders import word_ids

KNOWN, PHOTO_SIZE, LENGTH, ROUNDS = 2600, 384, 12, 5


def seconds(work: Callable[[], object], rounds: int = 1) -> float:
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


def some_photos(model: MRNN, count: int) -> WithCells:
    """Photos about as usual for the model, whose captions differ; cells are looked at only by attention."""
    rng = np.random.default_rng(0)
    kept = model.references_
    vectors = np.asarray(kept.vectors if isinstance(kept, WithCells) else kept, dtype=np.float32)
    cells = kept.cells if isinstance(kept, WithCells) else np.zeros((len(vectors), 1, 1), np.float32)
    if not len(vectors):
        return WithCells(rng.normal(size=(count, model.photo_size)).astype(np.float32), cells)
    one, other = rng.integers(len(vectors), size=(2, count))
    share = rng.random((count, 1)).astype(np.float32)
    mixed = share * vectors[one] + (1 - share) * vectors[other]
    return WithCells(mixed, share[:, :, None] * cells[one] + (1 - share[:, :, None]) * cells[other])


def rows(photos: WithCells, some: slice) -> WithCells:
    return WithCells(photos.vectors[some], photos.cells[some])


@torch.inference_mode()
def product_gain(model: MRNN, width: int, many: int = 640) -> float:
    """How many times as many rows a second the softmax's product takes, many at once instead of a beam's."""
    weight = model.network.words_weight.T.contiguous()
    few_rows, many_rows = torch.randn(width, len(weight)), torch.randn(many, len(weight))
    few = seconds(lambda: [few_rows @ weight for _ in range(20)], rounds=ROUNDS) / 20 / width
    return few / (seconds(lambda: many_rows @ weight, rounds=ROUNDS) / many)


def print_decoding(model: MRNN, photos: int, longest: int) -> None:
    looks = some_photos(model, photos)
    for name, how in (
        ("greedy", Decoding("greedy", longest=longest)),
        ("beam 5", Decoding(beam=5, longest=longest)),
        ("beam 10", Decoding(beam=10, count=10, longest=longest)),
    ):
        width = 1 if how.method == "greedy" else how.beam
        model.generate(rows(looks, slice(0, 2)), how)
        several: list[float] = []
        alone: list[list[float]] = []
        for _ in range(ROUNDS):
            several.append(seconds(partial(model.generate, looks, how)) / photos)
            each = [rows(looks, slice(place, place + 1)) for place in range(20)]
            alone.append([seconds(partial(model.generate, look, how), rounds=3) for look in each])
        # Each photo's own best round: a sentence takes so short that others leave some rounds undisturbed.
        one, many = float(np.min(alone, axis=0).mean()), min(several)
        print(
            f"{name:8s} {1000 * one:6.2f} ms a sentence alone, {1000 * many:6.2f} ms among {photos} "
            f"({one / many:.1f} times as many a second; the softmax's product {product_gain(model, width):.1f})"
        )


def sentences(count: int, known: Vocabulary) -> list[list[str]]:
    """Words as common as in captions (1 / rank), so that some beginnings come again."""
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, len(known) + 1)
    drawn = rng.choice(len(known), size=(count, LENGTH - 1), p=shares / shares.sum())
    return [known.decode(row) for row in drawn.tolist()]


def print_retrieval(model: MRNN, photos: int, texts: list[list[str]]) -> None:
    looks = some_photos(model, photos)
    network = model.network.eval()
    words, lengths = word_ids(texts, model.vocabulary)
    tree = beginnings(words.numpy(), lengths.numpy(), start=network.start, end=network.end)
    seen = model.prepare_visual(looks)

    def each_pair() -> None:
        for photo in range(photos):
            model.log_probabilities(looks, texts, np.full(len(texts), photo))

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
    try:
        model = MRNN.load(asked.model) if asked.model else random_model()
    except DeixisError as error:
        parser.exit(2, f"{error}\n")
    print_decoding(model, asked.photos, model.settings.longest if asked.model else LENGTH)
    texts = sentences(asked.sentences, model.vocabulary)
    if asked.captions:
        with open(asked.captions, encoding="utf-8") as lines:  # noqa: PTH123
            texts = [line.lower().split() for line in lines][: asked.sentences]
    print_retrieval(model, min(20, asked.photos), texts)


if __name__ == "__main__":
    main()
