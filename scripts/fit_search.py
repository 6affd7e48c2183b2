"""Fit the calibration of search to photos of several sources, evaluate it on each, and write it to the package.

python scripts/fit_search.py DATA… [--split dev …] [--absent-from train] [--coco-texts FOLDER] [--picture FILE]
       [--model NAME] [--out FILE]

Each DATA is a data set directory with captions; each of its splits that --split names is a source. Their photos must
not have been used to train the shipped models. --coco-texts names a folder with `labels.jsonl.xz` and `boxes.jsonl.xz`
of COCO train2017, which say with the captions what its photos show.

The evaluation fits on one half of the photos of every source and tests
on queries of the other half, then the reverse; the calibration that is written is fitted to all. Takes a few minutes
once the features are cached. Run it again when two-branch or grounder is replaced.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coco_texts import coco_facts
from named_things import NamedThings

from deixis.cli.calibrate import print_scores
from deixis.cli.output import progress
from deixis.errors import DatasetError
from deixis.evaluation.calibration import calibration_error, reliability
from deixis.search.calibration import SHIPPED_FILE, QueryBank
from deixis.search.encoder import PHOTO_MODEL, SearchEncoder
from deixis.search.fitting import (
    TrialResult,
    evaluate_halves,
    fit_calibration,
    summarize,
)
from deixis.search.trial import Source, Trial, make_bank, make_trial, read_sources

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FITTED_LIST, TESTED_LIST = BENCHMARKS / "absent_queries.txt", BENCHMARKS / "absent_things.txt"
"""Lists of absent things: those that are fitted, where no caption names them, and those that are only tested."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--split", nargs="+", default=["dev"], metavar="NAME")
    parser.add_argument("--absent-from", default="train", metavar="SPLIT")
    parser.add_argument("--coco-texts", type=Path, metavar="FOLDER")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--model", default=PHOTO_MODEL, help="photo model, such as two-branch-fast")
    parser.add_argument("--out", type=Path, default=SHIPPED_FILE)
    options = parser.parse_args()
    encoder = SearchEncoder(options.model)
    with progress("photos") as on_progress:
        facts = coco_facts(options.coco_texts) if options.coco_texts else None
        sources = read_sources(
            options.data, options.split, encoder, options.absent_from, facts=facts, on_progress=on_progress
        )
    bank = make_bank(sources, encoder)
    trials = make_trials(sources, encoder, bank)
    results = evaluate_halves(trials, encoder.fingerprint, bank)
    print_scores({name: summarize(result) for name, result in results.items()})
    if options.picture:
        plot_reliability(results, options.picture)
    calibration = fit_calibration(trials, encoder.fingerprint, bank)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    calibration.save(options.out)
    for kind, weights in calibration.weights.items():
        print(f"{kind}: {weights}")
    print(f"people: {calibration.people}")
    print(f"written: {options.out}")


def make_trials(sources: Sequence[Source], encoder: SearchEncoder, bank: QueryBank) -> list[Trial]:
    """Create the queries of each source."""
    tested = read_absent_list(TESTED_LIST, [])
    trials = []
    for source in sources:
        with progress("queries") as on_progress:
            trial = make_trial(
                source,
                encoder,
                bank,
                absent_texts=read_absent_list(FITTED_LIST, source.photos.captions, skip_named=True),
                exclude=tested,
                on_progress=on_progress,
            )
        trials.append(trial)
        print(f"{trial.name}: {len(trial):,} photos, {len(trial.queries):,} queries", file=sys.stderr, flush=True)
    return trials


def read_absent_list(file: Path, captions: Iterable[Iterable[str]], *, skip_named: bool = False) -> list[str]:
    """Read queries for things that no caption names, from lines of the form "query | phrase, phrase".

    A query whose thing a caption names is an error; with `skip_named` it is left out.
    """
    named, found = NamedThings(captions), []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        query, _, phrases = (part.strip() for part in line.partition("|"))
        if not query or not phrases:
            raise DatasetError(f"{file}: line {number} must have the form 'query | thing, synonym'")
        if not named.of(phrases).any():
            found.append(query)
        elif not skip_named:
            raise DatasetError(f"{file}: line {number}: {phrases!r} is in a caption")
    return found


def plot_reliability(results: Mapping[str, TrialResult], file: Path) -> None:
    """Plot the reliability of the results of each source."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 4.6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for (name, result), mark in zip(results.items(), "os^Dv*", strict=False):
        bins = reliability(result.probabilities, result.correct)
        error = calibration_error(result.probabilities, result.correct)
        predicted, true = [each[0] for each in bins], [each[1] for each in bins]
        axes.plot(predicted, true, marker=mark, markersize=5, label=f"{name} (ECE {error:.3f})")
    axes.set(xlabel="predicted probability", ylabel="fraction of correct results", xlim=(0, 1), ylim=(0, 1))
    axes.set_title("Results by a fit to the other half of the photos", fontsize=10)
    axes.legend(frameon=False, loc="upper left")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
