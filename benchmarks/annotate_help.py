"""Measure how much work model proposals save a simulated crowd, and the quality of the result.

    python benchmarks/annotate_help.py DATA --features STORE [--split dev] [--photos 200] [--known 60] [--seed 0]

The same photos are annotated without and with proposals. DATA is a data set directory with mentions, chains and boxes;
STORE holds features of its photos from ``deixis features DATA --encoder deixis --proposals head``. The grounder must
not be trained on the split. Mentions are found in the captions; --given takes the gold mentions. The crowd errs as in
``annotate.py``; in addition, honest workers accept 5 % of wrong proposals, careless ones 20 %. A proposed box is
correct from an IoU of 0.6 with a gold box, like a drawn one.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import scripts_path  # noqa: F401
from annotate import box_scores, chain_scores
from simulated_crowd import CARELESS, HONEST, Truth, simulate_crowd
from train_help import stored_proposals

from deixis.annotate.events import Judged, ProposedLinks, effective_events
from deixis.annotate.export import export_photo
from deixis.annotate.help.boxes import BoxCalibration, ground_mentions, proposed_boxes
from deixis.annotate.help.coreference import Coreference
from deixis.annotate.help.proposals import BoxModel, LinkModel, propose
from deixis.annotate.judgements import PhotoSnapshot
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import Material, prepare_photo
from deixis.annotate.project import Project, add_photos
from deixis.annotate.settings import Settings
from deixis.annotate.store import Database
from deixis.annotate.workflow import Answer, Task
from deixis.data.dataset import Dataset
from deixis.data.records import Photo
from deixis.evaluation.agreement import chain_agreement, chains_of
from deixis.models.grounding import load_grounding_model
from deixis.vision.feature_store import FeatureStore

ARMS = ("none", "links", "boxes", "links,boxes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--features", type=Path, help="feature store; without it, no boxes are proposed")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--known", type=int, default=60)
    parser.add_argument("--honest", type=int, default=12)
    parser.add_argument("--careless", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--given", action="store_true", help="use the gold mentions")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--yes-from", type=float, default=Settings.links_yes_from)
    parser.add_argument("--no-below", type=float, default=Settings.links_no_below)
    parser.add_argument("--show-from", type=float, default=Settings.boxes_show_from)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    photos = [photo for photo in Dataset(options.data).split(options.split) if photo.width and photo.chains]
    random.Random(options.seed).shuffle(photos)
    work, gold = photos[: options.photos], photos[options.photos : options.photos + options.known]
    links, boxes = LinkModel(Coreference.shipped(), options.yes_from, options.no_below), box_model(options)
    found: dict[str, dict[str, object]] = {}
    for arm in options.arms:
        if "boxes" in arm and boxes is None:
            continue
        helpers = {"links": links if "links" in arm else None, "boxes": boxes if "boxes" in arm else None}
        found[arm] = simulate(work, gold, helpers, options)
        print(f"help: {arm}")
        for name, value in found[arm].items():
            print(f"  {name}: {value}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


def box_model(options: argparse.Namespace) -> BoxModel | None:
    if options.features is None:
        return None
    store, grounder, calibration = FeatureStore(options.features), load_grounding_model(), BoxCalibration.shipped()
    kept: dict[str, dict[str, list[list[float]]]] = {}  # two arms need the same boxes

    def find(material: Material) -> dict[str, list[list[float]]]:
        if material.photo not in kept:
            proposals = stored_proposals(store, material.photo, grounder.provenance.max_proposals)
            kept[material.photo] = proposed_boxes(ground_mentions(grounder, proposals, material), calibration)
        return kept[material.photo]

    return BoxModel(find, "stored", options.show_from)


def simulate(
    work: Sequence[Photo], gold: Sequence[Photo], helpers: dict[str, object], options: argparse.Namespace
) -> dict[str, object]:
    database = Database("sqlite://")
    database.create_tables()
    project = Project(Path(), database, Settings())
    add_known_photos(project, gold, seed=options.seed)
    add_photos(project, (prepare_photo(photo, keep_mentions=options.given) for photo in work))
    propose(project, **helpers)  # type: ignore[arg-type]
    truths = {photo.id: Truth(photo) for photo in [*work, *gold]}
    known = frozenset(photo.id for photo in gold)
    began = time.perf_counter()
    crowd = {HONEST: options.honest, CARELESS: options.careless}
    done = simulate_crowd(project, truths, crowd, seed=options.seed, known_photos=known)
    with database.reading() as connection:
        folded = {photo.id: project.snapshots.read(connection, photo.id) for photo in work}
    made = {photo: export_photo(fold, project.settings)[0] for photo, fold in folded.items()}
    return {
        "photos": len(work),
        "judgements": sum(done.judged.values()),
        "of these no longer counting, most of suspended workers": sum(done.judged.values()) - counting(folded.values()),
        "by task": {task.value: count for task, count in done.judged.items()},
        "hours of work on these photos, as the simulation counts them": hours(folded.values()),
        **proposals(folded.values()),
        **chain_scores(work, made),
        "B³ F1 with mentions that one side lacks, 95 % interval over photos": chain_interval(work, made),
        **box_scores(work, made),
        "decided by the reviewer": done.reviewed,
        "wall s": round(time.perf_counter() - began),
    }


def chain_interval(work: Sequence[Photo], made: dict[str, Photo]) -> str:
    key = {photo.id: chains_of(replace(photo, captions=photo.sentences)) for photo in work}
    found = chain_agreement(key, {photo.id: chains_of(made[photo.id]) for photo in work}).interval["b3_f1"]
    return f"{found.low:.1f} to {found.high:.1f}"


def counting(folded: Iterable[PhotoSnapshot]) -> int:
    return sum(
        isinstance(event, Judged) and event.number in fold.state.counted for fold in folded for event in fold.events
    )


def hours(folded: Iterable[PhotoSnapshot]) -> float:
    return round(sum(event.seconds for fold in folded for event in fold.events if isinstance(event, Judged)) / 3600, 1)


def proposals(folded: Iterable[PhotoSnapshot]) -> dict[str, object]:
    """Count boxes that workers drew, proposed boxes that they accepted, and links answered by the model."""
    drawn = shown = taken_over = links = 0
    for fold in folded:
        judged = [event for event in effective_events(fold.events) if isinstance(event, Judged)]
        drawn += sum(event.answer is Answer.DRAWN for event in judged)
        about = [event for event in judged if event.task is Task.QUALITY and " ?p" in event.subject]
        shown, taken_over = shown + len(about), taken_over + sum(event.answer is Answer.GOOD for event in about)
        by = {event.number for event in fold.events if isinstance(event, ProposedLinks)}
        links += sum(number in by for chain in fold.state.chains for number, _ in chain.transitions)
    return {
        "boxes drawn by people": drawn,
        "boxes proposed and judged": shown,
        "boxes taken over": taken_over,
        "link answers left to the model": links,
    }


if __name__ == "__main__":
    main()
