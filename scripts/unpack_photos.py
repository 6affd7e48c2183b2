"""Decode a file of ``scripts/pack_photos.py`` in processes, so that several trainings can read it in seconds.

python scripts/unpack_photos.py photos_03.npz [--images FOLDER]

writes ``photos_03.npy`` beside it: pixels (photos, side, side, 3), 200 kB a photo. ``--images`` writes the photos as
files too, named by their ids, for trainings that read a data set directory.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
from encoder_data import decode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--processes", type=int, default=6)
    chosen = parser.parse_args()
    pack = np.load(chosen.pack)
    data = pack["data"]
    blobs = [data[start:end].tobytes() for start, end in pairwise(pack["offsets"].tolist())]
    for name, blob in zip(pack["ids"].tolist(), blobs, strict=True) if chosen.images else ():
        file = chosen.images / f"{name}.webp"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(blob)
    side = len(decode(blobs[0]))
    partial = chosen.pack.with_suffix(".partial")
    pixels = np.lib.format.open_memmap(partial, "w+", np.uint8, (len(blobs), side, side, 3))
    with ProcessPoolExecutor(chosen.processes) as pool:
        for row, photo in enumerate(pool.map(decode, blobs, chunksize=64)):
            pixels[row] = photo
    pixels.flush()
    partial.rename(chosen.pack.with_suffix(".npy"))


if __name__ == "__main__":
    main()
