"""Which chains plainly name one thing."""

from __future__ import annotations

import pytest

from deixis.annotate.material import Material
from deixis.annotate.singular import is_plainly_singular


def name_one(*phrases: str) -> bool:
    material = Material("7", phrases, (), 9, 9)
    return is_plainly_singular(material.mention_at(f"{row}:0-{len(text)}") for row, text in enumerate(phrases))


@pytest.mark.parametrize("phrases", [("A dog",), ("a small black dog", "the dog"), ("one man", "his face")])
def test_an_article_or_one_and_no_plural_is_singular(phrases: tuple[str, ...]) -> None:
    assert name_one(*phrases)


@pytest.mark.parametrize(
    "phrases",
    [
        ("The dog",),  # nothing says how many
        ("Two dogs",),
        ("A dog", "the dogs"),
        ("A group",),
        ("a pair of shoes",),
        ("a man and a boy",),
        ("A crowd of people",),
        ("a flock",),
        ("a bit of grass",),
        (),
    ],
)
def test_anything_else_is_not_plainly_singular(phrases: tuple[str, ...]) -> None:
    assert not name_one(*phrases)
