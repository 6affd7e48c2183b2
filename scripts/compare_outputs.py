"""Run the same commands with two checkouts of deixis and report every difference in what they print, save and export.

    python scripts/compare_outputs.py ../base            # this checkout against another one
    python scripts/compare_outputs.py ../base --checkout ../other --quick
    python scripts/compare_outputs.py ../base --scores flickr8k.data

Both sides run in folders of their own that hold the same files, so that relative paths are the same. The inputs
(scenes, features, a trained grounder's data, an annotated project) are made once, by the base checkout.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = {"figures": 1e-5, "tensors": 1e-6}
"""Relative and, of tensors, absolute."""

RENAMED = {"m-rnn": "captioner"}
"""Shipped models of the base, and their new names. Trained models keep theirs: m-rnn is the network of the paper."""

MOVED = (
    *("cell_size", "hidden_size", "recurrent_cell", "dropout", "word_dropout", "scheduled_sampling", "label_smoothing"),
    *("attention", "attention_dim", "attention_heads", "second_attention", "cell_layers", "cell_dim"),
    *("feature_grid", "views", "objective", "reward_samples", "repetition_penalty", "wrong_word_penalty", "monitor"),
    *("likelihood_weight", "repeated_split", "match_model", "match_weight", "init_from"),
)
"""Settings of m-rnn in the base that only the captioner has now, or no model."""

MASKED = re.compile(
    r"(^|_)(seconds|time|times|created|date|taken|version|versions|duration|fingerprint|code|sha256|checksum|uid|id)s?$"
)
"""Keys whose values differ between runs or code, not between behaviours."""

MASKED_TEXT = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|seconds|minutes|photos/s)\b"), "DURATION"),
)

TRAINED = {
    "cca": ("embedding_dim=16",),
    "two-branch": ("epochs=1", "hidden_size=16"),
    "grounder": ("epochs=1", "hidden_size=16"),
    "m-rnn": ("epochs=1",),
    "hm-lstm": ("epochs=1", "round_epochs=1", "hidden_size=16", "word_vectors=shipped"),
}
EXPORTS = ("entities", "coco", "karpathy", "jsonl", "odvg", "label-studio")
QUERIES = ("a cat", "two people on a street", "a rocket in:photos", "coffee +cup -cat", "no dogs", "a zebra")

PROJECT = """
import sys
from pathlib import Path
from simulated_crowd import HONEST, SPAMMER, Truth, simulate_crowd
from deixis.annotate.project import open_project
from deixis.data.dataset import Dataset
project = open_project(Path("project"))
truths = {photo.id: Truth(photo) for photo in Dataset(Path("samples")).photos}
simulate_crowd(project, truths, {HONEST: 5, SPAMMER: 1}, seed=3)
"""

SCENES = """
import sys
from pathlib import Path
from tests.scenes import write_scenes
write_scenes(Path("scenes"), int(sys.argv[1]), {"train": 0.8, "dev": 0.1, "test": 0.1})
"""

TENSORS = """
import json, sys
from pathlib import Path
from safetensors.numpy import load_file
import numpy as np
found = {}
for file in sorted(Path(sys.argv[1]).rglob("*.safetensors")):
    for name, array in load_file(file).items():
        flat = np.asarray(array, dtype=np.float64).ravel()
        weights = np.cos(np.arange(flat.size))  # depends on the order of the values
        found[f"{file.relative_to(sys.argv[1])} {name}"] = {"shape": list(array.shape), "type": str(array.dtype),
            "first": flat[:50].tolist(), "mean": float(flat.mean()), "weighted mean": float((flat * weights).mean())}
