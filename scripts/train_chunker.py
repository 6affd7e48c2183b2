"""Train the noun phrase chunker and count the dictionary of types in ``deixis.language.models``.

python scripts/train_chunker.py DATA --keep-out Flickr_8k.devImages.txt

DATA is a data set directory made by ``deixis data import`` from Flickr30k Entities. The script stops if a photo in the
file ``--keep-out`` is in the training split. Train the tagger first (``scripts/train_tagger.py``), because the chunker
uses its tags.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from perceptron import LabelledSentence, learn
from ship_model import ship_part

from deixis.data.dataset import Dataset
from deixis.data.records import Caption, Photo
from deixis.language.chunker import CHUNK_BITS, CHUNK_LABELS, ChunkFeatures, Span, labels_from_spans
from deixis.language.entity_types import EntityTypes
from deixis.language.tagger import Tagger


def gold_spans(caption: Caption) -> list[Span]:
    """Return the mentions of a caption as token spans, without those that start or end inside a token."""
    begins = {token.start: index for index, token in enumerate(caption.tokens)}
    ends = {token.end: index + 1 for index, token in enumerate(caption.tokens)}
    return [
        (begins[mention.start], ends[mention.end])
        for mention in caption.mentions
        if mention.start in begins and mention.end in ends
    ]


def labelled_captions(photos: Sequence[Photo]) -> list[LabelledSentence]:
    """Return captions as training sentences, without captions that have no mentions."""
    features = ChunkFeatures(Tagger.shipped(), CHUNK_BITS)
    number_of = {label: number for number, label in enumerate(CHUNK_LABELS)}
    return [
        LabelledSentence(
            features([token.text for token in caption.tokens]).astype(np.int32),
            np.array([number_of[label] for label in labels_from_spans(gold_spans(caption), len(caption.tokens))]),
        )
        for photo in photos
        for caption in photo.captions
        if caption.mentions
    ]


def count_types(photos: Sequence[Photo], about: dict[str, Any]) -> EntityTypes:
    """Count the types of all mentions."""
    return EntityTypes.from_phrases(
        (
            ([token.text for token in caption.tokens[begin:end]], mention.types)
            for photo in photos
            for caption in photo.captions
            for mention, (begin, end) in zip(caption.mentions, gold_spans(caption), strict=True)
        ),
        about,
    )


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
