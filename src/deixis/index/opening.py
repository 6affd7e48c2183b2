"""An index opened by the one who fills it: begun, taken up again, or begun anew."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from deixis.index.about import DamagedIndexError, Model, refuse_other_model
from deixis.index.database import (
    CONTENTS,
    DATABASE,
    make_database,
    open_to_write,
    plainly,
    read_about,
    remove_database,
    write_about,
)
from deixis.index.sqlite_connection import SqliteConnection


def open_to_fill(folder: Path, model: Model, rebuild: bool = False) -> SqliteConnection:
    """The database of an index, ready for what a model sees; made if it is not there.

    An index of another model is refused, and so is a damaged one, unless it is to be rebuilt: then it is emptied, or,
    if even that cannot be done, replaced.
    """
    if not (folder / DATABASE).exists():
        make_database(folder, model.fingerprint, model.dimension, model.region_dimension)
    try:
        return _ready(folder, model, rebuild)
    except DamagedIndexError:
        if not rebuild:
            raise
    remove_database(folder)
    make_database(folder, model.fingerprint, model.dimension, model.region_dimension)
    return _ready(folder, model, rebuild=False)


def _ready(folder: Path, model: Model, rebuild: bool) -> SqliteConnection:
    connection = open_to_write(folder)
    try:
        with plainly(folder / DATABASE):
            if rebuild:
                _empty(connection, model)
            refuse_other_model(read_about(connection, folder / DATABASE), model.fingerprint, folder)
    except BaseException:
        connection.close()
        raise
    return connection


def _empty(connection: sqlite3.Connection, model: Model) -> None:
    """Begin anew in one step: a kill leaves either all that was seen before, or an index that waits to be filled."""
    connection.execute("BEGIN IMMEDIATE")
    for table in CONTENTS:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    write_about(connection, model.fingerprint, model.dimension, model.region_dimension)
    connection.execute("COMMIT")
