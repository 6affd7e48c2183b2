"""Training as in Figure 3: a first stage with root losses, then rounds of correspondences and phrase losses.

The run directory holds ``0-roots``, ``1-correspondences.jsonl``, ``1-phrases``, ``2-correspondences.jsonl`` and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from deixis.data.dataset import Photos
from deixis.errors import DatasetError
from deixis.language.vectors import PACKAGE, SHIPPED, WordVectors, named_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.hm_lstm.correspondence import (
    Correspondences,
    GoldPhrases,
    ParsedPhotos,
    find_correspondences,
    gold_correspondences,
    parse_photos,
)
from deixis.models.hm_lstm.model import HMLSTM, HMLSTMPipeline
from deixis.models.hm_lstm.objective import PairObjective, PairSampler
from deixis.models.hm_lstm.spec import HMLSTMDataSettings, HMLSTMSettings
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.objective import DevScores, Stage, Validation, retrieval_scores
from deixis.models.training.reproducibility import seeded
from deixis.models.training.runner import Run, TrainingData, proposals_of, provenance_of
from deixis.models.training.settings import TrainSettings
from deixis.storage.atomic import new_file


@dataclass(kw_only=True)
class HMLSTMTrainingData(TrainingData):
    """Parsed sentences and regions of the training split, and word vectors."""

    parsed: ParsedPhotos
    word_vectors: WordVectors

    @cached_property
    def gold_phrases(self) -> GoldPhrases:
        return GoldPhrases.collect(self.train.photos, self.parsed)


def prepare_data(run: Run) -> HMLSTMTrainingData:
    """Parse the sentences, with a cache beside the data set, and read the regions of the photos."""
    data, settings = run.settings[HMLSTMDataSettings], run.settings[HMLSTMSettings]
    gold = settings.correspondence != "learned" and settings.rounds > 0
    if gold and settings.correspondence == "gold" and not run.dataset.manifest.counts.get("boxes"):
        raise DatasetError(
            f"{run.dataset.path}: correspondence=gold needs boxes of phrases, and the data set has none; import it "
            "with --entities, or set correspondence=mixed"
        )
    vectors = named_vectors(data.word_vectors or PACKAGE)
    train = run.read_training_photos(data.feature_source, sentences=True)
    parsed = _parse(run, train, gold)
    return HMLSTMTrainingData(
        train=train,
        sentences=len(parsed.forest),
        texts=f"{len(parsed.forest):,} sentences",
        sources={
            "proposals": f"{proposals_of(train, data.max_proposals)}, and the whole photo",
            "word vectors": vectors.source,
        },
        parsed=parsed,
        word_vectors=vectors,
    )


def _parse(run: Run, features: PhotoFeatures, gold: bool = False) -> ParsedPhotos:
    return parse_photos(run.dataset, features, gold=gold, on_progress=run.on_progress)


def validation(run: Run, data: HMLSTMTrainingData, photos: Photos) -> Validation | None:
    """Score retrieval; the mean recall selects the best epoch of each stage."""
    dev = run.read_photos(photos, run.settings[HMLSTMDataSettings].feature_source)
    if not dev.sentence_count:
        return None
    parsed = _parse(run, dev)
    return Validation(dev, lambda pipeline: score_retrieval(pipeline.model, parsed))


def score_retrieval(model: HMLSTM, parsed: ParsedPhotos) -> DevScores:
    photos = model.prepare_visual(parsed.regions.vectors[parsed.regions.starts[:-1]])
    count = len(parsed.forest)
    sentences = model.embed_nodes(parsed.forest, range(count), [0] * count)
    return retrieval_scores(model.scores(photos, sentences), parsed.photo)


class _TrainingPipeline(HMLSTMPipeline):
    """A pipeline that updates the phrase mean before it is saved."""

    parsed: ParsedPhotos

    def write(self, folder: Path, card: str = "", *, half: bool = False) -> None:
        self.model.fit_phrase_mean(self.parsed.forest)
        super().write(folder, card, half=half)


def build(run: Run, data: HMLSTMTrainingData) -> HMLSTMPipeline:
    """Make an untrained model; the seed determines its weights."""
    vocabulary, settings = None, run.settings[HMLSTMSettings]
    if run.settings[HMLSTMDataSettings].word_vectors == SHIPPED:
        vocabulary = Vocabulary.fit([map(str.lower, data.parsed.forest.leaf_words())], settings.min_count)
    size = data.parsed.regions.vectors.shape[1]
    with seeded(run.training.seed):
        model = HMLSTM(size, data.word_vectors, settings, vocabulary)
    pipeline = _TrainingPipeline(model, provenance_of(run.settings[HMLSTMDataSettings], "both", data.train))
    pipeline.parsed = data.parsed
    return pipeline


def objective(run: Run, pipeline: HMLSTMPipeline, data: HMLSTMTrainingData) -> Iterator[Stage]:
    """The stages of Figure 3."""
    model, settings = pipeline.model, pipeline.model.settings
    regions = torch.from_numpy(data.parsed.regions.vectors).to(run.device)
    words = torch.from_numpy(model.training_words(data.parsed.forest)).to(run.device)
    loss = PairObjective(settings, regions, words)

    def stage(name: str, training: TrainSettings, found: Correspondences | None) -> Stage:
        sampler = PairSampler(data.parsed, training.batch_size, found, settings.phrase_weight)
        return Stage(model.network, sampler, loss, name, training)

    # Step 1: coarse-grained embedding, a "simplified HM-LSTM" with root losses only.
    yield stage("0-roots", run.training, None)
    round_training = replace(
        run.training, epochs=settings.round_epochs, learning_rate=run.training.learning_rate * settings.round_lr_factor
    )
    for number in range(1, settings.rounds + 1):
        found = _correspondences(run, model, data, number)  # step 2 (a): phrase-level correspondences
        yield stage(f"{number}-phrases", round_training, found)  # step 2 (b): fine-grained embedding


def _correspondences(run: Run, model: HMLSTM, data: HMLSTMTrainingData, number: int) -> Correspondences | None:
    """Return the correspondences of a round, from gold boxes or the current model; None if phrases have no weight."""
    source, parsed = model.settings.correspondence, data.parsed
    if not model.settings.phrase_weight:
        return None
    if source == "gold":
        found = gold_correspondences(data.train.photos, parsed)
    else:
        found = _learned_correspondences(run, model, data, number)
    if source == "mixed":
        gold = gold_correspondences(data.train.photos, parsed)
        found = gold.or_else(found, parsed.regions.has_gold[parsed.photo])
    data.phrases = len(found)
    return found


def _learned_correspondences(run: Run, model: HMLSTM, data: HMLSTMTrainingData, number: int) -> Correspondences:
    """Compute correspondences with the current model and save them; with gold boxes, also their accuracy."""

    def show(description: str, done: int, total: int | None) -> None:
        run.on_progress(f"round {number}: {description}", done, total)

    path = run.out / f"{number}-correspondences.jsonl"
    found = find_correspondences(model, data.parsed, path, show)
    scores = data.gold_phrases.score(found)
    if scores:
        data.sources[f"correspondences of round {number}, right"] = scores.summarize()
        with new_file(path.with_suffix(".json")) as unfinished:
            document = {"round": number, **asdict(scores)}
            unfinished.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return found
