"""Copy a trained model, or the trained encoder or proposal head, into the package, in half precision.

python scripts/ship_model.py FOLDER NAME

FOLDER is a directory from ``deixis train`` or, for NAME encoder or head, from ``scripts/retrain.py encoder``. The
description in `config.json` (summary, training data, licence, scores) and the card `README.md` of the shipped model are
written by hand and kept.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import deixis.vision
from deixis.models.installed import SHIPPED
from deixis.models.pipeline import Pipeline, load
from deixis.models.provenance import Provenance
from deixis.storage.artifacts import CONFIG, DESCRIPTION, WEIGHTS, Artifact, read_artifact, read_config, write_into

VISION = Path(deixis.vision.__file__).parent / "models"
VISION_PARTS = ("encoder", "head")


def ship(pipeline: Pipeline, folder: Path) -> None:
    """Write weights and configuration of a model to a directory, keeping the description there."""
    if (folder / CONFIG).is_file():
        old = Provenance.from_json(read_config(folder)["provenance"])
        described = {"summary": old.summary, "trained_on": old.trained_on, "licence": old.licence, "scores": old.scores}
        pipeline.provenance = replace(pipeline.provenance, **described)
    with tempfile.TemporaryDirectory() as made:
        pipeline.write(Path(made), half=True)
        _copy(Path(made), folder)


def ship_part(artifact: Artifact, folder: Path, *, half: bool = False) -> None:
    """Write an artifact that is no model, such as the tagger, to a directory, keeping the description there."""
    if (folder / CONFIG).is_file():
        old = read_config(folder).get("provenance", {})
        described = {name: old[name] for name in DESCRIPTION if name in old}
        artifact = replace(artifact, provenance=described | artifact.provenance)
    with tempfile.TemporaryDirectory() as made:
        write_into(Path(made), artifact, half=half)
        _copy(Path(made), folder)


def _copy(made: Path, folder: Path) -> None:
    for file in made.rglob("*"):
        if file.name in (CONFIG, WEIGHTS):
            target = folder / file.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("name")
    chosen = parser.parse_args()
    if chosen.name in VISION_PARTS:
        ship_part(read_artifact(chosen.model, keep_half=True), VISION / chosen.name)
        return
    pipeline = load(chosen.model)
    if pipeline.text is not None:
        raise SystemExit(f"{chosen.model}: only models with their own text encoder can be shipped")
    ship(pipeline, SHIPPED / chosen.name)


if __name__ == "__main__":
    main()
