"""Collect the training data of ``scripts/train_encoder.py`` in one file, to copy to a GPU machine.

python scripts/encoder_examples.py --train NAME=DATA[:SPLIT] … --dev NAME=DATA:SPLIT … --text NAME=DATA:SPLIT --out FILE

DATA is a data set directory. Photos with Entities boxes also teach regions and proposals, all others only captions.
``--text`` is a data set with sentences, whose photos must not be in a dev split; its captions train the text side.
``--coco FOLDER`` adds the texts of COCO train2017 (``scripts/coco_texts.py``) as the sources `coco2017` and
`coco2017_questions` and the dev split `coco2017_dev`; its labels count as nouns and teach a head for the classes, and
its boxes teach class names.
``--names FOLDER`` adds photos that are named by their file (``n02391049_zebra.JPEG``), such as one for each class of
ImageNet. The vocabulary has the words that occur at least three times, with the shipped word vectors; the nouns are
those that the captions of at least six photos contain.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from coco_texts import CocoPhoto, read_coco

from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.language.tagger import tag
from deixis.language.vectors import shipped_vectors
from deixis.language.words import stem
from deixis.tokens import words

CAPTIONS, WORDS = 5, 26
PHRASES, PHRASE_WORDS = 6, 8
BOXES = 24
UNKNOWN = 1
NOUN_WORDS = 5
LEAST_PHOTOS = 6

Arrays = dict[str, np.ndarray]


class Table:
    """Word ids; 0 is padding, 1 an unknown word."""

    def __init__(self, texts: Iterable[str], known: Iterable[str], at_least: int = 3) -> None:
        counts = Counter(word for text in texts for word in words(text))
        taught = {word for word, count in counts.items() if count >= at_least}
        self.words = ["", "?", *sorted(taught), *sorted(set(known) - taught)]
        self.taught = len(taught)
        self.counts = [0, 0, *(counts[word] for word in self.words[2:])]
        self.number_of = {word: number for number, word in enumerate(self.words)}

    def row(self, text: str, length: int) -> np.ndarray:
        numbers = [self.number_of.get(word, UNKNOWN) for word in words(text)][:length]
        return np.array(numbers + [0] * (length - len(numbers)), dtype=np.int32)


class Nouns:
    """The nouns that captions use, by stem, with the form that is most frequent."""

    def __init__(self, texts_of_photos: Sequence[Sequence[str]]) -> None:
        self.of_photo: list[set[str]] = []
        forms: dict[str, Counter[str]] = {}
        for texts in texts_of_photos:
            here = set()
            for text in texts:
                found = words(text)
                for word, kind in zip(found, tag(found), strict=True):
                    if kind in ("NN", "NNS") and word.isalpha() and len(word) > 2:
                        here.add(stem(word))
                        forms.setdefault(stem(word), Counter())[word] += 1
            self.of_photo.append(here)
        photos = Counter(name for here in self.of_photo for name in here)
        self.stems = sorted(name for name, count in photos.items() if count >= LEAST_PHOTOS)
        self.names = [forms[name].most_common(1)[0][0] for name in self.stems]


def captions_of(texts: Sequence[str], table: Table) -> np.ndarray:
    """Word ids of five captions; a photo with fewer repeats them."""
    return np.stack([table.row(texts[number % len(texts)], WORDS) for number in range(CAPTIONS)])


def texts_of(photo: Photo) -> list[str]:
    """The captions of a photo. Clauses, as of IAPR TC-12, are also joined, because one alone says little."""
    texts = [caption.text for caption in photo.sentences if caption.text.strip()]
    if len(texts) in (2, 3, 4) or any(len(words(text)) < 4 for text in texts):
        texts = [", ".join(texts[:2]), texts[0], ", ".join(texts), ", ".join(texts[:3]), texts[-1]]
    return texts


def phrases_of(photo: Photo, table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, union boxes (fractions of the photo) and chains of the phrases of five captions that have boxes."""
    names = np.zeros((CAPTIONS, PHRASES, PHRASE_WORDS), dtype=np.int32)
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


def arrays_of(photos: Sequence[Photo], table: Table) -> Arrays:
    phrases = [phrases_of(photo, table) for photo in photos]
    return {
        "files": np.array([photo.file for photo in photos]),
        "captions": np.stack([captions_of(texts_of(photo), table) for photo in photos]),
        "phrases": np.stack([names for names, _, _ in phrases]),
        "phrase_boxes": np.stack([boxes for _, boxes, _ in phrases]),
        "phrase_chains": np.stack([chains for _, _, chains in phrases]),
        "boxes": np.stack([boxes_of(photo) for photo in photos]),
        "partial": np.zeros(len(photos), dtype=bool),
    }


