"""Make the banks of the hubness correction of a model that embeds photos and sentences, and write them into its folder.

python scripts/fit_hubness.py DATA… [--split train] [--model two-branch] [--size 1200] [--seed 0]

Each DATA is a data set directory with captions; give those that the model was trained on. The banks hold the vectors of
random photos, the same number of each data set, and of one random caption of each. two-branch-fast shares the banks of
two-branch. Run it again when the model is replaced.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from deixis.arrays import Floats
from deixis.cli.output import progress
from deixis.data.dataset import Dataset, Photos
from deixis.errors import DeixisError
from deixis.models.grounding import EmbeddingPipeline, HubnessCorrection, load_embedding_model
from deixis.models.installed import model_folder
from deixis.storage.artifacts import HUBNESS, add_part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--split", default="train", metavar="NAME")
    parser.add_argument("--model", default="two-branch", help="two-branch, or the directory of a model")
    parser.add_argument("--size", type=int, default=1200, metavar="N", help="photos and captions of the banks")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        model = load_embedding_model(options.model)
        if not model.has_common_space:
            raise DeixisError(f"{options.model}: does not compare vectors")
        banks = list(read_banks(model, options.data, options.split, options.size // len(options.data), options.seed))
        fitted = HubnessCorrection.fit(*(np.concatenate(bank) for bank in zip(*banks, strict=True)))
    except DeixisError as error:
        raise SystemExit(str(error)) from None
    folder = model_folder(options.model)
    add_part(folder, HUBNESS, fitted.to_artifact())
    print(f"written: {folder / HUBNESS}")


def read_banks(
    model: EmbeddingPipeline, paths: Sequence[Path], split: str, count: int, seed: int
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the vectors of photos of each data set, and of a caption of each of them."""
    rng = np.random.default_rng(seed)
    for path in paths:
        dataset = Dataset(path)
        photos = dataset.split(split)
        described = photos.rows[[bool(photo.sentences) for photo in photos]]
        if len(described) < count:
            raise DeixisError(f"{path}: {len(described):,} photos with captions, fewer than {count:,}")
        chosen = Photos(dataset, np.sort(rng.choice(described, count, replace=False)))
        with progress("photos") as on_progress:
            found = model.features(dataset, chosen, on_progress=on_progress)
        texts = [str(rng.choice([caption.text for caption in photo.sentences])) for photo in found.photos]
        yield np.asarray(model.model.prepare_visual(found.vectors())), model.encode_sentences(texts)


if __name__ == "__main__":
    main()
