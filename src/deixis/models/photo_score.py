"""Scores of captions by their photos: the probability that a caption is right, with and without reference captions.

A logistic function of similarities: of the caption and the photo, of its noun phrases and the photo, and of its noun
phrases and the best regions. With references also of the caption and the nearest reference, and of its phrases and the
nearest phrases of references. `scripts/fit_photo_score.py` fits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from deixis.arrays import FloatArray, Floats
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.models.arguments import OnePhotoOrMore, PhotoLike, as_list, check_list, check_text, is_one_photo
from deixis.models.base import RegionInputs, read_regions
from deixis.models.calibrator import LogisticCalibrator
from deixis.models.grounding import EmbeddingPipeline, RegionPipeline, load_embedding_model, load_grounding_model
from deixis.models.installed import SHIPPED
from deixis.storage.checksums import unseal
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from deixis.models.photo_features import PhotoFeatures

SHIPPED_FILE = SHIPPED / "search" / "photo_score.json"
PHOTO_MODEL, REGION_MODEL = "two-branch", "grounder"

PHOTO_FEATURES = 5
"""Similarity of the caption and the photo; of its phrases and the photo, mean and best; of its phrases and their best
regions, mean and best. The best phrase tells a caption of which a part is right from one that is wrong."""

REFERENCE_FEATURES = 2
"""Similarity of the caption and the nearest reference, mean of its phrases and the nearest phrases of references."""

_MAX_REGIONS = 20
_PHOTOS_AT_ONCE = 4


@dataclass(frozen=True)
class ScoreWeights:
    """The two regressions."""

    photo: LogisticCalibrator
    references: LogisticCalibrator  # of the features of the photo, then of the references

    @classmethod
    def load(cls, file: str | PathLike[str] = SHIPPED_FILE) -> Self:
        """Read a file that scripts/fit_photo_score.py wrote."""
        counts = {"photo": PHOTO_FEATURES, "references": PHOTO_FEATURES + REFERENCE_FEATURES}
        try:
            document = unseal(Path(file).read_bytes())
            fingerprint = str(document["fingerprint"])
            return cls(*(LogisticCalibrator.load(document[each], [counts[each]], fingerprint) for each in counts))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DeixisError(f"{file}: cannot be read ({error!r})") from None


@dataclass(frozen=True)
class EncodedCaption:
    """A caption and its noun phrases as both models encode them."""

    vector: Floats  # (dimension,)
    phrases: Floats  # (k, dimension)
    region_phrases: Floats  # (k, region_dimension)
    is_empty: bool = False


@dataclass(frozen=True)
class ScoredPhoto:
    """A photo as both models encode it."""

    vector: Floats  # (dimension,)
    regions: Floats  # (n, region_dimension)


class PhotoScorer:
    """Scores captions by photos with two models; see `photo_score` and `ref_photo_score`."""

    def __init__(self, photo_model: EmbeddingPipeline, region_model: RegionPipeline, weights: ScoreWeights) -> None:
        if photo_model.encoder != region_model.encoder:
            raise DeixisError(f"{photo_model.name} and {region_model.name} need the same image encoder")
        self.photo_model = photo_model
        self.region_model = region_model
        self.weights = weights

    @classmethod
    def open(cls, weights: ScoreWeights | None = None) -> Self:
        """Open the shipped models, with the shipped weights by default."""
        models = load_embedding_model(PHOTO_MODEL), load_grounding_model(REGION_MODEL)
        return cls(*models, weights or ScoreWeights.load())

    def encode_captions(self, captions: Iterable[str]) -> dict[str, EncodedCaption]:
        """Encode the distinct captions, each of which is parsed once."""
        sentences = {text: Sentence(text) for text in dict.fromkeys(captions)}
        phrases = {text: sentence.phrases or (sentence,) for text, sentence in sentences.items()}
        distinct = {phrase.text: phrase for some in phrases.values() for phrase in some}
        if not distinct:
            return {}
        row = {text: number for number, text in enumerate(distinct)}
        of_regions = self.region_model.encode_phrases(list(distinct.values()))
        of_photos = self.photo_model.encode_sentences([*distinct.values(), *sentences.values()])
        found = {}
        for number, (text, sentence) in enumerate(sentences.items(), start=len(distinct)):
            rows = [row[phrase.text] for phrase in phrases[text]]
            found[text] = EncodedCaption(of_photos[number], of_photos[rows], of_regions[rows], not sentence.words)
        return found

    def encode_photos(self, photos: Iterable[PhotoLike]) -> Iterator[ScoredPhoto]:
        """Encode photos, each of which passes the image encoder once."""
        waiting = list(photos)
        for begin in range(0, len(waiting), _PHOTOS_AT_ONCE):
            for found in self.region_model.propose_batch(waiting[begin : begin + _PHOTOS_AT_ONCE]):
                boxes, scores = found.proposals.boxes[:_MAX_REGIONS], found.proposals.scores[:_MAX_REGIONS]
                few = replace(found, proposals=replace(found.proposals, boxes=boxes, scores=scores))
                yield self._encode(few.inputs())

    def read_photos(self, features: PhotoFeatures) -> Iterator[ScoredPhoto]:
        """Photos of a data set, given the features of the region model with region proposals."""
        for photo_id in features.photos.ids:
            yield self._encode(read_regions(features.store, photo_id, _MAX_REGIONS))

    def _encode(self, regions: RegionInputs) -> ScoredPhoto:
        whole = self.photo_model.encode_photos(np.asarray(regions.whole, dtype=np.float32)[None])[0]
        return ScoredPhoto(whole, self.region_model.encode_regions(regions))

    def photo_features(self, photo: ScoredPhoto, caption: EncodedCaption) -> FloatArray:
        """The features of a caption and its photo: (PHOTO_FEATURES,)."""
        whole = self.photo_model.compare(photo.vector[None], np.vstack([caption.vector[None], caption.phrases]))[0]
        regions = self.region_model.compare(photo.regions, caption.region_phrases).max(axis=0)
        of_phrases = [each for found in (whole[1:], regions) for each in (found.mean(), found.max())]
        return np.array([whole[0], *of_phrases], dtype=np.float64)

    def reference_features(self, caption: EncodedCaption, references: Sequence[EncodedCaption]) -> FloatArray:
        """The features of a caption and references: (REFERENCE_FEATURES,)."""
        nearest = max(float(caption.vector @ each.vector) for each in references)
        phrases = caption.phrases @ np.concatenate([each.phrases for each in references]).T
        return np.array([nearest, phrases.max(axis=1).mean()], dtype=np.float64)

    def score(
        self, photo: ScoredPhoto, caption: EncodedCaption, references: Sequence[EncodedCaption] = ()
    ) -> tuple[float, float | None]:
        """The probability that a caption is right, and the same with references; None if there are none."""
        references = [each for each in references if not each.is_empty]
        if caption.is_empty:
            return 0.0, 0.0 if references else None
        features = self.photo_features(photo, caption)
        by_photo = float(self.weights.photo.probabilities(features))
        if not references:
            return by_photo, None
        more = np.concatenate([features, self.reference_features(caption, references)])
        return by_photo, float(self.weights.references.probabilities(more))

    def score_pairs(
        self,
        photos: Iterable[ScoredPhoto],
        captions: Sequence[Sequence[str]],
        references: Sequence[Sequence[Sequence[str]]] | None = None,
    ) -> Iterator[list[tuple[float, float | None]]]:
        """For each photo the scores of its captions, each with its own references."""
        given = references or [[()] * len(some) for some in captions]
        texts = [text for some in captions for text in some]
        read = self.encode_captions([*texts, *(text for some in given for each in some for text in each)])
        for photo, some, theirs in zip(photos, captions, given, strict=True):
            yield [
                self.score(photo, read[text], [read[each] for each in own])
                for text, own in zip(some, theirs, strict=True)
            ]


@lru_cache(maxsize=1)
def shipped_scorer() -> PhotoScorer:
    """The scorer with the shipped models, opened once."""
    return PhotoScorer.open()


def score_captions(
    photos: Sequence[PhotoLike],
    captions: Sequence[str],
    references: Sequence[Sequence[str]] | None = None,
    on_progress: OnProgress = no_progress,
) -> list[tuple[float, float | None]]:
    """Both scores of each pair of photo and caption; a photo that occurs several times is encoded once."""
    if len(photos) != len(captions):
        raise DeixisError(f"caption: give one for each photo; {len(captions)} captions for {len(photos)} photos")
    if references is not None and len(references) != len(captions):
        raise DeixisError(f"references: give a list for each caption; {len(references)} for {len(captions)} captions")
    texts = [check_text(text, "caption") for text in captions]
    given = [check_list(own, "references") for own in references] if references is not None else None
    pairs_of: dict[object, list[int]] = {}
    for index, photo in enumerate(photos):
        pairs_of.setdefault(_key(photo), []).append(index)
    scorer = shipped_scorer()
    groups = list(pairs_of.values())
    encoded = scorer.encode_photos(photos[group[0]] for group in groups)
    found = scorer.score_pairs(
        encoded,
        [[texts[index] for index in group] for group in groups],
        None if given is None else [[given[index] for index in group] for group in groups],
    )
    scores: dict[int, tuple[float, float | None]] = {}
    for done, (group, some) in enumerate(zip(groups, found, strict=True), start=1):
        scores.update(zip(group, some, strict=True))
        on_progress("scoring captions by photos", done, len(groups))
    return [scores[index] for index in range(len(texts))]


def _key(photo: PhotoLike) -> object:
    return str(photo) if isinstance(photo, str | PathLike) else id(photo)


@overload
def photo_score(photo: PhotoLike, caption: str) -> float: ...  # type: ignore[overload-overlap] # a path is no list


@overload
def photo_score(photo: Sequence[PhotoLike], caption: Sequence[str]) -> FloatArray: ...


def photo_score(photo: OnePhotoOrMore, caption: str | Sequence[str]) -> float | FloatArray:
    """Score a caption by its photo, without reference captions.

    Parameters
    ----------
    photo
        A path, a Pillow image, or a list of them. A photo that occurs several times is encoded once.
    caption
        An English caption, or one for each photo.

    Returns
    -------
    float or array of float
        The probability that the caption is right, if half of all captions were: from 0 to 1. A caption without words
        scores 0.

    Examples
    --------
    >>> import deixis
    >>> from deixis.data.samples import SAMPLES
    >>> bee = SAMPLES / "images" / "bee.jpg"
    >>> deixis.photo_score(bee, "A bee on a flower.") > deixis.photo_score(bee, "A train at a station.")
    True
    """
    if is_one_photo(photo):
        return score_captions([photo], [check_text(caption, "caption")])[0][0]
    found = score_captions(as_list(photo), check_list(caption, "caption"))
    return np.array([by_photo for by_photo, _ in found])


@overload
def ref_photo_score(photo: PhotoLike, caption: str, references: Sequence[str]) -> float: ...  # type: ignore[overload-overlap]


@overload
def ref_photo_score(
    photo: Sequence[PhotoLike], caption: Sequence[str], references: Sequence[Sequence[str]]
) -> FloatArray: ...


def ref_photo_score(
    photo: OnePhotoOrMore, caption: str | Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> float | FloatArray:
    """Score a caption by its photo and by reference captions.

    Parameters
    ----------
    photo
        A path, a Pillow image, or a list of them. A photo that occurs several times is encoded once.
    caption
        An English caption, or one for each photo.
    references
        Captions of the photo by people; for a list of photos, a list of captions for each.

    Returns
    -------
    float or array of float
        The probability that the caption is right, if half of all captions were: from 0 to 1.

    Examples
    --------
    >>> import deixis
    >>> from deixis.data.samples import SAMPLES
    >>> bee = SAMPLES / "images" / "bee.jpg"
    >>> deixis.ref_photo_score(bee, "A bee on a flower.", ["An insect sits on a blossom."]) > 0.5
    True
    """
    one = is_one_photo(photo)
    captions = [check_text(caption, "caption")] if one else check_list(caption, "caption")
    given: Any = [check_list(references, "references")] if one else check_list(references, "references")
    found = score_captions(as_list(photo), captions, given)
    for index, (_, score) in enumerate(found):
        if score is None:
            where = "" if one else f"[{index}]"
            raise DeixisError(f"references{where}: give at least one caption with words")
    scores = np.array([score for _, score in found], dtype=np.float64)
    return float(scores[0]) if one else scores


def data_scores(
    features: PhotoFeatures, captions: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> tuple[FloatArray, FloatArray | None]:
    """Both scores of one caption for each photo of a data set; the second is None if a photo has no references.

    `features` are those of the region model, with region proposals.
    """
    scorer = shipped_scorer()
    ids = features.photos.ids
    texts, given = [[captions[photo]] for photo in ids], [[references[photo]] for photo in ids]
    found = [some[0] for some in scorer.score_pairs(scorer.read_photos(features), texts, given)]
    with_references = [score for _, score in found if score is not None]
    complete = len(with_references) == len(found)
    return np.array([score for score, _ in found]), np.array(with_references) if complete else None
