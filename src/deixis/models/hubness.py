"""Hubness correction: scores of photos and sentences that allow for items that are similar to everything.

The vectors of some photos are near those of many sentences (hubs), and the reverse, so a cosine is high for the wrong
pairs. Cross-domain similarity local scaling (CSLS; Conneau et al., *Word translation without parallel data*, ICLR 2018)
lowers each cosine by how similar its two items are to the nearest items of the other side. The neighbours are those in
two fixed banks, of training photos and of training captions, instead of the items that are compared, so that the score
of a pair does not depend on other pairs. `scripts/fit_hubness.py` makes the banks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, code_step, dequantize, quantize
from deixis.errors import DeixisError
from deixis.storage.artifacts import HUBNESS, Artifact, Storable

NEIGHBOURS = 10
"""k of the paper."""

BANKS = ("photos", "sentences")
_ROWS_AT_ONCE = 512


class HubnessCorrection(Storable):
    """Banks of photos and sentences, and what they subtract from the cosine of a photo and a sentence.

    Parameters
    ----------
    codes
        Vectors of the banks ``photos`` and ``sentences``, each (rows, dimension), as int8; read when they are used.
    step
        Size of one code step.
    neighbours
        Number of nearest neighbours in a bank (k).

    Examples
    --------
    >>> bank = np.eye(2, dtype=np.float32)
    >>> correction = HubnessCorrection.fit(bank, bank, neighbours=1)
    >>> photo, sentences = np.array([[0.6, 0.8]], np.float32), bank
    >>> scores = photo @ sentences.T - correction.photo_terms(photo)[:, None] - correction.sentence_terms(sentences)
    >>> scores.astype(float).round(2).tolist()
    [[-0.3, -0.1]]
    """

    KIND = HUBNESS

    def __init__(self, codes: Mapping[str, NDArray[Any]], step: float, neighbours: int = NEIGHBOURS) -> None:
        self.codes = codes
        self.step = step
        self.neighbours = neighbours
        self._banks: dict[str, Floats] = {}

    @classmethod
    def fit(cls, photos: Floats, sentences: Floats, neighbours: int = NEIGHBOURS) -> Self:
        """Make banks of vectors of unit length: (rows, dimension)."""
        step = float(max(code_step(photos), code_step(sentences)))
        return cls({"photos": quantize(photos, step), "sentences": quantize(sentences, step)}, step, neighbours)

    def photo_terms(self, vectors: Floats) -> Floats:
        """Half the mean cosine of each photo with its nearest sentences of the bank: (photos,)."""
        return self._terms(vectors, "sentences")

    def sentence_terms(self, vectors: Floats) -> Floats:
        """Half the mean cosine of each sentence with its nearest photos of the bank: (sentences,)."""
        return self._terms(vectors, "photos")

    def _terms(self, vectors: Floats, name: str) -> Floats:
        bank = self._bank(name)
        if bank.shape[1] != vectors.shape[1]:
            raise DeixisError(f"hubness: {name} of dimension {bank.shape[1]}, not {vectors.shape[1]}")
        found = np.empty(len(vectors), np.float32)
        for begin in range(0, len(vectors), _ROWS_AT_ONCE):
            cosines = vectors[begin : begin + _ROWS_AT_ONCE] @ bank.T
            nearest = np.partition(cosines, -self.neighbours, axis=1)[:, -self.neighbours :]
            found[begin : begin + _ROWS_AT_ONCE] = nearest.mean(axis=1) / 2
        return found

    def _bank(self, name: str) -> Floats:
        if name not in self._banks:
            codes = self.codes[name]
            if codes.dtype != np.int8 or codes.ndim != 2 or len(codes) < self.neighbours:
                raise DeixisError(f"hubness: {name} must be int8, with {self.neighbours} or more rows")
            self._banks[name] = dequantize(codes, self.step)
        return self._banks[name]

    def to_artifact(self) -> Artifact:
        codes = {name: self.codes[name] for name in BANKS}
        return Artifact(self.KIND, {"step": self.step, "neighbours": self.neighbours}, codes)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        step, neighbours = float(artifact.settings["step"]), int(artifact.settings["neighbours"])
        if missing := set(BANKS) - set(artifact.arrays):
            raise ValueError(f"hubness: no {', '.join(sorted(missing))}")
        if not 0 < step < 1 or neighbours < 1:
            raise ValueError(f"hubness: step={step}, neighbours={neighbours}")
        return cls(artifact.arrays, step, neighbours)
