"""The scores of a model on a data set, in the order in which the evaluation wants them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.of_data import sentences_of
from deixis.evaluation.retrieval import recall_at_k
from deixis.evaluation.scores import ScoreBlocks
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats
from deixis.models.base import Embedder
from deixis.tasks.bundle import Bundle, EncoderOfBundle, refuse_pointing_only
from deixis.tasks.features_of import Proposing, SeenPhotos, encode_photos, find_photos
from deixis.tasks.learning import Learning
from deixis.tasks.regions_of import RegionSet, phrase_vectors, region_set
from deixis.tasks.scores.localising import localisation_scores

DEV_SPLITS = ("dev", "val")
"""What the split is called on which a model is scored when it has been trained; the first that is there."""


def seen_photos(
    bundle: Bundle,
    dataset: Dataset,
    photos: Photos,
    *,
    regions: bool = False,
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
    regions
        Their proposals too, as many as the model points at.
    also
        Stores to look in, besides those beside the data.
    on_progress
        Called as the work goes on.
    """
    proposing = bundle.learned.proposing if regions else None
    seen = seen_by(bundle.encoder, dataset, photos, proposing=proposing, also=also, on_progress=on_progress)
    return replace(seen, place=bundle.learned.place)


def seen_by(
    encoder: EncoderOfBundle,
    dataset: Dataset,
    photos: Photos,
    *,
    proposing: Proposing | None = None,
    also: Iterable[Path] = (),
    on_progress: OnProgress = silent,
) -> SeenPhotos:
    """The same for an encoder alone."""
    found = find_photos(dataset, photos, encoder.fingerprint, crops=encoder.crops, proposing=proposing, also=also)
    if found and not found.left_out:
        return found
    if not encoder.is_imported:
        return encode_photos(
            dataset, photos, encoder.open(), crops=encoder.crops, proposing=proposing, on_progress=on_progress
        )
    if found is None:
        raise DeixisError(
            f"{dataset.path}: has no features that were imported as those the model learned from ({encoder.name}); "
            "import them with deixis features DATA --import FILE, or say where they are with --features DIR"
        )
    return found


def retrieval_scores(bundle: Bundle, seen: SeenPhotos, texts: Sequence[str]) -> ScoreBlocks:
    """Photos × sentences, computed when they are asked for."""
    refuse_pointing_only(bundle)
    return _all_pairs(bundle, bundle.model.prepare_visual(seen.vectors()), bundle.encode_sentences(texts))


def sentence_scores(bundle: Bundle, texts: Sequence[str]) -> ScoreBlocks:
    """Sentences × sentences, computed when they are asked for."""
    refuse_pointing_only(bundle)
    if not isinstance(bundle.model, Embedder):
        raise DeixisError("this model compares photos with sentences, not sentences with each other")
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


def dev_split(dataset: Dataset, learned: str = "") -> str | None:
    """The split on which a model is scored when it has been trained; None where there is none.

    The split that it has `learned` from says nothing, so it is passed over.
    """
    return next((name for name in DEV_SPLITS if name in dataset.manifest.splits and name != learned), None)


def score_on_dev(
    bundle: Bundle, dataset: Dataset, *, learned: str = "", also: Iterable[Path] = (), on_progress: OnProgress = silent
) -> DevScores | None:
    """Retrieval on the split dev, or val; of a model that has learned from phrases, localisation.

    None where there is no such split, or nothing in it can be scored.
    """
    split = dev_split(dataset, learned)
    if split is None:
        return None
    points = bundle.learned.learn == "phrases"
    seen = seen_photos(bundle, dataset, dataset.split(split), regions=points, also=also, on_progress=on_progress)
    scores = _localised(bundle, seen, on_progress) if points else _retrieved(bundle, seen)
    return DevScores(split, len(seen.photos), scores, seen.left_out) if scores else None


def _retrieved(bundle: Bundle, seen: SeenPhotos) -> Mapping[str, float]:
    if not len(seen.photos.sentence_rows()[0]):
        return {}
    gold = sentences_of(seen.photos)
    return recall_at_k(retrieval_scores(bundle, seen, gold.texts), gold.photo_of_sentence).scores


def _localised(bundle: Bundle, seen: SeenPhotos, on_progress: OnProgress) -> Mapping[str, float]:
    regions = dev_regions(seen, on_progress)
    if regions is None:
        return {}
    phrases = regions.pairs.phrases
    text = phrases if bundle.text is None else phrase_vectors(bundle.text, phrases, on_progress)
    return localisation_scores(bundle.model, regions, text)


def dev_regions(seen: SeenPhotos, on_progress: OnProgress = silent) -> RegionSet | None:
    """The regions and phrases to score a model on; None where no phrase has a box."""

    def told(doing: str, done: int, total: int | None) -> None:
        on_progress(f"dev: {doing}", done, total)

    try:
        return region_set(seen, Learning(learn="phrases"), on_progress=told)
    except DatasetError:
        return None
