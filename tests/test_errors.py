"""Errors for users."""

from __future__ import annotations

import pytest

from deixis.errors import DatasetError, DeixisError, PhotoError, hide_passwords


@pytest.mark.parametrize("error", [DeixisError("a\nb"), DatasetError("a\r\nb"), PhotoError("a", "b\u2028c")])
def test_an_error_message_is_one_line_even_with_line_breaks_in_it(error: DeixisError) -> None:
    assert len(str(error).splitlines()) == 1
    assert str(error).startswith("a")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:s3cr3t@db:5432/photos",
        "postgresql:/ann:s3cr3t@db/photos",  # as a path
        "postgresql//ann:s3cr3t@db/photos",
        "postgresql/ann:s3cr3t@db/photos",  # as a path
        "postgresql:ann:s3cr3t@db/photos",
        "postgres;//ann:s3c/r:3t@db",
        "POSTGRES://ann:s3/cr:3t@db",
        "sftp://:s3cr3t@host/photos/dog.jpg",
        "invalid address 'ann:s3cr3t@127.0.0.1:1'",
        "--index 'postgresql://ann:s3cr3t@db/photos'",
        "host=db user=ann password=s3cr3t",
        "/home/ann/host=db PASSWORD = s3&c:r3t dbname=photos",
        "--into 'host=db password=s3cr3t'",
        r"password='s3 c\'r 3t' host=db",
        "host=db sslpassword=s3cr3t/manifest.json",
        "postgresql://ann@db/photos?password=s3cr3t&sslmode=require",
    ],
)
def test_no_error_message_has_a_password(address: str) -> None:
    message = str(PhotoError(address, "cannot be read"))
    assert "3t" not in message
    assert message.endswith(": cannot be read")


@pytest.mark.parametrize(
    "text",
    [
        *("C:/photos/a@b.jpg: no photo", "dog.jpg: 12 @ 3", "the password is wrong", "http://127.0.0.1:7860/?q=dog"),
        "deixis search dog --index 'postgresql://ann@db/photos'",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert hide_passwords(text) == text
