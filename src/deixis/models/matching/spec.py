"""The embedding network and the similarity network of the two-branch paper as models of the registry."""

from pathlib import Path

from deixis.models.matching.similarity import SimilaritySettings
from deixis.models.matching.two_branch import TwoBranchSettings
from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import MatchingDataSettings
from deixis.models.training.settings import TrainSettings

TWO_BRANCH = ModelSpec(
    name="two-branch",
    summary="embedding network: photos and sentences, or regions and phrases, in one space",
    settings=(MatchingDataSettings(), TwoBranchSettings(), TrainSettings()),
    presets=Path(__file__).with_name("two_branch_presets.toml"),
    prepare_data=lazy("deixis.models.matching.training:prepare_data"),
    build=lazy("deixis.models.matching.training:build_two_branch"),
    objective=lazy("deixis.models.matching.training:two_branch_objective"),
    evaluate=lazy("deixis.models.matching.training:evaluate"),
    load=lazy("deixis.models.matching.pipeline:MatchingPipeline.from_artifact"),
)

SIMILARITY = ModelSpec(
    name="similarity",
    summary="similarity network: one score for each pair of a photo and a sentence, or of a region and a phrase",
    settings=(MatchingDataSettings(), SimilaritySettings(), TrainSettings()),
    presets=Path(__file__).with_name("similarity_presets.toml"),
    prepare_data=lazy("deixis.models.matching.training:prepare_data"),
    build=lazy("deixis.models.matching.training:build_similarity"),
    objective=lazy("deixis.models.matching.training:similarity_objective"),
    evaluate=lazy("deixis.models.matching.training:evaluate"),
    load=lazy("deixis.models.matching.pipeline:MatchingPipeline.from_artifact"),
)
