"""The linear model under the tagger and the chunker, against plain loops."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.sequence import (
    FeatureRows,
    SequenceModel,
    WordFacts,
    best_path,
    load_shipped,
    save_model,
    shape_of,
)


def worth(path: tuple[int, ...], scores: np.ndarray, steps: list[list[float]]) -> float:
    total, before = 0.0, len(steps) - 1
    for place, label in enumerate(path):
        total += scores[place, label] + steps[before][label]
        before = label
    return total


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 4))
def test_the_path_found_is_worth_as_much_as_the_best_of_all_paths(seed: int, tokens: int, labels: int) -> None:
    numbers = np.random.default_rng(seed)
    scores = numbers.integers(-9, 10, (tokens, labels))
    steps = numbers.integers(-9, 10, (labels + 1, labels)).tolist()
    found = tuple(best_path(scores, steps, margin=36))
    best = max(worth(path, scores, steps) for path in product(range(labels), repeat=tokens))
    assert worth(found, scores, steps) == best


def test_a_sentence_without_tokens_has_an_empty_path() -> None:
    assert best_path(np.zeros((0, 3)), [[0.0] * 3] * 4, margin=1) == []


def test_places_share_a_row_exactly_where_a_template_sees_the_same_facts() -> None:
    templates = [((0, 0),), ((-1, 0), (0, 1)), ((-1, 2), (0, 0), (1, 2)), ((2, 0),)]
    facts = WordFacts()(["A", "dog", "and", "a", "dog"])

    def seen(place: int, offset: int, column: int) -> int:
        return int(facts[place + offset, column]) if 0 <= place + offset < len(facts) else -1

    by_loop = {
        (number, *(seen(place, *part) for part in template))
        for place in range(len(facts))
        for number, template in enumerate(templates)
    }
    rows = FeatureRows(templates, bits=40)(facts)
    assert rows.shape == (len(facts), len(templates))
    assert len(set(rows.ravel().tolist())) == len(by_loop) < rows.size


def test_the_same_words_give_the_same_rows_wherever_they_stand_in_a_longer_sentence() -> None:
    rows = FeatureRows([((0, 0),), ((-1, 0), (0, 0), (1, 0))], bits=16)
    facts = WordFacts()
    once = rows(facts(["a", "red", "dog"]))
    later = rows(facts(["see", "a", "red", "dog", "run"]))
    assert (once[1] == later[2]).all()
    assert (once[0] != later[1]).any()


def test_rows_do_not_change_from_release_to_release() -> None:
    """The weights that ship are of use only with the very hash they were learned with."""
    rows = FeatureRows([((0, 0),), ((-1, 0), (0, 0))], bits=20)(WordFacts()(["A", "dog"]))
    assert sorted(rows.ravel().tolist()) == EXPECTED_ROWS


EXPECTED_ROWS = [427751, 507649, 842143, 942921]


@pytest.mark.parametrize(
    ("word", "shape"),
    [("dog", "lower"), ("Dog", "title"), ("BMX", "upper"), ("I", "title"), ("T-shirt", "title-"), ("3D", "digit"),
     ("iPod", "mixed"), ("-", "sign"), ("", "sign")],
)  # fmt: skip
def test_the_shape_of_a_word(word: str, shape: str) -> None:
    assert shape_of(word) == shape


def test_a_model_comes_back_from_its_files_without_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SequenceModel(("B", "O"), np.array([[1, -2], [3, 4]], np.int8), np.zeros((3, 2), np.int32), {"seed": 1})
    (tmp_path / "models").mkdir()
    save_model(model, tmp_path / "models" / "tiny")
    monkeypatch.setattr("deixis.language.sequence.files", lambda _: tmp_path)
    back = load_shipped("tiny")
    assert (back.labels, back.about, back.bits) == (("B", "O"), {"seed": 1}, 1)
    assert (back.weights == model.weights).all()
    assert (back.transitions == model.transitions).all()


def test_a_model_that_is_not_there_is_one_line() -> None:
    with pytest.raises(DeixisError, match="the model 'nothing' is not there"):
        load_shipped("nothing")
