"""scripts/setup in a small project, with commands that an ordinary user lacks; nothing is downloaded."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hashes import HASHES, PINS

ROOT = Path(__file__).parents[2]
NEEDED = ("bash", "cat", "env", "mkdir", "mktemp", "rm")
BACKEND = """
import os, zipfile
NAME, VERSION = "deixis", "1"

def build_editable(folder, settings=None, metadata=None):
    # As hatch_build.py: without Node.js, a build with pages fails.
    if not os.environ.get("DEIXIS_WITHOUT_PAGES") and not os.path.exists("node"):
        raise OSError("no Node.js")
    if os.path.exists("node"):
        os.makedirs("src/deixis/web/static")
        open("src/deixis/web/static/index.html", "w").close()
    info = f"{NAME}-{VERSION}.dist-info"
    with zipfile.ZipFile(f"{folder}/{NAME}-{VERSION}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {NAME}\\nVersion: {VERSION}\\nRequires-Dist: leaf\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return f"{NAME}-{VERSION}-py3-none-any.whl"
"""  # noqa: E501

Setup = Callable[..., subprocess.CompletedProcess[str]]


def make_wheel(folder: Path, name: str, version: str, code: str) -> str:
    """Write a wheel with one module; return its hash."""
    info, content = f"{name}-{version}.dist-info", code.encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}.py,sha256={digest},{len(content)}\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment, which is copied because creating one takes seconds."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture
def project(environment: Path, tmp_path: Path) -> Path:
    """A project that depends on one package, and may be built with Node.js."""
    folder = tmp_path / "project"
    shutil.copytree(environment, folder / "venv", symlinks=True)
    (folder / "scripts").mkdir()
    for name in ("setup", "hashes.py"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts")
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "deixis"\nversion = "1"\ndependencies = ["leaf"]\n'
        '[project.optional-dependencies]\ntest = ["deixis[more]"]\nmore = []\n'
    )
    (folder / "node").touch()
    (folder / "wheels").mkdir()
    sha256 = make_wheel(folder / "wheels", "leaf", "1.0", "green = True")
    (folder / "constraints.txt").write_text("leaf==1.0\n")
    (folder / "hashes.txt").write_text(f"leaf==1.0 --hash=sha256:{sha256}\n")
    (folder / "weights.txt").write_text("")
    return folder


@pytest.fixture
def setup(project: Path, tmp_path: Path) -> Setup:
    """Run scripts/setup with only some commands on the PATH, as a user who is not root."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in NEEDED:
        (commands / name).symlink_to(shutil.which(name) or name)
    (commands / "python3").symlink_to(sys.executable)
    (commands / "npm").touch(mode=0o755)
    (commands / "id").write_text("#!/bin/sh\necho 1000\n")
    (commands / "id").chmod(0o755)

    def run(*arguments: object, **scripts: str) -> subprocess.CompletedProcess[str]:
        for name, code in scripts.items():
            (commands / name.replace("_", "-")).unlink(missing_ok=True)
            (commands / name.replace("_", "-")).write_text(f"#!/bin/sh\n{code}\n")
            (commands / name.replace("_", "-")).chmod(0o755)
        environment = {"PATH": str(commands), "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
        environment["PIP_FIND_LINKS"] = str(project / "wheels")
        command = [project / "scripts" / "setup", *map(str, arguments)]
        return subprocess.run(
            command, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    return run


def is_installed(project: Path) -> bool:
    found = subprocess.run([project / "venv/bin/python", "-c", "import leaf; assert leaf.green"], check=False)
    return found.returncode == 0


@pytest.mark.parametrize(
    "scripts",
    [
        {},
        {"apt_get": "exit 0"},
        {"apt_get": "exit 0", "sudo": "echo sudo: a password is required >&2; exit 1"},
        {"apt_get": "echo E: Unable to locate package >&2; exit 100", "sudo": 'shift; exec "$@"'},
    ],
    ids=["no apt", "no sudo", "no password", "no network"],
)
def test_missing_packages_are_named_in_one_line_and_the_rest_is_installed(
    scripts: dict[str, str], project: Path, setup: Setup
) -> None:
    done = setup("venv", "test", **scripts)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("setup: please install default-jre-headless chromium strace; ")
    assert is_installed(project)


def test_missing_packages_are_installed_where_apt_may_be_used(project: Path, setup: Setup) -> None:
    done = setup("venv", "test", apt_get=f'echo "$@" >> {project}/log', sudo='shift; exec "$@"')
    assert (done.returncode, done.stderr) == (0, "")
    assert (project / "log").read_text().splitlines()[-1].endswith("default-jre-headless chromium strace")


def test_without_python_one_line_says_what_to_install(setup: Setup) -> None:
    done = setup("other", python3="exit 1")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "python3-venv" in line


def test_without_node_everything_but_the_pages_is_installed(project: Path, setup: Setup) -> None:
    (project / "node").unlink()
    shutil.rmtree(project / "venv")  # and it is created
    done = setup("venv")
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert "please install Node.js" in line
    assert is_installed(project)


def test_a_package_that_cannot_be_installed_is_an_error(project: Path, setup: Setup) -> None:
    (project / "wheels" / "leaf-1.0-py3-none-any.whl").unlink()
    done = setup("venv")
    assert done.returncode == 1
    assert "ERROR" in done.stderr


def test_with_hashes_only_known_files_are_installed(project: Path, setup: Setup) -> None:
    done = setup("--require-hashes", "venv")
    assert (done.returncode, done.stderr) == (0, "")
    assert is_installed(project)
    make_wheel(project / "wheels", "leaf", "1.0", "green = False")
    subprocess.run([project / "venv/bin/python", "-m", "pip", "uninstall", "-qy", "leaf", "deixis"], check=True)
    refused = setup("--require-hashes", "venv")
    assert refused.returncode == 1
    assert "DO NOT MATCH THE HASHES" in refused.stderr
    assert not is_installed(project)


def test_every_pin_has_hashes() -> None:
    pins = [line for line in PINS.read_text().splitlines() if "==" in line and not line.startswith("#")]
    lines = [line.split() for line in HASHES.read_text().splitlines() if not line.startswith("#")]
    assert [name for name, *_ in lines] == pins, "run: python scripts/hashes.py"
    assert all(hashes and all(each.startswith("--hash=sha256:") for each in hashes) for _, *hashes in lines)
