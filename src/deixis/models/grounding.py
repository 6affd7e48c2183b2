"""Phrase grounding: a box for each noun phrase of a sentence, by any model that scores regions against phrases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis import geometry
from deixis.arrays import Floats, code_step, dequantize, quantize, softmax
from deixis.errors import DeixisError
from deixis.geometry import XYXY, Boxes
from deixis.language.features.base import transform_in_chunks
from deixis.language.sentence import Phrase, Sentence, parents
from deixis.models.arguments import PhotoLike, check_list, check_path, check_text, check_vectors, open_image, type_name
from deixis.models.base import RegionInputs, append_locations, append_whole_location
from deixis.models.pipeline import Pipeline, load, load_once
from deixis.storage.artifacts import HUBNESS, Artifact, Storable
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import Text, words

if TYPE_CHECKING:
    from deixis.evaluation.items import Item, Regions
    from deixis.evaluation.predictions import Prediction
    from deixis.evaluation.score_matrix import ScoreBlocks
    from deixis.language.vocabulary import Vocabulary, WordTable
    from deixis.models.describer.description import Describer, DescriptionSettings
    from deixis.models.photo_features import PhotoFeatures
    from deixis.models.presence import PresenceModel
    from deixis.models.provenance import EncoderInfo
    from deixis.vision.encoder import FeatureMap, PreparedPhoto
    from deixis.vision.proposals import Proposals, Proposer


DEFAULT = "grounder"
"""The model that grounds phrases unless another one is named."""

ABSENT = 0.1
"""A phrase with a lower presence is called absent. On Flickr8k, COCO and IAPR TC-12 dev that is so for 1 % of the
phrases that are there, for 36 to 47 % of those of other photos, and for 63 to 74 % of things of which the photo shows
another of the same kind (`scripts/fit_presence.py`)."""

_PHOTOS_AT_ONCE = 16


@dataclass(frozen=True)
class GroundedPhrase:
    """A noun phrase and where the photo shows it.

    Attributes
    ----------
    text, span
        The phrase, and its offsets in the sentence in Unicode code points, end exclusive.
    types
        Entity types, of `deixis.data.records.ENTITY_TYPES`.
    box
        ``x1, y1, x2, y2`` in pixels of the photo, around everything that the phrase names.
    region_probability
        Probability of this region among all proposed regions, if the photo shows the phrase; ``score`` in JSON. None
        if the model gives similarities, or if the box is that around the phrases inside.
    boxes
        One box for each thing that the phrase names, most probable first; `box` alone if the phrase names one thing or
        the model was not trained for sets of boxes.
    probabilities
        Of each of several `boxes`, the probability that it shows one of these things; ``score`` in JSON. Empty for
        one box.
    presence
        Probability that the photo shows the phrase at all, if half of all phrases were there; None if the model was
        not trained for it, or if the box is a guess. By a fit to photos with captions (`models.presence`) if the model
        has one, else by the model's own training.
    guess
        Whether the phrase has a word that the model does not know, so that the box is a guess without a probability.
    similarity
        Cosine of the region and the phrase, of models that compare vectors; ``score`` in JSON.
    parent
        Index of the smallest longer phrase that this one is part of, with ``nested=True``.
    """

    text: str
    span: tuple[int, int]
    types: tuple[str, ...]
    box: XYXY
    region_probability: float | None
    presence: float | None = None
    boxes: tuple[XYXY, ...] = ()
    probabilities: tuple[float, ...] = ()
    guess: bool = False
    similarity: float | None = None
    parent: int | None = None

    def __post_init__(self) -> None:
        if not self.boxes:
            object.__setattr__(self, "boxes", (self.box,))

    @property
    def absent(self) -> bool:
        """Whether the photo seems not to show the phrase; the box is then the most likely location."""
        return self.presence is not None and self.presence < ABSENT

    @property
    def score(self) -> float | None:
        """The similarity or the probability of the region; None for a guess."""
        return None if self.guess else self.region_probability if self.similarity is None else self.similarity


@dataclass(frozen=True)
class Grounding:
    """The noun phrases of a sentence in a photo.

    Attributes
    ----------
    sentence
        The sentence.
    size
        Width and height of the photo in pixels, upright.
    phrases
        In the order of the sentence; if `nested`, a phrase comes before those inside it.
    unknown
        Words of the phrases that the model does not know; their location can only be guessed.
    nested
        Whether phrases contain each other.
    """

    sentence: str
    size: tuple[int, int]
    phrases: tuple[GroundedPhrase, ...]
    unknown: tuple[str, ...] = ()
    nested: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``deixis ground --json``, without the name of the photo."""
        return {
            "size": list(self.size),
            "unknown_words": list(self.unknown),
            "phrases": [
                {
                    "text": phrase.text,
                    "span": list(phrase.span),
                    "type": phrase.types[0] if phrase.types else "other",
                    "guess": phrase.guess,
                    "box": [round(side, 1) for side in phrase.box],
                    "boxes": [
                        {
                            "box": [round(side, 1) for side in box],
                            "score": None if phrase.guess or score is None else round(score, 4),
                        }
                        for box, score in zip(phrase.boxes, phrase.probabilities or (phrase.score,), strict=True)
                    ],
                    **({"parent": phrase.parent} if self.nested else {}),
                    **(
                        {}
                        if phrase.presence is None
                        else {"presence": round(phrase.presence, 4), "absent": phrase.absent}
                    ),
                }
                for phrase in self.phrases
            ],
        }

    def draw(self, photo: Image.Image) -> Image.Image:
        """Draw the boxes on the photo, with the sentence below in their colours; absent phrases are not drawn."""
        from deixis.pictures.grounded import PhraseBoxes, draw_grounding

        shown = [phrase for phrase in self.phrases if not phrase.absent]
        phrases = [
            PhraseBoxes(
                *phrase.span,
                phrase.boxes,
                phrase.score if phrase.presence is None else phrase.presence,
                is_guess=phrase.guess,
            )
            for phrase in shown
        ]
        return draw_grounding(photo, [(self.sentence, phrases)])


