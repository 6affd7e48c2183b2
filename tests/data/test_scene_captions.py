"""What is said of made-up scenes: text, spans and trees agree, and all of it is true."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from deixis import geometry
from deixis.data.records import NOT_VISUAL, Caption, Photo
from deixis.data.scene_captions import PLACES, Thing, captions_of
from deixis.data.scenes import make_scenes


@pytest.fixture(scope="module")
def said() -> list[tuple[Photo, Caption]]:
    """Captions of many scenes, each with its photo."""
    scenes = [*make_scenes(300, seed=7), *make_scenes(50, things=(1, 1)), *make_scenes(50, things=(4, 4))]
    return [(scene.photo, caption) for scene in scenes for caption in scene.photo.captions]


Tree = tuple[str, list["Tree"], str]


def read_tree(text: str) -> Tree:
    """A reader of brackets: (label, children, word)."""
    signs = re.findall(r"\(|\)|[^\s()]+", text)

    def node(at: int) -> tuple[Tree, int]:
        assert signs[at] == "("
        label, children, word, at = signs[at + 1], [], "", at + 2
        while signs[at] != ")":
            if signs[at] == "(":
                child, at = node(at)
                children.append(child)
            else:
                word, at = signs[at], at + 1
        assert bool(children) != bool(word)
        return (label, children, word), at + 1

    tree, end = node(0)
    assert end == len(signs)
    return tree


def leaves(tree: Tree) -> list[str]:
    return [tree[2]] if tree[2] else [word for child in tree[1] for word in leaves(child)]


def noun_phrases(tree: Tree, first: int = 0) -> Iterator[tuple[int, int]]:
    """The spans of the NPs, in leaves."""
    if tree[0] == "NP":
        yield first, first + len(leaves(tree))
    for child in tree[1]:
        yield from noun_phrases(child, first)
        first += len(leaves(child))


def test_every_caption_mentions_everything_and_spans_say_the_words(said: list[tuple[Photo, Caption]]) -> None:
    for photo, caption in said:
        drawn = {chain for box in photo.boxes for chain in box.chains}
        named = {mention.chain for mention in caption.mentions}
        assert drawn <= named <= {chain.id for chain in photo.chains} | {None}
        assert len(photo.captions) == 5
        for mention in caption.mentions:
            words = caption.phrase(mention)
            assert f" {words} " in f" {caption.text} "
            assert mention.types
            many = len(photo.boxes_of(mention.chain or "")) == 2
            assert many == bool(re.match("two|a pair of", words, re.IGNORECASE))


def test_mentions_stand_in_order_and_exercise_many_types(said: list[tuple[Photo, Caption]]) -> None:
    types: Counter[str] = Counter()
    for _, caption in said:
        ends = [offset for mention in caption.mentions for offset in (mention.start, mention.end)]
        assert ends == sorted(ends)
        types.update(kind for mention in caption.mentions for kind in mention.types)
    assert set(types) == {"people", "clothing", "animals", "vehicles", "other", "scene", NOT_VISUAL}
    assert min(types.values()) > 100


def test_what_cannot_be_shown_has_no_chain_and_the_background_no_box(said: list[tuple[Photo, Caption]]) -> None:
    for photo, caption in said:
        flagged = {chain.id for chain in photo.chains if chain.scene and chain.no_box}
        for mention in caption.mentions:
            assert (mention.chain is None) == (mention.types == (NOT_VISUAL,))
            assert (mention.chain in flagged) == (mention.types == ("scene",))
            if mention.types == ("scene",):
                assert "background" in caption.phrase(mention)
                assert not photo.boxes_of(mention.chain or "")


def test_trees_have_the_tokens_as_leaves_and_mentions_as_noun_phrases(said: list[tuple[Photo, Caption]]) -> None:
    for _, caption in said:
        assert caption.tree is not None
        tree = read_tree(caption.tree)
        words = leaves(tree)
        assert words == [token.text for token in caption.tokens] == caption.text.split(" ")
        assert words[-1] == "."
        spans = set(noun_phrases(tree))
        for mention in caption.mentions:
            before = len(caption.text[: mention.start].split())
            assert (before, before + len(caption.phrase(mention).split())) in spans


def test_captions_say_where_things_really_are(said: list[tuple[Photo, Caption]]) -> None:
    relations = {
        "above": lambda a, b: a[3] <= b[1] + 8,
        "below": lambda a, b: a[1] >= b[3] - 8,
        "to the left of": lambda a, b: a[2] <= b[0] + 8,
        "to the right of": lambda a, b: a[0] >= b[2] - 8,
        "next to": lambda a, b: max(b[0] - a[2], a[0] - b[2]) < 25,
    }
    told: Counter[str] = Counter()
    for photo, caption in said:
        for one, other in zip(caption.mentions, caption.mentions[1:], strict=False):
            between = caption.text[one.end : other.start].removeprefix(" is").removeprefix(" are").strip()
            if between in relations and one.chain and other.chain:
                a, b = (geometry.union([x.xyxy for x in photo.boxes_of(m.chain or "")]) for m in (one, other))
                assert relations[between](a, b), caption.text
                told[between] += 1
            place = re.match(r"(on|at|in) the (\w+)", caption.text[one.end + 1 :])
            if place and one.chain and "to the" not in between:
                x1, y1, x2, y2 = geometry.union([x.xyxy for x in photo.boxes_of(one.chain)]) / (photo.width or 1)
                x, y = (x1 + x2) / 2, (y1 + y2) / 2
                where = {"left": x < 0.35, "right": x > 0.65, "top": y < 0.35, "bottom": y > 0.65}
                middle = 0.35 < x < 0.65 and 0.35 < y < 0.65
                assert where.get(place[2], middle), caption.text
                told[place[2]] += 1
    assert set(told) == {*relations, *PLACES}


def test_articles_plurals_and_verbs_agree() -> None:
    rng = np.random.default_rng(0)
    things = [
        Thing("orange", "man", "small", "left", pair=True),
        Thing("orange", "fish", "small", "top", pair=True),
        Thing("orange", "star", "large", "middle", pair=False),
    ]
    texts = [c.text.lower() for thing in things for _ in range(30) for c in captions_of([thing], "grey", rng)]
    assert not [text for text in texts if re.search(r"\ba orange|mans|fishs|fishes|an (small|big)", text)]
    assert not [text for text in texts if ("star " in text) == (" are " in text) and " is " in text]
    assert any("two orange men are" in text or "are two orange men" in text for text in texts)
    assert any("an orange star" in text for text in texts)


def test_the_five_captions_of_a_scene_are_said_in_five_ways(said: list[tuple[Photo, Caption]]) -> None:
    for photo, _ in said:
        assert len({caption.text for caption in photo.captions}) >= 4
