"""Compare image encoders: retrieval and pointing on dev with two simple models, and photos per second.

python benchmarks/encoders.py DATA [ENCODER …] [--speed 64]

DATA is a data set directory with photos, boxes and the splits train and dev. For every encoder, a CCA and a small
two-branch network (one hidden layer per branch, InfoNCE) are fitted to photo vectors and tf-idf vectors of captions;
printed are R@1 and R@10 on dev in both directions. `point` is the share of dev phrases for which a CCA of region
vectors and phrases chooses the right one of the photo's gold boxes; `guess` is the share of a random choice. A suffix
of the name selects the photo vector: `*10` is the mean of ten crops, `*max` the maximum over the feature map, `*both`
the maximum and the mean. `--speed N` times N photos from files on two CPU threads.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.records import Photo
from deixis.errors import PhotoError
from deixis.evaluation import recall_at_k
from deixis.language.features.base import TfIdf
from deixis.models.cca.model import CCA
from deixis.vision.encoder import FeatureMap, ImageEncoder, encode_full_size, encode_photos
from deixis.vision.encoders import open_encoder

ENCODERS = (
    "efficientnet-lite2",
    "efficientnet-lite2*10",
    "efficientnet-lite2@side=380",
    "deixis",
    "deixis*10",
    "deixis@side=224",
    "deixis@side=280",
    "deixis@side=336",
)


@dataclass
class Vectors:
    """Vectors of a split: one per photo, and the gold boxes of the photo for each phrase."""

    whole: np.ndarray
    captions: list[str]
    owner: np.ndarray
    phrases: list[str]
    regions: list[np.ndarray]
    right: list[int]


def gold_phrases(photo: Photo) -> list[tuple[str, int, np.ndarray]]:
    """Return each phrase with a box, the index of its chain, and the union boxes of all chains of the photo."""
    chains = [chain.id for chain in photo.chains if photo.boxes_of(chain.id)]
    unions = np.array([geometry.union([box.xyxy for box in photo.boxes_of(chain)]) for chain in chains])
    index_of = {chain: index for index, chain in enumerate(chains)}
    return [
        (caption.phrase(mention), index_of[mention.chain], unions)
        for caption in photo.sentences
        for mention in caption.mentions
        if mention.chain in index_of
    ]


def photo_vector(encoder: ImageEncoder, photo: Image.Image, features: FeatureMap, pooling: str) -> np.ndarray:
    """Return the photo vector that the suffix of an encoder name selects."""
    if pooling == "10":
        return encoder.encode_crops([photo])[0]
    whole, largest = features.whole, features.cells.max(axis=(1, 2))
    return {"": whole, "max": largest, "both": np.concatenate([whole, largest])}[pooling]


def encode_split(encoder: ImageEncoder, data: Dataset, split: str, pooling: str, readers: int) -> Vectors:
    photos = list(data.split(split))
    whole: list[np.ndarray] = []
    owner: list[int] = []
    vectors = Vectors(np.zeros(0), [], np.zeros(0), [], [], [])
    every = encode_full_size(encoder, [data.path_of(photo) for photo in photos], batch=32, readers=readers)
    for index, (photo, (_, encoded)) in enumerate(zip(photos, every, strict=True)):
        if isinstance(encoded, PhotoError):
            raise encoded
        whole.append(photo_vector(encoder, *encoded, pooling))
        vectors.captions += [caption.text for caption in photo.sentences]
        owner += [index] * len(photo.sentences)
        found = gold_phrases(photo)
        pooled = encoded[1].regions(found[0][2]) if found else np.zeros((0, encoder.channels), np.float32)
        for text, right, _ in found:
            vectors.phrases.append(text)
            vectors.regions.append(pooled)
            vectors.right.append(right)
    vectors.whole, vectors.owner = np.stack(whole), np.array(owner)
    return vectors


def recalls(scores: np.ndarray, owner: np.ndarray) -> dict[str, float]:
    result = recall_at_k(scores, owner)
    return {name: getattr(result, name) for name in ("i2t_r1", "i2t_r10", "t2i_r1", "t2i_r10")}


def by_cca(train: Vectors, dev: Vectors, train_text: np.ndarray, dev_text: np.ndarray) -> np.ndarray:
    model = CCA(embedding_dim=256).fit(train.whole[train.owner], train_text)
    return model.scores(model.prepare_visual(dev.whole), model.prepare_text(dev_text))


def pointing(train: Vectors, dev: Vectors) -> dict[str, float]:
    words = TfIdf(minimum=5).fit(train.phrases)
    regions = np.stack([pooled[right] for pooled, right in zip(train.regions, train.right, strict=True)])
    model = CCA(embedding_dim=128).fit(regions, words.transform(train.phrases))
    texts = model.prepare_text(words.transform(dev.phrases))
    hits = [
        int(np.argmax(model.prepare_visual(pooled) @ text)) == right
        for pooled, right, text in zip(dev.regions, dev.right, texts, strict=True)
    ]
    return {"point": 100 * float(np.mean(hits)), "guess": 100 * float(np.mean([1 / len(r) for r in dev.regions]))}


def branch(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 512))


def by_head(train: Vectors, dev: Vectors, train_text: np.ndarray, dev_text: np.ndarray, device: str) -> np.ndarray:
    torch.manual_seed(0)
    mean, spread = train.whole.mean(0), train.whole.std(0) + 1e-6

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.asarray(array, dtype=np.float32)).to(device)

    images, texts = tensor((train.whole - mean) / spread), tensor(train_text)
    owner = torch.from_numpy(train.owner).to(device)
    left, right = branch(images.shape[1]).to(device), branch(texts.shape[1]).to(device)
    optimizer = torch.optim.AdamW([*left.parameters(), *right.parameters()], lr=5e-4, weight_decay=0.01)
    epochs, size = 25, min(500, len(texts))
    steps = epochs * (len(texts) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(texts), device=device)
        for number in range(len(texts) // size):
            rows = order[number * size : (number + 1) * size]
            a, b = (functional.normalize(x, dim=1) for x in (left(images[owner[rows]]), right(texts[rows])))
            scores = a @ b.T * 20
            # Two captions of one photo are not negatives of each other.
            twin = (owner[rows][:, None] == owner[rows][None]).fill_diagonal_(False)
            scores = scores.masked_fill(twin, -1e4)
            target = torch.arange(size, device=device)
            loss = functional.cross_entropy(scores, target) + functional.cross_entropy(scores.T, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.inference_mode():
        left.eval()
        right.eval()
        a = functional.normalize(left(tensor((dev.whole - mean) / spread)), dim=1)
        b = functional.normalize(right(tensor(dev_text)), dim=1)
        return (a @ b.T).cpu().numpy()


def quality(name: str, data: Dataset, readers: int) -> dict[str, object]:
    plain, _, pooling = name.partition("*")
    encoder = open_encoder(plain)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, dev = (encode_split(encoder, data, split, pooling, readers) for split in ("train", "dev"))
    words = TfIdf(minimum=5).fit(train.captions)
    texts = words.transform(train.captions), words.transform(dev.captions)
    return {
        "encoder": name,
        "whole": train.whole.shape[1],
        "map": list(encoder.encode([open_photo(data.path_of(data.split("dev")[0]))])[0].cells.shape),
        "cca": recalls(by_cca(train, dev, *texts), dev.owner),
        "head": recalls(by_head(train, dev, *texts, device), dev.owner),
        **pointing(train, dev),
    }


def speed(name: str, data: Dataset, count: int) -> dict[str, object]:
    torch.set_num_threads(2)
    plain, _, pooling = name.partition("*")
    encoder = open_encoder(plain, device="cpu")
    paths = [data.path_of(photo) for photo in data.split("dev")[:count]]
    list(encode_photos(encoder, paths[:8]))
    started = time.perf_counter()
    if pooling == "10":
        encoder.encode_crops([open_photo(path) for path in paths])
    else:
        list(encode_photos(encoder, paths))
    return {"encoder": name, "photos_per_s": len(paths) / (time.perf_counter() - started)}


def format_row(row: dict[str, object]) -> str:
    def rounded(value: object) -> object:
        if isinstance(value, dict):
            return {key: rounded(inner) for key, inner in value.items()}
        return round(value, 1) if isinstance(value, float) else value

    return json.dumps({key: rounded(value) for key, value in row.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("encoders", nargs="*", default=ENCODERS)
    parser.add_argument("--images", type=Path, help="folder of the photos, if it has moved")
    parser.add_argument("--speed", type=int, metavar="N", help="time N photos instead")
    options = parser.parse_args()
    data = Dataset(options.data, images=options.images)
    for name in options.encoders:
        row = speed(name, data, options.speed) if options.speed else quality(name, data, os.cpu_count() or 2)
        print(format_row(row), flush=True)


if __name__ == "__main__":
    main()
