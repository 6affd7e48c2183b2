"""`deixis describe`: phrases for the regions of a photo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deixis.cli.output import Json, note, print_json, working


def describe(
    photo: Annotated[Path, typer.Argument(metavar="PHOTO", help="A photo.", show_default=False)],
    region: Annotated[
        str | None, typer.Option(metavar="x1,y1,x2,y2", help="One region in pixels; those that stand out unless said.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="At most so many phrases for a region.")] = 5,
    regions: Annotated[int, typer.Option(min=1, help="At most so many regions.")] = 10,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw regions and phrases in matching colours into FILE.")
    ] = None,
    bank: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other phrases: one a line, with a count after a tab or none.")
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME|DIR", help="Another model.")] = "describer",
    json: Json = False,
) -> None:
    """Describe a region of a photo, or all that stand out, each with several different phrases."""
    from deixis.data.images import open_photo
    from deixis.tasks.describe.describing import Describer, draw_descriptions
    from deixis.tasks.describe.salient import parsed_region
    from deixis.tasks.pictures.saving import check_picture_name, save_picture

    box = None if region is None else parsed_region(region)
    if picture is not None:
        check_picture_name(picture)
    with working("looking"):
        opened = open_photo(photo)
        found = Describer.open(model, bank).describe(opened, box, top=top, regions=regions)
    if picture is not None:
        save_picture(draw_descriptions(opened, found), picture)
    if json:
        print_json({"photo": str(photo), "regions": [described.as_json() for described in found]})
        return
    if not found:
        note("nothing in this photo stands out; name a region with --region x1,y1,x2,y2")
    for described in found:
        sides = ", ".join(f"{side:.0f}" for side in described.box)
        said = ", ".join(f"{phrase.text} ({phrase.score:.0%})" for phrase in described.phrases)
        print(f"[{sides}]: {said}")
    if picture is not None:
        print(f"picture: {picture}")
    elif found:
        note("next: --picture FILE draws them")
