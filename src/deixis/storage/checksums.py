"""Checksums of everything that is saved: CRC-32 over bytes, of rows, of manifests and of the files that these list.

CRC-32 finds accidental damage: every change of up to 32 neighbouring bits, and all but one in four billion others. It
does not protect against forgery of the manifest. A large file is checked in blocks, each of them
when it is first read; the arrays of a safetensors file are mapped and checked so. Files saved by older versions have no
checksums and are read unchecked.

SQLite notices only damage to the structure of its files. Triggers keep a CRC-32 in each row of the tables that are
protected, and the number of rows and the sum of these in the table `totals`. So a changed row, a lost one and an
invented one are all noticed. The function that the triggers call has to be registered on every connection that writes.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from deixis.storage.files import hash_file, open_regular, read_regular

# SyntaxError and TokenError: numpy, for a damaged array header.
READ_ERRORS = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, SafetensorError, TokenError, lzma.LZMAError, zipfile.BadZipFile, zlib.error),
)
"""Errors that libraries raise on damaged files."""

BLOCK = 2**18
"""Bytes of a file that have one checksum."""

_PARALLEL_BLOCKS = 64
"""From this many blocks on, threads share the work."""

_DIGITS = 8
_CHECKSUM = "checksum"
_SEAL = re.compile(rb',\n *"checksum": "([0-9a-f]{8})"\n}\n\Z')
_SEALED = (2, 3, 4, 5)
"""Versions of manifests that must have a checksum."""

TOTALS = "totals"
_COLUMN = "row_crc"
_FUNCTION = "deixis_crc"
_CHECK = "deixis_checked"
_ROWS_AT_ONCE = 1000
_EVENTS = ("insert", "update", "delete")
_PASSIVE = re.compile("CREATE (TABLE|INDEX|UNIQUE INDEX) ")
"""How SQLite begins what it stores of tables and indexes, which do nothing by themselves."""

_DTYPES = {
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"I{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    "BOOL": "?",
}
"""From the names of safetensors to those of numpy."""


def crc32_of(*parts: Any) -> int:
    """Return the CRC-32 of bytes, or contiguous arrays, one after the other."""
    total = 0
    for part in parts:
        total = zlib.crc32(part, total)
    return total


def seal(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON that ends with the checksum of the rest."""
    body = json.dumps(document, ensure_ascii=False, indent=1).removesuffix("}").rstrip().encode()
    return body + f',\n "{_CHECKSUM}": "{_crc(body)}"\n}}\n'.encode()


def unseal(content: bytes) -> Any:
    """Return the document that `seal` wrote. Raises `ValueError` if it is not as it was written."""
    found = _SEAL.search(content)
    if found and found[1].decode() != _crc(content[: found.start()]):
        raise ValueError("its checksum does not match: damaged, or changed by hand")
    document: Any = json.loads(content.decode())
    if isinstance(document, dict):
        if not found and (_CHECKSUM in document or document.get("version") in _SEALED):
            raise ValueError("it has no checksum: damaged, or changed by hand")
        document.pop(_CHECKSUM, None)
    return document


def seal_line(document: Mapping[str, Any]) -> str:
    """Return a document as one line of JSON that ends with the checksum of the rest."""
    body = json.dumps(document, ensure_ascii=False).removesuffix("}")
    return f'{body}, "{_CHECKSUM}": "{_crc(body.encode())}"}}\n'


def unseal_line(line: str) -> dict[str, Any]:
    """Return the document that `seal_line` wrote. Raises `ValueError` if it is not as it was written."""
    document: dict[str, Any] = json.loads(line)
    if seal_line({name: value for name, value in document.items() if name != _CHECKSUM}) != line.rstrip("\n") + "\n":
        raise ValueError("the checksum of a line does not match: damaged, or changed by hand")
    del document[_CHECKSUM]
    return document


def _crc(content: Any) -> str:
    return f"{zlib.crc32(content):0{_DIGITS}x}"


def _block_crcs(file: IO[bytes]) -> tuple[str, int]:
    """Return the checksums of the blocks of the rest of a file, and its length."""
    sums, size = [], 0
    while block := file.read(BLOCK):
        sums.append(_crc(block))
        size += len(block)
    return "".join(sums), size


