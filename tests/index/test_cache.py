"""The cache: a copy that may be lost, damaged, old or half-written, and never changes what is found."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.files.atomic import only_one
from deixis.index import PhotoIndex, cache, snapshot, update_index
from deixis.index.cache import Cached, bring_up_to_date, open_cache
from deixis.index.database import open_to_write, read_about
from tests.index.fakes import DIMENSION, ColourSeer, photo, photos


@pytest.fixture
def index(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 20)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
    return tmp_path / "index"


def cached(index: Path) -> Cached | None:
    with closing(open_to_write(index)) as connection:
        return open_cache(index, read_about(connection, index / "index.sqlite"))


def answers(index: Path) -> list[list[tuple[int, float]]]:
    queries = np.random.default_rng(3).standard_normal((4, DIMENSION)).astype(np.float32)
    with PhotoIndex(index) as opened:
        found = [opened.search(query, 50) for query in queries] + [
            opened.search_regions(query, 50) for query in queries
        ]
    return [[(match.id, round(match.score, 5)) for match in matches] for matches in found]


def test_the_cache_holds_what_the_database_holds(index: Path) -> None:
    found = cached(index)
    assert found is not None
    assert found.rows.ids.tolist() == list(range(1, 21))
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        stored = connection.execute("SELECT whole FROM vectors ORDER BY photo").fetchall()
    assert found.rows.whole.tobytes() == b"".join(whole for (whole,) in stored)
    assert found.rows.codes.shape == (40, DIMENSION)


@pytest.mark.parametrize("name", ["ids", "whole", "counts", "codes", "basis"])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_flipped_bit_is_noticed_and_mended(index: Path, name: str, where: float) -> None:
    expected = answers(index)
    (path,) = (index / "cache").glob(f"*-{name}.bin")
    content = bytearray(path.read_bytes())
    content[int(where * (len(content) - 1))] ^= 16
    path.write_bytes(content)
    assert cached(index) is None
    assert answers(index) == expected
    assert cached(index) is not None


@pytest.mark.parametrize("name", ["ids", "whole", "codes", "basis"])
def test_a_file_that_is_short_or_missing_is_noticed_and_mended(index: Path, name: str) -> None:
    expected = answers(index)
    for harm in (lambda path: path.write_bytes(path.read_bytes()[:-5]), Path.unlink):
        (path,) = (index / "cache").glob(f"*-{name}.bin")
        harm(path)
        assert cached(index) is None
        assert answers(index) == expected
        assert cached(index) is not None


@pytest.mark.parametrize(
    "manifest",
    ["", "{}", "[]", "null", '{"version": 2}', '{"version": 1, "blocks": 3}', '{"version": 1, "blocks": []}'],
)
def test_a_manifest_of_nonsense_is_noticed_and_mended(index: Path, manifest: str) -> None:
    expected = answers(index)
    (index / "cache" / "manifest.json").write_text(manifest)
    assert answers(index) == expected
    assert cached(index) is not None


def test_a_manifest_with_wrong_numbers_is_noticed(index: Path) -> None:
    expected = answers(index)
    path = index / "cache" / "manifest.json"
    document = json.loads(path.read_text())
    for wrong in ({"width": 9999}, {"dimension": "many"}, {"blocks": [{"rows": -1, "regions": 0, "sums": [0] * 4}]}):
        path.write_text(json.dumps({**document, **wrong}))
        assert cached(index) is None
    assert answers(index) == expected


def test_a_cache_that_is_gone_is_no_loss(index: Path) -> None:
    expected = answers(index)
    for path in (index / "cache").iterdir():
        path.unlink()
    assert answers(index) == expected


def test_the_cache_of_another_index_is_not_used(index: Path, tmp_path: Path) -> None:
    photo(tmp_path / "other" / "a.png", 70)
    update_index(tmp_path / "second", [tmp_path / "other"], ColourSeer())
    for path in (tmp_path / "second" / "cache").iterdir():
        path.unlink()
    (tmp_path / "second" / "cache").rmdir()
    (index / "cache").rename(tmp_path / "second" / "cache")
    with PhotoIndex(tmp_path / "second") as opened:
        assert len(opened) == 1


def test_new_photos_are_appended_to_the_same_files(index: Path, tmp_path: Path) -> None:
    before = cached(index)
    photo(tmp_path / "photos" / "new.png", 99)
    update_index(index, [tmp_path / "photos"], ColourSeer())
    after = cached(index)
    assert before is not None
    assert after is not None
    assert before.manifest.generation == after.manifest.generation
    assert [block.rows for block in after.manifest.blocks] == [20, 1]


def test_what_a_killed_process_left_behind_does_not_count(index: Path, tmp_path: Path) -> None:
    for path in (index / "cache").glob("*.bin"):
        if "basis" not in path.name:
            with path.open("ab") as file:
                file.write(b"half of a row that was never acknowledged")
    (index / "cache" / "0123-whole.bin").write_bytes(b"a generation that no manifest names")
    photo(tmp_path / "photos" / "new.png", 99)
    update_index(index, [tmp_path / "photos"], ColourSeer())
    found = cached(index)
    assert found is not None
    assert found.rows.ids.tolist() == list(range(1, 22))
    assert not (index / "cache" / "0123-whole.bin").exists()


def test_many_dead_rows_and_badly_chosen_axes_begin_a_new_generation(index: Path, tmp_path: Path) -> None:
    first = cached(index)
    for number in range(6):
        (tmp_path / "photos" / f"{number:03}.png").unlink()
    update_index(index, [tmp_path / "photos"], ColourSeer())
    second = cached(index)
    photos(tmp_path / "photos" / "more", 60)
    update_index(index, [tmp_path / "photos"], ColourSeer())
    third = cached(index)
    assert first is not None
    assert second is not None
    assert third is not None
    assert len({each.manifest.generation for each in (first, second, third)}) == 3
    assert [len(each.rows) for each in (first, second, third)] == [20, 14, third.manifest.rows]
    assert len(list((index / "cache").glob("*-whole.bin"))) == 1


def test_a_reader_with_an_old_generation_goes_on(index: Path, tmp_path: Path) -> None:
    query = np.ones(DIMENSION, dtype=np.float32)
    with PhotoIndex(index) as opened:
        for number in range(12):
            (tmp_path / "photos" / f"{number:03}.png").unlink()
        update_index(index, [tmp_path / "photos"], ColourSeer())
        assert len(opened.search(query, 50)) == 8
        assert len(opened.search_regions(query, 50)) == 8


def test_a_cache_that_cannot_be_written_costs_no_answer(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(index)
    (index / "cache" / "manifest.json").write_text("damaged")
    with only_one(index / "cache" / "manifest.json"):
        assert answers(index) == expected
    assert not open_or_none(index)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "fsync", full)
    assert answers(index) == expected
    assert not open_or_none(index)


def open_or_none(index: Path) -> bool:
    return cached(index) is not None


def test_a_reader_writes_the_cache_when_many_photos_are_not_in_it(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (index / "cache").iterdir():
        path.unlink()
    answers(index)
    assert cached(index) is None
    monkeypatch.setattr(snapshot, "_MANY", 20)
    answers(index)
    assert cached(index) is not None


@pytest.mark.parametrize("dimension", [1, 3, 5])
def test_sums_of_parts_add_up_whatever_the_length_of_a_row(dimension: int) -> None:
    rows = np.random.default_rng(0).standard_normal((7, dimension)).astype(np.float32)
    assert (cache._sum(rows[:3]) + cache._sum(rows[3:])) % 2**64 == cache._sum(rows)


def test_bringing_up_to_date_twice_changes_nothing(index: Path) -> None:
    before = (index / "cache" / "manifest.json").read_bytes()
    with closing(open_to_write(index)) as connection:
        assert bring_up_to_date(index, connection)
    assert (index / "cache" / "manifest.json").read_bytes() == before
