"""Scenarios into which faults are injected: small, deterministic, and without model weights.

Each reads from ``folder/in`` and writes below ``folder/out``, can be restarted after a kill, and reports what it has
acknowledged. `inspect` returns the results that a reader would see now, as JSON, and fails on a partial file.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch._dynamo  # noqa: F401 - torch imports it at its first step, which takes seconds
from PIL import Image

from deixis.annotate.export import export_project
from deixis.annotate.people import Role, invite
from deixis.annotate.project import Project, add_photos, backup_project, make_project, open_project
from deixis.annotate.settings import Settings
from deixis.data.checks import check_dataset
from deixis.data.dataset import Dataset
from deixis.data.imports import CaptionFile, import_dataset
from deixis.errors import DeixisError
from deixis.models.training.checkpoints import read_checkpoint
from deixis.search.index import update, update_index
from deixis.storage.artifacts import read_artifact
from deixis.vision.feature_store import FeatureStore, update_store
from tests.annotate.fakes import BOX, dogs, next_question, record
from tests.models.training import tiny
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photos
from tests.vision.feature_store.small import colour_encoder, everything, make_data

for _name in (
    "utf-8-sig",
    "cp437",
    "latin-1",
):  # imported now: another user may not be allowed to read Python's own files
    codecs.lookup(_name)
Image.init()
Acknowledge = Callable[[str], None]
PHOTOS = 24
ANSWERS = {"link": "no", "verify": "no", "requirement": "box", "drawing": "drawn", "quality": "good", "coverage": "all"}


class Importing:
    """Imports photos and captions into a data set directory."""

    def prepare(self, folder: Path) -> None:
        _captioned_photos(folder / "in", PHOTOS)

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        if not (folder / "out" / "data").exists():  # else it was killed after it had finished
            _import(folder / "in", folder / "out" / "data", replace_old=False)
        acknowledge("data")

    def inspect(self, folder: Path) -> Any:
        path = folder / "out" / "data"
        if not path.exists():
            return None
        dataset = Dataset(path)
        problems = [problem.kind for problem in check_dataset(dataset)]
        held = [(photo.id, photo.file, [caption.text for caption in photo.captions]) for photo in dataset.photos]
        return {"hash": dataset.manifest.hash, "photos": len(held), "held": _digest(repr(held)), "problems": problems}


class Replacing(Importing):
    """Imports over an older data set, which must stay until the new one is complete."""

    def prepare(self, folder: Path) -> None:
        _captioned_photos(folder / "in", 5)
        _import(folder / "in", folder / "out" / "data", replace_old=False)
        _captioned_photos(folder / "in", PHOTOS)

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        _import(folder / "in", folder / "out" / "data", replace_old=True)
        acknowledge("data")


class Extracting:
    """Fills a feature store; acknowledges the photos in its manifest."""

    def prepare(self, folder: Path) -> None:
        make_data(folder / "in", PHOTOS)

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        store = folder / "out" / "store"
        update_store(store, Dataset(folder / "in" / "data"), colour_encoder(), shard_photos=3)
        for name in FeatureStore(store).ids:
            acknowledge(name)

    def inspect(self, folder: Path) -> Any:
        if not (folder / "out" / "store" / "manifest.json").exists():
            return {}
        store = FeatureStore(folder / "out" / "store")
        if files := store.damaged():
            raise DeixisError(f"{store.path}: damaged, {files}")
        return {name: _digest(repr(kept)) for name, kept in everything(store).items()}


class Training:
    """Trains a tiny model in a run directory, with checkpoints; acknowledges the saved model."""

    settings = replace(tiny.SETTINGS, save_every=2, epochs=2)

    def prepare(self, folder: Path) -> None:
        pass

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        run = folder / "out" / "run"
        resume = (run / "run.json").is_file()
        tiny.Tiny(self.settings).trainer(run).train(resume=resume)
        acknowledge("model")

    def inspect(self, folder: Path) -> Any:
        run = folder / "out" / "run"
        found: dict[str, Any] = {}
        for name in ("last", "best"):
            if (run / f"{name}.safetensors").exists():
                tensors, position = read_checkpoint(run / f"{name}.safetensors")
                together = {key: tensor.numpy().tobytes().hex() for key, tensor in sorted(tensors.items())}
                found[name] = [position.step, _digest(json.dumps(together))]
        if (run / "model").exists():
            model = read_artifact(run / "model")
            weights = [(name, each.tolist()) for name, each in sorted(model.arrays.items())]
            found["model"] = _digest(repr([weights, model.settings, model.provenance, sorted(model.graphs.items())]))
        return found


class Indexing:
    """Indexes photos; acknowledges those that were committed."""

    def prepare(self, folder: Path) -> None:
        photos(folder / "in" / "photos", PHOTOS)
        (folder / "in" / "photos" / "broken.png").write_bytes(b"no photo")

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        update.BATCH = 3
        path = folder / "out" / "index"
        update_index(
            path, [folder / "in" / "photos"], ColourEncoder(), on_committed=lambda path: acknowledge(path.name)
        )

    def inspect(self, folder: Path) -> Any:
        path = folder / "out" / "index"
        if not (path / "index.sqlite").exists():
            return {}
        with ReadIndex(path) as opened:
            found = opened.search(np.ones(DIMENSION), 1000)
            regions = opened.search_regions(np.ones(DIMENSION), 1000)
            thumbnails = {match.photo.path.name: _digest(repr(opened.thumbnail(match.photo.id))) for match in found}
            assert len(found) == len(opened) == len(thumbnails)
            boxes = {
                match.photo.path.name: [round(match.score, 3), opened.regions_of(match.photo.id)[0].tolist()]
                for match in regions
            }
            scores = {match.photo.path.name: round(match.score, 3) for match in found}
            return {name: [score, boxes[name], thumbnails[name]] for name, score in scores.items()}


class Annotating:
    """Records workers' answers in a project; acknowledges the numbers of their events."""

    def prepare(self, folder: Path) -> None:
        project = new_project(folder / "out" / "project")
        workers = [invite(project, name, vouched=True, role=Role.WORKER)[0] for name in ("Ann", "Bob", "Cy", "Di")]
        project.close()
        (folder / "in" / "workers.json").write_text(json.dumps(workers))

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        project = open_project(folder / "out" / "project")
        answer_all(project, json.loads((folder / "in" / "workers.json").read_text()), acknowledge)
        project.close()

    def inspect(self, folder: Path) -> Any:
        project = open_project(folder / "out" / "project", checked=True)
        found: dict[str, Any] = {}
        with project.database.reading() as connection:
            for number in range(3):
                folded = project.snapshots.read(connection, f"dog{number}")
                events = {event.number for event in folded.events}
                assert folded.state.counted == events
                found[f"dog{number}"] = sorted(map(str, events))
        project.close()
        return found


