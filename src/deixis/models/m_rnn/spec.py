"""Settings of the m-RNN (sections 3 and 10.1) and of consensus reranking (section 8), and their specifications."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.errors import DeixisError
from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import DataSettings, FeatureSource, PhotoDataSettings
from deixis.models.training.settings import TrainSettings, require, require_at_least

MONITOR = "minus_perplexity"
"""The validation score that selects the best epoch."""

NeighbourFeature = Literal["refined", "photo"]
NeighbourDistance = Literal["cosine", "euclidean"]
BleuForm = Literal["smoothed", "mean-f"]


@dataclass(frozen=True)
class SentenceSettings:
    """Settings of every model that generates sentences.

    Attributes
    ----------
    multimodal_dim
        Size of the multimodal layer.
    min_count
        Words that occur less often in the training captions are unknown.
    max_length
        Maximum number of words in a generated sentence.
    reference_photos
        Number of training photos that P(w) is averaged over in retrieval (eq. 7). 0 compares the perplexity of a
        sentence with its perplexity given the mean of all training photos, as Kiros et al. do.
    """

    multimodal_dim: int = 512
    min_count: int = 5
    max_length: int = 30
    reference_photos: int = 200

    def __post_init__(self) -> None:
        require_at_least(self, 1, "multimodal_dim", "min_count", "max_length")
        require_at_least(self, 0, "reference_photos")

    @property
    def uses_images(self) -> bool:
        """Whether sentences depend on the image."""
        return True

    @property
    def refines_images(self) -> bool:
        """Whether the image feeds the multimodal layer, so that the network has refined image features (section 8)."""
        return True

    @property
    def language_ignores_image(self) -> bool:
        """Whether embeddings and recurrent layer do not depend on the image, so that one pass serves all photos."""
        return True


@dataclass(frozen=True)
class MRNNSettings(SentenceSettings):
    """Hyperparameters of the m-RNN network.

    The defaults are the paper's m-RNN (section 3); its other variants are presets.

    Attributes
    ----------
    first_embedding_dim
        Size of word embedding layer I.
    second_embedding_dim
        Size of word embedding layer II, or of the only one, and of the recurrent layer, because eq. 2 adds the two.
    single_embedding
        Use one embedding layer, of size `second_embedding_dim`.
    multimodal_word_input
        Embedding layer that feeds the multimodal layer: second, first or none.
    image_input
        Layer that the image feeds: multimodal, recurrent (added to embedding II), both, both-shared (both with the
        same weights) or nowhere.
    recurrence
        Nonlinearity of the recurrent layer: relu (eq. 2), or sigmoid or tanh (scaled), which footnote 3 tried.
    tie_word_weights
        Use the transposed word embeddings as output weights (m-RNN-shared).
    tied_projection
        With tie_word_weights: how m is mapped to word embeddings. linear, or relu: with a bias and a ReLU, as in the
        authors' released code.
    standardize_images
        Scale each image feature to mean 0 and deviation 1 over the training photos.
    """

    first_embedding_dim: int = 128
    second_embedding_dim: int = 256
    single_embedding: bool = False
    multimodal_word_input: Literal["second", "first", "none"] = "second"
    image_input: Literal["multimodal", "recurrent", "both", "both-shared", "nowhere"] = "multimodal"
    recurrence: Literal["relu", "sigmoid", "tanh"] = "relu"
    tie_word_weights: bool = False
    tied_projection: Literal["linear", "relu"] = "linear"
    standardize_images: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "first_embedding_dim", "second_embedding_dim")
        if self.single_embedding and self.multimodal_word_input == "first":
            raise DeixisError("multimodal_word_input=first: with single_embedding=true there is only the second")
        if self.tied_projection != "linear" and not self.tie_word_weights:
            raise DeixisError(f"tied_projection={self.tied_projection}: needs tie_word_weights=true")
        if self.image_input == "both-shared" and self.multimodal_dim < self.second_embedding_dim:
            raise DeixisError("image_input=both-shared: multimodal_dim must be at least second_embedding_dim")

    @property
    def uses_images(self) -> bool:
        return self.image_input != "nowhere"

    @property
    def refines_images(self) -> bool:
        return self.image_input in ("multimodal", "both", "both-shared")

    @property
    def language_ignores_image(self) -> bool:
        return self.image_input in ("multimodal", "nowhere")


@dataclass(frozen=True)
class CaptionDataSettings(PhotoDataSettings):
    """Training data of an m-RNN.

    Attributes
    ----------
    crops
        10 averages the features of ten crops, as in the papers; 0 encodes the whole photo.
    photo_vector
        Where the encoder's vectors of photos and regions have different sizes: photo, or region, the vector of a region
        as large as the photo, for a model that is to score regions too.
    """

    crops: int = 0
    photo_vector: Literal["photo", "region"] = "photo"

    def __post_init__(self) -> None:
        require(self, {"crops": self.crops in (0, 10)}, "must be 0 or 10")

    @property
    def feature_source(self) -> FeatureSource:
        return FeatureSource(self.encoder, self.features_dir, self.crops, photo_vector=self.photo_vector)


# The paper states no training schedule; this one is ours.
TRAINING = TrainSettings(
    epochs=20, batch_size=64, learning_rate=1e-3, lr_schedule="cosine", max_grad_norm=5.0, weight_decay=1e-5, patience=4
)

SPEC = ModelSpec(
    name="m-rnn",
    summary="generates captions of photos with the network of the m-RNN paper",
    settings=(CaptionDataSettings(), MRNNSettings(), TRAINING),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.m_rnn.training:prepare_data"),
    build=lazy("deixis.models.m_rnn.training:build"),
    objective=lazy("deixis.models.m_rnn.training:objective"),
    validation=lazy("deixis.models.m_rnn.training:validation"),
    load=lazy("deixis.models.m_rnn.pipeline:CaptionPipeline.from_artifact"),
    finish=lazy("deixis.models.m_rnn.training:finish"),
    internal_scores=(MONITOR,),
    evaluation_task="captions",
)


@dataclass(frozen=True)
class ConsensusDataSettings(DataSettings):
    """Model whose captions are reranked, and the photos to rerank them by.

    Attributes
    ----------
    captioner
        Model that generates the captions: the directory of a run of ``deixis train m-rnn`` or ``deixis train
        captioner``, or a name.
    """

    captioner: str = "captioner"


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


CONSENSUS = ModelSpec(
    name="consensus",
    summary="reranks the captions of a model by those of similar training photos",
    settings=(ConsensusDataSettings(), ConsensusSettings()),
    presets=Path(__file__).with_name("consensus_presets.toml"),
    prepare_data=lazy("deixis.models.m_rnn.training:prepare_consensus"),
    build=lazy("deixis.models.m_rnn.training:build_consensus"),
    objective=lambda run, model, data: None,
    validation=lazy("deixis.models.m_rnn.training:consensus_validation"),
    load=lazy("deixis.models.m_rnn.consensus:ConsensusPipeline.from_artifact"),
    next_command=lambda result: f"deixis caption PHOTO --model {result.path}",
)
