"""Pictures of the annotations of a data set: gold boxes and captions (Flickr30k Entities, Figure 1)."""

from __future__ import annotations

from collections.abc import Collection

from PIL import Image

from deixis.data.records import Photo
from deixis.pictures.grounded import PhraseBoxes, draw_grounding
from deixis.pictures.style import Rectangle


def draw_annotations(photo: Photo, image: Image.Image, model_boxes: Collection[Rectangle] = ()) -> Image.Image:
    """Draw the boxes of all chains on a photo, and below it the captions.

    The mentions of a chain, in all captions, share a colour and a number with its boxes; mentions of chains without a
    box have a grey line. Captions that the data marks as unrelated, and phrases of single regions, are left out.
    `model_boxes` are those that a model proposed: they are dotted, and their phrases are marked with "model".
    """
    return draw_grounding(image, annotated_captions(photo, image.size, model_boxes))


def annotated_captions(
    photo: Photo, size: tuple[int, int], model_boxes: Collection[Rectangle] = ()
) -> list[tuple[str, list[PhraseBoxes]]]:
    """The captions of a photo with the boxes of their mentions, in pixels of an image of this size."""
    factor = (size[0] / photo.width, size[1] / photo.height) if photo.width and photo.height else (1.0, 1.0)
    found = []
    for caption in photo.sentences:
        phrases = []
        for mention in caption.mentions:
            boxes = () if mention.chain is None else photo.boxes_of(mention.chain)
            scaled = tuple(
                (box.xyxy[0] * factor[0], box.xyxy[1] * factor[1], box.xyxy[2] * factor[0], box.xyxy[3] * factor[1])
                for box in boxes
            )
            dotted = tuple(each for each, box in zip(scaled, boxes, strict=True) if box.xyxy in model_boxes)
            span = (mention.start, mention.end)
            phrases.append(PhraseBoxes(*span, scaled, key=mention.chain, model_boxes=dotted))
        found.append((caption.text, phrases))
    return found
