"""Memory of CCA, its speed compared with cca-zoo, and the training speed of the two-branch networks.

python benchmarks/matching.py [memory] [speed] [training] [mining] [--peer-python PATH] [--rounds N]

memory: 30,000 pairs of 4,096 and 6,000 dimensions, reduced to 256 in one pass. The pairs are generated block by block,
so that the process grows by the memory of CCA and of one block.

speed: 20,000 pairs of 2,048 and 3,000 dimensions, reduced to 256, by our CCA and by cca-zoo's on the same arrays.
cca-zoo is imported in this interpreter or that of --peer-python. Each runs in its own process, in turns, and its best
round counts. CPU seconds are printed too, because wall time is unreliable on a busy machine; set OPENBLAS_NUM_THREADS=1
there, because threads wait for each other longer than they compute.

training, mining: see `matching_training.py`; on a GPU if there is one, else on the CPU in a small size.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

COMPONENTS = 256
HIDDEN = 300
"""Number of latent dimensions that both views share, with decreasing strength."""

PEER = """
import json, sys, time
import numpy as np
from cca_zoo.linear import CCA
x, y = (np.load(f"{sys.argv[1]}/{side}.npy") for side in "xy")
wall, cpu = time.perf_counter(), time.process_time()
model = CCA(int(sys.argv[2])).fit([x, y])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
one, other = (part.astype(float) for part in model.transform([x, y]))
correlations = [float(np.corrcoef(one[:, i], other[:, i])[0, 1]) for i in range(one.shape[1])]
print(json.dumps({"wall": wall, "cpu": cpu, "correlations": correlations}))
"""

OURS = """
import json, sys, time
import numpy as np
from deixis.models import CCA
x, y = (np.load(f"{sys.argv[1]}/{side}.npy") for side in "xy")
wall, cpu = time.perf_counter(), time.process_time()
model = CCA(int(sys.argv[2]), regularization=0).fit(x, y)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({"wall": wall, "cpu": cpu, "correlations": model.correlations_.tolist()}))
"""


def pairs(count: int, x_size: int, y_size: int, block: int = 4096) -> Iterator[tuple[Floats, Floats]]:
    """Yield blocks of pairs with shared latent dimensions."""
    rng = np.random.default_rng(0)
    weights = 0.98 ** np.arange(HIDDEN, dtype=np.float32)[:, None]
    to_x = weights * rng.standard_normal((HIDDEN, x_size), dtype=np.float32) / 8
    to_y = weights * rng.standard_normal((HIDDEN, y_size), dtype=np.float32) / 8
    for start in range(0, count, block):
        rows = min(block, count - start)
        hidden = rng.standard_normal((rows, HIDDEN), dtype=np.float32)
        x, y = (rng.standard_normal((rows, size), dtype=np.float32) for size in (x_size, y_size))
        x += hidden @ to_x + np.float32(0.5)
        y += hidden @ to_y + np.float32(0.5)
        yield x, y


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def print_memory(count: int = 30_000, x_size: int = 4096, y_size: int = 6000) -> None:
    from deixis.models import CCA

    CCA(1).fit(*(np.random.default_rng(0).normal(size=(2, 10, 2))))  # lazy imports are not counted as CCA's memory
    before, began, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    cca = CCA(COMPONENTS).fit_blocks(pairs(count, x_size, y_size))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    grown, all_at_once = (peak_bytes() - before) / 1e9, count * (x_size + y_size) * 4 / 1e9
    print(f"memory: {count:,} pairs of {x_size:,} + {y_size:,} to {cca.dimension}, generated block by block")
    print(f"memory: peak {grown:.2f} GB more than before; all pairs at once would be {all_at_once:.2f} GB more")
    print(f"memory: {wall:.0f} s wall time, {cpu:.0f} s CPU time, including the generation of pairs")


def run(python: str, code: str, folder: str) -> dict[str, Any] | None:
    """Run one implementation; return its figures, or None if its modules are missing."""
    done = subprocess.run([python, "-c", code, folder, str(COMPONENTS)], capture_output=True, text=True)
    if done.returncode:
        if "ModuleNotFoundError" not in done.stderr:
            sys.exit(done.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def print_speed(peer_python: str, rounds: int, count: int = 20_000, x_size: int = 2048, y_size: int = 3000) -> None:
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        x, y = (np.vstack(side) for side in zip(*pairs(count, x_size, y_size), strict=True))
        np.save(Path(folder) / "x.npy", x)
        np.save(Path(folder) / "y.npy", y)
        del x, y
        for _ in range(rounds):
            for found, python, code in ((ours, sys.executable, OURS), (theirs, peer_python, PEER)):
                measured = run(python, code, folder)
                if measured is not None:
                    found.append(measured)
    wall, cpu = (min(each[clock] for each in ours) for clock in ("wall", "cpu"))
    print(f"speed: deixis {wall:.1f} s wall time, {cpu:.1f} s CPU time")
    if not theirs:
        print(f"speed: {peer_python} has no cca-zoo; give --peer-python")
        return
    their_wall, their_cpu = (min(each[clock] for each in theirs) for clock in ("wall", "cpu"))
    print(f"speed: cca-zoo {their_wall:.1f} s wall time, {their_cpu:.1f} s CPU time")
    print(f"speed: {their_wall / wall:.1f} times as fast in wall time, {their_cpu / cpu:.1f} in CPU time")
    difference = np.abs(np.subtract(ours[0]["correlations"], theirs[0]["correlations"])).max()
    print(f"speed: the correlations of both differ by at most {difference:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["memory", "speed", "training", "mining"]
    parser.add_argument("what", nargs="*", choices=parts, default=["memory", "speed"])
    parser.add_argument(
        "--peer-python", default=sys.executable, help="Python interpreter of an environment with cca-zoo"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the best counts")
    options = parser.parse_args()
    if "memory" in options.what:
        print_memory()
    if "speed" in options.what:
        print_speed(options.peer_python, options.rounds)
    if {"training", "mining"} & set(options.what):
        import torch
        from matching_training import print_mining, print_training

        device = "cuda" if torch.cuda.is_available() else "cpu"
        if "training" in options.what:
            print_training(device)
        if "mining" in options.what:
            print_mining(device)


if __name__ == "__main__":
    main()
