"""`deixis train m-rnn`: from a data set directory to a run with a bundle in it that writes captions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.of_data import sentences_of
from deixis.files.progress import OnProgress
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn import MRNNSettings
from deixis.models.m_rnn_model import MRNN, Photos, WithCells
from deixis.models.text_encoders import word_ids
from deixis.tasks.bundle import EncoderOfBundle
from deixis.tasks.captions.captioning import CaptionBundle, load_captioner, model_photos
from deixis.tasks.captions.reranking import FOLDER as NEIGHBOURS
from deixis.tasks.captions.reranking import HowReranked, Neighbours, feature_of
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.runs import Run, Trained, encoder_of
from deixis.tasks.learning import Learning
from deixis.tokens import words as words_in
from deixis.training import base
from deixis.training.captions import CaptionObjective, CaptionSampler, cider_of, perplexity_of
from deixis.training.cider_reward import CiderReward
from deixis.training.seeding import beginning
from deixis.training.self_critical import PhotoSampler, RewardObjective
from deixis.training.settings import settings_to_json
from deixis.training.trainer import Trainer

_WATCHED = "minus_perplexity"


@dataclass(frozen=True)
class CaptionData:
    """What an m-RNN learns from.

    Attributes
    ----------
    train
        The split to learn from.
    encoder
        Of the photos, by its name.
    features
        Instead of an encoder: a directory that ``deixis features`` made, with ``--import`` say.
    crops
        10 for the mean over ten crops of a photo, as in the papers; 0 for the whole photo at once.
    cells
        For attention=true: feature maps are brought to so many cells along each side.
    aim
        words makes the words of people's captions likelier (eq. 6); cider draws captions and makes those likelier that
        agree with people's, by CIDEr-D.
    samples
        With aim=cider: captions that are drawn for each photo.
    repeat_cost
        With aim=cider: taken off the reward, of 0 to 10, for each repetition of a word that people seldom repeat.
    words_weight
        With aim=cider: how much people's words count beside the reward, so that captions stay English.
    begin_with
        The directory of a trained model to go on from, with the same network; without it weights are random.
    watch
        Which score on dev says when a model is the best: perplexity, or cider (CIDEr-D with a beam of 5).

    Examples
    --------
    >>> CaptionData(cells=0)
    Traceback (most recent call last):
    deixis.errors.DeixisError: cells=0: must be 1 or more
    """

    train: str = "train"
    encoder: str = "deixis"
    features: str = ""
    crops: int = 0
    cells: int = 9
    aim: Literal["words", "cider"] = "words"
    samples: int = 5
    repeat_cost: float = 0.0
    words_weight: float = 0.0
    begin_with: str = ""
    watch: Literal["perplexity", "cider"] = "perplexity"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise DeixisError(f"samples={self.samples}: must be 2 or more, for captions are compared with each other")
        if self.cells < 1:
            raise DeixisError(f"cells={self.cells}: must be 1 or more")
        for name in ("repeat_cost", "words_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 0 or more")
        if self.crops not in (0, 10):
            raise DeixisError(f"crops={self.crops}: must be 0 or 10")

    @property
    def learning(self) -> Learning:
        """The same as other models are told it."""
        return Learning(train=self.train, encoder=self.encoder, features=self.features, crops=self.crops)


@dataclass(frozen=True)
class _Captions:
    """Photos as the model takes them, the words of their captions, and the row of each caption's photo."""

    photos: Photos
    words: list[tuple[str, ...]]
    photo_of_caption: NDArray[np.int64]

    def of_photos(self) -> list[list[tuple[str, ...]]]:
        """The captions of each photo."""
        found: list[list[tuple[str, ...]]] = [[] for _ in range(len(_sides(self.photos)[0]))]
        for words, photo in zip(self.words, self.photo_of_caption.tolist(), strict=True):
            found[photo].append(words)
        return found


