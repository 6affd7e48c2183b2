"""Run every benchmark against its peers and write docs/benchmarks.md.

    python benchmarks/all.py DATA [--images FOLDER] [--peers PYTHON | --make-peers] [--only NAME …] [--quick]

DATA is a data set directory with the photos and boxes of Flickr8k and Flickr30k Entities; DEIXIS_DATA, in the
environment, the folder with the files as released. What is missing is said in the page and left out.

Peers that ours does not depend on live in an environment of their own: --make-peers makes it in benchmarks/.peers,
--peers names a Python that has them. Every benchmark runs alone, in a process of its own, and is ended at its time
limit with all that it has started. The page is written anew after each; outputs are kept in docs/benchmarks.json, so
that a run that was stopped keeps what it has, and --only renews some and leaves the others as they are. Each says when
and on what machine it ran. With --quick sizes are small, only to see that all of it runs, and the page goes into a
folder of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from suite import DATA, IMAGES, PEER_PACKAGES, PEERS, SUITE, Benchmark

from deixis.files.atomic import new_file

ROOT = Path(__file__).parents[1]
DOCS, PAGE = ROOT / "docs", "benchmarks.md"
MOST_LINES = 8
INSTALL_S = 600
PACKAGES = ("numpy", "scipy", "torch", "onnxruntime", "numba", "pyarrow", "pillow", "sqlalchemy", "fastapi", "uvicorn")
_LEFT_OUT = re.compile(r"left out|not installed|is missing|without peers|no peer|has no ", re.IGNORECASE)

_HEAD = """# Benchmarks

Written by `make benchmarks DATA=…` ([benchmarks/README.md](../benchmarks/README.md) says how, and what each measures).
The lines below each name are its own; the whole outputs follow. Ratios compare runs of the same minutes on the same
machine; figures of the clock alone mean little on another one.

"""


def machine() -> str:
    """Processor, cores, memory and system, in words."""
    name, memory = platform.processor() or platform.machine(), ""
    if Path("/proc/cpuinfo").exists():
        models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        name = models[0] if models else name
        total = re.search(r"MemTotal: *(\d+)", Path("/proc/meminfo").read_text())
        memory = f", {int(total[1]) / 2**20:.0f} GiB" if total else ""
    return f"{name}, {os.cpu_count()} cores{memory}, {platform.system()} {platform.release()}"


def versions() -> str:
    """Of Python and of what does the work."""
    found = [f"Python {platform.python_version()}"]
    for name in ("deixis", *PACKAGES):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} is not installed")
    return ", ".join(found)


def peer_versions(python: str) -> str:
    """Of the packages in the environment of the peers."""
    code = f"""
from importlib import metadata
for name in {PEER_PACKAGES!r}:
    try: print(name, metadata.version(name))
    except metadata.PackageNotFoundError: print(name, "is not installed")
"""
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return ", ".join(done.stdout.split("\n")).rstrip(", ") if done.returncode == 0 else f"{python} cannot be run"


def filled(options: Sequence[str], places: Mapping[str, str | None]) -> list[str] | None:
    """Options with paths in the place of names; None where one is needed that nobody gave. Peers are not needed."""
    chosen = [places.get(option, option) for option in options]
    if PEERS in options and places.get(PEERS) is None:
        at = options.index(PEERS)
        del chosen[at - 1 : at + 1]
    return None if None in chosen else [str(option) for option in chosen]


def run(benchmark: Benchmark, places: Mapping[str, str | None], quick: bool) -> dict[str, Any]:
    """What came of it: a record for the page."""
    options = filled(benchmark.options(quick), places)
    record = {"when": datetime.now(UTC).isoformat(timespec="minutes"), "machine": machine(), "quick": quick}
    if options is None:
        return record | {"failed": "not run: it needs a data set directory or photos that were not given"}
    python = (benchmark.among_peers and places.get(PEERS)) or sys.executable
    command = [python, str(ROOT / "benchmarks" / benchmark.script), *options]
    begin = time.monotonic()
    output, errors, code = finished(command, 60 * benchmark.minutes)
    if code is None:
        failed = f"ended after its limit of {benchmark.minutes:g} minutes"
    else:
        last = ((errors.strip() or output.strip()).splitlines() or ["without a word"])[-1].strip()
        failed = f"ended with {code}: {last}" if code else ""
    words = {DATA: "DATA", PEERS: "PEERS", IMAGES: "FOLDER"}
    named = [words.get(option, option) for option in benchmark.options(quick)]
    asked = shlex.join(["python", f"benchmarks/{benchmark.script}", *named])
    hidden = [place for place in (*places.values(), os.environ.get("DEIXIS_DATA")) if place]
    return record | {
        "command": asked,
        "seconds": round(time.monotonic() - begin),
        "failed": _without(failed, hidden),
        "output": _without(output, hidden),
    }


def finished(command: Sequence[str], limit_s: float) -> tuple[str, str, int | None]:
    """What a command says on both streams, and its code; None where it was ended at its limit."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        # Of a group of its own: what it has started (servers, peers) ends with it, at its limit and on Ctrl-C.
        process = subprocess.Popen(command, stdout=out, stderr=errors, cwd=ROOT, start_new_session=True)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        errors.seek(0)
        return out.read().decode(errors="replace"), errors.read().decode(errors="replace"), code


