"""Train the retrieval model on, with the finished encoder: large batches, because photos are encoded once.

python scripts/refine_text_side.py examples.npz PHOTOS ENCODER MODEL --out OUT [--set epochs=60 …]

ENCODER and MODEL are `encoder` and `two-branch` of ``scripts/export_encoder.py``. Each photo is encoded whole
and in some random views; then the text encoder and the linear photo branch learn from captions, pairs of captions and
nouns, as in ``scripts/train_encoder.py``. One GPU.
"""

from __future__ import annotations

import argparse
import copy
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from encoder_data import Examples, NounPhotos, View, resized, source_shares
from encoder_losses import Losses
from encoder_scores import recalls
from encoder_steps import follow, settings_from, update
from export_encoder import compress
from torch import Tensor
from torch.nn import functional

from deixis.models.matching.networks import TwoBranchNetwork
from deixis.models.matching.pipeline import MatchingPipeline
from deixis.models.matching.two_branch import TwoBranch
from deixis.models.pipeline import new_model
from deixis.models.provenance import Provenance
from deixis.storage.artifacts import read_artifact, read_config
from deixis.vision.encoders.saved import load_network

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_float32_matmul_precision("high")


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    seed: int = 0
    views: int = 8
    batch: int = 1024
    captions: int = 4
    epochs: float = 60.0
    rate: float = 3e-4
    decay: float = 0.05
    word_drop: float = 0.3
    whole_drop: float = 0.1
    noise: float = 0.0
    smoothing: float = 0.05
    text_weight: float = 0.2
    noun_weight: float = 0.3
    nouns: int = 384
    average: float = 0.99
    shares: str = ""  # such as coco=2,iapr=0.3: how often photos of a source are drawn; others 1


@torch.no_grad()
def encode_views(pixels: Tensor, encoder: Path, views: int) -> Tensor:
    """Return vectors of photos (n, 1 + views, width): whole, then random crops."""
    network, side, scale = load_network(encoder)
    network = network.to(DEVICE).eval()
    mean, deviation = (torch.tensor(each, device=DEVICE)[:, None, None] for each in (scale.mean, scale.deviation))

    def encode(shown: Tensor) -> Tensor:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            return network((shown - mean) / deviation).float().mean(dim=(2, 3))

    found = []
    for part in pixels.split(256):
        crops = [View.random(len(part), 0.6, DEVICE).pixels(part, side) for _ in range(views)]
        some = [encode(shown) for shown in (resized(part, side), *crops)]
        found.append(torch.stack(some, dim=1))
    return torch.cat(found)


class Texts:
    """Word ids of `examples.npz` as the model's own ids."""

    def __init__(self, arrays: dict[str, np.ndarray], model: TwoBranch) -> None:
        table = model.words
        assert table is not None  # noqa: S101 - the model has a text encoder
        unknown, padding = len(table), len(table) + 1
        ids = [table.encode([word], unknown)[0] for word in arrays["words"].tolist()]
        ids[0], ids[1] = padding, unknown
        self.own, self.padding = torch.tensor(ids, device=DEVICE), padding

    def embed(self, network: TwoBranchNetwork, numbers: Tensor) -> Tensor:
        lengths = (numbers > 0).sum(dim=1).clamp(min=1)
        return network.embed_text(self.own[numbers], lengths)


@torch.no_grad()
def measure(network: TwoBranchNetwork, texts: Texts, dev: dict[str, tuple[Tensor, Tensor]]) -> dict[str, float]:
    network.eval()
    found = {}
    for name, (wholes, captions) in dev.items():
        rows = captions.flatten(0, 1).split(1000)
        scores = network.embed_visual(wholes) @ torch.cat([texts.embed(network, part) for part in rows]).T
        found |= {f"{name} {key}": value for key, value in recalls(scores).items()}
    network.train()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("examples", "photos", "encoder", "model"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=[])
    options = parser.parse_args()
    chosen = settings_from(Settings(), options.set)
    torch.manual_seed(chosen.seed)
    arrays = dict(np.load(options.examples))
    train = Examples(arrays, "train", options.photos, DEVICE)
    vectors = encode_views(train.pixels, options.encoder, chosen.views)
    dev = {}
    for name in arrays["dev"].tolist():
        examples = Examples(arrays, name, options.photos, DEVICE)
        dev[name] = encode_views(examples.pixels, options.encoder, 0)[:, 0], examples.captions
    model = TwoBranch.from_artifact(read_artifact(options.model))
    texts = Texts(arrays, model)
    network = model.network.to(DEVICE).train()
    assert network.encoder is not None  # noqa: S101 - as above
    network.encoder.dropout.p = chosen.word_drop
    average = copy.deepcopy(network).requires_grad_(False)
    print(json.dumps({"epoch": 0} | measure(average, texts, dev)), flush=True)
    share = source_shares(arrays, chosen.shares, DEVICE)
    more = torch.from_numpy(arrays["text_captions"]).to(DEVICE)
    nouns = NounPhotos(arrays, len(train), DEVICE)
    losses = Losses(chosen.smoothing).to(DEVICE)
    parameters = [parameter for name, parameter in network.named_parameters() if name != "log_temperature"]
    groups = [{"params": parameters}, {"params": list(losses.parameters()), "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=chosen.rate, weight_decay=chosen.decay)
    steps = round(chosen.epochs * float(share.sum()) / chosen.batch)
    for step in range(steps):
        rows = torch.multinomial(share, min(chosen.batch, len(train)))
        seen = vectors[rows, torch.randint(vectors.shape[1], rows.shape, device=DEVICE)]
        photos = network.embed_visual(functional.dropout(seen, chosen.whole_drop))
        which = torch.rand(len(rows), train.captions.shape[1], device=DEVICE).argsort(dim=1)[:, : chosen.captions]
        sentences = texts.embed(network, train.captions[rows[:, None], which].flatten(0, 1))
        loss = losses.captions(photos, sentences.unflatten(0, (len(rows), -1)))  # type: ignore[no-untyped-call]
        drawn, shown = nouns.draw(rows, chosen.nouns)
        loss = loss + chosen.noun_weight * losses.nouns(photos, texts.embed(network, nouns.texts[drawn]), shown)
        others = torch.randint(len(more), (len(rows),), device=DEVICE)
        two = torch.rand(len(others), more.shape[1], device=DEVICE).argsort(dim=1)[:, :2]
        one, other = (texts.embed(network, more[others, two[:, side]]) for side in (0, 1))
        loss = loss + chosen.text_weight * losses.pairs(one, other, 1)
        update(optimizer, loss, step / steps)
        follow(average, network, 1 - chosen.average)
        if (step + 1) % max(steps // 4, 1) == 0:
            scores = {"epoch": round(chosen.epochs * (step + 1) / steps), "loss": round(loss.item(), 3)}
            print(json.dumps(scores | measure(average, texts, dev)), flush=True)
    network.load_state_dict(average.state_dict())
    network.cpu().eval()
    with new_model(options.out) as folder:
        MatchingPipeline(model, Provenance.from_json(read_config(options.model)["provenance"])).write(folder, half=True)
    compress(options.out)


if __name__ == "__main__":
    main()
