"""A project: a directory with a database, settings and the path of its photos.

The questions of an open project are kept consistent with edited settings and suspensions.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, delete, func, insert, select, update

from deixis.annotate.events import Discounted, Judged, Skipped
from deixis.annotate.judgements import PhotoSnapshot, PhotoTransaction, SnapshotCache, find_event, photo_columns
from deixis.annotate.material import Material, prepare_photo
from deixis.annotate.queue import update_questions
from deixis.annotate.settings import Settings, read_settings, write_settings
from deixis.annotate.store import (
    FORMAT,
    Database,
    events,
    metadata,
    photos,
    properties,
    read_property,
    requeue,
    write_property,
)
from deixis.annotate.webhooks import Webhook, read_webhooks
from deixis.annotate.workflow import CHAIN_TASKS, Rules, Task
from deixis.data.images import photo_size
from deixis.errors import DeixisError
from deixis.storage.atomic import make_private, new_directory, new_file
from deixis.storage.files import hash_file, read_regular
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.storage.remote import allow_address, is_allowed
from deixis.storage.sql import CHECK_DISK

if TYPE_CHECKING:
    from deixis.annotate.help.proposals import ProposalCounts
    from deixis.data.dataset import Dataset
    from deixis.data.records import Photo

PROJECT_FILE = "project.json"
SETTINGS_FILE = "settings.json"
SQLITE_FILE = "annotations.sqlite"
_PHOTOS_PER_TRANSACTION = 200
_PHOTOS_PER_EDIT = 10  # people work meanwhile
_ROWS_PER_BATCH = 1000
_RULES = "rules"
PAIRS_PROPERTY = "pairs"
"""Is set if the project has phrase–region pairs to judge."""


@dataclass
class Project:
    """An open project. Several threads and several processes can use it at the same time."""

    folder: Path
    database: Database
    settings: Settings
    images: Path | None = None  # the folder of its photos
    more_images: tuple[Path, ...] = ()  # folders of other data sets, such as that of the known answers
    clock: Callable[[], float] = time.time
    random: random.Random = field(default_factory=random.SystemRandom)
    snapshots: SnapshotCache = field(init=False)
    guideline_versions: dict[Task, int] = field(default_factory=dict, init=False)
    webhooks: tuple[Webhook, ...] = field(default=(), init=False)  # `read_webhooks`
    settings_problems: list[str] = field(default_factory=list, init=False)  # why the edited settings are not used

    def __post_init__(self) -> None:
        self.snapshots = SnapshotCache(self.settings)

    def close(self) -> None:
        self.database.close()

    def read_photo(self, photo: str) -> PhotoSnapshot:
        """Read a photo with its events and its state."""
        with self.database.reading() as connection:
            return self.snapshots.read(connection, photo)

    def image_folder(self, number: int) -> Path | None:
        """Return a photo folder by the number in `Material.folder`; another process may have added it."""
        folders = (self.images, *self.more_images)
        if number >= len(folders) and (self.folder / PROJECT_FILE).is_file():
            self.images, self.more_images = _read_image_folders(_read_about(self.folder))
            folders = (self.images, *self.more_images)
        return folders[number] if number < len(folders) else None


@dataclass(frozen=True)
class Source:
    """The photos of a data set, or of one of its splits, that are added to a project."""

    data: Dataset
    split: str | None = None
    find_mentions: bool = False  # in all captions, even if the data set has mentions
    pre_annotated: bool = False  # propose its chains and boxes; workers verify and judge them

    def __post_init__(self) -> None:
        if self.pre_annotated and self.find_mentions:
            raise DeixisError("--pre-annotated: needs the mentions of the data set; leave out --find-mentions")

    @property
    def photos(self) -> Sequence[Photo]:
        return self.data.split(self.split) if self.split else self.data.photos


@dataclass
class Additions:
    """Numbers of things that were added to a project, and why photos were skipped."""

    photos: int = 0
    existing: int = 0  # photos that the project had already
    known_questions: int = 0
    pairs: int = 0
    pre_annotated: int = 0  # photos with chains and boxes of the data set
    proposals: ProposalCounts | None = None
    skipped: list[DeixisError] = field(default_factory=list)


def create(
    folder: Path,
    source: Source,
    *,
    known: Source | None = None,
    url: str | None = None,
    settings: Settings | None = None,
    on_progress: OnProgress = no_progress,
) -> tuple[Project, Additions]:
    """Create a project from captioned photos.

    Parameters
    ----------
    folder : Path
        Directory to create.
    source : Source
        The photos to annotate; those that are also in `known` are left out.
    known : Source, optional
        Annotated photos, for qualification tests and hidden checks.
    url : str, optional
        Address of a PostgreSQL database; by default, an SQLite file in the directory.
    settings : Settings, optional
        The settings; if they ask for proposals, these are made.
    on_progress : callable, optional
        Called with the progress.

    Examples
    --------
    >>> from deixis.data.dataset import Dataset  # doctest: +SKIP
    >>> project, added = create(Path("dogs"), Source(Dataset("photos.data")))  # doctest: +SKIP
    >>> added.photos  # doctest: +SKIP
    118
    """
    from deixis.annotate.known_answers import add_known_photos

    project, added = make_project(folder, url=url, images=source.data.images, settings=settings), Additions()
    if known is not None:
        number = add_image_folder(project, known.data.images)
        usable = readable_photos(known.photos, known.data.images, "known answers", added.skipped, on_progress)
        added.known_questions = add_known_photos(project, usable, folder=number)
    return project, _add_source(project, source, added, on_progress)


def add_dataset(project: Project, source: Source, *, on_progress: OnProgress = no_progress) -> Additions:
    """Add the photos of a data set to a project, with proposals if its settings ask for them."""
    return _add_source(project, source, Additions(), on_progress)


def _add_source(project: Project, source: Source, added: Additions, on_progress: OnProgress) -> Additions:
    from deixis.annotate.help.proposals import propose_annotations, propose_by_settings, wants_proposals

    number = add_image_folder(project, source.data.images)
    usable = readable_photos(source.photos, source.data.images, "captions", added.skipped, on_progress)
    added.photos, added.existing = add_photos(project, _prepare_photos(usable, source, number, added.skipped))
    if source.pre_annotated:
        fingerprint = hash_file(source.data.path / "manifest.json")[:12]
        added.pre_annotated = propose_annotations(project, source.photos, fingerprint)
    if wants_proposals(project.settings):
        added.proposals = propose_by_settings(project, on_progress)
    return added


def readable_photos(
    photos: Sequence[Photo], images: Path | None, title: str, skipped: list[DeixisError], on_progress: OnProgress
) -> Iterator[Photo]:
    """Yield the photos whose files open, and collect why others are skipped. Without a photo folder, yield all."""
    for photo in track(photos, title, len(photos), on_progress):
        try:
            if images is not None and photo.file is None:
                raise DeixisError(f"photo {photo.id}: no file in {images}")
            if images is not None and photo.file is not None:
                photo_size(images / photo.file)
        except DeixisError as error:
            skipped.append(error)
        else:
            yield photo


def _prepare_photos(
    photos: Iterable[Photo], source: Source, folder: int, skipped: list[DeixisError]
) -> Iterator[Material]:
    for photo in photos:
        try:
            if not photo.sentences:
                raise DeixisError(f"photo {photo.id}: no caption")
            yield prepare_photo(photo, keep_mentions=not source.find_mentions, folder=folder)
        except DeixisError as error:
            skipped.append(error)


def make_project(
    folder: Path, *, url: str | None = None, images: Path | None = None, settings: Settings | None = None
) -> Project:
    """Create a project without photos; without `url` (PostgreSQL), its database is an SQLite file in the directory."""
    about = {"format": FORMAT, "database": url, "images": str(images.absolute()) if images else None}
    with new_directory(folder, replace=None, private=True) as unfinished:
        database = Database(url or _sqlite_url(unfinished))
        try:
            database.create_tables()
        finally:
            database.close()
        if url and database.place:
            allow_address(database.place)
        (unfinished / PROJECT_FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        write_settings(settings or Settings(), unfinished / SETTINGS_FILE)
    project = open_project(folder)
    _write_rules(project)  # so that settings that are edited before the first start are noticed
    return project


def _write_rules(project: Project) -> None:
    with project.database.writing() as connection:
        write_property(connection, _RULES, _describe_rules(project))


def _describe_rules(project: Project) -> str:
    rules = {rule.name: getattr(project.settings, rule.name) for rule in fields(Rules)}
    return json.dumps(rules, default=asdict)


def open_project(folder: Path, *, checked: bool = False) -> Project:
    """Open a project, with `checked` after reading all its rows; `open_for_work` also applies edited settings."""
    about = _read_about(folder)
    for name in (SQLITE_FILE, f"{SQLITE_FILE}-wal", f"{SQLITE_FILE}-shm", PROJECT_FILE):
        if (folder / name).exists():
            make_private(folder / name)  # older versions let everybody read password hashes
    database = Database(about.get("database") or _sqlite_url(folder))
    if about.get("database"):
        _check_place(folder, database.place)
    database.check_commits()
    database.check_version()
    if checked:
        database.check_rows()
    project = Project(folder, database, read_settings(folder / SETTINGS_FILE), *_read_image_folders(about))
    read_webhooks(project)
    return project


def _check_place(folder: Path, place: str) -> None:
    """Refuse a database elsewhere that the user has not named: a stranger's project would get their password."""
    if not place or is_allowed(place):
        return
    if place != os.environ.get("PGHOST"):
        raise DeixisError(
            f"{folder / PROJECT_FILE}: names a database at {place}, which was not named here before; if you trust the "
            f"project, run this command once with PGHOST={place}"
        )
    allow_address(place)


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / PROJECT_FILE
    try:
        about = json.loads(read_regular(path))
    except FileNotFoundError:
        hint = "create one with: deixis annotate init PROJECT --data DATA"
        raise DeixisError(f"{folder}: not an annotation project; {hint}") from None
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise DeixisError(f"{path}: damaged ({error})") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise DeixisError(f"{path}: does not describe an annotation project")
    paths, more = [about.get("database"), about.get("images")], about.get("more_images", [])
    if not isinstance(more, list) or not all(isinstance(each, str) for each in [*filter(None, paths), *more]):
        raise DeixisError(f"{path}: damaged (a path is not text)")
    return about


