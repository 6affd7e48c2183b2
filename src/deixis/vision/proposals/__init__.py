"""Region proposals: class-agnostic boxes, most likely first. `open_proposer` returns the proposer of a name.

To add a proposer, write one module with a class that has the members of `Proposer`, and add a line to `_OPENERS`.
`fixed` is the baseline that ignores the photo.
"""

from __future__ import annotations

from importlib import import_module

from deixis.errors import DeixisError
from deixis.vision.proposals.base import Proposals, Proposer

__all__ = ["PROPOSERS", "Proposals", "Proposer", "open_proposer"]

_OPENERS = {
    "head": ("head", "open_head"),
    "edge-boxes": ("opencv", "EdgeBoxes"),
    "selective-search": ("opencv", "SelectiveSearch"),
    "fixed": ("fixed", "shipped_boxes"),
}
PROPOSERS = tuple(_OPENERS)


def open_proposer(name: str, encoder: str | None = None) -> Proposer:
    """Return a proposer by name.

    Parameters
    ----------
    name
        One of `PROPOSERS`.
    encoder
        Name of the encoder of the feature maps. The proposer ``head`` requires the encoder that it was trained with.

    Examples
    --------
    >>> open_proposer("fixed").name
    'fixed'
    >>> open_proposer("crystal-ball")
    Traceback (most recent call last):
    deixis.errors.DeixisError: no proposer crystal-ball; choose one of head, edge-boxes, selective-search, fixed
    """
    if name not in _OPENERS:
        raise DeixisError(f"no proposer {name}; choose one of {', '.join(PROPOSERS)}")
    if name == "head" and encoder is not None and encoder.partition("@")[0] != "deixis":
        others = ", ".join(other for other in PROPOSERS if other != "head")
        raise DeixisError(f"the proposer head requires the encoder deixis, not {encoder}; use {others}")
    module, opener = _OPENERS[name]
    opened: Proposer = getattr(import_module(f"{__name__}.{module}"), opener)()
    return opened
