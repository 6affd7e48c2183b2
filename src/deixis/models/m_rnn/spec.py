"""Settings of the m-RNN (sections 3 and 10.1 of the paper) and its specification for the registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.errors import DeixisError
from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import FeatureSource, PhotoDataSettings
from deixis.models.training.settings import TrainSettings, require, require_at_least, require_below_one

MONITOR = "minus_perplexity"
"""The validation score that selects the best epoch, unless monitor=cider."""


@dataclass(frozen=True)
class MRNNSettings:
    """Hyperparameters of the m-RNN network.

    The defaults are the paper's m-RNN (section 3); its other variants are presets.

    Attributes
    ----------
    first_embedding_dim
        Size of word embedding layer I.
    second_embedding_dim
        Size of word embedding layer II, or of the only one.
    single_embedding
        Use one embedding layer, of size `second_embedding_dim`.
    recurrent_cell
        relu (eq. 2), lstm or gru.
    hidden_size
        Size of the recurrent layer; with relu it must equal `second_embedding_dim`.
    multimodal_dim
        Size of the multimodal layer.
    multimodal_word_input
        Which embedding layer feeds the multimodal layer: second, first or none.
    image_input
        Which layer the image feeds: multimodal, recurrent (added to embedding II), both, both-shared (both with the
        same weights) or nowhere.
    tie_word_weights
        Use the transposed word embeddings as output weights (m-RNN-shared).
    tied_projection
        With tie_word_weights: how m is mapped to word embeddings. linear, or relu: with a bias and a ReLU, as in the
        authors' released code.
    standardize_images
        Scale each image feature to mean 0 and deviation 1 over the training photos.
    attention
        Attend to the cells of the photo's feature map at each word.
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
        Dropout of embedding II, the recurrent states, the image features and the multimodal layer.
    word_dropout
        Probability that an input word is replaced by the unknown word in training.
    scheduled_sampling
        Probability that an input word is replaced by a sample from the network in training.
    label_smoothing
        Share of the target probability that is spread evenly over all words in training.
    min_count
        Words that occur less often in the training captions are unknown.
    max_length
        Maximum number of words in a generated sentence.
    reference_photos
        Number of training photos that P(w) is averaged over in retrieval (eq. 7).
    """

    first_embedding_dim: int = 128
    second_embedding_dim: int = 256
    single_embedding: bool = False
    recurrent_cell: Literal["relu", "lstm", "gru"] = "relu"
    hidden_size: int = 256
    multimodal_dim: int = 512
    multimodal_word_input: Literal["second", "first", "none"] = "second"
    image_input: Literal["multimodal", "recurrent", "both", "both-shared", "nowhere"] = "multimodal"
    tie_word_weights: bool = False
    tied_projection: Literal["linear", "relu"] = "linear"
    standardize_images: bool = True
    attention: bool = False
    attention_dim: int = 256
    attention_heads: int = 1
    second_attention: bool = False
    cell_layers: int = 0
    cell_dim: int = 256
    dropout: float = 0.0
    word_dropout: float = 0.0
    scheduled_sampling: float = 0.0
    label_smoothing: float = 0.0
    min_count: int = 5
    max_length: int = 30
    reference_photos: int = 200

    def __post_init__(self) -> None:
        require_at_least(
            self, 1, "first_embedding_dim", "second_embedding_dim", "hidden_size", "multimodal_dim", "attention_dim",
            "attention_heads", "cell_dim", "min_count", "max_length", "reference_photos",
        )  # fmt: skip
        require_below_one(self, "dropout", "word_dropout", "scheduled_sampling", "label_smoothing")
        if self.recurrent_cell == "relu" and self.hidden_size != self.second_embedding_dim:
            raise DeixisError(
                f"hidden_size={self.hidden_size}: with recurrent_cell=relu it must equal second_embedding_dim="
                f"{self.second_embedding_dim}, because eq. 2 adds the two"
            )
        divides = self.attention_dim % self.attention_heads == 0
        require(self, {"attention_heads": divides}, f"must divide attention_dim={self.attention_dim}")
        require_at_least(self, 0, "cell_layers")
        for name in ("second_attention", "cell_layers"):
            if getattr(self, name) and not self.attention:
                raise DeixisError(f"{name}={getattr(self, name)}: needs attention=true")
        if self.single_embedding and self.multimodal_word_input == "first":
            raise DeixisError("multimodal_word_input=first: with single_embedding=true there is only the second")
        if self.tied_projection != "linear" and not self.tie_word_weights:
            raise DeixisError(f"tied_projection={self.tied_projection}: needs tie_word_weights=true")
        if self.image_input == "both-shared" and self.multimodal_dim < self.second_embedding_dim:
            raise DeixisError("image_input=both-shared: multimodal_dim must be at least second_embedding_dim")

    @property
    def refines_images(self) -> bool:
        """Whether the image feeds the multimodal layer, so that the network has refined image features (section 8)."""
        return self.image_input in ("multimodal", "both", "both-shared")

    @property
    def language_ignores_image(self) -> bool:
        """Whether embeddings and recurrent layer do not depend on the image, so that one pass serves all photos."""
        return self.image_input in ("multimodal", "nowhere")

    @property
    def state_parts(self) -> int:
        """Arrays in the state of the recurrent layer: two for an LSTM."""
        return 2 if self.recurrent_cell == "lstm" else 1


@dataclass(frozen=True)
class CaptionDataSettings(PhotoDataSettings):
    """What an m-RNN is trained on, and with which objective.

    Attributes
    ----------
    crops
        10 averages the features of ten crops, as in the papers; 0 encodes the whole photo.
    photo_vector
        Where the encoder's vectors of photos and regions have different sizes: photo, or region, the vector of a region
        as large as the photo, for a model that is to score regions too.
    feature_grid
        With attention=true: feature maps are pooled to this number of cells per side.
    views
        Number of views of each training photo, of which a random one is taken each time: the photo, its mirror image,
        and parts of it in other light. They are encoded when the training starts. 0 takes the photos as they are.
    objective
        likelihood (eq. 6), or cider: the expected CIDEr-D of sampled captions (self-critical training).
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
        Directory of a trained model with the same network to start from; random weights without it.
    monitor
        Validation score that selects the best epoch: perplexity, or cider (CIDEr-D with a beam of 5).
    """

    crops: int = 0
    photo_vector: Literal["photo", "region"] = "photo"
    feature_grid: int = 9
    views: int = 0
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
        require(self, {"crops": self.crops in (0, 10)}, "must be 0 or 10")
        require(self, {"views": not (self.views and self.crops)}, "needs crops=0; a view is one crop")

    @property
    def feature_source(self) -> FeatureSource:
        return FeatureSource(self.encoder, self.features_dir, self.crops, photo_vector=self.photo_vector)


# The paper states no training schedule; this one is ours.
TRAINING = TrainSettings(
    epochs=20,
    batch_size=64,
    learning_rate=1e-3,
    lr_schedule="cosine",
    max_grad_norm=5.0,
    weight_decay=1e-5,
    patience=4,
)

SPEC = ModelSpec(
    name="m-rnn",
    summary="generates captions of photos",
    settings=(CaptionDataSettings(), MRNNSettings(), TRAINING),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.m_rnn.training:prepare_data"),
    build=lazy("deixis.models.m_rnn.training:build"),
    objective=lazy("deixis.models.m_rnn.training:objective"),
    validation=lazy("deixis.models.m_rnn.training:validation"),
    load=lazy("deixis.models.m_rnn.captioning:CaptionPipeline.from_artifact"),
    finish=lazy("deixis.models.m_rnn.training:finish"),
    internal_scores=(MONITOR,),
    evaluation_task="captions",
)
