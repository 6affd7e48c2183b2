"""An index in PostgreSQL: addresses, and errors of the server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from deixis.errors import DeixisError
from deixis.search.index import update_index
from deixis.search.index.postgres import DEFAULT_SCHEMA, connected, parse_address
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photos


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 3)
    return tmp_path / "photos"


def line(raised: pytest.ExceptionInfo[DeixisError]) -> str:
    message = str(raised.value)
    assert "\n" not in message
    return message


def as_user(address: str, user: str, password: str = "") -> str:
    """The address of the same index for another user."""
    return address.replace("postgres:@", f"{user}:{password}@" if password else f"{user}@")


@pytest.fixture
def guest(postgres: str) -> Iterator[str]:
    """A user who may only connect."""
    name = f"guest_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"CREATE ROLE {name} LOGIN")
        yield name
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def test_a_missing_server_is_an_error_without_the_password(folder: Path) -> None:
    nowhere = "postgresql://ada:sesame@127.0.0.1:1/family"
    for attempt in (lambda: ReadIndex(nowhere), lambda: update_index(nowhere, [folder], ColourEncoder())):
        with pytest.raises(DeixisError, match="cannot be reached") as raised:
            attempt()
        assert line(raised).startswith("postgresql://ada@127.0.0.1:1/family: ")
        assert "sesame" not in line(raised)


@pytest.mark.slow
def test_a_wrong_password_is_an_error_that_does_not_contain_it(postgres: str) -> None:
    name = f"locked_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
        (file,) = connection.execute("SHOW hba_file").fetchone() or ("",)
        rules = Path(file).read_text()
        try:
            Path(file).write_text(f"local all {name} scram-sha-256\n{rules}")
            connection.execute("SELECT pg_reload_conf()")
            for typed in ("open_sesame", ""):
                with pytest.raises(DeixisError, match="PGPASSWORD") as raised:
                    ReadIndex(as_user(f"{postgres}&schema=x", name, typed))
                assert "sesame" not in line(raised)
            with pytest.raises(DeixisError, match="not a photo index"):
                ReadIndex(as_user(f"{postgres}&schema=x", name, "right"))
        finally:
            Path(file).write_text(rules)
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"DROP ROLE {name}")


@pytest.mark.slow
def test_a_missing_database_or_index_is_an_error(postgres: str, address: str) -> None:
    missing = postgres.replace("/postgres?", "/nowhere?")
    for path, message in ((missing, 'database "nowhere" does not exist'), (address, "deixis index PHOTOS --into")):
        with pytest.raises(DeixisError, match=message) as raised:
            ReadIndex(path)
        line(raised)


@pytest.mark.slow
def test_users_without_permission_can_neither_write_nor_read(address: str, guest: str, folder: Path) -> None:
    with pytest.raises(DeixisError, match="permission"):
        update_index(as_user(address, guest), [folder], ColourEncoder())
    update_index(address, [folder], ColourEncoder())
    with pytest.raises(DeixisError, match="permission|not a photo index"):
        ReadIndex(as_user(address, guest))


@pytest.mark.slow
def test_users_with_read_permission_can_only_search(address: str, guest: str, folder: Path, postgres: str) -> None:
    update_index(address, [folder], ColourEncoder())
    schema = parse_address(address).schema
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {guest}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {guest}")
    with ReadIndex(as_user(address, guest)) as index:
        assert len(index.search(np.ones(DIMENSION))) == 3
    photos(folder, 4)
    with pytest.raises(DeixisError, match="permission") as raised:
        update_index(as_user(address, guest), [folder], ColourEncoder())
    line(raised)


def test_a_server_without_pgvector_is_an_error(postgres: str, guest: str, folder: Path) -> None:
    name = f"bare_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        bare = postgres.replace("/postgres?", f"/{name}?")
        try:
            with pytest.raises(DeixisError, match="not a photo index"):
                ReadIndex(bare)
            with pytest.raises(DeixisError, match="pgvector") as raised:
                update_index(as_user(bare, guest), [folder], ColourEncoder())
            line(raised)
            assert update_index(bare, [folder], ColourEncoder()).photos == 3, "its owner may bring the extension in"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_tables_of_other_programs_are_not_replaced(address: str, folder: Path) -> None:
    parsed = parse_address(address)
    with connected(parsed) as connection:
        connection.execute(f"CREATE SCHEMA {parsed.schema}")
        connection.execute(f"CREATE TABLE {parsed.schema}.photos (mine text)")
    for rebuild in (False, True):
        with pytest.raises(DeixisError, match="schema|not a photo index"):
            update_index(address, [folder], ColourEncoder(), rebuild=rebuild)
    with connected(parsed) as connection:
        assert connection.execute("SELECT * FROM photos").fetchall() == []


def test_dead_connections_are_replaced(address: str, folder: Path, postgres: str) -> None:
    update_index(address, [folder], ColourEncoder())
    with ReadIndex(address) as index, psycopg.connect(postgres, autocommit=True) as connection:
        expected = index.search(np.ones(DIMENSION))
        kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'deixis'"
        assert connection.execute(kill).fetchone() != (0,)
        assert index.search(np.ones(DIMENSION)) == expected


@pytest.mark.slow
def test_a_connection_that_dies_during_an_update_is_an_error(address: str, folder: Path, postgres: str) -> None:
    class Unlucky(ColourEncoder):
        def encode_photos(self, paths):  # type: ignore[no-untyped-def]
            for number, answer in enumerate(super().encode_photos(paths)):
                if number == 2:
                    with psycopg.connect(postgres, autocommit=True) as connection:
                        connection.execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'deixis'"
                        )
                yield answer

    with pytest.raises(DeixisError, match="cannot be reached") as raised:
        update_index(address, [folder], Unlucky())
    line(raised)
    assert update_index(address, [folder], ColourEncoder()).photos == 3


def test_options_and_password_are_passed_to_the_server_only() -> None:
    address = parse_address("postgresql://ada:s%40same@host:5433/family?sslmode=require&schema=holidays")
    options = conninfo_to_dict(address.conninfo)
    assert [options[name] for name in ("user", "password", "host", "port")] == ["ada", "s@same", "host", "5433"]
    assert (options["dbname"], options["sslmode"], address.schema) == ("family", "require", "holidays")
    assert "same" not in f"{address} {address!r} {address.name}"
    assert parse_address("postgresql://host/family").schema == DEFAULT_SCHEMA
    assert conninfo_to_dict(parse_address("postgresql://h/d?connect_timeout=3").conninfo)["connect_timeout"] == "3"


def test_options_are_not_decoded_twice() -> None:
    address = parse_address("postgresql://h/d?password=a+b%2B&schema=x&options=-cjit%3Doff%20-cwork_mem%3D64MB")
    options = conninfo_to_dict(address.conninfo)
    assert (options["password"], options["options"]) == ("a+b+", "-cjit=off -cwork_mem=64MB")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ada:ses@me@host/family",
        "postgresql://ada:ses/ame@host/family",
        "postgresql://ada:ses#ame@host/family",
        "postgresql://ada:ses%ame@host/family",
        "postgresql://ada:sesame",
        "postgresql://ada:sesame@[host/family",
    ],
)
def test_an_invalid_address_is_an_error_without_the_password(text: str) -> None:
    with pytest.raises(DeixisError, match="not a valid address") as raised:
        parse_address(text)
    message = str(raised.value)
    assert "\n" not in message
    assert "ame" not in message.split(": not a valid")[0].replace("name", "").replace("family", "")
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("schema", ["", "Upper", "a-b", 'a"; DROP TABLE photos', "1st", "x" * 64])
def test_schema_names_are_checked(schema: str) -> None:
    with pytest.raises(DeixisError, match="schema: "):
        parse_address(f"postgresql://host/family?schema={schema}")
