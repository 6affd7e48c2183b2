"""Pack the photos of data sets for ``scripts/train_encoder.py``: squares of one size, in files of limited size.

python scripts/pack_photos.py --source DATA[:SPLIT] … [--coco FOLDER --examples FILE] [--names FOLDER] --out DIR

DIR receives ``photos_00.npz`` and following: ids and WebP data. Photos are squeezed to squares of 256 pixels.
``--coco`` adds the photos of COCO train2017 that the examples name, and ``--more FILE`` those of a list of file names,
which only teach the fast encoder.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from encoder_examples import read_source
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError

SIDE = 256


def square(side: int, quality: int, path: Path) -> bytes:
    """Return a photo as a WebP square."""
    with Image.open(path) as photo:
        squeezed = photo.convert("RGB")
    if squeezed.size != (side, side):
        squeezed = squeezed.resize((side, side), Image.Resampling.BICUBIC)
    written = io.BytesIO()
    squeezed.save(written, "WEBP", quality=quality)
    return written.getvalue()


def photos_of_source(text: str) -> Iterator[tuple[str, Path]]:
    """Yield ids and files of the photos of ``DATA[:SPLIT]``."""
    _, photos = read_source(f"={text}")
    folder = Dataset(text.rpartition(":")[0] or text).images
    if folder is None:
        raise DeixisError(f"{text}: has no photos; import it with --images")
    for photo in photos:
        yield str(Path(photo.file).with_suffix("")), folder / photo.file


def photos_of_coco(folder: Path, examples: Path, more: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield ids and files of the photos of COCO train2017 that the examples and a list name."""
    with np.load(examples) as arrays:
        files = [str(file) for name in arrays if name.endswith("_files") for file in arrays[name]]
    names = {file.partition("/")[2] for file in files if file.startswith("coco2017/")}
    names |= set(more.read_text().split()) if more else set()
    for name in sorted(names):
        yield f"coco2017/{Path(name).stem}", folder / name


def pack(photos: Sequence[tuple[str, Path]], side: int, quality: int, part: int, out: Path) -> None:
    """Write files of at most `part` MiB."""
    ids: list[str] = []
    blobs: list[bytes] = []
    number = 0

    def write() -> None:
        nonlocal number
        file = out / f"photos_{number:02d}.npz"
        data = np.frombuffer(b"".join(blobs), np.uint8)
        np.savez(file, ids=np.array(ids), offsets=np.cumsum([0, *map(len, blobs)]), data=data)
        print(f"{file}: {len(ids):,} photos, {file.stat().st_size / 2**20:.0f} MB", flush=True)
        number += 1
        ids.clear()
        blobs.clear()

    with ProcessPoolExecutor() as pool:
        made = pool.map(partial(square, side, quality), [path for _, path in photos], chunksize=32)
        size = 0
        for (name, _), data in zip(photos, made, strict=True):
            if size + len(data) + 4 * len(name) > part << 20:
                write()
                size = 0
            ids.append(name)
            blobs.append(data)
            size += len(data) + 200  # the id and the offset
        write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", action="append", required=True, metavar="DATA[:SPLIT]")
    parser.add_argument("--names", type=Path, help="folder of photos that are named by their file")
    parser.add_argument("--coco", type=Path, help="folder of the photos of COCO train2017")
    parser.add_argument("--examples", type=Path, help="examples that name the photos of --coco")
    parser.add_argument("--more", type=Path, help="list of further photos of --coco, such as those without captions")
    parser.add_argument("--side", type=int, default=SIDE)
    parser.add_argument("--quality", type=int, default=40)
    parser.add_argument("--part", type=int, default=56, help="largest size of a file in MiB")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if old := sorted(chosen.out.glob("photos_*.npz")):
        raise DeixisError(f"{old[0]}: is there already; give another --out")
    photos = [photo for text in chosen.source for photo in photos_of_source(text)]
    if chosen.coco:
        photos += photos_of_coco(chosen.coco, chosen.examples, chosen.more)
    if chosen.names:
        photos += [(file.stem, file) for file in sorted(chosen.names.iterdir())]
    pack(photos, chosen.side, chosen.quality, chosen.part, chosen.out)


if __name__ == "__main__":
    try:
        main()
    except DeixisError as error:
        sys.exit(f"pack_photos: {error}")
