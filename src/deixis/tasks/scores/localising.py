"""How often a model finds the region that a phrase names, fast enough to be asked after every epoch."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from deixis.data.pairs import Numbers, RegionPhrasePairs
from deixis.language.features.base import Floats
from deixis.tasks.regions_of import RegionSet, proposed

RIGHT = 0.5
"""From this IoU with the box of its chain on, a region is right."""

KS = (1, 5, 10)
NOWHERE = np.iinfo(np.int64).max
"""The rank of a right region where no proposal is right."""


class PreparesArrays(Protocol):
    """A model that scores what it has prepared."""

    def prepare_visual(self, features: Any) -> Floats:
        """A vector for each region."""
        ...

    def prepare_text(self, features: Any) -> Floats:
        """A vector for each phrase."""
        ...

    def scores(self, visual: Floats, text: Floats) -> Floats:
        """The score of every pair."""
        ...


def localisation_scores(model: PreparesArrays, regions: RegionSet, phrases: Any) -> dict[str, float]:
    """R@1, R@5, R@10 and the upper bound in percent, as ``deixis evaluate grounding`` counts them.

    Parameters
    ----------
    model
        Whose scores rank the proposals of a photo for each phrase.
    regions
        With proposals; gold boxes are never candidates.
    phrases
        Of all different phrases of the pairs, what the model prepares.
    """
    pairs = regions.pairs
    visual, text = model.prepare_visual(regions.vectors), model.prepare_text(phrases)
    found = np.concatenate(
        [_ranks(model, pairs, place, visual[proposed(pairs, place)], text) for place in range(len(pairs.photos))]
    )
    scores = {f"r{k}": 100 * float(np.mean(found < k)) for k in KS}
    return {**scores, "upper_bound": 100 * float(np.mean(found < NOWHERE))}


def _ranks(model: PreparesArrays, pairs: RegionPhrasePairs, place: int, visual: Floats, text: Floats) -> Numbers:
    """For each pair of a photo, how many regions come before the first right one."""
    begin, end = np.searchsorted(pairs.photo, [place, place + 1])
    chains, phrases = pairs.chain[begin:end], pairs.phrase[begin:end]
    different, column = np.unique(phrases, return_inverse=True)
    # Of equal scores the region that was proposed first is the better one.
    order = np.argsort(-model.scores(visual, text[different]), axis=0, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(order))[:, None], axis=0)
    first = proposed(pairs, place).start
    starts, values = pairs.overlaps.starts, pairs.overlaps.values
    found = np.full(end - begin, NOWHERE)
    for row, chain in enumerate(chains):
        near = slice(starts[chain], starts[chain + 1])
        right = values[near][pairs.ious[near] >= RIGHT] - first
        if len(right):
            found[row] = ranks[right, column[row]].min()
    return found
