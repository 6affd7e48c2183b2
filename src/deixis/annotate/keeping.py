"""Backups: a whole project, as it was at one moment, in a directory that opens like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sqlalchemy import delete, insert, select

from deixis.annotate.project import ABOUT, SETTINGS, SQLITE, Project
from deixis.annotate.store import schema
from deixis.annotate.store.engine import Database
from deixis.files.atomic import new_directory

_AT_ONCE = 1000


def backup(project: Project, out: Path) -> int:
    """Copy a project while people work in it; the number of events in the copy.

    The copy is SQLite, whatever the project is kept in, so it needs nothing to be opened.

    Parameters
    ----------
    project
        What to copy.
    out
        The directory to make; it appears only when it is whole.
    """
    with new_directory(out, inputs=[project.folder]) as folder:
        copy = Database(f"sqlite:///{folder.absolute() / SQLITE}")
        copy.make()
        count = 0
        with project.database.reading() as source, copy.writing() as target:
            target.execute(delete(schema.about))
            for table in schema.metadata.sorted_tables:
                rows = source.execution_options(yield_per=_AT_ONCE).execute(select(table)).mappings()
                for block in rows.partitions(_AT_ONCE):
                    target.execute(insert(table), [dict(row) for row in block])
                    count += len(block) if table is schema.events else 0
        copy.close()
        about = json.loads((project.folder / ABOUT).read_text(encoding="utf-8"))
        (folder / ABOUT).write_text(json.dumps(about | {"database": None}, indent=2) + "\n", encoding="utf-8")
        shutil.copyfile(project.folder / SETTINGS, folder / SETTINGS)
    return count
