"""Put single-token faults into the package, one at a time, and report which of them the tests of its package find.

    python scripts/deliberate_faults.py --faults 40 --seed 1
    python scripts/deliberate_faults.py --draw faults.json --faults 50 --other ../base
    python scripts/deliberate_faults.py --from faults.json --checkout ../base --json base.json

Faults are drawn at random: first a module, then a token of it; with ``--other``, only from lines that another checkout
has too, once in the package, in whatever module. Faults that were saved with ``--draw`` can be put into any checkout
that has their lines. Each fault is applied to a temporary copy of the checkout, in which the tests of the package run
until the first one fails: those of the module first, then those of its package, and those of the command line for
models and search. A test that also fails without a fault does not count.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache")
SWAPPED = [("<", "<="), (">", ">="), ("==", "!="), ("+", "-"), ("+=", "-="), ("*", "/"), ("//", "/"), ("and", "or")]
SWAPPED += [("True", "False"), ("min", "max"), ("any", "all"), ("minimum", "maximum"), ("argmin", "argmax")]
REPLACED = {**dict(SWAPPED), **{new: old for old, new in SWAPPED if new != "/"}, "not": "", "break": "pass"}
SYMMETRIC = ("min", "max", "isinstance", "np.minimum", "np.maximum", "math.gcd")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """A change of one line of a package: `line` is the text without indentation, which identifies it."""

    package: str
    line: str
    start: int
    end: int
    new: str

    @property
    def changed(self) -> str:
        return self.line[: self.start] + self.new + self.line[self.end :]


def package_of(module: Path, checkout: Path) -> str:
    """Return the first folder below the package, or the name of a module that is in none."""
    return module.relative_to(checkout / "src/deixis").parts[0].removesuffix(".py")


def lines_of_packages(checkout: Path) -> dict[tuple[str, str], list[tuple[Path, int]]]:
    """Return the modules and line numbers, from 0, of each line of each package."""
    found: dict[tuple[str, str], list[tuple[Path, int]]] = {}
    for module in sorted((checkout / "src/deixis").rglob("*.py")):
        for number, line in enumerate(module.read_text("utf-8").splitlines()):
            found.setdefault((package_of(module, checkout), line.strip()), []).append((module, number))
    return found


def faults_of(module: Path, checkout: Path) -> Iterator[Fault]:
    """Yield every possible fault of a module."""
    text = module.read_text("utf-8")
    lines, package = text.splitlines(), package_of(module, checkout)

    def fault(row: int, start: int, end: int, new: str) -> Fault:
        line = lines[row - 1]
        indent = len(line) - len(line.lstrip())
        return Fault(package, line.strip(), start - indent, end - indent, new)

    for before, token in pairwise(tokenize.generate_tokens(io.StringIO(text).readline)):
        (row, start), end = token.start, token.end[1]
        is_prefix = before.string in ("(", "[", "{", ",", "=", ":", "lambda", "return", "import")  # *arguments, -1
        if token.type == tokenize.NUMBER and token.string.isdigit():
            yield fault(row, start, end, str(int(token.string) + 1))
        elif token.string in REPLACED and not (is_prefix and token.string in "*/-+"):
            yield fault(row, start, end, REPLACED[token.string])
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call | ast.Return) or not lines[node.lineno - 1].isascii():
            continue  # the parser counts bytes
        if isinstance(node, ast.Return) and node.value and node.value.end_lineno == node.lineno:
            yield fault(node.lineno, node.value.col_offset, node.value.end_col_offset or 0, "None")
        elif isinstance(node, ast.Call) and len(node.args) > 1 and ast.unparse(node.func) not in SYMMETRIC:
            first, second = node.args[:2]
            if node.lineno == first.lineno == second.end_lineno:
                line, end = lines[node.lineno - 1], second.end_col_offset or 0
                begin, between = (
                    line[first.col_offset : first.end_col_offset],
                    line[first.end_col_offset : second.col_offset],
                )
                yield fault(node.lineno, first.col_offset, end, line[second.col_offset : end] + between + begin)


def draw(count: int, seed: int, checkouts: list[Path]) -> list[Fault]:
    """Draw faults of different modules whose line is once in the package, in every checkout."""
    places = [lines_of_packages(checkout) for checkout in checkouts]
    rng, found, main = random.Random(seed), [], checkouts[0]  # noqa: S311
    modules = sorted((main / "src/deixis").rglob("*.py"))
    rng.shuffle(modules)
    for module in modules:
        text = module.read_text("utf-8")
        possible = [
            fault
            for fault in faults_of(module, main)
            if all(len(lines.get((fault.package, fault.line), ())) == 1 for lines in places)
        ]
        rng.shuffle(possible)
        found += next(([fault] for fault in possible if is_valid(text, fault)), [])
        if len(found) == count:
            break
    return found


def is_valid(text: str, fault: Fault) -> bool:
    """Whether the module can still be parsed, and means something else."""
    try:
        return ast.dump(ast.parse(text)) != ast.dump(ast.parse(text.replace(fault.line, fault.changed)))
    except (SyntaxError, ValueError):
        return False


def tests_of(module: Path, checkout: Path) -> list[str]:
    """Return the tests of a module, nearest first."""
    inside, tests = module.relative_to(checkout / "src/deixis"), checkout / "tests"
    near = [tests / inside.parent / f"test_{inside.name}", *(tests / folder for folder in inside.parents[:-1])]
    near += [tests / inside.with_suffix("")] if len(inside.parts) == 1 else []
    near += [tests / "cli"] if inside.parts[0] in ("models", "search") else []
    found = [str(path.relative_to(checkout)) for path in near if path.exists()]
    return found or sorted(str(path.relative_to(checkout)) for path in tests.glob("test_*.py"))


def link(source: str, to: str) -> None:
    """Link a file to save time and space, or copy it to another file system."""
    try:
        os.link(source, to)
    except OSError:
        shutil.copy2(source, to)


class Copies:
    """Temporary copies of a checkout; each is used for one fault at a time."""

    def __init__(self, checkout: Path, number: int, folder: Path, minutes: float) -> None:
        self.checkout, self.seconds = checkout, 60 * minutes
        self.places = lines_of_packages(checkout)
        self.failing: set[str] = set()  # tests that fail without a fault
        self.free: Queue[Path] = Queue()
        for index in range(number):
            shutil.copytree(checkout, folder / str(index), ignore=LEFT_OUT, copy_function=link, symlinks=True)
            self.free.put(folder / str(index))

    def judge(self, fault: Fault) -> dict[str, object]:
        """Apply a fault, run the tests, and return which test found it."""
        (module, number), *_ = self.places[fault.package, fault.line]
        copy, begin = self.free.get(), time.monotonic()
        place = copy / module.relative_to(self.checkout)
        tests = tests_of(module, self.checkout)
        lines = module.read_text("utf-8").splitlines(keepends=True)
        lines[number] = lines[number].replace(fault.line, fault.changed)
        try:
            while True:
                place.unlink()  # a link to the file of the checkout
                place.write_text("".join(lines), "utf-8")
                failed, state = self.run(copy, tests)
                place.unlink()
                link(str(module), str(place))
                if not failed or failed in self.failing or not self.run(copy, [failed])[0]:
                    break
                self.failing.add(failed)
        finally:
            self.free.put(copy)
        seconds = round(time.monotonic() - begin)
        at = f"{module.relative_to(self.checkout)}:{number + 1}"
        return {"state": state, "module": at, "test": failed, "seconds": seconds}

    def run(self, copy: Path, tests: list[str]) -> tuple[str, str]:
        """Run tests until one fails; return its name, or nothing, and the state of the fault."""
        skipped = [f"--deselect={name}" for name in sorted(self.failing)]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "no:randomly"]
        path = os.pathsep.join([str(copy / "src"), str(copy)])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        with (copy / "pytest.log").open("w+", errors="replace") as log:
            process = subprocess.Popen(  # noqa: S603
                [*command, "-n", "0", "-m", "not slow", *skipped, *tests],
                **{"cwd": copy, "env": environment, "stdout": log, "stderr": log, "start_new_session": True},
            )
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests have started
                process.wait()
                return "", "timed out"
            log.seek(0)
            match = FAILED.search(log.read())
        if code in (0, 5):  # all passed, or none was selected
            return "", "missed"
        return (match[1] if match else ""), "found"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--other", type=Path, metavar="CHECKOUT", help="draw from lines that this checkout has too")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw faults, and save them in this file")
    parser.add_argument("--from", type=Path, dest="drawn", metavar="FILE", help="the first N faults of such a file")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="where faults are applied; by default here")
    parser.add_argument("--jobs", type=int, default=1, help="faults at once")
    parser.add_argument("--minutes", type=float, default=15, help="time limit of the tests of a fault")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results to this file; continue those in it"
    )
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    if options.drawn:
        places = lines_of_packages(checkout)
        faults = [Fault(**each) for each in json.loads(options.drawn.read_text())]
        faults = [each for each in faults if len(places.get((each.package, each.line), ())) == 1][: options.faults]
    else:
        others = [options.other.resolve()] if options.other else []
        faults = draw(options.faults, options.seed, [checkout, *others])
    if options.draw:
        options.draw.write_text(json.dumps([asdict(fault) for fault in faults], indent=1) + "\n")
        return
    results: list[dict[str, object]] = []
    if options.json and options.json.exists():  # of a run that was interrupted
        results = json.loads(options.json.read_text())
        faults = faults[len(results) :]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies = Copies(checkout, options.jobs, Path(folder), options.minutes)
        for fault, found in zip(faults, pool.map(copies.judge, faults), strict=True):
            results.append({**asdict(fault), **found})
            print(f"{len(results)}. {fault.line}\n   {fault.changed}")
            print(f"   {found['state']}: {found['module']} {found['test']} ({found['seconds']} s)", flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{checkout}: {dict(Counter(result['state'] for result in results))} of {len(results)}")


if __name__ == "__main__":
    main()
