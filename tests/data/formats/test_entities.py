"""Sentences and annotations of Flickr30k Entities round-trip."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data.formats.entities import (
    format_annotation,
    format_sentence,
    parse_annotation,
    parse_sentence,
    read_entities,
)
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError

types = st.lists(st.sampled_from(["people", "scene", "other"]), unique=True, max_size=3).map(tuple)
# Brackets, slashes, backslashes and pieces of markup come up far more often than chance would bring them.
words = st.text(
    st.one_of(st.sampled_from("[]/\\# a1é日👍"), st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])),
    max_size=12,
) | st.sampled_from(["[/EN#1/people ", "\\[/EN#2 x]", "]", "\\]", "\\", "/EN#", "-LRB-", "[/EN#0/notvisual"])


@st.composite
def captions(draw: st.DrawFn) -> Caption:
    text, mentions = "", []
    for _ in range(draw(st.integers(0, 4))):
        text += draw(words)
        named = draw(words.filter(bool))
        chain = draw(st.none() | st.integers(1, 99).map(str))
        mentions.append(Mention(len(text), len(text) + len(named), chain, draw(types)))
        text += named
    return Caption.from_text(text + draw(words), tuple(mentions))


@given(captions())
def test_a_caption_round_trips(caption: Caption) -> None:
    assert parse_sentence(format_sentence(caption)) == caption


released_words = st.lists(
    st.sampled_from(["A", "man's", "T-shirt", "he/she", ",", ".", "''", "café", "\\o/", "(", "#1"]),
    min_size=1,
    max_size=4,
)


@st.composite
def released_lines(draw: st.DrawFn) -> str:
    pieces = []
    for _ in range(draw(st.integers(0, 5))):
        plain = " ".join(draw(released_words))
        chain = draw(st.integers(0, 300_000))
        kinds = "".join("/" + name for name in draw(types) or ("notvisual",))
        pieces.append(draw(st.sampled_from([plain, f"[/EN#{chain}{kinds} {plain}]"])))
    return " ".join(pieces)


@given(released_lines())
def test_a_line_of_the_release_round_trips_byte_for_byte(line: str) -> None:
    assert format_sentence(parse_sentence(line)) == line


def test_markup_becomes_spans_and_chain_zero_is_not_visual() -> None:
    caption = parse_sentence("[/EN#3/vehicles/scene A train] in [/EN#0/notvisual front] .")
    assert caption.text == "A train in front ."
    assert caption.mentions == (Mention(0, 7, "3", ("vehicles", "scene")), Mention(11, 16, None, ("notvisual",)))
    assert [token.text for token in caption.tokens] == ["A", "train", "in", "front", "."]


def test_a_mention_without_end_or_words_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"Sentences/1.txt: line 2: .*character 15"):
        parse_sentence("[/EN#1/people A man", "Sentences/1.txt: line 2")
    with pytest.raises(DatasetError, match="empty"):
        parse_sentence("[/EN#1/people ]")


numbers = st.integers(1, 400)
chain_ids = st.integers(1, 30).map(str)


@st.composite
def photos(draw: st.DrawFn) -> Photo:
    boxes = tuple(
        Box((x, y, x + w, y + h), tuple(names))
        for x, y, w, h, names in draw(
            st.lists(
                st.tuples(numbers, numbers, numbers, numbers, st.lists(chain_ids, min_size=1, max_size=3, unique=True)),
                max_size=4,
            )
        )
    )
    boxed = dict.fromkeys(chain for box in boxes for chain in box.chains)
    flagged = draw(st.dictionaries(chain_ids.filter(lambda c: c not in boxed), st.tuples(st.booleans(), st.booleans())))
    chains = tuple(Chain(c) for c in boxed) + tuple(Chain(c, *flags) for c, flags in flagged.items())
    width, height = draw(numbers), draw(numbers)
    name = draw(st.sampled_from(["7.jpg", "a & b <c>.jpg"]))
    return Photo("7", (), chains, boxes, width, height, annotated=AnnotationSource("7", name, width, height, 3))


@given(photos())
def test_an_annotation_round_trips(photo: Photo) -> None:
    parsed = parse_annotation(format_annotation(photo).encode(), "7.xml", "7")
    assert parsed == photo


def test_a_photo_of_another_size_is_written_at_the_annotated_size() -> None:
    photo = Photo("7", (), (Chain("1"),), (Box((10, 20, 30, 41), ("1",)),), 500, 375)
    photo = replace(photo, annotated=AnnotationSource("7", "7.jpg", 500, 375, 3))
    small = photo.resized(373, 280)
    assert small.boxes != photo.boxes
    assert format_annotation(small) == format_annotation(photo)


XML = """<annotation>
	<filename>7.jpg</filename>
	<size><width>500</width><height>375</height><depth>3</depth></size>
	<object><name>18</name><name>19</name>
		<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object>
	<object><name>21</name><scene>1</scene><nobndbox>1</nobndbox></object>
