"""Compare the speed of this checkout with another one, such as the previous release.

python benchmarks/versions.py OTHER_CHECKOUT [--rounds 3] [--only NAME…]

Both checkouts run in the same environment, in turns, each workload in its own process. Prints CPU seconds (the best of
the rounds) and their ratio; below 1 this checkout is faster. Photos are the samples of the package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
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
    try:
        from deixis.models.hm_lstm.trees import Forest
        from deixis.models.hm_lstm.model import TreeLSTM
    except ImportError:
        from deixis.models.trees import Forest
        from deixis.models.trees_lstm import TreeLSTM
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tree = "(S (NP (DT a) (JJ brown) (NN dog)) (VP (VBZ runs) (PP (IN in) (NP (NN snow)))))"
    make = getattr(Forest, "from_trees", None) or Forest.of
    forest = make([read_tree(tree)] * 64)
    batch = forest.batch(list(range(64)))
    cell = TreeLSTM(300, 512)
    vectors = torch.randn(8, 300, requires_grad=True)
def run():
    for _ in range(10):
        states = cell(vectors, batch)
        states = states[0] if isinstance(states, tuple) else states
        states.sum().backward()
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
    global project, truths, rehearse, HONEST
    from deixis.annotate.settings import Settings
    from deixis.annotate.project import Project, add_photos
    try:
        from simulated_crowd import HONEST, Truth, simulate_crowd as rehearse
        from deixis.annotate.material import prepare_photo
        try:
            from deixis.annotate.store import Database
        except ImportError:
            from deixis.annotate.database import Database
    except ImportError:
        from deixis.annotate.rehearsal import HONEST, Truth, rehearse
        from deixis.annotate.store.engine import Database
        from deixis.annotate.material import material_of as prepare_photo
    from deixis.data.dataset import Dataset
    photos = list(Dataset(work / "data").photos)
    database = Database("sqlite://")
    (getattr(database, "create_tables", None) or database.make)()
    project = Project(Path(), database, Settings(test_questions=0, first_items=0))
    add_photos(project, [prepare_photo(photo) for photo in photos])
    truths = {photo.id: Truth(photo) for photo in photos}
def run():
    rehearse(project, truths, {HONEST: 6}, seed=0)
""",
}


def run(checkout: Path, *command: str, cwd: Path) -> str:
    """Run Python on a checkout and return its output."""
    paths = f"{checkout / 'src'}{os.pathsep}{checkout / 'scripts'}"
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def prepare(checkout: Path, folder: Path) -> None:
    """Index and import the sample photos with a checkout."""
    samples = checkout / "src" / "deixis" / "data" / "samples"
    run(checkout, "-m", "deixis", "index", str(samples / "images"), "--into", "index", cwd=folder)
    images, entities = str(samples / "images"), str(samples / "entities")
    run(
        checkout,
        "-m",
        "deixis",
        "data",
        "import",
        "--images",
        images,
        "--entities",
        entities,
        "--out",
        "data",
        cwd=folder,
    )


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    checkouts = {"other": options.other.resolve(), "this": HERE}
    print(f"{'':64} {'other':>9} {'this':>9} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as scratch:
        for name, checkout in checkouts.items():
            (Path(scratch) / name).mkdir()
            prepare(checkout, Path(scratch) / name)
        for workload, code in WORKLOADS.items():
            if options.only and not any(workload.startswith(name) for name in options.only):
                continue
            times: dict[str, list[float]] = {name: [] for name in checkouts}
            try:
                for _ in range(options.rounds):
                    for name, checkout in checkouts.items():
                        folder = Path(scratch) / name
                        output = run(checkout, "-c", _HEAD + code + _TAIL, str(folder), cwd=folder)
                        times[name].append(float(output.split()[-1]))
            except RuntimeError as error:
                print(f"{workload:64} {error}")
                continue
            other, this = min(times["other"]), min(times["this"])
            print(f"{workload:64} {other:8.3f}s {this:8.3f}s {this / other:6.2f}", flush=True)


if __name__ == "__main__":
    main()
