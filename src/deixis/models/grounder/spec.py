"""Settings of the grounder, and its specification for the registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deixis.errors import DeixisError
from deixis.models.registry import ModelSpec, lazy
from deixis.models.training.data import RegionDataSettings
from deixis.models.training.settings import TrainSettings, require_at_least, require_below_one


@dataclass(frozen=True)
class GrounderDataSettings(RegionDataSettings):
    """Data settings of the grounder.

    Attributes
    ----------
    word_vectors
        shipped: word vectors that are kept, to which training adds a difference for each word of the training
        sentences. A path or an installed package: initial word embeddings. none: random ones.
    """

    word_vectors: str = "shipped"


@dataclass(frozen=True)
class GrounderSettings:
    """Hyperparameters of the grounder.

    Attributes
    ----------
    embedding_dim
        Size of the states of regions and words.
    num_layers
        Transformer layers over the regions of a photo and the words of a sentence. Regions and phrases have vectors
        that an index can store if this is 0 or `presence_weight` is above 0.
    sentence_context
        Encode phrases within their sentence; otherwise each phrase alone.
    use_location
        Add the position and size of a region to its state.
    global_context
        Add the vector of the whole photo to the state of each region.
    use_feature_map
        Let the transformer layers attend to the cells of the photo's feature map.
    feature_grid
        With use_feature_map=true: the feature map is pooled to this number of cells per side; 0 takes it as it is.
    refine_boxes
        Predict a better box for each proposal.
    target_iou_power
        Proposals with an IoU of at least 0.5 share the target probability in proportion to their IoU to this power.
    word_dim
        Dimension of word embeddings; must be that of the word vectors.
    hidden_size
        Hidden size of the GRU, in each direction.
    dropout
        Dropout of the states of regions and words, and in the transformer layers.
    word_dropout
        Dropout of word embeddings.
    delta_dropout
        With word_vectors=shipped: share of words whose trained difference is left out, in training.
    presence_weight
        Weight of the loss that compares a phrase, encoded alone, with all photos of the batch; 0 to leave it out. The
        model needs it to estimate whether a photo shows what a phrase names.
    sets_weight
        Weight of the losses of boxes of single things, for phrases that name several; 0 to leave them out. The model
        needs it to return one box for each thing.
    min_count
        Words that occur less often in the training sentences are unknown.
    """

    embedding_dim: int = 384
    num_layers: int = 0
    sentence_context: bool = True
    use_location: bool = True
    global_context: bool = True
    use_feature_map: bool = False
    feature_grid: int = 0
    refine_boxes: bool = True
    target_iou_power: float = 1.0
    word_dim: int = 200
    hidden_size: int = 192
    dropout: float = 0.2
    word_dropout: float = 0.2
    delta_dropout: float = 0.2
    presence_weight: float = 0.0
    sets_weight: float = 0.0
    min_count: int = 5

    def __post_init__(self) -> None:
        require_at_least(self, 1, "embedding_dim", "word_dim", "hidden_size", "min_count")
        require_at_least(self, 0, "num_layers", "feature_grid", "target_iou_power", "presence_weight", "sets_weight")
        require_below_one(self, "dropout", "word_dropout", "delta_dropout")
        if self.use_feature_map and not self.num_layers:
            raise DeixisError(
                "use_feature_map=true: only transformer layers attend to the feature map; set num_layers=1 or more"
            )


# On Flickr8k the grounder overfits after four to six epochs.
TRAINING = TrainSettings(
    epochs=6,
    batch_size=128,
    learning_rate=3e-4,
    optimizer="adamw",
    weight_decay=0.05,
    lr_schedule="cosine",
    warmup_steps=300,
    max_grad_norm=1.0,
    ema_decay=0.998,
)

SPEC = ModelSpec(
    name="grounder",
    summary="finds the box of each noun phrase of a sentence",
    settings=(GrounderDataSettings(), GrounderSettings(), TRAINING),
    presets=Path(__file__).with_name("presets.toml"),
    prepare_data=lazy("deixis.models.grounder.training:prepare_data"),
    build=lazy("deixis.models.grounder.training:build"),
    objective=lazy("deixis.models.grounder.training:objective"),
    validation=lazy("deixis.models.grounder.training:validation"),
    finish=lazy("deixis.models.grounder.training:finish"),
    selectable_epochs=False,
    load=lazy("deixis.models.grounder.model:GrounderPipeline.from_artifact"),
)
