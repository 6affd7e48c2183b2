"""Parquet files that deixis has written."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from deixis.data.readers import read_captions
from deixis.data.records import Photo
from deixis.data.writers.parquet import write
from deixis.errors import DatasetError
from tests.annotate.fakes import gold
from tests.data.strategies import photo_lists


@pytest.fixture
def dogs() -> list[Photo]:
    """Photos of two splits, one of which is in both."""
    splits = (("train",), ("train", "dev"), ("dev",))
    return [replace(gold(str(number)), splits=names) for number, names in enumerate(splits)]


@settings(deadline=None)
@given(photo_lists.filter(bool))
def test_any_photo_round_trips(photos: list[Photo]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(photos, Path(folder))
        source = read_captions(Path(folder))
        assert sorted(source.photos, key=lambda photo: photo.id) == sorted(photos, key=lambda photo: photo.id)


def test_one_split_can_be_read_alone(dogs: list[Photo], tmp_path: Path) -> None:
    write(dogs, tmp_path)
    source = read_captions(tmp_path / "data" / "dev-00000-of-00001.parquet")
    expected = [photo.id for photo in dogs if "dev" in photo.splits]
    assert (source.kind, source.total) == ("parquet", len(expected))
    assert [photo.id for photo in source.photos] == expected


def test_other_parquet_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["1"], "text": ["A dog."]}), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match=r"a\.parquet.*'boxes'"):
        read_captions(tmp_path / "a.parquet")


def test_a_damaged_file_is_an_error_that_names_it(dogs: list[Photo], tmp_path: Path) -> None:
    write(dogs, tmp_path)
    path = tmp_path / "data" / "train-00000-of-00001.parquet"
    whole, rng = path.read_bytes(), random.Random(0)
    for _ in range(200):
        damaged = bytearray(whole[: rng.choice((len(whole), rng.randrange(4, len(whole))))])
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(4, len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            list(read_captions(path).photos)
        except DatasetError as error:
            assert path.name in str(error)
