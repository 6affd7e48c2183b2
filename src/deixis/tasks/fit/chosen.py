"""What can be chosen for each model that ``deixis train`` knows, and choices that have a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from deixis.errors import DeixisError
from deixis.models.grounder import GrounderSettings
from deixis.models.hm_lstm import PAPERS as HM_LSTM
from deixis.models.hm_lstm import HMLSTMSettings
from deixis.models.m_rnn import PAPERS as M_RNN
from deixis.models.m_rnn import MRNNSettings
from deixis.models.similarity import PAPERS as SIMILARITY
from deixis.models.similarity import SimilaritySettings
from deixis.models.two_branch import PAPERS as TWO_BRANCH
from deixis.models.two_branch import TwoBranchSettings
from deixis.tasks.fit.cca import CCATraining
from deixis.tasks.fit.consensus import ConsensusTraining, NeighbourData
from deixis.tasks.fit.grounder import GroundingData
from deixis.tasks.fit.hm_lstm import PhraseData
from deixis.tasks.fit.m_rnn import CaptionData
from deixis.tasks.fit.typed import typed
from deixis.tasks.learning import Learning
from deixis.training.captions import CAPTIONER, CAPTIONER_SCHEDULES
from deixis.training.captions import SCHEDULES as M_RNN_SCHEDULES
from deixis.training.grounder import SCHEDULE as GROUNDER_SCHEDULE
from deixis.training.hm_lstm import SCHEDULES as HM_LSTM_SCHEDULES
from deixis.training.samplers import SCHEDULES
from deixis.training.settings import TrainSettings, described, settings_from_all, settings_from_file, settings_to_json

Model = Literal["cca", "two-branch", "similarity", "grounder", "m-rnn", "consensus", "hm-lstm"]
MODELS: tuple[Model, ...] = get_args(Model)
ModelSettings = (
    CCATraining
    | TwoBranchSettings
    | SimilaritySettings
    | GrounderSettings
    | MRNNSettings
    | ConsensusTraining
    | HMLSTMSettings
)

PLACE = 10.0
"""How much the place of a region counts in our own choices."""

_NAMED = ("papers/", "deixis/")


@dataclass(frozen=True)
class Chosen:
    """Everything that was chosen for a model.

    Attributes
    ----------
    learning
        What it learns from.
    model
        What is its own.
    training
        How it is trained; None for CCA, which is solved, and consensus, which is gathered.
    """

    learning: Learning | GroundingData | CaptionData | NeighbourData | PhraseData
    model: ModelSettings
    training: TrainSettings | None = None

    @property
    def parts(self) -> list[Any]:
        """The dataclasses whose fields can be set, in the order in which a name is looked for."""
        return [self.learning, self.model, *([self.training] if self.training else [])]

    def with_parts(self, parts: Sequence[Any]) -> Chosen:
        """The same with other dataclasses."""
        return Chosen(*parts)

    def to_json(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: value for part in self.parts for name, value in settings_to_json(part).items()}


def defaults(model: Model) -> Chosen:
    """What is chosen where nobody says otherwise.

    Examples
    --------
    >>> defaults("cca").training is None, defaults("two-branch").model.hidden
    (True, 1024)
    """
    if model == "cca":
        return Chosen(Learning(), CCATraining())
    if model == "grounder":
        return Chosen(GroundingData(), GrounderSettings(), GROUNDER_SCHEDULE)
    if model == "m-rnn":
        return Chosen(CaptionData(), MRNNSettings(), M_RNN_SCHEDULES["papers/m-rnn"])
    if model == "consensus":
        return Chosen(NeighbourData(), ConsensusTraining())
    if model == "hm-lstm":
        return Chosen(PhraseData(), HMLSTMSettings(), HM_LSTM_SCHEDULES["papers/hm-lstm"])
    own = TwoBranchSettings() if model == "two-branch" else SimilaritySettings()
    return Chosen(Learning(), own, TrainSettings())


def named(model: Model) -> Mapping[str, Chosen]:
    """Choices with a name: those of the papers as far as they say, and our own.

    The papers' encoders and proposers are not among them: take ``encoder=torchvision:vgg19``, ``crops=10`` and
    ``proposals=edge-boxes`` beside them where the weights are at hand.

    Examples
    --------
    >>> named("two-branch")["papers/two-branch-phrases"].learning.top
    200
    >>> named("cca")["papers/cca-augmented-10"].learning.relations
    True
    """
    if model == "cca":
        return _cca()
    if model == "grounder":
        return _own_grounders()
    if model == "m-rnn":
        papers = {name: Chosen(CaptionData(), own, M_RNN_SCHEDULES[name]) for name, own in M_RNN.items()}
        return {**papers, **_own_captioners()}
    if model == "consensus":
        return {"papers/consensus": Chosen(NeighbourData(), ConsensusTraining(tune=False))}
    if model == "hm-lstm":
        found = {name: Chosen(PhraseData(), own, HM_LSTM_SCHEDULES[name]) for name, own in HM_LSTM.items()}
        return {**found, **_own_hm_lstm()}
    own: Mapping[str, TwoBranchSettings | SimilaritySettings] = TWO_BRANCH if model == "two-branch" else SIMILARITY
    found = {name: Chosen(_papers_learning(name), settings, SCHEDULES[name]) for name, settings in own.items()}
    return {**found, **(_own_two_branch() if model == "two-branch" else _own_similarity())}


def _papers_learning(name: str) -> Learning:
    return Learning(learn="phrases" if "phrases" in name else "sentences", top=200, text="hglmm")


def _cca() -> dict[str, Chosen]:
    """The rows of Table 3 of Flickr30k Entities, and our own."""
    whole = Learning(text="fisher")
    chunks = replace(whole, learn="phrases")
    augmented = replace(chunks, relations=True)
    rows = {
        "papers/cca-sentences": whole,
        "papers/cca-chunks": chunks,
        "papers/cca-chunks-1": replace(chunks, most_regions=1),
        "papers/cca-chunks-10": replace(chunks, most_regions=10),
        "papers/cca-augmented": augmented,
        "papers/cca-augmented-1": replace(augmented, most_regions=1),
        "papers/cca-augmented-10": replace(augmented, most_regions=10),
        "papers/cca-joint": replace(augmented, learn="both", most_regions=10),
        "deixis/cca-phrases": Learning(learn="phrases", place=PLACE),
    }
    return {name: Chosen(learning, CCATraining()) for name, learning in rows.items()}


def _own_two_branch() -> dict[str, Chosen]:
    softmax = TwoBranchSettings(
        loss="softmax", neighbour_sampling=False, visual_neighbours=0.0, text_neighbours=0.0, same_words=False
    )
    phrases = replace(softmax, candidates=30, other_photos=True, dropout=0.3)
    sentences = replace(softmax, hidden=2048, dropout=0.5, label_smoothing=0.1)
    return {
        "deixis/two-branch-phrases": Chosen(
            Learning(learn="phrases", place=PLACE), phrases, TrainSettings(epochs=10, batch_size=200, patience=3)
        ),
        "deixis/two-branch-sentences": Chosen(
            Learning(), sentences, TrainSettings(epochs=30, batch_size=500, learning_rate=5e-4, patience=5)
        ),
    }


def _own_similarity() -> dict[str, Chosen]:
    return {
        "deixis/similarity-phrases": Chosen(
            Learning(learn="phrases", place=PLACE),
            SimilaritySettings(dropout=0.3),
            TrainSettings(epochs=10, batch_size=200, patience=3),
        )
    }


def _own_grounders() -> dict[str, Chosen]:
    small = GrounderSettings(dimension=192, hidden=96, layers=2, cells=True, target_power=2.0, other_photos=0.3)
    schedule = replace(GROUNDER_SCHEDULE, epochs=5, learning_rate=1e-3, warmup=100, average=0.99)
    return {"deixis/grounder": Chosen(GroundingData(top=60), small, schedule)}


def _own_hm_lstm() -> dict[str, Chosen]:
    ours = HMLSTMSettings(
        negatives="softmax", contrast="batch", centre="photo", dropout=0.2, rounds=2, round_epochs=2, round_rate=0.5
    )
    schedule = TrainSettings(epochs=4, batch_size=128, learning_rate=2e-3, schedule="cosine")
    return {
        "deixis/hm-lstm": Chosen(PhraseData(), ours, schedule),
        "deixis/hm-lstm-supervised": Chosen(PhraseData(), replace(ours, correspondences="gold"), schedule),
    }


def _own_captioners() -> dict[str, Chosen]:
    """Ours: learned from people's words first, and from its own captions after that (`begin_with` the first)."""
    return {
        "deixis/captioner": Chosen(CaptionData(watch="cider"), CAPTIONER, CAPTIONER_SCHEDULES["words"]),
        "deixis/captioner-cider": Chosen(
            CaptionData(aim="cider", repeat_cost=0.5, words_weight=0.02, watch="cider"),
            CAPTIONER,
            CAPTIONER_SCHEDULES["cider"],
        ),
    }


