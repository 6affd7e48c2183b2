"""Search by 172 short queries, kind by kind: nouns, attributes, counts, actions, negations, absent things and names.

    python benchmarks/queries.py PHOTOS TEXTS [--other CHECKOUT] [--indexes DIR] [--worst 5] [--json]

PHOTOS is a folder of photos of COCO train2017, named by their ids, such as 000000097465.jpg; TEXTS is a folder with
`captions.jsonl.xz`, `labels.jsonl.xz` and `boxes.jsonl.xz` of those photos, one JSON object with an `id` a line. With
1,000 photos that trained nothing the figures are those of docs/experiments/search.md. The queries and what is right
for each are in `queries.toml`.

For each kind, over queries with a right photo (others are left out): right photos among the first five, as a share of
the possible; how often the first result is right; how many queries find nothing; and the calibration error of the
results shown. Of absent things and names, how many find nothing. For pairs of a query with an attribute or a number and
its noun alone: how many of the photos that are right for the query are among the first ten of each, and how many
queries find fewer of them than the noun. With --other the same is done by the code of another
checkout in the same run. --indexes names a folder that keeps the indexes, so that a second run only searches. Captions
do not name everything, so shares are lower than what a person would say. Intervals (95 %) are bootstrapped over
queries.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scripts_path  # noqa: F401
from named_things import NamedThings

from deixis.evaluation.calibration import calibration_error
from deixis.evaluation.intervals import bootstrap, mean_of

FOLDER = Path(__file__).parent
TOP = 5
PAIRS, TOP_OF_PAIRS = "pairs", 10
TINY = 0.01
"""Smallest area of a box that is counted, as a share of the photo."""

ABSENT = ("absent", "names")
NUMBERS = {2: ("two", "couple of", "pair of"), 3: ("three",)}

SEARCH = """
import json, sys
import deixis
photos, into, queries = sys.argv[1:]
deixis.index_photos(photos, into=into)
collection = deixis.open_index(into)
found = {}
for query in json.load(open(queries)):
    try:
        hits = list(collection.search(query, top=1000))
    except deixis.DeixisError as error:
        hits = []
    found[query] = [[str(hit.path), hit.probability] for hit in hits]
