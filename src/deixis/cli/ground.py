"""`deixis ground`: boxes for the noun phrases of a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deixis.cli.output import Json, argument, flag, hint, note, option, print_json, working
from deixis.errors import DeixisError


def ground(
    photo: Annotated[Path, argument("PHOTO", "Photo file.")],
    sentence: Annotated[str, argument("SENTENCE", "English sentence in quotes.")],
    picture: Annotated[
        Path | None, option("FILE", "Draw the boxes and phrases, and write the picture to FILE.")
    ] = None,
    nested: Annotated[
        bool, flag("--nested", "Also find boxes for longer phrases, with the phrases inside them.")
    ] = False,
    model: Annotated[
        str, option("NAME|DIR", "Grounding model: a name from deixis models, or a directory.")
    ] = "grounder",
    json: Json = False,
) -> None:
    """Find boxes for the noun phrases of a sentence: one for each thing that a phrase names."""
    from deixis.data.images import open_photo
    from deixis.models.pipeline import load
    from deixis.pictures.grounded import check_picture_name, save_picture

    if not sentence.strip():
        raise DeixisError("the sentence is empty; give one in quotes, such as 'Two dogs in the snow.'")
    if picture is not None:
        check_picture_name(picture)
    with working("grounding"):
        opened = open_photo(photo)
        found = load(model).ground(opened, sentence, nested=nested)
    if not found.phrases:
        raise DeixisError(f"no noun phrase found in {sentence!r}; name something, such as 'a red hat', in English")
    if picture is not None:
        save_picture(found.draw(opened), picture)
    if json:
        print_json({"photo": str(photo), **found.as_json()})
        return
    depths: list[int] = []
    for phrase in found.phrases:
        depths.append(0 if phrase.parent is None else depths[phrase.parent] + 1)
        boxes = " ".join(f"[{', '.join(f'{side:.0f}' for side in box)}]" for box in phrase.boxes)
        presence = "" if phrase.presence is None else f"  (presence {phrase.presence:.0%})"
        presence = presence if phrase.similarity is None else f"  (similarity {phrase.similarity:.2f})"
        presence = "  (a guess)" if phrase.guess else presence
        text = f"{'  ' * depths[-1]}{phrase.text}: "
        print(text + (f"probably not in this photo{presence}" if phrase.absent else f"{boxes}{presence}"))
    if found.unknown:
        note(f"unknown to the model: {', '.join(found.unknown)}; the boxes of their phrases are guesses")
    if picture is not None:
        print(f"picture: {picture}")
    else:
        hint("next: --picture FILE draws the boxes")
