"""`deixis train cca`: from a data set directory to a bundle with a CCA in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.language.features import TextFeatures
from deixis.language.features.base import Floats
from deixis.models.cca import CCA, CCASettings, blocks
from deixis.models.stacked import Stacked
from deixis.tasks.bundle import Bundle, EncoderOfBundle, LearnedFrom
from deixis.tasks.features_of import SeenPhotos, SentenceVectors, sentence_vectors
from deixis.tasks.fit.typed import command_of
from deixis.tasks.learning import Learning, refuse_no_photos, see_photos, training_photos
from deixis.tasks.regions_of import HalfFloats, RegionSet, phrase_vectors, region_set
from deixis.tasks.scores.scoring import DevScores
from deixis.training.about import About, facts_of
from deixis.training.settings import settings_to_json

Blocks = Iterator[tuple[Floats, Floats]]


@dataclass(frozen=True)
class CCATraining:
    """What is CCA's own.

    Attributes
    ----------
    components
        Dimensions of the common space.
    regularisation
        Added to the variance of every column, as a share of the mean variance of its side.
    power
        Each dimension counts by its correlation to this power; 0 counts all the same.
    auxiliary
        The directory of a CCA that has learned from phrases: its vectors are put after the features, as in the stacked
        auxiliary embedding of Flickr30k Entities.
    auxiliary_weight
        How long these vectors are, beside the features of their side.

    Examples
    --------
    >>> CCATraining(components=0)
    Traceback (most recent call last):
    deixis.errors.DeixisError: components=0: must be 1 or more
    """

    components: int = CCASettings.components
    regularisation: float = CCASettings.regularisation
    power: float = CCASettings.power
    auxiliary: str = ""
    auxiliary_weight: float = 0.3

    def __post_init__(self) -> None:
        rules = {
            "components": (self.components >= 1, "must be 1 or more"),
            # Written so that nan is refused too.
            "regularisation": (0 <= self.regularisation < float("inf"), "must be 0 or more"),
            "power": (0 <= self.power < float("inf"), "must be 0 or more"),
            "auxiliary_weight": (0 < self.auxiliary_weight < float("inf"), "must be greater than 0"),
        }
        for name, (kept, rule) in rules.items():
            if not kept:
                raise DeixisError(f"{name}={getattr(self, name)}: {rule}")


@dataclass(frozen=True)
class Fitted:
    """A bundle, and what it was learned from.

    Attributes
    ----------
    bundle
        What was learned.
    photos, sentences
        From how many.
    left_out
        Why other photos of the split were left out, a line for each.
    phrases
        From how many pairs of a region and a phrase.
    """

    bundle: Bundle
    photos: int
    sentences: int
    left_out: tuple[str, ...] = ()
    phrases: int = 0


def fit_cca(
    dataset: Dataset, chosen: CCATraining, learning: Learning | None = None, *, on_progress: OnProgress = silent
) -> Fitted:
    """Learn from the photos and sentences of the training split, or from their regions and phrases, in one pass.

    Features that are missing are computed first and kept beside the data: a run that is stopped is soon where it was.
    """
    learning = learning or Learning()
    photos = training_photos(dataset, learning.train, boxes=learning.regions)
    recipe = learning.recipe()
    auxiliary = _opened_auxiliary(chosen.auxiliary) if chosen.auxiliary else None
    seen = see_photos(dataset, photos, learning, on_progress=on_progress)
    refuse_no_photos(dataset, seen, learning.train)
    sentences = sentence_vectors(dataset, seen.photos, recipe, train=learning.train, on_progress=on_progress)
    pairs: list[Blocks] = []
    if learning.sentences:
        _refuse_no_sentences(dataset, sentences, learning.train)
        pairs.append(_sentence_pairs(seen, sentences, on_progress))
    regions = None
    if learning.regions:
        _refuse_other_sizes(seen, learning)
        regions = region_set(seen, learning, where=str(dataset.path), gold_only=True, on_progress=on_progress)
        vectors = phrase_vectors(sentences.features, regions.pairs.phrases, on_progress)
        pairs.append(_phrase_pairs(regions, vectors, on_progress))
    model = CCA(chosen.components, chosen.regularisation, chosen.power)
    made_by = seen.store.contents
    fitted: CCA | Stacked = model
    if auxiliary:
        _refuse_another(auxiliary, chosen.auxiliary, seen, sentences.features)
        fitted = Stacked(_cca_of(auxiliary, chosen.auxiliary), model, chosen.auxiliary_weight)
    fitted.fit_blocks(chain.from_iterable(pairs))
    bundle = Bundle(
        EncoderOfBundle(made_by.encoder, made_by.fingerprint, learning.crops),
        sentences.features,
        fitted,
        learned_from(learning, seen),
    )
    counts = len(sentences.rows) if learning.sentences else 0, len(regions.pairs) if regions else 0
    return Fitted(bundle, len(seen.photos), counts[0], seen.left_out, counts[1])


def learned_from(learning: Learning, seen: SeenPhotos) -> LearnedFrom:
    """What a bundle remembers of the pairs it has learned from."""
    made_by = seen.store.contents
    name, fingerprint = learning.proposals, ""
    if learning.regions and made_by.proposer:
        name, fingerprint = made_by.proposer, made_by.proposer_fingerprint
    return LearnedFrom(learning.learn, learning.place, name, learning.top, fingerprint)


def card_of(
    dataset: Dataset, chosen: CCATraining, learning: Learning, fitted: Fitted, dev: DevScores | None, seconds: float
) -> str:
    """What people should know of a trained model, in Markdown."""
    from deixis.training.card import model_card  # torch comes with it
    from deixis.training.checkpoints import Best

    encoder = fitted.bundle.encoder
    pairs = [(fitted.sentences, "sentences"), (fitted.phrases, "phrases")]
    said = " and ".join(f"{count:,} {name}" for count, name in pairs if count)
    used = {
        "photos learned from": f"{fitted.photos:,}, with {said}; {len(fitted.left_out):,} left out",
        "encoder": f"{encoder.name} ({encoder.fingerprint})",
    }
    if dev:
        used[f"scored on {dev.split}"] = f"{dev.photos:,} photos; {len(dev.left_out):,} left out"
    facts = facts_of(dataset, learning.train, *([dev.split] if dev else []))
    settings = settings_to_json(learning) | settings_to_json(chosen)
    about = About("cca", settings, facts, command_of("cca", dataset, learning, chosen), used)
    return model_card(about, None, Best(0, 0, "", dev.scores if dev else {}), seconds)


def _refuse_no_sentences(dataset: Dataset, sentences: SentenceVectors, split: str) -> None:
    if not len(sentences.rows):
        raise DatasetError(f"{dataset.path}: the photos of split {split!r} have no sentences to learn from")


def _refuse_other_sizes(seen: SeenPhotos, learning: Learning) -> None:
    contents = seen.store.contents
    if learning.sentences and contents.dimension != contents.channels:
        raise DeixisError(
            f"learn=both: {contents.encoder} gives photos {contents.dimension:,} numbers and regions "
            f"{contents.channels:,}; they must be as many"
        )


def _opened_auxiliary(folder: str) -> Bundle:
    if not Path(folder).is_dir():
        raise DeixisError(f"auxiliary={folder}: no such directory")
    return Bundle.load(folder)


def _cca_of(auxiliary: Bundle, folder: str) -> CCA:
    if not isinstance(auxiliary.model, CCA):
        raise DeixisError(f"auxiliary={folder}: holds no CCA")
    return auxiliary.model


def _refuse_another(auxiliary: Bundle, folder: str, seen: SeenPhotos, text: TextFeatures) -> None:
    """Refuse an auxiliary model that takes other features than the model that it is to help."""
    probe = ["a man in a red hat plays with two dogs in the snow"]
    theirs, ours = auxiliary.encoder.fingerprint, seen.store.contents.fingerprint
    if theirs != ours:
        raise DeixisError(f"auxiliary={folder}: learned from features of {theirs}, this model learns from {ours}")
    if auxiliary.learned.place != seen.place:
        raise DeixisError(f"auxiliary={folder}: learned with place={auxiliary.learned.place}, not {seen.place}")
    if auxiliary.text is None or not np.array_equal(auxiliary.text.transform(probe), text.transform(probe)):
        raise DeixisError(f"auxiliary={folder}: learned from other text features; use the same data, train and text")


def _sentence_pairs(seen: SeenPhotos, sentences: SentenceVectors, on_progress: OnProgress) -> Blocks:
    """The photo and the sentence of each pair, a block at a time."""
    total = len(sentences.rows)
    for block in blocks(total):
        owners = sentences.owner[block]
        first, last = int(owners[0]), int(owners[-1])
        photos = seen.vectors(first, last + 1)
        yield photos[owners - first], sentences.vectors[sentences.rows[block]]
        on_progress("learning from sentences", min(block.stop, total), total)


def _phrase_pairs(regions: RegionSet, phrases: HalfFloats, on_progress: OnProgress) -> Blocks:
    """The region and the phrase of each pair, a block at a time."""
    pairs = regions.pairs
    for block in blocks(len(pairs)):
        gold = pairs.gold[pairs.chain[block]]
        yield regions.vectors[gold].astype(np.float32), phrases[pairs.phrase[block]].astype(np.float32)
        on_progress("learning from phrases", min(block.stop, len(pairs)), len(pairs))
