"""The vector matrix: a missing, damaged or outdated cache never changes a result; codes are close to vectors."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.search.index import IndexInfo, matrix, update_index
from deixis.search.index.matrix import (
    Basis,
    CachedMatrix,
    VectorMatrix,
    fit_basis,
    load_matrix,
    open_cache,
)
from deixis.search.index.photo_index import find_damage
from deixis.search.index.sqlite import connect_writer, crc_of, open_for_reading, read_info
from deixis.storage.atomic import exclusive_lock
from deixis.storage.checksums import FileChecks, seal, unseal
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photo, photos

INFO = IndexInfo("one", "colours-1", DIMENSION, DIMENSION)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of 20 photos, of which nine are read at a time."""
    monkeypatch.setattr(matrix, "_PHOTOS_PER_READ", 9)
    photos(tmp_path / "photos", 20)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    return tmp_path / "index"


def cached(index: Path) -> CachedMatrix | None:
    with closing(connect_writer(index)) as connection:
        return open_cache(index, connection, read_info(connection, index / "index.sqlite"))


def valid_cache(index: Path) -> CachedMatrix:
    found = cached(index)
    assert found is not None
    return found


def results(index: Path) -> list[list[tuple[int, float]]]:
    queries = np.random.default_rng(3).standard_normal((4, DIMENSION)).astype(np.float32)
    with ReadIndex(index) as opened:
        found = [opened.search(query, 50) for query in queries] + [
            opened.search_regions(query, 50) for query in queries
        ]
    return [[(match.photo.id, round(match.score, 5)) for match in matches] for matches in found]


def test_the_cache_holds_what_the_database_holds(index: Path) -> None:
    found = valid_cache(index)
    assert found.photos.ids.tolist() == list(range(1, 21))
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        stored = connection.execute("SELECT whole FROM vectors ORDER BY photo").fetchall()
    assert found.photos.whole.tobytes() == b"".join(whole for (whole,) in stored)
    assert found.photos.codes.shape == (40, DIMENSION)


def test_a_vector_of_a_wrong_length_is_an_error_that_names_the_photo(index: Path) -> None:
    with closing(connect_writer(index)) as connection:
        connection.execute("UPDATE vectors SET whole = x'0000', crc = ? WHERE photo = 3", (crc_of(3, b"\0\0"),))
        connection.commit()
    shutil.rmtree(index / "cache")
    with pytest.raises(DeixisError, match="photo 3 have a wrong length.*--rebuild"):
        results(index)


Damage = Callable[[bytes], bytes | None]


def flip(*positions: int) -> Damage:
    """Flip the top bit of some bytes."""

    def damage(content: bytes) -> bytes:
        changed = bytearray(content)
        for position in positions:
            changed[position] ^= 128
        return bytes(changed)

    return damage


def swap(size: int) -> Damage:
    """Exchange the first two pieces of the file."""
    return lambda content: content[size : 2 * size] + content[:size] + content[2 * size :]


