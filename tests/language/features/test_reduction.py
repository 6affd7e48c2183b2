"""PCA by its identities, and saved text features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features import (
    FisherVectors,
    MeanVector,
    Reduced,
    TextFeatures,
    TfIdf,
    hglmm_features,
    load_features,
)
from deixis.language.features.reduction import PCA
from deixis.language.vectors import WordVectors


def data(n: int = 500, d: int = 30) -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d)) * 0.8 ** np.arange(d) @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 7
    return rows.astype(np.float32)


@pytest.mark.parametrize("exact", [True, False])
def test_components_are_orthonormal(exact: bool) -> None:
    components = PCA(8, exact=exact).fit([data()]).components_
    assert components is not None
    assert components.dtype == np.float32
    np.testing.assert_allclose(components @ components.T, np.eye(8), atol=1e-5)


@pytest.mark.parametrize("exact", [True, False])
def test_the_error_of_restored_rows_is_the_dropped_variance(exact: bool) -> None:
    rows = data()
    pca = PCA(8, exact=exact).fit([rows])
    assert pca.variances_ is not None
    assert pca.components_ is not None
    restored = pca.transform(rows) @ pca.components_ + pca.mean_
    missing = ((rows - restored) ** 2).sum() / len(rows)
    assert missing == pytest.approx(pca.total_variance_ - pca.variances_.sum(), rel=1e-3)
    eigenvalues = np.linalg.eigvalsh(np.cov(rows.T, bias=True))
    assert pca.total_variance_ == pytest.approx(eigenvalues.sum(), rel=1e-4)
    assert missing == pytest.approx(eigenvalues[:-8].sum(), rel=1e-3 if exact else 0.1)


@pytest.mark.parametrize("exact", [True, False])
def test_reduced_rows_are_uncorrelated_with_descending_variances(exact: bool) -> None:
    rows = data()
    pca = PCA(5, exact=exact).fit([rows])
    assert pca.variances_ is not None
    np.testing.assert_allclose(np.cov(pca.transform(rows).T, bias=True), np.diag(pca.variances_), atol=1e-4)
    assert (np.diff(pca.variances_) < 0).all()


@pytest.mark.parametrize("exact", [True, False])
def test_the_chunk_size_does_not_matter(exact: bool) -> None:
    rows = data()
    whole = PCA(4, exact=exact).fit([rows])
    cut = PCA(4, exact=exact).fit(rows[start : start + 37] for start in range(0, 500, 37))
    np.testing.assert_allclose(cut.transform(rows), whole.transform(rows), atol=1e-3)


def test_the_same_seed_gives_the_same_components() -> None:
    first, again = (PCA(4, exact=False, seed=2).fit([data()]).components_ for _ in range(2))
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first, again)


def test_rows_far_from_zero_keep_their_precision() -> None:
    rows = data()
    near, far = PCA(4).fit([rows]), PCA(4).fit([rows + np.float32(1000)])
    assert near.variances_ is not None
    assert far.variances_ is not None
    np.testing.assert_allclose(far.variances_, near.variances_, rtol=1e-3)


@pytest.mark.parametrize(
    ("chunks", "message"), [([data(5)], "8 components"), ([data(1)], "8 components"), ([], "no rows")]
)
def test_too_few_rows_are_an_error(chunks: list[np.ndarray], message: str) -> None:
    with pytest.raises(DeixisError, match=message):
        PCA(8).fit(chunks)


def test_reduced_features_are_pca_of_fisher_vectors(vectors: WordVectors, sentences: list[list[str]]) -> None:
    features = hglmm_features(vectors, dimension=10, components=3).fit(sentences)
    reduced = features.transform(sentences)
    assert reduced.shape == (80, 10)
    assert reduced.dtype == np.float32
    full = FisherVectors(vectors, components=3).fit(sentences).transform(sentences)
    np.testing.assert_allclose(reduced, features.pca_.transform(full), atol=1e-5)
    np.testing.assert_allclose(reduced.mean(axis=0), 0, atol=1e-5)


def test_few_sentences_with_few_words_give_smaller_features(vectors: WordVectors, tmp_path: Path) -> None:
    sentences = [["w0", "w1"], ["w1", "w2"], ["w0", "w2", "w3"]]
    features = hglmm_features(vectors).fit(sentences)
    assert features.transform(sentences).shape == (3, 2)
    assert features.features.mixture_.components == 4  # type: ignore[attr-defined]
    features.save(tmp_path / "saved")
    np.testing.assert_array_equal(load_features(tmp_path / "saved").transform(sentences), features.transform(sentences))


MAKERS: dict[str, Callable[[WordVectors], TextFeatures]] = {
    "mean": MeanVector,
    "tf-idf": lambda vectors: TfIdf(),
    "fisher": lambda vectors: FisherVectors(vectors, components=3, count="tokens"),
    "reduced mean": lambda vectors: Reduced(MeanVector(vectors), 4),
    "reduced fisher": lambda vectors: Reduced(FisherVectors(vectors, components=3), 10),
    "reduced twice": lambda vectors: Reduced(Reduced(TfIdf(), 20), 10),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_saved_features_transform_identically(
    make: Callable[[WordVectors], TextFeatures], vectors: WordVectors, sentences: list[list[str]], tmp_path: Path
) -> None:
    features = make(vectors).fit(sentences)
    features.save(tmp_path / "saved")
    for loaded in (type(features).load(tmp_path / "saved"), load_features(tmp_path / "saved")):
        np.testing.assert_array_equal(loaded.transform(sentences), features.transform(sentences))


@pytest.mark.parametrize("make", [MAKERS["mean"], MAKERS["tf-idf"], MAKERS["fisher"]], ids=["mean", "tf-idf", "fisher"])
def test_a_sentence_of_unknown_words_is_zeros(
    make: Callable[[WordVectors], TextFeatures], vectors: WordVectors, sentences: list[list[str]]
) -> None:
    assert not make(vectors).fit([words[:-1] for words in sentences]).transform([["nobody", "knows"], []]).any()


def test_features_of_another_kind_are_an_error(sentences: list[list[str]], tmp_path: Path) -> None:
    TfIdf().fit(sentences).save(tmp_path / "saved")
    with pytest.raises(DeixisError, match="tf-idf"):
        Reduced.load(tmp_path / "saved")
