"""Train the models that help annotators: the coreference model, and the calibration of the grounder's boxes.

    python scripts/train_help.py links DATA [--split train] [--held-out 1000]
    python scripts/train_help.py boxes DATA --features STORE [--judge dev]

DATA is a data set directory with mentions, chains and boxes. `links` trains on the split train without its last photos,
on which the threshold for joining two groups of mentions is chosen. `boxes` uses the photos of DATA that are in no
split, because the grounder was not trained on them; STORE has their features, from ``deixis features DATA --encoder
deixis --proposals head``. With --judge it prints how well the probabilities of boxes are calibrated on a split.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from coreference_training import CoreferenceSettings, gold_chains, gold_material, group_mentions, label_photo, learn
from ship_model import ship_part
from simulated_crowd import GOOD_IOU

from deixis import geometry
from deixis.annotate.help import boxes, coreference
from deixis.annotate.help.boxes import BoxCalibration, GroundedBox, ground_mentions
from deixis.annotate.help.coreference import Coreference
from deixis.annotate.material import prepare_photo
from deixis.arrays import logistic
from deixis.data.dataset import Dataset
from deixis.data.records import ENTITY_TYPES, Photo
from deixis.errors import DeixisError
from deixis.evaluation.agreement import chain_agreement
from deixis.models.grounding import PhotoProposals, load_grounding_model
from deixis.storage.checksums import seal
from deixis.vision.feature_store import FeatureStore
from deixis.vision.proposals import Proposals

JOIN_THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("links", "boxes"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--judge", metavar="SPLIT")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.what == "links":
        train_links(args.data, args.split, args.held_out, args.out or coreference.SHIPPED)
    else:
        calibration = fit_boxes(args.data, args.features, args.out or boxes.SHIPPED)
        if args.judge:
            evaluate_boxes(calibration, args.data, args.features, args.judge)


def train_links(data: Path, split: str, held_out: int, out: Path) -> None:
    photos = list(Dataset(data).split(split))
    photos, kept = [label_photo(photo) for photo in photos[:-held_out]], photos[-held_out:]
    model = learn(photos, CoreferenceSettings(), lambda task, done, total: print(task, done, "of", total, flush=True))
    model.join_from = best_join(model, kept)
    ship_part(model.to_artifact(), out, half=True)
    print(
        f"{out}: {len(photos):,} photos, {sum(len(each.pairs) for each in photos):,} pairs; "
        f"join from {model.join_from}; {model.fingerprint}"
    )


def best_join(model: Coreference, photos: Sequence[Photo]) -> float:
    """Return the threshold with the best B³ on held-out photos."""
    found = {photo.id: gold_material(photo) for photo in photos}
    key = {name: gold_chains(chains) for name, (_, chains) in found.items()}
    probabilities = {name: model.probabilities(material) for name, (material, _) in found.items()}
    scores = {}
    for bound in JOIN_THRESHOLDS:
        ours = {name: group_mentions(len(found[name][1]), probabilities[name], bound) for name in found}
        scores[bound] = chain_agreement(key, ours, rounds=1).b3.f1
        print(f"join from {bound}: B³ {scores[bound]:.1f} on {len(photos):,} held-out photos", flush=True)
    return max(scores, key=lambda bound: scores[bound])


def fit_boxes(data: Path, features: Path, out: Path) -> BoxCalibration:
    dataset, store = Dataset(data), FeatureStore(features)
    photos = [photo for photo in dataset.photos if not photo.splits and photo.id in store]
    about = f"{len(photos)} photos of Flickr8k with boxes of Flickr30k Entities that are in no split"
    calibration = fit_calibration(labelled_boxes(photos, store), good_iou=GOOD_IOU, about=about)
    out.write_bytes(seal(asdict(calibration)))
    print(out, calibration, flush=True)
    return calibration


def evaluate_boxes(calibration: BoxCalibration, data: Path, features: Path, split: str) -> None:
    """Print the fraction of good boxes by tenths of the probability."""
    found = list(labelled_boxes(list(Dataset(data).split(split)), FeatureStore(features)))
    tenths = np.array([min(int(calibration.probability(each) * 10), 9) for each, _ in found])
    good = np.array([right for _, right in found])
    for tenth in np.unique(tenths):
        of_tenth = tenths == tenth
        print(f"{tenth * 10:2}–{tenth * 10 + 10} %: {good[of_tenth].mean():.0%} of {of_tenth.sum():,} are good")


def labelled_boxes(photos: Sequence[Photo], store: FeatureStore) -> Iterator[tuple[GroundedBox, bool]]:
    """Iterate over the grounder's box of each gold mention, and whether its IoU with a gold box is high enough."""
    pointer = load_grounding_model()
    for photo in photos:
        chain_of = {
            f"{number}:{mention.start}-{mention.end}": mention.chain
            for number, caption in enumerate(photo.sentences)
            for mention in caption.mentions
        }
        look = stored_proposals(store, photo.id, pointer.provenance.max_proposals)
        for each in ground_mentions(pointer, look, prepare_photo(photo)):
            if (chain := chain_of.get(each.mention)) is not None:
                gold = [box.xyxy for box in photo.boxes_of(chain)]
                yield each, bool(gold) and float(np.max(geometry.iou([each.xyxy], gold))) >= GOOD_IOU


def stored_proposals(store: FeatureStore, photo: str, max_proposals: int) -> PhotoProposals:
    """Return the grounder's input for a photo from stored features."""
    found = store.proposals(photo)
    return PhotoProposals(store.map(photo), Proposals(found.boxes[:max_proposals], found.scores[:max_proposals]))


def fit_calibration(examples: Iterable[tuple[GroundedBox, bool]], *, good_iou: float, about: str) -> BoxCalibration:
    """Fit a logistic regression with an L2 penalty of 1 on the types, of boxes without a probability of their own."""
    listed = [(box, is_good) for box, is_good in examples if box.probability is None]
    if not listed:
        raise DeixisError("no box to train on")
    rows = np.zeros((len(listed), 2 + len(ENTITY_TYPES)))
    good = np.array([is_good for _, is_good in listed], float)
    for row, (box, _) in zip(rows, listed, strict=True):
        row[0], row[1] = box.log_odds, 1
        row[2 + ENTITY_TYPES.index(box.types[0] if box.types[0] in ENTITY_TYPES else "other")] = 1
    penalty = np.diag([0.0, 0.0, *[1.0] * len(ENTITY_TYPES)]) + 1e-6 * np.eye(rows.shape[1])
    weights = np.zeros(rows.shape[1])
    for _ in range(50):  # Newton steps; far more than needed
        predicted = logistic(rows @ weights)
        gradient = rows.T @ (predicted - good) + penalty @ weights
        hessian = (rows * (predicted * (1 - predicted))[:, None]).T @ rows + penalty
        weights -= np.linalg.solve(hessian, gradient)
    by_type = {name: round(float(weights[1] + weights[2 + number]), 4) for number, name in enumerate(ENTITY_TYPES)}
    return BoxCalibration(round(float(weights[0]), 4), by_type, good_iou, about)


if __name__ == "__main__":
    main()
