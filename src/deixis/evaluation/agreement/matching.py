"""The best one-to-one matching between two sets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def best_matching(gain: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows and columns of the one-to-one matching with the largest total gain; the smaller side is matched whole.

    Examples
    --------
    >>> rows, columns = best_matching(np.array([[5.0, 4.0], [4.0, 0.0]]))
    >>> list(zip(rows.tolist(), columns.tolist()))
    [(0, 1), (1, 0)]
    """
    from scipy.optimize import linear_sum_assignment  # late: it takes a moment

    rows, columns = linear_sum_assignment(gain, maximize=True)
    return rows, columns
