"""Sentence vectors: mean word vector, tf-idf, Fisher vectors, and PCA of these.

Each kind is a `TextFeatures`. `gmm_fisher_vectors` and `hglmm_features` are those of the papers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.language.features.base import MeanVector as MeanVector
    from deixis.language.features.base import Text as Text
    from deixis.language.features.base import TextFeatures as TextFeatures
    from deixis.language.features.base import TfIdf as TfIdf
    from deixis.language.features.base import transform_in_chunks as transform_in_chunks
    from deixis.language.features.fisher import FisherVectors as FisherVectors
    from deixis.language.features.reduction import Reduced as Reduced
    from deixis.language.features.reduction import features_from_artifact as features_from_artifact
    from deixis.language.features.reduction import load_features as load_features
    from deixis.language.vectors import WordVectors

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": "MeanVector Text TextFeatures TfIdf transform_in_chunks",
        "fisher": "FisherVectors",
        "reduction": "Reduced features_from_artifact load_features",
    },
    defined="COMPONENTS HGLMM_DIMENSION gmm_fisher_vectors hglmm_features",
)

COMPONENTS, HGLMM_DIMENSION = 30, 6000
"""Of the papers: components of a mixture, and dimension of HGLMM Fisher vectors after PCA."""


def gmm_fisher_vectors(vectors: WordVectors, components: int = COMPONENTS, seed: int = 0) -> FisherVectors:
    """Text features of Flickr30k Entities (E9): gradients of the means of 30 Gaussians, 300 × 30 = 9,000."""
    from deixis.language.features.fisher import FisherVectors

    return FisherVectors(vectors, components=components, family="gaussian", ica=False, scales=False, seed=seed)


def hglmm_features(
    vectors: WordVectors, dimension: int = HGLMM_DIMENSION, components: int = COMPONENTS, seed: int = 0
) -> Reduced:
    """Text features of the two-branch networks (T6): ICA, HGLMM, Fisher vectors of 18,000, PCA to 6,000."""
    from deixis.language.features.fisher import FisherVectors
    from deixis.language.features.reduction import Reduced

    return Reduced(FisherVectors(vectors, components=components, seed=seed), dimension, seed=seed)
