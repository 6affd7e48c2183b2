"""Fit how certain a search is, judge it by five-fold cross-validation over photos, and put it into the package.

python scripts/fit_search.py DATA [--split dev] [--absent-from train] [--picture docs/pictures/search-reliability.png]

DATA is a data set directory with captions and Entities phrases, whose photos the shipped models have not learned from.
A few minutes, once the features are there. Run it again whenever two-branch or grounder is replaced.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from deixis.cli.output import progress
from deixis.data.dataset import Dataset
from deixis.tasks.search.fit_probability import (
    Judged,
    calibration_error,
    cross_validate,
    fit_certainty,
    judge,
    reliability,
)
from deixis.tasks.search.probability import SHIPPED_FILE, Certainty
from deixis.tasks.search.relevance import Mask, Relevance
from deixis.tasks.search.seeing import Seer
from deixis.tasks.search.trial import (
    SeenSplit,
    absent_as_asked,
    absent_queries,
    likeness_of,
    queries_of,
    read_list,
    see_split,
)

LIST = Path(__file__).parents[1] / "benchmarks" / "absent_queries.txt"
KINDS = {"caption": "captions", "phrase": "their phrases", "absent": "captions and phrases of things not there"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--absent-from", default="train")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path, default=SHIPPED_FILE)
    chosen = parser.parse_args()
    seer, dataset = Seer(), Dataset(chosen.data)
    with progress("photos") as on_progress:
        seen = see_split(dataset, chosen.split, seer, on_progress)
        relevance = Relevance(seen.captions)
        texts = read_list(LIST, seen.captions)
        queries = queries_of(seen, relevance, seer, on_progress=on_progress)
        queries += absent_queries(dataset, chosen.absent_from, seen, relevance, seer, but=texts)
        listed = absent_as_asked(seer.read_all(texts), seen)
    counts = {kind: sum(query.kind == kind for query in queries) for kind in KINDS}
    print(f"{len(seen.whole):,} photos; queries: {counts}, and {len(listed)} of {LIST.name}")
    likeness = likeness_of(seen, queries)
    judged: list[Judged] = []

    def on_fold(fold: int, certainty: Certainty, left_out: Mask) -> None:
        for kind in KINDS:
            judged.append(
                judge(certainty, [each for each in queries if each.kind == kind and left_out[each.photo]], kind)
            )
        judged.append(judge(certainty, listed, "listed"))
        told = {each.kind: f"{each.found.mean():.1%}" for each in judged[-4:]}
        floor = certainty.cut_off.at(len(left_out))
        print(f"fold {fold}: cut-off {1 / (1 + np.exp(-floor)):.3f}, finds something {told}", flush=True)

    cross_validate(queries, likeness, seer.fingerprint, on_fold)
    report = told_of(judged)
    print(json.dumps(report, indent=1))
    print_curve(judged)
    if chosen.picture:
        draw(judged, chosen.picture)
    everything = np.ones(len(seen.whole), dtype=bool)
    certainty = fit_certainty(queries, likeness, everything, seer.fingerprint)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    certainty.save(chosen.out)
    sizes(certainty, seen, queries, listed)
    print(f"written: {chosen.out}")


def told_of(judged: list[Judged]) -> dict[str, float]:
    """The figures, over all folds."""
    report: dict[str, float] = {}
    for kind in (*KINDS, "listed"):
        of_kind = [each for each in judged if each.kind == kind]
        found = np.concatenate([each.found for each in of_kind])
        report[f"{kind}_queries"] = len(found)
        report[f"{kind}_find_something"] = round(float(found.mean()), 4)
        report[f"{kind}_first_hit_right"] = round(
            float(np.concatenate([each.first_right for each in of_kind]).mean()), 4
        )
    probabilities, right = shown_hits(judged, tuple(KINDS))
    report["hits"] = len(right)
    report["hits_right"] = round(float(right.mean()), 4)
    report["calibration_error"] = round(calibration_error(probabilities, right), 4)
    for kind in ("caption", "phrase"):
        report[f"{kind}_calibration_error"] = round(calibration_error(*shown_hits(judged, (kind,))), 4)
    return report


def shown_hits(judged: list[Judged], kinds: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    chosen = [each for each in judged if each.kind in kinds]
    return np.concatenate([each.probabilities for each in chosen]), np.concatenate([each.right for each in chosen])


def print_curve(judged: list[Judged]) -> None:
    """What other cut-offs would give, all folds together."""
    best = {kind: np.concatenate([each.best for each in judged if each.kind == kind]) for kind in (*KINDS, "listed")}
    print("captions that find something; phrases; things of the list that find nothing; cut-off")
    for kept in (0.98, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7):
        floor = float(np.quantile(best["caption"], 1 - kept))
        phrases, nothing = (best["phrase"] >= floor).mean(), (best["listed"] < floor).mean()
        print(f"  {kept:.0%}  {phrases:.1%}  {nothing:.1%}  {floor:.3f}")


def sizes(certainty: Certainty, seen: SeenSplit, queries: list, listed: list) -> None:  # type: ignore[type-arg]
    """How often something is found in smaller indexes; fitted to the same photos."""
    rng = np.random.default_rng(1)
    print("photos in the index: captions, phrases and things of the list that find something")
    captions = [each for each in queries if each.kind == "caption"][::5]
    phrases = [each for each in queries if each.kind == "phrase"][::5]
    for size in (*(size for size in (30, 100, 300) if size < len(seen.whole)), len(seen.whole)):
        told = []
        for group in (captions, phrases, listed):
            found = []
            for query in group:
                places = rng.choice(len(seen.whole), size, replace=False)
                if query.shown.any():
                    places = np.union1d(places, [query.photo])
                logits = certainty.of(query.evidence.at(places), len(places))
                found.append(logits.max() >= certainty.cut_off.at(len(places)))
            told.append(f"{np.mean(found):.1%}")
        print(f"  {size:>6,}: {'  '.join(told)}")


def draw(judged: list[Judged], file: Path) -> None:
    """Said and true, for the hits of queries that were left out."""
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
        bins = reliability(*shown_hits(judged, kinds))
        error = calibration_error(*shown_hits(judged, kinds))
        axes.plot(
            [b[0] for b in bins], [b[1] for b in bins], marker=mark, markersize=5, label=f"{name} (ECE {error:.3f})"
        )
    axes.set(xlabel="probability that search tells", ylabel="share of hits that are right", xlim=(0, 1), ylim=(0, 1))
    axes.set_title("Hits in 1,000 photos, five-fold cross-validation", fontsize=10)
    axes.legend(frameon=False, loc="upper left")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
