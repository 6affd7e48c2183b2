"""Train the captioner on packed photos, on one GPU: views are made and encoded there, so 60,000 photos take a minute.

python scripts/train_captioner.py DATA PHOTOS VIEWS OUT [--settings deixis/captioner] [--set KEY=VALUE …]

DATA is a data set directory with captions, PHOTOS holds the packs of ``scripts/pack_photos.py`` with its training
photos. VIEWS keeps the encoded views for the next training. Everything else is as in
``deixis train captioner``, which makes views from the photo files, with the network that the product computes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from encoder_data import View, read_photos
from torch import Tensor

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.models.captioner.pipeline import VectorsAndCells, _pooling
from deixis.models.captioner.spec import SPEC, CaptionerDataSettings
from deixis.models.captioner.training import SIDES
from deixis.models.m_rnn.training import CaptionData, caption_data
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.data import training_photos
from deixis.models.training.reproducibility import chosen_device
from deixis.models.training.runner import Run, _train_network
from deixis.vision.encoders import open_encoder

BATCH = 512
SMALLEST = 0.5


def packs_by_stem(photos: Path) -> dict[str, str]:
    """Return the ids of packed photos by the stem of their files."""
    names = [str(name) for path in sorted(photos.glob("photos_*.npz")) for name in np.load(path)["ids"]]
    return {Path(name).name: name for name in names}


def views_of(rows: Tensor, number: int, mirrored: Tensor) -> View:
    """The whole photo, its mirror image, then random parts; photos that may not be mirrored are not."""
    device = str(rows.device)
    if number < 2:
        count = len(rows)
        flip = torch.ones(count, device=device) - 2.0 * number * mirrored
        return View(torch.zeros(count, 2, device=device), torch.ones(count, 2, device=device), flip)
    view = View.random(len(rows), SMALLEST, device)
    return replace(view, flip=torch.where(mirrored > 0, view.flip, 1.0))


@torch.no_grad()
def encode_views(encoder: str, pixels: Tensor, mirrored: Tensor, views: int, grid: int, out: Path) -> None:
    """Write vectors and pooled cells of `views` views of each photo, those of a photo one after the other."""
    opened = open_encoder(encoder, device=str(pixels.device))
    network, side = opened.network.functions.module, opened.input_size.side
    pool = torch.from_numpy(_pooling(side // network.multiple, grid)).to(pixels.device)
    rows = views * len(pixels)
    out.mkdir(parents=True)
    vectors = np.lib.format.open_memmap(out / "vectors.npy", "w+", np.float32, (rows, opened.channels))
    cells = np.lib.format.open_memmap(out / "cells.npy", "w+", np.float16, (rows, grid * grid, opened.channels))
    scale = (network.scale.mean, network.scale.deviation)
    mean, deviation = (torch.tensor(each, device=pixels.device)[:, None, None] for each in scale)
    for photos in torch.arange(len(pixels), device=pixels.device).split(BATCH):
        for number in range(views):
            seen = views_of(photos, number, mirrored[photos]).pixels(pixels[photos], side, light=number > 1)
            with torch.autocast(pixels.device.type, torch.bfloat16):
                found = network((seen - mean) / deviation).float()
            at = (photos * views + number).cpu().numpy()
            vectors[at] = found.mean(dim=(2, 3)).cpu().numpy()
            pooled = torch.einsum("gr,ncrk,hk->nghc", pool, found, pool)
            cells[at] = pooled.flatten(1, 2).half().cpu().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("views", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoder", default="deixis", help="name of the encoder")
    parser.add_argument("--settings", default="deixis/captioner")
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument(
        "--wait", type=Path, help="read the photos, then wait for this file, which says encoder is there"
    )
    chosen = parser.parse_args()
    settings = SPEC.choose_settings(chosen.settings).with_assignments([f"encoder={chosen.encoder}", *chosen.set])
    on = settings[CaptionerDataSettings]
    dataset = Dataset(chosen.data)
    photos = training_photos(dataset, on.train_split)
    device = chosen_device("auto")
    if not chosen.views.is_dir():
        named = packs_by_stem(chosen.photos)
        files = [named[Path(str(photo.file)).stem] for photo in photos]
        texts = [{token.text.lower() for each in photo.sentences for token in each.tokens} for photo in photos]
        mirrored = torch.tensor([float(not SIDES & words) for words in texts], device=device)
        pixels = read_photos(chosen.photos, files, str(device))
        print(f"{len(files):,} photos are read", flush=True)
        started, partial = time.monotonic(), chosen.views.with_name(chosen.views.name + ".partial")
        encode_views(chosen.encoder, pixels, mirrored, on.views, on.feature_grid, partial)
        partial.rename(chosen.views)
        print(f"{on.views * len(files):,} views are encoded in {time.monotonic() - started:.0f} s", flush=True)
        del pixels
        torch.cuda.empty_cache()

    def prepare(run: Run) -> CaptionData:
        dev: PhotoFeatures = run.read_photos(dataset.split("dev"), on.feature_source)
        found = caption_data(run, replace(dev, photos=photos), (), on.feature_grid)
        kept = (np.load(chosen.views / f"{name}.npy", mmap_mode="c") for name in VectorsAndCells._fields)
        found.photos = VectorsAndCells(*kept)
        return found

    spec = replace(SPEC, prepare_data=prepare, finish=None)
    validation = {"dev": dataset.split("dev")}
    run = Run(spec, settings, dataset, chosen.out, device=device, validation=validation)
    result = _train_network(run)
    print(result.outcome, flush=True)


if __name__ == "__main__":
    try:
        main()
    except DeixisError as error:
        raise SystemExit(f"train_captioner: {error}") from None
