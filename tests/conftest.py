"""What several tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Machines are noisy: a slow example says nothing about the code.
settings.register_profile("deixis", deadline=None)
settings.load_profile("deixis")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with Flickr8k and Flickr30k Entities."""
    folder = os.environ.get("DEIXIS_DATA")
    if not folder:
        pytest.skip("DEIXIS_DATA is not set: no real photos to test on")
    return Path(folder)


@pytest.fixture
def deixis(tmp_path: Path) -> Run:
    """Run the command in an empty directory, as a person would."""

    def run(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "deixis.cli.main", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False)

    return run


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the sample photos, as `deixis index` makes it; for those who only read it."""
    from deixis.data.samples import SAMPLES
    from deixis.index import update_index
    from deixis.tasks.search.searching import shipped_seer

    folder = tmp_path_factory.mktemp("index") / "photos.deixis"
    update_index(folder, [SAMPLES / "images"], shipped_seer())
    return folder
