"""Sentence vectors: mean word vector, tf-idf, Fisher vectors, and PCA of these.

Each kind is a `TextFeatures`. `gmm_fisher_vectors` and `hglmm_features` are those of the papers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.language.features.base import MeanVector as MeanVector
    from deixis.language.features.base import TextFeatures as TextFeatures
    from deixis.language.features.base import TfIdf as TfIdf
    from deixis.language.features.base import transform_in_chunks as transform_in_chunks
    from deixis.language.features.fisher import COMPONENTS as COMPONENTS
    from deixis.language.features.fisher import FisherVectors as FisherVectors
    from deixis.language.features.fisher import gmm_fisher_vectors as gmm_fisher_vectors
    from deixis.language.features.reduction import HGLMM_DIMENSION as HGLMM_DIMENSION
    from deixis.language.features.reduction import Reduced as Reduced
    from deixis.language.features.reduction import features_from_artifact as features_from_artifact
    from deixis.language.features.reduction import hglmm_features as hglmm_features
    from deixis.language.features.reduction import load_features as load_features
    from deixis.tokens import Text as Text

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": "MeanVector Text TextFeatures TfIdf transform_in_chunks",
        "fisher": "COMPONENTS FisherVectors gmm_fisher_vectors",
        "reduction": "HGLMM_DIMENSION Reduced features_from_artifact hglmm_features load_features",
    },
)
