"""Settings of the captioner and its specification for the registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.models.m_rnn.spec import MONITOR, MRNNSettings, SentenceSettings
from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import PhotoDataSettings
from deixis.models.training.settings import TrainSettings, require, require_at_least, require_below_one


@dataclass(frozen=True)
class CaptionerSettings(SentenceSettings):
    """Hyperparameters of the captioner's network. The defaults are those of the shipped model.

    Attributes
    ----------
    embedding_dim
        Size of the word embeddings, whose transpose gives the output weights.
    hidden_size
        Size of the LSTM.
    attention_dim
        Size of queries, keys and values, all heads together.
    attention_heads
        Number of attention heads.
    second_attention
        Attend a second time at each word, with the multimodal layer as the query and the same keys and values.
    cell_layers
        Number of transformer layers over the cells of a photo before the attention.
    cell_dim
        Size of those layers.
    dropout
        Dropout of word embeddings, LSTM states, image features and the multimodal layer.
    label_smoothing
        Share of the target probability that is spread evenly over all words in training.
    """

    max_length: int = 24
    reference_photos: int = 2
    embedding_dim: int = 256
    hidden_size: int = 512
    attention_dim: int = 384
    attention_heads: int = 6
    second_attention: bool = True
    cell_layers: int = 2
    cell_dim: int = 256
    dropout: float = 0.3
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "embedding_dim", "hidden_size", "attention_dim", "attention_heads", "cell_dim")
        require_at_least(self, 0, "cell_layers")
        require_below_one(self, "dropout", "label_smoothing")
        divides = self.attention_dim % self.attention_heads == 0
        require(self, {"attention_heads": divides}, f"must divide attention_dim={self.attention_dim}")

    @property
    def m_rnn(self) -> MRNNSettings:
        """The m-RNN that the network extends."""
        return MRNNSettings(
            second_embedding_dim=self.embedding_dim,
            single_embedding=True,
            tie_word_weights=True,
            multimodal_dim=self.multimodal_dim,
        )


@dataclass(frozen=True)
class CaptionerDataSettings(PhotoDataSettings):
    """Training data and objective of a captioner.

    Attributes
    ----------
    feature_grid
        Feature maps are pooled to this number of cells per side.
    views
        Number of views of each training photo, of which a random one is taken each time: the photo, its mirror image,
        and parts of it in other light. They are encoded when the training starts. 0 takes the photos as they are.
    views_folder
        Directory that keeps the encoded views, so that other trainings on the same photos need not encode them again.
    objective
        likelihood (eq. 6 of m-RNN), or cider: the expected CIDEr-D of sampled captions (self-critical training).
    reward_samples
        With objective=cider: number of captions sampled per photo.
    repetition_penalty
        With objective=cider: subtracted from the reward (0 to 10) for each repetition of a word that people rarely
        repeat.
    wrong_word_penalty
        With objective=cider: subtracted from the reward (0 to 10) for each noun that no caption of the photo has, by
        stem or WordNet sense; half of it for other content words.
    likelihood_weight
        With objective=cider: weight of the likelihood loss, which keeps captions fluent.
    repeated_split
        With objective=cider: a split of the data set whose training photos are drawn twice in each epoch.
    match_model
        Matching model, such as two-branch, that helps to rank generated captions; empty to rank by probability.
    match_weight
        Weight of the similarity of caption and photo, beside the log-probability per word.
    init_from
        Directory of a trained captioner with the same network to start from; random weights without it.
    monitor
        Validation score that selects the best epoch: perplexity, or cider (CIDEr-D with a beam of 5).
    """

    feature_grid: int = 9
    views: int = 0
    views_folder: str = ""
    objective: Literal["likelihood", "cider"] = "likelihood"
    reward_samples: int = 5
    repetition_penalty: float = 0.0
    wrong_word_penalty: float = 0.0
    likelihood_weight: float = 0.0
    repeated_split: str = ""
    match_model: str = ""
    match_weight: float = 2.0
    init_from: str = ""
    monitor: Literal["perplexity", "cider"] = "perplexity"

    def __post_init__(self) -> None:
        require(self, {"reward_samples": self.reward_samples >= 2}, "must be 2 or more; samples are compared in pairs")
        require_at_least(self, 1, "feature_grid")
        require_at_least(
            self, 0, "repetition_penalty", "wrong_word_penalty", "likelihood_weight", "match_weight", "views"
        )


TRAINING = TrainSettings(
    epochs=20,
    batch_size=256,
    learning_rate=2e-3,
    lr_schedule="cosine",
    optimizer="adamw",
    weight_decay=0.01,
    warmup_steps=100,
    max_grad_norm=1.0,
    ema_decay=0.998,
)

SPEC = ModelSpec(
    name="captioner",
    summary="generates captions of photos; the shipped model: an m-RNN with attention, trained on CIDEr-D",
    settings=(CaptionerDataSettings(), CaptionerSettings(), TRAINING),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.captioner.training:prepare_data"),
    build=lazy("deixis.models.captioner.training:build"),
    objective=lazy("deixis.models.captioner.training:objective"),
    validation=lazy("deixis.models.captioner.training:validation"),
    load=lazy("deixis.models.captioner.pipeline:CaptionerPipeline.from_artifact"),
    finish=lazy("deixis.models.m_rnn.training:finish"),
    internal_scores=(MONITOR,),
    evaluation_task="captions",
)
