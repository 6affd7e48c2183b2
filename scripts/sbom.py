"""Write a software bill of materials as CycloneDX 1.5 JSON: python scripts/sbom.py [--out FILE].

It lists the installed packages with versions, licences and dependencies, the hashes of packages with weights
(weights.txt), and the weight files of deixis. It contains no time, so that the same installation gives the same file.
"""

from __future__ import annotations

import argparse
import json
import re
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from dependencies import DEVELOPMENT, ROOT, Dependency, dependencies
from packaging.utils import canonicalize_name

import deixis
from deixis.storage.files import hash_file

_PACKAGE = Path(deixis.__file__).parent
_PINNED = re.compile(r"^(?P<name>[\w-]+)==\S+ --hash=sha256:(?P<sha256>[0-9a-f]{64})$", re.MULTILINE)


def bill(with_tests: bool = False) -> dict[str, Any]:
    """Return the document."""
    found = [each for each in dependencies() if with_tests or each.use != DEVELOPMENT]
    hashes = pinned_hashes(Path(__file__).parents[1] / "weights.txt")
    parts = [_part(each, hashes) for each in found]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _root()},
        "components": parts + weights_inside(),
        "dependencies": _dependency_graph(found),
    }
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))}"
    return document


def pinned_hashes(file: Path) -> dict[str, str]:
    """Return the SHA-256 of each package in weights.txt."""
    return {found["name"]: found["sha256"] for found in _PINNED.finditer(file.read_text(encoding="utf-8"))}


def weights_inside() -> list[dict[str, Any]]:
    """Return the weight files of deixis."""
    files = sorted(_PACKAGE.rglob("*.safetensors"))
    return [
        {
            "type": "machine-learning-model",
            "bom-ref": f"file:{path.relative_to(_PACKAGE).as_posix()}",
            "name": path.relative_to(_PACKAGE).as_posix(),
            "version": deixis.__version__,
            "hashes": [{"alg": "SHA-256", "content": hash_file(path)}],
        }
        for path in files
    ]


def _root() -> dict[str, Any]:
    version = metadata.version(ROOT)
    reference = f"pkg:pypi/{ROOT}@{version}"
    licence = [{"expression": metadata.metadata(ROOT)["License-Expression"]}]
    return {"type": "application", "bom-ref": reference, "purl": reference, "name": ROOT, "version": version} | {
        "licenses": licence
    }


def _part(each: Dependency, hashes: dict[str, str]) -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(each),
        "purl": _reference(each),
        "name": each.name,
        "version": each.version,
        "scope": "required" if each.use == "required" else "optional",
        "licenses": [{"license": {"name": each.licence}}],
    }
    if sha256 := hashes.get(canonicalize_name(each.name)):
        part["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    return part


def _reference(each: Dependency) -> str:
    return f"pkg:pypi/{canonicalize_name(each.name)}@{each.version}"


def _dependency_graph(found: list[Dependency]) -> list[dict[str, Any]]:
    references = {canonicalize_name(each.name): _reference(each) for each in found}
    references[ROOT] = _root()["bom-ref"]
    graph: dict[str, list[str]] = {reference: [] for reference in references.values()}
    for each in found:
        for by in each.needed_by:
            if by in references:
                graph[references[by]].append(_reference(each))
    return [{"ref": reference, "dependsOn": sorted(on)} for reference, on in sorted(graph.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--with-tests", action="store_true", help="include packages for development only")
    options = parser.parse_args()
    text = json.dumps(bill(options.with_tests), indent=1, ensure_ascii=False) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
