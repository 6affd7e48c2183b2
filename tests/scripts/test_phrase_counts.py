"""Phrases counted in captions."""

from __future__ import annotations

import pytest
from phrase_counts import count_long_phrases, count_phrases, long_phrases

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.models.describer.phrase_bank import PhraseBank


def photo(name: str, text: str, *mentions: Mention, boxes: tuple[Box, ...] = ()) -> Photo:
    chains = tuple(Chain(mention.chain) for mention in mentions if mention.chain)
    return Photo(name, (Caption.from_text(text, mentions),), chains, boxes)


def test_phrases_are_counted_in_lower_case_and_rare_ones_left_out() -> None:
    photos = [photo(str(n), text, Mention(0, 5, "1")) for n, text in enumerate(["A dog", "a dog", "A DOG", "a cat"])]
    assert count_phrases(photos) == PhraseBank(("a dog",), (3,))
    assert count_phrases(photos, min_count=1) == PhraseBank(("a dog", "a cat"), (3, 1))
    with pytest.raises(DeixisError, match="3 times"):
        count_phrases(photos[:1])


def test_long_phrases_and_phrases_without_content_are_left_out() -> None:
    texts = ["a dog", "the other one", "a very large brown and white dog", "six words are not too many"]
    photos = [photo(str(n), text, Mention(0, len(text), "1")) for n, text in enumerate(texts)]
    assert count_phrases(photos, min_count=1).phrases == ("a dog", "six words are not too many")


def test_in_a_photo_with_boxes_only_phrases_with_a_box_count() -> None:
    mentions = (Mention(0, 5, "1"), Mention(9, 17, "2"), Mention(21, 29, None))
    text = "a dog in the snow at midnight"
    shown = photo("1", text, *mentions, boxes=(Box((0, 0, 5, 5), ("1",)),))
    assert count_phrases([shown], min_count=1).phrases == ("a dog",)
    assert count_phrases([photo("1", text, *mentions)], min_count=1).phrases == ("a dog", "the snow")


def test_captions_without_mentions_are_parsed_and_those_of_other_photos_are_not() -> None:
    about_another = Caption.from_text("A cat sleeps.", related=False)
    of_photo = Photo("1", (Caption.from_text("The man's dog runs."), about_another))
    assert count_phrases([of_photo], min_count=1).phrases == ("the man's dog",)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("A man in a red hat holds a guitar.", ["a man in a red hat"]),
        ("A dog running through the grass with a stick.", ["a dog running through the grass with a stick"]),
        ("A man in a red hat and a woman sit on a bench.", ["a man in a red hat"]),  # without the list of both
        ("A man and a woman run.", []),
        ("One in a red shirt jumps.", []),  # no thing
        ("A brown dog runs.", []),
    ],
)
def test_long_phrases_have_a_prepositional_phrase_or_a_clause(text: str, phrases: list[str]) -> None:
    assert long_phrases(Sentence(text)) == phrases


def test_long_phrases_are_counted_once_for_each_photo() -> None:
    red = Caption.from_text("A man in a red hat holds a guitar."), Caption.from_text("A man in a red hat holds a dog.")
    photos = [Photo("1", red), Photo("2", red[:1]), Photo("3", (Caption.from_text("A dog on a leash barks."),))]
    assert count_long_phrases(photos) == PhraseBank(("a man in a red hat",), (2,))
    with pytest.raises(DeixisError, match="long"):
        count_long_phrases(photos[:1])
