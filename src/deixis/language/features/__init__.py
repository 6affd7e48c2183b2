"""Sentences become vectors of one length: mean vector, tf-idf, Fisher vectors, and these brought to fewer dimensions.

Sentences and word vectors come in; float32 arrays and folders of plain files go out. Each kind is a `TextFeatures`. The
papers' two are here by name. English only: so are the tokenizer and the word vectors that deixis knows by name.
"""

from __future__ import annotations

from deixis.language.features.base import Text, TextFeatures, transform_in_chunks
from deixis.language.features.fisher import FisherVectors
from deixis.language.features.mean import MeanVector
from deixis.language.features.reduced import Reduced, load_features
from deixis.language.features.tfidf import TfIdf
from deixis.language.vectors import WordVectors

__all__ = [
    "FisherVectors",
    "MeanVector",
    "Reduced",
    "Text",
    "TextFeatures",
    "TfIdf",
    "gmm_fisher_vectors",
    "hglmm_features",
    "load_features",
    "transform_in_chunks",
]


def gmm_fisher_vectors(vectors: WordVectors, components: int = 30, seed: int = 0) -> FisherVectors:
    """The text features of Flickr30k Entities (E9): gradients with respect to 30 Gaussians' means, 300 × 30 = 9,000."""
    return FisherVectors(vectors, components=components, family="gaussian", ica=False, scales=False, seed=seed)


def hglmm_features(vectors: WordVectors, dimension: int = 6000, components: int = 30, seed: int = 0) -> Reduced:
    """The text features of the two-branch networks (T6): ICA, HGLMM, Fisher vectors of 18,000, PCA to 6,000."""
    return Reduced(FisherVectors(vectors, components=components, seed=seed), dimension, seed=seed)