class Serving(Annotating):
    """Records answers like a server, which goes on after one that could not be stored."""

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        project = open_project(folder / "out" / "project")
        workers = json.loads((folder / "in" / "workers.json").read_text())
        answer_all(project, workers, acknowledge, errors=(DeixisError, MemoryError))
        project.close()


class Exporting:
    """Exports a finished project in the format of Flickr30k Entities."""

    def prepare(self, folder: Path) -> None:
        project = new_project(folder / "in" / "project")
        workers = [invite(project, name, vouched=True, role=Role.WORKER)[0] for name in ("Ann", "Bob", "Cy", "Di")]
        answer_all(project, workers, lambda event: None)
        project.close()

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        project = open_project(folder / "in" / "project")
        export_project(project, "entities", folder / "out" / "export", unfinished=True, replace=True)
        project.close()
        acknowledge("export")

    def inspect(self, folder: Path) -> Any:
        export = folder / "out" / "export"
        if not export.exists():
            return None
        files = sorted(path for path in export.rglob("*") if path.is_file())
        return {path.relative_to(export).as_posix(): _digest(path.read_text()) for path in files}


class BackingUp(Exporting):
    """Backs up a project."""

    def run(self, folder: Path, acknowledge: Acknowledge) -> None:
        if (folder / "out" / "backup").exists():
            return
        project = open_project(folder / "in" / "project")
        acknowledge(str(backup_project(project, folder / "out" / "backup")))
        project.close()

    def inspect(self, folder: Path) -> Any:
        if not (folder / "out" / "backup").exists():
            return None
        project = open_project(folder / "out" / "backup", checked=True)
        with project.database.reading() as connection:
            kept = [project.snapshots.read(connection, f"dog{number}") for number in range(3)]
        project.close()
        return [[event.number for event in folded.events] for folded in kept]


SCENARIOS: dict[str, Any] = {
    "importing": Importing(),
    "replacing": Replacing(),
    "extracting": Extracting(),
    "training": Training(),
    "indexing": Indexing(),
    "annotating": Annotating(),
    "serving": Serving(),
    "exporting": Exporting(),
    "backing up": BackingUp(),
}


def new_project(path: Path) -> Project:
    settings = Settings(history_items=0, history_accuracy=0.0, lease_s=0.001)
    project = make_project(path, settings=settings)
    add_photos(project, dogs(3))
    return project


def answer_all(
    project: Project, workers: list[str], acknowledge: Acknowledge, errors: tuple[type[Exception], ...] = ()
) -> None:
    """Let the workers answer in turn until there are no more questions; after one of the `errors`, ask the next."""
    idle = 0
    while idle < len(workers):
        for worker in workers:
            with suppress(*errors):
                question = next_question(project, worker)
                if question is None:
                    idle += 1
                    continue
                idle = 0
                answer = ANSWERS[question.task]
                recorded = record(project, worker, question.token, answer, box=BOX if answer == "drawn" else None)
                acknowledge(str(recorded.event))


def _captioned_photos(path: Path, count: int) -> None:
    made = photos(path / "photos", count)
    lines = [{"image": path.name, "captions": [f"Squares, number {path.stem}."]} for path in made]
    (path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _import(source: Path, out: Path, *, replace_old: bool) -> None:
    captions = [CaptionFile(source / "captions.jsonl")]
    import_dataset(out, images=source / "photos", captions=captions, replace_old=replace_old)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