def _read_image_folders(about: dict[str, Any]) -> tuple[Path | None, tuple[Path, ...]]:
    images = about.get("images")
    return Path(images) if images else None, tuple(Path(each) for each in about.get("more_images", ()))


def add_image_folder(project: Project, images: Path | None) -> int:
    """Add the photo folder of a data set, unless the project has it, and return its number."""
    if images is None:
        return 0
    about = _read_about(project.folder)
    first, more = _read_image_folders(about)
    folders = (first, *more)
    for number, known in enumerate(folders):
        if known is not None and known.resolve() == images.resolve():
            return number
    if first is None:
        about["images"], number = str(images.absolute()), 0
    else:
        about["more_images"], number = [*map(str, more), str(images.absolute())], len(folders)
    with new_file(project.folder / PROJECT_FILE, private=True) as unfinished:
        unfinished.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    project.images, project.more_images = _read_image_folders(about)
    return number


def _sqlite_url(folder: Path) -> URL:
    return URL.create("sqlite", database=str(folder.absolute() / SQLITE_FILE))  # as text, ? and %2F mean something


def add_photos(project: Project, materials: Iterable[Material], *, known: bool = False) -> tuple[int, int]:
    """Add photos, if `known` only as a source of known questions; return how many were added and how many existed."""
    added = existing = 0
    remaining = iter(materials)
    while block := list(islice(remaining, _PHOTOS_PER_TRANSACTION)):
        with project.database.writing() as connection:
            new = _insert_photos(project, connection, block, known)
        added, existing = added + new, existing + len(block) - new
    return added, existing


