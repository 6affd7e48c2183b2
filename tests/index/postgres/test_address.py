"""Addresses of databases: understood, or refused without saying what the password might be."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from deixis.errors import DeixisError
from deixis.index.postgres.address import SCHEMA, read_address


def test_what_is_given_reaches_the_server_and_the_password_nobody_else() -> None:
    address = read_address("postgresql://ada:s%40same@host:5433/family?sslmode=require&schema=holidays")
    given = conninfo_to_dict(address.conninfo)
    assert (given["user"], given["password"], given["host"], given["port"]) == ("ada", "s@same", "host", "5433")
    assert (given["dbname"], given["sslmode"], address.schema) == ("family", "require", "holidays")
    assert "same" not in f"{address} {address!r} {address.name}"


def test_options_reach_the_server_as_they_were_written() -> None:
    address = read_address("postgresql://h/d?password=a+b%2B&schema=x&options=-cjit%3Doff%20-cwork_mem%3D64MB")
    given = conninfo_to_dict(address.conninfo)
    assert (given["password"], given["options"]) == ("a+b+", "-cjit=off -cwork_mem=64MB")


def test_a_schema_and_time_to_wait_are_chosen_where_nothing_is_said() -> None:
    address = read_address("postgresql://host/family")
    assert address.schema == SCHEMA
    assert conninfo_to_dict(address.conninfo)["connect_timeout"] == "10"
    assert conninfo_to_dict(read_address("postgresql://h/d?connect_timeout=3").conninfo)["connect_timeout"] == "3"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ada:ses@me@host/family",
        "postgresql://ada:ses/ame@host/family",
        "postgresql://ada:ses#ame@host/family",
        "postgresql://ada:ses%ame@host/family",
        "postgresql://ada:sesame",
    ],
)
def test_an_address_that_cannot_be_understood_is_one_line_without_the_password(text: str) -> None:
    with pytest.raises(DeixisError, match="not an address that can be understood") as raised:
        read_address(text)
    told = str(raised.value)
    assert "\n" not in told
    assert "ame" not in told.split(": not an address")[0].replace("name", "").replace("family", "")
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("schema", ["", "Upper", "a-b", 'a"; DROP TABLE photos', "1st", "x" * 64])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    with pytest.raises(DeixisError, match="schema: only small letters, digits and _"):
        read_address(f"postgresql://host/family?schema={schema}")
