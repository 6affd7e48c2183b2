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
from types import ModuleType
from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.models.base import Embedder as Embedder
    from deixis.models.base import RegionInputs as RegionInputs
    from deixis.models.base import Scorer as Scorer
    from deixis.models.captioner.pipeline import Captioner as Captioner
    from deixis.models.captioner.spec import CaptionerSettings as CaptionerSettings
    from deixis.models.cca.model import CCA as CCA
    from deixis.models.cca.model import Stacked as Stacked
    from deixis.models.cca.spec import CCASettings as CCASettings
    from deixis.models.grounder.model import Grounder as Grounder
    from deixis.models.grounder.model import GroundingOutput as GroundingOutput
    from deixis.models.grounder.spec import GrounderSettings as GrounderSettings
    from deixis.models.hm_lstm.model import HMLSTM as HMLSTM
    from deixis.models.hm_lstm.spec import HMLSTMSettings as HMLSTMSettings
    from deixis.models.installed import InstalledModel
    from deixis.models.m_rnn.model import MRNN as MRNN
    from deixis.models.m_rnn.spec import MRNNSettings as MRNNSettings
    from deixis.models.matching.combined import Combined as Combined
    from deixis.models.matching.combined import CombinedSettings as CombinedSettings
    from deixis.models.matching.combined import WithParts as WithParts
    from deixis.models.matching.model import Similarity as Similarity
    from deixis.models.matching.model import TwoBranch as TwoBranch
    from deixis.models.matching.spec import SimilaritySettings as SimilaritySettings
    from deixis.models.matching.spec import TwoBranchSettings as TwoBranchSettings

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": "Embedder RegionInputs Scorer",
        "captioner.pipeline": "Captioner",
        "captioner.spec": "CaptionerSettings",
        "cca.model": "CCA Stacked",
        "cca.spec": "CCASettings",
        "grounder.model": "Grounder GroundingOutput",
        "grounder.spec": "GrounderSettings",
        "hm_lstm.model": "HMLSTM",
        "hm_lstm.spec": "HMLSTMSettings",
        "m_rnn.model": "MRNN",
        "m_rnn.spec": "MRNNSettings",
        "matching.combined": "Combined CombinedSettings WithParts",
        "matching.model": "Similarity TwoBranch",
        "matching.spec": "SimilaritySettings TwoBranchSettings",
    },
)


class _CallableModule(ModuleType):
    """Makes ``deixis.models()`` work, although importing this package binds the module to the same name."""

    def __call__(self) -> list[InstalledModel]:
        """List the models that come with deixis, in alphabetical order.

        Examples
        --------
        >>> import deixis
        >>> {"captioner", "grounder", "two-branch"} <= {model.name for model in deixis.models()}
        True
        """
        from deixis.models.installed import shipped_models

        return shipped_models()


sys.modules[__name__].__class__ = _CallableModule
