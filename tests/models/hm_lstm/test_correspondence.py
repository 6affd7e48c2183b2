"""Correspondences of phrases and regions, their file, and their accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.language.vectors import WordVectors
from deixis.models.hm_lstm.correspondence import (
    TREES_DIR,
    Correspondences,
    CorrespondenceScores,
    GoldPhrases,
    ParsedPhotos,
    PhotoRegions,
    find_correspondences,
    gold_correspondences,
    parse_photos,
    read_photo_regions,
)
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import Forest
from deixis.models.photo_features import PhotoFeatures, read_features
from deixis.models.provenance import ProposalSource
from deixis.vision.encoder import ImageEncoder, InputSize
from deixis.vision.feature_store import FeatureOptions, update_store
from tests.models.quarters import QUARTERS, make_quarters, make_store
from tests.vision.feature_store.small import Corners, colours

SIZE = 5
WORDS = ["a", "man", "dog", "snow", "the", "hat", "in"]
CAPTIONS = ["A dog in the snow.", "The man has a hat in the snow.", "Snow", "A man and a dog"]
PHOTO = np.array([0, 0, 1, 2])


def model(seed: int = 0) -> HMLSTM:
    torch.manual_seed(seed)
    vectors = WordVectors(np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32), WORDS)
    return HMLSTM(SIZE, vectors, HMLSTMSettings(hidden_size=8, embedding_dim=4))


def some_regions(photo: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(int(photo))
    corners = rng.uniform(0, 50, size=(2 + int(photo), 2))
    return np.hstack([corners, corners + 10]), rng.normal(size=(len(corners), SIZE)).astype(np.float16)


def parsed(gold: np.ndarray = np.ones((1, SIZE))) -> ParsedPhotos:  # noqa: B008
    """Three photos with four sentences; each photo has the same gold boxes."""
    boxes = np.tile([1, 2, 3, 4], (len(gold), 1))
    regions = PhotoRegions.collect((photo, some_regions(photo), (boxes, gold)) for photo in ("0", "1", "2"))
    return ParsedPhotos(Forest.from_trees(Sentence(text).tree for text in CAPTIONS), PHOTO, regions)


def test_each_noun_phrase_gets_the_most_similar_region_of_its_photo(tmp_path: Path) -> None:
    data, net = parsed(), model()
    trees, own = data.forest, data.regions
    found = find_correspondences(net, data, tmp_path / "found.jsonl")
    expected = []
    for sentence, photo in enumerate(PHOTO):
        begin = int(own.starts[photo])
        rows = range(begin, begin + int(own.candidates[photo]))
        for node in trees.noun_phrases[sentence].tolist():
            text = net.embed_nodes(trees, [sentence], [node])[0]
            scores = [
                float(net.prepare_visual(own.vectors[row : row + 1].astype(np.float32))[0] @ text) for row in rows
            ]
            expected.append((sentence, node, rows[int(np.argmax(scores))], round(max(scores), 3)))
    got = zip(found.rows.owners, found.node, found.region, np.round(found.confidence.astype(float), 3), strict=True)
    assert [tuple(map(float, row)) for row in got] == [
        pytest.approx(tuple(map(float, row)), abs=2e-3) for row in expected
    ]
    assert len(found) == len(expected) > 4


def test_the_file_names_phrases_and_boxes(tmp_path: Path) -> None:
    find_correspondences(model(), parsed(), tmp_path / "found.jsonl")
    _, first, *_ = (tmp_path / "found.jsonl").read_text().splitlines()
    document = json.loads(first)
    assert document["photo"] == "0"
    assert [phrase["text"] for phrase in document["phrases"]] == ["A dog", "the snow", "The man", "a hat in the snow",
                                                                  "a hat", "the snow"]  # fmt: skip
    assert all(len(phrase["box"]) == 4 and -1 <= phrase["confidence"] <= 1 for phrase in document["phrases"])


def test_an_interrupted_search_leaves_no_file_and_one_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"

    class Killed(BaseException):
        pass

    def kill(description: str, done: int, total: int | None) -> None:
        raise Killed

    with pytest.raises(Killed):
        find_correspondences(model(1), parsed(), path, kill)
    assert not path.exists()
    find_correspondences(model(1), parsed(), path)
    with pytest.raises(DeixisError, match="found.jsonl"):
        find_correspondences(model(2), parsed(), path)


def test_a_damaged_file_raises_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    find_correspondences(model(), parsed(), path)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(DeixisError, match="found.jsonl"):
        find_correspondences(model(), parsed(), path)


def test_gold_correspondences_match_mentions_with_the_boxes_of_their_chains() -> None:
    caption = Caption.from_text(
        "A dog in the snow.", (Mention(0, 5, "7"), Mention(9, 17, "8"), Mention(2, 8, "7"), Mention(0, 1, None))
    )
    photo = Photo("0", (caption,), boxes=(Box((0, 0, 9, 9), ("7",)), Box((5, 5, 20, 9), ("7", "9"))))
    trees = Forest.from_trees([Sentence.from_caption(caption).tree])
    boxes = photo.union_boxes()
    assert boxes == {"7": (0, 0, 20, 9), "9": (5, 5, 20, 9)}
    own = PhotoRegions.collect([("0", some_regions("0"), (list(boxes.values()), np.ones((2, SIZE))))])
    found = gold_correspondences([photo], ParsedPhotos(trees, np.zeros(1, dtype=np.int64), own))
    # "the snow" has no box, "dog in" is no node
    assert [trees.text(0, int(node)) for node in found.node] == ["A dog"]
    assert own.boxes[found.region].tolist() == [[0, 0, 20, 9]]
    assert found.confidence.tolist() == [1]


def test_gold_boxes_are_not_candidates(tmp_path: Path) -> None:
    many = np.random.default_rng(3).normal(size=(50, SIZE))  # some of them are nearest to some phrase
    data = parsed(gold=many)
    own, found = data.regions, find_correspondences(model(), data, tmp_path / "found.jsonl")
    photo = PHOTO[found.rows.owners]
    assert (found.region < own.starts[photo] + own.candidates[photo]).all()


DOG, SNOW = (0, 0, 10, 10), (20, 20, 40, 40)
CANDIDATES = [[0, 0, 40, 40], [0, 0, 10, 10], [20, 20, 40, 39], [30, 0, 40, 10]]


def dog_in_snow(photo_id: str, boxes: tuple[Box, ...]) -> Photo:
    caption = Caption.from_text(
        "A dog in the snow.", (Mention(0, 5, "1", ("animals",)), Mention(9, 17, "2", ("scene",)))
    )
    other = Caption.from_text("Another photo.", (Mention(0, 13, "1"),), related=False)
    return Photo(photo_id, (other, caption), (Chain("1"), Chain("2")), boxes, width=40, height=40)


def score(folder: Path, boxes: list[tuple[Box, ...]], chosen: list[list[int]]) -> CorrespondenceScores | None:
    """Score correspondences of photos with these boxes; `chosen` are the candidates of "A dog" and "the snow"."""
    make_dataset(folder / "data", [dog_in_snow(str(number), own) for number, own in enumerate(boxes)])
    photos = Dataset(folder / "data").photos
    forest = Forest.from_trees(Sentence.from_caption(c).tree for photo in photos for c in photo.sentences)
    regions = PhotoRegions.collect((photo, (CANDIDATES, np.zeros((4, 2))), None) for photo in photos.ids)
    assert [forest.text(0, node) for node in forest.noun_phrases[0].tolist()] == ["A dog", "the snow"]
    rows = [
        (sentence, node, int(regions.starts[sentence]) + region, 0.5)
        for sentence, own in enumerate(chosen)
        for node, region in zip(forest.noun_phrases[sentence].tolist(), own, strict=False)
    ]
    parsed = ParsedPhotos(forest, np.arange(len(boxes)), regions)
    return GoldPhrases.collect(photos, parsed).score(Correspondences.from_rows(rows, len(forest)))


BOTH = (Box(DOG, ("1",)), Box(SNOW, ("2",)))


def test_a_region_is_right_from_an_iou_of_one_half(tmp_path: Path) -> None:
    # Right, right; wrong, right; and of the third photo only the snow has a box.
    found = score(tmp_path, [BOTH, BOTH, BOTH[1:]], [[1, 2], [3, 2], [1, 0]])
    assert found
    assert found.phrases == 5
    assert found.right == pytest.approx(60)
    assert found.by_type == {"animals": 50, "scene": pytest.approx(200 / 3, abs=0.01)}
    assert found.random == pytest.approx(25)  # one of the four candidates is right for each phrase
    assert (found.whole, found.bound) == (0, 100)
    assert found.fixed == 100  # dogs and snow are where they always are
    assert found.mean_confidence == pytest.approx(0.5)
    assert "60.0 %" in found.summarize()


def test_only_phrases_with_a_correspondence_and_a_gold_box_are_counted(tmp_path: Path) -> None:
    found = score(tmp_path / "some", [BOTH, BOTH], [[1], []])
    assert found
    assert (found.phrases, found.right) == (1, 100)
    assert score(tmp_path / "none", [()], [[1, 2]]) is None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quarters")
    make_store(make_quarters(folder, 6), folder / "features")
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data")


@pytest.fixture
def features(made: Path, dataset: Dataset) -> PhotoFeatures:
    return read_features(made / "features", dataset, dataset.photos, proposals=ProposalSource("corners", 3))


def test_regions_are_the_whole_photo_then_proposals_then_gold_boxes(features: PhotoFeatures) -> None:
    regions = read_photo_regions(features, gold=True)
    assert regions.candidates.tolist() == [4] * 6
    assert np.diff(regions.starts).tolist() == [6] * 6
    first = regions.boxes[:6].tolist()
    assert first == [[0, 0, 16, 16], *map(list, QUARTERS[:3]), *map(list, QUARTERS[:2])]
    np.testing.assert_allclose(regions.vectors[0], features.vectors(0, 1)[0], atol=1e-3)
    np.testing.assert_allclose(regions.vectors[1:4], features.proposal_vectors(features.photos.ids[0]), atol=1e-3)
    np.testing.assert_allclose(regions.vectors[4:6], regions.vectors[1:3], atol=0.01)  # the same boxes


def test_sentences_have_their_photo_and_trees_are_cached_in_the_data_set(
    dataset: Dataset, features: PhotoFeatures
) -> None:
    data = parse_photos(dataset, features)
    assert data.photo.tolist() == np.repeat(np.arange(6), 2).tolist()
    texts = [caption.text for photo in dataset.photos for caption in photo.sentences]
    assert [data.forest.text(n, 0).replace(" .", ".") for n in range(len(data.forest))] == texts
    assert list((dataset.path / TREES_DIR).glob("trees-*"))


def test_a_photo_whose_own_vector_has_another_size_is_pooled_like_a_region(dataset: Dataset, tmp_path: Path) -> None:
    def network(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cells, whole = colours(pixels)
        return cells, np.repeat(whole, 2, axis=1)

    size = InputSize(8, keep_aspect=True, multiple=2)
    encoder = ImageEncoder("twice", network, size, channels=3, dimension=6, fingerprint="twice-1")
    update_store(tmp_path / "features", dataset, encoder, options=FeatureOptions(proposer=Corners(), top=4))
    features = read_features(tmp_path / "features", dataset, dataset.photos, proposals=ProposalSource("corners", 4))
    regions = read_photo_regions(features.with_photo_vector("region"))
    assert regions.vectors.shape[1] == 3
    for photo_id, first in zip(regions.photos, regions.starts[:-1], strict=True):
        photo = features.store.map(photo_id)
        np.testing.assert_array_equal(regions.vectors[first], photo.regions([0, 0, *photo.size])[0].astype(np.float16))
