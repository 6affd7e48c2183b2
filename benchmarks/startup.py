"""Measure commands that start cold, each in a process of its own, against another checkout.

    python benchmarks/startup.py OTHER_CHECKOUT [--rounds 5] [--only search …] [--python PYTHON] [--other-python PYTHON]

Both checkouts run in turns, on the sample photos. Printed are the lowest CPU time, wall time and peak memory (maximum
resident set) of the rounds, and their ratios; below 1 this checkout is better. The files of a command are in the file
cache of the system after the first round. Each checkout may have an environment of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1]
SENTENCE = "two dogs look out of a window"
COMMANDS = {
    "help": ("--help",),
    "search": ("search", SENTENCE, "--index", "photos.deixis"),
    "search --explain": ("search", SENTENCE, "--index", "photos.deixis", "--explain"),
    "ground": ("ground", "{photos}/dogs.jpg", SENTENCE),
    "caption": ("caption", "{photos}/dogs.jpg"),
    "describe": ("describe", "{photos}/dogs.jpg"),
}


@dataclass(frozen=True)
class Version:
    """A checkout and the Python that runs it."""

    checkout: Path
    python: str

    def start(self, arguments: tuple[str, ...], folder: Path) -> subprocess.Popen[bytes]:
        photos = self.checkout / "src" / "deixis" / "data" / "samples" / "images"
        command = [self.python, "-m", "deixis", *(argument.format(photos=photos) for argument in arguments)]
        environment = {**os.environ, "PYTHONPATH": str(self.checkout / "src")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


@dataclass(frozen=True)
class Cost:
    """What one process took: seconds and MB."""

    cpu: float
    wall: float
    memory: float


def measure(version: Version, arguments: tuple[str, ...], folder: Path) -> Cost:
    """Run a command to its end."""
    begin = time.perf_counter()
    process = version.start(arguments, folder)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{version.checkout}: deixis {' '.join(arguments)} failed")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, metavar="COMMAND", default=list(COMMANDS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--other-python", default=sys.executable)
    options = parser.parse_args()
    versions = {
        "other": Version(options.other.resolve(), options.other_python),
        "this": Version(HERE, options.python),
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name, version in versions.items():
            (Path(scratch) / name).mkdir()
            measure(version, ("index", "{photos}", "--into", "photos.deixis"), Path(scratch) / name)
        units = ("CPU s", "wall s", "MB")
        print(f"{'':20}" + "".join(f"{f'{unit}: other':>14}{'this':>8}{'ratio':>7}" for unit in units))
        for command in options.only:
            costs: dict[str, list[Cost]] = {name: [] for name in versions}
            for _ in range(options.rounds):
                for name, version in versions.items():
                    costs[name].append(measure(version, COMMANDS[command], Path(scratch) / name))
            cells = []
            for field, digits in (("cpu", 2), ("wall", 2), ("memory", 0)):
                other, this = (min(getattr(cost, field) for cost in costs[name]) for name in ("other", "this"))
                cells.append(f"{other:14.{digits}f}{this:8.{digits}f}{this / other:7.2f}")
            print(f"{command:20}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