print(json.dumps(found))
"""


class Side:
    """A checkout, and the folder that its commands run in."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.checkout, self.folder = checkout.resolve(), folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (self.checkout / "src", self.checkout / "scripts", ROOT))),
            "ORT_DISABLE_TELEMETRY": "1",
            "OMP_NUM_THREADS": "1",  # sums do not depend on the number of threads
            "XDG_DATA_HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "home"),
        }

    def python(self, *arguments: str) -> str:
        """Run Python and return what it prints, or its error, which is compared too."""
        command = [sys.executable, *arguments]
        done = subprocess.run(  # noqa: S603
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        text = done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr.strip()[-500:]}"
        return text.replace(str(self.folder), "FOLDER").replace(str(self.checkout), "CHECKOUT")

    def deixis(self, *arguments: str) -> Any:
        """Run a command and return its JSON document, or its text."""
        return parse(self.python("-m", "deixis", *arguments))

    def model(self, name: str) -> str:
        """Return the name of a model in this checkout."""
        new = RENAMED.get(name, name)
        package = self.checkout / "src" / "deixis" / "models" / new.replace("-", "_")
        return new if package.is_dir() and new != name else name

    def openapi(self, *server: str) -> Any:
        """Start a server and return its OpenAPI document."""
        port = 20000 + os.getpid() % 20000
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "deixis", *server, "--no-open", "--port", str(port)],
            **{"cwd": self.folder, "env": self.environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE},
        ) as process:
            try:
                for _ in range(120):
                    time.sleep(0.5)
                    try:
                        address = f"http://127.0.0.1:{port}/api/openapi.json"
                        with urllib.request.urlopen(address, timeout=10) as answer:
                            return json.load(answer)
                    except OSError:
                        if process.poll() is not None:
                            break
                return f"no answer of {' '.join(server)}"
            finally:
                process.terminate()


def parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def differences(base: Any, other: Any, kind: str = "figures", at: str = "") -> Iterator[str]:
    """Yield a line for each value that differs."""
    limit = TOLERANCE[kind]
    if isinstance(base, dict) and isinstance(other, dict):
        base, other = renamed(base), renamed(other)
        for key in sorted({*base, *other}):
            if key in MOVED and key not in other and {"multimodal_dim", "photo_size"} & other.keys():
                continue
            if key not in base or key not in other:
                yield f"{at}/{key}: only in {'this' if key in other else 'the base'}"
            elif not MASKED.search(key):
                yield from differences(base[key], other[key], kind, f"{at}/{key}")
    elif isinstance(base, list) and isinstance(other, list):
        if len(base) != len(other):
            yield f"{at}: {len(base)} entries in the base, {len(other)} in this"
        for number, pair in enumerate(zip(base, other, strict=False)):
            yield from differences(*pair, kind, f"{at}/{number}")
    elif isinstance(base, bool) or not isinstance(base, int | float) or not isinstance(other, int | float):
        if mask(base) != mask(other):
            yield f"{at}: {str(base)[:160]!r} in the base, {str(other)[:160]!r} in this"
    elif not math.isclose(base, other, rel_tol=limit, abs_tol=limit if kind == "tensors" else 1e-9):
        yield f"{at}: {base} in the base, {other} in this"