def _insert_photos(project: Project, connection: Connection, materials: Sequence[Material], known: bool) -> int:
    ids = [material.photo for material in materials]
    existing = set(connection.scalars(select(photos.c.id).where(photos.c.id.in_(ids))))
    last = connection.scalar(select(func.coalesce(func.max(photos.c.place), 0))) or 0
    count = 0
    for material in materials:
        if material.photo in existing:
            continue
        existing.add(material.photo)
        count += 1
        row = {"id": material.photo, "place": last + count, "known": known, "material": material.as_json()}
        row |= {"last_event": 0, "chains": 0, "waiting": 0, "finished": known}
        connection.execute(insert(photos), row)
        if not known:
            state = project.snapshots.build(material, ()).state
            update_questions(connection, material.photo, last + count, state)
            connection.execute(update(photos).where(photos.c.id == material.photo).values(**photo_columns(state)))
    return count


def list_photo_states(project: Project, offset: int = 0, limit: int = 50) -> tuple[int, Sequence[Any]]:
    """Return the number of photos to annotate, and the rows of some of them in order."""
    annotated = photos.c.known.is_(False)
    columns = (photos.c.id, photos.c.last_event, photos.c.finished, photos.c.waiting)
    with project.database.reading() as connection:
        total = connection.scalar(select(func.count()).select_from(photos).where(annotated)) or 0
        chosen = select(*columns).where(annotated).order_by(photos.c.place).offset(offset).limit(limit)
        return total, connection.execute(chosen).all()