def arrays_of_coco(photos: Sequence[CocoPhoto], table: Table) -> Arrays:
    """Photos of COCO train2017. Their phrases are class names; things of other classes have no boxes."""
    found = arrays_of_names([Path(f"{photo.id:012d}.jpg") for photo in photos], table)
    found["files"] = np.array([f"coco2017/{name}" for name in found["files"].tolist()])
    found["captions"] = np.stack([captions_of(photo.texts, table) for photo in photos])
    found["partial"][:] = True
    for row, photo in enumerate(photos):
        boxes = list(dict.fromkeys([*(box for _, box in photo.phrases()), *(box for _, box in photo.boxes)]))[:BOXES]
        found["boxes"][row, : len(boxes)] = np.array(boxes).reshape(-1, 4)
        for column, (name, box) in enumerate(photo.phrases()[:PHRASES]):
            for caption in range(CAPTIONS):
                article = ("", "a ", "the ", "", "a ")[caption] if photo_has_one(photo, box) else ""
                found["phrases"][row, caption, column] = table.row(article + name, PHRASE_WORDS)
            found["phrase_boxes"][row, :, column] = box
            found["phrase_chains"][row, :, column] = column
    return found


def photo_has_one(photo: CocoPhoto, box: tuple[float, float, float, float]) -> bool:
    """Whether the box is that of one thing, not the union of several."""
    return any(box == each for _, each in photo.boxes)


def arrays_of_names(files: Sequence[Path], table: Table) -> Arrays:
    """Photos that show what their file name says."""
    count = len(files)
    return {
        "files": np.array([file.name for file in files]),
        "captions": np.stack([captions_of(sentences_of(name_of(file)), table) for file in files]),
        "phrases": np.zeros((count, CAPTIONS, PHRASES, PHRASE_WORDS), dtype=np.int32),
        "phrase_boxes": np.zeros((count, CAPTIONS, PHRASES, 4), dtype=np.float32),
        "phrase_chains": np.full((count, CAPTIONS, PHRASES), -1, dtype=np.int16),
        "boxes": np.full((count, BOXES, 4), -1, dtype=np.float32),
        "partial": np.zeros(count, dtype=bool),
    }


def name_of(file: Path) -> str:
    return re.sub(r"^n\d+_", "", file.stem).replace("_", " ").lower()


def sentences_of(name: str) -> list[str]:
    article = "an" if name[0] in "aeiou" else "a"
    return [f"{article} {name}", name, f"a photo of {article} {name}", f"a close up of {article} {name}", f"the {name}"]


def fingerprint_photos(ids: Iterable[str]) -> dict[str, object]:
    """Number and hash of the photo ids, for the metadata of the models."""
    every = sorted(ids)
    return {"count": len(every), "sha256": hashlib.sha256("\n".join(every).encode()).hexdigest()}


def key_of(photo: Photo) -> str:
    """Return what two data sets call a photo alike: Flickr8k adds a code to the number of Flickr30k."""
    number, _, code = photo.id.partition("_")
    return number if number.isdigit() and code else photo.id


def read_source(text: str) -> tuple[str, Sequence[Photo]]:
    """Return the name and the photos of ``NAME=DATA[:SPLIT]``."""
    name, _, place = text.partition("=")
    folder, _, split = place.rpartition(":") if ":" in place else (place, "", "")
    data = Dataset(folder)
    return name, list(data.split(split) if split else data.photos)


