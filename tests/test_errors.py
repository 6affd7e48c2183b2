"""Errors for users."""

from __future__ import annotations

import pytest

from deixis.errors import DatasetError, DeixisError, PhotoError


@pytest.mark.parametrize("error", [DeixisError("a\nb"), DatasetError("a\r\nb"), PhotoError("a", "b\u2028c")])
def test_an_error_message_is_one_line_even_with_line_breaks_in_it(error: DeixisError) -> None:
    assert len(str(error).splitlines()) == 1
    assert str(error).startswith("a")
