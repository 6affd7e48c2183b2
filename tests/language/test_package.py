from __future__ import annotations

import subprocess
import sys


def test_the_package_imports_nothing_heavy() -> None:
    code = "import sys, deixis.language\nassert not {'numpy', 'scipy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
