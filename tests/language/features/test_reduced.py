"""The whole chain: fitted, reduced, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features import FisherVectors, Reduced, TextFeatures, TfIdf, hglmm_features, load_features
from deixis.language.vectors import WordVectors


def test_the_chain_is_pca_of_fisher_vectors(vectors: WordVectors, sentences: list[list[str]]) -> None:
    features = hglmm_features(vectors, dimension=10, components=3).fit(sentences)
    reduced = features.transform(sentences)
    assert reduced.shape == (80, 10)
    assert reduced.dtype == np.float32
    full = FisherVectors(vectors, components=3).fit(sentences).transform(sentences)
    np.testing.assert_allclose(reduced, features.pca_.transform(full), atol=1e-5)
    np.testing.assert_allclose(reduced.mean(axis=0), 0, atol=1e-5)


@pytest.mark.parametrize("of", ["fisher", "tf-idf", "reduced"])
def test_what_was_saved_transforms_to_the_same_bits(
    vectors: WordVectors, sentences: list[list[str]], tmp_path: Path, of: str
) -> None:
    inner: dict[str, TextFeatures] = {
        "fisher": FisherVectors(vectors, components=3),
        "tf-idf": TfIdf(),
        "reduced": Reduced(TfIdf(), 20),
    }
    features = Reduced(inner[of], 10).fit(sentences)
    features.save(tmp_path / "saved")
    for loaded in (Reduced.load(tmp_path / "saved"), load_features(tmp_path / "saved")):
        np.testing.assert_array_equal(loaded.transform(sentences), features.transform(sentences))


def test_the_same_seed_gives_the_same_rows(vectors: WordVectors, sentences: list[list[str]]) -> None:
    first, again = (hglmm_features(vectors, 10, 3, seed=1).fit(sentences).transform(sentences) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_too_few_sentences_are_one_clear_line(vectors: WordVectors, sentences: list[list[str]]) -> None:
    with pytest.raises(DeixisError, match="6,000 components cannot be had from 80 rows"):
        Reduced(TfIdf(), 6000).fit(sentences)


def test_another_kind_is_refused_by_name(sentences: list[list[str]], tmp_path: Path) -> None:
    TfIdf().fit(sentences).save(tmp_path / "saved")
    with pytest.raises(DeixisError, match="holds 'tf-idf', not 'reduced'"):
        Reduced.load(tmp_path / "saved")
