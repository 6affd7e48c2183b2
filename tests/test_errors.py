"""Errors for people."""

from __future__ import annotations

import pytest

from deixis.errors import DatasetError, DeixisError, PhotoError


@pytest.mark.parametrize("error", [DeixisError("a\nb"), DatasetError("a\r\nb"), PhotoError("a", "b\u2028c")])
def test_an_error_is_one_line_whatever_names_it_holds(error: DeixisError) -> None:
    assert len(str(error).splitlines()) == 1
    assert str(error).startswith("a")
