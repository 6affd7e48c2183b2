"""Lists of absent things, and weights of photo scores."""

from __future__ import annotations

from pathlib import Path

import fit_photo_score
import pytest
from fit_search import read_absent_list
from named_things import NamedThings

from deixis.errors import DatasetError
from deixis.models.photo_score import ScoreWeights


def test_an_absent_list_must_not_name_things_in_captions(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("# things\n\na red giraffe | giraffe\na power line | power line, cable\n")
    assert read_absent_list(file, [["A power plant.", "A line."]]) == ["a red giraffe", "a power line"]
    assert read_absent_list(file, [["Two giraffes."]], skip_named=True) == ["a power line"]
    with pytest.raises(DatasetError, match="line 3: 'giraffe'"):
        read_absent_list(file, [["Two giraffes."]])
    with pytest.raises(DatasetError, match="line 4: "):
        read_absent_list(file, [["Cables."]])
    file.write_text("a giraffe\n")
    with pytest.raises(DatasetError, match="line 1 "):
        read_absent_list(file, [])


def test_no_thing_is_in_both_lists() -> None:
    folder = Path(__file__).parents[2] / "benchmarks"
    fitted = NamedThings([read_absent_list(folder / "absent_queries.txt", [])])
    lines = (folder / "absent_things.txt").read_text().splitlines()
    things = [line.partition("|")[2] for line in lines if line and not line.startswith("#")]
    assert [thing for thing in things if fitted.of(thing).any()] == []


THINGS = NamedThings([["Two Dogs run."], ["A hot dog.", "A bun."], ["Ripe oranges."], ["An orange cat on a hot day."]])


@pytest.mark.parametrize(
    ("phrases", "photos"),
    [
        ("dog", [0, 1]),
        ("dog, -hot dog", [0]),
        ("hot dog", [1]),
        ("dog hot", []),
        ("orange", [2, 3]),
        ("=oranges", [2]),
        ("=orange", [3]),
        ("zebra, cat", [3]),
        ("=dogs, -two dogs", []),
        ("og", []),
    ],
)
def test_things_are_named_by_phrases(phrases: str, photos: list[int]) -> None:
    assert THINGS.of(phrases).nonzero()[0].tolist() == photos


def test_weights_of_photo_scores_were_fitted_to_the_shipped_models() -> None:
    """Fails when a model was replaced: run scripts/fit_photo_score.py again."""
    weights = ScoreWeights.load()
    assert weights.photo.fingerprint == weights.references.fingerprint == fit_photo_score.fingerprint()
