"""`deixis train cca`: from a data set directory to a bundle with a CCA in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats
from deixis.language.features.of_data import recipe_of
from deixis.models.cca import CCA, CCASettings, blocks
from deixis.tasks.bundle import Bundle, EncoderOfBundle
from deixis.tasks.features_of import SeenPhotos, SentenceVectors, encode_photos, sentence_vectors, stored_photos
from deixis.tasks.scoring import DevScores
from deixis.training.about import About, facts_of
from deixis.training.settings import settings_to_json


@dataclass(frozen=True)
class CCATraining:
    """What ``deixis train cca --set`` takes.

    Attributes
    ----------
    encoder
        Of the photos, by its name.
    features
        Instead of an encoder: a directory that ``deixis features`` made, with ``--import`` say.
    crops
        10 for the mean over ten crops, as in the papers; 0 for the whole photo at once.
    text
        Of the sentences.
    vectors
        Word vectors for all text but tfidf: a path or an installed package.
    components
        Dimensions of the common space.
    regularisation
        Added to the variance of every column, as a share of the mean variance of its side.
    power
        Each dimension counts by its correlation to this power; 0 counts all the same.
    train
        The split to learn from.

    Examples
    --------
    >>> CCATraining(crops=5)
    Traceback (most recent call last):
    deixis.errors.DeixisError: crops=5: must be 0 or 10
    """

    encoder: str = "deixis"
    features: str = ""
    crops: int = 0
    text: Literal["mean", "tfidf", "fisher", "hglmm"] = "tfidf"
    vectors: str = ""
    components: int = CCASettings.components
    regularisation: float = CCASettings.regularisation
    power: float = CCASettings.power
    train: str = "train"

    def __post_init__(self) -> None:
        rules = {
            "crops": (self.crops in (0, 10), "must be 0 or 10"),
            "components": (self.components >= 1, "must be 1 or more"),
            # Written so that nan is refused too.
            "regularisation": (0 <= self.regularisation < float("inf"), "must be 0 or more"),
            "power": (0 <= self.power < float("inf"), "must be 0 or more"),
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
    """

    bundle: Bundle
    photos: int
    sentences: int
    left_out: tuple[str, ...] = ()


def fit_cca(dataset: Dataset, chosen: CCATraining, on_progress: OnProgress = silent) -> Fitted:
    """Learn from the photos and sentences of the training split, in one pass.

    Features that are missing are computed first and kept beside the data: a run that is stopped is soon where it was.
    """
    photos = _training_photos(dataset, chosen.train)
    recipe = recipe_of(chosen.text, chosen.vectors or None)  # missing word vectors are known before photos are encoded
    seen = _seen(dataset, photos, chosen, on_progress)
    sentences = sentence_vectors(dataset, seen.photos, recipe, train=chosen.train, on_progress=on_progress)
    _refuse_nothing(dataset, seen, sentences, chosen.train)
    model = CCA(chosen.components, chosen.regularisation, chosen.power)
    model.fit_blocks(_pairs(seen, sentences, on_progress))
    made_by = seen.store.contents
    encoder = EncoderOfBundle(made_by.encoder, made_by.fingerprint, chosen.crops)
    bundle = Bundle(encoder, sentences.features, model)
    return Fitted(bundle, len(seen.photos), len(sentences.rows), seen.left_out)


def card_of(dataset: Dataset, chosen: CCATraining, fitted: Fitted, dev: DevScores | None, seconds: float) -> str:
    """What people should know of a trained model, in Markdown."""
    from deixis.training.card import model_card  # torch comes with it
    from deixis.training.checkpoints import Best

    encoder = fitted.bundle.encoder
    learned_from = f"{fitted.photos:,}, with {fitted.sentences:,} sentences; {len(fitted.left_out):,} left out"
    used = {
        "photos learned from": learned_from,
        "encoder": f"{encoder.name} ({encoder.fingerprint})",
    }
    if dev:
        used[f"scored on {dev.split}"] = f"{dev.photos:,} photos; {len(dev.left_out):,} left out"
    facts = facts_of(dataset, chosen.train, *([dev.split] if dev else []))
    about = About("cca", settings_to_json(chosen), facts, _command(dataset, chosen), used)
    return model_card(about, None, Best(0, 0, "", dev.scores if dev else {}), seconds)


def _command(dataset: Dataset, chosen: CCATraining) -> str:
    """What trains the same model again."""
    plain = settings_to_json(CCATraining())
    changed = [f"{name}={value}" for name, value in settings_to_json(chosen).items() if value != plain[name]]
    words = ["deixis", "train", "cca", "--data", str(dataset.path)]
    return shlex.join([*words, *(word for each in changed for word in ("--set", each))])


def _training_photos(dataset: Dataset, split: str) -> Photos:
    if split not in dataset.manifest.splits:
        known = ", ".join(dataset.manifest.splits) or "none"
        raise DatasetError(
            f"{dataset.path}: no split {split!r} to learn from; it has: {known}; name another with --set train=NAME"
        )
    return dataset.split(split)


def _seen(dataset: Dataset, photos: Photos, chosen: CCATraining, on_progress: OnProgress) -> SeenPhotos:
    if chosen.features:
        return stored_photos(Path(chosen.features), dataset, photos, crops=chosen.crops)
    from deixis.vision.encoders import open_encoder

    return encode_photos(dataset, photos, open_encoder(chosen.encoder), crops=chosen.crops, on_progress=on_progress)


def _refuse_nothing(dataset: Dataset, seen: SeenPhotos, sentences: SentenceVectors, split: str) -> None:
    if not len(seen.photos):
        why = f", the first: {seen.left_out[0]}" if seen.left_out else ""
        raise DatasetError(f"{dataset.path}: no photo of split {split!r} has features{why}")
    if not len(sentences.rows):
        raise DatasetError(f"{dataset.path}: the photos of split {split!r} have no sentences to learn from")


def _pairs(seen: SeenPhotos, sentences: SentenceVectors, on_progress: OnProgress) -> Iterator[tuple[Floats, Floats]]:
    """The photo and the sentence of each pair, a block at a time."""
    total = len(sentences.rows)
    for block in blocks(total):
        owners = sentences.owner[block]
        first, last = int(owners[0]), int(owners[-1])
        photos = seen.vectors(first, last + 1)
        yield photos[owners - first], sentences.vectors[sentences.rows[block]]
        on_progress("learning from sentences", min(block.stop, total), total)
