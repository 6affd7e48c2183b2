"""Saved things as before checksums, for tests of what is read after a checksum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def without_checksums(folder: Path) -> None:
    """Turn the manifests below a folder into those of version 1, which tests can change."""
    for path in [*folder.rglob("config.json"), *folder.rglob("manifest.json")]:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("checksum", None) is None:
            continue
        document["version"] = 1
        if path.name == "config.json":
            del document["files"]
        for entry in [document, *document.get("shards", [])]:
            entry.pop("crc32", None)
        path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def change_config(folder: Path, **changes: object) -> None:
    """Change entries of the ``config.json`` of a saved thing."""
    without_checksums(folder)
    document = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(document | changes))
