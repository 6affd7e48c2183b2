"""Fuzzing harnesses: one function for each reader of untrusted input.

A harness takes bytes and a working folder. For any bytes it must return or raise a `DeixisError` with a one-line
message; everything else is a finding. Its seeds are valid files, which the fuzzer mutates.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save as save_tensors

from deixis.annotate.settings import Settings, read_settings, write_settings
from deixis.data.dataset import Dataset, make_dataset
from deixis.data.formats import read_captions
from deixis.data.formats.entities import parse_annotation, parse_sentence, read_entities
from deixis.data.images import inspect_photo, open_photo
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.data.tables import hash_tables
from deixis.evaluation.captions.results_file import read_results
from deixis.evaluation.predictions import read_predictions
from deixis.language.sentence import Sentence
from deixis.language.tagger import SequenceModel
from deixis.language.trees import read_trees
from deixis.language.vectors import read_vector_file
from deixis.language.vocabulary import Vocabulary
from deixis.models.cca.model import CCA
from deixis.models.describer.description import PhraseBank
from deixis.models.matching.model import MatchingPipeline, TwoBranch
from deixis.models.matching.spec import TwoBranchSettings
from deixis.models.pipeline import load
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.models.training.checkpoints import Position, read_checkpoint, write_checkpoint
from deixis.models.training.settings import Settings as RunSettings
from deixis.models.training.settings import TrainSettings
from deixis.search.index.photo_files import read_exif
from deixis.search.query import parse_query
from deixis.storage.artifacts import Artifact, read_artifact, write_artifact
from deixis.storage.sidecars import write_caption
from deixis.tokens import tokenize, words
from deixis.vision.encoders import open_encoder
from deixis.vision.encoders.base import IMAGENET
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.encoders.saved import save_network
from deixis.vision.feature_store import FeatureStore, update_store
from deixis.vision.feature_store.imports import open_vectors
from tests.unchecked import without_checksums
from tests.vision.feature_store.small import colour_encoder, make_data

Check = Callable[[bytes, Path], None]
Seeds = Callable[[Path], list[bytes]]
HARNESSES: dict[str, Harness] = {}


@dataclass(frozen=True)
class Harness:
    """A reader to test and its valid seed files; `prepare` writes the other files that the reader needs."""

    name: str
    check: Check
    seeds: Seeds
    prepare: Callable[[Path], None]


def harness(seeds: Seeds, prepare: Callable[[Path], None] = lambda folder: None) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        name = check.__name__.replace("_", "-")
        HARNESSES[name] = Harness(name, check, seeds, prepare)
        return check

    return add


def lines(*texts: str) -> Seeds:
    return lambda folder: [text.encode() for text in texts]


def file_made_by(make: Callable[[Path], None], path: str) -> Seeds:
    def seeds(folder: Path) -> list[bytes]:
        make(folder)
        return [(folder / path).read_bytes()]

    return seeds


CAPTION_FILES = (
    "1.jpg#0\tA dog .\n1.jpg#1\tTwo dogs .\n",
    "image_name| comment_number| comment\n1.jpg| 0| A dog .\n",
    "image,caption\n1.jpg,A dog .\n",
    json.dumps({"images": [{"filename": "1.jpg", "split": "val", "sentences": [{"raw": "A dog .", "tokens": ["a"]}]}]}),
    json.dumps({"images": [{"id": 1, "file_name": "1.jpg"}], "annotations": [{"image_id": 1, "caption": "A dog ."}]}),
    json.dumps({"images": [{"file_name": "1.jpg", "regions": [{"bbox": [1, 2, 3, 4], "phrases": ["a dog"]}]}]}),
    json.dumps([{"id": 1, "regions": [{"x": 1, "y": 2, "width": 3, "height": 4, "phrase": "a dog"}]}]),
    '{"image": "1.jpg", "captions": ["A dog ."], "split": "val"}\n{"id": "2", "captions": [{"text": "A"}]}\n',
)


@harness(lines(*CAPTION_FILES))
def captions(data: bytes, folder: Path) -> None:
    file = folder / "captions"
    file.write_bytes(data)
    for photo in read_captions(file).photos:
        repr(photo).encode()


SENTENCE = "[/EN#1/people A man] in [/EN#2/clothing a red hat] walks [/EN#0/notvisual it] ."
ANNOTATION = """<annotation><filename>1.jpg</filename>
<size><width>500</width><height>333</height><depth>3</depth></size>
<object><name>1</name><name>2</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object>
<object><name>3</name><scene>1</scene><nobndbox>0</nobndbox></object></annotation>"""


@harness(lines(SENTENCE, "[/EN#3/other/vehicles a \\] cart] stands ."))
def entities_sentence(data: bytes, folder: Path) -> None:
    caption = parse_sentence(data.decode(errors="surrogateescape"))
    assert all(0 <= each.start < each.end <= len(caption.text) for each in caption.mentions)


@harness(lines(ANNOTATION))
def entities_annotation(data: bytes, folder: Path) -> None:
    parse_annotation(data, "1.xml", "1")


def zip_seed(folder: Path) -> list[bytes]:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Sentences/1.txt", SENTENCE + "\n")
        archive.writestr("Annotations/1.xml", ANNOTATION)
        archive.writestr("train.txt", "1\n")
    return [written.getvalue()]


@harness(zip_seed)
def entities_zip(data: bytes, folder: Path) -> None:
    file = folder / "annotations.zip"
    file.write_bytes(data)
    with read_entities(file) as source:
        for photo in source.photos:
            repr(photo)


def photo_files(folder: Path) -> list[bytes]:
    found = []
    for form in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"):
        written = io.BytesIO()
        exif = Image.Exif()
        exif[0x0112], exif[0x010F], exif[0x0110] = 6, "Maker", "Model 7"
        exif.get_ifd(0x8769)[0x9003] = "2024:06:01 12:30:00"
        options: dict[str, Any] = {} if form in ("GIF", "BMP") else {"exif": exif}
        Image.effect_noise((24, 16), 40).convert("RGB").save(written, form, **options)
        found.append(written.getvalue())
    return found


@harness(photo_files)
def photos(data: bytes, folder: Path) -> None:
    file = folder / "photo.jpg"
    file.write_bytes(data)
    if inspect_photo(file).width * inspect_photo(file).height <= 4_000_000:
        open_photo(file)


@harness(photo_files)
def exif(data: bytes, folder: Path) -> None:
    file = folder / "photo.jpg"
    file.write_bytes(data)
    repr(read_exif(file)).encode()


@harness(lines('<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="deixis 0">', '<x:xmpmeta x:xmptk="Adobe XMP Core">'))
def xmp_sidecar(data: bytes, folder: Path) -> None:
    """A sidecar of another program is never overwritten."""
    sidecar = folder / "dog.jpg.xmp"
    sidecar.write_bytes(data)
    try:
        write_caption(folder / "dog.jpg", data.decode(errors="replace"))
    finally:
        assert b'x:xmptk="deixis ' in data[:4096] or sidecar.read_bytes() == data


def write_dataset(folder: Path) -> None:
    captions = (Caption.from_text("A dog runs.", (Mention(0, 5, "1", ("animals",)),)), Caption.from_text("It runs."))
    photo = Photo("1", captions, (Chain("1"),), (Box((1, 2, 30, 40), ("1",)),), 50, 60, splits=("train",))
    make_dataset(folder / "data", [photo, Photo("2", (Caption.from_text("A cat."),))])
    without_checksums(folder)


def read_dataset(folder: Path) -> None:
    dataset = Dataset(folder / "data")
    for photo in dataset.photos:
        repr(photo)
    for split in dataset.manifest.splits:
        assert len(dataset.split(split)) <= len(dataset.photos)


def _read_with_table(data: bytes, folder: Path, name: str) -> None:
    """Replace a table and its hash, as a malicious author would, and read the data set."""
    (folder / "data" / name).write_bytes(data)
    manifest = json.loads((folder / "data" / "manifest.json").read_text())
    manifest["files"], manifest["hash"] = hash_tables(folder / "data")
    (folder / "data" / "manifest.json").write_text(json.dumps(manifest))
    read_dataset(folder)


@harness(file_made_by(write_dataset, "data/captions.arrow"), write_dataset)
def data_captions_table(data: bytes, folder: Path) -> None:
    _read_with_table(data, folder, "captions.arrow")


@harness(file_made_by(write_dataset, "data/boxes.arrow"), write_dataset)
def data_boxes_table(data: bytes, folder: Path) -> None:
    _read_with_table(data, folder, "boxes.arrow")


def write_store(folder: Path) -> None:
    update_store(folder / "store", make_data(folder, 4), colour_encoder(), shard_photos=4)
    without_checksums(folder)


def read_store(folder: Path) -> None:
    store = FeatureStore(folder / "store")
    store.whole()
    for name in store.ids:
        store.map(name)


def shard_seed(folder: Path) -> list[bytes]:
    write_store(folder)
    return [next((folder / "store").glob("*.safetensors")).read_bytes()]


@harness(shard_seed, write_store)
def store_shard(data: bytes, folder: Path) -> None:
    path = folder / "store" / "manifest.json"
    manifest = json.loads(path.read_text())
    (folder / "store" / manifest["shards"][0]["file"]).write_bytes(data)
    manifest["shards"][0]["bytes"] = len(data)
    path.write_text(json.dumps(manifest))
    read_store(folder)


def feature_files(folder: Path) -> list[bytes]:
    numbers, found = np.arange(6, dtype=np.float32).reshape(2, 3), []
    for write in (np.save, lambda file, array: np.savez(file, features=array, ids=np.array(["a", "b"]))):
        written = io.BytesIO()
        write(written, numbers)  # type: ignore[operator]
        found.append(written.getvalue())
    return [*found, save_tensors({"features": numbers}, {"ids": '["a", "b"]'})]


@harness(feature_files)
def imported_features(data: bytes, folder: Path) -> None:
    file = folder / {b"\x93N": "a.npy", b"PK": "a.npz"}.get(data[:2], "a.safetensors")
    file.write_bytes(data)
    with open_vectors(file, ["a", "b"]) as table:
        for row in range(len(table.names)):
            table.read(row)


def write_model(folder: Path) -> None:
    rng = np.random.default_rng(0)
    model = CCA(embedding_dim=2).fit(rng.normal(size=(40, 4)), rng.normal(size=(40, 3)))
    MatchingPipeline(model, Provenance(EncoderInfo("deixis", "a"))).save_pretrained(folder / "model")
    without_checksums(folder)


def write_encoder(folder: Path) -> None:
    network = VisionTransformer(ViTShape(width=4, heads=1, blocks=1, patch=2, grid=2))
    save_network(folder / "encoder", network, 4, IMAGENET)
    without_checksums(folder)


def encode_photo(folder: Path) -> None:
    open_encoder(f"deixis:{folder / 'encoder'}", "cpu").network(np.zeros((1, 4, 6, 3), np.uint8))


def write_network(folder: Path) -> None:
    settings = TwoBranchSettings(hidden_size=4, embedding_dim=2, text_encoder="gru", word_dim=2, text_hidden_size=3)
    torch.manual_seed(0)
    TwoBranch(3, 0, settings, Vocabulary(("a", "dog"), (2, 1))).save(folder / "network")
    without_checksums(folder)


def embed(folder: Path) -> None:
    model = TwoBranch.load(folder / "network")
    model.prepare_visual(np.ones((2, model.visual_size % 8)))
    model.prepare_text(["a dog", "a"])


def write_tagger(folder: Path) -> None:
    weights, transitions = np.array([[1, 0], [0, -2]], np.int8), np.zeros((3, 2), np.int32)
    SequenceModel(("A", "B"), weights, transitions, {}).save(folder / "tagger")
    without_checksums(folder)


@harness(lines("epochs=3", "betas=0.9,0.99", "learning_rate=1e-3"))
def training_assignment(data: bytes, folder: Path) -> None:
    RunSettings((TrainSettings(),)).with_assignments([data.decode(errors="surrogateescape")])


def write_estimator(folder: Path) -> None:
    inner = Artifact("inner", {"seed": 3}, {"numbers": np.arange(3)})
    write_artifact(folder / "saved", Artifact("example", {"words": ["a"]}, {"numbers": np.eye(2)}, {"part": inner}))
    without_checksums(folder)


@harness(lines("(S (NP (DT a) (NN dog)) (VP (VBZ runs)))", "(TOP (NP (NN x)))\n(S)"))
def trees(data: bytes, folder: Path) -> None:
    read_trees(data.decode(errors="surrogateescape"))


@harness(lines('dog in the snow +ball -"red collar" in:holiday camera:canon after:2024-06 before:2025', "+a -b"))
def query(data: bytes, folder: Path) -> None:
    text = data.decode(errors="surrogateescape")
    for part in (found := parse_query(text)).required + found.excluded:
        source = text[part.start : part.start + len(part.text)]
        assert len(source) == len(part.text)
        # Signed words and filters are replaced by blanks in the sentence around them.
        assert all(one == other or one == " " for one, other in zip(part.text, source, strict=True))


@harness(lines("A man's dog, isn't it? $3.50 (e.g. 10-year-old)", "Zwei Hunde… 犬が走る 👩‍👩‍👧"))
def tokenizer(data: bytes, folder: Path) -> None:
    text = data.decode(errors="surrogateescape")
    for token in tokenize(text):
        assert text[token.start : token.end] == token.text
    words(text)


@harness(lines("A man in a red hat holds a guitar .", "two dogs , one cat and the 3rd"))
def sentence(data: bytes, folder: Path) -> None:
    text = data.decode(errors="replace")[:400]
    parsed = Sentence(text)
    for phrase in parsed.phrases:
        assert text[slice(*phrase.span)] == phrase.text


def write_run_files(folder: Path) -> None:
    write_settings(Settings(), folder / "settings.json")
    write_checkpoint(folder / "a.safetensors", {"weights/a": torch.ones(3), "optimizer/b": torch.zeros(2)}, Position(7))


def open_module(folder: Path) -> None:
    """Open the torch module of an encoder, whose shape is in the settings."""
    network: Any = open_encoder(f"deixis:{folder / 'encoder'}").network
    _ = network.functions.module


# One damaged file of those that a function writes: the function, the file, and the reader of the folder.
MADE_FILES: dict[str, tuple[Callable[[Path], None], str, Callable[[Path], object]]] = {
    "annotation-settings": (write_run_files, "settings.json", lambda folder: read_settings(folder / "settings.json")),
    "checkpoint": (write_run_files, "a.safetensors", lambda folder: read_checkpoint(folder / "a.safetensors")),
    "data-manifest": (write_dataset, "data/manifest.json", read_dataset),
    "encoder-config": (write_encoder, "encoder/config.json", open_module),
    "encoder-graph": (write_encoder, "encoder/encode.onnx", encode_photo),
    "encoder-weights": (write_encoder, "encoder/weights.safetensors", open_module),
    "estimator-array": (
        write_estimator,
        "saved/weights.safetensors",
        lambda folder: read_artifact(folder / "saved", mapped=True),
    ),
    "estimator-document": (write_estimator, "saved/config.json", lambda folder: read_artifact(folder / "saved")),
    "model-config": (write_model, "model/config.json", lambda folder: load(folder / "model")),
    "model-weights": (write_model, "model/weights.safetensors", lambda folder: load(folder / "model")),
    "network-config": (write_network, "network/config.json", embed),
    "network-graph": (write_network, "network/embed_text.onnx", embed),
    "network-weights": (write_network, "network/weights.safetensors", embed),
    "store-manifest": (write_store, "store/manifest.json", read_store),
    "tagger-config": (write_tagger, "tagger/config.json", lambda folder: SequenceModel.load(folder / "tagger")),
    "tagger-weights": (
        write_tagger,
        "tagger/weights.safetensors",
        lambda folder: SequenceModel.load(folder / "tagger"),
    ),
}

# A file on its own: valid contents, and the reader of the file.
PLAIN_FILES: dict[str, tuple[tuple[bytes, ...], Callable[[Path], object]]] = {
    "caption-results": (
        (b'[{"image_id": 1, "caption": "a dog"}]', b'{"image": "1.jpg", "caption": "a dog"}\n'),
        read_results,
    ),
    "phrase-bank": ((b"A red bus\t12\n\nour dog Rex\n",), PhraseBank.read),
    "predictions": (
        (b'{"photo": "1", "caption": 0, "span": [0, 15], "boxes": [[10, 20, 110, 220]], "scores": [0.9]}\n',),
        read_predictions,
    ),
    "training-settings": (
        (b'{"epochs": 3, "learning_rate": 0.1, "betas": [0.9, 0.99], "device": "cpu"}',),
        lambda file: RunSettings((TrainSettings(),)).with_file(file),
    ),
    "word-vectors": (
        (b"2 2\ndog 0.5 1\ncat 1 2\n", b"2 2\ndog " + bytes(8) + b"\ncat " + bytes(8), b"dog 1 2\ncat 2 1\n"),
        lambda file: read_vector_file(file, limit=50),
    ),
}


def _made_file_harness(name: str) -> Harness:
    make, path, read = MADE_FILES[name]

    def check(data: bytes, folder: Path) -> None:
        (folder / path).write_bytes(data)
        read(folder)

    return Harness(name, check, file_made_by(make, path), make)


def _plain_file_harness(name: str) -> Harness:
    contents, read = PLAIN_FILES[name]

    def check(data: bytes, folder: Path) -> None:
        (folder / "file.json").write_bytes(data)
        read(folder / "file.json")

    return Harness(name, check, lambda folder: list(contents), lambda folder: None)


HARNESSES |= {name: _made_file_harness(name) for name in MADE_FILES}
HARNESSES |= {name: _plain_file_harness(name) for name in PLAIN_FILES}
