"""Settings of the embedding and the similarity network, and their specifications for the registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.errors import DeixisError
from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import MatchingDataSettings
from deixis.models.training.settings import (
    Settings,
    TrainSettings,
    require,
    require_at_least,
    require_below_one,
    require_positive,
)


@dataclass(frozen=True)
class TwoBranchSettings:
    """Hyperparameters of the embedding network (two-branch paper, section 3).

    The defaults are the paper's phrase network with the best R@1, with neighbourhood sampling and without neighbourhood
    constraints; `two_branch_presets.toml` holds the other variants.

    Attributes
    ----------
    hidden_size
        Size of the first layer of each branch.
    embedding_dim
        Size of the second layer of each branch: the dimension of the common space.
    linear
        Keep only the first layer of each branch; the common space then has `hidden_size` dimensions.
    dropout
        Dropout after the first layer.
    standardize_images
        Scale each feature of photos or regions to mean 0 and deviation 1 over the training photos.
    text_encoder
        Text encoder before the text branch: lstm, gru or transformer; none takes text features.
    min_count
        With a text encoder: words that occur less often in the training texts are unknown.
    word_dim
        With a text encoder: dimension of word embeddings; must be that of `word_vectors`, if these are set.
    text_hidden_size
        With a text encoder: hidden size.
    text_layers
        With a text encoder: number of layers.
    text_branch_size
        Size of the first layer of the text branch; 0 for `hidden_size`.
    word_dropout
        With a text encoder: dropout of word embeddings.
    delta_dropout
        With word_vectors=shipped: share of words whose trained difference is left out, in training.
    loss
        triplet (eq. 6), or softmax (over all negatives).
    margin
        Margin m of eq. 6.
    max_negatives
        K of Algorithm 1: negatives per target and positive.
    visual_to_text_weight
        λ1 of eq. 6.
    text_to_visual_weight
        λ2 of eq. 6.
    visual_neighbour_weight
        λ3 of eq. 6: neighbourhood constraint of photos or regions.
    text_neighbour_weight
        λ4 of eq. 6: neighbourhood constraint of sentences or phrases.
    neighbour_start_epoch
        First epoch, counted from 0, with neighbourhood constraints; the best epoch is chosen from there on.
    temperature
        Initial temperature of softmax; it is learned.
    label_smoothing
        Label smoothing of softmax.
    neighbour_sampling
        Sample a second positive for every target.
    random_partners
        The control of neighbour_sampling (section 4.4): as many further pairs, drawn at random, instead of second
        positives.
    positives
        augmented: a random region with an IoU of at least `positive_iou` is the positive; single: the gold box.
    positive_iou, negative_iou
        Minimum IoU of a positive region, and the IoU below which a region is a negative.
    max_candidates
        Sample this many regions of the photo as candidate negatives; none for all, as in the paper.
    identical_text_is_negative
        Treat a phrase of another chain as a negative even if its text is the same, as the paper does.
    negatives_from
        Negative regions come from the same photo, as in the paper, or also from the other photos of the batch.
    """

    hidden_size: int = 1024
    embedding_dim: int = 512
    linear: bool = False
    dropout: float = 0.0
    standardize_images: bool = False
    text_encoder: Literal["none", "lstm", "gru", "transformer"] = "none"
    min_count: int = 1
    word_dim: int = 256
    text_hidden_size: int = 512
    text_layers: int = 1
    text_branch_size: int = 0
    word_dropout: float = 0.0
    delta_dropout: float = 0.2
    loss: Literal["triplet", "softmax"] = "triplet"
    margin: float = 0.05
    max_negatives: int = 30
    visual_to_text_weight: float = 1.0
    text_to_visual_weight: float = 4.0
    visual_neighbour_weight: float = 0.0
    text_neighbour_weight: float = 0.0
    neighbour_start_epoch: int = 8
    temperature: float = 0.07
    label_smoothing: float = 0.0
    neighbour_sampling: bool = True
    random_partners: bool = False
    positives: Literal["augmented", "single"] = "augmented"
    positive_iou: float = 0.7
    negative_iou: float = 0.3
    max_candidates: int | None = None
    identical_text_is_negative: bool = True
    negatives_from: Literal["photo", "batch"] = "photo"

    def __post_init__(self) -> None:
        require_at_least(
            self, 1, "hidden_size", "embedding_dim", "min_count", "word_dim", "text_hidden_size", "text_layers",
            "max_negatives",
        )  # fmt: skip
        require_at_least(self, 0, "text_branch_size")
        require_below_one(self, "dropout", "word_dropout", "delta_dropout", "label_smoothing")
        require_positive(self, "temperature")
        if self.linear and self.text_branch_size not in (0, self.hidden_size):
            raise DeixisError(f"text_branch_size={self.text_branch_size}: with linear=true both branches have one size")
        if not self.visual_to_text_weight and not self.text_to_visual_weight:
            raise DeixisError("visual_to_text_weight=0, text_to_visual_weight=0: one of them must be greater than 0")
        if self.random_partners and not self.neighbour_sampling:
            raise DeixisError("random_partners=true: needs neighbour_sampling=true, which says how many are drawn")
        has_partners = self.neighbour_sampling and not self.random_partners
        if (self.visual_neighbour_weight or self.text_neighbour_weight) and not has_partners:
            raise DeixisError(
                "visual_neighbour_weight and text_neighbour_weight need neighbour_sampling=true and "
                "random_partners=false, or must be 0"
            )

    @property
    def constraints_from(self) -> int:
        """First epoch, counted from 0, in which every term of the loss counts."""
        constrained = self.loss == "triplet" and (self.visual_neighbour_weight or self.text_neighbour_weight)
        return self.neighbour_start_epoch if constrained else 0


def check_schedule(settings: Settings) -> None:
    """Refuse a training that ends before the neighbourhood constraints begin."""
    epochs, first = settings[TrainSettings].epochs, settings[TwoBranchSettings].constraints_from
    if epochs <= first:
        raise DeixisError(
            f"epochs={epochs}: the neighbourhood constraints begin after {first} epochs; set more epochs, a smaller "
            "neighbour_start_epoch, or visual_neighbour_weight=0 and text_neighbour_weight=0"
        )


@dataclass(frozen=True)
class SimilaritySettings:
    """Hyperparameters of the similarity network (two-branch paper, section 3.3).

    The defaults are the paper's best phrase network; `similarity_presets.toml` holds the other variants.

    Attributes
    ----------
    hidden_size
        Size of the first layer of each branch.
    embedding_dim
        Size of the second layer of each branch.
    linear
        Keep only the first layer of each branch; the product then has `hidden_size` dimensions.
    dropout
        Dropout after the first layer.
    standardize_images
        Scale each feature of photos or regions to mean 0 and deviation 1 over the training photos.
    fusion_layers
        Layers after the product: 3 (of sizes 512, 256 and 1), 2 (256 and 1) or 1.
    positives
        augmented: all regions with an IoU of at least `positive_iou` are positives; single: the gold box.
    positive_iou, negative_iou
        Minimum IoU of a positive region, and the IoU below which a region is a negative.
    """

    hidden_size: int = 1024
    embedding_dim: int = 512
    linear: bool = False
    dropout: float = 0.0
    standardize_images: bool = False
    fusion_layers: int = 3
    positives: Literal["augmented", "single"] = "augmented"
    positive_iou: float = 0.7
    negative_iou: float = 0.3

    def __post_init__(self) -> None:
        require_at_least(self, 1, "hidden_size", "embedding_dim")
        require_below_one(self, "dropout")
        require(self, {"fusion_layers": self.fusion_layers in (1, 2, 3)}, "must be 1, 2 or 3")


TWO_BRANCH = ModelSpec(
    name="two-branch",
    summary="embedding network: photos and sentences, or regions and phrases, in one space",
    settings=(MatchingDataSettings(), TwoBranchSettings(), TrainSettings()),
    presets=Path(__file__).with_name("two_branch_presets.toml"),
    check=check_schedule,
    prepare_data=lazy("deixis.models.matching.training:prepare_data"),
    build=lazy("deixis.models.matching.training:build_two_branch"),
    objective=lazy("deixis.models.matching.training:two_branch_objective"),
    validation=lazy("deixis.models.matching.training:validation"),
    load=lazy("deixis.models.matching.model:MatchingPipeline.from_artifact"),
)

SIMILARITY = ModelSpec(
    name="similarity",
    summary="similarity network: one score for each pair of a photo and a sentence, or of a region and a phrase",
    settings=(MatchingDataSettings(), SimilaritySettings(), TrainSettings()),
    presets=Path(__file__).with_name("similarity_presets.toml"),
    prepare_data=lazy("deixis.models.matching.training:prepare_data"),
    build=lazy("deixis.models.matching.training:build_similarity"),
    objective=lazy("deixis.models.matching.training:similarity_objective"),
    validation=lazy("deixis.models.matching.training:validation"),
    load=lazy("deixis.models.matching.model:MatchingPipeline.from_artifact"),
)
