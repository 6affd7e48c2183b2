"""Pictures of the annotations of a data set: gold boxes and captions (Flickr30k Entities, Figure 1)."""

from __future__ import annotations

from PIL import Image

from deixis.data.records import Photo
from deixis.pictures.grounded import PhraseBoxes, draw_grounding


def draw_annotations(photo: Photo, image: Image.Image) -> Image.Image:
    """Draw the boxes of all chains on a photo, and below it the captions.

    The mentions of a chain, in all captions, share a colour and a number with its boxes; mentions of chains without a
    box have a grey line. Captions that the data marks as unrelated, and phrases of single regions, are left out.
    """
    return draw_grounding(image, annotated_captions(photo, image.size))


def annotated_captions(photo: Photo, size: tuple[int, int]) -> list[tuple[str, list[PhraseBoxes]]]:
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
            phrases.append(PhraseBoxes(mention.start, mention.end, scaled, key=mention.chain))
        found.append((caption.text, phrases))
    return found
