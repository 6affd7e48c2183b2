"""What a network declares of its inference functions: names, shapes and types of inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, init=False)
class Array:
    """Shape and type of an input or output. A dimension that varies has a name instead of a size.

    Examples
    --------
    >>> Array("texts", "words", dtype="int64").shape
    ('texts', 'words')
    """

    shape: tuple[int | str, ...]
    dtype: str
    example: float

    def __init__(self, *shape: int | str, dtype: str = "float32", example: float = 0) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "example", example)


@dataclass(frozen=True)
class Function:
    """An inference function of a network: the method of this name, which takes and returns tensors.

    Attributes
    ----------
    name
        Name of the method, and of the graph in the artifact.
    inputs, outputs
        Arrays by name, in the order of the arguments and of the results.
    sizes
        Sizes of named dimensions in the example that the export traces; 2 or more by default. No size may be 1, or
        what the export finds is true of 1 only.
    """

    name: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    sizes: Mapping[str, int] = field(default_factory=dict)
