"""The saved corpus: the inputs with which the fuzzer reached new code; `make test` replays them.

To make it again: DEIXIS_FUZZ_CORPUS=DIR python -m tests.fuzz.fuzzer 60 tests/fuzz/found
python -m tests.fuzz.corpus DIR
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

from tests.fuzz.fuzzer import EDGE_CASES, check_input
from tests.fuzz.harnesses import Harness

FILE = Path(__file__).with_name("corpus.zip")


def replay(harness: Harness, found: Path) -> int:
    """Check valid files, edge cases, the saved corpus and the inputs that failed before; return their number."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        harness.prepare(Path(folder))
        inputs = [*harness.seeds(Path(other)), *EDGE_CASES]
        inputs += [path.read_bytes() for path in sorted((found / harness.name).glob("*"))]
        with zipfile.ZipFile(FILE) as archive:
            inputs += [archive.read(name) for name in archive.namelist() if name.startswith(f"{harness.name}/")]
        for data in inputs:
            check_input(harness, data, Path(folder))
    return len(inputs)


def save(folder: Path) -> None:
    """Save all inputs below a folder, without the valid files and edge cases from which the fuzzer started."""
    with zipfile.ZipFile(FILE, "w") as archive:
        for path in sorted(path for path in folder.glob("*/*") if not path.name.startswith("seed")):
            name = f"{path.parent.name}/{path.name[:8]}"
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
