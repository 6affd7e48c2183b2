"""Settings of CCA, and its specification for the registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import MatchingDataSettings
from deixis.models.training.settings import require_at_least, require_positive


@dataclass(frozen=True)
class CCASettings:
    """Hyperparameters of `CCA`.

    Attributes
    ----------
    embedding_dim
        Dimension of the common space.
    regularization
        Added to the variance of every column, as a fraction of the mean variance of its side.
    correlation_power
        Each dimension is weighted by its correlation to this power; 0 weights all the same.
    """

    embedding_dim: int = 256
    regularization: float = 0.5
    correlation_power: float = 1.0

    def __post_init__(self) -> None:
        require_at_least(self, 1, "embedding_dim")
        require_at_least(self, 0, "regularization", "correlation_power")


@dataclass(frozen=True)
class CCATrainSettings(CCASettings):
    """Hyperparameters of a CCA and of its auxiliary embedding (Flickr30k Entities, section 3.1).

    Attributes
    ----------
    auxiliary_model
        Directory of a CCA of regions and phrases, whose vectors are appended to the features.
    auxiliary_weight
        Length of these vectors, relative to the features of their side.
    """

    auxiliary_model: str = ""
    auxiliary_weight: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "auxiliary_weight")


SPEC = ModelSpec(
    name="cca",
    summary="canonical correlation analysis of photos and sentences, or of regions and phrases",
    settings=(MatchingDataSettings(), CCATrainSettings()),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.cca.training:prepare_data"),
    build=lazy("deixis.models.cca.training:build"),
    objective=lambda run, model, data: None,
    validation=lazy("deixis.models.cca.training:validation"),
    load=lazy("deixis.models.matching.model:MatchingPipeline.from_artifact"),
)
