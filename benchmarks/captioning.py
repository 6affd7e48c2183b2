"""Measure the speed of caption generation and of photo-sentence scores, without the image encoder.

python benchmarks/captioning.py [--model DIR] [--photos N] [--sentences N] [--captions FILE] [--threads N]

Without --model: the paper's network with random weights and 2,600 words, whose sentences are cut at 12 words, about the
length of a caption. Times are CPU seconds per sentence, the best of several rounds, on one thread by default.

alone: one photo at a time.
among: all photos in one call, and the ratio of the two; both are measured in turns. The same ratio is printed for the
softmax's matrix multiplication alone, which limits the gain: a beam of one photo already has several rows.
retrieval: log P(w | I) of photos and sentences in three ways: each pair separately; the language part once per
sentence; and, as implemented, every prefix once. Use real captions (--captions, one per line): random ones share fewer
prefixes.
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
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.model import MRNN, VectorsAndCells
from deixis.models.m_rnn.prefix_tree import PrefixTree, log_probability_matrix
from deixis.models.networks import word_ids

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
    model = MRNN(PHOTO_SIZE, vocabulary)
    with torch.no_grad():
        model.network.word_bias[model.network.end] = -100
    return model


def random_photos(model: MRNN, count: int) -> VectorsAndCells:
    """Mixtures of the model's reference photos, with different captions; only attention uses the cells."""
    rng = np.random.default_rng(0)
    kept = model.references_
    vectors = np.asarray(kept.vectors, dtype=np.float32)
    cells = np.zeros((len(vectors), 1, 1), np.float32) if kept.cells is None else kept.cells
    if not len(vectors):
        return VectorsAndCells(rng.normal(size=(count, model.photo_size)).astype(np.float32), cells)
    one, other = rng.integers(len(vectors), size=(2, count))
    share = rng.random((count, 1)).astype(np.float32)
    mixed = share * vectors[one] + (1 - share) * vectors[other]
    return VectorsAndCells(mixed, share[:, :, None] * cells[one] + (1 - share[:, :, None]) * cells[other])


@torch.inference_mode()
def softmax_speedup(model: MRNN, width: int, many: int = 640) -> float:
    """Speed-up per row of the softmax's matrix multiplication, for many rows instead of one beam."""
    weight = model.network.output_weight.T.contiguous()
    few_rows, many_rows = torch.randn(width, len(weight)), torch.randn(many, len(weight))
    few = seconds(lambda: [few_rows @ weight for _ in range(20)], rounds=ROUNDS) / 20 / width
    return few / (seconds(lambda: many_rows @ weight, rounds=ROUNDS) / many)


def print_decoding(model: MRNN, photos: int, max_length: int) -> None:
    photo_features = random_photos(model, photos)
    for name, how in (
        ("greedy", Decoding("greedy", max_length=max_length)),
        ("beam 5", Decoding(beam=5, max_length=max_length)),
        ("beam 10", Decoding(beam=10, top=10, max_length=max_length)),
    ):
        width = 1 if how.method == "greedy" else how.beam
        model.generate(photo_features.take(slice(0, 2)), how)
        several: list[float] = []
        alone: list[list[float]] = []
        for _ in range(ROUNDS):
            several.append(seconds(partial(model.generate, photo_features, how)) / photos)
            each = [photo_features.take(slice(number, number + 1)) for number in range(20)]
            alone.append([seconds(partial(model.generate, one_photo, how), rounds=3) for one_photo in each])
        # The best round of each photo: a sentence is so short that some rounds are undisturbed.
        one, many = float(np.min(alone, axis=0).mean()), min(several)
        print(
            f"{name:8s} {1000 * one:6.2f} ms per sentence alone, {1000 * many:6.2f} ms among {photos} "
            f"({one / many:.1f} times as many a second; softmax alone {softmax_speedup(model, width):.1f})"
        )


def sentences(count: int, known: Vocabulary) -> list[list[str]]:
    """Random sentences with word frequencies as in captions (1 / rank), so that prefixes repeat."""
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, len(known) + 1)
    drawn = rng.choice(len(known), size=(count, LENGTH - 1), p=shares / shares.sum())
    return [known.decode(row) for row in drawn.tolist()]


def print_retrieval(model: MRNN, photos: int, texts: list[list[str]]) -> None:
    photo_features = random_photos(model, photos)
    network = model.network.eval()
    words, lengths = word_ids(texts, model.vocabulary)
    tree = PrefixTree.from_sentences(words.numpy(), lengths.numpy(), start=network.start, end=network.end)
    prepared = model.prepare_visual(photo_features)

    def each_pair() -> None:
        for photo in range(photos):
            model.log_probabilities(photo_features, texts, np.full(len(texts), photo))

    @torch.inference_mode()
    def language_once() -> None:
        inputs, targets, real = network.add_boundary_tokens(words, lengths)
        language, states, _ = network.read_words(inputs, network.initial_state(len(inputs)))
        for photo in range(photos):
            some = prepared.context.take(slice(photo, photo + 1))
            multimodal = network.multimodal_layer(language[real][None], states[real][None], some)
            likely = network.logits(multimodal)[0].log_softmax(-1)
            likely.gather(1, targets[real][:, None])

    ways = {
        "each pair separately": each_pair,
        "language once per sentence": language_once,
        "every prefix once": lambda: log_probability_matrix(network, prepared.context, photos, tree),
    }
    for name, way in ways.items():
        taken = seconds(way, rounds=2)
        print(f"{name:26s} {1e6 * taken / photos / len(texts):8.1f} µs a pair")
    print(f"{len(tree):,} prefixes for {len(tree.step):,} words and end tokens of {len(texts):,} sentences")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--captions", help="file with a sentence per line, for retrieval")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    try:
        model = MRNN.load(options.model) if options.model else random_model()
    except DeixisError as error:
        parser.exit(2, f"{error}\n")
    print_decoding(model, options.photos, model.settings.max_length if options.model else LENGTH)
    texts = sentences(options.sentences, model.vocabulary)
    if options.captions:
        with open(options.captions, encoding="utf-8") as lines:  # noqa: PTH123
            texts = [line.lower().split() for line in lines][: options.sentences]
    print_retrieval(model, min(20, options.photos), texts)


if __name__ == "__main__":
    main()
