"""CCA from a data set: photos with their sentences, regions with their phrases, or both, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from deixis.arrays import Floats
from deixis.data.dataset import Photos
from deixis.errors import DeixisError
from deixis.language.features import TextFeatures
from deixis.models.cca.model import CCA, Stacked, blocks
from deixis.models.cca.spec import CCATrainSettings
from deixis.models.matching.model import MatchingPipeline
from deixis.models.matching.training import Texts, read_texts, validate
from deixis.models.photo_features import PhotoFeatures
from deixis.models.pipeline import Pipeline, load
from deixis.models.training.data import FeatureSource, MatchingDataSettings, training_photos
from deixis.models.training.objective import DevScores, Validation
from deixis.models.training.regions import HalfFloats, RegionSet, phrase_vectors, region_set
from deixis.models.training.runner import Run, TrainingData, provenance_of
from deixis.storage.progress import OnProgress

Blocks = Iterator[tuple[Floats, Floats]]


@dataclass(kw_only=True)
class CCAData(TrainingData):
    """The pairs to fit: photos with their sentences, regions with their phrases, or both."""

    source: FeatureSource
    encoder: Texts
    auxiliary: Pipeline | None
    region_phrases: tuple[RegionSet, HalfFloats] | None


def prepare_data(run: Run) -> CCAData:
    """Read the features of photos, regions, sentences and phrases."""
    data = run.settings[MatchingDataSettings]
    training_photos(run.dataset, run.train_split, boxes=data.uses_regions)
    auxiliary = _open_auxiliary(run.settings[CCATrainSettings].auxiliary_model)
    source = data.feature_source
    if auxiliary and not data.uses_regions and auxiliary.encoder.photo_vector == "region":
        source = replace(source, photo_vector="both")
    texts = read_texts(run)
    train = run.read_training_photos(source, boxes=data.uses_regions, sentences=data.uses_sentences)
    counts, region_phrases = {}, None
    if data.uses_sentences:
        counts["sentences"] = train.sentence_count
    if data.uses_regions:
        regions = region_set(train, data, where=str(run.dataset.path), gold_only=True, on_progress=run.on_progress)
        region_phrases = regions, phrase_vectors(texts.fitted, regions.pairs.phrases, run.on_progress)
        counts["phrases"] = len(regions.pairs)
    in_words = " and ".join(f"{count:,} {name}" for name, count in counts.items())
    return CCAData(
        train=train,
        sentences=counts.get("sentences", 0),
        phrases=counts.get("phrases", 0),
        texts=in_words,
        source=source,
        encoder=texts,
        auxiliary=auxiliary,
        region_phrases=region_phrases,
    )


def build(run: Run, data: CCAData) -> MatchingPipeline:
    """Fit the CCA, stacked on an auxiliary one if there is one."""
    settings, chosen = run.settings[CCATrainSettings], run.settings[MatchingDataSettings]
    text = data.encoder.fitted
    cca = CCA(settings.embedding_dim, settings.regularization, settings.correlation_power)
    model: CCA | Stacked = cca
    if data.auxiliary:
        auxiliary = _check_auxiliary(data.auxiliary, settings.auxiliary_model, data.train, text)
        model = Stacked(auxiliary, cca, settings.auxiliary_weight)
    pairs: list[Blocks] = []
    if data.sentences:
        pairs.append(_sentence_pairs(data.train, data.encoder, run.on_progress))
    if data.region_phrases:
        pairs.append(_phrase_pairs(*data.region_phrases, run.on_progress))
    model.fit_blocks(chain.from_iterable(pairs))
    return MatchingPipeline(model, provenance_of(chosen, chosen.train_on, data.train), text)


def validation(run: Run, data: CCAData, photos: Photos) -> Validation | None:
    """Score retrieval, of a model of both too; localization, for a model of phrases. No score chooses anything."""
    phrases = run.settings[MatchingDataSettings].train_on == "phrases"
    found = validate(run, data.encoder, data.source if phrases else replace(data.source, proposal_source=None), photos)
    if found is None:
        return None

    def score(pipeline: MatchingPipeline) -> DevScores:
        scores = found.score(pipeline).scores
        return DevScores("", {name: value for name, value in scores.items() if name != "mean_recall"})

    return replace(found, score=score)


def _open_auxiliary(folder: str) -> Pipeline | None:
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise DeixisError(f"auxiliary_model={folder}: no such directory")
    return load(folder)


def _check_auxiliary(auxiliary: Pipeline, folder: str, features: PhotoFeatures, text: TextFeatures) -> CCA:
    """Return the auxiliary CCA; refuse one that takes other features than the model that it is to help."""
    if not isinstance(auxiliary.model, CCA):
        raise DeixisError(f"auxiliary_model={folder}: not a CCA")
    theirs, ours = auxiliary.encoder.fingerprint, features.store.contents.fingerprint
    if theirs != ours:
        raise DeixisError(f"auxiliary_model={folder}: trained on features of {theirs}, this model on {ours}")
    weight = auxiliary.provenance.location_weight
    if weight != features.location_weight:
        raise DeixisError(
            f"auxiliary_model={folder}: trained with location_weight={weight}, not {features.location_weight}"
        )
    probe = ["a man in a red hat plays with two dogs in the snow"]
    if auxiliary.text is None or not np.array_equal(auxiliary.text.transform(probe), text.transform(probe)):
        raise DeixisError(
            f"auxiliary_model={folder}: trained on other text features; use the same data, train_split and "
            "text_features"
        )
    return auxiliary.model


def _sentence_pairs(features: PhotoFeatures, texts: Texts, on_progress: OnProgress) -> Blocks:
    """Yield photo and sentence of each pair, a block at a time."""
    rows, owner = features.photos.sentence_rows()
    for block in blocks(len(rows)):
        owners = owner[block]
        first, last = int(owners[0]), int(owners[-1])
        photos = features.vectors(first, last + 1)
        yield photos[owners - first], np.asarray(texts.encode_captions(rows[block]))
        on_progress("learning from sentences", min(block.stop, len(rows)), len(rows))


def _phrase_pairs(regions: RegionSet, phrases: HalfFloats, on_progress: OnProgress) -> Blocks:
    """Yield region and phrase of each pair, a block at a time."""
    pairs = regions.pairs
    for block in blocks(len(pairs)):
        gold = pairs.gold[pairs.chain[block]]
        yield regions.vectors[gold].astype(np.float32), phrases[pairs.phrase[block]].astype(np.float32)
        on_progress("learning from phrases", min(block.stop, len(pairs)), len(pairs))
