"""A project: a directory with a database, settings, and the photos that are annotated."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from deixis.annotate.material import Material
from deixis.annotate.settings import Settings, read_settings, write_settings
from deixis.annotate.store.engine import Database
from deixis.annotate.store.folds import Folds
from deixis.annotate.store.schema import photos
from deixis.annotate.waiting import summary, update_questions
from deixis.errors import DeixisError
from deixis.files.atomic import new_directory

ABOUT = "project.json"
SETTINGS = "settings.json"
SQLITE = "annotations.sqlite"
_AT_ONCE = 200


@dataclass
class Project:
    """A project that is open. May be used by several threads, and by several processes at once.

    Attributes
    ----------
    folder
        Its directory.
    database, settings, folds
        Where it is kept, what its owner decided, and the states of its photos.
    images
        The folder of its photos, where there is one.
    clock, chance
        For tests: the time in seconds, and the dice.
    following
        Whether settings were edited that not all photos follow yet.
    """

    folder: Path
    database: Database
    settings: Settings
    images: Path | None = None
    clock: Callable[[], float] = time.time
    chance: random.Random = field(default_factory=random.SystemRandom)
    following: bool = False
    folds: Folds = field(init=False)

    def __post_init__(self) -> None:
        """Begin without any state."""
        self.folds = Folds(self.settings)

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def make_project(
    folder: Path, *, url: str | None = None, images: Path | None = None, settings: Settings | None = None
) -> Project:
    """Make a project without photos.

    Parameters
    ----------
    folder
        The directory to make.
    url
        Of a PostgreSQL database; a SQLite file in the directory otherwise.
    images
        The folder of the photos.
    settings
        What the owner decides; ``settings.json`` can be edited later.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     project = make_project(Path(parent) / "dogs")
    ...     project.close()
    ...     (project.folder / "settings.json").is_file()
    True
    """
    settings = settings or Settings()
    about = {"format": "deixis-annotate", "database": url, "images": str(images.absolute()) if images else None}
    with new_directory(folder) as unfinished:
        database = Database(url or _sqlite(unfinished))
        try:
            database.make()
        finally:
            database.close()
        (unfinished / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        write_settings(settings, unfinished / SETTINGS)
    return open_project(folder)


def open_project(folder: Path) -> Project:
    """Open a project."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "make one with: deixis annotate init PROJECT --data DATA"
        raise DeixisError(f"{folder}: not an annotation project; {hint}") from None
    except OSError as error:
        raise DeixisError(f"{folder / ABOUT}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise DeixisError(f"{folder / ABOUT}: damaged ({error})") from None
    if not isinstance(about, dict) or about.get("format") != "deixis-annotate":
        raise DeixisError(f"{folder / ABOUT}: does not say that it is an annotation project")
    database = Database(about.get("database") or _sqlite(folder))
    database.check()
    images = about.get("images")
    return Project(folder, database, read_settings(folder / SETTINGS), Path(images) if images else None)


def _sqlite(folder: Path) -> str:
    return f"sqlite:///{folder.absolute() / SQLITE}"


def add_photos(project: Project, materials: Iterable[Material], *, known: bool = False) -> tuple[int, int]:
    """Add photos, while others may be working; those that are there already stay as they are.

    Parameters
    ----------
    project
        Where to.
    materials
        The photos.
    known
        They are only there for questions with known answers, and are not annotated.

    Returns
    -------
    tuple of int
        How many were added, and how many were there.
    """
    added = there = 0
    block: list[Material] = []

    def flush() -> None:
        nonlocal added, there
        if block:
            with project.database.writing() as connection:
                new = _add(project, connection, block, known)
            added, there = added + new, there + len(block) - new
            block.clear()

    for material in materials:
        block.append(material)
        if len(block) == _AT_ONCE:
            flush()
    flush()
    return added, there


def _add(project: Project, connection: Connection, materials: Sequence[Material], known: bool) -> int:
    ids = [material.photo for material in materials]
    there = set(connection.scalars(select(photos.c.id).where(photos.c.id.in_(ids))))
    place = connection.scalar(select(func.coalesce(func.max(photos.c.place), 0))) or 0
    count = 0
    for material in materials:
        if material.photo in there:
            continue
        there.add(material.photo)
        count += 1
        connection.execute(insert(photos), _row(material, place + count, known))
        if not known:
            folded = project.folds.fold(material, ())
            update_questions(connection, material.photo, place + count, folded.state)
            connection.execute(update(photos).where(photos.c.id == material.photo).values(**summary(folded.state)))
    return count


def _row(material: Material, place: int, known: bool) -> dict[str, Any]:
    row = {"id": material.photo, "place": place, "known": known, "material": material.as_json()}
    return row | {"last_event": 0, "chains": 0, "waiting": 0, "finished": known}