def concatenate(parts: Sequence[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="append", required=True, metavar="NAME=DATA[:SPLIT]")
    parser.add_argument("--dev", action="append", required=True, metavar="NAME=DATA:SPLIT")
    parser.add_argument("--text", required=True, metavar="NAME=DATA:SPLIT")
    parser.add_argument("--coco", type=Path, help="folder of the texts of COCO train2017")
    parser.add_argument("--names", type=Path, help="folder of photos that are named by their file")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    train = dict(map(read_source, chosen.train))
    dev = dict(map(read_source, chosen.dev))
    _, more = read_source(chosen.text)
    held_out = {key_of(photo) for photos in dev.values() for photo in photos}
    for name, photos in [*train.items(), ("--text", more)]:
        if seen := held_out & set(map(key_of, photos)):
            raise SystemExit(f"{name}: {len(seen)} photos of a dev split are in it, such as {sorted(seen)[0]}")
    named = sorted(chosen.names.iterdir()) if chosen.names else []
    captioned, questioned, coco_dev = read_coco(chosen.coco) if chosen.coco else ([], [], [])
    coco = [*captioned, *questioned]
    texts = [text for photos in (*train.values(), more) for photo in photos for text in texts_of(photo)]
    texts += [text for photo in coco for text in photo.texts]
    table = Table(texts, shipped_vectors().words)
    parts = [arrays_of(photos, table) for photos in train.values()]
    names = list(train)
    for name, photos in (("coco2017", captioned), ("coco2017_questions", questioned)):
        if photos:
            parts.append(arrays_of_coco(photos, table))
            names.append(name)
    if named:
        parts.append(arrays_of_names(named, table))
        names.append("names")
    counts = [len(part["files"]) for part in parts]
    arrays: dict[str, Any] = {f"train_{name}": array for name, array in concatenate(parts).items()}
    arrays["train_source"] = np.repeat(np.arange(len(parts)), counts)
    arrays["sources"] = np.array(names)
    for name, photos in dev.items():
        arrays |= {f"{name}_{key}": array for key, array in arrays_of(photos, table).items()}
    if coco_dev:
        arrays |= {f"coco2017_dev_{key}": array for key, array in arrays_of_coco(coco_dev, table).items()}
    arrays["dev"] = np.array([*dev, *(["coco2017_dev"] if coco_dev else [])])
    arrays["text_captions"] = np.stack([captions_of(texts_of(photo), table) for photo in more])
    own = [texts_of(photo) for photos in train.values() for photo in photos] + [photo.texts for photo in coco]
    labels = [[] for photos in train.values() for _ in photos] + [photo.labels for photo in coco]
    add_nouns(arrays, own, labels, named, table)
    add_labels(arrays, [*labels, *([] for _ in named)])
    add_words(arrays, table)
    ids = {name: fingerprint_photos(photo.id for photo in photos) for name, photos in train.items()}
    for name, photos in (("coco2017", captioned), ("coco2017_questions", questioned)):
        if photos:
            ids[name] = fingerprint_photos(f"{photo.id:012d}" for photo in photos)
    if named:
        ids["names"] = fingerprint_photos(file.stem for file in named)
    captions = fingerprint_photos(photo.id for photo in more)
    arrays["learned_from"] = np.array(json.dumps({"photo_ids": ids, "caption_ids": captions}))
    np.savez_compressed(chosen.out, **arrays)
    print(dict(zip(arrays["sources"].tolist(), counts, strict=True)), f"{len(table.words):,} words")


def add_nouns(
    arrays: Arrays,
    texts: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    named: Sequence[Path],
    table: Table,
) -> None:
    """Add the nouns as word ids, and those of each photo as (photo, noun) pairs, from texts, labels and file names."""
    nouns = Nouns(texts)
    index = {name: number for number, name in enumerate(nouns.stems)}
    names = list(nouns.names)
    pairs = {(row, index[name]) for row, here in enumerate(nouns.of_photo) for name in here if name in index}
    for row, here in enumerate([*labels, *([name_of(file)] for file in named)]):
        for name in here:
            if stem(name) not in index:
                index[stem(name)] = len(names)
                names.append(name)
            pairs.add((row, index[stem(name)]))
    arrays["nouns"] = np.stack([table.row(name, NOUN_WORDS) for name in names])
    arrays["noun_names"] = np.array(names)
    arrays["noun_pairs"] = np.array(sorted(pairs), dtype=np.int32)


def add_labels(arrays: Arrays, labels: Sequence[Sequence[str]]) -> None:
    """Add which classes each photo has: 1 or 0, or −1 for photos without labels."""
    classes = sorted({name for here in labels for name in here})
    found = np.full((len(labels), len(classes)), -1, dtype=np.int8)
    for row, here in enumerate(labels):
        if here:
            found[row] = [name in here for name in classes]
    if classes:
        arrays["train_labels"], arrays["classes"] = found, np.array(classes)


def add_words(arrays: Arrays, table: Table) -> None:
    """Add the words with the row of each in the shipped vectors, −1 if it has none, and the vectors."""
    vectors = shipped_vectors()
    arrays["words"], arrays["word_counts"] = np.array(table.words), np.array(table.counts)
    arrays["word_rows"] = vectors.rows_of(table.words).astype(np.int32)
    arrays["taught"] = np.array(table.taught)
    arrays["vectors"] = vectors.matrix.astype(np.float16)


if __name__ == "__main__":
    try:
        main()
    except DeixisError as error:
        sys.exit(f"encoder_examples: {error}")
