"""The public names of `deixis.data`."""

from __future__ import annotations

import subprocess
import sys

import deixis.data


def test_every_public_name_can_be_imported() -> None:
    assert dir(deixis.data) == sorted(deixis.data.__all__)
    for name in deixis.data.__all__:
        assert getattr(deixis.data, name).__doc__


def test_importing_the_package_does_not_load_pyarrow() -> None:
    code = "import sys, deixis.data; deixis.data.Caption; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
