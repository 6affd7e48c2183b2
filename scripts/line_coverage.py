"""Measure which lines of the package the fast tier executes, and print the share of each package.

    .venv/bin/python scripts/line_coverage.py --out coverage.txt

Run it in the checkout to be measured, with the Python of its environment; Python 3.12 and later measure faster.
Coverage.py is installed into a temporary folder. Tests run one folder after the other, in one process each, or
several at once (`--jobs`); processes that they start are measured too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
CONFIG = """\
[run]
source = {source}
data_file = ${{LINES}}/lines
parallel = true
sigterm = true
concurrency = thread, multiprocessing
core = {core}
"""


def test_folders(tests: Path) -> list[Path]:
    """Return folders of tests, those of packages first; tests of no folder are measured at the end."""
    late = ("browser", "faults", "fuzz", "soak", "benchmarks", "scripts")
    folders = [path for path in tests.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))]
    return [*sorted(folders, key=lambda path: (path.name in late, path.name)), *sorted(tests.glob("test_*.py"))]


def shares(report: Path, source: Path) -> list[tuple[str, int, int]]:
    """Return each package, the number of its lines and of those that were executed."""
    lines, executed = Counter[str](), Counter[str]()
    for name, found in json.loads(report.read_text("utf-8"))["files"].items():
        package = Path(name).resolve().relative_to(source).parts[0].removesuffix(".py")
        lines[package] += found["summary"]["num_statements"]
        executed[package] += found["summary"]["covered_lines"]
    lines["all"], executed["all"] = lines.total(), executed.total()
    return [(package, lines[package], executed[package]) for package in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", type=Path, help="folders or files of tests; all by default")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="table, updated after each folder")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the measured data, and add to it")
    parser.add_argument("--jobs", type=int, default=1, help="folders at once")
    options = parser.parse_args()
    source = Path("src/deixis").resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder, data = Path(temporary), (options.keep or Path(temporary, "data")).resolve()
        data.mkdir(exist_ok=True)
        subprocess.run([*PIP, "--target", str(folder), "coverage"], check=True)  # noqa: S603
        (folder / "sitecustomize.py").write_text("import coverage\n\ncoverage.process_startup()\n")
        config = folder / "coverage.ini"
        config.write_text(CONFIG.format(source=source, core="sysmon" if sys.version_info >= (3, 12) else "ctrace"))
        path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

        def coverage(action: str, *arguments: str) -> None:
            command = [sys.executable, "-m", "coverage", action, f"--rcfile={config}", *arguments]
            variables = {**environment, "LINES": str(data)}
            subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)  # noqa: S603

        def own(tests: Path) -> Path:
            return data / str(tests).replace("/", "-")

        def run(tests: Path) -> str:
            begin = time.monotonic()
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", str(tests)]
            own(tests).mkdir(exist_ok=True)
            measured = {**environment, "COVERAGE_PROCESS_START": str(config), "LINES": str(own(tests))}
            done = subprocess.run(command, env=measured, capture_output=True, text=True)  # noqa: S603
            last = (done.stdout.splitlines() or [done.stderr])[-1]
            return f"{tests}: {last.strip('= ')} ({time.monotonic() - begin:.0f} s)"

        log: list[str] = []
        folders = options.tests or test_folders(Path("tests"))
        with ThreadPoolExecutor(options.jobs) as pool:
            for tests, line in zip(folders, pool.map(run, folders), strict=True):
                print(line, flush=True)
                log.append(line)
                coverage("combine", "--append", "--quiet", str(own(tests)))
                coverage("json", "--quiet", "-o", str(folder / "report.json"))
                rows = shares(folder / "report.json", source)
                table = [f"{name:14} {lines:6} {done:6} {100 * done / lines:6.2f} %" for name, lines, done in rows]
                options.out.write_text("\n".join([f"{'package':14} {'lines':>6} {'run':>6}", *table, "", *log]) + "\n")


if __name__ == "__main__":
    main()
