"""Projects of every released schema open, and the schema number is raised with every change.

To release a new schema, raise `SCHEMA_VERSION`, change the fingerprint here, and add a dump of a project of the earlier
one (`sqlite3 annotations.sqlite .dump`) to ``released``, named after its number. In each of them Ann, Bob, Cy and Dee
have annotated the photo dog0 but for the last vote on coverage, and the photo dog1 has not been begun.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.schema import CreateIndex, CreateTable

from deixis.annotate.people import find_worker
from deixis.annotate.project import (
    PROJECT_FILE,
    SETTINGS_FILE,
    SQLITE_FILE,
    Project,
    backup_project,
    find_damage,
    open_for_work,
    open_project,
    restore_project,
)
from deixis.annotate.store import FORMAT, SCHEMA_VERSION, Database, metadata
from deixis.annotate.webhooks import add_webhook
from deixis.annotate.workflow import Task
from deixis.errors import DeixisError
from deixis.storage.checksums import register_checks
from tests.annotate.fakes import ask, next_question, record, snapshot

RELEASED = sorted((Path(__file__).parent / "released").glob("*.sql"))
FINGERPRINT = (5, 2731374558)


def make_old(dump: Path, folder: Path) -> Path:
    """Make a project directory of a dump."""
    folder.mkdir()
    database = sqlite3.connect(folder / SQLITE_FILE)
    register_checks(database)
    database.executescript(dump.read_text())
    database.close()
    (folder / PROJECT_FILE).write_text(json.dumps({"format": FORMAT, "database": None, "images": None}))
    (folder / SETTINGS_FILE).write_text('{"history_items": 0, "history_accuracy": 0.0}')
    return folder


def finish(project: Project) -> None:
    """Give the last vote, as somebody who has not voted."""
    with project.database.reading() as connection:
        dee = find_worker(connection, "Dee").id
    question = ask(project, dee)
    assert (question.photo, question.task) == ("dog0", Task.COVERAGE)
    record(project, dee, question.token, "all")
    assert snapshot(project, "dog0").state.finished
    assert next_question(project, dee) is not None


@pytest.mark.parametrize("dump", RELEASED, ids=lambda path: path.stem)
def test_projects_of_released_schemas_open_and_go_on(dump: Path, tmp_path: Path) -> None:
    folder = make_old(dump, tmp_path / "old")
    assert list(find_damage(folder)) == []
    project = open_for_work(folder, checked=True)
    add_webhook(project, "https://example.org/hook")
    finish(project)
    project.close()
    assert list(find_damage(folder)) == []


def test_every_released_schema_has_a_project() -> None:
    numbers = {int(path.stem.split("-")[1]) for path in RELEASED}
    assert numbers == set(range(1, SCHEMA_VERSION))


def test_the_schema_number_is_raised_with_every_change() -> None:
    text = "".join(
        str(CreateTable(table)) + "".join(sorted(str(CreateIndex(index)) for index in table.indexes))
        for table in metadata.sorted_tables
    )
    found = (SCHEMA_VERSION, zlib.crc32(" ".join(text.split()).encode()))
    assert found == FINGERPRINT, "raise SCHEMA_VERSION, then change FINGERPRINT"


def test_a_backup_is_restored_beside_the_project_that_it_replaces(tmp_path: Path) -> None:
    project = open_for_work(make_old(RELEASED[0], tmp_path / "dogs"))
    assert backup_project(project, tmp_path / "backup") == 6
    finish(project)
    project.close()
    with pytest.raises(DeixisError, match="dogs"):
        restore_project(tmp_path / "backup", tmp_path / "dogs")
    events, old = restore_project(tmp_path / "backup", tmp_path / "dogs", replace=True)
    assert (events, old) == (6, tmp_path / "dogs.replaced-1")
    restored, replaced = open_for_work(tmp_path / "dogs"), open_for_work(tmp_path / "dogs.replaced-1")
    assert not snapshot(restored, "dog0").state.finished
    assert snapshot(replaced, "dog0").state.finished
    finish(restored)
    for each in (restored, replaced):
        each.close()


@pytest.mark.parametrize(
    "change", [{"images": 5}, {"images": ["a"]}, {"more_images": 5}, {"more_images": [5]}, {"database": ["x"]}]
)
def test_a_project_file_with_paths_that_are_none_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = make_old(RELEASED[0], tmp_path / "dogs")
    about = json.loads((folder / "project.json").read_text())
    (folder / "project.json").write_text(json.dumps(about | change))
    with pytest.raises(DeixisError, match=r"project\.json: damaged"):
        open_project(folder)


def test_a_backup_that_names_a_database_elsewhere_is_not_opened(tmp_path: Path) -> None:
    project = open_for_work(make_old(RELEASED[0], tmp_path / "dogs"))
    backup_project(project, tmp_path / "backup")
    project.close()
    about = tmp_path / "backup" / "project.json"
    about.write_text(about.read_text().replace('"database": null', '"database": "postgresql://10.255.255.1/x"'))
    with pytest.raises(DeixisError, match="names a database elsewhere"):
        restore_project(tmp_path / "backup", tmp_path / "new")


def test_a_project_of_a_stranger_cannot_make_deixis_contact_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server there asked for a password, and got that of PGPASSWORD."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PGHOST", raising=False)
    contacted = []
    monkeypatch.setattr(Database, "check_commits", lambda database: contacted.append(database.name))
    monkeypatch.setattr(Database, "check_version", lambda database: None)
    monkeypatch.setattr("deixis.annotate.project.read_webhooks", lambda project: None)
    folder = make_old(RELEASED[0], tmp_path / "dogs")
    about = json.loads((folder / "project.json").read_text())

    def opens(address: str) -> bool:
        (folder / "project.json").write_text(json.dumps(about | {"database": address}))
        before = len(contacted)
        try:
            open_project(folder).close()
        except DeixisError as error:
            assert "PGHOST=" in str(error)
        return len(contacted) > before

    far = "postgresql://ann@db.example.org/x"
    for address in (
        far,
        "postgresql:///x?host=db.example.org",
        "postgresql://127.0.0.1/x?hostaddr=192.0.2.1",
        f"sqlite:///{tmp_path / 'elsewhere'}",
    ):
        assert not opens(address)
    for address in ("postgresql:///x", "postgresql://ann@127.0.0.1/x", "postgresql://localhost/x?host=/run/postgresql"):
        assert opens(address)
    with monkeypatch.context() as named:
        named.setenv("PGHOST", "db.example.org")
        assert opens(far)
    assert opens(far), "it was named once"


@pytest.mark.parametrize("dump", RELEASED, ids=lambda path: path.stem)
def test_a_project_of_a_stranger_with_a_trigger_is_refused(dump: Path, tmp_path: Path) -> None:
    """It ran with the first judgement, and could change or forget those of others."""
    folder = make_old(dump, tmp_path / "dogs")
    with closing(sqlite3.connect(folder / SQLITE_FILE)) as raw:
        raw.execute("CREATE TRIGGER emptied AFTER INSERT ON events BEGIN DELETE FROM remarks; END")
    (problem,) = find_damage(folder)
    assert "deixis did not make 'emptied'" in problem
    with pytest.raises(DeixisError, match="deixis did not make 'emptied'"):
        open_for_work(folder)


def test_a_row_that_is_nested_without_end_is_damage(tmp_path: Path) -> None:
    folder = make_old(RELEASED[0], tmp_path / "dogs")
    open_for_work(folder).close()
    with closing(sqlite3.connect(folder / SQLITE_FILE)) as raw:
        register_checks(raw)
        raw.execute("UPDATE photos SET material = ?", ("[" * 100_000,))
        raw.commit()
    (problem,) = find_damage(folder)
    assert "damaged (RecursionError" in problem


def test_a_damaged_backup_is_refused_and_the_project_stays(tmp_path: Path) -> None:
    project = open_for_work(make_old(RELEASED[0], tmp_path / "dogs"))
    backup_project(project, tmp_path / "backup")
    project.close()
    raw = sqlite3.connect(tmp_path / "backup" / SQLITE_FILE)
    raw.create_function("deixis_crc", -1, lambda *_: 0)
    raw.execute("UPDATE events SET worker = 'nobody' WHERE number = 1")
    raw.commit()
    raw.close()
    with pytest.raises(DeixisError, match="damaged"):
        restore_project(tmp_path / "backup", tmp_path / "dogs", replace=True)
    assert list(find_damage(tmp_path / "dogs")) == []


def test_a_backup_is_restored_into_postgresql_where_new_rows_get_new_numbers(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from tests.annotate.conftest import new_schema

    server = request.getfixturevalue("postgres")
    project = open_for_work(make_old(RELEASED[0], tmp_path / "dogs"))
    backup_project(project, tmp_path / "backup")
    project.close()
    restore_project(tmp_path / "backup", tmp_path / "restored", url=new_schema(server))
    restored = open_for_work(tmp_path / "restored")
    assert not restored.database.is_sqlite
    finish(restored)
    restored.close()