</annotation>"""


def test_an_annotation_round_trips_as_a_tree() -> None:
    parsed = parse_annotation(XML.encode(), "7.xml", "7")
    assert parsed.boxes == (Box((0, 1, 30, 40), ("18", "19")),)
    assert parsed.chains == (Chain("18"), Chain("19"), Chain("21", scene=True, no_box=True))

    def flat(text: str) -> list[tuple[str, str]]:
        return [(node.tag, (node.text or "").strip()) for node in ET.fromstring(text).iter()]

    assert flat(format_annotation(parsed)) == flat(XML)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (XML.replace("<xmin>1<", "<xmin>left<"), "object 1: <xmin>"),
        (XML.replace("<xmin>1</xmin>", ""), "object 1: <xmin>"),
        (XML.replace("<xmin>1<", "<xmin>nan<"), "object 1: <xmin>"),
        (XML.replace("<name>21</name>", ""), "object 2"),
        (XML.replace("<width>500<", "<width>-1<"), "<width>"),
        (XML[:200], "not well-formed XML"),
        ("<people/>", "<annotation>"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + XML, "DOCTYPE or entities"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd">' + XML, "DOCTYPE or entities"),
        ('<?xml version="1.0" encoding="nonsense"?>' + XML, "not well-formed XML"),
        ("", "not well-formed XML"),
    ],
)
def test_an_error_in_an_annotation_names_file_and_element(broken: str, message: str) -> None:
    with pytest.raises(DatasetError) as error:
        parse_annotation(broken.encode(), "Annotations/7.xml", "7")
    assert message in str(error.value)
    assert str(error.value).startswith("Annotations/7.xml: ")
    assert "\n" not in str(error.value)


def released(folder: Path, *ids: str) -> Path:
    (folder / "Sentences").mkdir()
    for photo_id in ids:
        (folder / "Sentences" / f"{photo_id}.txt").write_text("[/EN#7/animals A dog] .\nA dog runs .\n")
    return folder


@pytest.mark.parametrize(
    ("ids", "files", "splits"),
    [
        (
            ("1", "2", "3"),
            {"dev.txt": "2\n3\n", "half-1.txt": "1\n2\n"},
            {"1": ("half-1",), "2": ("dev", "half-1"), "3": ("dev",)},
        ),
        # The sentences of the photo "test" begin with the id of the other photo.
        (("test", "A"), {"Sentences/test.txt": "A dog .\n"}, {"A": (), "test": ()}),
        (("1", "2"), {"README.txt": "Sentences of 2 photos.\n", "train.txt": "1\n"}, {"1": ("train",), "2": ()}),
    ],
    ids=["lists of ids", "a photo called test", "a readme"],
)
def test_lists_of_ids_beside_the_sentences_are_splits(
    tmp_path: Path, ids: tuple[str, ...], files: dict[str, str], splits: dict[str, tuple[str, ...]]
) -> None:
    released(tmp_path, *ids)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with read_entities(tmp_path) as source:
        assert {photo.id: photo.splits for photo in source.photos} == splits


def test_unrelated_captions_are_numbered_from_one(tmp_path: Path) -> None:
    released(tmp_path, "1")
    (tmp_path / "UNRELATED_CAPTIONS").write_text("# format: <imageID> <sentence number>\n1 2")
    with read_entities(tmp_path) as source:
        (photo,) = source.photos
    assert [caption.related for caption in photo.captions] == [True, False]