def choose(model: Model, settings: str | None, assignments: Sequence[str]) -> Chosen:
    """The settings: defaults, then those of a name or a file, then what was typed.

    Examples
    --------
    >>> choose("two-branch", "papers/two-branch-phrases", ["hidden=8"]).model.hidden
    8
    """
    chosen = defaults(model)
    if settings is not None:
        names = named(model)
        if settings in names:
            chosen = names[settings]
        elif settings.startswith(_NAMED) and not Path(settings).exists():
            near = get_close_matches(settings, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
            raise DeixisError(f"--settings {settings}: {model} has no settings of this name; {hint}")
        else:
            chosen = chosen.with_parts(settings_from_file(chosen.parts, Path(settings)))
    return chosen.with_parts(settings_from_all(chosen.parts, assignments))


@dataclass(frozen=True)
class SettingInWords:
    """A setting as people are told of it: its name, default and choices as they are typed, and what it means."""

    name: str
    default: str
    choices: tuple[str, ...]
    meaning: str


def in_words(model: Model) -> list[SettingInWords]:
    """All settings of a model, in the order of their dataclasses.

    Examples
    --------
    >>> in_words("cca")[0].default
    'sentences'
    """
    return [
        SettingInWords(
            field.name, typed(getattr(part, field.name)), _choices(type(part), field.name), meanings[field.name]
        )
        for part in defaults(model).parts
        for meanings in [described(type(part))]
        for field in fields(part)
    ]


def _choices(kind: type, name: str) -> tuple[str, ...]:
    hint = get_type_hints(kind)[name]
    return tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()
