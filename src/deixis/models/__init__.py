"""Models that score how well photos and regions match sentences and phrases, or write captions.

``deixis.models()`` lists the models that come with deixis; ``from deixis.models import CCA`` gives the class.

Examples
--------
>>> import numpy as np
>>> from deixis.models import CCA
>>> shared = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
>>> photos, sentences = shared @ np.eye(3, 5, dtype=np.float32), shared[:, ::-1]
>>> round(CCA(embedding_dim=2).fit(photos, sentences).score(photos, sentences), 2)
1.0
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis.models.base import Embedder, Scorer
    from deixis.models.cca.combined import Combined, CombinedSettings, WithParts
    from deixis.models.cca.model import CCA, CCASettings, Stacked
    from deixis.models.grounder.model import Grounder, GroundingOutput
    from deixis.models.grounder.spec import GrounderSettings
    from deixis.models.hm_lstm.model import HMLSTM
    from deixis.models.hm_lstm.spec import HMLSTMSettings
    from deixis.models.m_rnn.model import MRNN
    from deixis.models.m_rnn.spec import MRNNSettings
    from deixis.models.matching.similarity import Similarity, SimilaritySettings
    from deixis.models.matching.two_branch import TwoBranch, TwoBranchSettings
    from deixis.models.photo_features import RegionInputs
    from deixis.models.pipeline import InstalledModel

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
    "GroundingOutput",
    "HMLSTMSettings",
    "MRNNSettings",
    "RegionInputs",
    "Scorer",
    "Similarity",
    "SimilaritySettings",
    "Stacked",
    "TwoBranch",
    "TwoBranchSettings",
    "WithParts",
]

_MODULES = {
    "CCA": "models.cca.model",
    "CCASettings": "models.cca.model",
    "Combined": "models.cca.combined",
    "CombinedSettings": "models.cca.combined",
    "Embedder": "models.base",
    "Grounder": "models.grounder.model",
    "GrounderSettings": "models.grounder.spec",
    "HMLSTM": "models.hm_lstm.model",
    "HMLSTMSettings": "models.hm_lstm.spec",
    "MRNN": "models.m_rnn.model",
    "MRNNSettings": "models.m_rnn.spec",
    "GroundingOutput": "models.grounder.model",
    "RegionInputs": "models.photo_features",
    "Scorer": "models.base",
    "Similarity": "models.matching.similarity",
    "SimilaritySettings": "models.matching.similarity",
    "Stacked": "models.cca.model",
    "TwoBranch": "models.matching.two_branch",
    "TwoBranchSettings": "models.matching.two_branch",
    "WithParts": "models.cca.combined",
}


def __getattr__(name: str) -> Any:
    """Import a model on first use: some need torch, and nobody needs all."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"deixis.{_MODULES[name]}"), name)


class _CallableModule(ModuleType):
    """Makes ``deixis.models()`` work, although importing this package binds the module to the same name."""

    def __call__(self) -> list[InstalledModel]:
        """List the models that come with deixis, in alphabetical order.

        Examples
        --------
        >>> import deixis
        >>> [model.name for model in deixis.models()]
        ['describer', 'grounder', 'm-rnn', 'two-branch']
        """
        from deixis.models.pipeline import shipped_models

        return shipped_models()


sys.modules[__name__].__class__ = _CallableModule
