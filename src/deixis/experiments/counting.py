"""Tables that need no model: what a data set holds, and how many pairs can be learned from it."""

from __future__ import annotations

import numpy as np

from deixis.data.dataset import Dataset
from deixis.data.pairs import RegionPhrasePairs, set_sizes
from deixis.data.stats import statistics
from deixis.experiments.outcomes import Outcome
from deixis.files.progress import OnProgress, silent, told
from deixis.tasks.relations_of import Relations

_SETS = ("chunks", "chunks-1", "chunks-10", "augmented", "augmented-1", "augmented-10")


def count_chains(dataset: Dataset) -> Outcome:
    """Table 1 of Flickr30k Entities: chains, and their mentions and boxes, by type."""
    found = statistics(dataset)
    scores: dict[str, float] = {}
    for row in found.types:
        scores |= _chains(row.type, row.chains, row.mentions_per_chain, row.boxes_per_chain)
    return Outcome(scores | _chains("total", found.chains, found.mentions_per_chain, found.boxes_per_chain))


def _chains(name: str, chains: int, mentions: float, boxes: float) -> dict[str, float]:
    return {f"{name}_chains": chains, f"{name}_mentions_per_chain": mentions, f"{name}_boxes_per_chain": boxes}


def count_pairs(dataset: Dataset, split: str = "train", on_progress: OnProgress = silent) -> Outcome:
    """Table 2 of Flickr30k Entities: the sizes of the sets of regions and phrases; all sentences are parsed for it."""
    photos = dataset.split(split)
    chunks = RegionPhrasePairs.of_photos(photos, _no_proposals)
    related = Relations()
    parsed = told(related.parsed(photos), "parsing the sentences of photos", len(photos), on_progress)
    augmented = RegionPhrasePairs.of_photos(parsed, _no_proposals, more_phrases=related)
    sizes = set_sizes(chunks, augmented)
    return Outcome({f"{name}_pairs": size for name, (_, size) in zip(_SETS, sizes, strict=True)})


def _no_proposals(photo_id: str) -> np.ndarray:
    return np.zeros((0, 4))
