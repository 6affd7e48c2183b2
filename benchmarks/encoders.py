"""What each image encoder is worth: retrieval and pointing on dev with two simple models, and photos per second.

python benchmarks/encoders.py DATA [ENCODER …] [--speed 64]

DATA is a data set directory with photos, boxes and the splits train and dev. For every encoder the whole-photo
vectors of train meet the captions' tf-idf in a CCA and in a small two-branch network (one hidden layer a side,
InfoNCE); R@1 and R@10 on dev, photo to sentence and sentence to photo. `point`: the share of dev phrases for which a
CCA of region vectors and phrases prefers the right one among the gold boxes of the photo; `guess` is that of a random
choice. Behind a name, `*10` takes the mean of ten crops as the whole photo, `*max` the largest value of each channel
over the map, `*both` that and the mean. `--speed N` times N photos, from files on, on two CPU threads.
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
from torch import nn
from torch.nn import functional

from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.records import Photo
from deixis.errors import PhotoError
from deixis.evaluation import recall_at_k
from deixis.language.features.tfidf import TfIdf
from deixis.models.cca import CCA
from deixis.vision.encoder import ImageEncoder
from deixis.vision.encoders import open_encoder
from deixis.vision.reading import SeenPhoto, encode_photos, encode_whole_photos

ENCODERS = (
    "efficientnet-lite0",
    "efficientnet-lite0*max",
    "efficientnet-lite0*both",
    "efficientnet-lite0*10",
    "efficientnet-lite2",
    "efficientnet-lite2*10",
    "efficientnet-lite2@aspect=keep",
    "efficientnet-lite2@side=380",
    "focus-vit@blocks=8",
    "focus-vit@blocks=9",
    "focus-vit@blocks=10",
    "focus-vit@blocks=8-9-10",
    "focus-vit@blocks=12",
    "focus-vit@blocks=10,side=336",
    "efficientnet-lite2+focus-vit@blocks=8-9-10",
    "deixis",
    "deixis*10",
    "deixis@aspect=keep",
    "deixis@side=224",
    "deixis@side=280",
    "deixis@side=336",
    "deixis+efficientnet-lite2",
)


@dataclass
class Seen:
    """The vectors of a split: one a photo, and one a phrase with the gold boxes it could mean."""

    whole: np.ndarray
    captions: list[str]
    owner: np.ndarray
    phrases: list[str]
    regions: list[np.ndarray]
    right: list[int]


def gold_phrases(photo: Photo) -> list[tuple[str, int, np.ndarray]]:
    """Each phrase with a box, the place of its chain among the photo's chains with boxes, and all their union boxes."""
    chains = [chain.id for chain in photo.chains if photo.boxes_of(chain.id)]
    unions = np.array([geometry.union([box.xyxy for box in photo.boxes_of(chain)]) for chain in chains])
    place_of = {chain: place for place, chain in enumerate(chains)}
    return [
        (caption.phrase(mention), place_of[mention.chain], unions)
        for caption in photo.sentences
        for mention in caption.mentions
        if mention.chain in place_of
    ]


def whole_of(encoder: ImageEncoder, seen: SeenPhoto, way: str) -> np.ndarray:
    """The vector of the whole photo, in one of the ways that a name may ask for."""
    if way == "10":
        return encoder.encode_crops([seen.photo])[0]
    whole, largest = seen.features.whole, seen.features.cells.max(axis=(1, 2))
    return {"": whole, "max": largest, "both": np.concatenate([whole, largest])}[way]


def see(encoder: ImageEncoder, data: Dataset, split: str, way: str, readers: int) -> Seen:
    photos = list(data.split(split))
    whole: list[np.ndarray] = []
    owner: list[int] = []
    seen = Seen(np.zeros(0), [], np.zeros(0), [], [], [])
    every = encode_whole_photos(encoder, [data.path_of(photo) for photo in photos], batch=32, readers=readers)
    for place, (photo, (_, found_in)) in enumerate(zip(photos, every, strict=True)):
        if isinstance(found_in, PhotoError):
            raise found_in
        whole.append(whole_of(encoder, found_in, way))
        seen.captions += [caption.text for caption in photo.sentences]
        owner += [place] * len(photo.sentences)
        found = gold_phrases(photo)
        pooled = found_in.features.regions(found[0][2]) if found else np.zeros((0, encoder.channels), np.float32)
        for text, right, _ in found:
            seen.phrases.append(text)
            seen.regions.append(pooled)
            seen.right.append(right)
    seen.whole, seen.owner = np.stack(whole), np.array(owner)
    return seen


def recalls(scores: np.ndarray, owner: np.ndarray) -> dict[str, float]:
    result = recall_at_k(scores, owner)
    return {name: getattr(result, name) for name in ("i2t_r1", "i2t_r10", "t2i_r1", "t2i_r10")}


