"""The captioner as a model: an m-RNN that takes vectors of photos and cells of their feature maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.captioner.spec import CaptionerSettings
from deixis.models.m_rnn.model import MRNN, PhotoArrays, PhotoInputs
from deixis.runtime import Functions

if TYPE_CHECKING:
    from deixis.models.captioner.network import CaptionerNetwork


class VectorsAndCells(NamedTuple):
    """Photos as a captioner takes them: vectors (n, photo_size) and cells (n, k, cell_size)."""

    vectors: NDArray[Any]
    cells: NDArray[Any]


class Captioner(MRNN):
    """Generates sentences for photos, given as `VectorsAndCells`, and scores sentences against them."""

    KIND = "captioner"
    SETTINGS = CaptionerSettings
    SIZES = ("photo_size", "cell_size")
    INPUTS = ("vectors", "cells")
    ATTENDS = True
    settings: CaptionerSettings

    def __init__(
        self,
        photo_size: int,
        vocabulary: Vocabulary,
        settings: CaptionerSettings | None = None,
        *,
        cell_size: int,
        functions: Functions | None = None,
    ) -> None:
        self.cell_size = cell_size
        super().__init__(photo_size, vocabulary, settings, functions=functions)

    def make_network(self) -> CaptionerNetwork:
        from deixis.models.captioner.network import CaptionerNetwork

        return CaptionerNetwork(self.photo_size, len(self.vocabulary), self.settings, self.cell_size).eval()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.settings.hidden_size,) * 2

    def check_photos(self, photos: PhotoInputs) -> PhotoArrays:
        vectors, cells = super().check_photos(photos)
        if cells.ndim != 3 or len(cells) != len(vectors) or cells.shape[2] != self.cell_size:
            raise DeixisError(f"cells of shape {cells.shape}: must be ({len(vectors)}, cells, {self.cell_size})")
        return vectors, cells
