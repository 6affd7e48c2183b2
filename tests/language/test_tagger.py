"""Part-of-speech tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.language.tagger import Tagger, tag


@pytest.mark.parametrize(
    ("sentence", "tags"),
    [
        ("A dog runs .", "DT NN VBZ ."),
        ("Two young men are playing football", "CD JJ NNS VBP VBG NN"),
        ("A man wearing a red hat holds a guitar .", "DT NN VBG DT JJ NN VBZ DT NN ."),
        ("The child 's hand", "DT NN POS NN"),
        ("She sits quietly in front of them", "PRP VBZ RB IN NN IN PRP"),
    ],
)
def test_simple_captions_are_tagged_correctly(sentence: str, tags: str) -> None:
    assert tag(sentence.split()) == tags.split()


@given(st.lists(st.text(max_size=8), max_size=12))
def test_any_tokens_get_one_known_tag_each(tokens: list[str]) -> None:
    tags = tag(tokens)
    assert len(tags) == len(tokens)
    assert set(tags) <= set(Tagger.shipped().model.labels)
