"""Compare the speed of this checkout with another one, such as the previous release.

python benchmarks/versions.py OTHER_CHECKOUT [--rounds 3] [--only NAME…] [--python PYTHON] [--other-python PYTHON]

Both checkouts run in turns, each workload in its own process. Printed are CPU seconds, of commands also wall seconds
and peak memory (maximum resident set), the lowest of the rounds, and their ratios; below 1 this checkout is better.
A command starts cold, with its files in the file cache of the system after the first round. Photos are the samples of
the package; each checkout may have an environment of its own.
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

_HEAD = """
import sys, time
from pathlib import Path
import numpy as np
import deixis
from deixis.data.samples import SAMPLES
PHOTOS = sorted((SAMPLES / "images").glob("*.jpg"))
work = Path(sys.argv[1])
"""

_TAIL = """
prepare()
begin = time.process_time()
run()
print(time.process_time() - begin)
"""

SENTENCE = "two dogs look out of a window"
COMMANDS = {
    "deixis --help": ("--help",),
    "deixis search": ("search", SENTENCE, "--index", "index"),
    "deixis search --explain": ("search", SENTENCE, "--index", "index", "--explain"),
    "deixis ground": ("ground", "{samples}/images/dogs.jpg", SENTENCE),
    "deixis caption": ("caption", "{samples}/images/dogs.jpg"),
    "deixis describe": ("describe", "{samples}/images/dogs.jpg"),
}

WORKLOADS = {
    "search: 200 queries": """
def prepare():
    global photos
    photos = deixis.open_index(work / "index")
    photos.search("a dog")
def run():
    for _ in range(40):
        for query in ("two dogs", "a man with a camera", "dog -snow", "a red flower", "cat +window"):
            photos.search(query)
""",
    "R@K: 2,000 photos × 10,000 sentences": """
def prepare():
    global scores, recall_at_k
    from deixis.evaluation import recall_at_k
    scores = np.random.default_rng(0).normal(size=(2000, 10000)).astype(np.float32)
    recall_at_k(scores[:10, :50], captions_per_photo=5)
def run():
    recall_at_k(scores, captions_per_photo=5).i2t_r1
""",
    "caption scores: 1,500 photos": """
def prepare():
    global made, gold, caption_scores
    from deixis.evaluation import caption_scores
    words = "a the dog man woman red blue ball runs sits on in with grass water street young black white two".split()
    random = np.random.default_rng(0)
    say = lambda: " ".join(random.choice(words, 10))
    made = {str(n): say() for n in range(1500)}
    gold = {str(n): [say() for _ in range(5)] for n in range(1500)}
    caption_scores(dict(list(made.items())[:2]), dict(list(gold.items())[:2]))
def run():
    caption_scores(made, gold).bleu4
""",
    "CCA: 20,000 pairs, 512 and 1,000 dimensions": """
def prepare():
    global x, y, CCA
    from deixis.models import CCA
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(20000, size)).astype(np.float32) for size in (512, 1000))
def run():
    CCA(128).fit(x, y)
""",
    "parsing: 300 captions": """
def prepare():
    global parse
    from deixis.language.parser import parse
    parse("A dog runs.")
def run():
    for number in range(300):
        parse(f"A brown dog with {number} spots is running through the snow near two young men in red shirts.")
""",
    "trees: HM-LSTM, 10 batches of 64 trees, forward and backward": """
def prepare():
    global batch, cell, vectors
    import torch
    from deixis.language.trees import read_tree
    from deixis.models.hm_lstm.trees import Forest
    from deixis.models.hm_lstm.network import TreeLSTM, to_tensors
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tree = "(S (NP (DT a) (JJ brown) (NN dog)) (VP (VBZ runs) (PP (IN in) (NP (NN snow)))))"
    forest = Forest.from_trees([read_tree(tree)] * 64)
    batch = to_tensors(forest.batch(list(range(64))))
    cell = TreeLSTM(300, 512)
    vectors = torch.randn(8, 300, requires_grad=True)
def run():
    for _ in range(10):
        cell(vectors, batch).sum().backward()
""",
    "captioning: 14 photos, beam 5": """
