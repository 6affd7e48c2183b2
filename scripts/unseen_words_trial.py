"""Measure what a text encoder makes of words that no training caption has.

python scripts/unseen_words_trial.py DATA [--embeddings shipped …] [--epochs 5] [--seed 0]

DATA is a data set directory with five captions for each photo and the splits train and dev. A small GRU learns, without
photos, which captions describe the same photo. Then the first caption of each dev photo looks for the other four among
those of all dev photos: once as it is, and once with some words replaced by synonyms that no training caption has.
Prints R@1 and R@10 of the captions that have such words.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.data.dataset import Dataset
from deixis.language.vectors import shipped_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.language.word_table import WordTable
from deixis.models.networks import TextEncoderShape, make_text_encoder, word_tensors
from deixis.tokens import words as words_in

SYNONYMS = {
    "man": "bloke",
    "men": "blokes",
    "boy": "lad",
    "girl": "lass",
    "woman": "housewife",
    "women": "housewives",
    "children": "pupils",
    "dog": "mutt",
    "dogs": "hounds",
    "water": "seawater",
    "street": "avenue",
    "building": "edifice",
    "walking": "strolling",
    "young": "youthful",
    "large": "enormous",
    "red": "crimson",
    "blue": "azure",
    "black": "ebony",
    "white": "ivory",
    "trees": "pines",
    "toy": "plaything",
    "horse": "mare",
}
CAPTIONS, BATCH, RATE, TEMPERATURE = 5, 250, 2e-3, 0.06
EMBEDDINGS = ("random", "initial", "frozen", "shipped:0", "shipped:0.2", "shipped:0.5")
"""random; initial: shipped vectors that are trained; frozen; shipped: with a trained difference and its dropout."""

Captions = list[list[str]]


class CaptionEncoder(nn.Module):
    """Embeds captions as unit vectors."""

    def __init__(self, embeddings: str, vocabulary: Vocabulary) -> None:
        super().__init__()
        shipped = shipped_vectors()
        shape = TextEncoderShape("gru", len(vocabulary), shipped.dimension, hidden_size=96, dropout=0.2)
        self.encoder = make_text_encoder(shape)
        self.embed = nn.Linear(self.encoder.size, 256)
        kind, _, dropout = embeddings.partition(":")
        if kind == "initial":
            self.encoder.words.init_from(vocabulary, shipped)
        frozen = shipped if kind in ("frozen", "shipped") else None
        self.table = WordTable(vocabulary, frozen=frozen)
        if frozen is not None:
            self.encoder.words.add_frozen(self.table.frozen_by_id, float(dropout or 0))
            self.encoder.words.weight.requires_grad_(kind == "shipped")

    def forward(self, texts: Sequence[str]) -> Tensor:
        return functional.normalize(self.embed(self.encoder(*word_tensors(texts, self.table))), dim=1)


def train(model: CaptionEncoder, captions: Captions, epochs: int, rng: np.random.Generator) -> None:
    """Match two captions of each photo of a batch."""
    optimizer = torch.optim.AdamW(
        [weight for weight in model.parameters() if weight.requires_grad], lr=RATE, weight_decay=0.02
    )
    count = len(captions)
    step, steps, own = 0, epochs * (count // BATCH), torch.arange(BATCH)
    for _ in range(epochs):
        order = rng.permutation(count)
        for start in range(0, count - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            chosen = [rng.permutation(CAPTIONS)[:2] for _ in rows]
            one, other = (
                model([captions[row][pair[side]] for row, pair in zip(rows, chosen, strict=True)]) for side in (0, 1)
            )
            scores = one @ other.T / TEMPERATURE
            loss = (functional.cross_entropy(scores, own) + functional.cross_entropy(scores.T, own)) / 2
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1, step / 20) * (0.5 + 0.5 * math.cos(math.pi * step / steps))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def replace_words(text: str, synonyms: dict[str, str]) -> str:
    return " ".join(synonyms.get(word, word) for word in words_in(text))


@torch.no_grad()
def recalls(model: CaptionEncoder, captions: Captions, synonyms: dict[str, str]) -> list[float]:
    """R@1 and R@10 of captions with words to replace; then the same with the words replaced."""
    model.eval()
    others = torch.cat([model(own[1:]) for own in captions]).view(len(captions), CAPTIONS - 1, -1)
    first = [own[0] for own in captions]
    replaced = [replace_words(text, synonyms) for text in first]
    changed = torch.tensor([new != replace_words(old, {}) for old, new in zip(first, replaced, strict=True)])
    found = []
    for queries in (first, replaced):
        vectors = torch.cat([model(queries[start : start + 200]) for start in range(0, len(queries), 200)])
        scores = torch.einsum("qd,pcd->qpc", vectors, others).amax(dim=2)
        ranks = (scores > scores.diagonal()[:, None]).sum(dim=1)[changed]
        found += [100 * (ranks < most).float().mean().item() for most in (1, 10)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--embeddings", nargs="+", choices=EMBEDDINGS, default=EMBEDDINGS)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    data = Dataset(chosen.data)
    captions = {}
    for split in ("train", "dev"):
        texts = [[caption.text for caption in photo.sentences][:CAPTIONS] for photo in data.split(split)]
        captions[split] = [own for own in texts if len(own) == CAPTIONS]
    vocabulary = Vocabulary.fit((words_in(text) for own in captions["train"] for text in own), min_count=2)
    seen = {word for own in captions["train"] for text in own for word in words_in(text)}
    synonyms = {word: other for word, other in SYNONYMS.items() if word in vocabulary and other not in seen}
    print(f"{len(vocabulary):,} words in training; {len(synonyms)} synonyms that are not among them")
    print("embeddings   R@1  R@10; synonyms R@1  R@10")
    for embeddings in chosen.embeddings:
        torch.manual_seed(chosen.seed)
        model = CaptionEncoder(embeddings, vocabulary)
        train(model, captions["train"], chosen.epochs, np.random.default_rng(chosen.seed))
        one, ten, synonym_one, synonym_ten = recalls(model, captions["dev"], synonyms)
        print(f"{embeddings:11} {one:5.1f} {ten:5.1f} {synonym_one:13.1f} {synonym_ten:5.1f}", flush=True)


if __name__ == "__main__":
    main()
