"""Settings of consensus reranking (m-RNN, section 8) and its specification for the registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import DataSettings
from deixis.models.training.settings import require, require_at_least

NeighbourFeature = Literal["refined", "photo"]
NeighbourDistance = Literal["cosine", "euclidean"]
BleuForm = Literal["smoothed", "mean-f"]


@dataclass(frozen=True)
class ConsensusDataSettings(DataSettings):
    """Whose captions are reranked, and by which photos.

    Attributes
    ----------
    captioner
        Model that generates the captions: the directory of a run of ``deixis train m-rnn``, or a name.
    """

    captioner: str = "m-rnn"


@dataclass(frozen=True)
class ConsensusSettings:
    """Hyperparameters of consensus reranking.

    Attributes
    ----------
    neighbour_feature
        Features by which similar photos are found: refined (g(V_I · I), section 8.1) or photo.
    neighbour_distance
        cosine, or euclidean as in the authors' released code.
    bleu_form
        BLEU of two sentences: smoothed BLEU-4, or mean-f: the mean over n = 1 … 4 of the F-scores of n-grams, as in the
        authors' released code.
    tune
        Choose k and m on the validation split, if there is one, instead of the three settings below.
    neighbours
        k of section 8.2: number of nearest training photos.
    top_captions_bleu
        m of section 8.2 for BLEU: number of most similar captions that count.
    top_captions_cider
        m of section 8.2 for CIDEr.
    beam
        Beam width that sentences are generated with to choose k and m.
    """

    neighbour_feature: NeighbourFeature = "refined"
    neighbour_distance: NeighbourDistance = "cosine"
    bleu_form: BleuForm = "smoothed"
    tune: bool = True
    neighbours: int = 60
    top_captions_bleu: int = 175
    top_captions_cider: int = 125
    beam: int = 10

    def __post_init__(self) -> None:
        require(self, {"beam": self.beam >= 2}, "must be 2 or more, or there is nothing to choose from")
        require_at_least(self, 1, "neighbours", "top_captions_bleu", "top_captions_cider")


SPEC = ModelSpec(
    name="consensus",
    summary="reranks the captions of a model by those of similar training photos",
    settings=(ConsensusDataSettings(), ConsensusSettings()),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.consensus.training:prepare_data"),
    build=lazy("deixis.models.consensus.training:build"),
    objective=lambda run, model, data: None,
    validation=lazy("deixis.models.consensus.training:validation"),
    load=lazy("deixis.models.consensus.reranking:ConsensusPipeline.from_artifact"),
    next_command=lambda result: f"deixis caption PHOTO --model {result.path}",
)
