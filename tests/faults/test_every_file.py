"""Damage to every file of everything that deixis saves: the same answer or one clear line, never another number.

Each file is damaged in turn: flipped bits, zeros, a cut, a tail, swapped sectors, repeated pages and those of an older
file. No file is left out. What a reader refuses `deixis verify` must report. More bits are flipped in the databases of
an index and a project, and more still in the slow tier.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import select

from deixis.annotate.help.boxes import SHIPPED as BOXES
from deixis.annotate.help.boxes import BoxCalibration
from deixis.annotate.help.coreference import SHIPPED as COREFERENCE
from deixis.annotate.project import open_project
from deixis.annotate.store import PROTECTED_TABLES, metadata
from deixis.cli.verify import _damage, _kind_of
from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.errors import DeixisError
from deixis.evaluation.retrieval import Ranking
from deixis.language.features.captions import build_caption_features, caption_vectors, find_damage, recipe_of
from deixis.language.sentence import Sentence
from deixis.models.hm_lstm.correspondence import find_correspondences
from deixis.models.hm_lstm.trees import parse_forest
from deixis.models.photo_score import SHIPPED_FILE, ScoreWeights
from deixis.papers.results import ModelScores
from deixis.search.calibration import Calibration
from deixis.search.index import PhotoFilter, update_index
from deixis.search.index.photo_files import make_thumbnail
from deixis.storage.artifacts import Artifact, read_artifact
from deixis.storage.progress import no_progress
from deixis.vision.proposals import FixedProposer
from tests.faults.conftest import assert_one_line
from tests.faults.scenarios import SCENARIOS
from tests.language.features.test_captions import make_data as captioned_data
from tests.models.hm_lstm.test_correspondence import model, parsed
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photo

PACKAGE = Path(__file__).parents[2] / "src" / "deixis"
MODELS = (
    "models/shipped/grounder",
    "models/shipped/two-branch",
    "models/shipped/describer",
    "models/shipped/captioner",
)
PARTS = (
    *("vision/models/encoder", "vision/models/head", "vision/models/fast"),
    *(f"language/models/{name}" for name in ("parser", "chunker", "tagger", "entity_types", "words")),
    *("models/describer/long_phrases", str(COREFERENCE.relative_to(PACKAGE))),
)
FOR_PEOPLE = ("README.md", "settings.json", "log.jsonl", "index.lock", ".deixis-index")
"""Files that people write or read, on which no number depends."""

Read = Callable[[Path], Any]


def same_numbers(artifact: Artifact) -> Any:
    """All that a model computes with."""
    arrays = {name: np.asarray(array).tobytes() for name, array in sorted(artifact.arrays.items())}
    for file in artifact.files.values():
        file.check()  # as sessions do
    parts = {name: same_numbers(part) for name, part in artifact.parts.items()}
    return artifact.kind, artifact.settings, artifact.provenance, arrays, dict(artifact.graphs), parts


def scenario(name: str) -> tuple[Callable[[Path], None], Read]:
    chosen = SCENARIOS[name]

    def make(folder: Path) -> None:
        (folder / "in").mkdir(parents=True)
        chosen.prepare(folder)

        def keep(what: str) -> None:
            with suppress(FileExistsError):  # after the first part of the work
                shutil.copytree(folder / "out", folder / "before" / "out")

        chosen.run(folder, keep)

    return make, chosen.inspect


def make_text(folder: Path) -> None:
    (folder / "in").mkdir(parents=True)
    build_caption_features(folder / "out" / "text", captioned_data(folder / "in"), recipe_of("tfidf"))


def read_text(folder: Path) -> Any:
    vectors = caption_vectors(folder / "out" / "text", Dataset(folder / "in" / "data"))
    if damage := list(find_damage(folder / "out" / "text")):
        raise DeixisError(damage[0])
    return vectors.tolist()


def make_index(folder: Path) -> None:
    """An index without a cache, so that the database is read."""
    for number in range(12):
        path = photo(folder / "in" / "photos" / f"trip {number % 3}" / f"a{number}.jpg", 20 * number)
        exif = Image.Exif()
        exif[0x0110], exif[0x0132] = "Camera", f"2024:{number % 12 + 1:02}:01 10:00:00"
        Image.open(path).convert("RGB").save(path, exif=exif)
    (folder / "in" / "photos" / "broken.jpg").write_bytes(b"no photo")
    update_index(folder / "out" / "index", [folder / "in" / "photos"], ColourEncoder())
    shutil.rmtree(folder / "out" / "index" / "cache")


def read_index(folder: Path) -> Any:
    with ReadIndex(folder / "out" / "index") as opened:
        found = opened.search(np.ones(DIMENSION), 100)
        filtered = opened.search(np.ones(DIMENSION), 100, photo_filter=PhotoFilter(after="2024-05", folder="trip 1"))
        with opened.snapshot() as snapshot:
            counted = snapshot.folders_and_months(PhotoFilter())
        about = [
            (each.path, each.width, each.height, each.exif, each.sha256, each.regions) for each in opened.newest(99)
        ]
        regions = [
            np.concatenate([part.ravel() for part in opened.regions_of(each.photo.id)]).tolist() for each in found
        ]
        # The pages make one from the photo if it is lost.
        thumbnails = [
            opened.thumbnail(each.photo.id) or make_thumbnail(open_photo(each.photo.path), 16) for each in found
        ]
        scores = [[(each.photo.path, round(each.score, 4)) for each in some] for some in (found, filtered)]
        return scores, counted, about, regions, thumbnails, opened.info, len(opened)


def read_project(folder: Path) -> Any:
    opened = open_project(folder / "out" / "project", checked=True)
    try:
        with opened.database.reading() as connection:
            tables = [table for table in metadata.sorted_tables if table.name in PROTECTED_TABLES]
            rows = [sorted(map(repr, connection.execute(select(table)))) for table in tables]
            states = [opened.snapshots.read(connection, f"dog{number}").state for number in range(3)]
        return rows, repr(states)
    finally:
        opened.close()


TEXTS = ["A dog in the snow.", "Two men have hats."]


def make_trees(folder: Path) -> None:
    parse_forest([Sentence(text) for text in TEXTS], folder / "out")


def read_trees(folder: Path) -> Any:
    forest = parse_forest([Sentence(text) for text in TEXTS], folder / "out")
    return {name: repr(value) for name, value in asdict(forest).items()}


def make_pairs(folder: Path) -> None:
    (folder / "out").mkdir(parents=True)
    read_pairs(folder)


def read_pairs(folder: Path) -> Any:
    found = find_correspondences(model(), parsed(), folder / "out" / "found.jsonl")
    return [found.rows.owners.tolist(), found.node.tolist(), found.region.tolist(), found.confidence.tolist()]


def make_scores(folder: Path) -> None:
    (folder / "out").mkdir(parents=True)
    ranks = Ranking(np.array([1.0, 7.0, 3.0]), np.full(3, 100), np.array([0, 0, 1]), 2)
    ModelScores({"r1": 33.3, "ap": 3.25}, {"": ranks}, {"text": "tfidf"}).save(folder / "out")


def read_scores(folder: Path) -> Any:
    loaded = ModelScores.load(folder / "out")
    ranks = [getattr(loaded.rankings[""], name).tolist() for name in ("ranks", "units", "candidates")]
    return dict(loaded.scores), dict(loaded.about), ranks, loaded.kept


def copied(*files: Path) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        for file in files:
            (shutil.copytree if file.is_dir() else shutil.copy)(file, folder / "out" / file.name)

    return make


def shipped_file(file: Path, read: Callable[[Path], Any]) -> tuple[Callable[[Path], None], Read]:
    return copied(file), lambda folder: repr(read(folder / "out" / file.name))


def shipped_folder(name: str) -> tuple[Callable[[Path], None], Read]:
    return copied(PACKAGE / name), lambda folder: same_numbers(read_artifact(folder / "out" / Path(name).name))


KINDS: dict[str, tuple[Callable[[Path], None], Read]] = {
    **{name: scenario(name) for name in ("importing", "extracting", "training", "indexing", "backing up")},
    "annotating": (scenario("annotating")[0], read_project),
    "index without a cache": (make_index, read_index),
    "text features": (make_text, read_text),
    "trees": (make_trees, read_trees),
    "correspondences": (make_pairs, read_pairs),
    "scores": (make_scores, read_scores),
    "calibration": shipped_file(SHIPPED_FILE.with_name("calibration.json"), Calibration.load),
    "photo score": shipped_file(SHIPPED_FILE, ScoreWeights.load),
    "boxes": shipped_file(BOXES, BoxCalibration.load),
    "fixed boxes": shipped_file(
        PACKAGE / "vision/proposals/fixed_boxes.json",
        lambda path: FixedProposer.load(path).boxes.tolist(),
    ),
    **{name: shipped_folder(name) for name in (*MODELS, *PARTS)},
}


DATABASES = {"annotating": "annotations.sqlite", "index without a cache": "index.sqlite"}
VERIFIED = {
    **{"importing": "data", "extracting": "store", "training": "run/model", "text features": "text"},
    **{"indexing": "index", "index without a cache": "index", "annotating": "project", "backing up": "backup"},
    **{name: Path(name).name for name in (*MODELS, *PARTS)},
}
"""What `deixis verify` checks of a kind."""


def flips_of(kind: str, file: Path, size: int) -> int:
    """More where a flipped bit may go unnoticed: a digit of a text, a number of a database."""
    if DATABASES.get(kind) == file.name:
        return 40
    if size > 2**20:
        return 4
    return 12 if kind in SCENARIOS or kind in (*MODELS, *PARTS) else 80


def damages(content: bytes, older: bytes, rng: random.Random, flips: int) -> dict[str, list[bytes]]:
    """Return damaged contents by kind of damage; `older` is what the file held before, or another file."""
    size = len(content)

    def put(at: int, part: bytes, base: bytes = content) -> bytes:
        return base[:at] + part[: size - at] + base[at + len(part) :]

    def flip(at: int, mask: int, base: bytes = content) -> bytes:
        return put(at, bytes([base[at] ^ mask]), base)

    places = [0, size - 1, size // 2, *(rng.randrange(size) for _ in range(flips))]
    sector = min(512, max(size // 2, 1))
    first, second = (sector * rng.randrange(-(-size // sector)) for _ in range(2))
    page = rng.randrange(0, size, min(4096, size))
    is_database = content.startswith(b"SQLite format 3")
    pages = range(0, size, int.from_bytes(content[16:18], "big")) if is_database else [page]
    top = [rng.randrange(page, min(page + 4096, size)) for _ in range(2)]
    made = {
        "a flipped bit": [flip(at, 1 << rng.randrange(8)) for at in places],
        "two flips of the top bit in a page": [flip(top[1], 0x80, flip(top[0], 0x80))],
        "zeros": [put(first, bytes(sector))],
        "a cut": [content[: rng.randrange(size)]],
        "a tail": [content + rng.randbytes(64)],
        "swapped sectors": [
            put(first, content[second : second + sector], put(second, content[first : first + sector]))
        ],
        "a page twice": [put(at, content[: min(4096, size)]) for at in pages],
        "a stale page": [put(page, older[page : page + 4096])],
    }
    return {name: [each for each in some if each != content] for name, some in made.items()}


def wrong_answers(kind: str, rng: random.Random, folder: Path, flips: int = 0) -> tuple[list[str], Counter[str]]:
    """Damage each file of a kind, or flip bits of its database; return what goes wrong, and counts."""
    make, read = KINDS[kind]
    make(folder / "sound")
    shutil.copytree(folder / "sound", folder / "kept")
    expected = read(folder / "kept")
    files = [path.relative_to(folder / "sound") for path in sorted((folder / "sound" / "out").rglob("*"))]
    wrong, counts = [], Counter[str]()
    for file in files:
        sound = (folder / "sound" / file).read_bytes() if (folder / "sound" / file).is_file() else b""
        if not sound or file.name in FOR_PEOPLE or (flips and file.name != DATABASES[kind]):
            continue
        before = folder / "sound" / "before" / file
        older = before.read_bytes() if before.is_file() else sound[len(sound) // 2 :]
        made = damages(sound, older, rng, flips or flips_of(kind, file, len(sound)))
        for how, number, damaged in ((how, *each) for how, some in made.items() for each in enumerate(some)):
            shutil.copytree(folder / "sound" / "out", folder / "copy" / "out")
            (folder / "copy" / "in").symlink_to(folder / "sound" / "in")
            (folder / "copy" / file).write_bytes(damaged)
            counts["changes"] += 1
            to_verify = folder / "copy" / "out" / VERIFIED[kind] if kind in VERIFIED and number < 3 else None
            verified = verify(to_verify) if to_verify else ""
            try:
                found = read(folder / "copy")
                if isinstance(found, dict) and found.get("problems"):
                    counts["reported"] += 1
                elif found == expected:
                    counts["the same answer"] += 1
                else:
                    wrong.append(f"{file}, {how}: another answer")
            except DeixisError as error:
                assert_one_line(str(error))
                assert str(folder / "copy") in str(error)
                counts["reported"] += 1
                if to_verify and str(to_verify) in str(error):
                    counts["reported by verify"] += 1
                    if str(folder / "copy") not in verified:
                        wrong.append(f"{file}, {how}: not found by deixis verify, which says {verified!r}")
            except Exception as error:
                wrong.append(f"{file}, {how}: {type(error).__name__} {error}")
            finally:
                shutil.rmtree(folder / "copy")
    assert counts["reported"] or wrong or kind == "trees", "no damage was found"  # trees are parsed again
    return wrong, counts


def verify(path: Path) -> str:
    """Return what `deixis verify` reports, on lines; empty if it finds no damage."""
    try:
        kind, folder = _kind_of(str(path))
        return "\n".join(_damage(kind, folder, no_progress))
    except DeixisError as error:
        return str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_can_change_a_number(kind: str, rng: random.Random, tmp_path: Path) -> None:
    wrong, counts = wrong_answers(kind, rng, tmp_path)
    print(kind, dict(counts))
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", DATABASES)
def test_no_bit_of_a_database_can_change_a_number(kind: str, rng: random.Random, tmp_path: Path) -> None:
    assert wrong_answers(kind, rng, tmp_path, flips=150)[0] == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes with names")
@pytest.mark.parametrize(
    "kind", ["importing", "extracting", "training", "indexing", "annotating", "text features", "scores"]
)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    def give_up(*_: object) -> None:
        raise AssertionError("waits for a pipe")

    make, read = KINDS[kind]
    make(tmp_path / "sound")
    before = signal.signal(signal.SIGALRM, give_up)
    try:
        for file in [path for path in (tmp_path / "sound" / "out").rglob("*") if path.is_file()]:
            shutil.copytree(tmp_path / "sound", tmp_path / "copy")
            pipe = tmp_path / "copy" / file.relative_to(tmp_path / "sound")
            pipe.unlink()
            os.mkfifo(pipe)
            signal.alarm(60)
            with suppress(DeixisError):
                read(tmp_path / "copy")
            signal.alarm(0)
            shutil.rmtree(tmp_path / "copy")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