def renamed(document: Mapping[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(key, key): value for key, value in document.items()}


def mask(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    for pattern, name in MASKED_TEXT:
        value = pattern.sub(name, value)
    for old, new in RENAMED.items():
        value = value.replace(old, new)
    return value


def files_of(folder: Path) -> dict[str, Any]:
    """Return the text files of a folder, parsed; lines of JSON are lists."""
    found: dict[str, Any] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        if file.suffix == ".jsonl":
            found[name] = [parse(line) for line in file.read_text().splitlines()]
        elif file.suffix in (".json", ".txt", ".xml", ".csv", ".md"):
            found[name] = parse(file.read_text())
        else:
            found[name] = "a binary file"
    return found


def prepare(base: Side, quick: bool) -> None:
    """Make the inputs of both sides."""
    samples = base.checkout / "src/deixis/data/samples"
    shutil.copytree(samples / "images", base.folder / "photos")
    shutil.copytree(samples / "entities", base.folder / "entities")
    photos = "16" if quick else "60"
    (base.folder / "sentences.txt").write_text("A cat looks up.\nA rocket starts.\nA cup of coffee.\n")
    if error := base.python("-c", SCENES, photos):
        raise SystemExit(f"the scenes: {error}")
    for command in (
        ("data", "import", "--images", "photos", "--entities", "entities", "--out", "samples"),
        ("data", "import", "--images", "scenes/images", "--captions", "scenes/photos.jsonl", "--out", "data"),
        ("features", "data", "--encoder", "deixis", "--proposals", "head"),
        ("annotate", "init", "project", "--data", "samples"),
    ):
        if isinstance(answer := base.deixis(*command), str) and answer.startswith("exit"):
            raise SystemExit(f"{' '.join(command)}: {answer}")
    if error := base.python("-c", PROJECT):
        raise SystemExit(f"the simulated crowd: {error}")


Case = tuple[str, str, Callable[[Side], Any]]


def cases(quick: bool) -> Iterator[Case]:
    """Yield what is compared: a name, the kind of its numbers, and a function that gives it."""

    def command(*arguments: str) -> Case:
        shipped = arguments[0] != "train"
        return (
            " ".join(arguments),
            "figures",
            lambda side: side.deixis(*(map(side.model, arguments) if shipped else arguments), "--json"),
        )

    yield command("index", "photos", "--into", "photos.deixis")
    for query in QUERIES:
        yield command("search", query, "--index", "photos.deixis", "--all")
    yield command("search", "a cat and a cup", "--index", "photos.deixis", "--explain")
    yield command("search", "--like", "photos/cat.jpg", "--index", "photos.deixis")
    yield command("ground", "photos/cat.jpg", "a cat with green eyes")
    yield command("caption", "photos/cat.jpg", "photos/rocket.jpg")
    yield command("describe", "photos/coffee.jpg")
    yield command("match", "photos/cat.jpg", "--sentences", "sentences.txt")
    yield command("models")
    yield command("data", "stats", "samples")
    yield command("data", "check", "data")
    yield command("annotate", "status", "project")
    for form in EXPORTS:
        yield command("annotate", "export", "project", "--to", form, "--out", f"export-{form}")
        yield f"files of {form}", "figures", lambda side, form=form: files_of(side.folder / f"export-{form}")
    yield (
        "OpenAPI of deixis serve",
        "figures",
        lambda side: side.openapi("serve", "--index", "photos.deixis", "--no-token"),
    )
    yield "OpenAPI of deixis annotate serve", "figures", lambda side: side.openapi("annotate", "serve", "project")
    for model, settings in TRAINED.items():
        if quick and model not in ("cca", "two-branch"):
            continue
        options = [option for setting in settings for option in ("--set", setting)]
        yield command("train", model, "--data", "data", "--out", f"{model}.model", *options)
        for part in ("config.json", "tensors"):
            yield f"{part} of {model}", "tensors", lambda side, model=model, part=part: saved(side, model, part)
        if model in ("cca", "two-branch"):
            yield command("evaluate", "retrieval", "--model", f"{model}.model", "--data", "data")
    if not quick:
        yield command("evaluate", "captions", "--model", "m-rnn.model", "--data", "data", "--rerank", "none")
        yield command("evaluate", "grounding", "--model", "grounder.model", "--data", "data")
        yield command(
            "table", "entities-3", "--data", "data", "--seeds", "1", "--rows", "cca", "--set", "embedding_dim=16"
        )


def saved(side: Side, model: str, part: str) -> Any:
    """Return the configuration or a summary of the tensors of a trained model."""
    folder = side.folder / f"{model}.model"
    if part == "tensors":
        return parse(side.python("-c", TENSORS, str(folder)))
    configurations = sorted(folder.rglob("config.json"))
    return {str(file.relative_to(folder)): json.loads(file.read_text()) for file in configurations}


def score_cases(data: str) -> Iterator[Case]:
    """Yield evaluations of the shipped models on the dev split of a data set."""
    for task, model in (("retrieval", "two-branch"), ("grounding", "grounder"), ("captions", "m-rnn")):
        arguments = ("evaluate", task, "--model", model, "--data", data, "--split", "dev", "--json")
        yield " ".join(arguments), "figures", lambda side, arguments=arguments: side.deixis(*map(side.model, arguments))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", type=Path, help="checkout to compare with")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="checkout to compare (default: this one)")
    parser.add_argument("--quick", action="store_true", help="fewer scenes and models")
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument(
        "--scores", metavar="DATA", type=Path, help="compare figures of the shipped models on this data"
    )
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        base, other = Side(options.base, Path(temporary, "base")), Side(options.checkout, Path(temporary, "this"))
        base.folder.mkdir()
        if options.scores:
            other.folder.mkdir()
            chosen = list(score_cases(str(options.scores.resolve())))
        else:
            prepare(base, options.quick)
            shutil.copytree(base.folder, other.folder)
            chosen = list(cases(options.quick))
        for name, kind, run in (case for case in chosen if options.only in case[0]):
            expected, found = run(base), run(other)
            lines = list(differences(expected, found, kind))
            both_failed = isinstance(expected, str) and expected.startswith(("exit", "no answer"))
            failed += bool(lines) or both_failed  # of what fails on both sides, nothing was compared
            state = "differs" if lines else f"fails in both: {expected[-160:]}" if both_failed else "same"
            print(f"{name}: {state}", flush=True)
            for line in lines[:12]:
                print(f"    {line}")
            if len(lines) > 12:
                print(f"    and {len(lines) - 12} more")
    print(f"{failed} of {len(chosen)} differ or fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
