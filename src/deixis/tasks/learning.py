"""What a matching model learns from: which pairs of a data set, seen and read by whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.language.features.of_data import Recipe, recipe_of
from deixis.tasks.features_of import Proposing, SeenPhotos, encode_photos, stored_photos

Learn = Literal["sentences", "phrases", "both"]


@dataclass(frozen=True)
class Learning:
    """What a model learns from, whichever it is.

    Attributes
    ----------
    learn
        sentences with their photos, phrases with their regions, or both together (CCA only).
    train
        The split to learn from.
    encoder
        Of the photos, by its name.
    features
        Instead of an encoder: a directory that ``deixis features`` made, with ``--import`` say.
    crops
        10 for the mean over ten crops of a photo, as in the papers; 0 for the whole photo at once. Regions have none.
    proposals
        Of regions: who proposes them.
    top
        Of regions: at most so many are proposed in a photo.
    place
        How much the place of a region counts: seven numbers, where it begins and ends, its width, height and area as
        shares of the photo, are multiplied by this and put after its vector; 0 leaves them out.
    relations
        Of phrases: also learn from entity-relation-entity and subject-verb phrases, with the union box.
    most_regions
        Of phrases: at most so many regions for each phrase, drawn at random; 0 for all.
    text
        Features of sentences and phrases, where the model does not read words itself.
    vectors
        Word vectors for all text but tfidf: a path or an installed package.

    Examples
    --------
    >>> Learning(crops=5)
    Traceback (most recent call last):
    deixis.errors.DeixisError: crops=5: must be 0 or 10
    >>> Learning(learn="phrases").regions, Learning().regions
    (True, False)
    """

    learn: Learn = "sentences"
    train: str = "train"
    encoder: str = "deixis"
    features: str = ""
    crops: int = 0
    proposals: str = "head"
    top: int = 100
    place: float = 0.0
    relations: bool = False
    most_regions: int = 0
    text: Literal["mean", "tfidf", "fisher", "hglmm"] = "tfidf"
    vectors: str = ""

    def __post_init__(self) -> None:
        rules = {
            "crops": (self.crops in (0, 10), "must be 0 or 10"),
            "top": (self.top >= 1, "must be 1 or more"),
            # Written so that nan is refused too.
            "place": (0 <= self.place < float("inf"), "must be 0 or more"),
            "most_regions": (self.most_regions >= 0, "must be 0 or more"),
        }
        for name, (kept, rule) in rules.items():
            if not kept:
                raise DeixisError(f"{name}={getattr(self, name)}: {rule}")
        if self.learn == "phrases" and self.crops:
            raise DeixisError(f"crops={self.crops}: regions are pooled from the map of the whole photo; take crops=0")

    @property
    def regions(self) -> bool:
        """Whether regions are learned from."""
        return self.learn != "sentences"

    @property
    def sentences(self) -> bool:
        """Whether sentences are learned from."""
        return self.learn != "phrases"

    def recipe(self) -> Recipe:
        """How texts become vectors; missing word vectors are known here, before photos are encoded."""
        return recipe_of(self.text, self.vectors or None)


@dataclass(frozen=True)
class RegionData:
    """What is chosen for a model that always learns from regions, and has no text features.

    Attributes
    ----------
    train
        The split to learn from.
    encoder
        Of the photos, by its name.
    features
        Instead of an encoder: a directory that ``deixis features DATA --proposals NAME`` made.
    proposals
        Who proposes regions.
    top
        At most so many are proposed in a photo.

    Examples
    --------
    >>> RegionData(top=0)
    Traceback (most recent call last):
    deixis.errors.DeixisError: top=0: must be 1 or more
    """

    train: str = "train"
    encoder: str = "deixis"
    features: str = ""
    proposals: str = "head"
    top: int = 100

    def __post_init__(self) -> None:
        if self.top < 1:
            raise DeixisError(f"top={self.top}: must be 1 or more")

    @property
    def learning(self) -> Learning:
        """The same as other models are told it."""
        return Learning(
            learn="phrases",
            train=self.train,
            encoder=self.encoder,
            features=self.features,
            proposals=self.proposals,
            top=self.top,
        )


def training_photos(dataset: Dataset, split: str, *, boxes: bool = False) -> Photos:
    """The photos of the split to learn from; where boxes are needed, it is known at once whether there are any."""
    if boxes and not dataset.manifest.counts.get("boxes"):
        raise DatasetError(
            f"{dataset.path}: has no boxes to learn phrases from; import data with --entities, or take learn=sentences"
        )
    if split not in dataset.manifest.splits:
        known = ", ".join(dataset.manifest.splits) or "none"
        raise DatasetError(
            f"{dataset.path}: no split {split!r} to learn from; it has: {known}; name another with --set train=NAME"
        )
    return dataset.split(split)


def see_photos(dataset: Dataset, photos: Photos, learning: Learning, *, on_progress: OnProgress = silent) -> SeenPhotos:
    """Photos as a model will see them, with their regions where it learns from these; those missing are computed."""
    proposing = Proposing(learning.proposals, learning.top) if learning.regions else None
    if learning.features:
        seen = stored_photos(Path(learning.features), dataset, photos, crops=learning.crops, proposing=proposing)
    else:
        from deixis.vision import encoders

        encoder = encoders.open_encoder(learning.encoder)
        seen = encode_photos(
            dataset, photos, encoder, crops=learning.crops, proposing=proposing, on_progress=on_progress
        )
    return replace(seen, place=learning.place)


def refuse_no_photos(dataset: Dataset, seen: SeenPhotos, split: str) -> None:
    """Say in one line why there is nothing to learn from."""
    if not len(seen.photos):
        why = f", the first: {seen.left_out[0]}" if seen.left_out else ""
        raise DatasetError(f"{dataset.path}: no photo of split {split!r} has features{why}")
