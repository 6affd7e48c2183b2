"""The map of photos and sentences: where each lies on a plane, near what the model finds like it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats, to_unit_length
from deixis.models.base import Embedder
from deixis.tasks.bundle import Bundle, refuse_pointing_only
from deixis.tasks.scores.scoring import seen_photos

LEAST_PHOTOS = 4
"""Fewer make no map."""

_FEW = 5_000
"""Up to so many points several threads wait for each other longer than they compute."""

_LARGE = 20_000
"""From so many points on neighbours are looked for approximately."""


@dataclass(frozen=True)
class SemanticMap:
    """Photos and their sentences on a plane.

    Attributes
    ----------
    files
        Of the photos.
    sentences, owner
        Their words, and the place of each one's photo.
    photo_places, sentence_places
        (n, 2) and (m, 2), between 0 and 1 in both directions, y downwards.
    """

    files: tuple[Path, ...]
    sentences: tuple[str, ...]
    owner: npt.NDArray[np.int64]
    photo_places: Floats
    sentence_places: Floats


def map_of(
    bundle: Bundle,
    dataset: Dataset,
    photos: Photos,
    *,
    seed: int = 0,
    also: Iterable[Path] = (),
    on_progress: OnProgress = silent,
) -> SemanticMap:
    """Lay photos and their sentences out by t-SNE.

    Parameters
    ----------
    bundle
        A model that gives photos and sentences vectors in one space.
    dataset, photos
        Whose photos, and which.
    seed
        Of the layout, which begins with the principal components and draws lots after that.
    also
        Features that lie elsewhere.
    on_progress
        Called as the work goes on.
    """
    refuse_pointing_only(bundle)
    if not isinstance(bundle.model, Embedder):
        raise DeixisError("this model compares photos with sentences, but has no space in which both lie")
    seen = seen_photos(bundle, dataset, photos, also=also, on_progress=on_progress)
    rows, owner = seen.photos.sentence_rows()
    if len(seen.photos) < LEAST_PHOTOS or not len(rows):
        raise DatasetError(
            f"{dataset.path}: {len(seen.photos)} photos with {len(rows)} sentences make no map; "
            f"{LEAST_PHOTOS} photos are needed, and sentences"
        )
    sentences = tuple(dataset.tables["captions"]["text"].take(rows).to_pylist())
    on_progress("reading sentences", 0, None)
    visual = bundle.model.prepare_visual(seen.vectors())
    on_progress("laying out", 0, None)
    places = laid_out(np.concatenate([_centred(visual), _centred(bundle.encode_sentences(sentences))]), seed=seed)
    files = tuple(dataset.path_of(photo) for photo in seen.photos)
    return SemanticMap(files, sentences, owner, places[: len(visual)], places[len(visual) :])


def laid_out(vectors: Floats, *, seed: int = 0) -> Floats:
    """Places on a plane, (n, 2), between 0 and 1, by t-SNE with cosine distance.

    Parameters
    ----------
    vectors
        (n, d).
    seed
        The same vectors and seed give the same places on one machine.
    """
    try:
        from openTSNE import TSNE
    except ImportError:
        raise DeixisError("the map needs openTSNE; install it with: pip install 'deixis[map]'") from None
    neighbours = "exact" if len(vectors) < _LARGE else "auto"
    layout = TSNE(
        perplexity=max(2.0, min(30.0, (len(vectors) - 1) / 3)),
        metric="cosine",
        neighbors=neighbours,
        random_state=seed,
        n_jobs=1 if len(vectors) < _FEW else -1,
    )
    found = np.asarray(layout.fit(np.asarray(vectors, dtype=np.float64)))
    # One scale for both directions: distances mean the same across and down.
    low, high = found.min(axis=0), found.max(axis=0)
    middle, spread = (low + high) / 2, max(float((high - low).max()), 1e-9)
    return np.asarray((found - middle) / spread + 0.5, dtype=np.float32)


def _centred(vectors: Floats) -> Floats:
    """Without the mean: photos and sentences lie a constant step apart, which says nothing of any of them."""
    return to_unit_length(vectors - vectors.mean(axis=0))


def some_photos(dataset: Dataset, photos: Photos, count: int, seed: int = 0) -> Photos:
    """So many photos drawn at random, in the order of the data; all where there are no more."""
    if count >= len(photos):
        return photos
    chosen = np.random.default_rng(seed).choice(len(photos), count, replace=False)
    return Photos(dataset, photos.rows[np.sort(chosen)])
