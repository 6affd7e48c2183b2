"""Fit the selection of boxes of a trained grounder again, to photos with boxes, and save the model.

python scripts/fit_box_sets.py MODEL DATA [--split train] [--out DIR]

Training does the same at its end. MODEL is the directory of a model that was trained with sets_weight; without --out it
is replaced.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.models.grounder.model import GrounderPipeline
from deixis.models.pipeline import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    pipeline = load(given.model)
    if not isinstance(pipeline, GrounderPipeline) or not pipeline.separates_boxes:
        raise DeixisError(f"{given.model}: not a grounder that was trained with sets_weight")
    dataset = Dataset(given.data)
    pipeline.fit_selection(pipeline.features(dataset, dataset.split(given.split), regions=True))
    print(pipeline.model.box_sets)
    pipeline.save_pretrained(given.out or given.model)


if __name__ == "__main__":
    main()
