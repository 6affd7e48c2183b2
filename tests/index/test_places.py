"""Where an index is, and what of that may be printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.index.places import is_address, shown


def test_a_folder_is_no_address_and_is_shown_as_it_is() -> None:
    for folder in ("photos.deixis", Path("/a/b"), "postgresql", "s3://bucket/photos"):
        assert not is_address(folder)
        assert shown(folder) == str(folder)


@pytest.mark.parametrize(
    "typed",
    [
        "postgresql://ada:{}",
        "postgresql://ada:{}@host:5432/family",
        "postgres://ada:{}@host/family",
        "postgresql://:{}@host/family",
        "postgresql://ada@host/family?password={}",
        "postgresql://ada@host/family?sslmode=require&sslpassword={}&schema=x",
    ],
)
@pytest.mark.parametrize("password", ["sesame", "ses@me", "ses:am", "ses/am", "se?same", "se#same", "s%40same"])
def test_no_part_of_a_password_is_shown(typed: str, password: str) -> None:
    told = shown(typed.format(password))
    assert "ses" not in told
    assert "same" not in told
    assert told.startswith(("postgresql://", "postgres://"))
    if "password=" not in typed and "host" in typed:
        assert told.endswith("/family")
