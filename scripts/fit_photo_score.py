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
from fitting import Examples, balanced, cross_fit, fit
from scipy.stats import kendalltau, rankdata

from deixis.arrays import BoolArray, FloatArray, logistic
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
    logits = {
        form: cross_fit(examples(trials, columns, halves=True), range(len(columns))) for form, columns in FORMS.items()
    }
    for number, trial in enumerate(trials):
        print(f"\n{trial.name}: {len(trial.pairs):,} pairs, {trial.right.mean():.1%} right")
        for form, of_trials in logits.items():
            print(f"{form:45}", evaluate(trial, of_trials[number]))
    document: dict[str, object] = {"fingerprint": fingerprint()}
    for name, count in {"photo": PHOTO_FEATURES, "references": PHOTO_FEATURES + REFERENCE_FEATURES}.items():
        document[name] = fit(examples(trials, range(count), halves=False), range(count)).weights
    options.out.write_bytes(seal(document))
    print(f"\n{document}\nwritten: {options.out}")


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


def examples(trials: Sequence[Trial], columns: Sequence[int], *, halves: bool) -> list[Examples]:
    """Features with some of the references, and weights of each half; or with all references."""
    found = []
    for trial in trials:
        photo = np.array([pair.photo for pair in trial.pairs])
        rows, groups = (trial.rows, photo % 2) if halves else (trial.all_rows, None)
        found.append(Examples(rows[:, columns], trial.right, balanced(trial.right, groups), photo))
    return found


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
    error = calibration_error(logistic(logits), trial.right, balanced(trial.right))
    return (
        f"AUC {', '.join(parts)}; own above swapped {np.mean(swapped):.1%}; METEOR τc {tau:.3f}; "
        f"calibration error {error:.3f}"
    )


def area_under_curve(right: FloatArray, wrong: FloatArray) -> float:
    ranks = rankdata(np.concatenate([right, wrong]))[: len(right)]
    return float((ranks.sum() - len(right) * (len(right) + 1) / 2) / (len(right) * len(wrong)))


if __name__ == "__main__":
    main()
