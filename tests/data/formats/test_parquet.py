"""Parquet files that deixis writes and does not read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deixis.data.formats import parquet, read_captions
from deixis.data.formats.parquet import write
from deixis.data.records import Photo
from deixis.errors import DatasetError


def test_the_columns_and_rows_of_the_example_are_those_in_the_folder_written(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    expected = Path(__file__).with_name("written") / "parquet"
    columns, rows = {}, {}
    for path in (folder / "data").iterdir():
        table = pq.read_table(path)
        columns, rows[path.stem] = json.loads(table.schema.metadata[b"huggingface"]), table.to_pylist()
        assert list(columns["info"]["features"]) == table.schema.names
    assert {"columns": columns, "rows": rows} == json.loads((expected / "data.json").read_text(encoding="utf-8"))
    assert (folder / "README.md").read_bytes() == (expected / "README.md").read_bytes()


def test_photo_bytes_are_stored_in_the_file(dogs: list[Photo], images: Path, folder: Path) -> None:
    write(dogs, folder, images=images)
    path = folder / "data" / "train-00000-of-00001.parquet"
    table = pq.read_table(path)
    assert table.schema.field("image").type == pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    assert json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["image"] == {"_type": "Image"}
    assert table["image"].to_pylist() == [{"bytes": b"the bytes of 101", "path": "zoo/101.jpg"}]
    without = pq.read_table(folder / "data" / "rest-00000-of-00001.parquet")
    assert without["image"].to_pylist() == [None, None]


def test_rows_are_written_in_groups(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 2)
    write((Photo(str(number), splits=("dev-1k",)) for number in range(9)), folder)
    [path] = (folder / "data").iterdir()
    assert path.name == "dev_1k-00000-of-00001.parquet"
    assert "".join(pq.read_table(path)["id"].to_pylist()) == "012345678"
    assert pq.ParquetFile(path).num_row_groups == 5


def test_two_splits_with_the_same_name_in_parquet_are_refused(folder: Path) -> None:
    with pytest.raises(DatasetError, match="'a-b' and 'a b'"):
        write([Photo("1", splits=("a-b", "a b"))], folder)


def test_a_parquet_file_is_refused_by_its_name_and_format(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    file = folder / "data" / "train-00000-of-00001.parquet"
    with pytest.raises(DatasetError, match=f"^{re.escape(str(file))}: Parquet files are not read"):
        read_captions(file)
