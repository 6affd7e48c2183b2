"""A list of all parts, as CycloneDX 1.5 JSON: python scripts/sbom.py [--out FILE].

It holds the packages that are installed, with versions, licences and who asks for whom, the hashes of the packages that
carry weights (weights.txt), and the files of weights inside deixis with theirs. Nothing in it depends on the clock, so
the same installation gives the same file.
"""

from __future__ import annotations

import argparse
import json
import re
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from dependencies import ROOT, TESTS, Dependency, dependencies
from packaging.utils import canonicalize_name

import deixis
from deixis.files.hashes import hash_of_file

_PACKAGE = Path(deixis.__file__).parent
_PINNED = re.compile(r"^(?P<name>[\w-]+)==\S+ --hash=sha256:(?P<sha256>[0-9a-f]{64})$", re.MULTILINE)


def bill(with_tests: bool = False) -> dict[str, Any]:
    """The whole document."""
    found = [each for each in dependencies() if with_tests or each.use != TESTS]
    hashes = pinned_hashes(Path(__file__).parents[1] / "weights.txt")
    parts = [_part(each, hashes) for each in found]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _root()},
        "components": parts + weights_inside(),
        "dependencies": _arrows(found),
    }
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))}"
    return document


def pinned_hashes(file: Path) -> dict[str, str]:
    """The SHA-256 of each package in weights.txt, by its name."""
    return {found["name"]: found["sha256"] for found in _PINNED.finditer(file.read_text(encoding="utf-8"))}


def weights_inside() -> list[dict[str, Any]]:
    """The files of weights that come with deixis."""
    files = sorted([*_PACKAGE.rglob("*.safetensors"), *_PACKAGE.rglob("*.npz")])
    return [
        {
            "type": "machine-learning-model",
            "bom-ref": f"file:{path.relative_to(_PACKAGE).as_posix()}",
            "name": path.relative_to(_PACKAGE).as_posix(),
            "version": deixis.__version__,
            "hashes": [{"alg": "SHA-256", "content": hash_of_file(path)}],
        }
        for path in files
    ]


def _root() -> dict[str, Any]:
    version = metadata.version(ROOT)
    reference = f"pkg:pypi/{ROOT}@{version}"
    licence = [{"expression": "Apache-2.0"}]
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


def _arrows(found: list[Dependency]) -> list[dict[str, Any]]:
    references = {canonicalize_name(each.name): _reference(each) for each in found}
    references[ROOT] = _root()["bom-ref"]
    arrows: dict[str, list[str]] = {reference: [] for reference in references.values()}
    for each in found:
        for by in each.needed_by:
            if by in references:
                arrows[references[by]].append(_reference(each))
    return [{"ref": reference, "dependsOn": sorted(on)} for reference, on in sorted(arrows.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--with-tests", action="store_true", help="also what only tests need")
    options = parser.parse_args()
    text = json.dumps(bill(options.with_tests), indent=1, ensure_ascii=False) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
