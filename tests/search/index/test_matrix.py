"""The vector matrix: a missing, damaged, outdated or partial cache never changes a result."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.search.index import IndexInfo, PhotoIndex, matrix, update_index
from deixis.search.index.matrix import (
    CachedMatrix,
    VectorMatrix,
    concatenate,
    fit_index_basis,
    load_matrix,
    open_cache,
    photos_with_regions,
    read_rows,
    update_cache,
)
from deixis.search.index.sqlite import connect_writer, open_for_reading, read_info
from deixis.storage.atomic import exclusive_lock
from tests.search.index.fakes import DIMENSION, ColourEncoder, photo, photos

INFO = IndexInfo("one", "colours-1", DIMENSION, DIMENSION)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 20)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    return tmp_path / "index"


def cached(index: Path) -> CachedMatrix | None:
    with closing(connect_writer(index)) as connection:
        return open_cache(index, read_info(connection, index / "index.sqlite"))


def results(index: Path) -> list[list[tuple[int, float]]]:
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
def test_a_flipped_bit_is_detected_and_the_cache_rebuilt(index: Path, name: str, where: float) -> None:
    expected = results(index)
    (path,) = (index / "cache").glob(f"*-{name}.bin")
    content = bytearray(path.read_bytes())
    content[int(where * (len(content) - 1))] ^= 16
    path.write_bytes(content)
    assert cached(index) is None
    assert results(index) == expected
    assert cached(index) is not None


@pytest.mark.parametrize("name", ["ids", "whole", "codes", "basis"])
def test_a_short_or_missing_file_is_detected_and_the_cache_rebuilt(index: Path, name: str) -> None:
    expected = results(index)
    for damage in (lambda path: path.write_bytes(path.read_bytes()[:-5]), Path.unlink):
        (path,) = (index / "cache").glob(f"*-{name}.bin")
        damage(path)
        assert cached(index) is None
        assert results(index) == expected
        assert cached(index) is not None


@pytest.mark.parametrize(
    "manifest",
    ["", "{}", "[]", "null", '{"version": 2}', '{"version": 1, "blocks": 3}', '{"version": 1, "blocks": []}'],
)
def test_an_invalid_manifest_is_detected_and_the_cache_rebuilt(index: Path, manifest: str) -> None:
    expected = results(index)
    (index / "cache" / "manifest.json").write_text(manifest)
    assert results(index) == expected
    assert cached(index) is not None


def test_a_manifest_with_wrong_numbers_is_detected(index: Path) -> None:
    expected = results(index)
    path = index / "cache" / "manifest.json"
    document = json.loads(path.read_text())
    for wrong in ({"width": 9999}, {"dimension": "many"}, {"blocks": [{"rows": -1, "regions": 0, "sums": [0] * 4}]}):
        path.write_text(json.dumps({**document, **wrong}))
        assert cached(index) is None
    assert results(index) == expected


def test_a_missing_cache_changes_no_result(index: Path) -> None:
    expected = results(index)
    for path in (index / "cache").iterdir():
        path.unlink()
    assert results(index) == expected


def test_the_cache_of_another_index_is_not_used(index: Path, tmp_path: Path) -> None:
    photo(tmp_path / "other" / "a.png", 70)
    update_index(tmp_path / "second", [tmp_path / "other"], ColourEncoder())
    for path in (tmp_path / "second" / "cache").iterdir():
        path.unlink()
    (tmp_path / "second" / "cache").rmdir()
    (index / "cache").rename(tmp_path / "second" / "cache")
    with PhotoIndex(tmp_path / "second") as opened:
        assert len(opened) == 1


def test_new_photos_are_appended_to_the_same_files(index: Path, tmp_path: Path) -> None:
    before = cached(index)
    photo(tmp_path / "photos" / "new.png", 99)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    after = cached(index)
    assert before is not None
    assert after is not None
    assert before.manifest.generation == after.manifest.generation
    assert [block.rows for block in after.manifest.blocks] == [20, 1]


def test_files_of_a_killed_process_are_ignored_and_removed(index: Path, tmp_path: Path) -> None:
    for path in (index / "cache").glob("*.bin"):
        if "basis" not in path.name:
            with path.open("ab") as file:
                file.write(b"half of a row that was never acknowledged")
    (index / "cache" / "0123-whole.bin").write_bytes(b"a generation that no manifest names")
    photo(tmp_path / "photos" / "new.png", 99)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    found = cached(index)
    assert found is not None
    assert found.rows.ids.tolist() == list(range(1, 22))
    assert not (index / "cache" / "0123-whole.bin").exists()


def test_many_removed_photos_or_a_poor_basis_begin_a_new_generation(index: Path, tmp_path: Path) -> None:
    first = cached(index)
    for number in range(6):
        (tmp_path / "photos" / f"{number:03}.png").unlink()
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    second = cached(index)
    photos(tmp_path / "photos" / "more", 60)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    third = cached(index)
    assert first is not None
    assert second is not None
    assert third is not None
    assert len({each.manifest.generation for each in (first, second, third)}) == 3
    assert [len(each.rows) for each in (first, second, third)] == [20, 14, third.manifest.rows]
    assert len(list((index / "cache").glob("*-whole.bin"))) == 1


def test_a_reader_of_an_old_generation_continues(index: Path, tmp_path: Path) -> None:
    query = np.ones(DIMENSION, dtype=np.float32)
    with PhotoIndex(index) as opened:
        for number in range(12):
            (tmp_path / "photos" / f"{number:03}.png").unlink()
        update_index(index, [tmp_path / "photos"], ColourEncoder())
        assert len(opened.search(query, 50)) == 8
        assert len(opened.search_regions(query, 50)) == 8


def test_a_cache_that_cannot_be_written_changes_no_result(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results(index)
    (index / "cache" / "manifest.json").write_text("damaged")
    with exclusive_lock(index / "cache" / "manifest.json"):
        assert results(index) == expected
    assert cached(index) is None

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(matrix.os, "fsync", full)
    assert results(index) == expected
    assert cached(index) is None


def test_a_reader_writes_the_cache_if_many_photos_are_not_in_it(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (index / "cache").iterdir():
        path.unlink()
    results(index)
    assert cached(index) is None
    monkeypatch.setattr(matrix, "_WORTH_CACHING", 20)
    results(index)
    assert cached(index) is not None


@pytest.mark.parametrize("dimension", [1, 3, 5])
def test_checksums_of_parts_add_up_for_any_row_length(dimension: int) -> None:
    rows = np.random.default_rng(0).standard_normal((7, dimension)).astype(np.float32)
    assert (matrix._checksum(rows[:3]) + matrix._checksum(rows[3:])) % 2**64 == matrix._checksum(rows)


def test_updating_the_cache_twice_changes_nothing(index: Path) -> None:
    before = (index / "cache" / "manifest.json").read_bytes()
    with closing(connect_writer(index)) as connection:
        assert update_cache(index, connection)
    assert (index / "cache" / "manifest.json").read_bytes() == before


def same(one: VectorMatrix, other: VectorMatrix) -> bool:
    rows, others = np.flatnonzero(one.is_present), np.flatnonzero(other.is_present)
    query = np.ones(one.info.dimension, dtype=np.float32)
    return (
        one.ids[rows].tolist() == other.ids[others].tolist()
        and np.array_equal(one.whole(rows), other.whole(others))
        and np.allclose(one.whole_scores(query)[rows], other.whole_scores(query)[others])
        and int(one.is_present[one.region_rows].sum()) == int(other.is_present[other.region_rows].sum())
    )


def test_an_extended_matrix_equals_a_newly_loaded_one(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 10)
    index = tmp_path / "index"
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    with closing(open_for_reading(index)) as connection:
        kept: VectorMatrix | None = None
        for step in range(25):
            photo(tmp_path / "photos" / f"new{step}.png", 100 + step)
            if step % 3 == 0:
                (tmp_path / "photos" / f"{step // 3:03}.png").unlink()
            update_index(index, [tmp_path / "photos"], ColourEncoder())
            for path in (index / "cache").iterdir() if step % 4 else []:
                path.unlink()
            kept = load_matrix(index, connection, kept)
            assert same(kept, load_matrix(index, connection, None))
            assert int(kept.is_present.sum()) == 10 + step + 1 - (step // 3 + 1)


def test_a_matrix_without_changes_is_not_loaded_again(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 3)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    with closing(open_for_reading(tmp_path / "index")) as connection:
        first = load_matrix(tmp_path / "index", connection, None)
        assert load_matrix(tmp_path / "index", connection, first) is first


def test_a_rebuilt_index_is_loaded_again(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 3)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    with closing(open_for_reading(tmp_path / "index")) as connection:
        first = load_matrix(tmp_path / "index", connection, None)
        update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder(), rebuild=True)
        for path in (tmp_path / "index" / "cache").iterdir():
            path.unlink()
        second = load_matrix(tmp_path / "index", connection, first)
    assert first.info.uid != second.info.uid
    assert int(second.is_present.sum()) == 3
    assert set(second.ids.tolist()).isdisjoint(first.ids.tolist())


def test_photos_are_read_in_order_and_in_parts(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_PHOTOS_PER_READ", 9)
    with closing(connect_writer(index)) as connection:
        basis = fit_index_basis(connection, photos_with_regions(connection), DIMENSION)
        parts = list(read_rows(connection, index / "index.sqlite", INFO, basis))
        later = list(read_rows(connection, index / "index.sqlite", INFO, basis, after=19))
    assert [len(part) for part in parts] == [9, 9, 2]
    together = concatenate(parts)
    assert together.ids.tolist() == list(range(1, 21))
    assert together.counts.tolist() == [2] * 20
    assert together.codes.shape == (40, DIMENSION)
    assert [part.ids.tolist() for part in later] == [[20]]
    assert np.array_equal(later[0].whole[0], together.whole[19])


@pytest.mark.parametrize("statement", ["UPDATE vectors SET whole = x'00'", "UPDATE regions SET vectors = x'0000'"])
def test_a_vector_of_a_wrong_length_is_an_error_that_names_the_photo(index: Path, statement: str) -> None:
    with closing(connect_writer(index)) as connection:
        basis = fit_index_basis(connection, photos_with_regions(connection), DIMENSION)
        connection.execute(f"{statement} WHERE photo = 3")
        with pytest.raises(DeixisError, match="photo 3.*--rebuild"):
            list(read_rows(connection, index / "index.sqlite", INFO, basis))


def test_a_basis_can_be_fitted_without_regions(index: Path) -> None:
    with closing(connect_writer(index)) as connection:
        assert fit_index_basis(connection, [], DIMENSION).axes.shape == (DIMENSION, DIMENSION)
