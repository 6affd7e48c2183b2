"""The regions that an index has of a photo, as models take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deixis.models.base import RegionInputs
from deixis.search.encoder import MAX_REGIONS, SearchEncoder


def region_inputs(encoder: SearchEncoder, photo: Path) -> RegionInputs:
    found = encoder.region_model.propose(photo)
    boxes, scores = found.proposals.boxes[:MAX_REGIONS], found.proposals.scores[:MAX_REGIONS]
    shares = boxes / np.tile(found.features.size, 2)
    return RegionInputs(found.features.regions(boxes), shares, scores, found.features.whole)
