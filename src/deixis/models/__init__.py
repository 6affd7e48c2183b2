"""Vectors of photos and sentences meet here: models that say how well a region and a phrase go together.

Float32 arrays come in, blocks of scores and vectors of one common space go out. A model opens no photo and reads no
data set; it may import `language` and `data`, never `vision`.

Examples
--------
>>> import numpy as np
>>> from deixis.models import CCA
>>> shared = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
>>> photos, sentences = shared @ np.eye(3, 5, dtype=np.float32), shared[:, ::-1]
>>> round(CCA(components=2).fit(photos, sentences).score(photos, sentences), 2)
1.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis.models.base import Embedder, Scorer
    from deixis.models.cca import CCA, CCASettings
    from deixis.models.combined import Combined, CombinedSettings, WithParts
    from deixis.models.grounder import Grounder, GrounderSettings, Pointing, RegionInputs
    from deixis.models.hm_lstm import HMLSTM, HMLSTMSettings
    from deixis.models.m_rnn import MRNNSettings
    from deixis.models.m_rnn_model import MRNN
    from deixis.models.saved import load_model
    from deixis.models.similarity import Similarity, SimilaritySettings
    from deixis.models.stacked import Stacked
    from deixis.models.two_branch import TwoBranch, TwoBranchSettings

__all__ = [
    "CCA",
    "HMLSTM",
    "MRNN",
    "CCASettings",
    "Combined",
    "CombinedSettings",
    "Embedder",
    "Grounder",
    "GrounderSettings",
    "HMLSTMSettings",
    "MRNNSettings",
    "Pointing",
    "RegionInputs",
    "Scorer",
    "Similarity",
    "SimilaritySettings",
    "Stacked",
    "TwoBranch",
    "TwoBranchSettings",
    "WithParts",
    "load_model",
]

_MODULES = {
    "CCA": "cca",
    "CCASettings": "cca",
    "Combined": "combined",
    "CombinedSettings": "combined",
    "Embedder": "base",
    "Grounder": "grounder",
    "GrounderSettings": "grounder",
    "HMLSTM": "hm_lstm",
    "HMLSTMSettings": "hm_lstm",
    "MRNN": "m_rnn_model",
    "MRNNSettings": "m_rnn",
    "Pointing": "grounder",
    "RegionInputs": "grounder",
    "Scorer": "base",
    "Similarity": "similarity",
    "SimilaritySettings": "similarity",
    "Stacked": "stacked",
    "TwoBranch": "two_branch",
    "TwoBranchSettings": "two_branch",
    "WithParts": "combined",
    "load_model": "saved",
}


def __getattr__(name: str) -> Any:
    """Import a model when it is first used: some need torch, and nobody needs all."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
