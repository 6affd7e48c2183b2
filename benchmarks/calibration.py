"""Check the probabilities of search on each source apart: are they true, and does search refuse what is not there?

    python benchmarks/calibration.py DATA… [--split dev …] [--absent-from train] [--model NAME]
                                    [--coco-texts FOLDER] [--shipped] [--json]

Each DATA is a data set directory with captions, such as Flickr8k, COCO and IAPR TC-12; each of its splits that --split
names is a source. For each source, in an index of all its photos:

- the expected calibration error of the results shown, over queries of all kinds and texts about absent things
  together, and for words, phrases, actions and sentences alone;
- the fraction correct of the results shown at 60 % or more;
- how many queries of each kind find something, how many captions rank their own photo first (R@1 of the search), and
  how many of the 200 things in `absent_things.txt` find nothing. Those that a caption of the
  source names are left out.

A result is correct if the captions of the photo say so (`deixis.search.trial`). Captions do not name everything, so
the fractions correct are too low, most where a photo has few captions (IAPR TC-12).

The calibration is fitted on half of the photos of all sources and tested on queries of the other half, and the reverse.
With --shipped the calibration in the package is tested instead, on photos that it was fitted to. Intervals (95 %) are
bootstrapped over photos, and over queries for absent things.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scripts_path  # noqa: F401
from coco_texts import coco_facts
from fit_search import TESTED_LIST, make_trials, read_absent_list

from deixis.errors import DeixisError
from deixis.evaluation.intervals import bootstrap, mean_of
from deixis.search.calibration import Calibration
from deixis.search.encoder import PHOTO_MODEL, SENTENCE_KINDS, SearchEncoder
from deixis.search.fitting import OWN_FIRST, Score, TrialResult, evaluate_queries, halves, summarize
from deixis.search.trial import TrialQuery, absent_trial_queries, make_bank, read_sources

REFUSED = "absent things, nothing found"
ROWS = {
    "calibration error": "≤ 0.05",
    **{f"{kind} calibration error": "≤ 0.05" for kind in SENTENCE_KINDS},
    "sure results correct": "≥ 0.6",
    **{f"{kind}s find something": "" for kind in SENTENCE_KINDS},
    **{f"{kind}s, first result correct": "" for kind in SENTENCE_KINDS},
    OWN_FIRST: "",
    REFUSED: "≥ 0.85",
    f"{REFUSED}, where 85 % of words find something": "",
    f"{REFUSED}, where 85 % of sentences find something": "",
}
"""The scores that are printed, and their goals."""


def absent_scores(results: Sequence[TrialResult], present: TrialResult) -> dict[str, Score]:
    """Return how many absent things find nothing, at the cut-off and at those that let 85 % of queries find something.

    `results` has the absent things by each calibration; their mean counts.
    """
    refused = np.mean([~each.found for each in results], axis=0)
    best = np.mean([each.best for each in results], axis=0)
    rows = {REFUSED: refused}
    for kind in ("word", "sentence"):
        cut_off = np.quantile(present.best[present.kinds == kind], 0.15)
        rows[f"{REFUSED}, where 85 % of {kind}s find something"] = best < cut_off
    return {
        name: Score(float(values.mean()), bootstrap(mean_of(values), len(values)), len(values))
        for name, values in rows.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--split", nargs="+", default=["dev"], metavar="NAME")
    parser.add_argument("--absent-from", default="train", metavar="SPLIT")
    parser.add_argument("--model", default=PHOTO_MODEL, help="photo model, such as two-branch-fast")
    parser.add_argument("--coco-texts", type=Path, metavar="FOLDER", help="labels and boxes; see scripts/fit_search.py")
    parser.add_argument("--shipped", action="store_true", help="test the calibration in the package")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    encoder = SearchEncoder(options.model)
    facts = coco_facts(options.coco_texts) if options.coco_texts else None
    sources = read_sources(options.data, options.split, encoder, options.absent_from, facts)
    shipped = Calibration.for_models(encoder.fingerprint) if options.shipped else None
    if options.shipped and shipped is None:
        raise DeixisError("no calibration of the installed models: fit one with scripts/fit_search.py")
    bank = shipped.bank if shipped else make_bank(sources, encoder)
    trials = make_trials(sources, encoder, bank)
    absent: dict[str, list[TrialQuery]] = {}
    for source in sources:
        things = encoder.encode_sentences(read_absent_list(TESTED_LIST, source.photos.captions, skip_named=True))
        absent[source.name] = absent_trial_queries(things, source.photos, bank)
    if shipped:
        everything = {trial.name: np.ones(len(trial), dtype=bool) for trial in trials}
        fits = [(shipped, everything)]
    else:
        fits = list(halves(trials, encoder.fingerprint, bank))
    scores: dict[str, dict[str, Score]] = {}
    for trial in trials:
        parts = [
            evaluate_queries(calibration, [query for query in trial.queries if left_out[trial.name][query.photo]])
            for calibration, left_out in fits
        ]
        present = TrialResult.join(parts)
        of_things = [evaluate_queries(calibration, absent[trial.name]) for calibration, _ in fits]
        scores[trial.name] = summarize(present) | absent_scores(of_things, present)
    if options.json:
        document = {name: {row: score.as_json() for row, score in each.items()} for name, each in scores.items()}
        print(json.dumps({"fingerprint": encoder.fingerprint, "sources": document}, indent=1))
    else:
        print_table(scores)


def print_table(scores: dict[str, dict[str, Score]]) -> None:
    width = max(map(len, ROWS))
    print(f"{'':{width}} {'goal':>7}" + "".join(f"{name:>24}" for name in scores))
    for row, goal in ROWS.items():
        cells = []
        for of_source in scores.values():
            score = of_source.get(row)
            cells.append(f"{score.value:.3f} [{score.interval.low:.3f}, {score.interval.high:.3f}]" if score else "–")
        print(f"{row:{width}} {goal:>7}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