def _without(output: str, places: Sequence[str]) -> str:
    """The same without where things lie on this machine."""
    for place in [str(ROOT), *places]:
        output = output.replace(place, "…")
    return output


def page(kept: Mapping[str, Any]) -> str:
    """The page of all that is kept."""
    about = kept.get("about", {})
    lines = [_HEAD + "\n".join(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["| benchmark | against | took | says |", "|---|---|---|---|"]
    for benchmark in SUITE:
        lines.append(_row(benchmark, kept.get(benchmark.name)))
    lines += ["", *_soak(kept.get("soak"))]
    for benchmark in SUITE:
        record = kept.get(benchmark.name)
        if record and record.get("output"):
            when = f"{record['when']}, {record['machine']}" + (
                ", small sizes only (--quick)" if record["quick"] else ""
            )
            lines += [f"## {benchmark.name}", "", f"`{record['command']}`; {when}", ""]
            lines += ["```", record["output"].strip("\n"), "```", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(benchmark: Benchmark, record: Mapping[str, Any] | None) -> str:
    if record is None:
        return f"| {benchmark.name} | {benchmark.peer} | | not run yet |"
    output = record.get("output", "").splitlines()
    told = [line for line in output if re.search(benchmark.shown, line)][:MOST_LINES]
    told += [line for line in output if _LEFT_OUT.search(line) and line not in told]
    if record["failed"]:
        told.insert(0, f"**{record['failed']}**")
    if record["quick"]:
        told.insert(0, "*small sizes, to see that it runs*")
    said = "<br>".join(" ".join(line.split()).replace("|", "\\|") for line in told)
    took = f"{record['seconds']} s" if "seconds" in record else ""
    return f"| {benchmark.name} | {benchmark.peer} | {took} | {said} |"


def _soak(record: Mapping[str, Any] | None) -> list[str]:
    if record is None:
        return ["## Soak", "", "`make soak` was not run yet.", ""]
    said = [f"- {line}" for line in record["lines"]]
    return [
        "## Soak",
        "",
        f"`make soak`, {record['minutes']:g} minutes; {record['when']}, {record['machine']}",
        "",
        *said,
        "",
    ]


def keep(name: str, record: Mapping[str, Any], folder: Path = DOCS) -> None:
    """Put one record beside the others, and write the page anew."""
    file = folder / "benchmarks.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept[name] = record
    for path, text in ((file, json.dumps(kept, indent=1, ensure_ascii=False) + "\n"), (folder / PAGE, page(kept))):
        with new_file(path) as partial:
            partial.write_text(text, encoding="utf-8")


def made_peers() -> str | None:
    """The Python of an environment with all peers that can be installed; None where it cannot be made at all."""
    place = ROOT / "benchmarks" / ".peers"
    pip = [place / "bin" / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    try:
        if not (place / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([*pip, "-e", f"{ROOT}[fast]"], check=True, timeout=INSTALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"the environment of the peers cannot be made, so they are left out ({_line(error)})", file=sys.stderr)
        return None
    for package in PEER_PACKAGES:
        try:
            subprocess.run([*pip, package], check=True, timeout=INSTALL_S)
        except subprocess.SubprocessError as error:
            print(f"{package} cannot be installed, so it is left out ({_line(error)})", file=sys.stderr)
    return str(place / "bin" / "python")


def _line(error: Exception) -> str:
    return str(error).splitlines()[0].replace(str(ROOT), "…")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="a data set directory")
    parser.add_argument("--images", help="a folder of photos; that of the data set, by default")
    parser.add_argument("--peers", help="a Python that has the peers")
    parser.add_argument("--make-peers", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in SUITE], metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all of it runs")
    options = parser.parse_args()
    peers = made_peers() if options.make_peers else options.peers
    images = options.images or (_images_of(options.data) if options.data else None)
    about = {"machine": machine(), "versions": versions()}
    about["peers"] = peer_versions(peers) if peers else "no environment of peers was given"
    about["written"] = datetime.now(UTC).strftime("%Y-%m-%d")
    folder = Path(tempfile.mkdtemp()) if options.quick else DOCS
    keep("about", about, folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what runs too
    failures = []
    chosen = [each for each in SUITE if not options.only or each.name in options.only]
    for benchmark in chosen:
        print(f"{benchmark.name}, at most {benchmark.minutes:g} minutes …", end=" ", flush=True)
        try:
            record = run(benchmark, {DATA: options.data, PEERS: peers, IMAGES: images}, options.quick)
        except KeyboardInterrupt:
            sys.exit(f"stopped; what was measured before is in {folder / PAGE}")
        keep(benchmark.name, record, folder)
        failures += [benchmark.name] if record["failed"] else []
        print(record["failed"] or f"{record['seconds']} s", flush=True)
    print(folder / PAGE)
    if failures:
        sys.exit(f"failed or not run: {', '.join(failures)}")


def _images_of(data: str) -> str | None:
    from deixis.data.dataset import Dataset

    found = Dataset(data).images
    return str(found) if found else None


if __name__ == "__main__":
    main()
