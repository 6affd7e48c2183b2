"""Correspondences: found, told by the data, kept and gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deixis.data.records import Box, Caption, Mention, Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.language.vectors import WordVectors
from deixis.models import correspondence
from deixis.models.correspondence import (
    PhotoRegions,
    find_correspondences,
    gold_boxes,
    gold_correspondences,
)
from deixis.models.hm_lstm import HMLSTM, HMLSTMSettings
from deixis.models.trees import Forest

SIZE = 5
WORDS = ["a", "man", "dog", "snow", "the", "hat", "in"]
CAPTIONS = ["A dog in the snow.", "The man has a hat in the snow.", "Snow", "A man and a dog"]
PHOTO = np.array([0, 0, 1, 2])


def model(seed: int = 0) -> HMLSTM:
    torch.manual_seed(seed)
    vectors = WordVectors(np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32), WORDS)
    return HMLSTM(SIZE, vectors, HMLSTMSettings(hidden=8, dimension=4))


def forest() -> Forest:
    return Forest.of(Sentence(text).tree for text in CAPTIONS)


def some_regions(photo: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(int(photo))
    corners = rng.uniform(0, 50, size=(2 + int(photo), 2))
    return np.hstack([corners, corners + 10]), rng.normal(size=(len(corners), SIZE)).astype(np.float16)


def regions() -> PhotoRegions:
    return PhotoRegions.of(["0", "1", "2"], some_regions, lambda photo: ([[1, 2, 3, 4]], np.ones((1, SIZE))))


def test_every_noun_phrase_takes_the_nearest_region_of_its_photo(tmp_path: Path) -> None:
    trees, own, net = forest(), regions(), model()
    found = find_correspondences(net, trees, PHOTO, own, tmp_path / "found.jsonl")
    wanted = []
    for sentence, photo in enumerate(PHOTO):
        begin = int(own.starts[photo])
        rows = range(begin, begin + int(own.candidates[photo]))
        for node in trees.noun_phrases[sentence].tolist():
            text = net.node_vectors(trees, [sentence], [node])[0]
            scores = [
                float(net.prepare_visual(own.vectors[row : row + 1].astype(np.float32))[0] @ text) for row in rows
            ]
            wanted.append((sentence, node, rows[int(np.argmax(scores))], round(max(scores), 3)))
    got = zip(
        found.of_sentence.owners, found.node, found.region, np.round(found.confidence.astype(float), 3), strict=True
    )
    assert [tuple(map(float, row)) for row in got] == [
        pytest.approx(tuple(map(float, row)), abs=2e-3) for row in wanted
    ]
    assert len(found) == len(wanted) > 4


def test_the_file_says_in_plain_words_what_was_found(tmp_path: Path) -> None:
    find_correspondences(model(), forest(), PHOTO, regions(), tmp_path / "found.jsonl")
    _, first, *_ = (tmp_path / "found.jsonl").read_text().splitlines()
    document = json.loads(first)
    assert document["photo"] == "0"
    assert [phrase["text"] for phrase in document["phrases"]] == ["A dog", "the snow", "The man", "a hat in the snow",
                                                                  "a hat", "the snow"]  # fmt: skip
    assert all(len(phrase["box"]) == 4 and -1 <= phrase["confidence"] <= 1 for phrase in document["phrases"])


def test_a_killed_search_goes_on_and_ends_with_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correspondence, "PHOTOS_AT_A_TIME", 1)
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    find_correspondences(model(), forest(), PHOTO, regions(), whole)

    class Killed(BaseException):
        pass

    def kill(doing: str, done: int, total: int | None) -> None:
        if done == 2:
            raise Killed

    with pytest.raises(Killed):
        find_correspondences(model(), forest(), PHOTO, regions(), broken, kill)
    part = tmp_path / "broken.jsonl.part"
    part.write_bytes(part.read_bytes() + b'{"photo": "2", "phr')  # a torn line
    seen: list[int] = []
    find_correspondences(model(), forest(), PHOTO, regions(), broken, lambda doing, done, total: seen.append(done))
    assert seen == [3]
    assert broken.read_bytes() == whole.read_bytes()
    assert not part.exists()


def test_an_unfinished_file_of_another_model_begins_anew_and_a_finished_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    find_correspondences(model(1), forest(), PHOTO, regions(), path)
    with pytest.raises(DeixisError, match="another model"):
        find_correspondences(model(2), forest(), PHOTO, regions(), path)
    path.rename(tmp_path / "found.jsonl.part")
    find_correspondences(model(2), forest(), PHOTO, regions(), path)
    find_correspondences(model(2), forest(), PHOTO, regions(), tmp_path / "fresh.jsonl")
    assert path.read_bytes() == (tmp_path / "fresh.jsonl").read_bytes()


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    find_correspondences(model(), forest(), PHOTO, regions(), path)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(DeixisError, match="found.jsonl"):
        find_correspondences(model(), forest(), PHOTO, regions(), path)


def test_gold_says_which_mention_has_which_box() -> None:
    caption = Caption.from_text(
        "A dog in the snow.", (Mention(0, 5, "7"), Mention(9, 17, "8"), Mention(2, 8, "7"), Mention(0, 1, None))
    )
    photo = Photo("0", (caption,), boxes=(Box((0, 0, 9, 9), ("7",)), Box((5, 5, 20, 9), ("7", "9"))))
    trees = Forest.of([Sentence.of_caption(caption).tree])
    boxes = gold_boxes(photo)
    assert boxes == {"7": (0, 0, 20, 9), "9": (5, 5, 20, 9)}
    own = PhotoRegions.of(["0"], some_regions, lambda _: (list(boxes.values()), np.ones((2, SIZE))))
    found = gold_correspondences([photo], trees, own)
    # "the snow" has no box, "dog in" is no node
    assert [trees.text(0, int(node)) for node in found.node] == ["A dog"]
    assert own.boxes[found.region].tolist() == [[0, 0, 20, 9]]
    assert found.confidence.tolist() == [1]


def test_gold_boxes_are_never_found_by_themselves(tmp_path: Path) -> None:
    many = np.random.default_rng(3).normal(size=(50, SIZE))  # some of them are nearest to some phrase
    own = PhotoRegions.of(["0", "1", "2"], some_regions, lambda photo: (np.tile([1, 2, 3, 4], (50, 1)), many))
    found = find_correspondences(model(), forest(), PHOTO, own, tmp_path / "found.jsonl")
    photo = PHOTO[found.of_sentence.owners]
    assert (found.region < own.starts[photo] + own.candidates[photo]).all()
