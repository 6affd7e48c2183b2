"""Check on the machine that will train the encoders that every stage runs: one step, one score and one save of each.

python scripts/check_training.py examples.npz PHOTOS --start DINOV2 --fast-start TINYVIT --out OUT
                                 [--set side=224 …] [--data DATA]

Run it before the training, with the same settings: it takes the packed photos that are there already, so one part is
enough, and uses batches of the real size. Stages: training with a score and files that are small enough to be copied,
its continuation, the fast encoder, the export as int8, whose vectors must agree with the trained towers, and, with
``--data``, ``scripts/retrain.py`` for the models on the encoder, on that data set, which should be small. The first
stage that fails ends the check with its output.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from encoder_data import id_of

SCRIPTS = Path(__file__).parent
LARGEST_FILE = 16 << 20
TRAIN, DEV = 512, 64
ONCE = ["epochs=1e-9", "minutes=0", "scores=1"]
RETRAINED = {
    "grounder": ["grounder.epochs=1"],
    "captioner": [
        f"{stage}.{pair}" for stage in ("words", "run-1", "run-2", "run-3") for pair in ("epochs=1", "views=2")
    ],
    "hm-lstm": ["hm-lstm.epochs=1", "hm-lstm.rounds=1", "hm-lstm.round_epochs=1"],
    "describer": ["describer.components=8"],
}


def small_examples(examples: Path, photos: Path) -> dict[str, np.ndarray]:
    """Return the examples of some photos of each split that are packed."""
    packed = {str(name) for path in photos.glob("photos_*.npz") for name in np.load(path)["ids"]}
    arrays = dict(np.load(examples))
    for split, most in (("train", TRAIN), *((str(name), DEV) for name in arrays["dev"])):
        rows = [row for row, file in enumerate(arrays[f"{split}_files"]) if id_of(str(file)) in packed]
        rows = np.random.default_rng(0).permutation(rows)[:most].astype(np.int64)
        if split == "train":
            arrays["noun_pairs"] = renumbered(arrays["noun_pairs"], rows)
        elif not len(rows):
            arrays["dev"] = np.array([name for name in arrays["dev"] if name != split])
        for name in list(arrays):
            if name.startswith(f"{split}_"):
                arrays[name] = arrays[name][rows]
    if not len(arrays["train_files"]) or not len(arrays["dev"]):
        raise SystemExit(f"{photos}: has no photos of training or none of dev; pack those of dev first")
    return arrays


def renumbered(pairs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Keep the pairs of some photos, which get the numbers 0, 1, 2, …"""
    new = {int(row): number for number, row in enumerate(rows)}
    return np.array([(new[photo], noun) for photo, noun in pairs.tolist() if photo in new], np.int32).reshape(-1, 2)


def run_stage(name: str, arguments: Sequence[str | Path]) -> str:
    """Run a script; return its output."""
    started = time.monotonic()
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own scripts)
    print(f"{name}: {'failed' if done.returncode else 'ok'}, {time.monotonic() - started:.0f} s", flush=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def agreement(examples: Path, towers: Path, made: Path, photos: Path) -> Iterator[tuple[str, float]]:
    """Yield the smallest cosine of exported and trained vectors of some sentences and photos."""
    import torch
    from encoder_data import read_photos, resized
    from encoder_towers import load_towers, read_towers
    from PIL import Image

    import deixis

    arrays = dict(np.load(examples))
    photo_tower, text_tower = load_towers(arrays, towers)
    split, words = str(arrays["dev"][0]), arrays["words"]
    rows = arrays[f"{split}_captions"][:4, 0]
    pixels = read_photos(photos, arrays[f"{split}_files"][:4].tolist(), "cpu")
    side = int(read_towers(towers)[1]["training"]["side"])
    model = deixis.load(made / "two-branch")
    with torch.no_grad():
        trained = text_tower.sentences(torch.from_numpy(rows))
        seen = photo_tower.wholes(photo_tower.maps(resized(pixels, side)))
    known = [" ".join(str(words[number]) for number in row if number > 0) for row in rows]
    shown = [Image.fromarray(each.permute(1, 2, 0).numpy()) for each in pixels]
    for name, ours, theirs in (
        ("sentences", trained, model.encode_sentences(known)),
        ("photos", seen, model.encode_images(shown)),
    ):
        yield name, float((ours.numpy() * np.asarray(theirs)).sum(axis=1).min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--fast-start", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=[], help="settings of the training")
    parser.add_argument("--fast-set", nargs="*", default=[], help="settings of the fast encoder")
    parser.add_argument("--data", type=Path, help="small data set directory, to train the models on the encoder")
    chosen = parser.parse_args()
    started = time.monotonic()
    chosen.out.mkdir(parents=True)
    small, towers, fast, made = (chosen.out / name for name in ("examples.npz", "towers", "fast", "made"))
    arrays = small_examples(chosen.examples, chosen.photos)
    np.savez(small, **arrays)
    print(f"{len(arrays['train_files'])} photos, dev: {', '.join(arrays['dev'].tolist())}", flush=True)
    train = [SCRIPTS / "train_encoder.py", small, chosen.photos, "--start", chosen.start, "--out", towers, "--set"]
    train += [*chosen.set, *ONCE, "text_steps=1", "head_steps=1", "group_share=0"]
    print(run_stage("training", train).strip().splitlines()[-1])
    if "continued from step 1" not in run_stage("continuation", train):
        raise SystemExit("the training was not continued")
    distil = [SCRIPTS / "distil_encoder.py", small, chosen.photos, towers, "--start", chosen.fast_start, "--out", fast]
    print(run_stage("fast encoder", [*distil, "--set", *chosen.fast_set, *ONCE]).strip().splitlines()[-1])
    for file in (*towers.glob("towers*"), *fast.glob("tiny*")):
        if file.stat().st_size >= LARGEST_FILE:
            raise SystemExit(f"{file}: {file.stat().st_size:,} bytes, too large to be copied")
    export = [SCRIPTS / "export_encoder.py", small, towers, "--out", made, "--fast", fast, "--int8"]
    run_stage("export", export)
    for name, cosine in agreement(small, towers, made, chosen.photos):
        print(f"{name}: cosine of exported and trained vectors at least {cosine:.3f}")
        if cosine < 0.95:
            raise SystemExit("the exported model does not agree with the trained one")
    for model, settings in RETRAINED.items() if chosen.data else ():
        options = [part for setting in settings for part in ("--set", setting)]
        run_stage(model, [SCRIPTS / "retrain.py", model, chosen.data, chosen.out / model, *options])
    print(f"everything runs, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
