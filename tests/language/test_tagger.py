"""The tagger and the chunker; their linear model against plain loops."""

from __future__ import annotations

import json
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deixis.errors import DeixisError
from deixis.language.tagger import (
    Chunker,
    FeatureRows,
    SequenceModel,
    Tagger,
    WordFacts,
    best_path,
    shape_of,
    spans_from_labels,
    tag,
)
from deixis.storage.artifacts import CONFIG, read_config
from tests.unchecked import without_checksums


def path_score(path: tuple[int, ...], scores: np.ndarray, steps: list[list[float]]) -> float:
    total, before = 0.0, len(steps) - 1
    for place, label in enumerate(path):
        total += scores[place, label] + steps[before][label]
        before = label
    return total


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 4))
def test_the_path_has_the_score_of_the_best_of_all_paths(seed: int, tokens: int, labels: int) -> None:
    numbers = np.random.default_rng(seed)
    scores = numbers.integers(-9, 10, (tokens, labels))
    steps = numbers.integers(-9, 10, (labels + 1, labels)).tolist()
    found = tuple(best_path(scores, steps, margin=36))
    best = max(path_score(path, scores, steps) for path in product(range(labels), repeat=tokens))
    assert path_score(found, scores, steps) == best


def test_positions_share_a_row_exactly_if_a_template_has_the_same_facts() -> None:
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


def test_rows_do_not_change_from_release_to_release() -> None:
    """The shipped weights were trained with these hashes."""
    rows = FeatureRows([((0, 0),), ((-1, 0), (0, 0))], bits=20)(WordFacts()(["A", "dog"]))
    assert sorted(rows.ravel().tolist()) == [427751, 507649, 842143, 942921]


@pytest.mark.parametrize(
    ("word", "shape"),
    [("dog", "lower"), ("Dog", "title"), ("BMX", "upper"), ("I", "title"), ("T-shirt", "title-"), ("3D", "digit"),
     ("iPod", "mixed"), ("-", "sign"), ("", "sign")],
)  # fmt: skip
def test_word_shapes_are_correct(word: str, shape: str) -> None:
    assert shape_of(word) == shape


@given(
    arrays(np.int8, (8, 2), elements=st.sampled_from([0, 0, 0, 1, -128, 127])),
    arrays(np.int32, (3, 2), elements=st.integers(-9, 9)),
)
def test_a_saved_model_is_loaded_unchanged(weights: np.ndarray, transitions: np.ndarray) -> None:
    model = SequenceModel(("B", "O"), weights, transitions, {"seed": 1})
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/tiny")
        back = SequenceModel.load(f"{folder}/tiny")
    assert (back.labels, back.about, back.bits) == (("B", "O"), {"seed": 1}, 3)
    np.testing.assert_array_equal(back.weights, weights)
    np.testing.assert_array_equal(back.transitions, transitions)


def test_long_runs_of_zeros_are_stored(tmp_path: Path) -> None:
    weights = np.zeros((2**17, 2), np.int8)
    weights[-1] = 5
    SequenceModel(("B", "O"), weights, np.zeros((3, 2), np.int32), {}).save(tmp_path / "tiny")
    np.testing.assert_array_equal(SequenceModel.load(tmp_path / "tiny").weights, weights)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="nothing"):
        SequenceModel.load(tmp_path / "nothing")


@pytest.mark.parametrize("settings", [{}, {"labels": ["B"], "bits": 1}, {"labels": ["B", "O"], "bits": 60}])
def test_a_model_with_inconsistent_settings_is_refused(tmp_path: Path, settings: dict[str, object]) -> None:
    SequenceModel(("B", "O"), np.ones((2, 2), np.int8), np.zeros((3, 2), np.int32), {}).save(tmp_path / "tiny")
    without_checksums(tmp_path)
    (tmp_path / "tiny" / CONFIG).write_text(json.dumps(read_config(tmp_path / "tiny") | {"settings": settings}))
    with pytest.raises(DeixisError, match="tiny"):
        SequenceModel.load(tmp_path / "tiny")


@pytest.mark.parametrize(
    ("sentence", "tags"),
    [
        ("A dog runs .", "DT NN VBZ ."),
        ("Two young men are playing football", "CD JJ NNS VBP VBG NN"),
        ("A man wearing a red hat holds a guitar .", "DT NN VBG DT JJ NN VBZ DT NN ."),
        ("The child 's hand", "DT NN POS NN"),
        ("She sits quietly in front of them", "PRP VBZ RB IN NN IN PRP"),
    ],
)
def test_simple_captions_are_tagged_correctly(sentence: str, tags: str) -> None:
    assert tag(sentence.split()) == tags.split()


@given(st.lists(st.text(max_size=8), max_size=12))
def test_any_tokens_get_one_known_tag_each(tokens: list[str]) -> None:
    tags = tag(tokens)
    assert len(tags) == len(tokens)
    assert set(tags) <= set(Tagger.shipped().model.labels)


@pytest.mark.parametrize(
    ("sentence", "chunks"),
    [
        ("A man in an orange hat .", ["A man", "an orange hat"]),
        ("A dog , a cat and a horse", ["A dog", "a cat", "a horse"]),
        ("A group of people watch the young boy 's dog", ["A group of people", "the young boy 's dog"]),
        ("She rides a bike through the park", ["She", "a bike", "the park"]),
        ("Running and jumping", []),
    ],
)
def test_simple_captions_are_chunked_as_in_the_data(sentence: str, chunks: list[str]) -> None:
    tokens = sentence.split()
    assert [" ".join(tokens[begin:end]) for begin, end in Chunker.shipped().chunks(tokens)] == chunks


@given(st.lists(st.text(max_size=8), max_size=12))
def test_chunks_of_any_tokens_are_in_order_and_do_not_overlap(tokens: list[str]) -> None:
    edges = [place for span in Chunker.shipped().chunks(tokens) for place in span]
    assert edges == sorted(edges)
    assert all(0 <= place <= len(tokens) for place in edges)
    assert all(begin < end for begin, end in Chunker.shipped().chunks(tokens))


def test_a_chunk_may_start_with_i() -> None:
    assert spans_from_labels(["O", "I", "I", "O", "I"]) == [(1, 3), (4, 5)]
