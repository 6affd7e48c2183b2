"""Pictures of gold annotations."""

from __future__ import annotations

import numpy as np
from PIL import Image

from deixis.data.records import Box, Caption, Mention, Photo
from deixis.pictures.annotations import annotated_captions, draw_annotations

DOGS = Caption.from_text("Two dogs play.", (Mention(0, 8, "1", ("animals",)),))
ANIMALS = Caption.from_text("Animals on grass.", (Mention(0, 7, "1", ("animals",)), Mention(11, 16, "2", ("scene",))))
OTHER = Caption.from_text("A train.", (Mention(0, 7, "3"),), related=False)
PHOTO = Photo(
    "7",
    (DOGS, ANIMALS, OTHER),
    boxes=(Box((0, 0, 40, 40), ("1",)), Box((50, 10, 90, 60), ("1",)), Box((1, 1, 5, 5), ("3",))),
    width=100,
    height=80,
)


def test_mentions_of_a_chain_share_its_boxes_in_pixels_of_the_image() -> None:
    [(text, [dogs]), (_, [animals, grass])] = annotated_captions(PHOTO, (200, 80))
    assert text == "Two dogs play."
    assert dogs.boxes == animals.boxes == ((0, 0, 80, 40), (100, 10, 180, 60))
    assert (dogs.key, grass.key, grass.boxes) == ("1", "2", ())


def test_the_picture_has_the_photo_and_the_captions() -> None:
    picture = draw_annotations(PHOTO, Image.new("RGB", (100, 80), "white"))
    assert picture.height / picture.width > 0.8
    assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 10
