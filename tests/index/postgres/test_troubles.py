"""What can go wrong with a server, each in one line that says what to do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
import pytest

from deixis.errors import DeixisError
from deixis.index import PhotoIndex, update_index
from deixis.index.postgres.address import read_address
from deixis.index.postgres.connection import connect
from tests.index.fakes import DIMENSION, ColourSeer, photos


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 3)
    return tmp_path / "photos"


def line(raised: pytest.ExceptionInfo[DeixisError]) -> str:
    told = str(raised.value)
    assert "\n" not in told
    return told


def as_user(address: str, user: str, password: str = "") -> str:
    """The address of the same index for somebody else."""
    return address.replace("postgres:@", f"{user}:{password}@" if password else f"{user}@")


@pytest.fixture
def guest(postgres: str) -> Iterator[str]:
    """Somebody who may connect, and nothing else."""
    name = f"guest_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"CREATE ROLE {name} LOGIN")
        yield name
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def test_no_server_is_one_line(folder: Path) -> None:
    nowhere = "postgresql://ada:sesame@127.0.0.1:1/family"
    for attempt in (lambda: PhotoIndex(nowhere), lambda: update_index(nowhere, [folder], ColourSeer())):
        with pytest.raises(DeixisError, match=r"gone or cannot be reached; try again when it is there") as raised:
            attempt()
        assert line(raised).startswith("postgresql://ada@127.0.0.1:1/family: ")
        assert "sesame" not in line(raised)


def test_a_wrong_password_is_one_line_that_does_not_hold_it(postgres: str) -> None:
    name = f"locked_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
        (file,) = connection.execute("SHOW hba_file").fetchone() or ("",)
        rules = Path(file).read_text()
        try:
            Path(file).write_text(f"local all {name} scram-sha-256\n{rules}")
            connection.execute("SELECT pg_reload_conf()")
            for typed in ("open_sesame", ""):
                with pytest.raises(DeixisError, match="password is wrong or missing; PGPASSWORD or") as raised:
                    PhotoIndex(as_user(f"{postgres}&schema=x", name, typed))
                assert "sesame" not in line(raised)
            with pytest.raises(DeixisError, match="not an index of photos"):
                PhotoIndex(as_user(f"{postgres}&schema=x", name, "right"))
        finally:
            Path(file).write_text(rules)
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"DROP ROLE {name}")


def test_a_database_that_does_not_exist_is_one_line(postgres: str) -> None:
    with pytest.raises(DeixisError, match='database "nowhere" does not exist') as raised:
        PhotoIndex(postgres.replace("/postgres?", "/nowhere?"))
    line(raised)


def test_where_there_is_no_index_it_is_said_how_to_make_one(address: str) -> None:
    with pytest.raises(
        DeixisError, match="not an index of photos; make one with: deixis index PHOTOS --into"
    ) as raised:
        PhotoIndex(address)
    line(raised)


def test_without_rights_nothing_is_made_and_nothing_is_read(address: str, guest: str, folder: Path) -> None:
    with pytest.raises(DeixisError, match=r"no rights to do that; ask whoever runs the database \(permission"):
        update_index(as_user(address, guest), [folder], ColourSeer())
    update_index(address, [folder], ColourSeer())
    with pytest.raises(DeixisError, match=r"no rights|not an index"):
        PhotoIndex(as_user(address, guest))


def test_whoever_may_read_may_search_and_no_more(address: str, guest: str, folder: Path, postgres: str) -> None:
    update_index(address, [folder], ColourSeer())
    schema = read_address(address).schema
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {guest}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {guest}")
    with PhotoIndex(as_user(address, guest)) as index:
        assert len(index.search(np.ones(DIMENSION))) == 3
    photos(folder, 4)
    with pytest.raises(DeixisError, match="no rights to do that") as raised:
        update_index(as_user(address, guest), [folder], ColourSeer())
    line(raised)


def test_a_server_without_vectors_is_one_line(postgres: str, guest: str, folder: Path) -> None:
    name = f"bare_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        bare = postgres.replace("/postgres?", f"/{name}?")
        try:
            with pytest.raises(DeixisError, match="not an index of photos"):
                PhotoIndex(bare)
            with pytest.raises(DeixisError, match="no vector extension; install pgvector 0.8 or newer") as raised:
                update_index(as_user(bare, guest), [folder], ColourSeer())
            line(raised)
            assert update_index(bare, [folder], ColourSeer()).photos == 3, "its owner may bring the extension in"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_tables_of_others_are_not_replaced(address: str, folder: Path) -> None:
    there = read_address(address)
    with closing(connect(there).raw) as connection:
        connection.execute(f"CREATE SCHEMA {there.schema}")
        connection.execute(f"CREATE TABLE {there.schema}.photos (mine text)")
    for rebuild in (False, True):
        with pytest.raises(DeixisError, match="not made by deixis|not an index of photos"):
            update_index(address, [folder], ColourSeer(), rebuild=rebuild)
    with closing(connect(there).raw) as connection:
        assert connection.execute("SELECT * FROM photos").fetchall() == []


def test_connections_that_died_are_replaced(address: str, folder: Path, postgres: str) -> None:
    update_index(address, [folder], ColourSeer())
    with PhotoIndex(address) as index, psycopg.connect(postgres, autocommit=True) as connection:
        expected = index.search(np.ones(DIMENSION))
        kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'deixis'"
        assert connection.execute(kill).fetchone() != (0,)
        assert index.search(np.ones(DIMENSION)) == expected


def test_a_connection_that_dies_while_photos_are_written_is_one_line(address: str, folder: Path, postgres: str) -> None:
    class Unlucky(ColourSeer):
        def see(self, paths):  # type: ignore[no-untyped-def]
            for number, answer in enumerate(super().see(paths)):
                if number == 2:
                    with psycopg.connect(postgres, autocommit=True) as connection:
                        connection.execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'deixis'"
                        )
                yield answer

    with pytest.raises(DeixisError, match="the server is gone or cannot be reached") as raised:
        update_index(address, [folder], Unlucky())
    line(raised)
    assert update_index(address, [folder], ColourSeer()).photos == 3
