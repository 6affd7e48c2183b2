"""Mentions from plain captions, and what the shipped models learned from."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data.records import ENTITY_TYPES
from deixis.language.entity_types import EntityTypes
from deixis.language.mentions import find_mentions
from deixis.language.sequence import load_shipped

SOME_WORDS = ["A", "a", "the", "man", "dog", "'s", ",", ".", "and", "in", "red", "hat", "they", "T-shirt", "é", "😀"]
CAPTION_LIKE = st.lists(st.sampled_from([*SOME_WORDS, "background", "\u200b", "", "\n"]), max_size=20).map(" ".join)


def phrases(text: str) -> list[str]:
    return [found.text for found in find_mentions(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A dog, a cat and a man's hat.", ["A dog", "a cat", "a man's hat"]),
        ("A dog , a cat and a man 's hat .", ["A dog", "a cat", "a man 's hat"]),
        ("Two men in orange hats are playing guitars.", ["Two men", "orange hats", "guitars"]),
        ("  A girl\tis jumping   into the pool", ["A girl", "the pool"]),
        ("", []),
    ],
)
def test_phrases_are_found_in_raw_and_in_tokenised_captions(text: str, found: list[str]) -> None:
    assert phrases(text) == found


def test_pronouns_and_non_visual_words_are_dropped() -> None:
    assert phrases("She shows him a ball while they jump in the air .") == ["a ball"]
    assert phrases("A man stands in front of it with trees in the background .") == ["A man", "trees"]


def test_a_colour_that_is_worn_is_clothing() -> None:
    text = "A woman in dark blue talks to a man in red ."
    assert [(found.text, found.types) for found in find_mentions(text)] == [
        ("A woman", ("people",)),
        ("dark blue", ("clothing",)),
        ("a man", ("people",)),
        ("red", ("clothing",)),
    ]


@given(st.text(max_size=60) | CAPTION_LIKE)
def test_spans_lie_in_the_text_in_order_and_hold_more_than_space(text: str) -> None:
    reached = 0
    for found in find_mentions(text):
        start, end = found.span
        assert reached <= start < end <= len(text)
        assert text[start:end].strip() == text[start:end] != ""
        assert found.types
        assert set(found.types) <= set(ENTITY_TYPES)
        reached = end


def caption_ids_of(name: str) -> dict[str, object]:
    about = EntityTypes.shipped().about if name == "entity_types" else load_shipped(name).about
    ids: dict[str, object] = about["caption_ids"]
    return ids


@pytest.mark.parametrize("name", ["tagger", "chunker", "entity_types"])
def test_what_ships_was_learned_from_no_photo_of_dev(name: str, real_data: Path) -> None:
    learned = (real_data / "flickr30k_entities" / "train.txt").read_text().split()
    dev = {line.split("_")[0] for line in (real_data / "flickr8k" / "Flickr_8k.devImages.txt").read_text().split()}
    assert len(dev) == 1000
    assert not dev & set(learned)
    digest = hashlib.sha256("\n".join(sorted(learned)).encode()).hexdigest()
    assert caption_ids_of(name) == {"count": len(learned), "sha256": digest}


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, deixis.language.mentions as m, deixis.language.chunks as c, deixis.language.entity_types as e\n"
        "assert c._shipped.cache_info().currsize == e._shipped.cache_info().currsize == 0\n"
        "assert not {'torch', 'spacy', 'scipy'} & set(sys.modules)\n"
        "assert m.find_mentions('A dog runs.')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
