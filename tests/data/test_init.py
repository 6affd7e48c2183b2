"""The public names of `deixis.data`."""

from __future__ import annotations

import deixis.data
from tests.test_architecture import modules_after


def test_every_public_name_can_be_imported() -> None:
    assert dir(deixis.data) == sorted(deixis.data.__all__)
    for name in deixis.data.__all__:
        assert getattr(deixis.data, name).__doc__


def test_records_do_not_import_pyarrow() -> None:
    assert "pyarrow" not in modules_after("import deixis.data; deixis.data.Caption")
