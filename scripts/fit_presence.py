"""Fit the presence of a grounder to photos of several sources, evaluate it on each, and write it into the model.

python scripts/fit_presence.py DATA… [--split dev …] [--model grounder] [--photo-model two-branch] [--json FILE]

Each DATA is a data set directory with captions; each of its splits that --split names is a source. Their photos must
not have been used to train the models. Each photo is asked for

- own: phrases of its captions, those that have boxes where the data set has boxes;
- named: things of src/deixis/models/confusable_nouns.txt that its captions name;
- other: phrases of random other photos that its captions do not confirm;
- near: things of confusable_nouns.txt that it does not show although it shows another of their group;
- nearest: the two of these that are most similar to what it shows, such as a goat where it shows a sheep.

Half of the phrases are there: in all, of each entity type and of each group of things. Of the others, half are phrases
of other photos, a quarter near and a quarter nearest. All sources have the same weight. The evaluation fits on one half
of the photos of all sources and tests on the other, then the reverse; the weights that are written are fitted to all.
Run it again when two-branch or the encoder is replaced, and with --model grounder-fast for the fast encoder.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import cast

import numpy as np
from fitting import Examples, cross_fit, fit
from named_things import NamedThings

from deixis.arrays import BoolArray, FloatArray, Floats, IntArray, logistic
from deixis.cli.output import progress
from deixis.data.dataset import Dataset
from deixis.data.derived import named_splits
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.calibration import calibration_error
from deixis.evaluation.items import localization_items
from deixis.language.sentence import Phrase, Sentence
from deixis.models.base import read_regions
from deixis.models.grounder.model import PRESENCE, GrounderPipeline
from deixis.models.grounding import EmbeddingPipeline, load_embedding_model, load_grounding_model
from deixis.models.installed import model_folder
from deixis.models.presence import PresenceCalibration, PresenceModel, shipped_groups
from deixis.search.trial import Relevance, words_of
from deixis.storage.artifacts import fingerprint_artifact, read_config, write_config

OWN, NAMED, OTHER, NEAR, NEAREST = KINDS = ("own", "named", "other", "near", "nearest")
ABSENT_KINDS = {OWN: (OTHER,), NAMED: (NEAR, NEAREST)}
"""For the kinds of phrases that are there, those of comparable phrases that are not."""

_SCORES = (0, 1)
"""The features that are scores: their weights are not negative."""

_PER_PHOTO = 6
"""Phrases of a photo, and of others."""

_NEAR_PER_GROUP, _NEAREST_PER_GROUP = 4, 2
"""Absent things of a group for each photo that shows another."""

SURE, ABSENT = 0.6, 0.1


@dataclass(frozen=True)
class Question:
    """A phrase that a photo is asked for."""

    photo: int
    phrase: Phrase
    kind: str
    group: str  # of things, or the entity type


@dataclass(frozen=True)
class Source:
    """The questions of a source with their features, and the grounder's own figures."""

    name: str
    questions: Sequence[Question]
    features: Floats  # (questions, features)
    own_figures: FloatArray  # (questions,)

    @property
    def right(self) -> BoolArray:
        return np.array([question.kind in ABSENT_KINDS for question in self.questions])

    @property
    def photo(self) -> IntArray:
        return np.array([question.photo for question in self.questions])

    def of(self, kind: str, group: str = "") -> BoolArray:
        return np.array([each.kind == kind and group in ("", each.group) for each in self.questions])

    @property
    def groups(self) -> list[str]:
        """The groups of things."""
        return sorted({each.group for each in self.questions if each.kind == NEAREST})

    @property
    def weights(self) -> FloatArray:
        """The same total for phrases that are there and for others, in each group of things and each entity type."""
        found = np.zeros(len(self.questions))
        for present, kinds in ABSENT_KINDS.items():
            total = sum(self.of(kind).sum() for kind in (present, *kinds))
            for group in {question.group for question in self.questions}:
                there = self.of(present, group)
                absent = [chosen for kind in kinds if (chosen := self.of(kind, group)).any()]
                if there.any() and absent:
                    share = (there.sum() + sum(each.sum() for each in absent)) / total
                    found[there] = share / there.sum()
                    for each in absent:
                        found[each] = share / len(absent) / each.sum()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--split", nargs="+", default=["dev"], metavar="NAME")
    parser.add_argument("--model", default="grounder", help="grounder, grounder-fast, or the directory of a grounder")
    parser.add_argument("--photo-model", help="by default two-branch, or two-branch-fast with grounder-fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="only write the scores to FILE")
    options = parser.parse_args()
    grounder = cast(GrounderPipeline, load_grounding_model(options.model))
    name = options.photo_model or ("two-branch-fast" if grounder.encoder.is_fast else "two-branch")
    photo_model = load_embedding_model(name)
    if not isinstance(grounder, GrounderPipeline) or photo_model.encoder != grounder.encoder:
        raise DeixisError(f"{options.model}: must be a grounder with the image encoder of {name}")
    sources = list(read_sources(options.data, options.split, grounder, photo_model))
    asked = [examples(source) for source in sources]
    scores = {
        source.name: {"grounder alone": evaluate(source, source.own_figures)}
        | {"fitted": evaluate(source, logistic(logits))}
        for source, logits in zip(sources, cross_fit(asked, _SCORES), strict=True)
    }
    print_scores(scores)
    if options.json:
        options.json.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        return
    fingerprint = fingerprint_artifact(model_folder(name))
    fitted = PresenceCalibration(grounder.encoder.fingerprint, name, fingerprint, fit(asked, _SCORES).weights)
    others = [each for each in grounder.model.presence_calibrations if each.encoder != fitted.encoder]
    folder = model_folder(options.model)
    config = read_config(folder)
    config["settings"][PRESENCE] = [asdict(each) for each in (*others, fitted)]
    write_config(folder, config)
    print(f"{fitted}\nwritten: {folder}")


def read_sources(
    paths: Sequence[Path], splits: Sequence[str], grounder: GrounderPipeline, photo_model: EmbeddingPipeline
) -> Iterator[Source]:
    for name, dataset, split in named_splits(paths, splits):
        yield read_source(name, dataset, split, grounder, photo_model)


def read_source(
    name: str, dataset: Dataset, split: str, grounder: GrounderPipeline, photo_model: EmbeddingPipeline
) -> Source:
    model = PresenceModel(photo_model)
    questions, features, own_figures = [], [], []
    with progress("photos") as on_progress:
        seen = grounder.features(dataset, dataset.split(split), regions=True, on_progress=on_progress)
        photos = list(seen.photos)
        asked = sorted(ask(photos, photo_model), key=lambda question: question.photo)
        for photo, in_photo in groupby(asked, key=lambda question: question.photo):
            regions = read_regions(seen.store, photos[photo].id, grounder.provenance.max_proposals)
            questions += (these := list(in_photo))
            phrases = [question.phrase for question in these]
            scores = grounder.compare(grounder.encode_regions(regions), grounder.encode_phrases(phrases))
            own_figures.append(grounder.model.presence_probability(scores.max(axis=0)))
            features.append(model.features(regions, phrases))
            on_progress("asking photos", photo + 1, len(photos))
    return Source(name, questions, np.concatenate(features), np.concatenate(own_figures).astype(np.float64))


def ask(photos: Sequence[Photo], photo_model: EmbeddingPipeline, seed: int = 0) -> Iterator[Question]:
    """Yield the questions of all kinds."""
    rng = random.Random(seed)  # noqa: S311
    captions = [[caption.text for caption in photo.sentences] for photo in photos]
    phrases = [phrases_of(photo) for photo in photos]
    relevance, named = Relevance(captions), NamedThings(captions)
    for photo, own in enumerate(phrases):
        for phrase in rng.sample(own, min(_PER_PHOTO, len(own))):
            yield Question(photo, phrase, OWN, _entity_type(phrase))
        for other in rng.sample(range(len(photos)), min(_PER_PHOTO, len(photos))):
            if phrases[other]:
                phrase = rng.choice(phrases[other])
                if not relevance.of(phrase.text, [phrase.text])[photo]:
                    yield Question(photo, phrase, OTHER, _entity_type(phrase))
    for group in shipped_groups():
        things, name = group.things, group.name
        asked = [parse_phrases([thing.text])[0] for thing in things]
        vectors = photo_model.encode_sentences(asked)
        alike = vectors @ vectors.T
        surely = np.array([_named(named, thing.names) for thing in things])
        perhaps = surely | np.array([_named(named, thing.may_mean) for thing in things])
        for photo in np.flatnonzero(surely.any(axis=0)).tolist():
            for thing in np.flatnonzero(surely[:, photo]).tolist():
                yield Question(photo, asked[thing], NAMED, name)
        for photo in np.flatnonzero(surely.any(axis=0) & ~named.of(group.unless)).tolist():
            absent = np.flatnonzero(~perhaps[:, photo])
            absent = absent[np.argsort(-alike[surely[:, photo]][:, absent].max(axis=0), kind="stable")].tolist()
            nearest, others = absent[:_NEAREST_PER_GROUP], absent[_NEAREST_PER_GROUP:]
            for thing in nearest:
                yield Question(photo, asked[thing], NEAREST, name)
            for thing in rng.sample(others, min(_NEAR_PER_GROUP, len(others))):
                yield Question(photo, asked[thing], NEAR, name)


def phrases_of(photo: Photo) -> list[Phrase]:
    """The different phrases of the captions of a photo that have boxes, or else all that name something visible."""
    texts = [item.phrase for item in localization_items([photo])] or [
        phrase.text for caption in photo.sentences for phrase in Sentence(caption.text).phrases
    ]
    return parse_phrases(dict.fromkeys(text.lower() for text in texts if words_of(text)))


def parse_phrases(texts: Iterable[str]) -> list[Phrase]:
    """Those that `ground` asks for as one phrase."""
    return [found[0] for text in texts if len(found := Sentence(text).phrases) == 1]


def _entity_type(phrase: Phrase) -> str:
    return phrase.types[0] if phrase.types else "other"


def _named(named: NamedThings, names: str) -> BoolArray:
    return named.of(names) if names else named.of("-")


def examples(source: Source) -> Examples:
    return Examples(source.features, source.right, source.weights, source.photo)


def evaluate(source: Source, probabilities: FloatArray) -> dict[str, float]:
    """Calibration error, and which shares of each kind are shown as sure and as absent."""
    right, weights = source.right, source.weights
    chance = np.clip(np.where(right, probabilities, 1 - probabilities), 1e-9, None)
    scores = {
        "calibration error": calibration_error(probabilities, right, weights),
        "log loss": float(-(weights * np.log(chance)).sum() / weights.sum()),
    }

    def shares(name: str, chosen: BoolArray) -> None:
        if chosen.any():
            scores[f"{name} at {SURE:.0%} or more"] = float((probabilities[chosen] >= SURE).mean())
            scores[f"{name} below {ABSENT:.0%}"] = float((probabilities[chosen] < ABSENT).mean())

    for kind in KINDS:
        shares(kind, source.of(kind))
    shares("near and nearest", source.of(NEAR) | source.of(NEAREST))
    for group in source.groups:
        shares(f"near and nearest, {group}", source.of(NEAR, group) | source.of(NEAREST, group))
    return {name: round(score, 4) for name, score in scores.items()}


def print_scores(scores: dict[str, dict[str, dict[str, float]]]) -> None:
    columns = [(source, fitted) for source, both in scores.items() for fitted in both]
    rows = list(dict.fromkeys(row for both in scores.values() for each in both.values() for row in each))
    width = max(map(len, rows))
    print(f"{'':{width}}" + "".join(f"{source:>16}" for source, _ in columns))
    print(f"{'':{width}}" + "".join(f"{fitted:>16}" for _, fitted in columns))
    for row in rows:
        cells = (scores[source][fitted].get(row) for source, fitted in columns)
        print(f"{row:{width}}" + "".join(f"{'–' if cell is None else format(cell, '.3f'):>16}" for cell in cells))


if __name__ == "__main__":
    main()
