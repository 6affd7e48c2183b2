"""Pack the photos of data sets for ``scripts/train_encoder.py``: squares of one size, in a few files.

python scripts/pack_photos.py --source NAME=DATA[:SPLIT] … [--coco FOLDER --examples FILE] [--names FOLDER] --out DIR

Each source becomes ``photos_NAME.npz``: ids, sizes and WebP data. Photos are squeezed to squares of 266 pixels.
``--coco`` adds the photos of COCO train2017 that the examples name, in parts of at most 56 MB.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from encoder_examples import read_source
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError

SIDE = 266
PART_BYTES = 56 << 20


def square(quality: int, path: Path) -> tuple[bytes, tuple[int, int]]:
    """Return a photo as a WebP square, and its size."""
    with Image.open(path) as photo:
        squeezed = photo.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        size = photo.size
    written = io.BytesIO()
    squeezed.save(written, "WEBP", quality=quality)
    return written.getvalue(), size


def squares(paths: Sequence[Path], quality: int) -> list[tuple[bytes, tuple[int, int]]]:
    with ProcessPoolExecutor() as pool:
        return list(pool.map(partial(square, quality), paths, chunksize=32))


def pack(file: Path, ids: Sequence[str], made: Sequence[tuple[bytes, tuple[int, int]]]) -> None:
    ends = np.cumsum([0, *(len(data) for data, _ in made)])
    data = np.frombuffer(b"".join(data for data, _ in made), np.uint8)
    np.savez(file, ids=np.array(ids), size=np.array([size for _, size in made]), offsets=ends, data=data)
    print(f"{file}: {len(ids):,} photos, {file.stat().st_size / 2**20:.0f} MB")


def pack_coco(folder: Path, examples: Path, quality: int, out: Path) -> None:
    """Pack the photos of COCO train2017 that the examples name, in parts."""
    with np.load(examples) as arrays:
        files = [str(file) for name in arrays if name.endswith("_files") for file in arrays[name]]
    names = sorted({file.partition("/")[2] for file in files if file.startswith("coco2017/")})
    made = squares([folder / name for name in names], quality)
    part = np.cumsum([len(data) for data, _ in made]) // PART_BYTES
    for number in range(int(part[-1]) + 1):
        rows = np.flatnonzero(part == number)
        ids = [f"coco2017/{Path(names[row]).stem}" for row in rows]
        pack(out / f"photos_coco2017_{number:02d}.npz", ids, [made[row] for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", action="append", required=True, metavar="NAME=DATA[:SPLIT]")
    parser.add_argument("--names", type=Path, help="folder of photos that are named by their file")
    parser.add_argument("--coco", type=Path, help="folder of the photos of COCO train2017")
    parser.add_argument("--examples", type=Path, help="examples that name the photos of --coco")
    parser.add_argument("--quality", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for text in chosen.source:
        name, photos = read_source(text)
        folder = Dataset(text.partition("=")[2].rpartition(":")[0] or text.partition("=")[2]).images
        if folder is None:
            raise DeixisError(f"{text}: has no photos; import it with --images")
        files = [photo.file for photo in photos]
        ids = [str(Path(file).with_suffix("")) for file in files]
        pack(chosen.out / f"photos_{name}.npz", ids, squares([folder / file for file in files], chosen.quality))
    if chosen.coco:
        pack_coco(chosen.coco, chosen.examples, chosen.quality, chosen.out)
    if chosen.names:
        files_of_names = sorted(chosen.names.iterdir())
        ids = [file.stem for file in files_of_names]
        pack(chosen.out / "photos_names.npz", ids, squares(files_of_names, chosen.quality))


if __name__ == "__main__":
    try:
        main()
    except DeixisError as error:
        sys.exit(f"pack_photos: {error}")
