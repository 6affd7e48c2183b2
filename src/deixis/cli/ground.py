"""`deixis ground`: a box for each noun phrase of a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deixis.cli.output import Json, note, print_json, working
from deixis.errors import DeixisError


def ground(
    photo: Annotated[Path, typer.Argument(metavar="PHOTO", help="A photo.", show_default=False)],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="In English, in quotes.", show_default=False)],
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw phrases and boxes in matching colours into FILE.")
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME|DIR", help="Another model that learned to point.")] = "grounder",
    json: Json = False,
) -> None:
    """Find each noun phrase of a sentence in a photo."""
    from deixis.data.images import open_photo
    from deixis.tasks.bundle import load
    from deixis.tasks.grounding import Pointer
    from deixis.tasks.pictures.saving import check_picture_name, save_picture

    if not sentence.strip():
        raise DeixisError("give a sentence in quotes, such as 'Two dogs in the snow.'")
    if picture is not None:
        check_picture_name(picture)
    with working("looking"):
        opened = open_photo(photo)
        found = Pointer(load(model)).ground(opened, sentence)
    if picture is not None:
        save_picture(found.drawn(opened), picture)
    if json:
        print_json({"photo": str(photo), **found.as_json()})
        return
    if not found.phrases:
        note(f"no noun phrase was found in {sentence!r}; deixis reads English only")
    for phrase in found.phrases:
        box = ", ".join(f"{side:.0f}" for side in phrase.box)
        there = "" if phrase.presence is None else f"  (there {phrase.presence:.0%})"
        print(f"{phrase.text}: " + (f"not in this photo, it seems{there}" if phrase.absent else f"[{box}]{there}"))
    if found.unknown:
        note(f"the model does not know {', '.join(found.unknown)}; it can only guess where that is, and reads English")
    if picture is not None:
        print(f"picture: {picture}")
    elif found.phrases:
        note("next: --picture FILE draws them")
