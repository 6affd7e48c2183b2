"""Make the long phrases of `deixis describe --long`: count them in captions, and calibrate their scores.

python scripts/make_long_phrases.py --dev DATA (--data DATA [DATA …] [--split train] | --bank FILE) [--out DIR]

The phrases are counted in the captions of --data (photos are not needed), or given with their counts in a text file. A
phrase describes a gold region of dev rightly if a mention of the region has its first noun, and people's captions of
the photo agree with it. The prior with the most regions whose best phrase is right is chosen, and the scores of the
best five are calibrated.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from describer_calibration import PRIORS, encode_gold_regions, fit_logistic
from phrase_counts import count_long_phrases

from deixis.data.dataset import Dataset
from deixis.evaluation.calibration import calibration_error
from deixis.evaluation.captions.people_captions import PeopleCaptions
from deixis.language.sentence import Sentence
from deixis.models.describer.description import LONG_PHRASES, Describer, DescriptionSettings, PhraseBank
from deixis.models.grounder.data import stem
from deixis.models.grounding import load_embedding_model
from deixis.storage.artifacts import write_artifact
from deixis.tokens import words

SHOWN = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--split", default="train")
    parser.add_argument("--bank", type=Path)
    parser.add_argument("--dev", type=Path, required=True, help="data set with boxes and the split dev")
    parser.add_argument("--out", type=Path, default=LONG_PHRASES)
    options = parser.parse_args()
    if options.bank:
        bank = PhraseBank.read(options.bank)
    else:
        photos = [photo for path in options.data for photo in Dataset(path).split(options.split)]
        bank = count_long_phrases(photos)
    print(f"{len(bank):,} phrases")
    describer = Describer(load_embedding_model("describer"), bank)
    settings = calibrate(describer, Dataset(options.dev))
    write_artifact(options.out, Describer(describer.pipeline, bank, settings).to_artifact())
    print(f"{settings}\nwritten: {options.out}")


def calibrate(describer: Describer, dataset: Dataset) -> DescriptionSettings:
    seen = describer.pipeline.features(dataset, dataset.split("dev")).require_all()
    gold = encode_gold_regions(describer, seen)
    people = [PeopleCaptions([caption.text for caption in photo.sentences]) for photo in seen.photos]
    tokens = [words(phrase) for phrase in describer.bank.phrases]
    heads = [_head(phrase) for phrase in describer.bank.phrases]

    def is_right(region: int, phrase: int) -> bool:
        return heads[phrase] in gold.named[region] and people[gold.photo[region]].agree(tokens[phrase])

    found = {}
    for prior in PRIORS:
        scores = Describer(describer.pipeline, describer.bank, replace(describer.settings, prior=prior)).scores(
            gold.visual
        )
        best = np.argsort(-scores, axis=1, kind="stable")[:, :SHOWN]
        right = np.array([[is_right(row, phrase) for phrase in some] for row, some in enumerate(best.tolist())])
        found[prior] = np.take_along_axis(scores, best, axis=1), right
        print(f"prior {prior}: best right {right[:, 0].mean():.1%}, one of {SHOWN} {right.any(axis=1).mean():.1%}")
    prior = max(found, key=lambda each: found[each][1][:, 0].mean())
    scores, right = found[prior]
    halves = gold.photo % 2 == 0
    scale, bias = fit_logistic(scores[halves], right[halves])
    other = DescriptionSettings(prior, scale, bias).probabilities(scores[~halves])
    print(f"calibration error on the other half: {calibration_error(other.ravel(), right[~halves].ravel()):.3f}")
    scale, bias = fit_logistic(scores, right)
    return replace(DescriptionSettings(prior), scale=scale, bias=bias)


def _head(phrase: str) -> str:
    """The stem of the last word of the first noun phrase."""
    phrases = Sentence(phrase).phrases
    first: Sequence[str] = phrases[0].words if phrases else words(phrase)
    return stem(first[-1]) if first else ""


if __name__ == "__main__":
    main()