@dataclass(frozen=True)
class PhotoProposals:
    """The feature map and the region proposals of a photo, for several sentences about it."""

    features: FeatureMap
    proposals: Proposals

    def inputs(self, *, cells: bool = False) -> RegionInputs:
        """The proposals as models take them, with the feature map on request."""
        return RegionInputs.of(self.features, self.proposals.boxes, self.proposals.scores, cells=cells)


@dataclass(frozen=True, eq=False)
class BoxSet:
    """The boxes of the things that a phrase names, most probable first."""

    boxes: Boxes  # (n, 4), n ≥ 1
    probabilities: Floats | None = None  # (n,); None if the box is around everything that the phrase names


@dataclass(frozen=True)
class PhraseScores:
    """Scores of the regions of a photo for phrases."""

    scores: Floats  # (phrases, regions): logits, whose softmax over the regions is the probability of each; or cosines
    boxes: Floats  # (phrases, regions, 4) in pixels; a model may refine proposals for each phrase
    presence: Floats | None = None  # (phrases,): probability that the photo shows each phrase at all
    sets: Sequence[BoxSet] | None = None  # a box for each thing that each phrase names, in pixels
    are_cosines: bool = False


class RegionPipeline(Pipeline):
    """Base of models that score regions of photos against phrases."""

    uncalibrated_description: ClassVar[DescriptionSettings | None] = None
    """Settings of `describe` for a model without its own; None for those of the shipped describer."""

    photo_model: EmbeddingPipeline | None = None
    """A photo model that is already open, so that this model need not open another one to estimate presence."""

    grounds_nested_phrases: ClassVar[bool] = False
    """Whether the model was trained on phrases that contain others; else these get the box around the others."""

    def presence_model(self, encoder: EncoderInfo) -> PresenceModel | None:
        """Return the photo model with an image encoder that presence was fitted to, if there is one."""
        return None

    @property
    def dimension(self) -> int:
        """Size of the vectors of photos, regions and sentences."""
        return int(self.model.dimension)

    @abstractmethod
    def score_phrases(self, regions: PhotoProposals, sentence: Sentence, phrases: Sequence[Phrase]) -> PhraseScores:
        """Score the regions of a photo for phrases of one sentence."""

    def encode_regions(self, regions: RegionInputs) -> Floats:
        """Encode regions of a photo, one row each, for `compare`."""
        weight = self.provenance.location_weight
        return np.asarray(self.model.prepare_visual(append_locations(regions.vectors, regions.boxes, (1, 1), weight)))

    def encode_photos(self, vectors: Floats) -> Floats:
        """Encode whole photos, given their vectors by the image encoder."""
        return np.asarray(self.model.prepare_visual(append_whole_location(vectors, self.provenance.location_weight)))

    def encode_phrases(self, phrases: Sequence[Text]) -> Floats:
        """Encode phrases without their sentence, one row each, for `compare`."""
        phrases = check_list(phrases, "sentences")
        for position, each in enumerate(phrases):
            if isinstance(each, bytes) or not (isinstance(each, str | Sequence) or hasattr(each, "words")):
                raise DeixisError(f"sentences[{position}]: give a text, not {type_name(each)}")
        if self.text is None:
            return np.asarray(self.model.prepare_text(phrases))
        chunks = transform_in_chunks(self.text, phrases)  # the features of all at once would take gigabytes
        return np.concatenate([self._no_vectors(), *(self.model.prepare_text(features) for features in chunks)])

    def compare(self, visual: Floats, text: Floats) -> Floats:
        """Score encoded regions or photos (rows) against encoded phrases or sentences (columns)."""
        return np.asarray(self.model.scores(visual, text))

    @property
    def has_common_space(self) -> bool:
        """Whether vectors of phrases can be compared with each other."""
        return bool(self.model.has_common_space)

    # Grounding.

    @cached_property
    def proposer(self) -> Proposer:
        """The region proposer that the model was trained with."""
        return self.provenance.proposal_source.open(self.encoder.name)

    def propose(self, photo: PhotoLike) -> PhotoProposals:
        """Encode a photo and propose regions, which takes most of the time; `ground_regions` uses the result."""
        return self.propose_batch([photo])[0]

    def propose_batch(self, photos: Sequence[PhotoLike]) -> list[PhotoProposals]:
        """Batch version of `propose`."""
        images = [open_image(photo) for photo in photos]
        return [
            PhotoProposals(features, self.proposer.propose(image, features, self.provenance.max_proposals))
            for image, features in zip(images, self.image_encoder.encode(images), strict=True)
        ]

    def ground_regions(self, regions: PhotoProposals, sentence: str, *, nested: bool = False) -> Grounding:
        """Ground a sentence in a photo whose regions were proposed before; `nested` as for `ground`."""
        parsed = Sentence(check_text(sentence, "sentence"))
        phrases, size = parsed.nested_phrases if nested else parsed.phrases, regions.features.size
        if not phrases:
            return Grounding(parsed.text, size, (), nested=nested)
        inside = parents([phrase.span for phrase in phrases]) if nested else [None] * len(phrases)
        unknown = self.unknown_words(dict.fromkeys(word for phrase in phrases for word in words(phrase.text)))
        is_guess = [not set(unknown).isdisjoint(words(phrase.text)) for phrase in phrases]
        found = self.score_phrases(regions, parsed, phrases)
        best = found.scores.argmax(axis=1)
        grounded = []
        for row, phrase in enumerate(phrases):
            # A phrase that contains others names several things by their own phrases.
            one = None if found.sets is None or row in inside else found.sets[row]
            grounded.append(
                GroundedPhrase(
                    phrase.text,
                    phrase.span,
                    phrase.types,
                    _to_box(found.boxes[row, best[row]]),
                    None if found.are_cosines else float(softmax(found.scores[row])[best[row]]),
                    None if found.presence is None or is_guess[row] else float(found.presence[row]),
                    () if one is None else tuple(map(_to_box, one.boxes)),
                    () if one is None or one.probabilities is None else tuple(one.probabilities.tolist()),
                    is_guess[row],
                    float(found.scores[row, best[row]]) if found.are_cosines else None,
                    inside[row],
                )
            )
        if nested and not self.grounds_nested_phrases:
            grounded = _with_boxes_around(grounded)
        return Grounding(parsed.text, size, tuple(grounded), unknown, nested)

    def _ground(self, photos: Sequence[PhotoLike], sentences: Sequence[str], *, nested: bool) -> list[Grounding]:
        _ = self.proposer  # a different version is refused before any photo is opened
        from deixis.vision.encoder import FULL_SIZE_BATCH

        found: list[Grounding] = []
        for begin in range(0, len(photos), FULL_SIZE_BATCH):
            proposed = self.propose_batch(photos[begin : begin + FULL_SIZE_BATCH])
            texts = sentences[begin : begin + FULL_SIZE_BATCH]
            pairs = zip(proposed, texts, strict=True)
            found += [self.ground_regions(regions, text, nested=nested) for regions, text in pairs]
        return found

    @property
    def words(self) -> WordTable | None:
        """The word vectors of the model; None if it does not read words itself, or only those of its vocabulary."""
        return getattr(self.model, "words", None)

    def unknown_words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the words that the model cannot read: neither training texts nor its word vectors have them."""
        table = self.words
        known = self.vocabulary if table is None else table
        return () if known is None else tuple(word for word in words if word not in known)

    # Description of regions.

    @cached_property
    def describer(self) -> Describer:
        """Describes regions with the phrases of this model, or else with those of the shipped describer."""
        from deixis.models.describer.description import Describer

        return Describer.of(self)

    # Evaluation on a data set.

    def region_scores(
        self, features: PhotoFeatures, gold: Regions, on_progress: OnProgress = no_progress
    ) -> ScoreBlocks:
        self.require("regions")
        visual = np.concatenate([self.model.prepare_visual(vectors) for vectors in features.gold_vectors(gold)])
        return self._score_blocks(visual, self.encode_phrases(gold.phrases))

    def _score_blocks(self, visual: Floats, text: Floats) -> ScoreBlocks:
        from deixis.evaluation.score_matrix import ScoreBlocks

        return ScoreBlocks((len(visual), len(text)), lambda begin, end: self.compare(visual[begin:end], text))

    def proposal_vectors(self, features: PhotoFeatures, photo_id: str) -> Floats:
        """Encode the proposals of a photo of a data set."""
        return np.asarray(self.model.prepare_visual(features.proposal_vectors(photo_id)))

    def _no_vectors(self) -> Floats:
        return np.empty((0, self.dimension), np.float32)


class EmbeddingPipeline(RegionPipeline):
    """Base of models that embed photos and regions, sentences and phrases separately, and compare the results."""

    hubness: HubnessCorrection | None = None
    """Corrects the scores of photos and sentences, but not those of regions and phrases; None for plain scores."""

    @property
    def capabilities(self) -> frozenset[str]:
        able = {"encode_images", "encode_sentences", "similarity", "describe"}
        return frozenset(able if self.provenance.train_on == "sentences" else able | {"ground"})

    @property
    def tasks(self) -> frozenset[str]:
        able = {"retrieval", "regions", "grounding"}
        return frozenset(able | {"sentences"} if self.has_common_space else able)

    def encode_images(self, photos: Sequence[PhotoLike]) -> Floats:
        photos = check_list(photos, "photos")
        vectors = [self._no_vectors()]
        for begin in range(0, len(photos), _PHOTOS_AT_ONCE):
            images = [open_image(photo) for photo in photos[begin : begin + _PHOTOS_AT_ONCE]]
            vectors.append(self.encode_photos(self._image_features(images)))
        return np.concatenate(vectors)

    def prepare_photo(self, photo: Image.Image) -> PreparedPhoto:
        """Resize a photo for `encode_prepared`."""
        return self.image_encoder.prepare(photo)

    def encode_prepared(self, photos: Sequence[Any]) -> Floats:
        """Encode photos that `prepare_photo` gave, one row each."""
        features = self.image_encoder.encode_prepared(photos)
        return self.encode_photos(np.stack([each.photo_vector(self.encoder.photo_vector) for each in features]))

    def encode_sentences(self, sentences: Sequence[Text]) -> Floats:
        return self.encode_phrases(sentences)

    def similarity(self, images: Floats, sentences: Floats) -> Floats:
        images = check_vectors(images, "images")
        sentences = check_vectors(sentences, "sentences", images.shape[1])
        return self._photo_scores(images, sentences)(0, len(images))

    def score_phrases(self, regions: PhotoProposals, sentence: Sentence, phrases: Sequence[Phrase]) -> PhraseScores:
        boxes = regions.proposals.boxes
        visual = self.encode_regions(regions.inputs())
        scores = self.compare(visual, self.encode_phrases([phrase.text for phrase in phrases])).T
        # Vectors have unit length, so that their dot products are cosines.
        return PhraseScores(scores, np.broadcast_to(boxes, (*scores.shape, 4)), are_cosines=self.has_common_space)

    def retrieval_scores(
        self, features: PhotoFeatures, texts: Sequence[str], on_progress: OnProgress = no_progress
    ) -> ScoreBlocks:
        from deixis.evaluation.score_matrix import ScoreBlocks

        visual, text = self.model.prepare_visual(features.vectors()), self.encode_phrases(texts)
        return ScoreBlocks((len(visual), len(text)), self._photo_scores(visual, text))

    def _photo_scores(self, visual: Floats, text: Floats) -> Callable[[int, int], Floats]:
        """Return a function that scores the photos from one row to before another against all sentences."""
        if self.hubness is None:
            return lambda begin, end: self.compare(visual[begin:end], text)
        of_photos, of_sentences = self.hubness.photo_terms(visual), self.hubness.sentence_terms(text)
        return lambda begin, end: (
            self.compare(visual[begin:end], text) - of_photos[begin:end, None] - of_sentences  # CSLS, divided by 2
        )

    def sentence_scores(self, texts: Sequence[str]) -> ScoreBlocks:
        self.require("sentences")
        vectors = self.encode_phrases(texts)
        return self._score_blocks(vectors, vectors)

    def predict_boxes(
        self, features: PhotoFeatures, items: Sequence[Item], on_progress: OnProgress = no_progress
    ) -> list[Prediction]:
        from deixis.evaluation.predictions import Prediction

        text, row_of_item = self.encode_items(features, items)
        found: list[Prediction] = []
        for photo_id, photo_items in groupby(items, key=lambda item: item.photo):
            in_photo = list(photo_items)
            rows = row_of_item[len(found) : len(found) + len(in_photo)]
            boxes, scores = self.score_items(features, photo_id, text[rows])
            columns = scores.astype(np.float64).T
            found += [
                Prediction(item.photo, item.caption, item.span, boxes, column)
                for item, column in zip(in_photo, columns, strict=True)
            ]
            on_progress("grounding phrases", len(found), len(items))
        return found

    def encode_items(self, features: PhotoFeatures, items: Sequence[Item]) -> tuple[Floats, NDArray[np.int64]]:
        """Encode the phrases of items, and say which row each item has."""
        phrases, rows = np.unique([item.phrase for item in items], return_inverse=True)
        return self.encode_phrases(phrases.tolist()), rows

    def score_items(self, features: PhotoFeatures, photo_id: str, phrases: Floats) -> tuple[Boxes, Floats]:
        """The boxes of a photo that are ranked, and their scores (boxes, phrases) for encoded phrases."""
        return features.proposals(photo_id), self.compare(self.proposal_vectors(features, photo_id), phrases)

    def to_artifact(self, *, half: bool = False) -> Artifact:
        own = super().to_artifact(half=half)
        parts = {HUBNESS: self.hubness.to_artifact()} if self.hubness else {}
        return replace(own, parts=own.parts | parts)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        pipeline = super().from_artifact(artifact)
        if HUBNESS in artifact.parts:
            pipeline.hubness = HubnessCorrection.from_artifact(artifact.parts[HUBNESS])
        return pipeline

    def _image_features(self, photos: Sequence[Image.Image]) -> Floats:
        encoder, kind = self.image_encoder, self.encoder.photo_vector
        crops = encoder.encode_crops(photos) if self.encoder.crops else [None] * len(photos)
        if self.encoder.crops and kind == "photo":
            return np.asarray(crops)
        features = encoder.encode(photos)
        return np.stack([each.photo_vector(kind, crop) for each, crop in zip(features, crops, strict=True)])


def load_grounding_model(model: str | PathLike[str] = DEFAULT) -> RegionPipeline:
    """Open a model and refuse it unless it can ground phrases."""
    pipeline = load(model)
    pipeline.require("ground")
    return cast(RegionPipeline, pipeline)


def ground(photo: PhotoLike, sentence: str, *, nested: bool = False, model: str | PathLike[str] = DEFAULT) -> Grounding:
    """Find a box for each noun phrase of an English sentence.

    Parameters
    ----------
    photo
        A path, or a Pillow image.
    sentence
        An English sentence.
    nested
        Also ground longer noun phrases and the phrases inside them: "a man in a red hat", "a man", "a red hat".
    model
        A name that ``deixis models`` lists, or the directory of a model that was trained on phrases.

    Returns
    -------
    Grounding
        The phrases of the sentence with their boxes.

    Examples
    --------
    >>> import deixis
    >>> from deixis.data.samples import SAMPLES
    >>> found = deixis.ground(SAMPLES / "images" / "bee.jpg", "A bee on a flower.")
    >>> [phrase.text for phrase in found.phrases]
    ['A bee', 'a flower']
    """
    check_text(sentence, "sentence")  # before a model is opened, which takes a while
    return load_once(check_path(model, "model")).ground(photo, sentence, nested=nested)


class PhotoModel(Protocol):
    """A model whose vectors of whole photos and of sentences are compared by their dot products."""

    @property
    def dimension(self) -> int: ...

    @property
    def encoder(self) -> EncoderInfo: ...

    @property
    def vocabulary(self) -> Vocabulary | None: ...

    def encode_images(self, photos: Sequence[PhotoLike]) -> Floats: ...

    def encode_sentences(self, sentences: Sequence[Text]) -> Floats: ...

    def prepare_photo(self, photo: Image.Image) -> Any:
        """Return what `encode_prepared` needs of a photo."""
        ...

    def encode_prepared(self, photos: Sequence[Any]) -> Floats: ...

    def unknown_words(self, words: Iterable[str]) -> tuple[str, ...]: ...


def load_photo_model(model: str | PathLike[str]) -> PhotoModel:
    """Open a model and refuse it unless dot products of its vectors compare photos with sentences."""
    pipeline = load(model)
    pipeline.require("similarity")
    if not getattr(pipeline, "has_common_space", False) or pipeline.encoder.crops:
        reason = "needs ten crops of each photo" if pipeline.encoder.crops else "does not compare vectors"
        raise DeixisError(f"{pipeline.name}: cannot be the model of an index, because it {reason}")
    return cast(PhotoModel, pipeline)


def load_embedding_model(model: str | PathLike[str]) -> EmbeddingPipeline:
    """Open a model and refuse it unless it embeds photos and sentences."""
    pipeline = load(model)
    pipeline.require("similarity")
    return cast(EmbeddingPipeline, pipeline)


def _to_box(sides: Floats) -> XYXY:
    x1, y1, x2, y2 = map(float, sides)
    return x1, y1, x2, y2


def _with_boxes_around(phrases: Sequence[GroundedPhrase]) -> list[GroundedPhrase]:
    """Give phrases that contain others the box around them, as Flickr30k Entities does; absent ones do not count."""
    found = list(phrases)
    for row in range(len(found) - 1, -1, -1):  # those inside come after their parents
        inside = [each for each in found if each.parent == row]
        shown = [each.box for each in inside if not each.absent] or [each.box for each in inside]
        if shown:
            box = _to_box(geometry.union(np.array(shown)).astype(np.float32))
            found[row] = replace(found[row], box=box, boxes=(box,), region_probability=None, similarity=None)
    return found


NEIGHBOURS = 10
"""k of the paper."""

BANKS = ("photos", "sentences")
_ROWS_AT_ONCE = 512


class HubnessCorrection(Storable):
    """Banks of photos and sentences, and what they subtract from the cosine of a photo and a sentence.

    Parameters
    ----------
    codes
        Vectors of the banks ``photos`` and ``sentences``, each (rows, dimension), as int8; read when they are used.
    step
        Size of one code step.
    neighbours
        Number of nearest neighbours in a bank (k).

    Examples
    --------
    >>> bank = np.eye(2, dtype=np.float32)
    >>> correction = HubnessCorrection.fit(bank, bank, neighbours=1)
    >>> photo, sentences = np.array([[0.6, 0.8]], np.float32), bank
    >>> scores = photo @ sentences.T - correction.photo_terms(photo)[:, None] - correction.sentence_terms(sentences)
    >>> scores.astype(float).round(2).tolist()
    [[-0.3, -0.1]]
    """

    KIND = HUBNESS

    def __init__(self, codes: Mapping[str, NDArray[Any]], step: float, neighbours: int = NEIGHBOURS) -> None:
        self.codes = codes
        self.step = step
        self.neighbours = neighbours
        self._banks: dict[str, Floats] = {}

    @classmethod
    def fit(cls, photos: Floats, sentences: Floats, neighbours: int = NEIGHBOURS) -> Self:
        """Make banks of vectors of unit length: (rows, dimension)."""
        step = float(max(code_step(photos), code_step(sentences)))
        return cls({"photos": quantize(photos, step), "sentences": quantize(sentences, step)}, step, neighbours)

    def photo_terms(self, vectors: Floats) -> Floats:
        """Half the mean cosine of each photo with its nearest sentences of the bank: (photos,)."""
        return self._terms(vectors, "sentences")

    def sentence_terms(self, vectors: Floats) -> Floats:
        """Half the mean cosine of each sentence with its nearest photos of the bank: (sentences,)."""
        return self._terms(vectors, "photos")

    def _terms(self, vectors: Floats, name: str) -> Floats:
        bank = self._bank(name)
        if bank.shape[1] != vectors.shape[1]:
            raise DeixisError(f"hubness: {name} of dimension {bank.shape[1]}, not {vectors.shape[1]}")
        found = np.empty(len(vectors), np.float32)
        for begin in range(0, len(vectors), _ROWS_AT_ONCE):
            cosines = vectors[begin : begin + _ROWS_AT_ONCE] @ bank.T
            nearest = np.partition(cosines, -self.neighbours, axis=1)[:, -self.neighbours :]
            found[begin : begin + _ROWS_AT_ONCE] = nearest.mean(axis=1) / 2
        return found

    def _bank(self, name: str) -> Floats:
        if name not in self._banks:
            codes = self.codes[name]
            if codes.dtype != np.int8 or codes.ndim != 2 or len(codes) < self.neighbours:
                raise DeixisError(f"hubness: {name} must be int8, with {self.neighbours} or more rows")
            self._banks[name] = dequantize(codes, self.step)
        return self._banks[name]

    def to_artifact(self) -> Artifact:
        codes = {name: self.codes[name] for name in BANKS}
        return Artifact(self.KIND, {"step": self.step, "neighbours": self.neighbours}, codes)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        step, neighbours = float(artifact.settings["step"]), int(artifact.settings["neighbours"])
        if missing := set(BANKS) - set(artifact.arrays):
            raise ValueError(f"hubness: no {', '.join(sorted(missing))}")
        if not 0 < step < 1 or neighbours < 1:
            raise ValueError(f"hubness: step={step}, neighbours={neighbours}")
        return cls(artifact.arrays, step, neighbours)
