"""Ranks against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deixis.errors import DeixisError
from deixis.evaluation import ranks as ranks_module
from deixis.evaluation import score_matrix as scores_module
from deixis.evaluation.ranks import compute_ranks, make_pairs, positive_pairs, shortlist_ranks
from deixis.evaluation.score_matrix import ScoreBlocks


def plain_rank(scores, right, candidates):
    """Rank by the definition, one candidate after another."""
    if not right:
        return float("nan")
    listed = [c for c in candidates if c in right]
    if not listed:
        return float("inf")
    best = max(scores[c] for c in listed)
    return 1.0 + sum(scores[c] >= best for c in candidates if c not in right)


def plain_ranks(scores, right_cells, ignored_cells=()):
    height, width = scores.shape
    cells = [(r, c) for r in range(height) for c in range(width) if (r, c) not in ignored_cells]
    rows = [
        plain_rank(scores[row], {c for r, c in right_cells if r == row}, [c for r, c in cells if r == row])
        for row in range(height)
    ]
    columns = [
        plain_rank(scores[:, column], {r for r, c in right_cells if c == column}, [r for r, c in cells if c == column])
        for column in range(width)
    ]
    return rows, columns


@st.composite
def problems(draw):
    """Matrices with many equal scores, and any sets of right and of ignored cells."""
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    scores = draw(hnp.arrays(np.float32, shape, elements=st.integers(-2, 2).map(float)))
    cells = st.sets(st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1)))
    right = draw(cells)
    return scores, right, draw(cells) - right


def pairs_from(cells, shape):
    return make_pairs([r for r, _ in cells], [c for _, c in cells], shape)


def same(found, expected):
    return np.array_equal(found, expected, equal_nan=True)


@given(problems())
def test_ranks_agree_with_a_plain_loop(problem):
    scores, right, ignored = problem
    found = compute_ranks(scores, pairs_from(right, scores.shape), pairs_from(ignored, scores.shape))
    rows, columns = plain_ranks(scores, right, ignored)
    assert same(found.rows, rows)
    assert same(found.columns, columns)


@pytest.mark.parametrize("cells", [1, 7, 40])
@settings(max_examples=60)
@given(problem=problems())
def test_ranks_do_not_depend_on_the_block_size(cells, problem):
    scores, right, _ = problem
    pairs = pairs_from(right, scores.shape)
    blocks = ScoreBlocks(scores.shape, lambda begin, end: scores[begin:end])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores_module, "_CELLS_PER_BLOCK", cells)
        patch.setattr(ranks_module, "_CELLS_PER_TASK", cells)
        patch.setattr(ranks_module, "_BYTES_IN_CACHE", 4 * cells)
        found = compute_ranks(blocks, pairs)
    rows, columns = plain_ranks(scores, right)
    assert same(found.rows, rows)
    assert same(found.columns, columns)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ">f4", ">f2", np.int8, np.int64, np.uint8, np.uint64]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_type_of_number_and_order_in_memory_gives_the_same_ranks(dtype, order):
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 20, size=(31, 62))
    owners = rng.integers(0, 31, size=62)
    rows, columns = plain_ranks(numbers, {(owner, s) for s, owner in enumerate(owners.tolist())})
    found = compute_ranks(np.asarray(numbers, dtype=dtype, order=order), positive_pairs(owners, 31))
    assert same(found.rows, rows)
    assert same(found.columns, columns)


@pytest.mark.parametrize("right", [np.int64(2**60 + 1), np.uint64(2**64 - 1), np.float64(1 + 1e-12)])
def test_scores_that_differ_in_the_last_digit_are_distinguished(right):
    wrong = np.nextafter(right, 0) if isinstance(right, np.float64) else right - right.dtype.type(1)
    scores = np.array([[right, wrong], [wrong, right]])
    found = compute_ranks(scores, positive_pairs([0, 1]))
    assert found.rows.tolist() == found.columns.tolist() == [1, 1]
    assert shortlist_ranks(scores, positive_pairs([0, 1]), [[0, 1], [0, 1]]).tolist() == [1, 1]


def test_duplicate_pairs_count_once():
    scores = np.array([[1.0, 1.0], [0.0, 1.0]])
    assert compute_ranks(scores, make_pairs([0, 0, 1], [0, 0, 1], (2, 2))).rows.tolist() == [2, 1]


@given(problems(), st.data())
def test_shortlist_ranks_agree_with_a_plain_loop(problem, data):
    scores, right, _ = problem
    rows, columns = scores.shape
    lists = [data.draw(st.lists(st.integers(0, columns - 1), unique=True)) for _ in range(rows)]
    found = shortlist_ranks(scores, pairs_from(right, scores.shape), [np.array(each, dtype=int) for each in lists])
    own = [{c for r, c in right if r == row} for row in range(rows)]
    assert same(found, [plain_rank(scores[row].tolist(), own[row], lists[row]) for row in range(rows)])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_score_that_is_not_finite_is_reported_with_row_and_column(bad, dtype, monkeypatch):
    monkeypatch.setattr(ranks_module, "_CELLS_PER_TASK", 50)
    monkeypatch.setattr(scores_module, "_CELLS_PER_BLOCK", 80)
    scores = np.zeros((20, 10), dtype=dtype)
    scores[17, 3] = bad
    for source in (scores, ScoreBlocks(scores.shape, lambda begin, end: scores[begin:end])):
        with pytest.raises(DeixisError, match=f"^scores: .*row 17, column 3.* {bad}$"):
            compute_ranks(source, positive_pairs(np.arange(10), 20))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scores_whose_sum_overflows_are_ranked_like_any_others(dtype):
    scores = np.full((40, 30), np.finfo(dtype).max, dtype=dtype)
    scores[::2] *= -1
    scores[3] *= dtype(0.5)
    found = compute_ranks(scores, make_pairs([3, 4], [0, 1], scores.shape))
    assert found.rows[[3, 4]].tolist() == [30, 30]
    assert found.columns[:2].tolist() == [20, 40]


def test_infinities_do_not_cancel_out():
    scores = np.zeros((3, 3), dtype=np.float32)
    scores[2, 0], scores[2, 1] = np.inf, -np.inf
    with pytest.raises(DeixisError, match="row 2, column 0"):
        compute_ranks(scores, make_pairs([0], [0], (3, 3)))


def test_a_positive_that_is_not_finite_is_reported_with_row_and_column():
    scores = np.zeros((3, 3))
    scores[1, 1] = np.nan
    with pytest.raises(DeixisError, match="row 1, column 1"):
        compute_ranks(scores, positive_pairs(range(3)))
    with pytest.raises(DeixisError, match="row 1, column 1"):
        shortlist_ranks(scores, positive_pairs(range(3)), [[0], [1], [2]])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros(3), "two dimensions, not 1"),
        (np.zeros((0, 3)), "0 × 3"),
        (np.zeros((2, 2), dtype=bool), "not bool"),
        (np.zeros((2, 2), dtype=complex), "not complex128"),
        (np.array([["a"]]), "not <U1"),
        ([[1.0], [1.0, 2.0]], "different lengths"),
        (ScoreBlocks((2, 2), lambda begin, end: np.zeros((1, 2))), r"rows 0 to 2.*\(1, 2\)"),
        (ScoreBlocks((2, 2), lambda begin, end: np.zeros((2, 2), dtype=object)), "not object"),
    ],
)
def test_anything_but_a_matrix_of_numbers_is_a_one_line_error(scores, message):
    with pytest.raises(DeixisError, match=message) as caught:
        compute_ranks(scores, positive_pairs([0, 1]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_pairs([0, 7], [0, 1], (2, 2)), "pair 1.*row 7"),
        (lambda: make_pairs([0], [-1], (2, 2)), "pair 0.*column -1"),
        (lambda: make_pairs([0, 1], [0], (2, 2)), "2 rows but 1 columns"),
        (lambda: positive_pairs([0, 1, 5], 3), "sentence 2.*photo 5"),
        (lambda: positive_pairs([0.5, 1.0]), "integers"),
        (lambda: shortlist_ranks(np.eye(3), positive_pairs(range(3)), [[0], [1]]), "2 lists for 3 queries"),
        (lambda: shortlist_ranks(np.eye(3), positive_pairs(range(3)), [[0], [1], [3]]), "list 2.*candidate 3"),
        (lambda: shortlist_ranks(np.eye(3), positive_pairs(range(3)), [[0], [1, 2, 1], [2]]), "list 1.*candidate 1"),
        (lambda: shortlist_ranks(np.eye(3), positive_pairs(range(3)), [[0], [1.5], [2]]), "list 1: "),
    ],
)
def test_invalid_pairs_and_shortlists_are_errors(call, message):
    with pytest.raises(DeixisError, match=message):
        call()
