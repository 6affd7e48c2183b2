"""Fine-tune a vision transformer with captions, phrases, nouns and boxes: the encoder and the proposal head that ship.

python scripts/train_encoder.py examples.npz PHOTOS --start dinov2.onnx --out DIR [--set epochs=100 …]
python scripts/train_encoder.py examples.npz PHOTOS --towers DIR --out DIR [--set text_steps=0 head_steps=0 …]

`examples.npz` comes from ``scripts/encoder_examples.py``; PHOTOS holds the packed photos of ``scripts/pack_photos.py``.
The start is DINOv2 ViT-S/14, or the result of a training on the same examples. One GPU. The loss is a sum. Photos and
captions: InfoNCE in the batch, three captions a photo. Phrases and regions: a phrase is matched with its region among
the boxes of its photo and the gold regions of other photos, and a region with its phrase. Captions: those of one photo
are matched, over more photos than have images. Nouns: photos whose captions contain a noun rank above others. Boxes:
the proposal head learns all boxes. Labels: a head finds the classes of photos that have labels. Photos without boxes
skip the second and the fifth term.

DIR receives the averaged weights every minute and with each score, and `state.pt`: the same command continues from it
after an interruption.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path

import numpy as np
import torch
from encoder_data import Examples, NounPhotos, View, draw_groups, source_shares
from encoder_losses import BoxTargets, Grounded, Losses, box_targets, iou
from encoder_scores import measure
from encoder_steps import Checkpoint, Pace, follow, settings_from, update
from encoder_towers import PhotoTower, Texts, TextTower, WordTable, head_shape, read_towers, save_towers
from start_weights import read_start
from torch import Tensor, nn

from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.proposals.head import HeadShape
from deixis.vision.proposals.head_network import ProposalHead, anchor_boxes, decode_boxes

torch.set_float32_matmul_precision("high")
STARTED = time.monotonic()
SCORED_IN_TRAINING = 250
"""Photos whose boxes are scored before the end."""
RESERVE = 25.0
"""Seconds for the last score and the last files, within a limit in time."""
STATE = "state.pt"


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    seed: int = 0
    side: int = 252
    epochs: float = 36.0
    minutes: float = 0.0  # if given, the limit of the whole program; as many epochs as fit
    first_side: int = 0  # if given, photos have this side at first, which is faster
    first_share: float = 0.6  # share of the training with it
    scores: int = 4  # times that dev is scored
    save_minutes: float = 1.0  # time between checkpoints
    head_steps: int = 150
    batch: int = 256
    captions: int = 3
    encoder_rate: float = 5e-5
    head_rate: float = 1e-3
    decay: float = 0.05
    drop_path: float = 0.15
    embedding: int = 512
    text: str = "gru"  # or transformer
    text_layers: int = 1
    hidden: int = 512
    word_drop: float = 0.3
    delta_drop: float = 0.2
    smoothing: float = 0.05
    text_steps: int = 400
    text_weight: float = 0.2
    text_pairs: int = 256
    region_weight: float = 0.5
    box_weight: float = 0.5
    noun_weight: float = 0.3
    nouns: int = 192
    label_weight: float = 0.0  # of the head for the classes of labels
    candidates: int = 48
    smallest_crop: float = 0.5
    average: float = 0.998
    head_width: int = 256
    anchors: int = 12
    group: int = 1  # photos of a batch that are neighbours of each other: hard negatives
    group_share: float = 0.5  # share of the training before that
    shares: str = ""  # such as flickr8k=2,coco2017_questions=0.5: how often photos of a source are drawn; others 1


def anchor_shapes(boxes: np.ndarray, count: int) -> tuple[tuple[float, float], ...]:
    """Return typical sizes of the training boxes by k-means with the distance 1 − IoU of centred boxes."""
    sizes = (boxes[..., 2:] - boxes[..., :2])[boxes[..., 0] >= 0].reshape(-1, 2)
    centres = sizes[np.random.default_rng(0).choice(len(sizes), count, replace=False)]
    for _ in range(30):
        shared = np.minimum(sizes[:, None], centres[None]).prod(axis=-1)
        nearest = (shared / (sizes.prod(1)[:, None] + centres.prod(1)[None] - shared)).argmax(axis=1)
        centres = np.stack([np.median(sizes[nearest == index], axis=0) for index in range(count)])
    return tuple(
        (round(float(w), 4), round(float(h), 4)) for w, h in sorted(centres.tolist(), key=lambda s: s[0] * s[1])
    )


@dataclass(frozen=True)
class Phrases:
    """The p phrases of a batch: words, photo, position in it, chain and box."""

    names: Tensor
    photo: Tensor
    place: Tensor
    chain: Tensor
    gold: Tensor


@dataclass(frozen=True)
class Batch:
    """All that a step needs besides the weights. `marked` are the places of the photos with boxes."""

    rows: Tensor
    view: View
    shown: Tensor
    texts: Texts
    marked: Tensor
    jittered: Tensor
    targets: BoxTargets
    phrases: Phrases

    def record(self, stream: torch.cuda.Stream) -> None:
        """Keep the memory until the stream has used it."""
        pending: list[object] = [self]
        while pending:
            part = pending.pop()
            if isinstance(part, Tensor) and part.is_cuda:
                part.record_stream(stream)
            elif is_dataclass(part):
                pending.extend(getattr(part, each.name) for each in fields(part))


class Training:
    """The state of a training run."""

    def __init__(
        self,
        chosen: Settings,
        arrays: dict[str, np.ndarray],
        start: dict[str, Tensor],
        head: HeadShape | None,
        train: Examples,
        dev: dict[str, Examples],
    ) -> None:
        torch.manual_seed(chosen.seed)
        self.chosen, self.train, self.dev, self.device = chosen, train, dev, train.pixels.device.type
        self.stream = torch.cuda.Stream() if self.device == "cuda" else None
        self.arrays = arrays
        self.scores: dict[str, float] = {}
        self.failed = False
        self.more_text = torch.from_numpy(arrays["text_captions"]).int().to(self.device)
        encoder = VisionTransformer(ViTShape(grid=start["photos.encoder.positions"].shape[-1]), chosen.drop_path)
        shape = head or HeadShape(
            encoder.shape.width, chosen.head_width, anchor_shapes(arrays["train_boxes"], chosen.anchors)
        )
        self.photos = PhotoTower(encoder, encoder.shape.width, ProposalHead(shape), chosen.embedding).to(self.device)
        words = WordTable(
            arrays["vectors"].astype(np.float32), arrays["word_rows"], int(arrays["taught"]), chosen.delta_drop
        )
        self.texts = TextTower(
            words, chosen.hidden, chosen.embedding, chosen.word_drop, chosen.text, chosen.text_layers
        ).to(self.device)
        both = nn.ModuleDict({"photos": self.photos, "texts": self.texts})
        missing, unexpected = both.load_state_dict(start, strict=False)
        if unexpected or (head is not None and missing):
            raise SystemExit(f"the weights do not match: missing {missing}, unexpected {unexpected}")
        labels = train.labels if chosen.label_weight else None
        self.losses = Losses(chosen.smoothing, encoder.shape.width, 0 if labels is None else labels.shape[1])
        self.losses.to(self.device)
        self.towers = nn.ModuleList([self.photos, self.texts])
        self.average = copy.deepcopy(self.towers).requires_grad_(False)
        for texts in (self.texts, self.average[1]):
            if isinstance(texts.read, nn.GRU):
                texts.read.flatten_parameters()
        self.compiled = torch.compile(self.photos.maps, dynamic=False) if self.device == "cuda" else self.photos.maps
        self.set_side(chosen.first_side or chosen.side)
        self.nouns = NounPhotos(arrays, len(train), self.device)
        number_of = {word: number for number, word in enumerate(arrays["words"].tolist())}
        self.prefixes = [[number_of[word] for word in text.split()] for text in ("", "a", "the", "a photo of a")]
        self.share = source_shares(arrays, chosen.shares, self.device)
        # The vectors of photos when they were last seen, to draw neighbours.
        self.seen = torch.zeros(len(train) if chosen.group > 1 else 0, chosen.embedding, device=self.device)

    def set_side(self, side: int) -> None:
        """Train with photos of this side from now on."""
        self.side = side
        cells = side // self.photos.encoder.shape.patch
        centred = anchor_boxes(self.photos.head.shape, cells, cells).to(self.device)
        self.anchors = decode_boxes(centred, torch.zeros_like(centred))

    def noun_texts(self, which: Tensor) -> Tensor:
        prefix = self.prefixes[torch.randint(len(self.prefixes), ()).item()]
        before = torch.tensor(prefix, dtype=torch.int32, device=self.device).expand(len(which), -1)
        return torch.cat([before, self.nouns.texts[which]], dim=1)

    def text_pairs(self) -> list[Tensor]:
        """Two captions of each of some photos."""
        rows = torch.randint(len(self.more_text), (self.chosen.text_pairs,), device=self.device)
        pairs = torch.rand(len(rows), self.more_text.shape[1], device=self.device).argsort(dim=1)[:, :2]
        return [self.more_text[rows, pairs[:, side]] for side in (0, 1)]

    def text_step(self) -> Tensor:
        a, b = (self.texts.sentences(part) for part in self.text_pairs())
        return self.losses.pairs(a, b, 1)

    def next_batch(self, done: float = 0.0) -> Batch:
        """Draw a batch on a stream of its own: reading its sizes then does not wait for the training step."""
        if self.stream is None:
            return self.draw(done)
        if len(self.seen):
            self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            return self.draw(done)

    @torch.no_grad()
    def draw(self, done: float) -> Batch:
        chosen, train = self.chosen, self.train
        rows = self.rows(done)
        view = View.random(len(rows), chosen.smallest_crop, self.device)
        which = torch.rand(len(rows), train.captions.shape[1], device=self.device).argsort(dim=1)
        which = which[:, : chosen.captions]
        drawn, shown = self.nouns.draw(rows, chosen.nouns)
        marked = train.annotated[rows].nonzero()[:, 0]
        phrases = self.phrases(view[marked], rows[marked], which[marked, 0])
        boxes = view[marked].boxes(train.boxes[rows[marked]])
        picked = torch.zeros(0, chosen.candidates // 4, dtype=torch.int64, device=self.device)
        if len(marked):
            picked = torch.multinomial((boxes[..., 0] >= 0) + 1e-6, chosen.candidates // 4, replacement=True)
        captions = train.captions[rows[:, None], which].flatten(0, 1)
        return Batch(
            rows=rows,
            view=view,
            shown=shown,
            texts=Texts.padded([captions, self.noun_texts(drawn), *self.text_pairs(), phrases.names]),
            marked=marked,
            jittered=boxes.gather(1, picked[..., None].expand(-1, -1, 4)),
            targets=box_targets(self.anchors, boxes),
            phrases=phrases,
        )

    def photo_step(self, batch: Batch, frozen: bool) -> Tensor:
        """The loss of a batch. Nothing in it waits for the GPU."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            batch.record(torch.cuda.current_stream())
        chosen, rows, marked = self.chosen, batch.rows, batch.marked
        with torch.no_grad():
            pixels = batch.view.pixels(self.train.pixels[rows], self.side)
        with torch.set_grad_enabled(not frozen):
            cells = self.photos.maps(pixels) if frozen else self.compiled(pixels)
        wholes = self.photos.wholes(cells)
        if len(self.seen):
            self.seen[rows] = wholes.detach()
        # One pass of the recurrent network over all texts: its time hardly depends on their number.
        read = self.texts.read_all(batch.texts)
        sentences, names, one, other = (self.texts.embed_sentences(part) for part in read[:4])
        loss = self.losses.captions(wholes, sentences.unflatten(0, (len(rows), -1)))
        loss = loss + chosen.noun_weight * self.losses.nouns(wholes, names, batch.shown)
        loss = loss + chosen.text_weight * self.losses.pairs(one, other, 1)
        if self.losses.classes is not None and self.train.labels is not None:
            loss = loss + chosen.label_weight * self.losses.labels(cells, self.train.labels[rows])
        if not len(batch.phrases.names):
            return loss  # the batch has no boxes, or none is in the crops
        cells = cells[marked]
        logits, boxes = self.photos.head(cells)
        partial = self.train.partial[rows[marked]]
        loss = loss + chosen.box_weight * self.losses.boxes(logits, boxes, batch.targets, partial)
        slots = self.candidates(batch.jittered, logits.detach(), boxes.detach())
        found = self.grounded(batch.phrases, self.texts.embed_phrases(read[4]), cells, slots)
        return loss + chosen.region_weight * self.losses.grounding(found)

    def phrases(self, view: View, rows: Tensor, which: Tensor) -> Phrases:
        """The phrases of one caption per photo that have a box in the crop."""
        boxes = view.boxes(self.train.phrase_boxes[rows, which])
        chains = self.train.phrase_chains[rows, which]
        there = (chains >= 0) & (boxes[..., 0] >= 0)
        photo, place = there.nonzero(as_tuple=True)
        return Phrases(self.train.phrases[rows, which][there], photo, place, chains[there], boxes[there])

    def grounded(self, phrases: Phrases, vectors: Tensor, cells: Tensor, slots: Tensor) -> Grounded:
        """Regions and overlaps of the phrases; their own boxes are the first candidates."""
        slots[phrases.photo, phrases.place] = phrases.gold
        overlap = iou(phrases.gold[:, None, :], slots[phrases.photo])[:, 0]
        regions = self.photos.regions(cells, slots)
        return Grounded(
            phrases=vectors,
            names=phrases.names,
            photo=phrases.photo,
            chain=phrases.chain,
            gold=regions[phrases.photo, phrases.place],
            candidates=regions,
            right=overlap >= 0.6,
            unclear=(overlap >= 0.4) & (overlap < 0.6),
        )

    def candidates(self, jittered: Tensor, logits: Tensor, boxes: Tensor) -> Tensor:
        """Candidate boxes (b, candidates, 4): proposals of the head, jittered gold boxes, and random anchors."""
        count, quarter = jittered.shape[:2]
        best = logits.topk(16 * quarter, dim=1).indices
        some = torch.rand(best.shape, device=self.device).argsort(dim=1)[:, : 2 * quarter]
        proposed = boxes.gather(1, best.gather(1, some)[..., None].expand(-1, -1, 4))
        sides = (jittered[..., 2:] - jittered[..., :2]).repeat(1, 1, 2)
        jittered = (jittered + (torch.rand_like(jittered) - 0.5) * 0.5 * sides).clamp(0, 1)
        phrases = self.train.phrases.shape[2]
        anywhere = self.anchors[torch.randint(len(self.anchors), (count, quarter + phrases), device=self.device)]
        return torch.cat([anywhere, jittered, proposed], dim=1)

    def optimizer(self, encoder_rate: float, head_rate: float) -> torch.optim.Optimizer:
        encoder = list(self.photos.encoder.parameters())
        mine = {id(parameter) for parameter in encoder}
        heads = [p for module in (self.photos, self.texts) for p in module.parameters() if id(p) not in mine]
        groups = [
            {"params": encoder, "lr": encoder_rate},
            {"params": heads, "lr": head_rate},
            {"params": list(self.losses.parameters()), "lr": head_rate, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, weight_decay=self.chosen.decay, fused=self.device == "cuda")

    def rows(self, done: float = 0.0) -> Tensor:
        """Draw the photos of a batch."""
        if len(self.seen) and done >= self.chosen.group_share:
            return draw_groups(self.seen, self.share, self.chosen.batch, self.chosen.group)
        return torch.multinomial(self.share, self.chosen.batch)

    def warm_up(self) -> None:
        """Train the heads on the encoder as it is, then compile it for each size of photo, which takes a minute."""
        chosen = self.chosen
        first = self.optimizer(0.0, chosen.head_rate)
        self.towers.train()
        for number in range(chosen.text_steps):
            update(first, self.text_step(), 0.5 * number / chosen.text_steps)
        for number in range(chosen.head_steps):
            update(first, self.photo_step(self.next_batch(), True), 0.5 * number / chosen.head_steps)
        for side in {self.side, chosen.side} if self.device == "cuda" else ():
            pixels = torch.rand(chosen.batch, 3, side, side, device=self.device)
            self.compiled(pixels).sum().backward()
        self.towers.zero_grad(set_to_none=True)
        self.average.load_state_dict(self.towers.state_dict())

    def run(self, folder: Path | None) -> Iterator[dict[str, float]]:
        """Train, save the averaged towers and the state now and then, and yield scores."""
        chosen = self.chosen
        optimizer = self.optimizer(chosen.encoder_rate, chosen.head_rate)
        in_epoch = float(self.share.sum()) / chosen.batch
        parts = {"towers": self.towers, "average": self.average, "losses": self.losses, "optimizer": optimizer}
        resumable = folder is not None and (folder / STATE).is_file()
        if not resumable:
            self.warm_up()
        pace = Pace(chosen.minutes, round(chosen.epochs * in_epoch), STARTED, reserve=RESERVE)
        checkpoint = Checkpoint(folder and folder / STATE, parts | {"pace": pace})
        if checkpoint.restore():
            print(f"continued from step {pace.number}", flush=True)
        self.towers.train()
        scored, saved = int(pace.done * chosen.scores), time.monotonic()
        batch = None
        while (done := pace.done) < 1:
            if self.side != chosen.side and done >= chosen.first_share:
                self.set_side(chosen.side)
                batch = None  # its targets are those of the other size
            loss = self.photo_step(batch or self.next_batch(done), False)
            update(optimizer, loss, done)
            batch = self.next_batch(done)  # while the GPU makes the step
            follow(self.average, self.towers, 1 - chosen.average)
            done = pace.step()
            if pace.number % 100 == 0:
                print(f"step {pace.number}, {pace.seconds:.0f} s, {done:.1%}, loss {loss.item():.3f}", flush=True)
            due = int(done * chosen.scores) > scored
            if folder is not None and (due or time.monotonic() - saved > 60 * chosen.save_minutes):
                checkpoint.save()
                save(self, folder)
                saved = time.monotonic()
            if due:
                scored = int(done * chosen.scores)
                about = {"epoch": round(pace.number / in_epoch, 1), "loss": round(loss.item(), 3)}
                self.scores = (
                    about | {"s": round(pace.seconds)} | self.measure(None if done == 1 else SCORED_IN_TRAINING)
                )
                if folder is not None:
                    save(self, folder)
                yield self.scores

    def measure(self, most_grounded: int | None) -> dict[str, float]:
        """Score the averaged weights on dev. An error is reported at the end, because it must not cost the training."""
        photos, texts = self.average
        try:
            return measure(photos, texts, self.dev, self.chosen.side, most_grounded)
        except Exception:
            traceback.print_exc()
            self.failed = True
            return {}


def save(training: Training, folder: Path) -> None:
    """Save the averaged towers, with settings and the last scores."""
    photos, texts = training.average
    about = {
        "learned_from": json.loads(str(training.arrays["learned_from"])),
        "training": asdict(training.chosen),
        "dev": training.scores,
        "head": asdict(photos.head.shape),
    }
    save_towers(photos, texts, about, folder)


def check_resumed(folder: Path, chosen: Settings) -> None:
    """Stop if the folder has the state of a training with other settings; a limit in time may differ."""
    described = folder / "towers.json"
    if not (folder / STATE).is_file() or not described.is_file():
        return
    before = json.loads(described.read_text())["training"]
    if changed := [key for key, value in asdict(chosen).items() if key != "minutes" and before.get(key) != value]:
        raise SystemExit(f"{folder}: holds a training with another {', '.join(changed)}; give another --out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("photos", type=Path)
    begin = parser.add_mutually_exclusive_group(required=True)
    begin.add_argument("--start", type=Path, help="DINOv2 as ONNX, or weights as safetensors")
    begin.add_argument("--towers", type=Path, help="result of a training, to continue from")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", nargs="*", default=[])
    options = parser.parse_args()
    chosen = settings_from(Settings(), options.set)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        check_resumed(options.out, chosen)
    arrays = dict(np.load(options.examples))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = Examples(arrays, "train", options.photos, device)
    dev = {name: Examples(arrays, name, options.photos, device) for name in arrays["dev"].tolist()}
    print(f"{len(train):,} photos are read in {time.monotonic() - STARTED:.0f} s", flush=True)
    if options.towers:
        start, about = read_towers(options.towers)
        head = head_shape(about["head"])
    else:
        start = {f"photos.encoder.{name}": tensor for name, tensor in read_start(options.start, "vit").items()}
        head = None
    training = Training(chosen, arrays, start, head, train, dev)
    for scores in training.run(options.out):
        print(json.dumps(scores), flush=True)
    if training.failed:
        raise SystemExit("the scores failed; the weights are saved")


if __name__ == "__main__":
    main()
