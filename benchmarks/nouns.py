"""Search for single nouns: average precision and precision@5, by whole photos, by regions and by the whole search.

    python benchmarks/nouns.py DATA [--split dev] [--worst 10] [--json]

DATA is a data set directory with captions, made for COCO dev. The nouns are those of `nouns.toml`: the 80 categories of
COCO, 45 of them for precision@5, and 200 class names of ImageNet. A photo is relevant if one of its captions has the
noun or one of the synonyms in that file, by stems. Captions do not name everything that a photo shows, so all figures
are lower than what a person would say.

Precision@5 is divided by the best possible one: of a noun with two photos, two in the first five are 1. Nouns without a
relevant photo have no precision; for them the share of "nothing found" is printed. The whole search ranks by calibrated
probabilities and needs a calibration of the installed models. Intervals (95 %) are bootstrapped over nouns.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scripts_path  # noqa: F401
from named_things import NamedThings

from deixis.cli.output import progress
from deixis.data.dataset import Dataset
from deixis.evaluation.intervals import bootstrap, mean_of
from deixis.search.calibration import Calibration, Evidence, QueryBank
from deixis.search.encoder import SearchEncoder
from deixis.search.trial import encode_split

FILE = Path(__file__).parent / "nouns.toml"
TOP = 5
WHOLE, REGIONS, SEARCH = "whole photos", "regions", "search"


@dataclass(frozen=True)
class NounResult:
    """Scores of a noun by each ranking; None if no photo is relevant."""

    noun: str
    relevant: int
    precision: Mapping[str, float] | None
    average_precision: Mapping[str, float] | None
    found: bool | None  # whether the search has a result; None without a calibration


def precision_of_possible(relevant: np.ndarray, order: np.ndarray, top: int = TOP) -> float:
    """Return precision in the first results, divided by the best possible one.

    Examples
    --------
    >>> precision_of_possible(np.array([True, False, True]), np.array([0, 1, 2]), top=2)
    0.5
    """
    return float(relevant[order[:top]].sum() / min(top, relevant.sum()))


def average_precision(relevant: np.ndarray, order: np.ndarray) -> float:
    """Return the mean of the precision at the rank of each relevant photo.

    Examples
    --------
    >>> average_precision(np.array([True, False, True, False]), np.array([0, 1, 2, 3]))
    0.8333333333333333
    """
    ranks = np.flatnonzero(relevant[order]) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).mean())


def evaluate(
    nouns: Mapping[str, str],
    things: NamedThings,
    evidence: Sequence[Evidence],
    unknown: Sequence[bool],
    calibration: Calibration | None,
) -> list[NounResult]:
    """Rank all photos for each noun; `unknown` says which nouns a search refuses as unknown words."""
    results = []
    for (noun, phrases), of_noun, is_unknown in zip(nouns.items(), evidence, unknown, strict=True):
        relevant = things.of(phrases)
        scores = {WHOLE: of_noun.whole, REGIONS: of_noun.regions.mean(axis=1)}
        found = None
        if calibration:
            logits = scores[SEARCH] = calibration.logits(of_noun, len(relevant))
            found = bool(calibration.is_hit(logits, of_noun.words.kind).any()) and not is_unknown
        orders = {name: np.argsort(-each, kind="stable") for name, each in scores.items()}
        precision = precisions = None
        if relevant.any():
            precision = {name: precision_of_possible(relevant, order) for name, order in orders.items()}
            precisions = {name: average_precision(relevant, order) for name, order in orders.items()}
        results.append(NounResult(noun, int(relevant.sum()), precision, precisions, found))
    return results


def summarize(results: Sequence[NounResult]) -> dict[str, object]:
    """Return means with intervals over the nouns that some photo shows, and how often the search finds something."""
    present = [each for each in results if each.relevant]
    absent = [each for each in results if not each.relevant]
    report: dict[str, object] = {"nouns": len(results), "present": len(present)}
    for name in present[0].precision or ():
        report[name] = {
            f"precision@{TOP} of possible": _mean([each.precision[name] for each in present if each.precision]),
            "average precision": _mean([each.average_precision[name] for each in present if each.average_precision]),
        }
    if present[0].found is not None:
        report["present, found something"] = _mean([float(bool(each.found)) for each in present])
        if absent:
            report["absent, nothing found"] = _mean([float(not each.found) for each in absent])
    return report


def _mean(values: Sequence[float]) -> dict[str, float]:
    statistic = mean_of(values)
    interval = bootstrap(statistic, len(values))
    numbers = {"value": float(np.mean(values)), "low": interval.low, "high": interval.high}
    return {name: round(number, 4) for name, number in numbers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--worst", type=int, default=10, metavar="N", help="show the N worst nouns of each set")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    listed = tomllib.loads(FILE.read_text(encoding="utf-8"))
    coco, imagenet = listed["coco"], listed["imagenet"]
    sets = {
        f"{len(listed['everyday'])} everyday nouns": {noun: coco[noun] for noun in listed["everyday"]},
        f"{len(coco)} categories of COCO": coco,
        f"{len(imagenet)} classes of ImageNet": imagenet,
    }
    encoder = SearchEncoder()
    calibration = Calibration.for_models(encoder.fingerprint)
    with progress("photos") as on_progress:
        photos = encode_split(Dataset(options.data), options.split, encoder, on_progress)
    things = NamedThings(photos.captions)
    bank = calibration.bank if calibration else QueryBank.encode(np.zeros((1, encoder.dimension), np.float32), 1.0)
    reports = {}
    for name, nouns in sets.items():
        queries = encoder.encode_sentences(list(nouns))
        unknown = [query.is_unknown for query in queries]
        results = evaluate(nouns, things, photos.evidence(queries, bank), unknown, calibration)
        reports[name] = summarize(results)
        if not options.json:
            print_set(name, reports[name], results, options.worst)
    if options.json:
        print(json.dumps({"photos": len(photos.whole), "fingerprint": encoder.fingerprint, "sets": reports}, indent=1))
    elif calibration is None:
        print("no calibration of the installed models: fit one with scripts/fit_search.py")


def print_set(name: str, report: Mapping[str, object], results: Sequence[NounResult], worst: int) -> None:
    print(f"\n{name}: {report['present']} have a relevant photo")
    for key, value in report.items():
        if isinstance(value, dict) and "value" in value:
            print(f"  {key:28} {_shown(value)}")
        elif isinstance(value, dict):
            print(f"  {key:28} " + ", ".join(f"{score} {_shown(each)}" for score, each in value.items()))
    present = [each for each in results if each.precision and each.average_precision]
    ranking = SEARCH if SEARCH in (present[0].precision or {}) else WHOLE
    present.sort(key=lambda each: (each.average_precision or {})[ranking])
    shown = [f"{each.noun} {(each.average_precision or {})[ranking]:.2f} ({each.relevant})" for each in present[:worst]]
    if shown:
        print(f"  lowest average precision by {ranking}: " + ", ".join(shown))


def _shown(value: Mapping[str, float]) -> str:
    return f"{value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


if __name__ == "__main__":
    main()
