"""Write the checksums of saved models into their ``config.json``: of models from before checksums, or edited by hand.

python scripts/add_checksums.py [FOLDER …]

Without folders, all models of the package. Weights, graphs and fingerprints do not change.
"""

from __future__ import annotations

import json
import sys
from os import PathLike
from pathlib import Path

import deixis
from deixis.storage.artifacts import CONFIG, damaged, read_artifact, read_config, write_config


def saved_in(folder: Path) -> list[Path]:
    """Directories of artifacts below a folder; parts belong to their artifact."""
    found = sorted(file.parent for file in folder.rglob(CONFIG))
    return [each for each in found if not any(parent in found for parent in each.parents)]


def add_checksums(folder: str | PathLike[str]) -> None:
    """Compute the checksums of a directory and its parts again."""
    folder = Path(folder)
    with damaged(folder / CONFIG):
        document = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        for part in document["parts"]:
            add_checksums(folder / part)
        document.pop("checksum", None)
        write_config(folder, document)
    read_artifact(folder)


def main() -> None:
    for folder in map(Path, sys.argv[1:] or [str(Path(deixis.__file__).parent)]):
        for each in saved_in(folder):
            add_checksums(each)
            print(f"{each}: {len(read_config(each)['files'])} files")


if __name__ == "__main__":
    main()
