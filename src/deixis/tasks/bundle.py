"""What belongs together to answer: an encoder of photos, features of sentences and the model that compares them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Protocol, cast, get_args
from weakref import WeakValueDictionary

import numpy as np
from PIL import Image

from deixis.errors import DeixisError
from deixis.files.atomic import new_directory
from deixis.language.features import TextFeatures, load_features, transform_in_chunks
from deixis.language.features.base import Floats, Text
from deixis.language.saved import damaged
from deixis.models.base import Scorer
from deixis.models.saved import load_model
from deixis.tasks.features_of import Proposing
from deixis.tasks.given import kind_of, list_of, path_of
from deixis.tasks.learning import Learn
from deixis.tasks.places import with_whole_place
from deixis.tasks.shipped_models import place_of, shipped_models
from deixis.vision.encoder import ImageEncoder

FILE = "bundle.json"
FORMAT = "deixis-bundle"
CAPTIONS_FORMAT = "deixis-captions"
VERSION = 1
CARD = "README.md"
_AT_ONCE = 16
_DOES = {FORMAT: "compares photos with sentences", CAPTIONS_FORMAT: "writes captions"}
"""What models of each format are for."""

PhotoLike = str | PathLike[str] | Image.Image
"""A photo as people have it: a path, or a Pillow image that is open already."""


class StoredScorer(Protocol):
    """A `Scorer` that prepares arrays and saves itself, as CCA and the two networks do."""

    KIND: ClassVar[str]

    @property
    def dimension(self) -> int:
        """Numbers in each vector that is prepared."""
        ...

    def prepare_visual(self, features: Any) -> Floats:
        """A vector for each photo or region."""
        ...

    def prepare_text(self, features: Any) -> Floats:
        """A vector for each sentence or phrase."""
        ...

    def scores(self, visual: Floats, text: Floats) -> Floats:
        """The score of every pair."""
        ...

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder that `load_model` reads."""
        ...


@dataclass(frozen=True)
class EncoderOfBundle:
    """The encoder whose features a model has learned from.

    Attributes
    ----------
    name, fingerprint
        What users type, and what changes whenever its numbers do.
    crops
        10 where a photo's vector is the mean over ten crops; 0 where it is that of the whole photo.
    """

    name: str
    fingerprint: str
    crops: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and isinstance(self.fingerprint, str) and self.crops in (0, 10)):
            raise ValueError(f"no encoder: {self.name!r}, {self.fingerprint!r}, crops {self.crops!r}")

    @property
    def is_imported(self) -> bool:
        """Whether somebody else computed the features, so that deixis cannot do the same to another photo."""
        return self.name.startswith("imported:")

    def open(self) -> ImageEncoder:
        """The encoder itself, one for all models of a process that use it; one of other numbers is refused."""
        if self.is_imported:
            raise DeixisError(
                f"the model learned from features that were imported ({self.name}), so it cannot encode photos"
            )
        which = self.name, self.fingerprint
        with _OPENING:
            encoder = _OPENED.get(which) or self._opened()
            _OPENED[which] = encoder
            return encoder

    def _opened(self) -> ImageEncoder:
        from deixis.vision.encoders import open_encoder

        encoder = open_encoder(self.name)
        if encoder.fingerprint != self.fingerprint:
            raise DeixisError(
                f"the model learned from another version of the encoder {self.name} "
                f"({self.fingerprint}, here is {encoder.fingerprint}); train it again"
            )
        return encoder


_OPENED: WeakValueDictionary[tuple[str, str], ImageEncoder] = WeakValueDictionary()
_OPENING = Lock()
"""Encoders are large, and most models use the same: each is kept while anybody has it, and opened once."""


