"""`deixis train two-branch` and `similarity`: from a data set directory to a run with a bundle in it.

Under ``torchrun`` all processes come here. The first fills what is missing beside the data, the others then find it
there, and each reads its own copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress
from deixis.language.features.base import words_of
from deixis.language.features.of_data import word_vectors
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.similarity import Similarity, SimilaritySettings
from deixis.models.two_branch import TwoBranch, TwoBranchSettings
from deixis.tasks.bundle import Bundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.fit.cca import learned_from
from deixis.tasks.fit.chosen import Chosen
from deixis.tasks.fit.lessons import Lessons, Rows, Texts, phrase_lessons, read_texts, sentence_lessons
from deixis.tasks.fit.runs import Run, Trained, encoder_of, in_turn, proposals_of
from deixis.tasks.learning import Learning, training_photos
from deixis.training.about import About
from deixis.training.base import Evaluate
from deixis.training.losses import Features, LogisticObjective, MatchingObjective
from deixis.training.trainer import Trainer

Network = TwoBranch | Similarity


def fit_network(run: Run) -> Trained | None:
    """Train a two-branch or a similarity network on pairs of the training split, watched on dev."""
    training, learning = run.training, run.chosen.learning
    assert isinstance(learning, Learning)  # noqa: S101 - what `choose` gives for these two
    if learning.learn == "both":
        raise DeixisError("learn=both: only cca learns from both together; take learn=sentences or learn=phrases")
    if training.batch_size < 2:
        raise DeixisError("batch_size=1: batch norm cannot learn from one pair; take 2 or more")
    training_photos(run.dataset, learning.train, boxes=learning.regions)
    # First the texts: missing word vectors are known before any photo is encoded.
    texts = in_turn(lambda: _texts(run.dataset, run.chosen, learning, run.told))
    seen, dev = run.see(learning, boxes=learning.regions)
    if learning.regions:
        lessons = phrase_lessons(run.dataset, learning, texts, seen, dev, run.told)
    else:
        lessons = sentence_lessons(run.dataset, texts, seen, dev)
    network = _network(run.chosen, lessons)
    trainer: Trainer[Any] = Trainer(
        network.network,
        lessons.sampler(network.settings, training.batch_size),
        _objective(network, lessons, run.device),
        training,
        run.out,
        about=_about(run, learning, lessons, seen),
        keep=Bundle(encoder_of(seen, learning.crops), texts.features, network, learned_from(learning, seen)).write,
        evaluate=_evaluate(network, lessons),
        on_progress=run.told,
    )
    outcome = trainer.train(resume=run.resume)
    watched = dev if lessons.watch else None
    return run.trained(outcome, seen, watched, sentences=lessons.sentences, phrases=lessons.phrases)


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


def _evaluate(network: Network, lessons: Lessons) -> Evaluate | None:
    watch = lessons.watch
    return (lambda: watch(network)) if watch else None


def _about(run: Run, learning: Learning, lessons: Lessons, seen: SeenPhotos) -> About:
    said = f"{lessons.phrases:,} phrases" if lessons.phrases else f"{lessons.sentences:,} sentences"
    return run.about(seen, said, {"proposals": proposals_of(seen, learning.top)} if learning.regions else {})
