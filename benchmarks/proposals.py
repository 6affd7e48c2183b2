"""Recall of the phrases' boxes for each proposal method, compared with boxes that ignore the photo.

python benchmarks/proposals.py DATA [--split dev] [--methods head edge-boxes] [--photos 200] [--json]

DATA is a data set directory with photos and the boxes of Flickr30k Entities. R@K is the share of phrases for which one
of the photo's first K proposals has an IoU of at least 0.5 with the phrase's box; if a phrase has several boxes, their
union counts, as in the papers. The blind row, always printed, has the same boxes for every photo, chosen on the train
split. Brackets hold 95 % intervals over photos. Times are CPU seconds on one core without the encoder.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scripts_path  # noqa: F401
from fixed_boxes import fit, save
from numpy.typing import NDArray

from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.intervals import bootstrap, ratio_of
from deixis.evaluation.items import Item, indices_by_type, localization_items
from deixis.evaluation.ranked_boxes import correct_boxes, first_correct, rank_boxes
from deixis.vision.encoder import FeatureMap
from deixis.vision.proposals import PROPOSERS, FixedProposer, Proposals, Proposer, open_proposer

AT = (1, 19, 100, 200)
PUBLISHED = {100: 77.05, 200: 84.58}
METHODS = tuple(name for name in PROPOSERS if name != "fixed")
NO_FEATURES = FeatureMap(np.zeros((1, 1, 1), np.float32), np.zeros(1, np.float32), (1, 1))


@dataclass(frozen=True)
class Row:
    """Results of one method: recalls in percent with intervals and by type; CPU seconds and boxes per photo."""

    method: str
    recall: dict[int, float]
    interval: dict[int, tuple[float, float]]
    by_type: dict[str, dict[int, float]]
    seconds: float
    boxes: float


def sample_photos(photos: Sequence[Photo], count: int | None) -> list[Photo]:
    """Return the photos that have phrases with boxes, or a fixed random sample of them."""
    found = [photo for photo in photos if localization_items([photo])]
    if count is None or count >= len(found):
        return found
    chosen = np.random.default_rng(0).choice(len(found), count, replace=False)
    return [found[index] for index in np.sort(chosen)]


def blind_boxes(photos: Sequence[Photo], count: int) -> FixedProposer:
    shares = []
    for item in localization_items(photos):
        if item.size is None:
            raise DeixisError(f"photo {item.photo} has no size, which fixed boxes need")
        shares.append(geometry.rescale(item.gold("union")[0], size=item.size, to=(1, 1)))
    return fit(shares, count)


def proposed(
    proposer: Proposer, dataset: Dataset, photos: Sequence[Photo], encoder: str | None
) -> tuple[dict[str, Proposals], float]:
    """Return the proposals of each photo by its id, and the mean CPU seconds per photo."""
    features_of = None
    if encoder is not None:
        from deixis.vision.encoders import open_encoder

        features_of = open_encoder(encoder).encode
    found, seconds = {}, 0.0
    for done, photo in enumerate(photos, start=1):
        opened = open_photo(dataset.path_of(photo))
        features = NO_FEATURES if features_of is None else features_of([opened])[0]
        begin = time.process_time()
        found[photo.id] = proposer.propose(opened, features, AT[-1])
        seconds += time.process_time() - begin
        if done % 200 == 0:
            print(f"{proposer.name}: {done} of {len(photos)} photos", file=sys.stderr)
    return found, seconds / len(photos)


def measure_recall(method: str, found: dict[str, Proposals], seconds: float, items: Sequence[Item]) -> Row:
    ranked = rank_boxes([(found[item.photo].boxes, found[item.photo].scores) for item in items])
    first = first_correct(ranked, correct_boxes(ranked, [item.gold("union") for item in items]))
    kinds = {kind: np.array([kind in item.types for item in items]) for kind in indices_by_type(items)}
    return Row(
        method,
        {k: percent(first < k) for k in AT},
        {k: interval(first < k, items) for k in AT},
        {kind: {k: percent(first[rows] < k) for k in AT} for kind, rows in kinds.items()},
        seconds,
        float(np.mean([len(each.boxes) for each in found.values()])),
    )


def percent(right: NDArray[np.bool_]) -> float:
    return float(100 * right.mean())


def interval(right: NDArray[np.bool_], items: Sequence[Item]) -> tuple[float, float]:
    _, photo = np.unique([item.photo for item in items], return_inverse=True)
    total = np.bincount(photo)
    found = bootstrap(ratio_of(np.bincount(photo, weights=right), total), len(total))
    return 100 * found.low, 100 * found.high


def use_one_core() -> None:
    """Limit every library to one thread, so that CPU time is that of one core."""
    import torch

    torch.set_num_threads(1)
    try:
        import cv2

        cv2.setNumThreads(1)
    except ImportError:
        pass  # the proposers that need it report it


def print_rows(rows: Sequence[Row]) -> None:
    print(f"{'':<24}" + "".join(f"{f'R@{k}':<20}" for k in AT) + "s a photo   boxes")
    for row in rows:
        cells = (f"{row.recall[k]:.1f} [{row.interval[k][0]:.1f}, {row.interval[k][1]:.1f}]" for k in AT)
        print(f"{row.method:<24}" + "".join(f"{cell:<20}" for cell in cells) + f"{row.seconds:<12.3f}{row.boxes:.0f}")
    published = "".join(f"{PUBLISHED.get(k, ''):<20}" for k in AT)
    print(f"{'published, Flickr30k':<24}{published}".rstrip())
    for k in AT[1:]:
        print(f"\n{f'R@{k} by type':<24}" + "".join(f"{kind:<14}" for kind in rows[0].by_type))
        for row in rows:
            print(f"{row.method:<24}" + "".join(f"{row.by_type[kind][k]:<14.1f}" for kind in row.by_type))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument(
        "--methods", nargs="*", default=METHODS, choices=METHODS, metavar="NAME", help="; ".join(METHODS)
    )
    parser.add_argument("--photos", type=int, help="number of photos, a fixed random sample (default: all)")
    parser.add_argument("--encoder", default="deixis", help="encoder of the head's feature map")
    parser.add_argument("--save-blind", type=Path, metavar="FILE", help="save the boxes chosen on train")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    dataset = Dataset(args.data)
    photos = sample_photos(dataset.split(args.split), args.photos)
    items = localization_items(photos)
    blind = blind_boxes(dataset.split("train"), AT[-1])
    if args.save_blind is not None:
        save(blind, args.save_blind)
    use_one_core()
    rows = []
    for proposer in (blind, *map(open_proposer, args.methods)):
        encoder = args.encoder if proposer.name == "head" else None
        name = "fixed (blind)" if proposer is blind else proposer.name
        rows.append(measure_recall(name, *proposed(proposer, dataset, photos, encoder), items))
    if args.json:
        report = {"split": args.split, "photos": len(photos), "phrases": len(items), "published": PUBLISHED}
        print(json.dumps(report | {"rows": [vars(row) for row in rows]}))
        return
    print(f"{len(items):,} phrases of {len(photos):,} photos with boxes, {args.split}")
    print_rows(rows)


if __name__ == "__main__":
    try:
        main()
    except DeixisError as error:
        sys.exit(str(error))
