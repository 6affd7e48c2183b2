"""Encode the crop of each region, as Fast R-CNN and the Entities paper do, for tables that take imported regions.

python scripts/region_crops.py DATA --out DIR [--encoder NAME] [--proposals NAME] [--top 200] [--crops 1|10]
deixis features DATA --import DIR/photos.npz --regions DIR/regions --out STORE
deixis table two-branch-1 --data DATA --set features_dir=STORE --set max_proposals=200

Regions are otherwise pooled from the map of the whole photo; so the three ways can be compared: pooled, one crop of
each region, and the mean over ten crops of it. DIR/regions has a file per photo with the proposals and, where there
are --top of them, the gold boxes after these, which are no candidates; otherwise the nearest proposal stands for a
gold box. It can be run again after an interruption; photos that are there are skipped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from deixis import geometry
from deixis.arrays import Floats
from deixis.data.dataset import Dataset
from deixis.data.images import opened_photo
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.storage.atomic import new_file
from deixis.vision import encoders, proposals
from deixis.vision.encoder import ImageEncoder

PHOTOS, WHOLES, REGIONS = "photos.npz", "wholes", "regions"


def encode(encoder: ImageEncoder, pictures: Sequence[Image.Image], crops: int) -> Floats:
    """Return a vector for each picture: of one crop that fills it, or the mean over ten."""
    if crops == 10:
        return encoder.encode_crops(pictures)
    return np.stack([found.whole for found in encoder.encode_prepared([encoder.prepare(each) for each in pictures])])


def crop(picture: Image.Image, box: Sequence[float]) -> Image.Image:
    """Cut out a region, at least one pixel wide and high."""
    left, top = (min(int(start), side - 1) for start, side in zip(box[:2], picture.size, strict=True))
    right, bottom = (max(int(np.ceil(end)), start + 1) for end, start in zip(box[2:], (left, top), strict=True))
    return picture.crop((left, top, right, bottom))


def boxes_of(photo: Photo, picture: Image.Image, proposed: Floats, top: int) -> Floats:
    """Return the proposals, then, if they are `top`, the union of each chain's gold boxes, in pixels of the picture."""
    if len(proposed) < top:
        return proposed
    size = (photo.width or picture.width, photo.height or picture.height)
    gold = np.array(list(photo.union_boxes().values())).reshape(-1, 4)
    return np.concatenate([proposed, geometry.rescale(gold, size=size, to=picture.size)])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", default="efficientnet-lite2")
    parser.add_argument("--proposals", default="edge-boxes-dense")
    parser.add_argument("--top", type=int, default=200)
    parser.add_argument("--crops", type=int, choices=[1, 10], default=1)
    given = parser.parse_args(arguments)
    try:
        dataset, encoder = Dataset(given.data), encoders.open_encoder(given.encoder)
        proposer = proposals.open_proposer(given.proposals, given.encoder)
        for name in (WHOLES, REGIONS):
            (given.out / name).mkdir(parents=True, exist_ok=True)
        for number, photo in enumerate(dataset.photos, 1):
            path = given.out / REGIONS / f"{photo.id}.npz"
            if path.exists():
                continue
            with opened_photo(dataset.path_of(photo)) as opened:
                picture = opened.convert("RGB")
            [features] = encoder.encode_prepared([encoder.prepare(picture)])
            found = proposer.propose(picture, features, given.top).boxes
            boxes = boxes_of(photo, picture, found, given.top)
            np.save(given.out / WHOLES / f"{photo.id}.npy", encode(encoder, [picture], given.crops)[0])
            vectors = encode(encoder, [crop(picture, box) for box in boxes], given.crops)
            with new_file(path) as unfinished, unfinished.open("wb") as file:
                np.savez(file, features=vectors.astype(np.float16), boxes=boxes)
            print(f"\r{number:,} of {len(dataset.photos):,} photos", end="", file=sys.stderr)
        wholes = np.stack([np.load(given.out / WHOLES / f"{photo}.npy") for photo in dataset.photos.ids])
        np.savez(given.out / PHOTOS, features=wholes, ids=np.array(dataset.photos.ids))
    except DeixisError as error:
        print(f"region_crops: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
