"""The option --scheduler, and photo folders at addresses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deixis.vision import encoders
from deixis.vision.feature_store import FeatureStore
from tests.cli.conftest import Command
from tests.cluster.conftest import tiny_encoder
from tests.vision.feature_store.small import colour_encoder, everything, make_data


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder(name))
    return make_data(tmp_path, 12).path


def test_the_photo_folder_can_be_an_address(data: Path, command: Command) -> None:
    archive = shutil.make_archive("photos", "zip", ".", "images")
    features, address = ("features", data, "--encoder", "one", "--out"), f"zip://images::{archive}"
    command(*features, "here")
    command(*features, "elsewhere", "--images", address)
    assert everything(FeatureStore("elsewhere")) == everything(FeatureStore("here"))
    out, _ = command(*features, "elsewhere", "--images", address)
    assert out.endswith("12 photos, dimension 3 (0 new, 12 unchanged)\n")
    Path("tokens.txt").write_text("".join(f"{number:04}.png#0\tNoise {number} .\n" for number in range(12)))
    command("data", "import", "--captions", "tokens.txt", "--images", address, "--out", "imported")
    command("data", "check", "imported", "--strict")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--encoder", "one", "--scheduler", "local:0"], "--scheduler local:0"),
        (["--text", "mean", "--scheduler", "local:2"], "--scheduler"),
        (["--encoder", "one", "--images", "carrier-pigeon://attic"], "carrier-pigeon://attic/0000.png: "),
    ],
)
def test_errors_name_the_option_or_the_address(arguments: list[str], line: str, data: Path, command: Command) -> None:
    _, err = command("features", data, *arguments, code=2)
    assert line in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_an_interrupted_cluster_run_is_continued_by_one_process(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    photos = 1280  # many more than workers compute ahead
    data, store = make_data(tmp_path, photos).path, tmp_path / "store"
    features = [sys.executable, "-m", "deixis.cli.main", "features", str(data), "--out", str(store)]
    command = [*features, "--encoder", tiny_encoder(tmp_path / "tiny"), "--json"]
    code, err = _interrupted([*command, "--scheduler", "local:2"], store)
    assert code == 130
    assert "Traceback" not in err
    kept = len(FeatureStore(store))
    assert 0 < kept < photos
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f'"kept": {kept}' in done.stdout
    assert len(FeatureStore(store)) == photos


def _interrupted(command: list[str], store: Path) -> tuple[int, str]:
    """Start a command, press Ctrl-C after the first part is written; return exit code and standard error."""
    # A terminal signals the whole process group; processes started in the background ignore SIGINT by default.
    run = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert run.stderr
    while not any(store.glob("0*.safetensors")):
        assert run.poll() is None, run.stderr.read()
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGINT)
    err = run.communicate(timeout=300)[1]
    return run.returncode, err
