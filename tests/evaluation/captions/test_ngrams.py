from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deixis.evaluation.captions.ngrams import order_by


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=30), st.booleans())
def test_order_by_sorts_rows_and_keeps_equal_ones_in_order(rows: list[tuple[int, int]], wide: bool) -> None:
    scale = 2**60 if wide else 1  # too wide for one number: the slow way
    columns = np.array([(a * scale, b) for a, b in rows], dtype=np.int64).reshape(-1, 2).T
    assert order_by(*columns).tolist() == sorted(range(len(rows)), key=rows.__getitem__)