@dataclass(frozen=True)
class LearnedFrom:
    """Which pairs a model has learned from.

    Attributes
    ----------
    learn
        sentences, phrases or both.
    place
        How much the place of a region counts, as in `Learning`.
    proposals, top
        Whose proposals the model points at, and at most how many for a photo.
    proposals_fingerprint
        What changes whenever the proposer's boxes do; empty where the model has learned from no regions.
    """

    learn: Learn = "sentences"
    place: float = 0.0
    proposals: str = "head"
    top: int = 100
    proposals_fingerprint: str = ""

    def __post_init__(self) -> None:
        numbers = (self.place, self.top)
        if self.learn not in get_args(Learn) or not all(type(number) in (int, float) for number in numbers):
            raise ValueError(f"nothing to learn from: {self.learn!r}, {self.place!r}, {self.top!r}")

    @property
    def proposing(self) -> Proposing:
        """The regions that the model points at."""
        return Proposing(self.proposals, self.top, self.proposals_fingerprint)


class Bundle:
    """A matching model with all it needs; what `deixis.load` returns.

    Parameters
    ----------
    encoder
        Of the photos.
    text
        Of the sentences, fitted; None where the model reads words itself.
    model
        That compares them.
    learned
        What it has learned from.

    Examples
    --------
    >>> bundle = Bundle.load("cca.model")  # doctest: +SKIP
    >>> photos = bundle.encode_images(["dog.jpg", "cat.jpg"])  # doctest: +SKIP
    >>> bundle.similarity(photos, bundle.encode_sentences(["A dog runs."])).shape  # doctest: +SKIP
    (2, 1)
    """

    def __init__(
        self,
        encoder: EncoderOfBundle,
        text: TextFeatures | None,
        model: StoredScorer,
        learned: LearnedFrom | None = None,
    ) -> None:
        self.encoder = encoder
        self.text = text
        self.model = model
        self.learned = learned or LearnedFrom()

    def encode_images(self, photos: Sequence[PhotoLike]) -> Floats:
        """A vector for each photo, given as a path or as an open Pillow image."""
        photos = list_of(photos, "photos")
        refuse_pointing_only(self)
        vectors = [self._no_vectors()]
        for begin in range(0, len(photos), _AT_ONCE):
            images = [opened(photo) for photo in photos[begin : begin + _AT_ONCE]]
            vectors.append(self.model.prepare_visual(self._features(images)))
        return np.concatenate(vectors)

    def encode_sentences(self, sentences: Sequence[Text]) -> Floats:
        """A vector for each sentence or phrase. English only."""
        sentences = list_of(sentences, "sentences")
        _refuse_other_than_text(sentences)
        if self.text is None:
            return self.model.prepare_text(sentences)
        chunks = transform_in_chunks(self.text, sentences)  # the features of all would take gigabytes
        return np.concatenate([self._no_vectors(), *(self.model.prepare_text(features) for features in chunks)])

    def similarity(self, images: Floats, sentences: Floats) -> Floats:
        """A row for each image, a column for each sentence, both encoded already; higher is better."""
        return self.model.scores(images, sentences)

    def save(self, folder: str | PathLike[str], card: str = "") -> None:
        """Write a folder that `load` reads, whole or not at all; an older model there is replaced.

        Parameters
        ----------
        folder
            Must not exist, be empty or hold a model.
        card
            What people should know of the model, in Markdown.
        """
        with new_bundle(folder) as unfinished:
            self.write(unfinished, card)

    def write(self, folder: Path, card: str = "") -> None:
        """Write into a folder that `new_bundle` gave."""
        about = {
            "format": FORMAT,
            "version": VERSION,
            "encoder": asdict(self.encoder),
            "learned": asdict(self.learned),
            "reads_words": self.text is None,
        }
        (folder / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        if self.text is not None:
            self.text.save(folder / "text")
        self.model.save(folder / "model")
        if card:
            (folder / CARD).write_text(card, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Bundle:
        """Open a folder that `save` wrote, or that of a training run with such a folder in it."""
        path, about = opened_folder(folder, FORMAT)
        with damaged(path / FILE):
            encoder = EncoderOfBundle(**about["encoder"])
            learned = LearnedFrom(**about["learned"])
            reads_words = bool(about["reads_words"])
        model = load_model(path / "model")
        if not (isinstance(model, Scorer) and hasattr(model, "dimension")):
            raise DeixisError(f"{path / 'model'}: holds a {model.KIND}, which gives no vectors to compare")
        text = None if reads_words else load_features(path / "text")
        return cls(encoder, text, cast(StoredScorer, model), learned)

    @cached_property
    def image_encoder(self) -> ImageEncoder:
        """The encoder itself, opened when it is first needed; one that gives other numbers by now is refused."""
        return self.encoder.open()

    def _no_vectors(self) -> Floats:
        return np.empty((0, self.model.dimension), np.float32)

    def _features(self, photos: Sequence[Image.Image]) -> Floats:
        encoder = self.image_encoder
        vectors = (
            encoder.encode_crops(photos)
            if self.encoder.crops
            else np.stack([features.whole for features in encoder.encode(photos)])
        )
        return with_whole_place(vectors, self.learned.place)


def load(model: str | PathLike[str]) -> Bundle:
    """Open a model that comes with deixis, or one that ``deixis train`` made.

    Parameters
    ----------
    model
        A name that ``deixis models`` lists, the directory of a model, or that of the run that trained it.

    Examples
    --------
    >>> import deixis
    >>> deixis.load("two-branch").encode_sentences(["Two dogs in the snow."]).shape
    (1, 512)
    """
    place = place_of(model)
    if not place.is_dir():
        known = ", ".join(each.name for each in shipped_models())
        raise DeixisError(
            f"{model}: no such directory, and no model comes with deixis by this name ({known}); "
            "make one with: deixis train MODEL --data DATA"
        )
    return Bundle.load(place)


@contextmanager
def new_bundle(folder: str | PathLike[str]) -> Iterator[Path]:
    """Give an empty directory for `Bundle.write`; it becomes `folder` when the block ends well, else it vanishes.

    Entered before a long training, it refuses at once what could not be replaced after it.
    """
    path = Path(folder)
    if path.is_dir() and any(path.iterdir()) and not (path / FILE).is_file():
        raise DeixisError(f"{path}: not replaced, it is no model; give another name")
    if path.exists() and not path.is_dir():
        raise DeixisError(f"{path}: a file has this name; give another name")
    with new_directory(path, replace=True) as unfinished:
        yield unfinished


def opened(photo: PhotoLike) -> Image.Image:
    """The photo itself, upright."""
    from deixis.data.images import open_photo

    return photo if isinstance(photo, Image.Image) else open_photo(Path(path_of(photo, "photo")))


def _refuse_other_than_text(sentences: Sequence[Text]) -> None:
    for place, each in enumerate(sentences):
        if isinstance(each, bytes) or not (isinstance(each, str | Sequence) or hasattr(each, "words")):
            raise DeixisError(f"sentences[{place}]: give a text, not {kind_of(each)}")


def refuse_pointing_only(bundle: Bundle) -> None:
    """A model that looks at all regions of a photo at once has no vectors of photos and gold regions to compare."""
    if bundle.model.KIND == "grounder":
        raise DeixisError(
            "a grounder points at phrases and compares nothing else: use it with deixis ground or evaluate grounding"
        )


def writes_captions(model: str | PathLike[str]) -> bool:
    """Whether a model is one for `deixis.tasks.captions.captioning`, and not for `load`."""
    try:
        opened_folder(place_of(model), CAPTIONS_FORMAT)
    except DeixisError:
        return False
    return True


def opened_folder(folder: str | PathLike[str], form: str) -> tuple[Path, dict[str, Any]]:
    """Where a model of a format is, in a folder or in the run there, and what it says of itself."""
    path = Path(folder)
    if not (path / FILE).is_file() and (path / "model" / FILE).is_file():
        path = path / "model"
    return path, _read(path / FILE, form)


def _read(path: Path, form: str) -> dict[str, Any]:
    if not path.is_file():
        raise DeixisError(f"{path.parent}: no model here ({FILE} is missing)")
    with damaged(path):
        about: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(about, dict) or about.get("format") not in _DOES:
            raise DeixisError(f"{path}: not a model made by deixis train")
        if about["format"] != form:
            raise DeixisError(
                f"{path.parent}: a model that {_DOES[about['format']]}; one that {_DOES[form]} is needed here"
            )
        if about.get("version") != VERSION:
            raise DeixisError(f"{path}: written for version {about.get('version')}, this deixis reads {VERSION}")
        return about