@dataclass(frozen=True)
class FileChecks:
    """Entry of a file in a manifest."""

    bytes: int
    sha256: str  # identifies the content; empty if nothing asks for it
    crc32: str  # eight hexadecimal digits for each block

    @classmethod
    def of(cls, path: Path) -> FileChecks:
        """Compute the checksums of a file."""
        with path.open("rb") as file:
            crc32, size = _block_crcs(file)
        return cls(size, hash_file(path), crc32)

    def after_append(self, path: Path) -> FileChecks:
        """Return the checksums of a file that has grown, reading only its last block and what was appended."""
        complete = self.bytes // BLOCK
        with path.open("rb") as file:
            file.seek(complete * BLOCK)
            crc32, size = _block_crcs(file)
        return FileChecks(complete * BLOCK + size, "", self.crc32[: complete * _DIGITS] + crc32)

    @classmethod
    def from_json(cls, entry: Any) -> FileChecks:
        checks = cls(**entry)
        blocks = -(-checks.bytes // BLOCK)
        if len(checks.crc32) != blocks * _DIGITS or not isinstance(checks.sha256, str):
            raise ValueError("the checksums of a file are not complete")
        return checks

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class CheckedFile:
    """A file whose blocks are checked when they are first read; without `checks`, all content is accepted.

    With `may_grow`, more bytes may follow those that have checksums. All methods raise `ValueError` if the file is not
    as it was written.
    """

    def __init__(self, path: Path, checks: FileChecks | None, may_grow: bool = False) -> None:
        self.path = path
        self.checks = checks
        self.may_grow = may_grow
        self._checked = np.zeros(len(checks.crc32) // _DIGITS if checks else 0, dtype=bool)

    @property
    def sha256(self) -> str:
        """Hash of the content, computed only if it is not known. The content is not checked."""
        return self.checks.sha256 if self.checks else hash_file(self.path)

    def read(self) -> bytes:
        """Return the whole content, read from the disk again."""
        content = read_regular(self.path)
        self._check_size(len(content))
        self._compare(memoryview(content), 0, len(self._checked))
        return content

    def check(self) -> None:
        """Check all of the file that was not checked before."""
        if self.checks:
            self._check_size(self.path.stat().st_size)
            self._check_blocks(0, self.checks.bytes)

    def array(self, dtype: Any, shape: tuple[int, ...], offset: int) -> NDArray[Any]:
        """Return a read-only array of the mapped file, after checking the blocks that it lies in."""
        array: NDArray[Any] = np.ndarray(shape, dtype, self._content, offset)
        if self.checks:
            self._check_blocks(offset, offset + array.nbytes)
        return array

    @cached_property
    def _content(self) -> NDArray[np.uint8]:
        with open_regular(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            self._check_size(size)
            return np.memmap(file, dtype=np.uint8, mode="r") if size else np.zeros(0, dtype=np.uint8)

    def _check_size(self, found: int) -> None:
        if self.checks and (found < self.checks.bytes if self.may_grow else found != self.checks.bytes):
            raise ValueError(f"{found:,} bytes instead of {self.checks.bytes:,}")

    def _check_blocks(self, begin: int, end: int) -> None:
        first, last = begin // BLOCK, -(-end // BLOCK)
        if first < last and not self._checked[first:last].all():
            self._compare(self._content.data, first, last)
            self._checked[first:last] = True

    def _compare(self, content: memoryview, first: int, last: int) -> None:
        if self.checks is None:
            return
        expected, end = self.checks.crc32, self.checks.bytes

        def is_damaged(number: int) -> bool:
            found = _crc(content[number * BLOCK : min((number + 1) * BLOCK, end)])
            return found != expected[number * _DIGITS : (number + 1) * _DIGITS]

        threads = os.cpu_count() or 1 if last - first >= _PARALLEL_BLOCKS else 1
        with ThreadPoolExecutor(threads, "checksums") as pool:
            damaged = (pool.map if threads > 1 else map)(is_damaged, range(first, last))
            for number, found in enumerate(damaged, first):
                if found:
                    raise ValueError(f"its checksum does not match after byte {number * BLOCK:,}")


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in a weights file."""

    dtype: str  # as safetensors calls it
    shape: tuple[int, ...]
    offset: int
    length: int


class TensorFile:
    """A safetensors file: the place of every tensor, and the strings in the header, which alone is read on opening."""

    def __init__(self, file: CheckedFile) -> None:
        with safe_open(file.path, framework="numpy"):  # checks the header against the size of the file
            pass
        begin = 8 + int.from_bytes(file.array(np.uint8, (8,), 0).tobytes(), "little")
        header = json.loads(file.array(np.uint8, (begin - 8,), 8).tobytes())
        self.file = file
        self.metadata: dict[str, str] = header.pop("__metadata__", {})
        self.layout: dict[str, StoredTensor] = {}
        for name, about in header.items():
            first, last = about["data_offsets"]
            self.layout[name] = StoredTensor(about["dtype"], tuple(about["shape"]), begin + first, last - first)

    def array(self, name: str) -> NDArray[Any]:
        """Return a read-only, mapped array."""
        return self.rows(name, 0, None)

    def rows(self, name: str, begin: int, end: int | None) -> NDArray[Any]:
        """Return some rows of an array, read-only and mapped; `end` is None for all."""
        tensor = self.layout[name]
        if tensor.dtype not in _DTYPES:
            raise ValueError(f"the type {tensor.dtype} is not known")
        dtype = np.dtype(_DTYPES[tensor.dtype])
        if end is None:
            return self.file.array(dtype, tensor.shape, tensor.offset)
        count, *rest = tensor.shape
        if not 0 <= begin <= end <= count:
            raise ValueError(f"rows {begin} to {end} of {count}")
        row_bytes = dtype.itemsize * int(np.prod(rest))
        return self.file.array(dtype, (end - begin, *rest), tensor.offset + begin * row_bytes)


def register_checks(connection: sqlite3.Connection) -> None:
    """Register the functions that triggers and views call."""
    connection.create_function(_FUNCTION, -1, _row_crc, deterministic=True)
    connection.create_function(_CHECK, -1, _check, deterministic=True)


def _row_crc(*values: object) -> int:
    return crc32_of(repr(values).encode("utf-8", "surrogatepass"))


def _check(stored: object, *values: object) -> int:
    if _row_crc(*values) != stored:
        raise ValueError("a row does not match its checksum")
    return 1


def protect_tables(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Add checksums to tables and rows, in a transaction of the caller; to be called again after adding columns."""
    register_checks(connection)
    connection.execute(f"DROP TABLE IF EXISTS {TOTALS}")
    connection.execute(f"CREATE TABLE {TOTALS} (name TEXT PRIMARY KEY, number INTEGER, crc INTEGER, columns TEXT)")
    for table in tables:
        there = [name for _, name, *_ in connection.execute(f"PRAGMA main.table_info({table})")]
        columns = [f'"{name}"' for name in there if name != _COLUMN]
        if _COLUMN not in there:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {_COLUMN} INTEGER")
        for event in _EVENTS:
            connection.execute(f"DROP TRIGGER IF EXISTS {table}_{event}_checksum")
        connection.execute(f"UPDATE {table} SET {_COLUMN} = {_FUNCTION}({', '.join(columns)})")  # noqa: S608
        total = f"INSERT INTO {TOTALS} SELECT ?, count(*), coalesce(sum({_COLUMN}), 0), ? FROM {table}"  # noqa: S608
        connection.execute(total, (table, ", ".join(columns)))
        for statement in _triggers(table, columns, _key(connection, table)):
            connection.execute(statement)


def is_protected(connection: sqlite3.Connection) -> bool:
    """Return whether the tables of a database have checksums; an older version may have written it."""
    found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (TOTALS,)).fetchone()
    return bool(found[0])


def refuse_foreign_code(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Raise `sqlite3.DatabaseError` if a file has triggers other than those of `protect_tables`, or any view.

    Those of a stranger's file would run when it is written or read, and its virtual tables when it is opened.
    """
    made = connection.execute("SELECT name, sql FROM main.sqlite_master WHERE sql IS NOT NULL").fetchall()
    others = {sql: name for name, sql in made if not _PASSIVE.match(str(sql))}
    if others and TOTALS not in others.values() and is_protected(connection):
        names = {name for name, _ in made}.intersection(tables)
        for (table,) in connection.execute(f"SELECT name FROM {TOTALS}").fetchall():  # noqa: S608
            if table in names:
                for trigger in _triggers(table, _columns(connection, table).split(", "), _key(connection, table)):
                    others.pop(trigger, None)
    if others:
        raise sqlite3.DatabaseError(f"deixis did not make {str(min(others.values(), key=str))[:40]!r}")


def check_tables(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Read all rows of some tables, and raise `sqlite3.DatabaseError` if they are not those that were written."""
    for table in tables:
        for problem in find_damaged_rows(connection, table):
            raise sqlite3.DatabaseError(problem)


def find_damaged_rows(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield one line for each row of a table that is damaged, if rows are missing, and if its indexes lack some."""
    kind = connection.execute("SELECT type FROM main.sqlite_master WHERE name = ?", (table,)).fetchone()
    if kind != ("table",):  # a view of a stranger's file may have rows without end
        yield f"{table} is not a table"
        return
    rows = connection.execute(f"SELECT {_COLUMN}, {_columns(connection, table)} FROM main.{table} NOT INDEXED")  # noqa: S608
    count = total = 0
    while some := rows.fetchmany(_ROWS_AT_ONCE):
        for row in some:
            if _row_crc(*row[1:]) != row[0]:
                yield f"a row of the table {table} does not match its checksum: {str(row[1])[:40]!r}"
        count += len(some)
        total += sum(row[0] for row in some if isinstance(row[0], int))
    stored = connection.execute(f"SELECT number, crc FROM {TOTALS} WHERE name = ?", (table,)).fetchone()  # noqa: S608
    if stored != (count, total):
        yield f"rows of the table {table} are missing, or have been added"
    for (line,) in connection.execute(f"PRAGMA main.integrity_check({table})"):
        if line != "ok":
            yield " ".join(line.split())


def checked_views(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Let statements of a connection that only reads see each row of the tables only after a check of its checksum."""
    register_checks(connection)
    for table in tables:
        columns = _columns(connection, table)
        connection.execute(
            f"CREATE TEMP VIEW {table} AS SELECT {columns} FROM main.{table} "  # noqa: S608
            f"WHERE {_CHECK}({_COLUMN}, {columns})"
        )


def _columns(connection: sqlite3.Connection, table: str) -> str:
    found = connection.execute(f"SELECT columns FROM {TOTALS} WHERE name = ?", (table,)).fetchone()  # noqa: S608
    if found is None:
        raise sqlite3.DatabaseError(f"the checksums of the table {table} are missing")
    names = [name for _, name, *_ in connection.execute(f"PRAGMA main.table_info({table})")]
    if '"' in "".join(names) or not {f'"{name}"' for name in names}.issuperset(str(found[0]).split(", ")):
        raise sqlite3.DatabaseError(f"the checksums of the table {table} name other columns")  # or are code
    return str(found[0])


def _key(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that identify a row: those of the primary key in a table without row numbers."""
    (created,) = connection.execute("SELECT sql FROM main.sqlite_master WHERE name = ?", (table,)).fetchone()
    if "WITHOUT ROWID" not in created.upper():
        return ["rowid"]
    return [f'"{name}"' for _, name, *_, number in connection.execute(f"PRAGMA main.table_info({table})") if number]


def _triggers(table: str, columns: list[str], key: list[str]) -> Iterator[str]:
    this = " AND ".join(f"{name} = NEW.{name}" for name in key)
    compute = f"UPDATE {table} SET {_COLUMN} = {_FUNCTION}({', '.join(columns)}) WHERE {this};"  # noqa: S608
    new = f"(SELECT {_COLUMN} FROM {table} WHERE {this})"  # noqa: S608
    total = f"UPDATE {TOTALS} SET number = number {{}}, crc = crc {{}} WHERE name = '{table}';"  # noqa: S608
    events = {
        "INSERT": compute + total.format("+ 1", f"+ {new}"),
        f"UPDATE OF {', '.join(columns)}": compute + total.format("", f"- OLD.{_COLUMN} + {new}"),
        "DELETE": total.format("- 1", f"- OLD.{_COLUMN}"),
    }
    for event, statements in events.items():
        name = f"{table}_{event.partition(' ')[0].lower()}_checksum"
        yield f"CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN {statements} END"
