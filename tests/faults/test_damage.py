"""Files that are no longer what was written: noticed and told in one line, mended, or without effect; never a crash."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DatasetError
from tests.faults.conftest import SEED, Workshop

PLACES = 16
CHECKED = ("importing", "featuring", "training", "indexing", "annotating", "backing up")
# Nobody adds up the bytes of these: SQLite notices only what contradicts its own order.
UNCHECKED_FILES = (
    ".sqlite",
    ".sqlite-wal",
    ".sqlite-shm",
    "log.jsonl",
    "README.md",
    "settings.json",
    "weights.safetensors",
)


def harm(content: bytes, how: str, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    if how == "bit":
        return content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
    if how == "cut":
        return content[:place]
    if how == "zeros":
        return content[:place] + bytes(min(512, len(content) - place)) + content[place + 512 :]
    return content + chance.randbytes(64)


@pytest.mark.parametrize("work", CHECKED)
def test_damage_is_told_in_one_line_or_does_no_harm(
    work: str, workshop: Workshop, chance: random.Random, tmp_path: Path
) -> None:
    folder = tmp_path / "sound"
    workshop.prepare(work, folder)
    workshop.run(work, folder)
    wanted = workshop.see(work, folder).seen
    files = sorted(path for path in (folder / "out").rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(PLACES):
        path, how = chance.choice(files), chance.choice(["bit", "bit", "bit", "cut", "zeros", "more"])
        sound = path.read_bytes()
        before = shutil.copytree(folder, tmp_path / "before")
        path.write_bytes(harm(sound, how, chance))
        met = workshop.see(work, folder)
        where = f"seed {SEED}, {how} in {path.relative_to(folder)}"
        told = met.refused is not None or (isinstance(met.seen, dict) and met.seen.get("problems"))
        unchecked = path.name.endswith(UNCHECKED_FILES)
        assert told or met.seen == wanted or unchecked, where
        if told and met.refused:
            assert str(folder) in met.refused, f"{where}: {met.refused}"
        shutil.rmtree(folder)
        before.rename(folder)


def test_a_table_with_one_other_letter_is_not_believed(tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", [Photo("1", (Caption.from_text("A brown dog."),))])
    table = tmp_path / "data" / "captions.arrow"
    table.write_bytes(table.read_bytes().replace(b"brown", b"crown"))
    with pytest.raises(DatasetError, match=r"captions\.arrow: damaged, import the data again"):
        list(Dataset(tmp_path / "data").photos)


@pytest.mark.parametrize("how", ["bit", "cut", "zeros", "more"])
@pytest.mark.parametrize("work", ["featuring", "indexing"])
def test_the_next_run_mends_what_can_be_computed_again(
    work: str, how: str, workshop: Workshop, chance: random.Random, tmp_path: Path
) -> None:
    workshop.prepare(work, tmp_path / "work")
    workshop.run(work, tmp_path / "work")
    wanted = workshop.see(work, tmp_path / "work").seen
    inside = tmp_path / "work" / "out" / {"featuring": "store", "indexing": "index/cache"}[work]
    files = [path for path in inside.iterdir() if path.suffix in (".safetensors", ".bin") and path.stat().st_size]
    path = chance.choice(sorted(files, key=lambda each: each.stat().st_size))
    path.write_bytes(harm(path.read_bytes(), how, chance))
    assert workshop.run(work, tmp_path / "work").refused is None
    assert workshop.see(work, tmp_path / "work").seen == wanted, f"seed {SEED}, {how} in {path.name}"
