"""Let a simulated crowd annotate photos of Entities from their captions, and compare the result with the gold.

    python benchmarks/annotate.py DATA [--split train] [--photos 500] [--known 60] [--seed 0] [--given] [--json FILE]
    python benchmarks/annotate.py DATA --group-links --stay photo
    python benchmarks/annotate.py DATA --honest 42 --careless 0 --spammers 0 --adversaries 0
    python benchmarks/annotate.py DATA --team 5
    python benchmarks/annotate.py DATA --load 200 --seconds 60 [--kills 3]

DATA is a data set directory with mentions, chains and boxes. Mentions are found in the captions; --given takes the gold
mentions. Honest workers err in 4 % of answers and draw boxes within 3 % of their sides, careless ones in 18 % and
within 9 %. Spammers answer at random. Adversaries are honest for 250 answers and then wrong in 70 %. Photos with known
answers are not among the annotated ones. --team takes the settings of a team of 2, 5 or 50, of whom some leave.

--load lets a number of workers work concurrently over HTTP, against a server in another process; see annotate_load.py.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import scripts_path  # noqa: F401
from annotate_load import measure
from simulated_crowd import ADVERSARY, CARELESS, HONEST, SPAMMER, TEAMS, Kind, SimulatedWorker, Truth, simulate_crowd

from deixis import geometry
from deixis.annotate.events import effective_events
from deixis.annotate.export import export_photo
from deixis.annotate.judgements import PhotoSnapshot
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.progress import read_progress
from deixis.annotate.project import Project, add_photos
from deixis.annotate.queue import Stay
from deixis.annotate.settings import Settings, read_presets
from deixis.annotate.store import Database
from deixis.annotate.workflow import Task
from deixis.data.dataset import Dataset
from deixis.data.records import Photo
from deixis.evaluation.agreement import chain_agreement, chains_of

FOUND_IOU = 0.5

MentionSpan = tuple[int, int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--known", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--given", action="store_true", help="use the gold mentions")
    parser.add_argument("--group-links", action="store_true", help="one question about all mentions, not about pairs")
    parser.add_argument("--stay", choices=[each.value for each in Stay], help="what workers stay with")
    parser.add_argument("--honest", type=int, default=30)
    parser.add_argument("--careless", type=int, default=6)
    parser.add_argument("--spammers", type=int, default=4)
    parser.add_argument("--adversaries", type=int, default=2)
    parser.add_argument("--team", choices=TEAMS, help="a team with its settings, instead of the numbers above")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", type=int, help="number of concurrent workers over HTTP")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--think", type=float, default=2.0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--database")
    options = parser.parse_args()
    photos = [photo for photo in Dataset(options.data).split(options.split) if photo.width and photo.chains]
    random.Random(options.seed).shuffle(photos)
    work, gold = photos[: options.photos], photos[options.photos : options.photos + options.known]
    if options.load:
        options.workers = options.load
        for line in measure(photos, Dataset(options.data).images, options):
            print(line, flush=True)
        return
    crowd = {
        HONEST: options.honest,
        CARELESS: options.careless,
        SPAMMER: options.spammers,
        ADVERSARY: options.adversaries,
    }
    crowd = TEAMS[options.team] if options.team else crowd
    preset = read_presets()[options.team] if options.team else {}
    settings = Settings(group_links=options.group_links, **preset)
    stay = Stay(options.stay) if options.stay else None
    given = options.given
    result = simulate(work, gold, crowd, keep_mentions=given, seed=options.seed, settings=settings, stay=stay)
    for name, value in result.items():
        print(f"{name}: {value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2))


def simulate(
    work: Sequence[Photo],
    gold: Sequence[Photo],
    crowd: dict[Kind, int],
    *,
    keep_mentions: bool,
    seed: int,
    settings: Settings | None = None,
    stay: Stay | None = None,
) -> dict[str, object]:
    """Let the crowd annotate; return the figures to print."""
    database = Database("sqlite://")
    database.create_tables()
    project = Project(Path(), database, settings or Settings())
    add_known_photos(project, gold, seed=seed)
    add_photos(project, (prepare_photo(photo, keep_mentions=keep_mentions) for photo in work))
    began, cpu = time.perf_counter(), time.process_time()
    truths = {photo.id: Truth(photo) for photo in [*work, *gold]}
    known = frozenset(photo.id for photo in gold)
    done = simulate_crowd(project, truths, crowd, seed=seed, known_photos=known, stay=stay)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    with database.reading() as connection:
        folded = {photo.id: project.snapshots.read(connection, photo.id) for photo in work}
    made = {photo: export_photo(fold, project.settings)[0] for photo, fold in folded.items()}
    judged = sum(done.judged.values()) + sum(done.checked.values())
    return {
        "photos": len(work),
        "finished": sum(fold.state.finished for fold in folded.values()),
        "judgements": {task.value: count for task, count in done.judged.items()},
        "judgements per photo": round(sum(done.judged.values()) / len(work), 1),
        "longest wait for somebody who left, s": round(done.longest_wait),
        "changes of photo": f"{done.photo_changes / max(done.questions, 1):.1%}",
        "changes of task": f"{done.task_changes / max(done.questions, 1):.1%}",
        "with known answers": {task.value: count for task, count in done.checked.items()},
        "decided by the reviewer": done.reviewed,
        **questions_against_claim(folded.values()),
        **chain_scores(work, made),
        **box_scores(work, made),
        **people(project, folded.values(), done.workers),
        "cost": _cost(project),
        "wall s": round(wall),
        "processor ms per judgement and next question": round(1000 * cpu / judged, 2),
    }


def questions_against_claim(folded: Iterable[PhotoSnapshot]) -> dict[str, object]:
    """Compare the number of link questions with |M|·|C| and with all pairs of mentions."""
    questions = products = pairs = allowed = 0
    for fold in folded:
        mentions = [mention for chain in fold.state.chains for mention in chain.mentions]
        counted = [event for event in effective_events(fold.events) if getattr(event, "task", None) is Task.LINK]
        questions += len(counted)
        products += len(mentions) * len(fold.state.chains)
        pairs += len(mentions) * (len(mentions) - 1) // 2
        allowed += sum(
            a.caption != b.caption and bool(set(a.types) & set(b.types)) for a, b in combinations(mentions, 2)
        )
    return {
        "link questions": questions,
        "mentions × chains": products,
        "pairs of mentions": pairs,
        "pairs of other captions and a common type": allowed,
        "share of mentions × chains": f"{questions / products:.1%}",
    }


def chain_scores(work: Sequence[Photo], made: dict[str, Photo]) -> dict[str, object]:
    """B³ with all mentions, and with those that both sides marked."""
    key = {photo.id: _chains(photo) for photo in work}
    response = {photo.id: chains_of(made[photo.id]) for photo in work}
    both = {name: _all(key[name]) & _all(response[name]) for name in key}
    shared = [
        {name: [kept for chain in side[name] if (kept := chain & both[name])] for name in side}
        for side in (key, response)
    ]
    whole, common = chain_agreement(key, response), chain_agreement(shared[0], shared[1])
    return {
        "B³ on common mentions (P R F1)": _prf(common.b3),
        "B³ with mentions that one side lacks": _prf(whole.b3),
        "mentions": {"common": common.n, "gold only": whole.key_only, "found only": whole.response_only},
    }


def box_scores(work: Sequence[Photo], made: dict[str, Photo]) -> dict[str, object]:
    """Accuracy of verdicts and boxes, over the mentions that both sides marked."""
    right = three = total = 0
    found = wanted = drawn = fitting = 0
    for photo in work:
        ours, theirs = _chain_by_span(made[photo.id]), _chain_by_span(_sentences_only(photo))
        for span in ours.keys() & theirs.keys():
            mine, gold = _verdict(made[photo.id], ours[span]), _verdict(photo, theirs[span])
            total += 1
            right += (mine == "box") == (gold == "box")
            three += mine == gold
            my_boxes = [box.xyxy for box in made[photo.id].boxes_of(ours[span])]
            gold_boxes = [box.xyxy for box in photo.boxes_of(theirs[span])]
            wanted, drawn = wanted + len(gold_boxes), drawn + len(my_boxes)
            if my_boxes and gold_boxes:
                close = geometry.iou(gold_boxes, my_boxes) >= FOUND_IOU
                found += int(close.any(axis=1).sum())
                fitting += int(close.any(axis=0).sum())
    return {
        "box recall": f"{found / max(wanted, 1):.1%}",
        "box precision": f"{fitting / max(drawn, 1):.1%}",
        "verdict right (box or none)": f"{right / max(total, 1):.1%}",
        "verdict right (box, scene, no box)": f"{three / max(total, 1):.1%}",
    }


def people(project: Project, folded: Iterable[PhotoSnapshot], workers: dict[str, SimulatedWorker]) -> dict[str, object]:
    """For each kind of worker: how many were excluded, and how many of their judgements still count."""
    standing = {each.worker: each for each in read_progress(project).workers}
    counts: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for fold in folded:
        for event in fold.events:
            if event.kind == "judged" and event.worker in workers:  # not the reviewer
                kind = workers[event.worker].kind.name
                judged[kind] += 1
                counts[kind] += event.number in fold.state.counted
    found: dict[str, object] = {}
    for kind in dict.fromkeys(worker.kind.name for worker in workers.values()):
        mine = [standing[worker.id] for worker in workers.values() if worker.kind.name == kind]
        out = [{"failed the test", "suspended"}.intersection(each.levels.values()) for each in mine]
        tasks = Counter(level for each in mine for level in each.levels.values())
        found[kind] = {
            "workers": len(mine),
            "kept out of a task at least": sum(map(bool, out)),
            "standings": dict(tasks),
            "judgements": judged[kind],
            "still counting": counts[kind],
            "right where known": round(
                float(np.mean([each.accuracy for each in mine if each.accuracy is not None])), 3
            ),
        }
    return {"people": found}


def _cost(project: Project) -> str:
    found = read_progress(project)
    return f"{found.hours:.0f} h, {found.cost:.0f} {found.currency}, {found.cost / found.photos:.2f} a photo"


def _chains(photo: Photo) -> list[set[MentionSpan]]:
    return chains_of(_sentences_only(photo))


def _sentences_only(photo: Photo) -> Photo:
    return Photo(photo.id, photo.sentences, photo.chains, photo.boxes)


def _all(chains: Iterable[set[MentionSpan]]) -> set[MentionSpan]:
    return {mention for chain in chains for mention in chain}


def _chain_by_span(photo: Photo) -> dict[MentionSpan, str]:
    return {
        (number, mention.start, mention.end): mention.chain
        for number, caption in enumerate(photo.captions)
        for mention in caption.mentions
        if mention.chain is not None
    }


def _verdict(photo: Photo, chain: str) -> str:
    if photo.boxes_of(chain):
        return "box"
    return "scene" if any(each.id == chain and each.scene for each in photo.chains) else "no box"


def _prf(score: object) -> str:
    return " ".join(f"{getattr(score, name):.1f}" for name in ("precision", "recall", "f1"))


if __name__ == "__main__":
    main()
