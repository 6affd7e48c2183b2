"""`deixis verify`: reads everything that was saved and says what is damaged."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from deixis.cli.output import Json, argument, plural, print_json, progress
from deixis.errors import DeixisError
from deixis.storage.progress import OnProgress
from deixis.storage.sql import CHECK_DISK

_FIXES = {
    "model": "train it again, or copy it again from where it came",
    "shipped model": "pip install --force-reinstall deixis",
    "data set": "import the data again with deixis data import --force",
    "features": "run the same deixis features command again",
    "index": "deixis index PHOTOS --into INDEX --rebuild",
    "project": "restore a backup made by deixis annotate backup",
}
_NO_DAMAGE = (CHECK_DISK, "install a newer version", "cannot be reached", "was not named here")
"""Parts of lines about what could not be read, which say what to do themselves."""


def verify(
    things: Annotated[
        list[str],
        argument("INDEX|DATA|MODEL|PROJECT…", "What to check: a path, @NAME of an index, or name of a model."),
    ],
    json: Json = False,
) -> None:
    """Check all files of an index, data set, model or project.

    Exits with status 2 if anything is damaged, and says what to do.
    """
    reports = []
    with progress() as on_progress:
        for thing in things:
            kind, folder = _kind_of(thing)
            damage = list(_damage(kind, folder, on_progress))
            found: dict[str, Any] = {"path": thing, "kind": kind, "problems": damage}
            is_damaged = any(not any(reason in line for reason in _NO_DAMAGE) for line in damage)
            reports.append(found | {"fix": _FIXES[kind] if is_damaged else None})
    if json:
        print_json(reports)
    else:
        _show(reports)
    if damaged := [report for report in reports if report["problems"]]:
        names = ", ".join(str(each["path"]) for each in damaged)
        raise DeixisError(f"{names}: {plural(sum(len(each['problems']) for each in damaged), 'problem')}")


def _show(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        if report["problems"]:
            print(*report["problems"], *([f"  fix: {report['fix']}"] if report["fix"] else []), sep="\n")
        else:
            print(f"{report['path']}: {report['kind']}, no damage found")


def _kind_of(thing: str) -> tuple[str, Path]:
    """Return what a path holds, by its content, and the directory to read."""
    from deixis.models.installed import SHIPPED, model_folder
    from deixis.search.index.sqlite import DATABASE
    from deixis.search.places import index_place
    from deixis.storage.artifacts import CONFIG

    folder = Path(index_place(thing) if thing.startswith("@") else thing)
    if (folder / DATABASE).exists():
        return "index", folder
    if (folder / "project.json").exists():
        return "project", folder
    if (folder / "manifest.json").exists():
        return _kind_of_manifest(folder / "manifest.json"), folder
    model = model_folder(thing)
    if (model / CONFIG).exists():
        return "shipped model" if model.parent == SHIPPED else "model", model
    raise DeixisError(f"{thing}: not an index, data set, model or project, nor the name of an installed model")


def _kind_of_manifest(path: Path) -> str:
    try:
        document = json_module.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        document = {}
    name = document.get("format") if isinstance(document, dict) else None
    return "features" if name in ("deixis-features", "deixis-caption-features") else "data set"


def _damage(kind: str, folder: Path, on_progress: OnProgress) -> Iterator[str]:
    if kind == "index":
        from deixis.search.index.photo_index import find_damage as index_damage

        yield from index_damage(folder)
    elif kind == "project":
        from deixis.annotate.project import find_damage as project_damage  # needs an extra

        yield from project_damage(folder)
    elif kind == "data set":
        yield from _dataset_damage(folder, on_progress)
    elif kind == "features":
        yield from _features_damage(folder, on_progress)
    else:
        from deixis.storage.artifacts import find_damage as artifact_damage

        yield from artifact_damage(folder)


def _dataset_damage(folder: Path, on_progress: OnProgress) -> Iterator[str]:
    from deixis.data.dataset import FEATURES, Dataset

    try:
        for _ in Dataset(folder).photos:
            pass
    except DeixisError as error:
        yield str(error)
    for manifest in sorted((folder / FEATURES).glob("*/manifest.json")):
        yield from _features_damage(manifest.parent, on_progress)


def _features_damage(folder: Path, on_progress: OnProgress) -> Iterator[str]:
    from deixis.language.features.captions import FORMAT
    from deixis.language.features.captions import find_damage as caption_damage
    from deixis.vision.feature_store import FeatureStore

    if f'"{FORMAT}"' in (folder / "manifest.json").read_text(encoding="utf-8", errors="replace"):
        yield from caption_damage(folder)
        return
    try:
        store = FeatureStore(folder)
        yield from (f"{folder / name}: damaged (its hash differs)" for name in store.damaged(on_progress))
    except DeixisError as error:
        yield str(error)
