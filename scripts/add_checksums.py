"""Write the checksums of saved models into their ``config.json``: of models from before checksums, or edited by hand.

python scripts/add_checksums.py [FOLDER …]

Without folders, all models of the package. Weights, graphs and fingerprints do not change.
"""

from __future__ import annotations

import sys
from pathlib import Path

import deixis
from deixis.storage.artifacts import CONFIG, add_checksums, read_config


def saved_in(folder: Path) -> list[Path]:
    """Directories of artifacts below a folder; parts belong to their artifact."""
    found = sorted(file.parent for file in folder.rglob(CONFIG))
    return [each for each in found if not any(parent in found for parent in each.parents)]


def main() -> None:
    for folder in map(Path, sys.argv[1:] or [str(Path(deixis.__file__).parent)]):
        for each in saved_in(folder):
            add_checksums(each)
            print(f"{each}: {len(read_config(each)['files'])} files")


if __name__ == "__main__":
    main()
