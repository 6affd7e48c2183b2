"""Fit the calibration of search, evaluate it by five-fold cross-validation over photos, and write it to the package.

python scripts/fit_search.py DATA [--split dev] [--absent-from train] [--picture docs/pictures/search-reliability.png]

DATA is a data set directory with captions and Entities phrases, whose photos were not used to train the shipped models.
Takes a few minutes once the features are cached. Run it again when two-branch or grounder is replaced.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from search_trial import (
    EncodedSplit,
    Mask,
    Relevance,
    TrialResult,
    absent_trial_queries,
    calibration_error,
    cross_validate,
    encode_split,
    evaluate_queries,
    fit_calibration,
    make_absent_queries,
    make_queries,
    photo_likeness,
    read_absent_list,
    reliability,
)

from deixis.cli.output import progress
from deixis.data.dataset import Dataset
from deixis.search.calibration import SHIPPED_FILE, Calibration
from deixis.search.encoder import SearchEncoder

LIST = Path(__file__).parents[1] / "benchmarks" / "absent_queries.txt"
KINDS = {"caption": "captions", "phrase": "their phrases", "absent": "captions and phrases of absent objects"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--absent-from", default="train")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path, default=SHIPPED_FILE)
    chosen = parser.parse_args()
    encoder, dataset = SearchEncoder(), Dataset(chosen.data)
    with progress("photos") as on_progress:
        seen = encode_split(dataset, chosen.split, encoder, on_progress)
        relevance = Relevance(seen.captions)
        texts = read_absent_list(LIST, seen.captions)
        queries = make_queries(seen, relevance, encoder, on_progress=on_progress)
        queries += make_absent_queries(dataset, chosen.absent_from, seen, relevance, encoder, exclude=texts)
        listed = absent_trial_queries(encoder.encode_sentences(texts), seen)
    counts = {kind: sum(query.kind == kind for query in queries) for kind in KINDS}
    print(f"{len(seen.whole):,} photos; queries: {counts}, and {len(listed)} of {LIST.name}")
    likeness = photo_likeness(seen, queries)
    results: list[TrialResult] = []

    def on_fold(fold: int, calibration: Calibration, left_out: Mask) -> None:
        for kind in KINDS:
            results.append(
                evaluate_queries(
                    calibration, [each for each in queries if each.kind == kind and left_out[each.photo]], kind
                )
            )
        results.append(evaluate_queries(calibration, listed, "listed"))
        found = {each.kind: f"{each.found.mean():.1%}" for each in results[-4:]}
        floor = calibration.threshold.at(len(left_out))
        print(f"fold {fold}: cut-off {1 / (1 + np.exp(-floor)):.3f}, finds something {found}", flush=True)

    cross_validate(queries, likeness, encoder.fingerprint, on_fold)
    report = summarize(results)
    print(json.dumps(report, indent=1))
    print_curve(results)
    if chosen.picture:
        plot_reliability(results, chosen.picture)
    everything = np.ones(len(seen.whole), dtype=bool)
    calibration = fit_calibration(queries, likeness, everything, encoder.fingerprint)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    calibration.save(chosen.out)
    print_sizes(calibration, seen, queries, listed)
    print(f"written: {chosen.out}")


def summarize(results: list[TrialResult]) -> dict[str, float]:
    """Summarize the results of all folds."""
    report: dict[str, float] = {}
    for kind in (*KINDS, "listed"):
        of_kind = [each for each in results if each.kind == kind]
        found = np.concatenate([each.found for each in of_kind])
        report[f"{kind}_queries"] = len(found)
        report[f"{kind}_find_something"] = round(float(found.mean()), 4)
        report[f"{kind}_first_hit_right"] = round(
            float(np.concatenate([each.first_correct for each in of_kind]).mean()), 4
        )
    probabilities, correct = shown_results(results, tuple(KINDS))
    report["hits"] = len(correct)
    report["hits_right"] = round(float(correct.mean()), 4)
    report["calibration_error"] = round(calibration_error(probabilities, correct), 4)
    for kind in ("caption", "phrase"):
        report[f"{kind}_calibration_error"] = round(calibration_error(*shown_results(results, (kind,))), 4)
    return report


def shown_results(results: list[TrialResult], kinds: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    chosen = [each for each in results if each.kind in kinds]
    return np.concatenate([each.probabilities for each in chosen]), np.concatenate([each.correct for each in chosen])


def print_curve(results: list[TrialResult]) -> None:
    """Print the effect of other cut-offs, over all folds."""
    best = {kind: np.concatenate([each.best for each in results if each.kind == kind]) for kind in (*KINDS, "listed")}
    print("captions that find something; phrases; absent objects that find nothing; cut-off")
    for kept in (0.98, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7):
        floor = float(np.quantile(best["caption"], 1 - kept))
        phrases, nothing = (best["phrase"] >= floor).mean(), (best["listed"] < floor).mean()
        print(f"  {kept:.0%}  {phrases:.1%}  {nothing:.1%}  {floor:.3f}")


def print_sizes(calibration: Calibration, seen: EncodedSplit, queries: list, listed: list) -> None:  # type: ignore[type-arg]
    """Print how often queries find something in smaller indexes, on the photos of the fit."""
    rng = np.random.default_rng(1)
    print("photos in the index: captions, phrases and absent objects that find something")
    captions = [each for each in queries if each.kind == "caption"][::5]
    phrases = [each for each in queries if each.kind == "phrase"][::5]
    for size in (*(size for size in (30, 100, 300) if size < len(seen.whole)), len(seen.whole)):
        shares = []
        for group in (captions, phrases, listed):
            found = []
            for query in group:
                indices = rng.choice(len(seen.whole), size, replace=False)
                if query.relevant.any():
                    indices = np.union1d(indices, [query.photo])
                logits = calibration.logits(query.evidence_of(indices), len(indices))
                found.append(logits.max() >= calibration.threshold.at(len(indices)))
            shares.append(f"{np.mean(found):.1%}")
        print(f"  {size:>6,}: {'  '.join(shares)}")


def plot_reliability(results: list[TrialResult], file: Path) -> None:
    """Plot the reliability of the results of held-out queries."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 4.6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for kinds, name, mark in (
        (tuple(KINDS), "all queries", "o"),
        (("caption",), "captions", "s"),
        (("phrase",), "phrases", "^"),
    ):
        bins = reliability(*shown_results(results, kinds))
        error = calibration_error(*shown_results(results, kinds))
        axes.plot(
            [b[0] for b in bins], [b[1] for b in bins], marker=mark, markersize=5, label=f"{name} (ECE {error:.3f})"
        )
    axes.set(xlabel="predicted probability", ylabel="fraction of correct results", xlim=(0, 1), ylim=(0, 1))
    axes.set_title("Results in 1,000 photos, five-fold cross-validation", fontsize=10)
    axes.legend(frameon=False, loc="upper left")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
