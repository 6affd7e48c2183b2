"""Add mirrored copies of the training photos to a data set, so that a model sees each of them from two sides.

python scripts/mirror_data.py DATA OUT [--split train]

OUT is a new data set directory with all photos of DATA and, in the split, a mirrored copy of each photo with its
captions, phrases and boxes. Captions that say left or right are left out. The mirrored files are in OUT-photos.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from PIL import ImageOps

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.derived import merge_datasets
from deixis.data.images import open_photo
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.models.captioner.training import SIDES


def mirror(photo: Photo, source: Path, folder: Path) -> Photo:
    """Write the mirrored photo and return its record."""
    image = open_photo(source).convert("RGB")
    file = f"mirrored-{photo.id}.webp"
    ImageOps.mirror(image).save(folder / file, quality=90)
    width = photo.width or image.width
    boxes = tuple(replace(box, xyxy=_mirrored(box.xyxy, width)) for box in photo.boxes)
    captions = tuple(
        caption for caption in photo.captions if not SIDES & {token.text.lower() for token in caption.tokens}
    )
    return replace(
        photo,
        id=f"mirrored-{photo.id}",
        captions=captions,
        boxes=boxes,
        file=file,
        annotated=None,
        sha256=hashlib.sha256((folder / file).read_bytes()).hexdigest(),
    )


def _mirrored(box: tuple[float, float, float, float], width: float) -> tuple[float, float, float, float]:
    return (width - box[2], box[1], width - box[0], box[3])


def mirrored_photos(dataset: Dataset, split: str, folder: Path) -> Iterator[Photo]:
    if dataset.images is None:
        raise DeixisError(f"{dataset.path}: has no photos")
    photos = [replace(photo, splits=(split,)) for photo in dataset.split(split)]
    files = [dataset.images / str(photo.file) for photo in photos]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(mirror, photos, files, [folder] * len(photos), chunksize=64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", default="train")
    chosen = parser.parse_args()
    folder = chosen.out.with_name(f"{chosen.out.stem}-photos")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f"{folder.name}.data")
    try:
        dataset = Dataset(chosen.data)
        photos = mirrored_photos(dataset, chosen.split, folder)
        make_dataset(part, photos, images=folder, licence=dataset.manifest.licence, sources=[("deixis", chosen.data)])
        report = merge_datasets(chosen.out, [chosen.data, part])
    except DeixisError as error:
        raise SystemExit(f"mirror_data: {error}") from None
    print(f"{chosen.out}: {report.counts['photos']:,} photos, splits {report.splits}")


if __name__ == "__main__":
    main()
