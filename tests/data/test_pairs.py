"""Region–phrase pairs against plain loops over the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis import geometry
from deixis.data.dataset import Dataset, make_dataset
from deixis.data.pairs import RegionPhrasePairs, training_set_sizes
from deixis.data.records import Box, Caption, Mention, Photo
from deixis.errors import DatasetError
from deixis.tokens import distinct_phrase
from tests.models.training.region_pairs import made, photo_of, random_pairs, worlds

World = tuple[list[Photo], dict[str, np.ndarray]]
NO_PROPOSALS = np.zeros((0, 4))


def plain_pairs(photos: list[Photo]) -> list[tuple[str, int, int, int, str, tuple[float, ...]]]:
    """Photo, caption, span, phrase and gold box of every mention whose chain has boxes."""
    found = []
    for photo in photos:
        for place, caption in enumerate(photo.captions):
            for mention in caption.mentions:
                boxes = photo.boxes_of(mention.chain or "")
                if boxes:
                    box = tuple(geometry.union([box.xyxy for box in boxes]).tolist())
                    phrase = " ".join(caption.phrase(mention).lower().split())
                    found.append((photo.id, place, mention.start, mention.end, phrase, box))
    return found


def rows_of(pairs: RegionPhrasePairs) -> list[tuple[str, int, int, int, str, tuple[float, ...]]]:
    return [
        (
            pairs.photos[pairs.photo[row]],
            int(pairs.caption[row]),
            *pairs.span[row].tolist(),
            pairs.phrases[pairs.phrase[row]],
            tuple(pairs.boxes[pairs.gold[pairs.chain[row]]].tolist()),
        )
        for row in range(len(pairs))
    ]


@given(worlds())
def test_every_mention_with_a_box_is_a_pair(world: World) -> None:
    assert rows_of(made(world)) == plain_pairs(world[0])


@given(worlds())
def test_regions_of_a_photo_are_its_gold_boxes_and_then_its_proposals(world: World) -> None:
    pairs = made(world)
    for number, photo in enumerate(pairs.photos):
        regions = pairs.boxes[pairs.region_starts[number] : pairs.region_starts[number + 1]]
        proposed = pairs.boxes[pairs.first_proposal[number] : pairs.region_starts[number + 1]]
        np.testing.assert_array_equal(proposed, world[1][photo])
        gold = {tuple(box) for box in regions[: len(regions) - len(proposed)].tolist()}
        assert gold == {row[5] for row in plain_pairs(world[0]) if row[0] == photo}


@given(worlds(), st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.0]))
def test_positives_and_negatives_are_those_of_plain_ious(world: World, threshold: float) -> None:
    pairs = made(world)
    positives, negatives = pairs.positives(threshold), pairs.negatives(threshold)
    for chain, gold in enumerate(pairs.gold):
        photo = pairs.region_photo[gold]
        proposals = range(pairs.first_proposal[photo], pairs.region_starts[photo + 1])
        ious = {region: geometry.iou([pairs.boxes[gold]], [pairs.boxes[region]]).item() for region in proposals}
        near = [region for region in proposals if np.float32(ious[region]) >= np.float32(threshold)]
        assert positives[chain].tolist() == [gold, *near]
        assert negatives[chain].tolist() == [region for region in proposals if region not in near]


@given(worlds())
def test_phrases_of_a_chain_are_those_of_its_pairs(world: World) -> None:
    pairs = made(world)
    for chain in range(len(pairs.gold)):
        assert pairs.phrases_of_chain[chain].tolist() == sorted(set(pairs.phrase[pairs.chain == chain].tolist()))


@given(worlds(), st.integers(1, 4), st.integers(0, 3))
def test_resampling_keeps_at_most_the_given_number_of_regions_per_phrase(world: World, most: int, seed: int) -> None:
    pairs = made(world)
    kept = pairs.resample(most, seed)
    names = [distinct_phrase(phrase) for phrase in pairs.phrases]
    regions = {(names[phrase], chain) for phrase, chain in zip(pairs.phrase, pairs.chain.tolist(), strict=True)}
    kept_regions = [(names[phrase], chain) for phrase, chain in zip(kept.phrase, kept.chain.tolist(), strict=True)]
    assert len(set(kept_regions)) == len(kept_regions)
    assert set(rows_of(kept)) <= set(rows_of(pairs))
    before, after = Counter(phrase for phrase, _ in regions), Counter(phrase for phrase, _ in kept_regions)
    assert after == {phrase: min(count, most) for phrase, count in before.items()}


def test_phrases_that_differ_in_an_article_are_one() -> None:
    photo = photo_of(
        1, [[("a dog", "1")], [("The dog", "2")], [("two dogs", "1")]], {"1": [(0, 0, 5, 5)], "2": [(3, 3, 9, 9)]}
    )
    pairs = RegionPhrasePairs.from_photos([photo], lambda photo_id: NO_PROPOSALS)
    assert (len(pairs.resample(1)), len(pairs.resample(10))) == (2, 3)


def test_resampling_depends_on_the_seed_only() -> None:
    pairs = random_pairs()
    first, again, other = (pairs.resample(1, seed).chain.tolist() for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_resampling_draws_every_region_of_a_phrase_about_as_often() -> None:
    photos = [photo_of(number, [[("a dog", "1")]], {"1": [(0, 0, 5, 5)]}) for number in range(4)]
    pairs = RegionPhrasePairs.from_photos(photos, lambda photo_id: NO_PROPOSALS)
    drawn = Counter(int(pairs.resample(1, seed).chain[0]) for seed in range(400))
    assert min(drawn.values()) > 60


@dataclass(frozen=True)
class Relation:
    text: str
    mentions: tuple[Mention, ...]


def related(caption: Caption, mentions: Sequence[Mention]) -> list[Relation]:
    return [Relation("a dog IN the snow", (mentions[0], mentions[1]))] if len(mentions) > 1 else []


def test_a_phrase_of_two_mentions_has_the_union_of_their_boxes() -> None:
    photo = photo_of(1, [[("a dog", "1"), ("the snow", "2")]], {"1": [(0, 0, 5, 5)], "2": [(2, 2, 9, 9), (1, 8, 2, 9)]})
    pairs = RegionPhrasePairs.from_photos([photo], lambda photo_id: NO_PROPOSALS, more_phrases=related)
    assert [(phrase, box) for *_, phrase, box in rows_of(pairs)] == [
        ("a dog", (0, 0, 5, 5)),
        ("the snow", (1, 2, 9, 9)),
        ("a dog in the snow", (0, 0, 9, 9)),
    ]
    assert pairs.span[2].tolist() == [0, 16]


def test_training_set_sizes_are_those_of_table_2() -> None:
    photos = [photo_of(n, [[("a dog", "1"), ("snow", "2")]], {c: [(0, 0, 5, 5 + n)] for c in "12"}) for n in range(12)]
    chunks = RegionPhrasePairs.from_photos(photos, lambda photo_id: NO_PROPOSALS)
    augmented = RegionPhrasePairs.from_photos(photos, lambda photo_id: NO_PROPOSALS, more_phrases=related)
    assert training_set_sizes(chunks, augmented) == [
        ("All NP chunks", 24),
        ("Resampled, N = 1", 2),
        ("Resampled, N = 10", 20),
        ("All augmented phrases", 36),
        ("Resampled, N = 1", 3),
        ("Resampled, N = 10", 30),
    ]


def test_chains_with_one_box_count_as_one() -> None:
    photo = photo_of(1, [[("two men", "1"), ("a team", "2")]], {"1": [(0, 0, 4, 5), (3, 0, 9, 5)], "2": [(0, 0, 9, 5)]})
    pairs = RegionPhrasePairs.from_photos([photo], lambda photo_id: NO_PROPOSALS)
    assert pairs.chain.tolist() == [0, 0]
    assert len(pairs.boxes) == 1


def test_captions_about_another_photo_make_no_pairs() -> None:
    photo = photo_of(1, [[("a dog", "1")], [("a cat", "1")], [("a cow", "1")], [("a fox", "0")]], {"1": [(0, 0, 5, 5)]})
    other, region = replace(photo.captions[1], related=False), replace(photo.captions[2], region_phrase=True)
    photo = replace(photo, captions=(photo.captions[0], other, region, photo.captions[3]))
    pairs = RegionPhrasePairs.from_photos([photo], lambda photo_id: NO_PROPOSALS)
    assert pairs.phrases == ("a dog",)


def test_a_box_without_a_pixel_makes_no_pair() -> None:
    photo = photo_of(1, [[("a dog", "1"), ("snow", "2")]], {"1": [(5, 5, 5, 9)], "2": [(0, 0, 5, 5)]})
    assert RegionPhrasePairs.from_photos([photo], lambda photo_id: NO_PROPOSALS).phrases == ("snow",)


def test_a_split_of_a_data_set_gives_the_same_pairs_as_its_photos(tmp_path: Path) -> None:
    photos = [
        replace(photo_of(n, [[("a dog", "1")]], {"1": [(0, 0, 5, 5 + n)]}), splits=("train",) if n % 2 else ("dev",))
        for n in range(5)
    ]
    make_dataset(tmp_path / "data", photos)
    pairs = RegionPhrasePairs.from_photos(Dataset(tmp_path / "data").split("train"), lambda photo_id: NO_PROPOSALS)
    assert rows_of(pairs) == plain_pairs(photos[1::2])


def test_data_without_pairs_is_refused() -> None:
    with pytest.raises(DatasetError, match="no phrase"):
        RegionPhrasePairs.from_photos([Photo("1", boxes=(Box((0, 0, 5, 5)),))], lambda photo_id: NO_PROPOSALS)


@pytest.mark.parametrize("proposals", [np.ones((2, 5)), np.ones(4), np.array([[0, 0, np.nan, 5]])])
def test_invalid_proposals_name_the_photo(proposals: np.ndarray) -> None:
    photo = photo_of(77, [[("a dog", "1")]], {"1": [(0, 0, 5, 5)]})
    with pytest.raises(DatasetError, match="photo 77"):
        RegionPhrasePairs.from_photos([photo], lambda photo_id: proposals)


def test_resampling_to_nothing_is_refused() -> None:
    with pytest.raises(DatasetError, match="resampling: 0"):
        random_pairs().resample(0)