DAMAGES: dict[str, Damage] = {
    "first byte": flip(0),
    "last byte": flip(-1),
    "top bits of two words": flip(7, 15),
    "swapped words": swap(8),
    "swapped sectors": swap(64),
    "repeated sector": lambda content: content[:64] * 2 + content[128:],
    "zeros": lambda content: content[:64] + bytes(64) + content[128:],
    "short": lambda content: content[:-5],
    "empty": lambda content: b"",
    "missing": lambda content: None,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_detected_reported_and_repaired(index: Path, damage: Damage) -> None:
    expected = results(index)
    for name in ("ids", "whole", "counts", "codes", "basis"):
        (path,) = (index / "cache").glob(f"*-{name}.bin")
        sound = path.read_bytes()
        damaged = damage(sound)
        if damaged == sound:  # equal counts were exchanged
            continue
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        assert cached(index) is None, name
        (line,) = find_damage(index)
        assert str(index / "cache") in line
        assert results(index) == expected
        assert cached(index) is not None
    assert not list(find_damage(index))


def reseal(index: Path, **changes: object) -> None:
    """Change the manifest of the cache, with a valid checksum."""
    path = index / "cache" / "manifest.json"
    document = unseal(path.read_bytes())
    for name in ("ids", "whole", "codes"):
        (file,) = (index / "cache").glob(f"*-{name}.bin")
        document["files"][name] = FileChecks.of(file).to_json()
    path.write_bytes(seal({**document, **changes}))


def change(index: Path, name: str, kind: str, row: int) -> None:
    """Change a number in a file of the cache and its checksum."""
    (file,) = (index / "cache").glob(f"*-{name}.bin")
    numbers = np.fromfile(file, dtype=kind)
    numbers[row] += 5
    numbers.tofile(file)
    reseal(index)


@pytest.mark.parametrize(("name", "kind"), [("whole", "<f4"), ("codes", "i1")])
def test_a_cache_that_differs_from_the_database_is_reported(index: Path, name: str, kind: str) -> None:
    change(index, name, kind, 3)
    assert cached(index) is not None
    (line,) = find_damage(index)
    assert "differs from index.sqlite" in line


def test_a_cache_of_an_older_version_is_no_damage_and_is_replaced(index: Path) -> None:
    expected = results(index)
    reseal(index, version=4)
    assert not list(find_damage(index))
    assert results(index) == expected
    assert valid_cache(index).photos.ids.tolist() == list(range(1, 21))


def test_an_invalid_manifest_is_detected_and_the_cache_rebuilt(index: Path) -> None:
    expected = results(index)
    path = index / "cache" / "manifest.json"
    document = unseal(path.read_bytes())
    changes: list[dict[str, object]] = [
        {"width": 9999},
        {"dimension": "many"},
        {"rows": -1},
        {"rows": 0},
        {"regions": 7},
        {"files": {}},
    ]
    for content in (b"", b"{}", b"[]", b'{"version": 5}', *(seal({**document, **change}) for change in changes)):
        path.write_bytes(content)
        assert cached(index) is None
        assert results(index) == expected
        assert cached(index) is not None


def test_a_cache_that_would_hide_photos_of_the_database_is_rebuilt(index: Path, tmp_path: Path) -> None:
    change(index, "ids", "<i8", -1)
    photo(tmp_path / "photos" / "new.png", 99)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    assert valid_cache(index).photos.ids.tolist() == list(range(1, 22))


def test_removals_that_the_manifest_claims_to_have_read_do_not_come_back(index: Path, tmp_path: Path) -> None:
    (tmp_path / "photos" / "003.png").unlink()
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    reseal(index, removed=99)
    assert cached(index) is None
    assert all(number != 4 for found in results(index) for number, _ in found)


def test_the_cache_of_another_index_is_not_used(index: Path, tmp_path: Path) -> None:
    photo(tmp_path / "other" / "a.png", 70)
    update_index(tmp_path / "second", [tmp_path / "other"], ColourEncoder())
    for path in (tmp_path / "second" / "cache").iterdir():
        path.unlink()
    (tmp_path / "second" / "cache").rmdir()
    (index / "cache").rename(tmp_path / "second" / "cache")
    with ReadIndex(tmp_path / "second") as opened:
        assert len(opened) == 1


def test_new_photos_are_appended_to_the_same_files(index: Path, tmp_path: Path) -> None:
    before = valid_cache(index)
    photo(tmp_path / "photos" / "new.png", 99)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    after = valid_cache(index)
    assert before.manifest.generation == after.manifest.generation
    assert (before.manifest.rows, after.manifest.rows) == (20, 21)
    assert not list(find_damage(index))


def test_files_of_a_killed_process_are_ignored_and_removed(index: Path, tmp_path: Path) -> None:
    for path in (index / "cache").glob("*.bin"):
        if "basis" not in path.name:
            with path.open("ab") as file:
                file.write(b"half of a row that was never acknowledged")
    (index / "cache" / "0123-whole.bin").write_bytes(b"a generation that no manifest names")
    photo(tmp_path / "photos" / "new.png", 99)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    assert valid_cache(index).photos.ids.tolist() == list(range(1, 22))
    assert not (index / "cache" / "0123-whole.bin").exists()


def test_many_removed_photos_or_a_poor_basis_begin_a_new_generation(index: Path, tmp_path: Path) -> None:
    first = valid_cache(index)
    for number in range(6):
        (tmp_path / "photos" / f"{number:03}.png").unlink()
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    second = valid_cache(index)
    photos(tmp_path / "photos" / "more", 60)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    third = valid_cache(index)
    assert len({each.manifest.generation for each in (first, second, third)}) == 3
    assert [len(each.photos) for each in (first, second, third)] == [20, 14, third.manifest.rows]
    assert len(list((index / "cache").glob("*-whole.bin"))) == 1


def test_a_reader_of_an_old_generation_continues(index: Path, tmp_path: Path) -> None:
    query = np.ones(DIMENSION, dtype=np.float32)
    with ReadIndex(index) as opened:
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


def test_a_reader_writes_a_missing_cache_if_there_are_many_photos(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results(index)
    for path in (index / "cache").iterdir():
        path.unlink()
    assert results(index) == expected
    assert cached(index) is None
    monkeypatch.setattr(matrix, "_WORTH_CACHING", 20)
    assert results(index) == expected
    assert cached(index) is not None


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


def test_only_a_rebuilt_index_is_loaded_again(index: Path, tmp_path: Path) -> None:
    with closing(open_for_reading(index)) as connection:
        first = load_matrix(index, connection, None)
        assert load_matrix(index, connection, first) is first
        update_index(index, [tmp_path / "photos"], ColourEncoder(), rebuild=True)
        for path in (index / "cache").iterdir():
            path.unlink()
        second = load_matrix(index, connection, first)
    assert first.info.uid != second.info.uid
    assert int(second.is_present.sum()) == 20
    assert set(second.ids.tolist()).isdisjoint(first.ids.tolist())


def falling(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    """Vectors that differ more along some axes than along others, as those of real regions do."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, dimension)) / (1 + np.arange(dimension) / 8)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((dimension, dimension)))[0]
    return (vectors @ turn).astype(np.float32)


@pytest.mark.parametrize("dimension", [3, 64, 200])
def test_scores_of_codes_are_close_to_exact_scores(dimension: int) -> None:
    vectors, queries = falling(3000, dimension), falling(20, dimension, seed=2)
    basis = fit_basis(vectors[:1000])
    codes = basis.encode(vectors)
    assert codes.dtype == np.int8
    for query in queries:
        exact, coded = vectors @ query, basis.scores(codes, query)
        assert np.corrcoef(exact, coded)[0, 1] > 0.98


def test_codes_are_wider_for_vectors_with_many_directions() -> None:
    flat = np.random.default_rng(0).standard_normal((2000, 300)).astype(np.float32)
    assert fit_basis(falling(2000, 300)).axes.shape == (300, 64)
    assert fit_basis(flat).axes.shape == (300, 256)
    assert fit_basis(flat[:, :150]).axes.shape == (150, 128)


def test_vectors_beyond_the_sample_are_clipped() -> None:
    basis = fit_basis(np.eye(4, dtype=np.float32))
    (code,) = basis.encode(np.full((1, 4), 1e6, dtype=np.float32))
    assert set(np.abs(code.astype(int)).tolist()) == {127}


def test_an_empty_array_of_codes_has_no_scores() -> None:
    basis = Basis(np.eye(4, dtype=np.float32), np.ones(4, dtype=np.float32))
    assert basis.scores(np.zeros((0, 4), dtype=np.int8), np.ones(4, dtype=np.float32)).shape == (0,)


def test_a_sample_of_zeros_gives_a_finite_basis() -> None:
    basis = fit_basis(np.zeros((5, 8), dtype=np.float32))
    assert np.isfinite(basis.scores(basis.encode(np.ones((2, 8), dtype=np.float32)), np.ones(8, np.float32))).all()
