"""Learn what helps annotators: the coreference model, and how sure the grounder's boxes are.

    python scripts/train_help.py links DATA [--split train] [--held-out 1000]
    python scripts/train_help.py boxes DATA --features STORE [--judge dev]

DATA is a data set directory with mentions, chains and boxes. `links` learns from its split train, less the last photos,
on which it is chosen how likely two groups of mentions must be the same to become one. `boxes` learns from the photos
of DATA that are in no split, because the grounder has not learned from them; STORE holds their features, made by
``deixis features DATA --encoder deixis --proposals head``. With --judge it then says, of the photos of a split, how
often boxes are good that are said to be.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from deixis import geometry
from deixis.annotate.help import boxes, coreference
from deixis.annotate.help.boxes import BoxCertainty, Pointed, fit_certainty, point_at_mentions, stored_look
from deixis.annotate.help.coreference import Coreference, grouped
from deixis.annotate.help.coreference_training import CoreferenceSettings, gold_chains, gold_material, learn, lesson_of
from deixis.annotate.material import material_of
from deixis.annotate.rehearsal import GOOD_IOU
from deixis.data.dataset import Dataset
from deixis.data.records import Photo
from deixis.evaluation.agreement import chain_agreement
from deixis.tasks.bundle import load
from deixis.tasks.grounding import Pointer
from deixis.vision.store import FeatureStore

JOIN_FROM = (0.2, 0.3, 0.4, 0.5, 0.6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("links", "boxes"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--judge", metavar="SPLIT")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.what == "links":
        learn_links(asked.data, asked.split, asked.held_out, asked.out or coreference.SHIPPED)
    else:
        certainty = learn_boxes(asked.data, asked.features, asked.out or boxes.SHIPPED)
        if asked.judge:
            judge_boxes(certainty, asked.data, asked.features, asked.judge)


def learn_links(data: Path, split: str, held_out: int, out: Path) -> None:
    photos = list(Dataset(data).split(split))
    lessons, kept = [lesson_of(photo) for photo in photos[:-held_out]], photos[-held_out:]
    model = learn(
        lessons, CoreferenceSettings(), lambda doing, done, total: print(doing, done, "of", total, flush=True)
    )
    model.join_from = best_join(model, kept)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model", half=True)
        out.mkdir(parents=True, exist_ok=True)
        for file in ("settings.json", "weights.safetensors"):
            shutil.copyfile(Path(folder) / "model" / file, out / file)
    print(
        f"{out}: {len(lessons):,} photos, {sum(len(each.pairs) for each in lessons):,} pairs; "
        f"join from {model.join_from}; {model.fingerprint}"
    )


def best_join(model: Coreference, photos: Sequence[Photo]) -> float:
    """The bound with the best B³ on photos that were held out."""
    found = {photo.id: gold_material(photo) for photo in photos}
    key = {name: gold_chains(chains) for name, (_, chains) in found.items()}
    likely = {name: model.probabilities(material) for name, (material, _) in found.items()}
    scores = {}
    for bound in JOIN_FROM:
        ours = {name: grouped(len(found[name][1]), likely[name], bound) for name in found}
        scores[bound] = chain_agreement(key, ours, rounds=1).b3.f1
        print(f"join from {bound}: B³ {scores[bound]:.1f} on {len(photos):,} photos held out", flush=True)
    return max(scores, key=lambda bound: scores[bound])


def learn_boxes(data: Path, features: Path, out: Path) -> BoxCertainty:
    dataset, store = Dataset(data), FeatureStore(features)
    photos = [photo for photo in dataset.photos if not photo.splits and photo.id in store]
    about = f"{len(photos)} photos of Flickr8k with boxes of Flickr30k Entities that are in no split"
    certainty = fit_certainty(judged_boxes(photos, store), good_iou=GOOD_IOU, about=about)
    out.write_text(json.dumps(asdict(certainty), indent=1) + "\n", encoding="utf-8")
    print(out, certainty, flush=True)
    return certainty


def judge_boxes(certainty: BoxCertainty, data: Path, features: Path, split: str) -> None:
    """Print, by tenths of what is said, how many boxes are good; those of several things by themselves."""
    found = list(judged_boxes(list(Dataset(data).split(split)), FeatureStore(features)))
    said, good = np.array([certainty(each) for each, _ in found]), np.array([right for _, right in found])
    several = np.array([each.of > 1 for each, _ in found])
    for tenth in range(10):
        of_tenth = ~several & (np.minimum(said * 10, 9).astype(int) == tenth)
        if of_tenth.any():
            print(
                f"said {tenth * 10:2}–{tenth * 10 + 10} %: {good[of_tenth].mean():.0%} of {of_tenth.sum():,} are good"
            )
    if several.any():
        told = f"said {said[several].mean():.0%}: {good[several].mean():.0%} of {several.sum():,} are good"
        print(f"of several things, {told}")


def judged_boxes(photos: Sequence[Photo], store: FeatureStore) -> Iterator[tuple[Pointed, bool]]:
    """The grounder's box for each mention of the gold, and whether it overlaps with a gold box far enough."""
    pointer = Pointer(load("grounder"))
    for photo in photos:
        chain_of = {
            f"{number}:{mention.start}-{mention.end}": mention.chain
            for number, caption in enumerate(photo.sentences)
            for mention in caption.mentions
        }
        look = stored_look(store, photo.id, pointer.bundle.learned.top)
        for each in point_at_mentions(pointer, look, material_of(photo)):
            if (chain := chain_of.get(each.mention)) is not None:
                gold = [box.xyxy for box in photo.boxes_of(chain)]
                yield each, bool(gold) and float(np.max(geometry.iou([each.xyxy], gold))) >= GOOD_IOU


if __name__ == "__main__":
    main()
