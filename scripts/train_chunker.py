"""Train the noun phrase chunker and count the dictionary of types in ``deixis.language.models``.

python scripts/train_chunker.py DATA --keep-out Flickr_8k.devImages.txt

DATA is a data set directory made by ``deixis data import`` from Flickr30k Entities. The script stops if a photo in the
file ``--keep-out`` is in the training split. Train the tagger first (``scripts/train_tagger.py``), because the chunker
uses its tags.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from perceptron import LabelledSentence, learn
from ship_model import ship_part

from deixis.data.dataset import Dataset
from deixis.data.records import NOT_VISUAL, Caption, Photo
from deixis.language.entity_types import EntityTypes, Types
from deixis.language.tagger import CHUNK_TEMPLATES, FeatureRows, Span, WordFacts, tag

CHUNK_LABELS = ("B", "I", "O")
"""First token of a chunk, further token of a chunk, token outside chunks."""

CHUNK_BITS = 20
_MIN_PAIR_COUNT = 2


def gold_spans(caption: Caption) -> list[Span]:
    """Return the mentions of a caption as token spans, without those that start or end inside a token."""
    begins = {token.start: index for index, token in enumerate(caption.tokens)}
    ends = {token.end: index + 1 for index, token in enumerate(caption.tokens)}
    return [
        (begins[mention.start], ends[mention.end])
        for mention in caption.mentions
        if mention.start in begins and mention.end in ends
    ]


def labels_from_spans(spans: Iterable[Span], token_count: int) -> list[str]:
    """Convert spans to labels, the inverse of `deixis.language.tagger.spans_from_labels`."""
    labels = ["O"] * token_count
    for begin, end in spans:
        labels[begin:end] = ["B", *["I"] * (end - begin - 1)]
    return labels


def labelled_captions(photos: Sequence[Photo]) -> list[LabelledSentence]:
    """Return captions as training sentences, without captions that have no mentions."""
    facts, rows = WordFacts(), FeatureRows(CHUNK_TEMPLATES, CHUNK_BITS)
    number_of = {label: number for number, label in enumerate(CHUNK_LABELS)}
    return [
        LabelledSentence(
            rows(facts(texts := [token.text for token in caption.tokens], tag(texts))).astype(np.int32),
            np.array([number_of[label] for label in labels_from_spans(gold_spans(caption), len(texts))]),
        )
        for photo in photos
        for caption in photo.captions
        if caption.mentions
    ]


def count_types(photos: Sequence[Photo], about: dict[str, Any]) -> EntityTypes:
    """Count the types of all mentions."""
    return types_from_phrases(
        (
            ([token.text for token in caption.tokens[begin:end]], mention.types)
            for photo in photos
            for caption in photo.captions
            for mention, (begin, end) in zip(caption.mentions, gold_spans(caption), strict=True)
        ),
        about,
    )


def types_from_phrases(phrases: Iterable[tuple[Sequence[str], Types]], about: Mapping[str, Any]) -> EntityTypes:
    """Build a dictionary from phrases (words, types) with the most frequent types of each ending."""
    by_head: dict[str, Counter[Types]] = {}
    by_pair: dict[tuple[str, str], Counter[Types]] = {}
    for words, types in phrases:
        if not words or NOT_VISUAL in types:
            continue
        *before, head = (word.lower() for word in words)
        by_head.setdefault(head, Counter())[types] += 1
        if before:
            by_pair.setdefault((before[-1], head), Counter())[types] += 1
    heads = {head: _most_frequent(counts) for head, counts in sorted(by_head.items())}
    pairs = {
        pair: _most_frequent(counts)
        for pair, counts in sorted(by_pair.items())
        if counts.total() >= _MIN_PAIR_COUNT and _most_frequent(counts) != heads[pair[1]]
    }
    return EntityTypes(heads, pairs, about)


def _most_frequent(counts: Counter[Types]) -> Types:
    return max(counts, key=lambda types: (counts[types], types))


def check_kept_out(ids: list[str], keep_out: Path) -> None:
    """Exit if a photo of the file is in the training split."""
    number = {line.split("_")[0].split(".")[0] for line in keep_out.read_text(encoding="utf-8").split()}
    shared = sorted(number.intersection(photo_id.split("_")[0] for photo_id in ids))
    if shared:
        raise SystemExit(f"{keep_out}: {len(shared)} of its photos are in the training split, such as {shared[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--keep-out", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("src/deixis/language/models"))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    photos = list(Dataset(args.data).split(args.split))
    ids = sorted(photo.id for photo in photos)
    check_kept_out(ids, args.keep_out)
    about: dict[str, Any] = {
        "learned_from": f"Flickr30k Entities, split {args.split!r} less the photos of {args.keep_out.name}",
        "caption_ids": {"count": len(ids), "sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest()},
    }
    ship_part(count_types(photos, about).to_artifact(), args.out / "entity_types")
    captions = labelled_captions(photos)
    model = learn(
        captions,
        CHUNK_LABELS,
        bits=CHUNK_BITS,
        epochs=args.epochs,
        seed=args.seed,
        about={**about, "sentences": len(captions), "epochs": args.epochs, "seed": args.seed},
        after_epoch=lambda epoch, share: print(f"epoch {epoch + 1}: {share:.4f}", flush=True),
    )
    ship_part(model.to_artifact(), args.out / "chunker")


if __name__ == "__main__":
    main()
