"""Fit the weights of `photo_score` and `ref_photo_score`, evaluate them, and write them to the package.

python scripts/fit_photo_score.py DATA… [--split dev] [--out FILE]

Each DATA is a data set directory with captions; its photos must not have been used to train the shipped models. Each
photo has twelve captions: one of its own, one of a random photo, nine of photos that are more or less similar, and its
own with one noun replaced by another of the same entity type that none of its captions has.

The weights are fitted to grades, like people's judgements: 1 for its own caption, 0.5 for the one with another noun,
and 0 to 0.8 for those of other photos, by the ranks of their METEOR, CIDEr and ROUGE-L with references that are no
features. The sum is then scaled so that the score is the probability that a caption is right, if half of all are: its
own is right, and one of another photo if people's captions of the photo agree with it. That changes no order.

The evaluation fits on one half of the photos of all data sets and tests on the other, then the reverse; the weights
that are written are fitted to all. Run it again when two-branch or grounder is replaced.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fitting import balanced
from scipy.stats import kendalltau, rankdata

from deixis.arrays import BoolArray, FloatArray, IntArray, logistic
from deixis.cli.output import progress
from deixis.data.derived import dataset_name
from deixis.evaluation.calibration import calibration_error
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.captions.people_captions import PeopleCaptions
from deixis.language.entity_types import EntityTypes
from deixis.language.tagger import tag
from deixis.models.calibrator import LogisticCalibrator
from deixis.models.evaluation import EvaluationData
from deixis.models.installed import model_folder
from deixis.models.photo_score import (
    PHOTO_FEATURES,
    PHOTO_MODEL,
    REFERENCE_FEATURES,
    REGION_MODEL,
    SHIPPED_FILE,
    PhotoScorer,
    ScoredPhoto,
    ScoreWeights,
)
from deixis.storage.artifacts import fingerprint_artifact
from deixis.storage.checksums import seal
from deixis.tokens import words

OWN, RANDOM, SIMILAR, SWAPPED = "own", "random", "similar", "swapped"
NEAREST = ((3, 3), (30, 4), (120, 2))
"""Captions come from 3 photos among the nearest 3, from 4 among the nearest 30 and from 2 among the nearest 120."""

OTHER_NOUN = 0.5
OTHER_PHOTO = 0.8
UNRELATED = 0.4
"""Grade of a caption with another noun; the highest of captions of other photos, of which this share has grade 0."""

REFERENCES = 2
"""References that `ref_photo_score` is evaluated with, because METEOR needs others; it is fitted to all of them."""

QUANTILES = (0.5, 0.8, 0.95)
"""METEOR is cut into four grades, like people's judgements."""

