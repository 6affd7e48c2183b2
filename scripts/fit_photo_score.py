"""Fit the weights of `photo_score` and `ref_photo_score`, evaluate them, and write them to the package.

python scripts/fit_photo_score.py DATA… [--split dev] [--out FILE]

Each DATA is a data set directory with captions; its photos must not have been used to train the shipped models. Each
photo has six captions: one of its own, one of a random photo, three of similar photos, and its own with one noun
replaced by another of the same entity type that none of its captions has. Its own is right; one of another photo is
right if people's captions of the photo agree with it. Right and wrong captions have the same total weight. The
evaluation fits on one half of the photos of all data sets and tests on the other, then the reverse; the weights that
are written are fitted to all. Run it again when two-branch or grounder is replaced.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau, rankdata

from deixis.arrays import FloatArray
from deixis.cli.output import progress
from deixis.data.merging import dataset_name
from deixis.evaluation.calibration import Mask, calibration_error, logistic
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.captions.agreement import PeopleCaptions
from deixis.language.entity_types import EntityTypes
from deixis.language.tagger import tag
from deixis.models.evaluation import EvaluationData
from deixis.models.photo_score import PHOTO_FEATURES, SHIPPED_FILE, PhotoScorer, ScoredPhoto, ScoreWeights
from deixis.tokens import words

OWN, RANDOM, SIMILAR, SWAPPED = KINDS = ("own", "random", "similar", "swapped")
SIMILAR_PHOTOS, NEAREST = 30, 3
"""Captions come from a photo among the nearest 3, and from two among the nearest 30."""

REFERENCES = 2
"""References that `ref_photo_score` is evaluated with, because METEOR needs others; it is fitted to all of them."""

QUANTILES = (0.5, 0.8, 0.95)
"""METEOR is cut into four grades, like people's judgements."""

FORMS = {
    "caption": [0],
    "caption and phrases": [0, 1],
    "caption and regions": [0, 2],
    "caption, phrases and regions (photo_score)": [0, 1, 2],
    "references alone": [3, 4],
    "photo and nearest reference": [0, 1, 2, 3],
    "photo and references (ref_photo_score)": [0, 1, 2, 3, 4],
}


@dataclass(frozen=True)
class Pair:
    """A photo and a caption, with references that the caption is not one of."""

    photo: int
    kind: str
    text: str
    right: bool
    references: Sequence[str]


