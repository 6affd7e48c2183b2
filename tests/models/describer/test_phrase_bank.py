"""Lists of phrases: counted from captions, read from files, and refused in one line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.models.describer.phrase_bank import PhraseBank, long_phrases


def photo(name: str, text: str, *mentions: Mention, boxes: tuple[Box, ...] = ()) -> Photo:
    chains = tuple(Chain(mention.chain) for mention in mentions if mention.chain)
    return Photo(name, (Caption.from_text(text, mentions),), chains, boxes)


def test_phrases_are_counted_in_lower_case_and_rare_ones_left_out() -> None:
    photos = [photo(str(n), text, Mention(0, 5, "1")) for n, text in enumerate(["A dog", "a dog", "A DOG", "a cat"])]
    assert PhraseBank.from_photos(photos) == PhraseBank(("a dog",), (3,))
    assert PhraseBank.from_photos(photos, min_count=1) == PhraseBank(("a dog", "a cat"), (3, 1))
    with pytest.raises(DeixisError, match="3 times"):
        PhraseBank.from_photos(photos[:1])


def test_long_phrases_and_phrases_without_content_are_left_out() -> None:
    texts = ["a dog", "the other one", "a very large brown and white dog", "six words are not too many"]
    photos = [photo(str(n), text, Mention(0, len(text), "1")) for n, text in enumerate(texts)]
    assert PhraseBank.from_photos(photos, min_count=1).phrases == ("a dog", "six words are not too many")


def test_in_a_photo_with_boxes_only_phrases_with_a_box_count() -> None:
    mentions = (Mention(0, 5, "1"), Mention(9, 17, "2"), Mention(21, 29, None))
    text = "a dog in the snow at midnight"
    shown = photo("1", text, *mentions, boxes=(Box((0, 0, 5, 5), ("1",)),))
    assert PhraseBank.from_photos([shown], min_count=1).phrases == ("a dog",)
    assert PhraseBank.from_photos([photo("1", text, *mentions)], min_count=1).phrases == ("a dog", "the snow")


def test_captions_without_mentions_are_parsed_and_those_of_other_photos_are_not() -> None:
    about_another = Caption.from_text("A cat sleeps.", related=False)
    of_photo = Photo("1", (Caption.from_text("The man's dog runs."), about_another))
    assert PhraseBank.from_photos([of_photo], min_count=1).phrases == ("the man's dog",)


phrases = st.text("abc é'", min_size=1).map(lambda text: " ".join(text.split())).filter(bool)


@given(st.dictionaries(phrases, st.integers(1, 10**9), min_size=1), st.sampled_from(["b.txt", "b.txt.gz"]))
def test_phrases_and_counts_are_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int], name: str
) -> None:
    file = tmp_path_factory.mktemp("bank") / name
    data = "".join(f"{phrase}\t{count}\n" for phrase, count in counts.items()).encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    assert PhraseBank.read(file) == PhraseBank(tuple(counts), tuple(counts.values()))


def test_a_list_may_have_blank_lines_repetitions_and_no_counts(tmp_path: Path) -> None:
    file = tmp_path / "bank.txt"
    file.write_bytes("\ufeff\n  Our  dog Rex \t 4\r\n\n   \n\t\na red bus\nour dog rex\n".encode())
    assert PhraseBank.read(file) == PhraseBank(("our dog rex", "a red bus"), (5, 1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bank.txt", b"", "bank.txt: "),
        ("bank.txt", b" \n\n\t\n", "bank.txt: "),
        ("bank.txt", b"a dog\t3\na cat\tmany\n", "bank.txt: line 2: 'many'"),
        ("bank.txt", b"a dog\t0\n", "bank.txt: line 1: '0'"),
        ("bank.txt", b"a dog\t-3\n", "bank.txt: line 1: '-3'"),
        ("bank.txt", b"\t12\n", "bank.txt: line 1 "),
        ("bank.txt", b"\xff\xfe\x00", "bank.txt: "),
        ("bank.txt.gz", b"a dog\n", "bank.txt.gz: "),
        ("bank.txt.gz", gzip.compress(b"a dog\n" * 99, mtime=0)[:-12], "bank.txt.gz: "),
        ("bank.txt.gz", gzip.compress(b"a" * (2 << 20)), "bank.txt.gz: "),
    ],
)
def test_an_invalid_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
) -> None:
    monkeypatch.setattr("deixis.models.describer.phrase_bank._MAX_BYTES", 1 << 20)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DeixisError) as error:
        PhraseBank.read(tmp_path / name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_frequencies_add_up_to_one() -> None:
    shares = np.exp(PhraseBank(("a", "b", "c"), (5, 3, 2)).log_frequencies())
    assert shares == pytest.approx([0.5, 0.3, 0.2])


def test_a_bank_needs_phrases_and_as_many_counts() -> None:
    with pytest.raises(DeixisError, match="phrase"):
        PhraseBank((), ())
    with pytest.raises(DeixisError, match="counts"):
        PhraseBank(("a dog",), (0,))


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
    assert PhraseBank.long_from_photos(photos) == PhraseBank(("a man in a red hat",), (2,))
    with pytest.raises(DeixisError, match="long"):
        PhraseBank.long_from_photos(photos[:1])
