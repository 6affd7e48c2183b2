"""Score matrices: files, blocks and errors."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.evaluation import score_matrix as scores_module
from deixis.evaluation.score_matrix import ScoreBlocks, gather, open_scores


def saved(folder, array):
    path = folder / "scores.npy"
    np.save(path, array)
    return path


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8, ">f4"])
def test_a_file_is_memory_mapped(tmp_path, dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    found = open_scores(saved(tmp_path, array))
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert np.array_equal(found, array)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_reported_with_file_row_and_column(tmp_path, bad, monkeypatch):
    monkeypatch.setattr(scores_module, "_CELLS_PER_CHECK", 8)
    array = np.zeros((9, 4), dtype=np.float32)
    array[7, 2] = bad
    with pytest.raises(DeixisError, match=rf"scores\.npy: .*row 7, column 2.* {bad}$"):
        open_scores(saved(tmp_path, array))


@pytest.mark.parametrize(
    ("array", "message"),
    [(np.zeros(3), "not 1"), (np.zeros((2, 2), dtype=[("a", "f4")]), "scores must be"), (np.array([[None]]), ".npy")],
)
def test_arrays_that_are_not_scores_are_errors(tmp_path, array, message):
    with pytest.raises(DeixisError, match=message):
        open_scores(saved(tmp_path, array))


def test_a_pickle_is_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was run",))

    path = tmp_path / "scores.npy"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DeixisError, match=r"\.npy"):
        open_scores(path)


def test_missing_empty_and_truncated_files_and_folders_are_named(tmp_path):
    (tmp_path / "empty.npy").write_bytes(b"")
    np.savez(tmp_path / "many.npz", scores=np.eye(3))
    path = saved(tmp_path, np.zeros((100, 100)))
    path.write_bytes(path.read_bytes()[:-1])
    for name in ("gone.npy", "empty.npy", "many.npz", "scores.npy", ""):
        with pytest.raises(DeixisError, match=name or "directory"):
            open_scores(tmp_path / name)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_opens_or_raises_a_deixis_error(tmp_path, data):
    path = saved(tmp_path, np.eye(4, dtype=np.float32))
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, 127), min_size=1, max_size=6)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(DeixisError):
        open_scores(path)


def test_a_header_with_a_huge_shape_is_an_error(tmp_path):
    path = saved(tmp_path, np.eye(4, dtype=np.float32))
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000, 4000000000000), }"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header + b"\n").to_bytes(2, "little") + header + b"\n")
    with pytest.raises(DeixisError, match=r"\.npy"):
        open_scores(path)


@given(st.data())
def test_gathered_cells_keep_the_requested_order(data):
    matrix = np.arange(60).reshape(12, 5)
    cells = data.draw(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 4))))
    rows, columns = (np.array([cell[axis] for cell in cells], dtype=np.int64) for axis in (0, 1))
    blocks = ScoreBlocks((12, 5), lambda begin, end: matrix[begin:end], rows_at_once=5)
    found = gather(blocks, rows, columns)
    assert found.tolist() == [matrix[cell] for cell in cells]