@dataclass(frozen=True)
class Trial:
    """The pairs of a data set with their features."""

    name: str
    pairs: Sequence[Pair]
    rows: FloatArray  # (pairs, features), with some of the references
    all_rows: FloatArray  # with all references
    meteor: FloatArray  # with references that are not among the features

    @property
    def second_half(self) -> Mask:
        return np.array([pair.photo % 2 == 1 for pair in self.pairs])

    @property
    def right(self) -> Mask:
        return np.array([pair.right for pair in self.pairs])

    def of(self, *kinds: str) -> Mask:
        return np.array([pair.kind in kinds for pair in self.pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--split", default="dev", metavar="NAME")
    parser.add_argument("--out", type=Path, default=SHIPPED_FILE)
    options = parser.parse_args()
    scorer = PhotoScorer.open(ScoreWeights("", (0.0,) * 4, (0.0,) * 6))
    trials = [make_trial(path, options.split, scorer) for path in options.data]
    for trial in trials:
        print(f"\n{trial.name}: {len(trial.pairs):,} pairs, {trial.right.mean():.1%} right")
        for form, columns in FORMS.items():
            print(f"{form:45}", evaluate(trial, cross_fitted(trials, trial, columns)))
    photo, references = ([*range(PHOTO_FEATURES)], [*range(trials[0].rows.shape[1])])
    weights = ScoreWeights(
        PhotoScorer.fingerprint(),
        *(tuple(fit(trials, [None] * len(trials), columns).round(4).tolist()) for columns in (photo, references)),
    )
    weights.save(options.out)
    print(f"\n{weights}\nwritten: {options.out}")


def make_trial(path: Path, split: str, scorer: PhotoScorer) -> Trial:
    with progress("photos") as on_progress:
        on = EvaluationData.open(path, split, on_progress=on_progress)
        photos = list(scorer.read_photos(on.features(scorer.region_model, regions=True)))
    captions = [[caption.text for caption in photo.sentences] for photo in on.photos]
    pairs = list(make_pairs(captions, photos))
    read = scorer.encode_captions(text for pair in pairs for text in (pair.text, *pair.references))

    def rows(references: int | None) -> FloatArray:
        found = []
        for pair in pairs:
            caption, others = read[pair.text], [read[text] for text in pair.references[:references]]
            of_photo = scorer.photo_features(photos[pair.photo], caption)
            found.append(np.concatenate([of_photo, scorer.reference_features(caption, others)]))
        return np.array(found)

    ids = [str(number) for number in range(len(pairs))]
    found = caption_scores(
        {number: pair.text for number, pair in zip(ids, pairs, strict=True)},
        {number: pair.references[REFERENCES:] for number, pair in zip(ids, pairs, strict=True)},
    )
    by_id = dict(zip(found.photos, found.per_photo["meteor"], strict=True))
    meteor = np.array([by_id[number] for number in ids])
    return Trial(dataset_name(path), pairs, rows(REFERENCES), rows(None), meteor)


def make_pairs(captions: Sequence[Sequence[str]], photos: Sequence[ScoredPhoto], seed: int = 0) -> Iterator[Pair]:
    """Yield the pairs of each photo."""
    rng = random.Random(seed)  # noqa: S311
    vectors = np.stack([photo.vector for photo in photos])
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    nouns = _nouns(captions)
    for photo, own in enumerate(captions):
        people = PeopleCaptions(own)
        chosen = rng.randrange(len(own))
        others = [text for index, text in enumerate(own) if index != chosen]
        rng.shuffle(others)
        near = np.argsort(-cosines[photo])[:SIMILAR_PHOTOS]
        stranger = rng.randrange(len(captions) - 1)
        stranger += stranger >= photo
        foreign = [(RANDOM, stranger), *((SIMILAR, int(rng.choice(near[:NEAREST]))) for _ in range(1))]
        foreign += [(SIMILAR, int(rng.choice(near))) for _ in range(2)]
        yield Pair(photo, OWN, own[chosen], True, others)
        for kind, other in foreign:
            text = rng.choice(captions[other])
            yield Pair(photo, kind, text, people.agree(words(text)), others)
        swapped = swap_noun(own[chosen], people, nouns, rng)
        if swapped:
            yield Pair(photo, SWAPPED, swapped, False, others)


def swap_noun(
    text: str, people: PeopleCaptions, nouns: dict[tuple[str, str], Counter[str]], rng: random.Random
) -> str | None:
    """Replace a noun by another of its type and number that people's captions do not have; None if there is none."""
    given = words(text)
    tags = tag(given)
    positions = [index for index, each in enumerate(tags) if each in ("NN", "NNS")]
    rng.shuffle(positions)
    for index in positions:
        known = nouns[_noun_type(given[index]), tags[index]]
        for _ in range(20):
            [other] = rng.choices([*known], [*known.values()])
            if not people.have(other):
                return " ".join([*given[:index], other, *given[index + 1 :]])
    return None


def _nouns(captions: Sequence[Sequence[str]]) -> dict[tuple[str, str], Counter[str]]:
    found: dict[tuple[str, str], Counter[str]] = {}
    for own in captions:
        for text in own:
            given = words(text)
            for word, kind in zip(given, tag(given), strict=True):
                if kind in ("NN", "NNS"):
                    found.setdefault((_noun_type(word), kind), Counter())[word] += 1
    return found


def _noun_type(word: str) -> str:
    types = EntityTypes.shipped().types_of([word])
    return types[0] if types else "other"


def fit(trials: Sequence[Trial], kept: Sequence[Mask | None], columns: Sequence[int]) -> FloatArray:
    """Fit a regression; data sets have the same weight, and in each of them right and wrong captions."""
    rows, answers, weights = [], [], []
    for trial, inside in zip(trials, kept, strict=True):
        chosen = np.ones(len(trial.pairs), dtype=bool) if inside is None else inside
        right = trial.right[chosen]
        features = trial.all_rows if inside is None else trial.rows
        rows.append(np.insert(features[chosen][:, columns], 0, 1.0, axis=1))
        answers.append(right)
        weights.append(np.where(right, 1 / right.sum(), 1 / (~right).sum()))
    joined = np.concatenate(rows).astype(np.float32)
    non_negative = range(1, joined.shape[1])
    return logistic(joined, np.concatenate(answers), np.concatenate(weights), non_negative=non_negative)


def cross_fitted(trials: Sequence[Trial], tested: Trial, columns: Sequence[int]) -> FloatArray:
    """The logits of a data set, each half by the fit to the other half of all data sets."""
    logits = np.zeros(len(tested.pairs))
    for second in (False, True):
        coefficients = fit(trials, [trial.second_half != second for trial in trials], columns)
        here = tested.second_half == second
        logits[here] = coefficients[0] + tested.rows[here][:, columns] @ coefficients[1:]
    return logits


def evaluate(trial: Trial, logits: FloatArray) -> str:
    """Area under the curve of own against other captions, share of own above swapped, rank correlation with METEOR."""
    own = logits[trial.of(OWN)]
    parts = [f"{kind} {area_under_curve(own, logits[trial.of(kind)]):.3f}" for kind in (RANDOM, SIMILAR, SWAPPED)]
    score_of = {pair.photo: score for pair, score in zip(trial.pairs, logits, strict=True) if pair.kind == OWN}
    swapped = [
        score_of[pair.photo] > score for pair, score in zip(trial.pairs, logits, strict=True) if pair.kind == SWAPPED
    ]
    foreign = trial.of(RANDOM, SIMILAR)
    grades = np.digitize(trial.meteor[foreign], np.quantile(trial.meteor[foreign], QUANTILES))
    tau = kendalltau(logits[foreign], grades, variant="c").statistic
    right = trial.right
    weights = np.where(right, 1 / right.sum(), 1 / (~right).sum())
    error = calibration_error(1 / (1 + np.exp(-logits)), right, weights)
    return (
        f"AUC {', '.join(parts)}; own above swapped {np.mean(swapped):.1%}; METEOR τc {tau:.3f}; "
        f"calibration error {error:.3f}"
    )


def area_under_curve(right: FloatArray, wrong: FloatArray) -> float:
    ranks = rankdata(np.concatenate([right, wrong]))[: len(right)]
    return float((ranks.sum() - len(right) * (len(right) + 1) / 2) / (len(right) * len(wrong)))


if __name__ == "__main__":
    main()
