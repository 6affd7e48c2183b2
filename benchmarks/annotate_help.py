"""What the proposals of models save a simulated crowd, at which quality: the same photos without and with help.

    python benchmarks/annotate_help.py DATA --features STORE [--split dev] [--photos 200] [--known 60] [--seed 0]

DATA is a data set directory with mentions, chains and boxes; STORE holds features of its photos, made by
``deixis features DATA --encoder deixis --proposals head``. The grounder must not have learned from the split. Mentions
are found in the captions (--given takes those of the gold). The crowd errs as in ``annotate.py``; besides, honest
workers accept 5 of 100 wrong proposals although they see that they are wrong, careless ones 20. A box that a model
proposes is good from an IoU of 0.6 with a gold box on, as one that a person drew.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from annotate import box_scores, chain_scores

from deixis.annotate.events import Judged, ProposedLinks, in_force
from deixis.annotate.exporting import exported
from deixis.annotate.help.boxes import BoxCertainty, point_at_mentions, proposed_boxes, stored_look
from deixis.annotate.help.coreference import Coreference
from deixis.annotate.help.proposing import BoxModel, LinkModel, propose
from deixis.annotate.known import add_known
from deixis.annotate.material import Material, material_of
from deixis.annotate.project import Project, add_photos
from deixis.annotate.rehearsal import CARELESS, HONEST, Truth, rehearse
from deixis.annotate.settings import Settings
from deixis.annotate.store.engine import Database
from deixis.annotate.store.folds import Folded
from deixis.annotate.walks import Answer, Task
from deixis.data.dataset import Dataset
from deixis.data.records import Photo
from deixis.evaluation.agreement import chain_agreement, chains_of
from deixis.tasks.bundle import load
from deixis.tasks.grounding import Pointer
from deixis.vision.store import FeatureStore

ARMS = ("none", "links", "boxes", "links,boxes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--features", type=Path, help="without it, no boxes are proposed")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--known", type=int, default=60)
    parser.add_argument("--honest", type=int, default=12)
    parser.add_argument("--careless", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--given", action="store_true", help="take the mentions of the gold")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--yes-from", type=float, default=Settings.links_yes_from)
    parser.add_argument("--no-below", type=float, default=Settings.links_no_below)
    parser.add_argument("--show-from", type=float, default=Settings.boxes_show_from)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    photos = [photo for photo in Dataset(asked.data).split(asked.split) if photo.width and photo.chains]
    random.Random(asked.seed).shuffle(photos)
    work, gold = photos[: asked.photos], photos[asked.photos : asked.photos + asked.known]
    links, boxes = LinkModel(Coreference.shipped(), asked.yes_from, asked.no_below), box_model(asked)
    found: dict[str, dict[str, object]] = {}
    for arm in asked.arms:
        if "boxes" in arm and boxes is None:
            continue
        helpers = {"links": links if "links" in arm else None, "boxes": boxes if "boxes" in arm else None}
        found[arm] = simulate(work, gold, helpers, asked)
        print(f"help: {arm}")
        for name, value in found[arm].items():
            print(f"  {name}: {value}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2))


def box_model(asked: argparse.Namespace) -> BoxModel | None:
    if asked.features is None:
        return None
    store, pointer, certainty = FeatureStore(asked.features), Pointer(load("grounder")), BoxCertainty.shipped()
    kept: dict[str, dict[str, list[list[float]]]] = {}  # two arms ask for the same

    def find(material: Material) -> dict[str, list[list[float]]]:
        if material.photo not in kept:
            look = stored_look(store, material.photo, pointer.bundle.learned.top)
            kept[material.photo] = proposed_boxes(point_at_mentions(pointer, look, material), certainty)
        return kept[material.photo]

    return BoxModel(find, "stored", asked.show_from)


def simulate(
    work: Sequence[Photo], gold: Sequence[Photo], helpers: dict[str, object], asked: argparse.Namespace
) -> dict[str, object]:
    database = Database("sqlite://")
    database.make()
    project = Project(Path(), database, Settings())
    add_known(project, gold, seed=asked.seed)
    add_photos(project, (material_of(photo, given=asked.given) for photo in work))
    propose(project, **helpers)  # type: ignore[arg-type]
    truths = {photo.id: Truth(photo) for photo in [*work, *gold]}
    known = frozenset(photo.id for photo in gold)
    began = time.perf_counter()
    crowd = {HONEST: asked.honest, CARELESS: asked.careless}
    done = rehearse(project, truths, crowd, seed=asked.seed, known_photos=known)
    with database.reading() as connection:
        folded = {photo.id: project.folds.at(connection, photo.id) for photo in work}
    made = {photo: exported(fold, project.settings).photo for photo, fold in folded.items()}
    return {
        "photos": len(work),
        "judgements": sum(done.asked.values()),
        "of these no longer counting, most of suspended workers": sum(done.asked.values()) - counting(folded.values()),
        "by task": {task.value: count for task, count in done.asked.items()},
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


def counting(folded: Iterable[Folded]) -> int:
    return sum(
        isinstance(event, Judged) and event.number in fold.state.counted for fold in folded for event in fold.events
    )


def hours(folded: Iterable[Folded]) -> float:
    return round(sum(event.seconds for fold in folded for event in fold.events if isinstance(event, Judged)) / 3600, 1)


def proposals(folded: Iterable[Folded]) -> dict[str, object]:
    """Boxes that people drew, boxes that they took over, links that nobody was asked about."""
    drawn = shown = taken_over = links = 0
    for fold in folded:
        judged = [event for event in in_force(fold.events) if isinstance(event, Judged)]
        drawn += sum(event.answer is Answer.DRAWN for event in judged)
        about = [event for event in judged if event.task is Task.QUALITY and " ?p" in event.subject]
        shown, taken_over = shown + len(about), taken_over + sum(event.answer is Answer.GOOD for event in about)
        by = {event.number for event in fold.events if isinstance(event, ProposedLinks)}
        links += sum(number in by for chain in fold.state.chains for number, _ in chain.taken)
    return {
        "boxes drawn by people": drawn,
        "boxes proposed and judged": shown,
        "boxes taken over": taken_over,
        "link answers left to the model": links,
    }


if __name__ == "__main__":
    main()
