"""The presets of papers, for tests that compare them with the papers."""

from __future__ import annotations

from typing import TypeVar

from deixis.models.registry import get_spec

S = TypeVar("S")


def paper_presets(model: str, kind: type[S]) -> dict[str, S]:
    """Return the settings of one class of each preset of a paper."""
    spec = get_spec(model)
    return {name: spec.preset(name)[kind] for name in spec.preset_values if name.startswith("papers/")}