FORMS = {
    "caption": [0],
    "caption and mean of phrases": [0, 1, 3],
    "and best phrases (photo_score)": [0, 1, 2, 3, 4],
    "references alone": [5, 6],
    "photo and references (ref_photo_score)": [0, 1, 2, 3, 4, 5, 6],
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
    grades: FloatArray

    @property
    def half(self) -> IntArray:
        return np.array([pair.photo for pair in self.pairs]) % 2

    @property
    def right(self) -> BoolArray:
        return np.array([pair.right for pair in self.pairs])

    def of(self, *kinds: str) -> BoolArray:
        return np.array([pair.kind in kinds for pair in self.pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--split", default="dev", metavar="NAME")
    parser.add_argument("--out", type=Path, default=SHIPPED_FILE)
    options = parser.parse_args()
    not_fitted = LogisticCalibrator((0.0,))
    scorer = PhotoScorer.open(ScoreWeights(not_fitted, not_fitted))
    trials = [make_trial(path, options.split, scorer) for path in options.data]
    grades, right, half = (
        np.concatenate([getattr(trial, name) for trial in trials]) for name in ("grades", "right", "half")
    )
    rows = np.concatenate([trial.rows for trial in trials])
    for form, columns in FORMS.items():
        logits = np.zeros(len(rows))
        for other in (0, 1):
            fitted = fit(rows[half != other][:, columns], grades[half != other], right[half != other])
            logits[half == other] = fitted.logits(rows[half == other][:, columns])
        ends = np.cumsum([len(trial.pairs) for trial in trials])
        for trial, of_trial in zip(trials, np.split(logits, ends[:-1]), strict=True):
            print(f"{trial.name:12} {form:40} {evaluate(trial, of_trial)}")
    all_rows = np.concatenate([trial.all_rows for trial in trials])
    document: dict[str, object] = {"fingerprint": fingerprint()}
    for name, count in {"photo": PHOTO_FEATURES, "references": PHOTO_FEATURES + REFERENCE_FEATURES}.items():
        document[name] = fit(all_rows[:, :count], grades, right).weights
    options.out.write_bytes(seal(document))
    print(f"\n{document}\nwritten: {options.out}")


def fit(rows: FloatArray, grades: FloatArray, right: BoolArray) -> LogisticCalibrator:
    """Fit the order of captions to grades, then the probability that a caption is right to the same sum."""
    order = LogisticCalibrator.fit(rows.astype(np.float32), grades, non_negative=range(rows.shape[1]))
    sums = order.logits(rows)[:, None].astype(np.float32)
    constant, scale = LogisticCalibrator.fit(sums, right, balanced(right), non_negative=[0]).weights
    first, *others = order.weights
    return LogisticCalibrator((constant + scale * first, *(scale * weight for weight in others))).round()


def fingerprint() -> str:
    """Changes whenever the models do, so that the weights must be fitted again."""
    return "-".join(fingerprint_artifact(model_folder(name))[:16] for name in (PHOTO_MODEL, REGION_MODEL))


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
    order = np.argsort([int(number) for number in found.photos])
    scores = {name: np.asarray(values)[order] for name, values in found.per_photo.items()}
    return Trial(dataset_name(path), pairs, rows(REFERENCES), rows(None), scores["meteor"], grade(pairs, scores))


def grade(pairs: Sequence[Pair], scores: Mapping[str, FloatArray]) -> FloatArray:
    """Return how well each caption describes its photo, 0 to 1, given its scores with references."""
    kinds = np.array([pair.kind for pair in pairs])
    others = np.isin(kinds, (RANDOM, SIMILAR))
    grades = np.where(kinds == OWN, 1.0, OTHER_NOUN)
    mean = np.mean([rankdata(scores[name][others]) for name in ("meteor", "cider", "rouge_l")], axis=0)
    share = rankdata(mean) / others.sum()
    grades[others] = OTHER_PHOTO * np.maximum(share - UNRELATED, 0) / (1 - UNRELATED)
    return grades


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
        near = np.argsort(-cosines[photo])
        stranger = rng.randrange(len(captions) - 1)
        stranger += stranger >= photo
        foreign = [(RANDOM, stranger)]
        foreign += [(SIMILAR, int(rng.choice(near[:most]))) for most, count in NEAREST for _ in range(count)]
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


def evaluate(trial: Trial, logits: FloatArray) -> str:
    """Area under the curve of own against others, share of own above swapped, correlation with METEOR and grades."""
    own = logits[trial.of(OWN)]
    parts = [f"{kind} {area_under_curve(own, logits[trial.of(kind)]):.3f}" for kind in (RANDOM, SIMILAR, SWAPPED)]
    score_of = {pair.photo: score for pair, score in zip(trial.pairs, logits, strict=True) if pair.kind == OWN}
    swapped = [
        score_of[pair.photo] > score for pair, score in zip(trial.pairs, logits, strict=True) if pair.kind == SWAPPED
    ]
    foreign = trial.of(RANDOM, SIMILAR)
    grades = np.digitize(trial.meteor[foreign], np.quantile(trial.meteor[foreign], QUANTILES))
    tau = kendalltau(logits[foreign], grades, variant="c").statistic
    error = calibration_error(logistic(logits), trial.right, balanced(trial.right))
    return (
        f"AUC {', '.join(parts)}; own above swapped {np.mean(swapped):.1%}; METEOR τc {tau:.3f}; "
        f"grades τc {kendalltau(logits, trial.grades, variant='c').statistic:.3f}; calibration error {error:.3f}"
    )


def area_under_curve(right: FloatArray, wrong: FloatArray) -> float:
    ranks = rankdata(np.concatenate([right, wrong]))[: len(right)]
    return float((ranks.sum() - len(right) * (len(right) + 1) / 2) / (len(right) * len(wrong)))


if __name__ == "__main__":
    main()
