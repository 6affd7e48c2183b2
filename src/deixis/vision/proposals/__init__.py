"""Where in a photo something may be, before any word is said: proposers by name.

A decoded photo, and its feature map where the method uses one, come in; `Proposals` go out, the likeliest box first.
`fixed` is the blind baseline beside which every other figure is to be read.
"""

from __future__ import annotations

from importlib import import_module

from deixis.errors import DeixisError
from deixis.vision.proposals.proposer import Proposals, Proposer

__all__ = ["PROPOSERS", "Proposals", "Proposer", "open_proposer"]

_OPENED_BY = {
    "head": ("head", "open_head"),
    "edge-boxes": ("edge_boxes", "EdgeBoxes"),
    "selective-search": ("selective_search", "SelectiveSearch"),
    "fixed": ("fixed", "shipped_boxes"),
}
PROPOSERS = tuple(_OPENED_BY)


def open_proposer(name: str, encoder: str | None = None) -> Proposer:
    """Open a proposer by its name; what it needs is imported only now.

    Parameters
    ----------
    name
        One of `PROPOSERS`.
    encoder
        The name of the encoder whose maps it will be given; the head refuses all but the one it was trained with.

    Examples
    --------
    >>> open_proposer("fixed").name
    'fixed'
    >>> open_proposer("crystal-ball")
    Traceback (most recent call last):
    deixis.errors.DeixisError: no proposer crystal-ball; there are head, edge-boxes, selective-search, fixed
    """
    if name not in _OPENED_BY:
        raise DeixisError(f"no proposer {name}; there are {', '.join(PROPOSERS)}")
    if name == "head" and encoder is not None and encoder.partition("@")[0] != "deixis":
        others = ", ".join(other for other in PROPOSERS if other != "head")
        raise DeixisError(f"the proposals of head read the map of the encoder deixis, not of {encoder}; take {others}")
    module, opener = _OPENED_BY[name]
    opened: Proposer = getattr(import_module(f"{__name__}.{module}"), opener)()
    return opened