def restore_project(
    backup: Path, folder: Path, *, url: str | None = None, replace: bool = False
) -> tuple[int, Path | None]:
    """Make a project of a backup, on PostgreSQL with `url`; return the number of events and where the old project is.

    With `replace`, a project in the place of the new one is kept beside it.
    """
    if _read_about(backup).get("database"):
        raise DeixisError(f"{backup}: not a backup, because {PROJECT_FILE} names a database elsewhere")
    for problem in find_damage(backup):
        raise DeixisError(f"{backup}: {problem}" + ("" if CHECK_DISK in problem else "; take another backup"))
    old = None
    if not replace and (folder / PROJECT_FILE).exists():
        raise DeixisError(f"{folder}: is a project; --force restores in its place and keeps it beside the new one")
    if replace and folder.exists():
        _read_about(folder)  # anything but a project stays
        with server_lock(folder) as is_only:
            if not is_only:
                raise DeixisError(f"{folder}: a server has the project open; stop it first")
        old = next(path for n in count(1) if not (path := folder.with_name(f"{folder.name}.replaced-{n}")).exists())
        folder.rename(old)
    source = open_project(backup)
    try:
        return backup_project(source, folder, url=url), old
    except BaseException:
        if old is not None and not folder.exists():
            old.rename(folder)
        raise
    finally:
        source.close()


def backup_project(project: Project, out: Path, *, url: str | None = None) -> int:
    """Copy a project, also while workers are active, to SQLite or with `url` to PostgreSQL; return its events."""
    with new_directory(out, replace=None, inputs=[project.folder], private=True) as folder:
        copy = Database(url or _sqlite_url(folder))
        copy.create_tables()
        copied = 0
        with project.database.reading() as source, copy.writing() as target:
            target.execute(delete(properties))
            for table in metadata.sorted_tables:
                rows = source.execution_options(yield_per=_ROWS_PER_BATCH).execute(select(table)).mappings()
                for block in rows.partitions(_ROWS_PER_BATCH):
                    target.execute(insert(table), [dict(row) for row in block])
                    copied += len(block) if table is events else 0
                copy.continue_numbers(target, table)
        copy.close()
        if url and copy.place:
            allow_address(copy.place)
        about = _read_about(project.folder)
        (folder / PROJECT_FILE).write_text(json.dumps(about | {"database": url}, indent=2) + "\n", encoding="utf-8")
        shutil.copyfile(project.folder / SETTINGS_FILE, folder / SETTINGS_FILE)
    return copied


def find_damage(folder: Path) -> Iterator[str]:
    """Read all of a project, and yield one line for each thing that is damaged."""
    try:
        project = open_project(folder)
    except DeixisError as error:
        yield str(error)
        return
    try:
        with project.database.reading() as connection:
            if project.database.is_sqlite:
                for find in (project.database.damaged_rows, project.database.find_corruption):
                    yield from (f"{project.database.name}: damaged ({line})" for line in find(connection))
            for name in connection.scalars(select(photos.c.id).where(photos.c.known.is_(False))).all():
                project.snapshots.read(connection, name)
    except DeixisError as error:
        yield str(error)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        yield f"{project.database.name}: damaged ({type(error).__name__}: {' '.join(str(error).split())})"
    finally:
        project.close()


def tasks_in_use(project: Project, connection: Connection) -> tuple[Task, ...]:
    """Return the tasks to show: pairs if there are any, the six unless there is nothing but pairs, the own question."""
    chain_tasks: tuple[Task, ...] = CHAIN_TASKS
    if project.settings.group_links:
        is_paired = project.settings.propose_links
        chain_tasks = (Task.GROUP, *(task for task in CHAIN_TASKS if is_paired or task is not Task.LINK))
    own = () if project.settings.question is None else (Task.OWN,)
    if read_property(connection, PAIRS_PROPERTY) is None:
        return (*chain_tasks, *own)
    has_chains = connection.execute(
        select(photos.c.id).where(photos.c.known.is_(False), photos.c.chains > 0).limit(1)
    ).first()
    return (*(chain_tasks if has_chains else ()), Task.PAIR, *own)


