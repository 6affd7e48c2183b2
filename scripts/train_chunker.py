"""Learn the noun-phrase chunker and count the dictionary of types that ship in ``deixis.language.models``.

python scripts/train_chunker.py DATA --keep-out Flickr_8k.devImages.txt

DATA is a data set directory made by ``deixis data import`` from Flickr30k Entities. No photo whose number is in
the file of ``--keep-out`` may be in the split learned from: the script stops if one is. The tagger that ships must be
trained first (``scripts/train_tagger.py``), because the chunker reads its tags.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deixis.data.dataset import Dataset
from deixis.data.records import Caption, Photo
from deixis.language.chunks import CHUNK_BITS, CHUNK_LABELS, ChunkFeatures, Span, labels_of
from deixis.language.entity_types import EntityTypes
from deixis.language.perceptron import Labelled, learn
from deixis.language.sequence import save_model
from deixis.language.tagger import Tagger


def gold_spans(caption: Caption) -> list[Span]:
    """The mentions of a caption as spans of tokens; those that begin or end inside a token are left out."""
    begins = {token.start: place for place, token in enumerate(caption.tokens)}
    ends = {token.end: place + 1 for place, token in enumerate(caption.tokens)}
    return [
        (begins[mention.start], ends[mention.end])
        for mention in caption.mentions
        if mention.start in begins and mention.end in ends
    ]


def labelled_captions(photos: Sequence[Photo]) -> list[Labelled]:
    """Captions as the learner wants them. One without any mention was not marked and teaches nothing."""
    features = ChunkFeatures(Tagger.shipped(), CHUNK_BITS)
    number_of = {label: number for number, label in enumerate(CHUNK_LABELS)}
    return [
        Labelled(
            features([token.text for token in caption.tokens]).astype(np.int32),
            np.array([number_of[label] for label in labels_of(gold_spans(caption), len(caption.tokens))]),
        )
        for photo in photos
        for caption in photo.captions
        if caption.mentions
    ]


def dictionary_of(photos: Sequence[Photo], about: dict[str, Any]) -> EntityTypes:
    """The types of all mentions, counted."""
    return EntityTypes.from_phrases(
        (
            ([token.text for token in caption.tokens[begin:end]], mention.types)
            for photo in photos
            for caption in photo.captions
            for mention, (begin, end) in zip(caption.mentions, gold_spans(caption), strict=True)
        ),
        about,
    )


def refuse_kept_out(ids: list[str], keep_out: Path) -> None:
    """Stop if a photo of the list is among those to learn from."""
    number = {line.split("_")[0].split(".")[0] for line in keep_out.read_text(encoding="utf-8").split()}
    shared = sorted(number.intersection(photo_id.split("_")[0] for photo_id in ids))
    if shared:
        raise SystemExit(f"{keep_out}: {len(shared)} of its photos are in the split to learn from, such as {shared[0]}")


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
    refuse_kept_out(ids, args.keep_out)
    about: dict[str, Any] = {
        "learned_from": f"Flickr30k Entities, split {args.split!r} less the photos of {args.keep_out.name}",
        "caption_ids": {"count": len(ids), "sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest()},
    }
    dictionary_of(photos, about).save(args.out / "entity_types.json")
    captions = labelled_captions(photos)
    model = learn(
        captions,
        CHUNK_LABELS,
        bits=CHUNK_BITS,
        epochs=args.epochs,
        seed=args.seed,
        about={**about, "sentences": len(captions), "epochs": args.epochs, "seed": args.seed},
        after_epoch=lambda epoch, share: print(f"pass {epoch + 1}: {share:.4f}", flush=True),
    )
    save_model(model, args.out / "chunker")


if __name__ == "__main__":
    main()