print(json.dumps(found))
"""
"""What a checkout runs: all results of each query, with their probabilities."""


@dataclass(frozen=True)
class Texts:
    """Captions, labels and boxes of the photos, in one order."""

    things: NamedThings
    labels: Sequence[frozenset[str]]
    boxes: Sequence[Sequence[Sequence[Any]]]
    nouns: Mapping[str, str]

    def right(self, gold: str) -> np.ndarray:
        """Return which photos are right: (photos,)."""
        right = np.ones(len(self.labels), dtype=bool)
        for term in gold.split(" & "):
            right &= ~self._holds(term[1:].strip()) if term.startswith("!") else self._holds(term.strip())
        return right

    def _holds(self, term: str) -> np.ndarray:
        if term.startswith("@"):
            labelled = np.array([term[1:] in labels for labels in self.labels])
            return np.asarray(labelled | self.things.of(self.nouns[term[1:]]))
        if term.startswith("#"):
            number, noun = int(term[1]), term[3:]
            said = [self.things.near(word, noun) for word in NUMBERS[number]]
            return np.any([self._counted(noun) == number, *said], axis=0)
        if ".." in term or "|" in term:
            parts = [part.strip() for part in term.split("|")]
            return np.any([self._near(part) for part in parts], axis=0)
        return self.things.of(term)

    def _near(self, part: str) -> np.ndarray:
        first, dots, second = (each.strip() for each in part.partition(" .. "))
        if dots:
            return self.things.near(first, second)
        return self._holds(first)

    def _counted(self, noun: str) -> np.ndarray:
        of_class = [[box for box in boxes if box[0] == noun and area(box) > TINY] for boxes in self.boxes]
        return np.array([len(boxes) for boxes in of_class])


def area(box: Sequence[Any]) -> float:
    _, left, top, right, bottom = box
    return float((right - left) * (bottom - top))


def rows(file: Path, wanted: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["id"] in wanted:
                yield row


def read_texts(folder: Path, ids: Sequence[int]) -> Texts:
    at = {each: number for number, each in enumerate(ids)}
    captions: list[list[str]] = [[] for _ in ids]
    labels: list[frozenset[str]] = [frozenset() for _ in ids]
    boxes: list[list[Any]] = [[] for _ in ids]
    for row in rows(folder / "captions.jsonl.xz", at):
        captions[at[row["id"]]] = row["captions"]
    for row in rows(folder / "labels.jsonl.xz", at):
        labels[at[row["id"]]] = frozenset(row["labels"])
    for row in rows(folder / "boxes.jsonl.xz", at):
        boxes[at[row["id"]]] = row["boxes"]
    nouns = tomllib.loads((FOLDER / "nouns.toml").read_text(encoding="utf-8"))["coco"]
    return Texts(NamedThings(captions), labels, boxes, nouns)


def search(
    photos: Path, queries: Sequence[str], checkout: Path | None, index: Path | None = None
) -> dict[str, list[tuple[str, float]]]:
    """Index the photos and search them, in a process of its own, with the code of a checkout."""
    environment = dict(os.environ)
    if checkout:
        environment["PYTHONPATH"] = str(checkout / "src")
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "queries.json")
        listed.write_text(json.dumps(list(queries)), encoding="utf-8")
        into = index or Path(folder, "photos.deixis")
        command = [sys.executable, "-c", SEARCH, str(photos), str(into), str(listed)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {query: [(path, probability) for path, probability in hits] for query, hits in found.items()}


def score(
    kinds: Mapping[str, Mapping[str, str]],
    texts: Texts,
    ids: Sequence[int],
    found: Mapping[str, Sequence[tuple[str, float]]],
) -> dict[str, dict[str, Any]]:
    """Return the scores of each kind, and of its queries the right photos among the first five."""
    at = {each: number for number, each in enumerate(ids)}
    report: dict[str, dict[str, Any]] = {}
    for kind, queries in kinds.items():
        shares, first, nothing, stated, correct = {}, [], [], [], []
        queries = {query: gold for query, gold in queries.items() if kind in ABSENT or texts.right(gold).any()}
        for query, gold in queries.items():
            hits = [(at[int(Path(path).stem)], probability) for path, probability in found[query]]
            nothing.append(not hits)
            if kind in ABSENT:
                continue
            right = texts.right(gold)
            shares[query] = float(right[[photo for photo, _ in hits[:TOP]]].sum() / min(TOP, right.sum()))
            first.append(bool(hits) and bool(right[hits[0][0]]))
            stated += [probability for _, probability in hits]
            correct += [bool(right[photo]) for photo, _ in hits]
        report[kind] = {"queries": len(queries), "nothing found": mean(nothing)}
        if shares:
            report[kind] |= {
                f"in the first {TOP}": mean(list(shares.values())),
                "first right": mean(first),
                "results": len(stated),
                "stated": round(float(np.mean(stated)), 3),
                "right": round(float(np.mean(correct)), 3),
                "calibration error": round(calibration_error(np.array(stated), np.array(correct)), 3),
                "by query": shares,
            }
    return report


def score_pairs(
    pairs: Mapping[str, str],
    gold: Mapping[str, str],
    texts: Texts,
    ids: Sequence[int],
    found: Mapping[str, Sequence[tuple[str, float]]],
) -> dict[str, Any]:
    """Return the recall of queries and of their nouns, on the photos that are right for the query."""
    at = {each: number for number, each in enumerate(ids)}

    def recall(query: str, right: np.ndarray) -> float:
        first = [at[int(Path(path).stem)] for path, _ in found[query][:TOP_OF_PAIRS]]
        return float(right[first].sum() / min(TOP_OF_PAIRS, right.sum()))

    rights = {query: texts.right(gold[query]) for query in pairs}
    pairs = {query: noun for query, noun in pairs.items() if rights[query].any()}
    recalls = {query: (recall(query, rights[query]), recall(noun, rights[query])) for query, noun in pairs.items()}
    changes = {query: longer - noun for query, (longer, noun) in recalls.items()}
    return {
        "queries": len(pairs),
        f"recall@{TOP_OF_PAIRS}": mean([longer for longer, _ in recalls.values()]),
        "of the noun": mean([noun for _, noun in recalls.values()]),
        "below the noun": sum(change < 0 for change in changes.values()),
        "by query": changes,
    }


def mean(values: Sequence[float]) -> dict[str, float]:
    numbers = [float(value) for value in values]
    interval = bootstrap(mean_of(numbers), len(numbers))
    return {"value": float(np.mean(numbers)), "low": interval.low, "high": interval.high}


def shown(value: Any) -> str:
    return f"{value['value']:.2f} [{value['low']:.2f}, {value['high']:.2f}]" if isinstance(value, dict) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--other", type=Path, metavar="CHECKOUT", help="compare with the code of another checkout")
    parser.add_argument("--indexes", type=Path, metavar="DIR", help="folder that keeps the indexes")
    parser.add_argument("--worst", type=int, default=5, metavar="N", help="show the N worst queries of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds = tomllib.loads((FOLDER / "queries.toml").read_text(encoding="utf-8"))
    pairs = kinds.pop(PAIRS)
    gold = {query: right for queries in kinds.values() for query, right in queries.items()}
    ids = sorted(int(file.stem) for file in options.photos.iterdir() if file.stem.isdigit())
    texts = read_texts(options.texts, ids)
    wanted = [*gold, *dict.fromkeys(pairs.values())]
    checkouts = {"this": None, "other": options.other} if options.other else {"this": None}
    reports = {}
    for name, path in checkouts.items():
        index = options.indexes and options.indexes / f"{name}.deixis"
        found = search(options.photos, wanted, path, index)
        reports[name] = score(kinds, texts, ids, found) | {PAIRS: score_pairs(pairs, gold, texts, ids, found)}
    if options.json:
        print(json.dumps({"photos": len(ids), **reports}, indent=1))
        return
    for kind in reports["this"]:
        print(f"\n{kind}, {reports['this'][kind]['queries']} queries")
        for key in (key for key in reports["this"][kind] if key not in ("queries", "by query")):
            print(f"  {key:18}" + "   ".join(f"{name} {shown(report[kind][key])}" for name, report in reports.items()))
        worst = sorted(reports["this"][kind].get("by query", {}).items(), key=lambda item: item[1])[: options.worst]
        if worst:
            print("  worst             " + ", ".join(f"{query} {share:.2f}" for query, share in worst))


if __name__ == "__main__":
    main()
