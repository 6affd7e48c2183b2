"""Models ready for use: `Pipeline` is what `deixis.load` returns, for every model that ``deixis models`` lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, overload

import numpy as np

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.models.arguments import OnePhotoOrMore, PhotoLike, as_list, check_list, check_path, check_text, is_one_photo
from deixis.models.installed import is_fast_name, model_folder, shipped_models
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.models.registry import get_spec, has_model, model_names
from deixis.runtime.devices import choose_device
from deixis.storage.artifacts import CONFIG, Artifact, Storable, damaged, read_artifact, write_into
from deixis.storage.atomic import new_directory
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset, Photos
    from deixis.evaluation.items import Item, Regions
    from deixis.evaluation.predictions import Prediction
    from deixis.evaluation.score_matrix import Scores
    from deixis.language.features import TextFeatures
    from deixis.language.vocabulary import Vocabulary
    from deixis.models.describer.description import Describer, RegionDescription
    from deixis.models.grounding import Grounding
    from deixis.models.m_rnn.pipeline import CaptionResult
    from deixis.models.photo_features import PhotoFeatures
    from deixis.tokens import Text
    from deixis.vision.encoder import ImageEncoder

Rerank = Literal["none", "match", "bleu", "cider"]

DEFAULT_CAPTIONER = "captioner"
"""The model that writes captions if none is named."""

CAPABILITIES = {
    "encode_images": "encode photos",
    "encode_sentences": "encode sentences",
    "similarity": "compare photos with sentences",
    "ground": "ground phrases",
    "caption": "write captions",
    "describe": "describe regions",
}
"""Methods of a pipeline that not every model has, in words."""

TASKS = {
    "retrieval": "rank photos and sentences",
    "sentences": "compare sentences with each other",
    "regions": "rank phrases for regions",
    "grounding": "rank boxes for phrases",
    "captions": "write captions",
}
"""Tasks of ``deixis evaluate``, in words; not every model can do every task."""


class Pipeline(ABC):
    """A model with everything that it needs to work on photos and sentences.

    Methods that a model does not have raise a `DeixisError` that names the models that do; `capabilities` lists those
    that it has.

    Parameters
    ----------
    model
        The model itself.
    provenance
        Its training data.
    text
        Features of sentences; None if the model reads words itself.
    card
        Description in Markdown.
    describer_part
        Phrases and settings for `describe`; without them, those of the shipped describer are used.

    Examples
    --------
    >>> import deixis
    >>> model = deixis.load("two-branch")
    >>> sorted(model.capabilities)
    ['describe', 'encode_images', 'encode_sentences', 'similarity']
    >>> photos = model.encode_images(["dog.jpg", "cat.jpg"])  # doctest: +SKIP
    >>> model.similarity(photos, model.encode_sentences(["A dog runs."])).shape  # doctest: +SKIP
    (2, 1)
    """

    def __init__(
        self,
        model: Any,
        provenance: Provenance,
        text: TextFeatures | None = None,
        *,
        card: str = "",
        describer_part: Artifact | None = None,
    ) -> None:
        self.model = model
        self.provenance = provenance
        self.text = text
        self.card = card
        self.describer_part = describer_part
        self.name: str = model.KIND
        self.device: str | None = None

    @property
    def kind(self) -> str:
        """Name of the model in the registry."""
        return str(self.model.KIND)

    @property
    def encoder(self) -> EncoderInfo:
        """Encoder of the photos."""
        return self.provenance.encoder

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[str]:
        """Names of the methods among `CAPABILITIES` that this model has."""

    @property
    def tasks(self) -> frozenset[str]:
        """Names of the tasks among `TASKS` that this model can be evaluated on."""
        return frozenset()

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words of the training texts; None if the model does not read words itself."""
        return getattr(self.model, "vocabulary", None)

    # Methods on photos and sentences.

    def encode_images(self, photos: Sequence[PhotoLike]) -> Floats:
        """Encode photos, one row each, for `similarity`."""
        self.refuse("encode_images")

    def encode_sentences(self, sentences: Sequence[Text]) -> Floats:
        """Encode English sentences or phrases, one row each, for `similarity`."""
        self.refuse("encode_sentences")

    def similarity(self, images: Floats, sentences: Floats) -> Floats:
        """Score every image (rows) against every sentence (columns), both encoded; higher is better.

        For a model that compares vectors, the scores are their dot products; for one with a hubness correction, such as
        the shipped ``two-branch``, they are lower for images and sentences that are similar to many others
        (`deixis.models.grounding`) and rank better.
        """
        self.refuse("similarity")

    match_score: ClassVar[str] = "similarity to the photo; comparable among sentences of one photo and model only"
    """What the scores of `match` are."""

    def match(self, photo: PhotoLike, sentences: Sequence[str], *, top: int = 10) -> list[tuple[str, float]]:
        """Find the sentences that fit a photo best.

        Parameters
        ----------
        photo
            A photo.
        sentences
            English sentences, such as the captions of other photos.
        top
            Maximum number of sentences.

        Returns
        -------
        list of (str, float)
            Sentences with their scores, the best first; of equal scores, in the given order.
        """
        if top < 1:
            raise DeixisError(f"top={top}: must be 1 or more")
        texts = [check_text(text, "sentences") for text in check_list(sentences, "sentences")]
        scores = np.asarray(self._match_scores(photo, texts), dtype=np.float64)
        best = np.argsort(-scores, kind="stable")[:top]
        return [(texts[index], float(scores[index])) for index in best]

    def _match_scores(self, photo: PhotoLike, sentences: Sequence[str]) -> Floats:
        """Score sentences for a photo."""
        self.require("similarity")
        return self.similarity(self.encode_images([photo]), self.encode_sentences(sentences))[0]

    @overload
    def ground(  # type: ignore[overload-overlap] # a path is no list of photos
        self, photo: PhotoLike, sentence: str, *, nested: bool = False
    ) -> Grounding: ...

    @overload
    def ground(
        self, photo: Sequence[PhotoLike], sentence: Sequence[str], *, nested: bool = False
    ) -> list[Grounding]: ...

    def ground(
        self, photo: OnePhotoOrMore, sentence: str | Sequence[str], *, nested: bool = False
    ) -> Grounding | list[Grounding]:
        """Find a box for each noun phrase of an English sentence, as `deixis.ground` does.

        Takes a photo and a sentence, or a list of photos and a sentence for each, which gives a list of results.
        """
        self.require("ground")
        photos = as_list(photo)
        sentences = [sentence] if isinstance(sentence, str) else check_list(sentence, "sentence")
        if len(photos) != len(sentences):
            raise DeixisError(f"sentence: give one for each photo; {len(sentences)} sentences for {len(photos)} photos")
        found = self._ground(photos, [check_text(text, "sentence") for text in sentences], nested=nested)
        return found[0] if is_one_photo(photo) else found

    @overload
    def caption(  # type: ignore[overload-overlap]
        self, photo: PhotoLike, *, beam: int | None = None, top: int = 1, start: str = "", rerank: Rerank | None = None
    ) -> CaptionResult: ...

    @overload
    def caption(
        self,
        photo: Sequence[PhotoLike],
        *,
        beam: int | None = None,
        top: int = 1,
        start: str = "",
        rerank: Rerank | None = None,
    ) -> list[CaptionResult]: ...

    def caption(
        self,
        photo: OnePhotoOrMore,
        *,
        beam: int | None = None,
        top: int = 1,
        start: str = "",
        rerank: Rerank | None = None,
    ) -> CaptionResult | list[CaptionResult]:
        """Write captions for a photo, or for each of a list of photos, as `deixis.caption` does."""
        self.require("caption")
        found = self._caption(as_list(photo), beam=beam, top=top, start=start, rerank=rerank)
        return found[0] if is_one_photo(photo) else found

    @overload
    def describe(  # type: ignore[overload-overlap]
        self, photo: PhotoLike, region: Sequence[float] | None = None, *, top: int = 2, regions: int = 10
    ) -> list[RegionDescription]: ...

    @overload
    def describe(
        self, photo: Sequence[PhotoLike], region: Sequence[float] | None = None, *, top: int = 2, regions: int = 10
    ) -> list[list[RegionDescription]]: ...

    def describe(
        self, photo: OnePhotoOrMore, region: Sequence[float] | None = None, *, top: int = 2, regions: int = 10
    ) -> list[RegionDescription] | list[list[RegionDescription]]:
        """Describe a region of a photo, or the most salient ones of a photo or of each of a list of photos.

        The arguments are those of `deixis.describe`.
        """
        self.require("describe")
        found = [self.describer.describe(each, region, top=top, regions=regions) for each in as_list(photo)]
        return found[0] if is_one_photo(photo) else found

    @property
    def describer(self) -> Describer:
        """Describes regions with this model."""
        self.refuse("describe")

    def _ground(self, photos: Sequence[PhotoLike], sentences: Sequence[str], *, nested: bool) -> list[Grounding]:
        self.refuse("ground")

    def _caption(
        self, photos: Sequence[PhotoLike], *, beam: int | None, top: int, start: str, rerank: Rerank | None
    ) -> list[CaptionResult]:
        self.refuse("caption")

    # Methods for evaluation on a data set.

    def features(
        self,
        dataset: Dataset,
        photos: Photos,
        *,
        regions: bool = False,
        also: Iterable[Path] = (),
        on_progress: OnProgress = no_progress,
    ) -> PhotoFeatures:
        """Features of photos of a data set by the encoder of this model: read if they are there, else computed.

        Photos that cannot be read are left out. `regions` also reads region proposals, as many as the model ranks;
        `also` names feature stores outside the data set.
        """
        from deixis.models.photo_features import find_or_compute_features

        proposals = self.provenance.proposal_source if regions else None
        found = find_or_compute_features(
            self.encoder, dataset, photos, proposals=proposals, also=also, on_progress=on_progress
        )
        return replace(found, location_weight=self.provenance.location_weight)

    def retrieval_scores(
        self, features: PhotoFeatures, texts: Sequence[str], on_progress: OnProgress = no_progress
    ) -> Scores:
        """Score photos (rows) against sentences (columns)."""
        self.refuse("retrieval")

    def sentence_scores(self, texts: Sequence[str]) -> Scores:
        """Score sentences against sentences."""
        self.refuse("sentences")

    def region_scores(self, features: PhotoFeatures, gold: Regions, on_progress: OnProgress = no_progress) -> Scores:
        """Score gold regions (rows) against all phrases (columns)."""
        self.refuse("regions")

    def predict_boxes(
        self, features: PhotoFeatures, items: Sequence[Item], on_progress: OnProgress = no_progress
    ) -> list[Prediction]:
        """Rank boxes for each phrase; items of one photo must be consecutive."""
        self.refuse("grounding")

    def require(self, capability: str) -> None:
        """Raise an error before any photo is opened if the model lacks a capability."""
        if capability not in self.capabilities | self.tasks:
            self.refuse(capability)

    def refuse(self, capability: str) -> NoReturn:
        """Raise an error that names the shipped models that have a capability or can do a task."""
        able = [each.name for each in shipped_models() if capability in (*each.capabilities, *each.tasks)]
        in_words = (CAPABILITIES | TASKS)[capability]
        raise DeixisError(
            f"{self.name}: this {self.kind} model cannot {in_words} ({capability}); models that can: {', '.join(able)}"
        )

    # Saving and loading.

    @cached_property
    def image_encoder(self) -> ImageEncoder:
        """The image encoder, opened when it is first needed."""
        return self.encoder.open(self.device)

    def to(self, device: str) -> Self:
        """Move the model and its encoder to a device: cpu, cuda, or auto for the GPU if there is one."""
        self.device = choose_device(device)
        self.__dict__.pop("image_encoder", None)
        movable = getattr(self.model, "functions", None) or getattr(self.model, "network", None)
        if movable is not None:
            movable.to(self.device)
        return self

    def to_artifact(self, *, half: bool = False) -> Artifact:
        """Content of the directory that `save_pretrained` writes."""
        own: Artifact = self.model.to_artifact()
        parts = dict(own.parts)
        if self.text is not None:
            parts["text"] = self.text.to_artifact()
        if self.describer_part is not None:
            parts["describer"] = self.describer_part
        able = {"capabilities": sorted(self.capabilities), "tasks": sorted(self.tasks)}
        return replace(own, parts=parts, provenance=self.provenance.to_json() | able, card=self.card, half=half)

    MODEL: ClassVar[type[Storable]]
    """Class of the model."""

    @classmethod
    def load_model(cls, artifact: Artifact) -> Any:
        """Build the model itself, without its provenance and text features."""
        return cls.MODEL.from_artifact(artifact)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """Build from the content that `to_artifact` gave."""
        text = None
        if "text" in artifact.parts:
            from deixis.language.features import features_from_artifact

            text = features_from_artifact(artifact.parts["text"])
        return cls(
            cls.load_model(artifact),
            Provenance.from_json(artifact.provenance),
            text,
            card=artifact.card,
            describer_part=artifact.parts.get("describer"),
        )

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Save the model as a directory that `deixis.load` opens; an older model there is replaced.

        Examples
        --------
        >>> import deixis
        >>> deixis.load("two-branch").save_pretrained("copy")  # doctest: +SKIP
        """
        with new_model(folder) as unfinished:
            self.write(unfinished)

    def write(self, folder: Path, card: str = "", *, half: bool = False) -> None:
        """Write into an empty directory that `new_model` or a training run gave."""
        artifact = self.to_artifact(half=half)
        write_into(folder, replace(artifact, card=card) if card else artifact)

    @classmethod
    def from_pretrained(cls, model: str | PathLike[str], *, device: str | None = None) -> Pipeline:
        """Open a saved model; the same as `deixis.load`."""
        return load(model, device=device)


def load(model: str | PathLike[str], *, device: str | None = None) -> Pipeline:
    """Open a model that comes with deixis, or one that ``deixis train`` made.

    Parameters
    ----------
    model
        A name that ``deixis models`` lists, the directory of a model, or the directory of the run that trained it; or
        ``open-clip:ARCHITECTURE[:FILE]``, a model of OpenCLIP. A listed name followed by ``-fast``, such as
        ``two-branch-fast``, opens the model with the fast encoder.
    device
        cpu, cuda or auto. By default, the image encoder uses the GPU if there is one, and the model the CPU.

    Returns
    -------
    Pipeline
        The model with everything that it needs.

    Examples
    --------
    >>> import deixis
    >>> deixis.load("two-branch").encode_sentences(["Two dogs in the snow."]).shape
    (1, 512)
    """
    if (name := check_path(model, "model")).startswith("open-clip:"):
        from deixis.models.open_clip import load_open_clip

        return load_open_clip(name, device)
    folder = model_folder(model)
    if not folder.is_dir():
        known = [each.name for each in shipped_models()]
        near = [] if name in model_names() else get_close_matches(name, known, n=1)
        trained = name if name in model_names() else "MODEL"
        raise DeixisError(
            f"{model}: no such directory, and no model of this name comes with deixis ({', '.join(known)}); "
            + (f"did you mean {near[0]!r}?" if near else f"make one with: deixis train {trained} --data DATA")
        )
    artifact = read_artifact(folder, mapped=True)
    if not has_model(artifact.kind):
        raise DeixisError(f"{folder / CONFIG}: no model is called {artifact.kind!r}; the models are {model_names()}")
    spec = get_spec(artifact.kind)
    with damaged(folder / CONFIG):
        pipeline: Pipeline = spec.load(artifact)
    pipeline.name = str(model)
    if is_fast_name(model):
        pipeline.provenance = replace(pipeline.provenance, encoder=pipeline.encoder.faster())
    return pipeline if device is None else pipeline.to(device)


@lru_cache(maxsize=4)
def load_once(model: str) -> Pipeline:
    """Open a model once for many calls of `deixis.ground`, `deixis.caption` and `deixis.describe`."""
    return load(model)


def caption(
    photo: PhotoLike,
    *,
    beam: int | None = None,
    top: int = 1,
    start: str = "",
    rerank: Rerank | None = None,
    model: str | PathLike[str] = DEFAULT_CAPTIONER,
) -> CaptionResult:
    """Write captions for a photo.

    Parameters
    ----------
    photo
        A path, or a Pillow image.
    beam
        Width of the beam search; by default 5, or 10 if `rerank` is bleu or cider.
    top
        Number of captions; no more than `beam`.
    start
        Words that each caption starts with.
    rerank
        How the captions of the beam are ordered. match: by their probability and by how well they match the photo; bleu
        or cider: by their similarity to the captions of similar training photos; none: by their probability. The
        default depends on the model; that of ``captioner`` is match.
    model
        A name that ``deixis models`` lists, or the directory of a model that writes captions.

    Returns
    -------
    CaptionResult
        The captions, the best first; ``text`` is the best one.

    Examples
    --------
    >>> import deixis
    >>> deixis.caption("dogs.jpg", beam=10).text  # doctest: +SKIP
    'two dogs run through the snow'
    """
    return load_once(check_path(model, "model")).caption(photo, beam=beam, top=top, start=start, rerank=rerank)


@contextmanager
def new_model(folder: str | PathLike[str]) -> Iterator[Path]:
    """Give an empty directory for `Pipeline.write`, which becomes `folder` when the block succeeds.

    A directory that cannot be replaced is refused on entry, before a long training.
    """
    path = Path(check_path(folder, "folder"))
    if path.is_dir() and any(path.iterdir()) and not (path / CONFIG).is_file():
        raise DeixisError(f"{path}: not replaced, it is not a model; give another name")
    if path.exists() and not path.is_dir():
        raise DeixisError(f"{path}: a file has this name; give another name")
    with new_directory(path, replace=True) as unfinished:
        yield unfinished
