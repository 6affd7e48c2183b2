"""Training examples: each phrase with its photo, gold box, types and words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from deixis.data.records import ENTITY_TYPES, Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError
from deixis.language.vocabulary import WordTable
from deixis.models.grounder.data import build_vocabulary, collect_examples, stem
from tests.models.grounder.made_up import SMALL, MadeUpStore, made_examples, made_photos


def test_each_phrase_has_its_photo_gold_box_and_types() -> None:
    photos, examples = made_photos(6), made_examples(SMALL, 6)
    assert len(examples) == 24
    assert len(examples.photos) == len(photos)
    rows = iter(range(len(examples.text)))
    vocabulary = build_vocabulary(made_photos(), 1)
    for index, photo in enumerate(photos):
        for caption in photo.sentences:
            row = next(rows)
            assert examples.photo[row] == index
            for phrase, mention in enumerate(caption.mentions):
                begin, end = examples.text.spans[row, phrase].tolist()
                found = vocabulary.decode(examples.text.words[row, begin:end].tolist())
                assert " ".join(found) == caption.phrase(mention)
                gold = np.array(photo.boxes_of(mention.chain or "")[0].xyxy) / (100, 80, 100, 80)
                np.testing.assert_allclose(examples.gold[row, phrase], gold, rtol=1e-6)
                kinds = [kind for kind, has in zip(ENTITY_TYPES, examples.types[row, phrase], strict=True) if has]
                assert tuple(kinds) == mention.types


def test_regions_are_those_of_the_store_in_half_precision() -> None:
    photos, examples = made_photos(3), made_examples(SMALL, 3, counts={"1": 2})
    store = MadeUpStore(photos, {"1": 2})
    assert examples.photos.vectors.dtype == torch.float16
    assert examples.photos.mask.sum(1).tolist() == [7, 2, 7]
    np.testing.assert_allclose(examples.photos.vectors[1, :2], store.proposal_vectors("1"), atol=1e-3)
    np.testing.assert_allclose(examples.photos.boxes[1, :2], store.proposals("1").boxes / (100, 80, 100, 80), rtol=1e-6)


def test_feature_maps_are_resampled_to_the_grid_of_the_first() -> None:
    examples = made_examples(replace(SMALL, num_layers=1, use_feature_map=True), 3)
    assert examples.photos.cells is not None
    assert examples.photos.cells.shape == (3, 12, 8)


def test_without_sentence_context_each_phrase_is_an_input() -> None:
    examples = made_examples(replace(SMALL, sentence_context=False), 3)
    assert len(examples.text) == len(examples) == 12
    assert examples.caption.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def photo_with(*boxes: tuple[float, float, float, float], **others: object) -> Photo:
    caption = Caption.from_text("two dogs", (Mention(0, 8, "red", ("animals",)),))
    chosen = {"captions": (caption,), "width": 100, "height": 50} | others
    return Photo("1", chains=(Chain("red"),), boxes=tuple(Box(box, ("red",)) for box in boxes), **chosen)  # type: ignore[arg-type]


def made_from(*photos: Photo):
    return collect_examples(photos, MadeUpStore(list(photos)), WordTable(build_vocabulary(photos, 1)), SMALL)  # type: ignore[arg-type]


def test_the_gold_box_is_the_union_of_the_boxes_of_a_chain() -> None:
    examples = made_from(photo_with((0, 0, 10, 10), (50, 20, 60, 40)))
    np.testing.assert_allclose(examples.gold[0, 0], [0, 0, 0.6, 0.8])


def test_the_boxes_of_a_chain_are_kept_apart() -> None:
    other = replace(photo_with((0, 0, 50, 50)), id="2")
    examples = made_from(photo_with((0, 0, 10, 10), (50, 20, 60, 40)), other)
    boxes = examples.chain_boxes[examples.chain[:, 0]]
    np.testing.assert_allclose(boxes[0], [[0, 0, 0.1, 0.2], [0.5, 0.4, 0.6, 0.8]])
    np.testing.assert_allclose(boxes[1], [[0, 0, 0.5, 1], [0, 0, 0, 0]])


def test_captions_of_other_photos_or_regions_and_phrases_without_boxes_are_left_out() -> None:
    good = photo_with((0, 0, 10, 10))
    (caption,) = good.captions
    strange = (replace(caption, related=False), replace(caption, region_phrase=True), Caption.from_text("two dogs"))
    examples = made_from(replace(good, captions=(*strange, caption)))
    assert len(examples) == 1
    with pytest.raises(DatasetError):
        made_from(replace(good, captions=strange))
    with pytest.raises(DatasetError):
        made_from(photo_with())


def test_photo_stems_are_those_of_all_sentences_of_the_photo() -> None:
    photos, examples = made_photos(6), made_examples(SMALL, 6)
    for row in range(len(examples.text)):
        for phrase in range(2):
            caption = photos[examples.photo[row]].sentences[row % 2]
            colour = caption.mentions[phrase].chain
            for index, photo in enumerate(photos):
                found = any(str(colour) in one.text for one in photo.sentences)
                assert bool(examples.photo_stems[index, examples.heads[row, phrase]]) == found


def test_every_photo_has_the_stem_of_unknown_words() -> None:
    photos = made_photos(4)
    examples = collect_examples(photos, MadeUpStore(photos), WordTable(build_vocabulary(photos, 10**6)), SMALL)  # type: ignore[arg-type]
    assert not examples.heads.any()
    assert examples.photo_stems.all()


@pytest.mark.parametrize(("word", "expected"), [("dogs", "dog"), ("grass", "grass"), ("people", "person"), ("s", "")])
def test_plurals_have_the_stem_of_their_singular(word: str, expected: str) -> None:
    assert stem(word) == expected
