"""Synthetic scenes: pixels, boxes, captions and trees agree."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from deixis import geometry
from deixis.data.records import NOT_VISUAL, Caption, Photo
from deixis.data.scenes import (
    BACKGROUNDS,
    COLOURS,
    LOCATIONS,
    Scene,
    SceneObject,
    describe_objects,
    make_scenes,
    write_scenes,
)
from deixis.language.trees import read_tree


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return list(make_scenes(300, seed=7))


def colours_of_chains(photo: Photo) -> dict[str, str]:
    """The colour that the captions give to each chain that has boxes."""
    found: dict[str, set[str]] = {}
    for caption in photo.captions:
        for mention in caption.mentions:
            if mention.chain and photo.boxes_of(mention.chain):
                words = caption.phrase(mention).split()
                found.setdefault(mention.chain, set()).update(set(words) & set(COLOURS))
    assert all(len(colours) == 1 for colours in found.values())
    return {chain: colours.pop() for chain, colours in found.items()}


def shown(pixels: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.bool_]]:
    """For each colour, the pixels that are about half of it or more, and for the rest of the background."""
    corner = pixels[0, 0].astype(float)
    ground = min(BACKGROUNDS.values(), key=lambda rgb: float(np.abs(corner - rgb).sum()))
    offsets = pixels - np.array(ground, dtype=float)
    towards = np.array(list(COLOURS.values()), dtype=float) - ground
    lengths = (towards**2).sum(axis=1)
    parts = offsets @ towards.T / lengths
    beside = (offsets**2).sum(axis=2, keepdims=True) - parts**2 * lengths
    masks = (parts > 120 / 255) & (beside < 20**2)
    return {colour: masks[..., i] for i, colour in enumerate(COLOURS)}


def extent(mask: npt.NDArray[np.bool_]) -> list[float]:
    rows, columns = np.nonzero(mask)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def test_the_same_seed_gives_the_same_scenes_and_a_longer_run_the_same_start() -> None:
    few, more, other = (list(make_scenes(n, seed=s)) for n, s in ((4, 3), (6, 3), (4, 4)))
    for one, same in zip(few, more[:4], strict=True):
        assert one.photo == same.photo
        assert np.array_equal(one.pixels, same.pixels)
    assert [scene.photo.captions for scene in few] != [scene.photo.captions for scene in other]


def test_a_box_is_the_extent_of_the_pixels_of_its_colour(scenes: list[Scene]) -> None:
    plain = 0
    for scene in scenes:
        ground = scene.pixels[0, 0].astype(int).tolist()
        textured = tuple(ground) not in BACKGROUNDS.values() or np.ptp(scene.pixels[0], axis=0).any()
        if textured:
            continue
        plain += 1
        masks = shown(scene.pixels)
        for chain, colour in colours_of_chains(scene.photo).items():
            mask = masks[colour]
            boxes = [box.xyxy for box in scene.photo.boxes_of(chain)]
            assert extent(mask) == geometry.union(boxes).tolist()
            for x1, y1, x2, y2 in boxes:
                inside = np.zeros_like(mask)
                inside[int(y1) : int(y2), int(x1) : int(x2)] = True
                assert extent(mask & inside) == [x1, y1, x2, y2]
                mask &= ~inside
            assert not mask.any()
    assert plain > 100


def test_texture_moves_no_box_by_more_than_a_pixel(scenes: list[Scene]) -> None:
    for scene in scenes:
        masks = shown(scene.pixels)
        for chain, colour in colours_of_chains(scene.photo).items():
            union = geometry.union([box.xyxy for box in scene.photo.boxes_of(chain)])
            assert np.abs(union - extent(masks[colour])).max() <= 1


def test_shapes_do_not_overlap(scenes: list[Scene]) -> None:
    for scene in scenes:
        boxes = [box.xyxy for box in scene.photo.boxes]
        assert np.triu(geometry.iou(boxes, boxes), 1).max(initial=0) < 0.1
        assert np.array_equal(geometry.clip(boxes, *scene.pixels.shape[:2]), boxes)


def test_written_scenes_are_a_data_set_with_splits_and_files(tmp_path: Path) -> None:
    write_scenes(tmp_path, 20, seed=2, splits={"train": 0.5, "dev": 0.25})
    lines = [json.loads(line) for line in (tmp_path / "photos.jsonl").read_text("utf-8").splitlines()]
    assert Counter(tuple(line.get("splits", ())) for line in lines) == {("train",): 10, ("dev",): 5, (): 5}
    for scene, line in zip(make_scenes(20, seed=2), lines, strict=True):
        assert line["id"] == scene.photo.id
        file = tmp_path / "images" / line["file"]
        assert line["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        with Image.open(file) as image:
            assert np.array_equal(np.asarray(image), scene.pixels)
        assert [c["text"] for c in line["captions"]] == [c.text for c in scene.photo.captions]
        assert [c["tree"] for c in line["captions"]] == [c.tree for c in scene.photo.captions]


# Captions: text, spans and trees agree with the scene.


@pytest.fixture(scope="module")
def described(scenes: list[Scene]) -> list[tuple[Photo, Caption]]:
    """Captions of many scenes, each with its photo."""
    return [(scene.photo, caption) for scene in scenes for caption in scene.photo.captions]


def test_every_caption_mentions_every_object_and_spans_match_the_text(described: list[tuple[Photo, Caption]]) -> None:
    for photo, caption in described:
        drawn = {chain for box in photo.boxes for chain in box.chains}
        named = {mention.chain for mention in caption.mentions}
        assert drawn <= named <= {chain.id for chain in photo.chains} | {None}
        assert len(photo.captions) == 5
        assert len({caption.text for caption in photo.captions}) >= 4
        for mention in caption.mentions:
            words = caption.phrase(mention)
            assert f" {words} " in f" {caption.text} "
            assert mention.types
            many = len(photo.boxes_of(mention.chain or "")) == 2
            assert many == bool(re.match("two|a pair of", words, re.IGNORECASE))


def test_mentions_are_in_order_and_have_many_types(described: list[tuple[Photo, Caption]]) -> None:
    types: Counter[str] = Counter()
    for _, caption in described:
        ends = [offset for mention in caption.mentions for offset in (mention.start, mention.end)]
        assert ends == sorted(ends)
        types.update(kind for mention in caption.mentions for kind in mention.types)
    assert set(types) == {"people", "clothing", "animals", "vehicles", "other", "scene", NOT_VISUAL}
    assert min(types.values()) > 100


def test_non_visual_mentions_have_no_chain_and_the_background_no_box(described: list[tuple[Photo, Caption]]) -> None:
    for photo, caption in described:
        flagged = {chain.id for chain in photo.chains if chain.scene and chain.no_box}
        for mention in caption.mentions:
            assert (mention.chain is None) == (mention.types == (NOT_VISUAL,))
            assert (mention.chain in flagged) == (mention.types == ("scene",))
            if mention.types == ("scene",):
                assert "background" in caption.phrase(mention)
                assert not photo.boxes_of(mention.chain or "")


def test_trees_have_the_tokens_as_leaves_and_mentions_as_noun_phrases(described: list[tuple[Photo, Caption]]) -> None:
    for _, caption in described:
        tree = read_tree(caption.tree or "", caption.tokens)
        assert str(tree) == caption.tree
        assert tree.words() == [token.text for token in caption.tokens] == caption.text.split(" ")
        assert tree.words()[-1] == "."
        noun_phrases = {(node.char_start, node.char_end) for node in tree.phrases() if node.label == "NP"}
        assert {(mention.start, mention.end) for mention in caption.mentions} <= noun_phrases


def test_captions_state_the_true_locations(described: list[tuple[Photo, Caption]]) -> None:
    relations = {
        "above": lambda a, b: a[3] <= b[1] + 8,
        "below": lambda a, b: a[1] >= b[3] - 8,
        "to the left of": lambda a, b: a[2] <= b[0] + 8,
        "to the right of": lambda a, b: a[0] >= b[2] - 8,
        "next to": lambda a, b: max(b[0] - a[2], a[0] - b[2]) < 25,
    }
    stated: Counter[str] = Counter()
    for photo, caption in described:
        for one, other in zip(caption.mentions, caption.mentions[1:], strict=False):
            between = caption.text[one.end : other.start].removeprefix(" is").removeprefix(" are").strip()
            if between in relations and one.chain and other.chain:
                a, b = (geometry.union([x.xyxy for x in photo.boxes_of(m.chain or "")]) for m in (one, other))
                assert relations[between](a, b), caption.text
                stated[between] += 1
            place = re.match(r"(on|at|in) the (\w+)", caption.text[one.end + 1 :])
            if place and one.chain and "to the" not in between:
                x1, y1, x2, y2 = geometry.union([x.xyxy for x in photo.boxes_of(one.chain)]) / (photo.width or 1)
                x, y = (x1 + x2) / 2, (y1 + y2) / 2
                where = {"left": x < 0.35, "right": x > 0.65, "top": y < 0.35, "bottom": y > 0.65}
                middle = 0.35 < x < 0.65 and 0.35 < y < 0.65
                assert where.get(place[2], middle), caption.text
                stated[place[2]] += 1
    assert set(stated) == {*relations, *LOCATIONS}


def test_articles_plurals_and_verbs_agree() -> None:
    rng = np.random.default_rng(0)
    objects = [
        SceneObject("orange", "man", "small", "left", pair=True),
        SceneObject("orange", "fish", "small", "top", pair=True),
        SceneObject("orange", "star", "large", "middle", pair=False),
    ]
    texts = [c.text.lower() for _ in range(90) for c in describe_objects(objects, "grey", rng)]
    assert not [text for text in texts if re.search(r"\ba orange|mans|fishs|fishes|an (small|big)", text)]
    assert not [text for text in texts if re.search(r"(men|fish) is", text)]
    assert any("two orange men are" in text or "are two orange men" in text for text in texts)
    assert any("an orange star" in text for text in texts)
