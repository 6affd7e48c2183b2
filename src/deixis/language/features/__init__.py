"""Sentence vectors: mean word vector, tf-idf, Fisher vectors, and PCA of these.

Each kind is a `TextFeatures`. `gmm_fisher_vectors` and `hglmm_features` are those of the papers.
"""

from __future__ import annotations

from deixis.language.features.base import MeanVector, Text, TextFeatures, TfIdf, transform_in_chunks
from deixis.language.features.fisher import FisherVectors
from deixis.language.features.reduction import Reduced, features_from_artifact, load_features
from deixis.language.vectors import WordVectors

__all__ = [
    "FisherVectors",
    "MeanVector",
    "Reduced",
    "Text",
    "TextFeatures",
    "TfIdf",
    "features_from_artifact",
    "gmm_fisher_vectors",
    "hglmm_features",
    "load_features",
    "transform_in_chunks",
]


def gmm_fisher_vectors(vectors: WordVectors, components: int = 30, seed: int = 0) -> FisherVectors:
    """Text features of Flickr30k Entities (E9): gradients of the means of 30 Gaussians, 300 × 30 = 9,000."""
    return FisherVectors(vectors, components=components, family="gaussian", ica=False, scales=False, seed=seed)


def hglmm_features(vectors: WordVectors, dimension: int = 6000, components: int = 30, seed: int = 0) -> Reduced:
    """Text features of the two-branch networks (T6): ICA, HGLMM, Fisher vectors of 18,000, PCA to 6,000."""
    return Reduced(FisherVectors(vectors, components=components, seed=seed), dimension, seed=seed)
