"""The pieces of work that faults strike: small, the same each time, and needing no weights.

Each reads from ``folder/in`` and writes below ``folder/out``, may be begun again after a kill, and says what it has
acknowledged. `seen` is all that somebody who reads its results would see now, as JSON; it fails where something
half-written would be read.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch._dynamo  # noqa: F401 - torch imports it at its first step, which takes seconds
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file

from deixis.annotate.assigning import next_question
from deixis.annotate.exporting import export
from deixis.annotate.keeping import backup
from deixis.annotate.people import Role, invite
from deixis.annotate.project import Project, add_photos, make_project, open_project
from deixis.annotate.recording import record
from deixis.annotate.settings import Settings
from deixis.data.check import check_dataset
from deixis.data.dataset import Dataset
from deixis.data.importing import CaptionFile, import_dataset
from deixis.errors import DeixisError
from deixis.index import PhotoIndex, update_index, updating
from deixis.training.checkpoints import read_checkpoint
from deixis.vision.store import FeatureStore, ShardLimits, fill_store
from tests.annotate.fakes import BOX, dogs
from tests.index.fakes import DIMENSION, ColourSeer, photos
from tests.training import tiny
from tests.vision.store.small import colour_encoder, everything, make_data

for _name in ("utf-8-sig", "cp437", "latin-1"):  # somebody else may not be allowed to read the files of our Python
    codecs.lookup(_name)
Image.init()
Say = Callable[[str], None]
PHOTOS = 24
ANSWERS = {
    "link": "no",
    "verify": "no",
    "requirement": "box",
    "drawing": "drawn",
    "quality": "good",
    "coverage": "all",
}


class Importing:
    """A data set directory of photos and captions."""

    def prepare(self, folder: Path) -> None:
        _captioned_photos(folder / "in", PHOTOS)

    def run(self, folder: Path, say: Say) -> None:
        if not (folder / "out" / "data").exists():  # else it was killed when all was done
            _import(folder / "in", folder / "out" / "data", replace_old=False)
        say("data")

    def seen(self, folder: Path) -> Any:
        place = folder / "out" / "data"
        if not place.exists():
            return None
        dataset = Dataset(place)
        problems = [problem.kind for problem in check_dataset(dataset)]
        held = [(photo.id, photo.file, [caption.text for caption in photo.captions]) for photo in dataset.photos]
        return {"hash": dataset.manifest.hash, "photos": len(held), "held": _digest(repr(held)), "problems": problems}


class Replacing(Importing):
    """The same in the place of an older one, which must stay until the new one is whole."""

    def prepare(self, folder: Path) -> None:
        _captioned_photos(folder / "in", 5)
        _import(folder / "in", folder / "out" / "data", replace_old=False)
        _captioned_photos(folder / "in", PHOTOS)

    def run(self, folder: Path, say: Say) -> None:
        _import(folder / "in", folder / "out" / "data", replace_old=True)
        say("data")


class Featuring:
    """A feature store; what its manifest names is acknowledged."""

    def prepare(self, folder: Path) -> None:
        make_data(folder / "in", PHOTOS)

    def run(self, folder: Path, say: Say) -> None:
        store = folder / "out" / "store"
        fill_store(store, Dataset(folder / "in" / "data"), colour_encoder(), limits=ShardLimits(photos=3))
        for name in FeatureStore(store).ids:
            say(name)

    def seen(self, folder: Path) -> Any:
        if not (folder / "out" / "store" / "manifest.json").exists():
            return {}
        store = FeatureStore(folder / "out" / "store")
        if files := store.damaged():
            raise DeixisError(f"{store.path}: damaged, {files}")
        return {name: _digest(repr(kept)) for name, kept in everything(store).items()}


class Training:
    """A run directory; a checkpoint is what it has acknowledged."""

    settings = replace(tiny.SETTINGS, save_every=2, epochs=2)

    def prepare(self, folder: Path) -> None:
        pass

    def run(self, folder: Path, say: Say) -> None:
        run = folder / "out" / "run"
        resume = (run / "run.json").is_file()
        tiny.Tiny(self.settings).trainer(run).train(resume=resume)
        say("model")

    def seen(self, folder: Path) -> Any:
        run = folder / "out" / "run"
        found: dict[str, Any] = {}
        for name in ("last", "best"):
            if (run / f"{name}.safetensors").exists():
                tensors, position = read_checkpoint(run / f"{name}.safetensors")
                together = {key: tensor.numpy().tobytes().hex() for key, tensor in sorted(tensors.items())}
                found[name] = [position.step, _digest(json.dumps(together))]
        if (run / "model").exists():
            try:
                weights = load_file(run / "model" / "weights.safetensors")
            except SafetensorError as error:
                raise DeixisError(f"{run}: damaged ({error})") from None
            found["model"] = _digest(repr([(name, each.tolist()) for name, each in sorted(weights.items())]))
        return found


class Indexing:
    """An index of photos; those that it was told are done are acknowledged."""

    def prepare(self, folder: Path) -> None:
        photos(folder / "in" / "photos", PHOTOS)
        (folder / "in" / "photos" / "broken.png").write_bytes(b"no photo")

    def run(self, folder: Path, say: Say) -> None:
        updating.BATCH = 3
        place = folder / "out" / "index"
        update_index(place, [folder / "in" / "photos"], ColourSeer(), on_done=lambda path: say(path.name))

    def seen(self, folder: Path) -> Any:
        place = folder / "out" / "index"
        if not (place / "index.sqlite").exists():
            return {}
        with PhotoIndex(place) as opened:
            found = opened.search(np.ones(DIMENSION), 1000)
            regions = opened.search_regions(np.ones(DIMENSION), 1000)
            thumbnails = {match.path.name: _digest(repr(opened.thumbnail(match.id))) for match in found}
            assert len(found) == len(opened) == len(thumbnails)
            boxes = {match.path.name: [round(match.score, 3), *map(float, match.box or ())] for match in regions}
            scores = {match.path.name: round(match.score, 3) for match in found}
            return {name: [score, boxes[name], thumbnails[name]] for name, score in scores.items()}


class Annotating:
    """Answers of workers, kept in a project; the number of an event is its acknowledgement."""

    def prepare(self, folder: Path) -> None:
        project = new_project(folder / "out" / "project")
        workers = [invite(project, name, vouched=True, role=Role.WORKER)[0] for name in ("Ann", "Bob", "Cy", "Di")]
        project.close()
        (folder / "in" / "workers.json").write_text(json.dumps(workers))

    def run(self, folder: Path, say: Say) -> None:
        project = open_project(folder / "out" / "project")
        answer_all(project, json.loads((folder / "in" / "workers.json").read_text()), say)
        project.close()

    def seen(self, folder: Path) -> Any:
        project = open_project(folder / "out" / "project")
        found: dict[str, Any] = {}
        with project.database.reading() as connection:
            for number in range(3):
                folded = project.folds.at(connection, f"dog{number}")
                events = {event.number for event in folded.events}
                assert folded.state.counted == events
                found[f"dog{number}"] = sorted(map(str, events))
        project.close()
        return found


class Exporting:
    """The finished project in the form of Entities."""

    def prepare(self, folder: Path) -> None:
        project = new_project(folder / "in" / "project")
        workers = [invite(project, name, vouched=True, role=Role.WORKER)[0] for name in ("Ann", "Bob", "Cy", "Di")]
        answer_all(project, workers, lambda said: None)
        project.close()

    def run(self, folder: Path, say: Say) -> None:
        project = open_project(folder / "in" / "project")
        export(project, "entities", folder / "out" / "export", unfinished=True, replace_old=True)
        project.close()
        say("export")

    def seen(self, folder: Path) -> Any:
        place = folder / "out" / "export"
        if not place.exists():
            return None
        return {
            path.relative_to(place).as_posix(): _digest(path.read_text())
            for path in sorted(place.rglob("*"))
            if path.is_file()
        }


class BackingUp(Exporting):
    """A copy of the project."""

    def run(self, folder: Path, say: Say) -> None:
        if (folder / "out" / "backup").exists():
            return
        project = open_project(folder / "in" / "project")
        say(str(backup(project, folder / "out" / "backup")))
        project.close()

    def seen(self, folder: Path) -> Any:
        if not (folder / "out" / "backup").exists():
            return None
        project = open_project(folder / "out" / "backup")
        with project.database.reading() as connection:
            kept = [project.folds.at(connection, f"dog{number}") for number in range(3)]
        project.close()
        return [[event.number for event in folded.events] for folded in kept]


WORKS: dict[str, Any] = {
    "importing": Importing(),
    "replacing": Replacing(),
    "featuring": Featuring(),
    "training": Training(),
    "indexing": Indexing(),
    "annotating": Annotating(),
    "exporting": Exporting(),
    "backing up": BackingUp(),
}


def new_project(place: Path) -> Project:
    settings = Settings(history_items=0, history_accuracy=0.0, lease_s=0.001)
    project = make_project(place, settings=settings)
    add_photos(project, dogs(3))
    return project


def answer_all(project: Project, workers: list[str], say: Say) -> None:
    """Everybody answers in turn, until nobody is asked any more."""
    idle = 0
    while idle < len(workers):
        for worker in workers:
            given = next_question(project, worker)
            if given is None:
                idle += 1
                continue
            idle = 0
            said = ANSWERS[given.task]
            kept = record(project, worker, given.token, said, box=BOX if said == "drawn" else None)
            say(str(kept.event))


def _captioned_photos(place: Path, count: int) -> None:
    made = photos(place / "photos", count)
    lines = [{"image": path.name, "captions": [f"Squares, number {path.stem}."]} for path in made]
    (place / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _import(source: Path, out: Path, *, replace_old: bool) -> None:
    captions = [CaptionFile(source / "captions.jsonl")]
    import_dataset(out, images=source / "photos", captions=captions, replace_old=replace_old)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