def prepare():
    deixis.caption(PHOTOS[0])
def run():
    for photo in PHOTOS:
        deixis.caption(photo)
""",
    "grounding: 14 photos": """
def prepare():
    deixis.ground(PHOTOS[0], "Two dogs.")
def run():
    for photo in PHOTOS:
        deixis.ground(photo, "A man in a red hat holds a camera near the water.")
""",
    "annotation: a simulated crowd on 14 photos": """
def prepare():
    global project, truths, simulate_crowd, HONEST
    from simulated_crowd import HONEST, Truth, simulate_crowd
    from deixis.annotate.material import prepare_photo
    from deixis.annotate.project import Project, add_photos
    from deixis.annotate.settings import Settings
    from deixis.annotate.store import Database
    from deixis.data.dataset import Dataset
    photos = list(Dataset(work / "data").photos)
    database = Database("sqlite://")
    database.create_tables()
    project = Project(Path(), database, Settings(test_questions=0, first_items=0))
    add_photos(project, [prepare_photo(photo) for photo in photos])
    truths = {photo.id: Truth(photo) for photo in photos}
def run():
    simulate_crowd(project, truths, {HONEST: 6}, seed=0)
""",
}


PREPARATION = (
    ("index", "{samples}/images", "--into", "index"),
    ("data", "import", "--images", "{samples}/images", "--entities", "{samples}/entities", "--out", "data"),
)


@dataclass(frozen=True)
class Version:
    """A checkout and the Python that runs it, in a folder of its own."""

    checkout: Path
    python: str
    folder: Path

    def measure(self, *command: str) -> tuple[str, dict[str, float]]:
        """Run Python to its end; return its output, its CPU and wall seconds and its peak memory in MB."""
        paths = f"{self.checkout / 'src'}{os.pathsep}{self.checkout / 'scripts'}"
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            begin = time.perf_counter()
            process = subprocess.Popen(
                [self.python, *command], cwd=self.folder, env=environment, stdout=output, stderr=errors
            )
            _, status, used = os.wait4(process.pid, 0)
            wall = time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            errors.seek(0)
            if process.returncode:
                raise RuntimeError(errors.read().strip().splitlines()[-1])
            unit = 2**20 if sys.platform == "darwin" else 2**10
            cost = {"CPU s": used.ru_utime + used.ru_stime, "wall s": wall, "MB": used.ru_maxrss / unit}
            return output.read(), cost

    def cost(self, workload: str) -> dict[str, float]:
        """What a workload takes."""
        if workload in COMMANDS:
            return self.run_command(COMMANDS[workload])
        output, _ = self.measure("-c", _HEAD + WORKLOADS[workload] + _TAIL, str(self.folder))
        return {"CPU s": float(output.split()[-1])}

    def run_command(self, words: tuple[str, ...]) -> dict[str, float]:
        samples = self.checkout / "src" / "deixis" / "data" / "samples"
        return self.measure("-m", "deixis", *(word.format(samples=samples) for word in words))[1]


def main() -> None:
    """Print a line for each workload and unit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--other-python", default=sys.executable)
    options = parser.parse_args()
    print(f"{'':64} {'other':>9} {'this':>9} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as scratch:
        versions = {
            "other": Version(options.other.resolve(), options.other_python, Path(scratch) / "other"),
            "this": Version(HERE, options.python, Path(scratch) / "this"),
        }
        for version in versions.values():
            version.folder.mkdir()
            for words in PREPARATION:
                version.run_command(words)
        for workload in (*COMMANDS, *WORKLOADS):
            if options.only and not any(workload.startswith(name) for name in options.only):
                continue
            costs: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
            try:
                for _ in range(options.rounds):
                    for name, version in versions.items():
                        costs[name].append(version.cost(workload))
            except RuntimeError as error:
                print(f"{workload:64} {error}")
                continue
            for unit in costs["this"][0]:
                other, this = (min(cost[unit] for cost in costs[name]) for name in versions)
                print(f"{f'{workload}, {unit}':64} {other:9.3f} {this:9.3f} {this / other:6.2f}", flush=True)


if __name__ == "__main__":
    main()
