"""Collect the training data of ``scripts/train_encoder.py`` in one file, to copy to a GPU machine.

python scripts/encoder_examples.py DATA --text TEXT --out examples.npz

DATA is a data set directory with photos, Entities boxes and the splits train and dev. TEXT is a data set directory with
sentences (Flickr30k Entities, split train), whose photos must not be in dev; its captions train the text side. The
vocabulary has the words that occur at least three times in both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.language.vectors import installed_vectors
from deixis.tokens import words

CAPTIONS, WORDS = 5, 26
PHRASES, PHRASE_WORDS = 6, 8
BOXES = 24
UNKNOWN = 1


class Table:
    """Word ids; 0 is padding, 1 an unknown word."""

    def __init__(self, texts: Iterable[str], at_least: int = 3) -> None:
        counts = Counter(word for text in texts for word in words(text))
        self.words = ["", "?", *sorted(word for word, count in counts.items() if count >= at_least)]
        self.number_of = {word: number for number, word in enumerate(self.words)}

    def row(self, text: str, length: int) -> np.ndarray:
        numbers = [self.number_of.get(word, UNKNOWN) for word in words(text)][:length]
        return np.array(numbers + [0] * (length - len(numbers)), dtype=np.int16)


def captions_of(photo: Photo, table: Table) -> np.ndarray:
    """Word ids of five captions; a photo with fewer repeats them."""
    texts = [caption.text for caption in photo.sentences]
    return np.stack([table.row(texts[number % len(texts)], WORDS) for number in range(CAPTIONS)])


def phrases_of(photo: Photo, table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, union boxes (fractions of the photo) and chains of the phrases of five captions that have boxes."""
    names = np.zeros((CAPTIONS, PHRASES, PHRASE_WORDS), dtype=np.int16)
    boxes = np.zeros((CAPTIONS, PHRASES, 4), dtype=np.float32)
    chains = np.full((CAPTIONS, PHRASES), -1, dtype=np.int16)
    number_of = {chain.id: number for number, chain in enumerate(photo.chains)}
    for row, caption in enumerate(photo.sentences[:CAPTIONS]):
        for column, (text, chain, box) in enumerate(grounded(photo, caption)[:PHRASES]):
            names[row, column] = table.row(text, PHRASE_WORDS)
            boxes[row, column] = box
            chains[row, column] = number_of[chain]
    return names, boxes, chains


def grounded(photo: Photo, caption: Caption) -> list[tuple[str, str, np.ndarray]]:
    """Words, chain and union box of each phrase of a caption that has boxes."""
    return [
        (caption.phrase(mention), mention.chain, union / size_of(photo))
        for mention in caption.mentions
        if mention.chain is not None and (union := union_of(photo, mention.chain)) is not None
    ]


def union_of(photo: Photo, chain: str) -> np.ndarray | None:
    boxes = photo.boxes_of(chain)
    return geometry.union([box.xyxy for box in boxes]) if boxes else None


def size_of(photo: Photo) -> np.ndarray:
    """Divisor that converts boxes to fractions of the photo."""
    return np.array([photo.width, photo.height] * 2)


def boxes_of(photo: Photo) -> np.ndarray:
    """All boxes and the union box of every chain, without duplicates, padded with −1."""
    unions = [union_of(photo, chain.id) for chain in photo.chains]
    every = [*(tuple(union) for union in unions if union is not None), *(tuple(box.xyxy) for box in photo.boxes)]
    distinct = list(dict.fromkeys(every))[:BOXES]
    filled = np.full((BOXES, 4), -1, dtype=np.float32)
    if distinct:
        filled[: len(distinct)] = np.array(distinct) / size_of(photo)
    return filled


def arrays_of(photos: Sequence[Photo], table: Table, prefix: str) -> dict[str, np.ndarray]:
    phrases = [phrases_of(photo, table) for photo in photos]
    return {
        f"{prefix}_files": np.array([photo.file for photo in photos]),
        f"{prefix}_captions": np.stack([captions_of(photo, table) for photo in photos]),
        f"{prefix}_phrases": np.stack([names for names, _, _ in phrases]),
        f"{prefix}_phrase_boxes": np.stack([boxes for _, boxes, _ in phrases]),
        f"{prefix}_phrase_chains": np.stack([chains for _, _, chains in phrases]),
        f"{prefix}_boxes": np.stack([boxes_of(photo) for photo in photos]),
    }


def fingerprint_photos(photos: Sequence[Photo]) -> dict[str, object]:
    """Number and hash of the photo ids, for the metadata of the models."""
    ids = sorted(photo.id for photo in photos)
    return {"count": len(ids), "sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest()}


def start_vectors(table: Table) -> np.ndarray:
    """The pretrained vector of each word, or zeros."""
    vectors = installed_vectors()
    start = np.zeros((len(table.words), vectors.dimension), dtype=np.float16)
    rows = vectors.rows_of(table.words)
    start[rows >= 0] = vectors.matrix[rows[rows >= 0]]
    return start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    data, text = Dataset(chosen.data), Dataset(chosen.text)
    train, dev, more = data.split("train"), data.split("dev"), text.split("train")
    seen = {photo.id.split("_")[0] for photo in more} & {photo.id.split("_")[0] for photo in dev}
    if seen:
        raise SystemExit(f"{chosen.text}: {len(seen)} photos of dev are in its split train")
    texts = [caption.text for photos in (train, more) for photo in photos for caption in photo.sentences]
    table = Table(texts)
    arrays = arrays_of(train, table, "train") | arrays_of(dev, table, "dev")
    arrays["text_captions"] = np.stack([captions_of(photo, table) for photo in more])
    arrays["words"], arrays["vectors"] = np.array(table.words), start_vectors(table)
    arrays["learned_from"] = np.array(
        json.dumps({"photo_ids": fingerprint_photos(train), "caption_ids": fingerprint_photos(more)})
    )
    np.savez_compressed(chosen.out, **arrays)


if __name__ == "__main__":
    try:
        main()
    except DeixisError as error:
        sys.exit(f"encoder_examples: {error}")