def fit_m_rnn(run: Run, data: CaptionData, settings: MRNNSettings) -> Trained | None:
    """Learn from the captions of the training split; perplexity on dev, or val, says which epoch was the best.

    The run's folder ``neighbours`` will hold what captions are reranked by.
    """
    side = data.cells if settings.attention else 0
    seen, dev_seen = run.see(data.learning)
    lessons = _captions(seen, side, run.told)
    if lessons is None:
        raise DatasetError(f"{run.dataset.path}: no photo of split {data.train!r} has a caption to learn from")
    dev = _captions(dev_seen, side, run.told) if dev_seen else None
    encoder = encoder_of(seen, data.crops)
    begun = _gone_on(data.begin_with, settings, encoder, side) if data.begin_with else None
    model = begun or _begun(lessons, settings, run.training.seed)
    sampler, objective = _lesson_plan(model, lessons, data, run.training.batch_size, run.device)
    trainer = Trainer(
        model.network,
        sampler,
        objective,
        run.training,
        run.out,
        about=run.about(seen, f"{len(lessons.words):,} captions", {"words": f"{len(model.vocabulary):,}"}),
        keep=CaptionBundle(encoder, model, side).write,
        evaluate=None if dev is None else lambda: _measured(model, dev, data.watch),
        on_progress=run.told,
    )
    outcome = trainer.train(resume=run.resume)
    if run.first:
        Neighbours.of(seen, encoder, HowReranked(feature_of(model))).save(run.out / NEIGHBOURS)
    watched = dev_seen if dev else None
    return run.trained(outcome, seen, watched, sentences=len(lessons.words), unsaid=[_WATCHED])


def _captions(seen: SeenPhotos, side: int, on_progress: OnProgress) -> _Captions | None:
    """What is learned from, or measured on; None where there is no caption."""
    if not len(seen.photos.sentence_rows()[0]):
        return None
    gold = sentences_of(seen.photos)
    words = [tuple(words_in(text)) for text in gold.texts]
    return _Captions(model_photos(seen, side, on_progress), words, np.array(gold.photo_of_sentence))


def _begun(lessons: _Captions, settings: MRNNSettings, seed: int) -> MRNN:
    """A model that has learned nothing but which words there are; the same for the same seed."""
    vocabulary = Vocabulary.fit(lessons.words, settings.min_count)
    if not len(vocabulary):
        raise DeixisError(f"min_count={settings.min_count}: no word is in the captions so often; take a smaller one")
    vectors, cells = _sides(lessons.photos)
    with beginning(seed):
        model = MRNN(vectors.shape[1], vocabulary, settings, cell_size=0 if cells is None else cells.shape[2])
    return model.look_at(lessons.photos, seed)


_FREE = ("dropout", "word_dropout", "scheduled_sampling", "label_smoothing", "longest")


def _gone_on(folder: str, settings: MRNNSettings, encoder: EncoderOfBundle, side: int) -> MRNN:
    """A trained model to go on from, with other settings of what is only done while learning."""
    bundle = load_captioner(folder)
    before = bundle.model
    if (bundle.encoder, bundle.cells) != (encoder, side):
        raise DeixisError(f"begin_with={folder}: it has learned from other features; give its encoder, crops and cells")
    for name, value in settings_to_json(settings).items():
        theirs = getattr(before.settings, name)
        if name not in _FREE and value != theirs:
            raise DeixisError(f"begin_with={folder}: its network has {name}={theirs}, and {name}={value} is asked for")
    model = MRNN(before.photo_size, before.vocabulary, settings, cell_size=before.cell_size)
    model.network.load_state_dict(before.network.state_dict())
    model.references_ = before.references_
    return model


def _lesson_plan(
    model: MRNN, lessons: _Captions, data: CaptionData, batch_size: int, device: torch.device
) -> tuple[base.Sampler[torch.Tensor], base.Loss[torch.Tensor]]:
    vectors, cells = (None if side is None else torch.from_numpy(side).to(device) for side in _sides(lessons.photos))
    assert vectors is not None  # noqa: S101 - only cells may be missing
    ids, lengths = word_ids(lessons.words, model.vocabulary)
    people = CaptionObjective(vectors, torch.from_numpy(lessons.photo_of_caption), ids, lengths, cells)
    if data.aim == "words":
        return CaptionSampler(lengths, batch_size), people
    rewarded = RewardObjective(
        vectors,
        CiderReward(lessons.of_photos(), model.vocabulary, repeat_cost=data.repeat_cost),
        data.samples,
        model.settings.longest,
        cells,
        people if data.words_weight else None,
        data.words_weight,
    )
    return PhotoSampler(np.unique(lessons.photo_of_caption), batch_size), rewarded


def _sides(photos: Photos) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
    return (photos.vectors, photos.cells) if isinstance(photos, WithCells) else (np.asarray(photos), None)


def _measured(model: MRNN, dev: _Captions, watch: str) -> base.DevScores:
    found = perplexity_of(model, dev.photos, dev.words, dev.photo_of_caption)
    scores = {"perplexity": found.perplexity, "oov": found.oov or 0.0, _WATCHED: -found.perplexity}
    if watch == "cider":
        scores["cider_d"] = cider_of(model, dev.photos, dev.of_photos())
    return base.DevScores("cider_d" if watch == "cider" else _WATCHED, scores)