def read_secret(project: Project) -> bytes:
    """Return the key that signs the ids and links of a project; it is created on first use."""
    with project.database.writing() as connection:
        found = read_property(connection, "secret")
        if found is None:
            found = secrets.token_hex(32)
            write_property(connection, "secret", found)
    return bytes.fromhex(found)


def read_link(project: Project) -> str | None:
    """Return the address at which the project was last served."""
    with project.database.reading() as connection:
        return read_property(connection, "link")


def write_link(project: Project, link: str) -> None:
    with project.database.writing() as connection:
        write_property(connection, "link", link)


@contextmanager
def server_lock(folder: Path) -> Iterator[bool]:
    """Hold a lock while a server of a project runs; yield False if another one of this machine holds it."""
    from filelock import FileLock, Timeout  # slow import, for servers only

    lock = FileLock(folder / ".server.lock", mode=0o600)
    try:
        lock.acquire(timeout=0)
    except (OSError, Timeout) as error:
        yield not isinstance(error, Timeout)
        return
    try:
        yield True
    finally:
        lock.release()


def open_for_work(folder: Path, *, checked: bool = False, on_progress: OnProgress = no_progress) -> Project:
    """Open a project; apply edited settings and complete the work of an interrupted process."""
    project = open_project(folder, checked=checked)
    apply_settings(project, on_progress)
    requeue_suspended(project)
    return project


def reload_settings(project: Project) -> bool:
    """Apply settings that were edited while the project is open; return whether there were any.

    All processes that have the project open do this, because one set of rules must determine a photo's questions.
    """
    try:
        settings = read_settings(project.folder / SETTINGS_FILE)
    except DeixisError as error:
        before, project.settings_problems = project.settings_problems, [f"the edited settings are not used: {error}"]
        if before == project.settings_problems:  # the caller reports it once, and goes on with its other work
            return False
        raise
    project.settings_problems = []
    if settings == project.settings:
        return False
    project.settings, project.snapshots = settings, SnapshotCache(settings)
    apply_settings(project)
    return True


def apply_settings(project: Project, on_progress: OnProgress = no_progress) -> int:
    """Rebuild the questions of all photos if the rules were edited, and return the number of photos.

    Events stay as they are; only the states derived from them change. After an interruption, it starts again.
    """
    from deixis.annotate.own_question import update_known_answers

    update_known_answers(project)
    with project.database.reading() as connection:
        if read_property(connection, _RULES) == _describe_rules(project):
            return 0
        names = list(connection.scalars(select(photos.c.id).where(photos.c.known.is_(False))))
    remaining = iter(track(names, "edited settings", len(names), on_progress))
    while block := list(islice(remaining, _PHOTOS_PER_EDIT)):
        with project.database.writing() as connection:
            for name in block:
                PhotoTransaction(project, connection, name).apply()
    _write_rules(project)
    return len(names)


def requeue_suspended(project: Project, limit: int | None = None) -> int:
    """Exclude the judgements of suspended workers, one photo per transaction, and return the number of photos."""
    with project.database.reading() as connection:
        if connection.execute(select(requeue.c.photo).limit(1)).first() is None:
            return 0
    done = 0
    while limit is None or done < limit:
        with project.database.writing() as connection:
            row = connection.execute(select(requeue).limit(1).with_for_update(skip_locked=True)).first()
            if row is None:
                return done
            transaction = PhotoTransaction(project, connection, row.photo)
            _discount_worker(transaction, row.worker, Task(row.task))
            key = (requeue.c.worker == row.worker) & (requeue.c.task == row.task) & (requeue.c.photo == row.photo)
            connection.execute(delete(requeue).where(key))
            transaction.apply()
        done += 1
    return done


def _discount_worker(transaction: PhotoTransaction, worker: str, task: Task) -> None:
    numbers = [
        event.number
        for event in transaction.snapshot.events
        if isinstance(event, Judged | Skipped) and event.worker == worker and event.task is task
    ]
    key = f"discount:{worker}:{task.value}:{transaction.photo}:{max(numbers, default=0)}"
    if numbers and find_event(transaction.connection, key) is None:
        transaction.add_event(key, worker, Discounted.kind, {"whom": worker, "task": task.value})