def by_cca(train: Seen, dev: Seen, train_text: np.ndarray, dev_text: np.ndarray, device: str | None) -> np.ndarray:
    model = CCA(components=256, device=device).fit(train.whole[train.owner], train_text)
    return model.scores(model.prepare_visual(dev.whole), model.prepare_text(dev_text))


def pointing(train: Seen, dev: Seen, device: str | None) -> dict[str, float]:
    words = TfIdf(minimum=5).fit(train.phrases)
    regions = np.stack([pooled[right] for pooled, right in zip(train.regions, train.right, strict=True)])
    model = CCA(components=128, device=device).fit(regions, words.transform(train.phrases))
    texts = model.prepare_text(words.transform(dev.phrases))
    hits = [
        int(np.argmax(model.prepare_visual(pooled) @ text)) == right
        for pooled, right, text in zip(dev.regions, dev.right, texts, strict=True)
    ]
    return {"point": 100 * float(np.mean(hits)), "guess": 100 * float(np.mean([1 / len(r) for r in dev.regions]))}


def branch(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 512))


def by_head(train: Seen, dev: Seen, train_text: np.ndarray, dev_text: np.ndarray, device: str) -> np.ndarray:
    torch.manual_seed(0)
    mean, spread = train.whole.mean(0), train.whole.std(0) + 1e-6

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.asarray(array, dtype=np.float32)).to(device)

    images, texts = tensor((train.whole - mean) / spread), tensor(train_text)
    owner = torch.from_numpy(train.owner).to(device)
    left, right = branch(images.shape[1]).to(device), branch(texts.shape[1]).to(device)
    optimiser = torch.optim.AdamW([*left.parameters(), *right.parameters()], lr=5e-4, weight_decay=0.01)
    epochs, size = 25, min(500, len(texts))
    steps = epochs * (len(texts) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-3, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(texts), device=device)
        for number in range(len(texts) // size):
            rows = order[number * size : (number + 1) * size]
            a, b = (functional.normalize(x, dim=1) for x in (left(images[owner[rows]]), right(texts[rows])))
            scores = a @ b.T * 20
            # Two captions of one photo are no negatives of each other.
            twin = (owner[rows][:, None] == owner[rows][None]).fill_diagonal_(False)
            scores = scores.masked_fill(twin, -1e4)
            target = torch.arange(size, device=device)
            loss = functional.cross_entropy(scores, target) + functional.cross_entropy(scores.T, target)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    with torch.inference_mode():
        left.eval()
        right.eval()
        a = functional.normalize(left(tensor((dev.whole - mean) / spread)), dim=1)
        b = functional.normalize(right(tensor(dev_text)), dim=1)
        return (a @ b.T).cpu().numpy()


def quality(name: str, data: Dataset, readers: int) -> dict[str, object]:
    plain, _, way = name.partition("*")
    encoder = open_encoder(plain)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, dev = (see(encoder, data, split, way, readers) for split in ("train", "dev"))
    words = TfIdf(minimum=5).fit(train.captions)
    texts = words.transform(train.captions), words.transform(dev.captions)
    solver = device if device == "cuda" else None
    return {
        "encoder": name,
        "whole": train.whole.shape[1],
        "map": list(encoder.encode([open_photo(data.path_of(data.split("dev")[0]))])[0].cells.shape),
        "cca": recalls(by_cca(train, dev, *texts, solver), dev.owner),
        "head": recalls(by_head(train, dev, *texts, device), dev.owner),
        **pointing(train, dev, solver),
    }


def speed(name: str, data: Dataset, count: int) -> dict[str, object]:
    torch.set_num_threads(2)
    plain, _, way = name.partition("*")
    encoder = open_encoder(plain, device="cpu")
    paths = [data.path_of(photo) for photo in data.split("dev")[:count]]
    list(encode_photos(encoder, paths[:8]))
    started = time.perf_counter()
    if way == "10":
        encoder.encode_crops([open_photo(path) for path in paths])
    else:
        list(encode_photos(encoder, paths))
    return {"encoder": name, "photos_per_s": len(paths) / (time.perf_counter() - started)}


def shown(row: dict[str, object]) -> str:
    def rounded(value: object) -> object:
        if isinstance(value, dict):
            return {key: rounded(inner) for key, inner in value.items()}
        return round(value, 1) if isinstance(value, float) else value

    return json.dumps({key: rounded(value) for key, value in row.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("encoders", nargs="*", default=ENCODERS)
    parser.add_argument("--images", type=Path, help="where the photos are, if not where they were imported from")
    parser.add_argument("--speed", type=int, metavar="N", help="time N photos instead")
    chosen = parser.parse_args()
    data = Dataset(chosen.data, images=chosen.images)
    for name in chosen.encoders:
        row = speed(name, data, chosen.speed) if chosen.speed else quality(name, data, os.cpu_count() or 2)
        print(shown(row), flush=True)


if __name__ == "__main__":
    main()
