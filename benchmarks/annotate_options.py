"""Measure what the options of the box tasks cost and save, with a simulated crowd.

    python benchmarks/annotate_options.py DATA [--split train] [--photos 200] [--known 60] [--seed 0] [--given]

The same photos are annotated by the same crowd: as in the paper; with coverage skipped for plainly singular phrases
(`skip_singular_coverage` in ``settings.json``); with "adjust this box" in the quality task and "this box is wrong" in
the coverage task; and with both. DATA and the workers are those of ``annotate.py``. By default all are honest: when
careless workers are suspended, which work is done again differs from run to run more than the options do.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

import scripts_path  # noqa: F401
from annotate import simulate
from simulated_crowd import CARELESS, HONEST

from deixis.annotate.settings import Settings
from deixis.data.dataset import Dataset

ARMS = {"paper": (False, False), "skip": (True, False), "answers": (False, True), "both": (True, True)}
PRINTED = (
    "finished",
    "judgements",
    "judgements per photo",
    "B³ on common mentions (P R F1)",
    "B³ with mentions that one side lacks",
    "box recall",
    "box precision",
    "decided by the reviewer",
    "cost",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--known", type=int, default=60)
    parser.add_argument("--honest", type=int, default=12)
    parser.add_argument("--careless", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--given", action="store_true", help="use the gold mentions")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    photos = [photo for photo in Dataset(options.data).split(options.split) if photo.width and photo.chains]
    random.Random(options.seed).shuffle(photos)
    work, gold = photos[: options.photos], photos[options.photos : options.photos + options.known]
    found = {}
    for arm in options.arms:
        skip, box_answers = ARMS[arm]
        crowd = {
            replace(HONEST, box_answers=box_answers): options.honest,
            replace(CARELESS, box_answers=box_answers): options.careless,
        }
        settings = Settings(skip_singular_coverage=skip)
        result = simulate(work, gold, crowd, keep_mentions=options.given, seed=options.seed, settings=settings)
        found[arm] = {name: result[name] for name in PRINTED}
        print(arm)
        for name, value in found[arm].items():
            print(f"  {name}: {value}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
