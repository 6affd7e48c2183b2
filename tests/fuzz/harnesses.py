"""What is fed with hostile bytes: one function for each thing that reads what a stranger may have written.

A harness takes bytes and a folder of its own to work in. Whatever the bytes are, it returns or raises a `DeixisError`
of one line; everything else is a finding. Its seeds are sound files, which the fuzzer changes.
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
from deixis.data.dataset import Dataset
from deixis.data.entities import parse_annotation, parse_sentence
from deixis.data.images import look_at, open_photo
from deixis.data.making import make_dataset
from deixis.data.manifest import hash_tables
from deixis.data.readers import read_captions
from deixis.data.readers.entities import read_entities
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.evaluation.captions.results_file import read_results
from deixis.evaluation.predictions import read_predictions
from deixis.index.exif import taken_of
from deixis.language.saved import Saved, read_saved, write_saved
from deixis.language.sentence import Sentence
from deixis.language.trees import read_trees
from deixis.language.vector_files import read_vector_file
from deixis.language.vocabulary import Vocabulary
from deixis.models.cca import CCA
from deixis.models.saved import load_model
from deixis.tasks.bundle import Bundle
from deixis.tasks.captions.sidecars import write_sidecar
from deixis.tasks.describe.phrase_bank import PhraseBank
from deixis.tasks.search.queries import read_query
from deixis.tokens import tokenize, words
from deixis.training.checkpoints import Position, read_checkpoint, write_checkpoint
from deixis.training.settings import TrainSettings, settings_from, settings_from_file
from deixis.vision.encoders.opened import IMAGENET
from deixis.vision.encoders.own import load_network, save_network
from deixis.vision.encoders.vit import VisionTransformer, ViTShape
from deixis.vision.store import FeatureStore, ShardLimits, fill_store
from deixis.vision.store.tables import open_table
from tests.vision.store.small import colour_encoder, make_data

Check = Callable[[bytes, Path], None]
Seeds = Callable[[Path], list[bytes]]
HARNESSES: dict[str, Harness] = {}


@dataclass(frozen=True)
class Harness:
    """What is tried, and the sound files to begin with; `prepare` puts beside the file what it belongs to."""

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


def a_zip(folder: Path) -> list[bytes]:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Sentences/1.txt", SENTENCE + "\n")
        archive.writestr("Annotations/1.xml", ANNOTATION)
        archive.writestr("train.txt", "1\n")
    return [written.getvalue()]


@harness(a_zip)
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
    if look_at(file).width * look_at(file).height <= 4_000_000:
        open_photo(file)


@harness(photo_files)
def exif(data: bytes, folder: Path) -> None:
    file = folder / "photo.jpg"
    file.write_bytes(data)
    repr(taken_of(file)).encode()


@harness(lines('<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="deixis 0">', '<x:xmpmeta x:xmptk="Adobe XMP Core">'))
def xmp_sidecar(data: bytes, folder: Path) -> None:
    """Captions go beside a photo, and what another program wrote there is never lost."""
    there = folder / "dog.jpg.xmp"
    there.write_bytes(data)
    try:
        write_sidecar(folder / "dog.jpg", data.decode(errors="replace"))
    finally:
        assert b'x:xmptk="deixis ' in data[:4096] or there.read_bytes() == data


def a_data_set(folder: Path) -> None:
    captions = (Caption.from_text("A dog runs.", (Mention(0, 5, "1", ("animals",)),)), Caption.from_text("It runs."))
    photo = Photo("1", captions, (Chain("1"),), (Box((1, 2, 30, 40), ("1",)),), 50, 60, splits=("train",))
    make_dataset(folder / "data", [photo, Photo("2", (Caption.from_text("A cat."),))])


def file_of_the_set(name: str) -> Seeds:
    def seeds(folder: Path) -> list[bytes]:
        a_data_set(folder)
        return [(folder / "data" / name).read_bytes()]

    return seeds


def read_whole_set(folder: Path) -> None:
    dataset = Dataset(folder / "data")
    for photo in dataset.photos:
        repr(photo)
    for split in dataset.manifest.splits:
        assert len(dataset.split(split)) <= len(dataset.photos)


@harness(file_of_the_set("manifest.json"), a_data_set)
def data_manifest(data: bytes, folder: Path) -> None:
    (folder / "data" / "manifest.json").write_bytes(data)
    read_whole_set(folder)


def _a_stranger_s_table(data: bytes, folder: Path, name: str) -> None:
    """A table whose hash is right: not damaged, but made to harm."""
    (folder / "data" / name).write_bytes(data)
    manifest = json.loads((folder / "data" / "manifest.json").read_text())
    manifest["files"], manifest["hash"] = hash_tables(folder / "data")
    (folder / "data" / "manifest.json").write_text(json.dumps(manifest))
    read_whole_set(folder)


@harness(file_of_the_set("captions.arrow"), a_data_set)
def data_captions_table(data: bytes, folder: Path) -> None:
    _a_stranger_s_table(data, folder, "captions.arrow")


@harness(file_of_the_set("boxes.arrow"), a_data_set)
def data_boxes_table(data: bytes, folder: Path) -> None:
    _a_stranger_s_table(data, folder, "boxes.arrow")


def a_store(folder: Path) -> None:
    fill_store(folder / "store", make_data(folder, 4), colour_encoder(), limits=ShardLimits(photos=4))


def store_manifest_seed(folder: Path) -> list[bytes]:
    a_store(folder)
    return [(folder / "store" / "manifest.json").read_bytes()]


def read_whole_store(folder: Path) -> None:
    store = FeatureStore(folder / "store")
    store.whole()
    for name in store.ids:
        store.map(name)


@harness(store_manifest_seed, a_store)
def store_manifest(data: bytes, folder: Path) -> None:
    (folder / "store" / "manifest.json").write_bytes(data)
    read_whole_store(folder)


def shard_seed(folder: Path) -> list[bytes]:
    a_store(folder)
    return [next((folder / "store").glob("*.safetensors")).read_bytes()]


@harness(shard_seed, a_store)
def store_shard(data: bytes, folder: Path) -> None:
    path = folder / "store" / "manifest.json"
    manifest = json.loads(path.read_text())
    (folder / "store" / manifest["shards"][0]["file"]).write_bytes(data)
    manifest["shards"][0]["bytes"] = len(data)
    path.write_text(json.dumps(manifest))
    read_whole_store(folder)


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
    with open_table(file, ["a", "b"]) as table:
        table.rows(0, len(table.names))


def a_model(folder: Path) -> None:
    chance = np.random.default_rng(0)
    CCA(components=2).fit(chance.normal(size=(40, 4)), chance.normal(size=(40, 3))).save(folder / "model")


def file_of_the_model(name: str) -> Seeds:
    def seeds(folder: Path) -> list[bytes]:
        a_model(folder)
        return [(folder / "model" / name).read_bytes()]

    return seeds


@harness(file_of_the_model("settings.json"), a_model)
def model_settings(data: bytes, folder: Path) -> None:
    (folder / "model" / "settings.json").write_bytes(data)
    load_model(folder / "model")


@harness(file_of_the_model("weights.safetensors"), a_model)
def model_weights(data: bytes, folder: Path) -> None:
    (folder / "model" / "weights.safetensors").write_bytes(data)
    load_model(folder / "model")


def a_bundle(folder: Path) -> None:
    (folder / "bundle").mkdir()
    a_model(folder / "bundle")


@harness(
    lines(
        '{"format": "deixis-bundle", "version": 1, "encoder": {"name": "deixis", "fingerprint": "a", "crops": 0}, '
        '"learned": {"learn": "sentences", "place": 0.0, "proposals": "head", "top": 100}, "reads_words": true}'
    ),
    a_bundle,
)
def bundle(data: bytes, folder: Path) -> None:
    (folder / "bundle" / "bundle.json").write_bytes(data)
    Bundle.load(folder / "bundle")


def a_checkpoint(folder: Path) -> list[bytes]:
    write_checkpoint(folder / "a.safetensors", {"weights/a": torch.ones(3), "optimiser/b": torch.zeros(2)}, Position(7))
    return [(folder / "a.safetensors").read_bytes()]


@harness(a_checkpoint)
def checkpoint(data: bytes, folder: Path) -> None:
    (folder / "last.safetensors").write_bytes(data)
    read_checkpoint(folder / "last.safetensors")


def an_encoder(folder: Path) -> list[bytes]:
    network = VisionTransformer(ViTShape(width=4, heads=1, blocks=1, patch=2, grid=2))
    save_network(folder / "a.safetensors", network, 4, IMAGENET)
    return [(folder / "a.safetensors").read_bytes()]


@harness(an_encoder)
def encoder_weights(data: bytes, folder: Path) -> None:
    (folder / "encoder.safetensors").write_bytes(data)
    load_network(folder / "encoder.safetensors")


@harness(lines('{"epochs": 3, "learning_rate": 0.1, "betas": [0.9, 0.99], "device": "cpu"}'))
def training_settings(data: bytes, folder: Path) -> None:
    (folder / "settings.json").write_bytes(data)
    settings_from_file([TrainSettings()], folder / "settings.json")


@harness(lines("epochs=3", "betas=0.9,0.99", "learning_rate=1e-3"))
def training_assignment(data: bytes, folder: Path) -> None:
    settings_from(TrainSettings(), [data.decode(errors="surrogateescape")])


def annotate_settings_seed(folder: Path) -> list[bytes]:
    write_settings(Settings(), folder / "settings.json")
    return [(folder / "settings.json").read_bytes()]


@harness(annotate_settings_seed)
def annotation_settings(data: bytes, folder: Path) -> None:
    (folder / "settings.json").write_bytes(data)
    read_settings(folder / "settings.json")


def an_estimator(folder: Path) -> None:
    inner = Saved("inner", {"seed": 3}, {"numbers": np.arange(3)})
    write_saved(Saved("example", {"words": ["a"]}, {"numbers": np.eye(2)}, {"part": inner}), folder / "saved")


def estimator_seed(name: str) -> Seeds:
    def seeds(folder: Path) -> list[bytes]:
        an_estimator(folder)
        return [(folder / "saved" / name).read_bytes()]

    return seeds


@harness(estimator_seed("saved.json"), an_estimator)
def estimator_document(data: bytes, folder: Path) -> None:
    (folder / "saved" / "saved.json").write_bytes(data)
    read_saved(folder / "saved")


@harness(estimator_seed("numbers.npy"), an_estimator)
def estimator_array(data: bytes, folder: Path) -> None:
    (folder / "saved" / "numbers.npy").write_bytes(data)
    read_saved(folder / "saved")


VECTOR_FILES = [b"2 2\ndog 0.5 1\ncat 1 2\n", b"2 2\ndog " + bytes(8) + b"\ncat " + bytes(8), b"dog 1 2\ncat 2 1\n"]


@harness(lambda folder: VECTOR_FILES)
def word_vectors(data: bytes, folder: Path) -> None:
    (folder / "vectors").write_bytes(data)
    read_vector_file(folder / "vectors", limit=50)


def vocabulary_seed(folder: Path) -> list[bytes]:
    Vocabulary.fit([["a", "dog"], ["a", "cat"]]).save(folder / "words")
    return [(folder / "words").read_bytes()]


@harness(vocabulary_seed)
def vocabulary(data: bytes, folder: Path) -> None:
    (folder / "words").write_bytes(data)
    Vocabulary.load(folder / "words")


@harness(lines("A red bus\t12\n\nour dog Rex\n"))
def phrase_bank(data: bytes, folder: Path) -> None:
    (folder / "bank").write_bytes(data)
    PhraseBank.read(folder / "bank")


@harness(lines("(S (NP (DT a) (NN dog)) (VP (VBZ runs)))", "(TOP (NP (NN x)))\n(S)"))
def trees(data: bytes, folder: Path) -> None:
    read_trees(data.decode(errors="surrogateescape"))


@harness(lines('{"photo": "1", "caption": 0, "span": [0, 15], "boxes": [[10, 20, 110, 220]], "scores": [0.9]}\n'))
def predictions(data: bytes, folder: Path) -> None:
    (folder / "p.jsonl").write_bytes(data)
    read_predictions(folder / "p.jsonl")


@harness(lines('[{"image_id": 1, "caption": "a dog"}]', '{"image": "1.jpg", "caption": "a dog"}\n'))
def caption_results(data: bytes, folder: Path) -> None:
    (folder / "r.json").write_bytes(data)
    read_results(folder / "r.json")


@harness(lines('dog in the snow +ball -"red collar" in:holiday camera:canon after:2024-06 before:2025', "+a -b"))
def query(data: bytes, folder: Path) -> None:
    text = data.decode(errors="surrogateescape")
    for part in (found := read_query(text)).wanted + found.avoided:
        said = text[part.start : part.start + len(part.text)]
        assert len(said) == len(part.text)
        # Words with a sign, and filters, are blanks in the sentence around them.
        assert all(one == other or one == " " for one, other in zip(part.text, said, strict=True))


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
