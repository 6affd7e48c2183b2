"""`deixis train two-branch` and `similarity`: from a data set directory to a run with a bundle in it.

Under ``torchrun`` all processes come here. The first fills what is missing beside the data, the others then find it
there, and each reads its own copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import words_of
from deixis.language.features.of_data import word_vectors
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.similarity import Similarity, SimilaritySettings
from deixis.models.two_branch import TwoBranch, TwoBranchSettings
from deixis.tasks.bundle import Bundle, EncoderOfBundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.cca import learned_from
from deixis.tasks.fit.chosen import Chosen, Model
from deixis.tasks.fit.lessons import Lessons, Rows, Texts, phrase_lessons, read_texts, sentence_lessons
from deixis.tasks.fit.runs import Trained, in_turn, refuse_unusable, see_train_and_dev
from deixis.tasks.fit.typed import command_of
from deixis.tasks.learning import Learning, training_photos
from deixis.tasks.scores.scoring import DevScores, dev_split
from deixis.training.about import About, facts_of
from deixis.training.base import Evaluate
from deixis.training.distributed import chosen_device, process_number, processes
from deixis.training.losses import Features, LogisticObjective, MatchingObjective
from deixis.training.settings import TrainSettings, settings_to_json
from deixis.training.trainer import Trainer

Network = TwoBranch | Similarity


def fit_network(
    model: Model, dataset: Dataset, chosen: Chosen, out: Path, *, resume: bool = False, on_progress: OnProgress = silent
) -> Trained | None:
    """Train a network on pairs of the training split, watched on dev.

    Features that are missing are computed first and kept beside the data.

    Parameters
    ----------
    model
        two-branch or similarity.
    dataset
        What it learns from.
    chosen
        How.
    out
        The run directory; its folder ``model`` will hold the bundle.
    resume
        Go on with the run that is there.
    on_progress
        Called in the first process as the work goes on.

    Returns
    -------
    Trained or None
        None in all processes but the first.
    """
    training, learning = chosen.training or TrainSettings(), chosen.learning
    assert isinstance(learning, Learning)  # noqa: S101 - what `choose` gives for these two
    if learning.learn == "both":
        raise DeixisError("learn=both: only cca learns from both together; take learn=sentences or learn=phrases")
    if training.batch_size < 2:
        raise DeixisError("batch_size=1: batch norm cannot learn from one pair; take 2 or more")
    refuse_unusable(out, resume)
    photos = training_photos(dataset, learning.train, boxes=learning.regions)
    with processes(chosen_device(training.device)) as device:
        first = process_number() == 0
        told = on_progress if first else silent
        # First the texts: missing word vectors are known before any photo is encoded.
        texts = in_turn(lambda: _texts(dataset, chosen, learning, told))
        seen, dev = see_train_and_dev(dataset, photos, learning, told)
        if learning.regions:
            lessons = phrase_lessons(dataset, learning, texts, seen, dev, told)
        else:
            lessons = sentence_lessons(dataset, texts, seen, dev)
        network = _network(chosen, lessons)
        trainer: Trainer[Any] = Trainer(
            network.network,
            lessons.sampler(network.settings, training.batch_size),
            _objective(network, lessons, device),
            training,
            out,
            about=_about(model, dataset, chosen, learning, lessons, seen),
            keep=_bundle(network, learning, texts, seen).write,
            evaluate=_evaluate(network, lessons),
            on_progress=told,
        )
        outcome = trainer.train(resume=resume)
    if not first:
        return None
    split = dev_split(dataset, learning.train)
    looked = DevScores(split, len(dev.photos), outcome.best.scores, dev.left_out) if split and dev else None
    return Trained(
        outcome,
        len(seen.photos),
        lessons.sentences,
        lessons.phrases,
        seen.left_out,
        looked if lessons.watch else None,
    )


def _texts(dataset: Dataset, chosen: Chosen, learning: Learning, on_progress: OnProgress) -> Texts:
    if isinstance(chosen.model, TwoBranchSettings) and chosen.model.reader != "none":
        if chosen.model.start == "vectors":
            _first_vectors(chosen)
        return Texts()
    return read_texts(dataset, learning, on_progress)


def _first_vectors(chosen: Chosen) -> WordVectors:
    """The word vectors that a reader begins with."""
    assert isinstance(chosen.learning, Learning)  # noqa: S101 - what `choose` gives for networks with readers
    vectors = word_vectors(chosen.learning.vectors or None)
    size = chosen.model.word_size if isinstance(chosen.model, TwoBranchSettings) else 0
    if vectors.dimension != size:
        raise DeixisError(f"start=vectors: they have {vectors.dimension} numbers; set word_size={vectors.dimension}")
    return vectors


def _network(chosen: Chosen, lessons: Lessons) -> Network:
    """The network before it has learned anything; the same for the same seed."""
    settings, visual_size = chosen.model, lessons.visual.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(chosen.training.seed if chosen.training else 0)
        if isinstance(lessons.text, np.ndarray):
            text_size = lessons.text.shape[1]
            if isinstance(settings, SimilaritySettings):
                return Similarity(visual_size, text_size, settings)
            assert isinstance(settings, TwoBranchSettings)  # noqa: S101 - CCA has no network
            return TwoBranch(visual_size, text_size, settings)
        assert isinstance(settings, TwoBranchSettings)  # noqa: S101 - no other network reads words
        known = Vocabulary.fit((words_of(text) for text in lessons.said()), settings.min_count)
        model = TwoBranch(visual_size, settings=settings, vocabulary=known)
    if settings.start == "vectors" and model.network.encoder:
        model.network.encoder.start_from(known, _first_vectors(chosen))
    return model


def _objective(network: Network, lessons: Lessons, device: torch.device) -> Any:
    """How wrong the network is; the features go to the device here, once."""
    visual = _on(device, lessons.visual)
    if isinstance(network, Similarity):
        return LogisticObjective(visual, _on(device, np.asarray(lessons.text)))
    if isinstance(lessons.text, np.ndarray):
        return MatchingObjective(network.settings, visual, [_on(device, lessons.text)])
    ids, lengths = network.text_inputs(lessons.text)
    return MatchingObjective(network.settings, visual, [ids.to(device), lengths.to(device)])


def _on(device: torch.device, rows: Rows) -> Features:
    return rows if device.type == "cpu" else torch.from_numpy(np.ascontiguousarray(rows)).to(device)


def _bundle(network: Network, learning: Learning, texts: Texts, seen: SeenPhotos) -> Bundle:
    made_by = seen.store.contents
    encoder = EncoderOfBundle(made_by.encoder, made_by.fingerprint, learning.crops)
    return Bundle(encoder, texts.features, network, learned_from(learning, seen))


def _evaluate(network: Network, lessons: Lessons) -> Evaluate | None:
    watch = lessons.watch
    return (lambda: watch(network)) if watch else None


def _about(
    model: Model, dataset: Dataset, chosen: Chosen, learning: Learning, lessons: Lessons, seen: SeenPhotos
) -> About:
    made_by, split = seen.store.contents, dev_split(dataset, learning.train)
    said = f"{lessons.phrases:,} phrases" if lessons.phrases else f"{lessons.sentences:,} sentences"
    used = {
        "photos learned from": f"{len(seen.photos):,}, with {said}; {len(seen.left_out):,} left out",
        "encoder": f"{made_by.encoder} ({made_by.fingerprint})",
    }
    if learning.regions:
        used["proposals"] = f"{learning.top} of {made_by.proposer} ({made_by.proposer_fingerprint})"
    settings = settings_to_json(learning) | settings_to_json(chosen.model)
    facts = facts_of(dataset, learning.train, *([split] if split else []))
    return About(model, settings, facts, command_of(model, dataset, *chosen.parts), used)
