"""CCA as a model of the registry."""

from pathlib import Path

from deixis.models.cca.model import CCATrainSettings
from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import MatchingDataSettings

SPEC = ModelSpec(
    name="cca",
    summary="canonical correlation analysis of photos and sentences, or of regions and phrases",
    settings=(MatchingDataSettings(), CCATrainSettings()),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.cca.training:prepare_data"),
    build=lazy("deixis.models.cca.training:build"),
    objective=lambda run, model, data: None,
    evaluate=lazy("deixis.models.cca.training:evaluate"),
    load=lazy("deixis.models.matching.pipeline:MatchingPipeline.from_artifact"),
)
