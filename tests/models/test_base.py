"""What every model can do."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.models import Embedder, Scorer


def test_an_embedder_scores_by_the_dot_product() -> None:
    class Plain(Embedder):
        dimension = 3

        def prepare_visual(self, features: np.ndarray) -> np.ndarray:
            return features

        def prepare_text(self, features: np.ndarray) -> np.ndarray:
            return features

    visual, text = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3)
    plain = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in text] for row in visual]
    np.testing.assert_array_equal(Plain().scores(visual, text), plain)


def test_a_scorer_must_define_its_scores() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Scorer()  # type: ignore[abstract]
