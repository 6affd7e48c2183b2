"""Files of photos and captions: scores of every pair, and how far they agree with people's ratings."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from deixis.arrays import FloatArray, IntArray
from deixis.data.dataset import Dataset
from deixis.data.documents import Value, parse_line, read_text
from deixis.data.formats.table import PHOTO_COLUMNS, SENTENCE_COLUMNS
from deixis.data.images import find_photos
from deixis.data.names import NameIndex, error_at_line, photo_stem
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.intervals import Counts, Result, Statistic, mean_over, number_units, values_of
from deixis.models.photo_score import score_captions
from deixis.storage.atomic import new_file, write_csv
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import words

RATING, REFERENCES = "rating", "references"
PROTOCOL = "mean probability that a caption is right; tau_c: Kendall's τc with the ratings; photos resampled"


@dataclass(frozen=True)
class CaptionPair:
    """A photo and a caption of a file."""

    photo: str  # as in the file
    caption: str
    references: tuple[str, ...] = ()
    rating: float | None = None  # by people; higher is better


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredPairs(Result):
    """The scores of pairs, and of the whole file: means in percent, and Kendall's τc of each with ratings, in percent.

    Attributes
    ----------
    pairs
        The pairs of the file.
    by_photo, with_references
        `photo_score` and `ref_photo_score` of each pair, from 0 to 1; nan without references.
    """

    pairs: Sequence[CaptionPair]
    by_photo: FloatArray
    with_references: FloatArray

    def rows(self) -> list[dict[str, Any]]:
        """Each pair with its scores."""
        found = []
        for pair, score, with_references in zip(self.pairs, self.by_photo, self.with_references, strict=True):
            row: dict[str, Any] = {"photo": pair.photo, "caption": pair.caption, "photo_score": round(float(score), 6)}
            if pair.references:
                row["ref_photo_score"] = round(float(with_references), 6)
            found.append(row if pair.rating is None else {**row, RATING: pair.rating})
        return found

    def as_json(self) -> dict[str, Any]:
        """Output of ``deixis evaluate pairs --json``, without the name of the file."""
        return {**super().as_json(), "pairs": self.rows()}

    def write(self, path: Path) -> None:
        """Write the pairs with their scores as CSV or JSON Lines, by the ending of the name."""
        check_pairs_file(path)
        rows = self.rows()
        if path.suffix == ".csv":
            known = ("photo", "caption", RATING, "photo_score", "ref_photo_score")
            names = [name for name in known if any(name in row for row in rows)]
            write_csv(path, [names, *([row.get(name) for name in names] for row in rows)])
            return
        with new_file(path) as unfinished:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            unfinished.write_text("".join(lines), encoding="utf-8", newline="")


def check_pairs_file(path: Path) -> None:
    if path.suffix not in (".csv", ".jsonl") or not path.absolute().parent.is_dir():
        raise DeixisError(f"--out {path}: must end in .csv or .jsonl, in a directory that exists")


def read_pairs(path: str | PathLike[str]) -> list[CaptionPair]:
    """Read pairs from a CSV file with a header, or from JSON Lines.

    Columns or keys are those of caption files (``image``, ``caption`` and their other names), ``rating`` (a number,
    optional) and, in JSON Lines, ``references`` (a list of captions, optional). Others are ignored.
    """
    file = Path(path)
    pairs = [_parse(record) for record in _records(file, read_text(file))]
    if not pairs:
        raise DatasetError(f"{file}: has no pairs of photo and caption")
    return pairs


def _records(file: Path, text: str) -> Iterator[Value]:
    if text.lstrip().startswith("{"):
        lines = enumerate(text.split("\n"), start=1)
        yield from (parse_line(line, number, file) for number, line in lines if line.strip())
        return
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
    try:
        for row in reader:
            if None in row or None in row.values():
                raise error_at_line(file, reader.line_num)("has another number of fields than the header")
            cells = {name: value for name, value in row.items() if value.strip()}
            yield Value(cells, f"{file}: line {reader.line_num}")
    except csv.Error as error:
        raise error_at_line(file, reader.line_num)(str(error)) from None


def _parse(record: Value) -> CaptionPair:
    photo, caption = (record.first_of(names) for names in (PHOTO_COLUMNS, SENTENCE_COLUMNS))
    if photo is None or caption is None:
        raise record.error("has no image, or no caption")
    references = tuple(text.text() for text in record.items_at(REFERENCES))
    rating = record.get(RATING)
    if rating and isinstance(rating.value, str):  # a cell of a table
        with suppress(ValueError):
            rating.value = float(rating.value)
    number = None if rating is None else rating.number()
    return CaptionPair(photo.nonblank_text(), caption.nonblank_text(), references, number)


def score_pairs(
    pairs: Sequence[CaptionPair],
    *,
    images: str | PathLike[str] | None = None,
    data: str | PathLike[str] | None = None,
    on_progress: OnProgress = no_progress,
) -> ScoredPairs:
    """Score pairs of photos and captions.

    Parameters
    ----------
    pairs
        The pairs. A reference with the words of the caption is not used.
    images
        Folder of the photos; by default they are those of the data set, or paths.
    data
        Data set whose captions are the references of pairs without any.
    on_progress
        Progress callback.
    """
    dataset = None if data is None else Dataset(Path(data), images=None if images is None else Path(images))
    if dataset is not None:
        photos, pairs = _from_dataset(dataset, pairs)
    else:
        photos = _photo_paths(pairs, None if images is None else Path(images))
    given = [_other_captions(pair) for pair in pairs]
    found = score_captions(photos, [pair.caption for pair in pairs], given, on_progress)
    by_photo = np.array([score for score, _ in found])
    with_references = np.array([np.nan if score is None else score for _, score in found])
    kept = [
        CaptionPair(pair.photo, pair.caption, tuple(own), pair.rating) for pair, own in zip(pairs, given, strict=True)
    ]
    unit, units = number_units(photos)
    statistics = _statistics(kept, unit, {"photo_score": by_photo, "ref_photo_score": with_references})
    return ScoredPairs(
        about={"protocol": PROTOCOL, "n": len(kept), "photos": units},
        scores=values_of(statistics, units),
        statistics=statistics,
        units=units,
        pairs=kept,
        by_photo=by_photo,
        with_references=with_references,
    )


def _other_captions(pair: CaptionPair) -> list[str]:
    own = words(pair.caption)
    return [text for text in pair.references if words(text) != own]


def _from_dataset(dataset: Dataset, pairs: Sequence[CaptionPair]) -> tuple[list[Path], list[CaptionPair]]:
    """The photo files of pairs, and the pairs with the captions of the data set as references."""
    paths, found = [], []
    for pair in pairs:
        photo = dataset.find_photo(pair.photo)
        paths.append(dataset.path_of(photo))
        references = pair.references or tuple(caption.text for caption in photo.sentences)
        found.append(CaptionPair(pair.photo, pair.caption, references, pair.rating))
    return paths, found


def _photo_paths(pairs: Sequence[CaptionPair], folder: Path | None) -> list[Path]:
    """The photo files of pairs; names in a folder may have another image suffix, or none."""
    found: dict[str, Path] = {}
    index: NameIndex[Path] | None = None
    for name in dict.fromkeys(pair.photo for pair in pairs):
        path = Path(name) if folder is None else folder / name
        if not path.is_file() and folder is not None:
            index = index or NameIndex({photo_stem(each.name): each for each in find_photos(folder)})
            path = index.find(photo_stem(name)) or path
        if not path.is_file():
            where = "give the folder of the photos with --images DIR" if folder is None else f"not in {folder}"
            raise DatasetError(f"photo {name}: no such file; {where}")
        found[name] = path
    return [found[pair.photo] for pair in pairs]


def _statistics(pairs: Sequence[CaptionPair], unit: IntArray, scores: Mapping[str, FloatArray]) -> dict[str, Statistic]:
    """Mean and rank correlation of the scores that pairs have, as statistics over photos."""
    ratings = np.array([np.nan if pair.rating is None else pair.rating for pair in pairs])
    n = int(unit.max()) + 1
    found: dict[str, Statistic] = {}
    for name, values in scores.items():
        there = np.isfinite(values)
        if not there.any():
            continue
        found[name] = mean_over(100 * values[there], unit[there], n)
        rated = there & np.isfinite(ratings)
        if len(set(ratings[rated])) > 1:
            found[f"{name}_tau_c"] = _tau_c(values[rated], ratings[rated], unit[rated])
    return found


def _tau_c(scores: FloatArray, ratings: FloatArray, unit: FloatArray) -> Statistic:
    """Kendall's τc in percent, over the pairs of the drawn photos; 0 if they have one rating."""
    from scipy.stats import kendalltau

    def of_sample(counts: FloatArray) -> float:
        drawn = np.repeat(np.arange(len(unit)), counts[unit].astype(np.int64))
        if len(set(ratings[drawn])) < 2:
            return 0.0
        return 100 * float(kendalltau(scores[drawn], ratings[drawn], variant="c").statistic)

    def statistic(counts: Counts) -> FloatArray:
        return np.array([of_sample(each) for each in counts])

    return statistic
