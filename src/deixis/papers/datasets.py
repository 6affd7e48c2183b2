"""Data sets of the papers: which one a directory holds, what a table requires of it, and tables that need no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deixis.data.dataset import Dataset
from deixis.data.pairs import RegionPhrasePairs, training_set_sizes
from deixis.data.statistics import compute_statistics
from deixis.errors import DatasetError
from deixis.models.training.regions import Relations
from deixis.papers.results import ModelScores
from deixis.papers.tables import Requirement, Table, published_tables
from deixis.storage.progress import OnProgress, no_progress, track

if TYPE_CHECKING:
    from deixis.models.matching.samplers import TripletBatch
    from deixis.models.matching.spec import TwoBranchSettings
    from deixis.models.training.settings import Settings

SCORED_SPLITS = ("dev", "val", "test")
"""The first of these splits that exists is scored."""

_BY_SIZE = {"Flickr8k": range(5_000, 10_001), "Flickr30k": range(25_000, 35_001)}
"""Number of photos in the usual copies."""
_BY_NAME = {"flickr8k": "Flickr8k", "flickr30k": "Flickr30k", "coco": "MS COCO", "iapr": "IAPR TC-12"}
_BY_KIND = {"coco-captions": "MS COCO", "iapr-tc12": "IAPR TC-12", "region-phrases": "MS-COCO-region"}
_FLICKR = ("flickr-token", "flickr-results", "flickr30k-entities")


def identify_dataset(dataset: Dataset) -> str:
    """Return the papers' name of a data set, or "" for any other.

    The kind or name of the first known source decides, then the name of the directory; if the name does not, the number
    of photos distinguishes Flickr8k from Flickr30k.
    """
    for source in (*dataset.manifest.sources, {"name": dataset.path.name}):
        kind, name = source.get("kind", ""), source.get("name", "").lower().replace("_", "").replace("-", "")
        if kind in _BY_KIND:
            return _BY_KIND[kind]
        for part, known in _BY_NAME.items():
            if part in name:
                return known
        if kind in _FLICKR:
            photos = dataset.manifest.counts.get("photos", 0)
            return next((known for known, sizes in _BY_SIZE.items() if photos in sizes), "")
    return ""


def choose_split(dataset: Dataset, requested: str | None = None) -> str:
    """Return the split to score on: the requested one, else dev, val or test."""
    splits = dataset.manifest.splits
    if requested is not None:
        dataset.split(requested)
        return requested
    for name in SCORED_SPLITS:
        if name in splits:
            return name
    raise DatasetError(f"{dataset.path}: no split to score on; it has: {', '.join(splits) or 'none'}")


def check_requirements(table: Table, dataset: Dataset, *, split: str | None = None, features: bool = False) -> None:
    """Raise `DatasetError` if a data set lacks something that a table needs; with `features`, no photos are needed."""
    _check_data(table, dataset)
    manifest = dataset.manifest
    missing: dict[Requirement, bool] = {
        "boxes": not manifest.counts.get("boxes"),
        "train": "train" not in manifest.splits,
        "photos": manifest.images is None and not features,
    }
    messages: dict[Requirement, str] = {
        "boxes": "boxes of phrases; import the data with --entities",
        "train": "split 'train'; import the data with --split train=FILE",
        "photos": "photos; import the data with --images, or give features with --set features_dir=DIR",
    }
    for need, message in messages.items():
        if need in table.needs and missing[need]:
            raise DatasetError(f"{dataset.path}: table {table.name} needs {message}")
    if "dev" in table.needs:
        choose_split(dataset, split)


def _check_data(table: Table, dataset: Dataset) -> None:
    known = identify_dataset(dataset)
    if table.any_data or known in table.data:
        return
    name = known or "none of the papers' data sets"
    others = [each.name for each in published_tables().values() if not each.any_data and known in each.data]
    hint = f"; tables of {known}: {', '.join(others)}" if others else ""
    raise DatasetError(f"{dataset.path}: table {table.name} is of {' and '.join(table.data)}, and this is {name}{hint}")


_SETS = ("chunks", "chunks-1", "chunks-10", "augmented", "augmented-1", "augmented-10")


def count_chains(dataset: Dataset) -> ModelScores:
    """Compute Table 1 of Flickr30k Entities: chains with their mentions and boxes, by type."""
    found = compute_statistics(dataset)
    scores: dict[str, float] = {}
    for row in found.types:
        scores |= _chain_scores(row.type, row.chains, row.mentions_per_chain, row.boxes_per_chain)
    return ModelScores(scores | _chain_scores("total", found.chains, found.mentions_per_chain, found.boxes_per_chain))


def _chain_scores(name: str, chains: int, mentions: float, boxes: float) -> dict[str, float]:
    return {f"{name}_chains": chains, f"{name}_mentions_per_chain": mentions, f"{name}_boxes_per_chain": boxes}


def count_pairs(dataset: Dataset, split: str = "train", on_progress: OnProgress = no_progress) -> ModelScores:
    """Compute Table 2 of Flickr30k Entities: sizes of the region–phrase training sets. Parses all sentences."""
    photos = dataset.split(split)
    chunks = RegionPhrasePairs.from_photos(photos, _no_proposals)
    related = Relations()
    parsed = track(related.parsed(photos), "parsing the sentences of photos", len(photos), on_progress)
    augmented = RegionPhrasePairs.from_photos(parsed, _no_proposals, more_phrases=related)
    sizes = training_set_sizes(chunks, augmented)
    return ModelScores({f"{name}_pairs": size for name, (_, size) in zip(_SETS, sizes, strict=True)})


def count_batches(dataset: Dataset, settings: Settings, on_progress: OnProgress = no_progress) -> ModelScores:
    """Compute section 4.5 of two-branch networks: pairs or triplets in a mini-batch, on average over an epoch."""
    from deixis.models.training.data import MatchingDataSettings, read_photos

    data = settings[MatchingDataSettings]
    features = read_photos(dataset, dataset.split(data.train_split), data.feature_source, on_progress=on_progress)
    photos = track(features.photos, "pairing regions and phrases", len(features.photos), on_progress)
    pairs = RegionPhrasePairs.from_photos(photos, features.proposals)
    return ModelScores({"batch": float(np.mean(batch_sizes(pairs, settings)))})


def batch_sizes(pairs: RegionPhrasePairs, settings: Settings) -> list[int]:
    """Return the number of triplets, or of labelled pairs, in each mini-batch of an epoch."""
    from deixis.models.matching.samplers import LabelledRegionSampler, RegionPhraseSampler
    from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
    from deixis.models.training.settings import TrainSettings

    size, generator = settings[TrainSettings].batch_size, np.random.default_rng(0)
    network = settings.get(TwoBranchSettings)
    if network is None:
        labelled = LabelledRegionSampler(pairs, settings[SimilaritySettings], size).epoch(0, generator)
        return [len(batch.matches) for batch in labelled]
    return [count_triplets(batch, network) for batch in RegionPhraseSampler(pairs, network, size).epoch(0, generator)]


def count_triplets(batch: TripletBatch, settings: TwoBranchSettings) -> int:
    """Count the triplets of eq. 1 and 2 in a batch: at most K negatives for each target and positive.

    As in Algorithm 1, triplets with a loss of 0 are among them.
    """
    negatives = []
    if settings.visual_to_text_weight:
        negatives.append(batch.text_negatives[batch.visual_targets[:, 1]])
    if settings.text_to_visual_weight:
        negatives.append(batch.visual_negatives_of(batch.text_targets[:, 0]))
    return sum(int(each.sum(dim=1).clamp(max=settings.max_negatives).sum()) for each in negatives)


def describe_recurrent_layer(settings: Settings) -> ModelScores:
    """Compute Table 6 of m-RNN: the size of the recurrent layer, and 1 if it is an LSTM."""
    values = settings.to_json()
    has_lstm = "second_embedding_dim" not in values  # the captioner; in the paper's network the layer has this size
    return ModelScores({"size": values["hidden_size" if has_lstm else "second_embedding_dim"], "lstm": float(has_lstm)})


def _no_proposals(photo_id: str) -> np.ndarray:
    return np.zeros((0, 4))
