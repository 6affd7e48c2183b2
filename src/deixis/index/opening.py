"""An index opened by the one who fills it: begun, taken up again, or begun anew."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from deixis.index.database import (
    CONTENTS,
    DATABASE,
    DamagedIndexError,
    make_database,
    open_to_write,
    plainly,
    read_about,
    refuse_other_model,
    remove_database,
    write_about,
)
from deixis.index.seeing import PhotoSeer


def open_to_fill(folder: Path, seer: PhotoSeer, rebuild: bool = False) -> sqlite3.Connection:
    """The database of an index, ready for what a model sees; made if it is not there.

    An index of another model is refused, and so is a damaged one, unless it is to be rebuilt: then it is emptied, or,
    if even that cannot be done, replaced.
    """
    if not (folder / DATABASE).exists():
        make_database(folder, seer.fingerprint, seer.dimension, seer.region_dimension)
    try:
        return _ready(folder, seer, rebuild)
    except DamagedIndexError:
        if not rebuild:
            raise
    remove_database(folder)
    make_database(folder, seer.fingerprint, seer.dimension, seer.region_dimension)
    return _ready(folder, seer, rebuild=False)


def _ready(folder: Path, seer: PhotoSeer, rebuild: bool) -> sqlite3.Connection:
    connection = open_to_write(folder)
    try:
        with plainly(folder / DATABASE):
            if rebuild:
                _empty(connection, seer)
            refuse_other_model(read_about(connection, folder / DATABASE), seer.fingerprint, folder)
    except BaseException:
        connection.close()
        raise
    return connection


def _empty(connection: sqlite3.Connection, seer: PhotoSeer) -> None:
    """Begin anew in one step: a kill leaves either all that was seen before, or an index that waits to be filled."""
    connection.execute("BEGIN IMMEDIATE")
    for table in CONTENTS:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    write_about(connection, seer.fingerprint, seer.dimension, seer.region_dimension)
    connection.execute("COMMIT")
