"""What all tests of tasks begin with."""

from __future__ import annotations

import pytest

from deixis.tasks import bundle


@pytest.fixture(autouse=True)
def no_encoder_is_open_yet() -> None:
    """Encoders are kept while anybody has them, and the small ones of tests all have one name."""
    bundle._OPENED.clear()
