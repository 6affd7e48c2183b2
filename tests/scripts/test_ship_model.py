"""Shipping a part that is no model: new weights, the description and the card of the shipped one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ship_model import ship_part

from deixis.storage.artifacts import Artifact, read_artifact, write_artifact


def test_description_and_card_are_kept_and_the_rest_is_replaced(tmp_path: Path) -> None:
    described = {"summary": "tags words", "licence": "free", "opened_by": "open()"}
    old = Artifact("tagger", {"bits": 1}, {"a": np.zeros(2)}, provenance={**described, "seed": 1}, card="# Card\n")
    write_artifact(tmp_path / "tagger", old)
    ship_part(Artifact("tagger", {"bits": 2}, {"a": np.ones(3)}, provenance={"seed": 2}), tmp_path / "tagger")
    found = read_artifact(tmp_path / "tagger")
    assert (found.settings, found.card, found.provenance) == ({"bits": 2}, "# Card\n", {**described, "seed": 2})
    np.testing.assert_array_equal(found.arrays["a"], np.ones(3))


def test_a_part_is_shipped_to_a_new_directory(tmp_path: Path) -> None:
    ship_part(Artifact("tagger", {}, {"a": np.ones(3, np.float32)}), tmp_path / "new" / "tagger", half=True)
    assert read_artifact(tmp_path / "new" / "tagger").half
