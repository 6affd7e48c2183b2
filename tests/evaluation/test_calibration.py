from __future__ import annotations

import numpy as np
import pytest

from deixis.evaluation.calibration import calibration_error, reliability


def test_the_calibration_error_is_the_distance_of_probability_and_truth() -> None:
    predicted, true = np.array([0.2, 0.2, 0.9, 0.9]), np.array([False, False, True, True])
    assert calibration_error(predicted, true, bins=2) == pytest.approx(0.15)
    assert reliability(predicted, true, bins=2) == [(pytest.approx(0.2), 0.0, 0.5), (pytest.approx(0.9), 1.0, 0.5)]
    assert calibration_error(predicted, true, np.array([1.0, 1.0, 0.0, 0.0]), bins=2) == pytest.approx(0.2)
