"""Copy a trained model, or the trained encoder or proposal head, into the package, in half precision or as int8.

python scripts/ship_model.py FOLDER NAME [--int8 [--products]] [--summary TEXT] [--trained-on TEXT] [--licence TEXT]
                             [--scores K=V …]

FOLDER is a directory from ``deixis train`` or, for NAME encoder or head, from ``scripts/retrain.py encoder``. If it is
that of the shipped model, its graphs are exported again and everything else stays the same. The
description in `config.json` (summary, training data, licence, scores) is that of the shipped model, less what the
options change; a new model needs all of it. The card `README.md` is written by hand and kept; a new model gets the card
of its training.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from quantization import quantize_weights

import deixis.vision
from deixis.models.installed import SHIPPED
from deixis.models.pipeline import Pipeline, load
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.storage.artifacts import (
    CARD,
    CONFIG,
    DESCRIPTION,
    WEIGHTS,
    Artifact,
    read_artifact,
    read_config,
    write_into,
)
from deixis.storage.checksums import TensorFile
from deixis.storage.graphs import SUFFIX
from deixis.vision.encoders import open_encoder

VISION = Path(deixis.vision.__file__).parent / "models"
VISION_PARTS = ("encoder", "fast", "head")
DESCRIBED = ("summary", "trained_on", "licence", "scores")


def ship(
    pipeline: Pipeline,
    folder: Path,
    *,
    int8: bool = False,
    products: bool = False,
    description: Mapping[str, Any] | None = None,
) -> None:
    """Write weights and configuration of a model to a directory; parts of the description replace those there."""
    described: dict[str, Any] = {}
    if (folder / CONFIG).is_file():
        old = Provenance.from_json(read_config(folder)["provenance"])
        described = {name: getattr(old, name) for name in DESCRIBED}
    described |= description or {}
    pipeline.provenance = replace(pipeline.provenance, encoder=shipped_encoder(pipeline.encoder), **described)
    artifact = pipeline.to_artifact(half=True)
    with tempfile.TemporaryDirectory() as made:
        write_into(Path(made), quantize_weights(artifact, products=products) if int8 else artifact)
        _copy(Path(made), folder)
    if pipeline.card and not (folder / CARD).is_file():
        (folder / CARD).write_text(pipeline.card, encoding="utf-8")


def shipped_encoder(encoder: EncoderInfo) -> EncoderInfo:
    """Return the encoder of a model under the name that it has in the package."""
    if not encoder.name.startswith("deixis:"):
        return encoder
    if open_encoder("deixis", device="cpu").fingerprint != encoder.fingerprint:
        raise SystemExit(f"{encoder.name}: is not the encoder of the package; ship it first")
    return replace(encoder, name="deixis")


def ship_part(artifact: Artifact, folder: Path, *, half: bool = False) -> None:
    """Write an artifact that is no model, such as the tagger, to a directory, keeping the description there."""
    if (folder / CONFIG).is_file():
        old = read_config(folder).get("provenance", {})
        described = {name: old[name] for name in DESCRIPTION if name in old}
        artifact = replace(artifact, provenance=described | artifact.provenance)
    with tempfile.TemporaryDirectory() as made:
        write_into(Path(made), artifact, half=half)
        _copy(Path(made), folder)


def export_again(folder: Path) -> None:
    """Export the graphs of a saved network again; its weights, quantised or not, stay as they are."""
    import onnx
    from quantization import has_block_products, use_integers

    from deixis.runtime.modules import export_functions

    graphs = export_functions(load(folder).model.functions.module)
    artifact = read_artifact(folder, keep_half=True)
    quantized = [name for name, tensor in TensorFile(artifact.files[WEIGHTS]).layout.items() if tensor.dtype == "I8"]
    if quantized:
        products = any(has_block_products(onnx.load_from_string(graph)) for graph in artifact.graphs.values())
        graphs = {
            name: use_integers(onnx.load_from_string(graph), quantized, products=products)
            for name, graph in graphs.items()
        }
    with tempfile.TemporaryDirectory() as made:
        write_into(Path(made), replace(artifact, graphs=graphs))
        _copy(Path(made), folder)


def _copy(made: Path, folder: Path) -> None:
    if (folder / CONFIG).is_file():
        for name in {*read_config(folder)["parts"]} - {*read_config(made)["parts"]}:
            shutil.rmtree(folder / name, ignore_errors=True)  # it was fitted to the model that is replaced
    for graph in folder.rglob(f"*{SUFFIX}"):
        graph.unlink()
    for file in made.rglob("*"):
        if file.name in (CONFIG, WEIGHTS) or file.suffix == SUFFIX:
            target = folder / file.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("name")
    parser.add_argument("--int8", action="store_true", help="store weight matrices as int8, with a scale for each row")
    parser.add_argument("--products", action="store_true", help="also multiply by the int8 matrices; takes --int8")
    for name in DESCRIBED[:-1]:
        parser.add_argument(f"--{name.replace('_', '-')}")
    parser.add_argument("--scores", nargs="+", metavar="K=V", help='such as: "of=retrieval, Flickr8k dev" i2t_r1=50.8')
    chosen = parser.parse_args()
    if chosen.products and not chosen.int8:
        parser.error("--products takes --int8")
    if chosen.name in VISION_PARTS:
        # With its own graphs: those of an int8 network cannot be exported again.
        ship_part(read_artifact(chosen.model, keep_half=True), VISION / chosen.name)
        return
    folder = SHIPPED / chosen.name
    if chosen.model.resolve() == folder.resolve():
        export_again(folder)
        return
    pipeline = load(chosen.model)
    if pipeline.text is not None:
        raise SystemExit(f"{chosen.model}: only models with their own text encoder can be shipped")
    given = {name: getattr(chosen, name) for name in DESCRIBED if getattr(chosen, name)}
    if chosen.scores:
        given["scores"] = dict(map(_score, chosen.scores))
    if not (folder / CONFIG).is_file() and (missing := [name for name in DESCRIBED if name not in given]):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise SystemExit(f"{chosen.name}: a new model needs a description; add {options}")
    ship(pipeline, folder, int8=chosen.int8, products=chosen.products, description=given)
    print(f"{folder}: {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.2f} MB")


def _score(text: str) -> tuple[str, float | str]:
    name, _, value = text.partition("=")
    return name, value if name == "of" else float(value)


if __name__ == "__main__":
    main()
