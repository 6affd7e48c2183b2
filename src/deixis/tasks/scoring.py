"""The scores of a model on a data set, in the order in which the evaluation wants them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DeixisError
from deixis.evaluation.of_data import sentences_of
from deixis.evaluation.retrieval import recall_at_k
from deixis.evaluation.scores import ScoreBlocks
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats
from deixis.tasks.bundle import Bundle
from deixis.tasks.features_of import SeenPhotos, encode_photos, find_photos

DEV_SPLITS = ("dev", "val")
"""What the split is called on which a model is scored when it has been trained; the first that is there."""


def seen_photos(
    bundle: Bundle,
    dataset: Dataset,
    photos: Photos,
    *,
    also: Iterable[Path] = (),
    on_progress: OnProgress = silent,
) -> SeenPhotos:
    """Photos as the encoder of a model sees them: their features are read where they are, or computed.

    Parameters
    ----------
    bundle
        Whose encoder.
    dataset, photos
        Whose photos, and which. Those that cannot be read are left out.
    also
        Stores to look in, besides those beside the data.
    on_progress
        Called as the work goes on.
    """
    encoder = bundle.encoder
    found = find_photos(dataset, photos, encoder.fingerprint, crops=encoder.crops, also=also)
    if found and not found.left_out:
        return found
    if not encoder.is_imported:
        return encode_photos(dataset, photos, bundle.image_encoder, crops=encoder.crops, on_progress=on_progress)
    if found is None:
        raise DeixisError(
            f"{dataset.path}: has no features that were imported as those the model learned from ({encoder.name}); "
            "import them with deixis features DATA --import FILE, or say where they are with --features DIR"
        )
    return found


def retrieval_scores(bundle: Bundle, seen: SeenPhotos, texts: Sequence[str]) -> ScoreBlocks:
    """Photos × sentences, computed when they are asked for."""
    return _all_pairs(bundle, bundle.model.prepare_visual(seen.vectors()), bundle.encode_sentences(texts))


def sentence_scores(bundle: Bundle, texts: Sequence[str]) -> ScoreBlocks:
    """Sentences × sentences, computed when they are asked for."""
    vectors = bundle.encode_sentences(texts)
    return _all_pairs(bundle, vectors, vectors)


def _all_pairs(bundle: Bundle, rows: Floats, columns: Floats) -> ScoreBlocks:
    return ScoreBlocks((len(rows), len(columns)), lambda begin, end: bundle.similarity(rows[begin:end], columns))


@dataclass(frozen=True)
class DevScores:
    """How a model does on photos that it has not learned from.

    Attributes
    ----------
    split, photos
        The split, and how many of its photos were looked at.
    scores
        In percent, by the names that ``deixis evaluate retrieval`` gives them; ranks are ranks.
    left_out
        Why other photos of the split were not looked at, a line for each.
    """

    split: str
    photos: int
    scores: Mapping[str, float]
    left_out: tuple[str, ...] = ()


def score_on_dev(
    bundle: Bundle, dataset: Dataset, *, also: Iterable[Path] = (), on_progress: OnProgress = silent
) -> DevScores | None:
    """Retrieval on the split dev, or val; None where there is none, or none of its photos can be scored."""
    split = next((name for name in DEV_SPLITS if name in dataset.manifest.splits), None)
    if split is None:
        return None
    seen = seen_photos(bundle, dataset, dataset.split(split), also=also, on_progress=on_progress)
    if not len(seen.photos.sentence_rows()[0]):
        return None
    gold = sentences_of(seen.photos)
    found = recall_at_k(retrieval_scores(bundle, seen, gold.texts), gold.photo_of_sentence)
    return DevScores(split, len(seen.photos), found.scores, seen.left_out)
