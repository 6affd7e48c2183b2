from __future__ import annotations

import subprocess
import sys

import pytest

from deixis import language


@pytest.mark.parametrize("name", language.__all__)
def test_every_exported_name_is_a_function_or_class(name: str) -> None:
    assert callable(getattr(language, name))


def test_the_package_imports_nothing_heavy() -> None:
    code = "import sys, deixis.language\nassert not {'numpy', 'scipy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
