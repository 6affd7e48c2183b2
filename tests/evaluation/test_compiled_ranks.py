"""The compiled loop gives the same ranks and errors as numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deixis.errors import DeixisError
from deixis.evaluation import ranks as ranks_module
from deixis.evaluation.ranks import compute_ranks, make_pairs, positive_pairs
from deixis.evaluation.score_matrix import ScoreBlocks
from tests.evaluation.test_ranks import pairs_from

pytestmark = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed (pip install deixis[fast])")
IN_ANOTHER_PROCESS = """
import shutil, sys
from pathlib import Path
import numpy as np
from deixis.evaluation import ranks
kept = Path({kept!r})
{before}
if {large}:
    ranks._CELLS_WORTH_COMPILING = 0
found = ranks.compute_ranks(np.eye(9, dtype=np.float32), ranks.positive_pairs(range(9)))
print(found.rows.sum(), found.columns.sum(), "numba" in sys.modules)
"""


def ranked(scores, right, ignored=None, *, columns=True, compiled=True):
    """The ranks of rows and columns, or the error message; by the compiled loop or by numpy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks_module, "_CELLS_WORTH_COMPILING", 0 if compiled else float("inf"))
        try:
            found = compute_ranks(scores, right, ignored, columns=columns)
        except DeixisError as error:
            return str(error)
    return found.rows.tolist(), found.columns.tolist()


def assert_same(scores, right, ignored=None):
    for columns in (True, False):
        compiled = ranked(scores, right, ignored, columns=columns)
        plain = ranked(scores, right, ignored, columns=columns, compiled=False)
        assert repr(compiled) == repr(plain)


@pytest.fixture
def counted(monkeypatch):
    """The numbers of rows that the compiled loop was given."""
    rows = []
    loop = ranks_module._compiled_loop()

    def count(scores, *others):
        rows.append(len(scores))
        return loop(scores, *others)

    monkeypatch.setattr(ranks_module, "_compiled_loop", lambda: count)
    return rows


@pytest.fixture
def compiled_again():
    """Forget the compiled loop before and after the test."""
    ranks_module._compiled_loop.cache_clear()
    yield
    ranks_module._compiled_loop.cache_clear()


@st.composite
def problems(draw):
    """Matrices with many equal scores, with both zeros, with the largest and the smallest numbers, and any cells."""
    shape = draw(st.tuples(st.integers(1, 13), st.integers(1, 40)))
    values = st.sampled_from([-3e38, -1.0, -1e-40, -0.0, 0.0, 1e-40, 1.0, 3e38])
    scores = draw(hnp.arrays(draw(st.sampled_from([np.float32, np.float64])), shape, elements=values))
    cells = st.sets(st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1)))
    right = draw(cells)
    return scores, pairs_from(right, shape), pairs_from(draw(cells) - right, shape)


@given(problems())
def test_compiled_ranks_equal_those_of_numpy(problem):
    assert_same(*problem)


@settings(max_examples=150)
@given(problems(), st.data())
def test_a_score_that_is_not_finite_gives_the_same_error(problem, data):
    scores, right, ignored = problem
    for value in data.draw(st.lists(st.sampled_from([np.nan, np.inf, -np.inf]), min_size=1, max_size=3)):
        at = tuple(data.draw(st.integers(0, size - 1)) for size in scores.shape)
        scores[at] = value
    assert_same(scores, right, ignored)
    assert "is nan" in ranked(scores, right) or "inf" in ranked(scores, right)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_all_complete_groups_of_four_rows_are_counted_compiled(dtype, counted, monkeypatch):
    monkeypatch.setattr(ranks_module, "_CELLS_PER_TASK", 50 * 1201)
    rng = np.random.default_rng(5)
    owners = np.sort(rng.integers(0, 1003, size=1201))
    scores = rng.integers(0, 60, size=(1003, 1201)).astype(dtype)
    assert_same(scores, positive_pairs(owners, 1003))
    assert sum(counted) == 2 * 1000
    assert max(counted) == 48


def unaligned(scores):
    memory = np.empty(scores.nbytes + 1, dtype=np.uint8)[1:]
    memory[:] = scores.view(np.uint8).ravel()
    return memory.view(scores.dtype).reshape(scores.shape)


def read_only(scores):
    scores.flags.writeable = False
    return scores


@pytest.mark.parametrize(
    "convert",
    [
        *(lambda scores, dtype=dtype: scores.astype(dtype) for dtype in (np.int8, np.uint64, ">f4", ">i4")),
        np.asfortranarray,
        lambda scores: np.repeat(scores, 2, axis=1)[:, ::2],
        lambda scores: scores[::-1],
        read_only,
        unaligned,
    ],
)
def test_number_types_and_memory_layout_do_not_change_ranks(convert):
    scores = convert(np.random.default_rng(2).integers(0, 30, size=(41, 60)).astype(np.float32))
    assert_same(scores, make_pairs(range(41), range(41), scores.shape))


def test_blocks_of_different_types_are_ranked_the_same(counted):
    scores = np.random.default_rng(3).standard_normal((40, 60))
    blocks = ScoreBlocks(
        (40, 60), lambda begin, end: scores[begin:end].astype([np.float32, np.float64][begin % 20 // 10]), 10
    )
    assert_same(blocks, make_pairs(range(40), range(40), (40, 60)))
    only_float64, all_blocks = 2 * 8, 4 * 8
    assert sum(counted) == only_float64 + all_blocks


def test_several_threads_can_rank_at_once(monkeypatch):
    monkeypatch.setattr(ranks_module, "_CELLS_WORTH_COMPILING", 0)
    rng = np.random.default_rng(4)
    matrices = [rng.standard_normal((300, 500), dtype=np.float32) for _ in range(8)]
    right = make_pairs(range(300), range(300), (300, 500))
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda scores: compute_ranks(scores, right).rows.tolist(), matrices))
    assert together == [compute_ranks(scores, right).rows.tolist() for scores in matrices]


@pytest.mark.parametrize(
    "disable",
    [
        lambda patch: patch.setitem(sys.modules, "numba", None),
        lambda patch: patch.setattr("numba.config.DISABLE_JIT", 1),
    ],
)
def test_numpy_counts_if_numba_is_missing_or_disabled(disable, compiled_again, monkeypatch):
    disable(monkeypatch)
    assert ranks_module._compiled_loop() is None
    assert ranked(np.eye(9, dtype=np.float32), positive_pairs(range(9))) == ([1.0] * 9, [1.0] * 9)


def test_the_loop_is_compiled_without_a_writable_cache_folder(compiled_again, monkeypatch):
    import numba

    compile_really = numba.njit

    def njit(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compile_really(**options)

    monkeypatch.setattr(numba, "njit", njit)
    assert ranked(np.eye(9, dtype=np.float32), positive_pairs(range(9))) == ([1.0] * 9, [1.0] * 9)


def in_another_process(kept, before="", large=True):
    code = IN_ANOTHER_PROCESS.format(kept=str(kept), before=before, large=large)
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(kept)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_ranks_are_computed_with_a_damaged_or_missing_numba_cache(tmp_path):
    assert in_another_process(tmp_path / "kept") == ["9.0", "9.0", "True"]
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(b"no code")
    assert in_another_process(tmp_path / "kept") == ["9.0", "9.0", "True"]
    lose = "ranks._compiled_loop(); shutil.rmtree(kept); kept.write_text('a file')"
    assert in_another_process(tmp_path / "lost", lose) == ["9.0", "9.0", "True"]


def test_a_small_matrix_does_not_load_numba(tmp_path):
    assert in_another_process(tmp_path, large=False) == ["9.0", "9.0", "False"]
