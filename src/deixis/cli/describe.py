"""`deixis describe`: phrases for the regions of a photo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deixis.cli.output import Json, argument, flag, hint, option, print_json, working
from deixis.errors import DeixisError


def describe(
    photo: Annotated[Path, argument("PHOTO", "Photo file.")],
    region: Annotated[
        str | None, option("x1,y1,x2,y2", "Region in pixels (default: the most salient regions).")
    ] = None,
    top: Annotated[int, option("N", "Maximum number of phrases per region.", min=1, max=1000)] = 2,
    regions: Annotated[int, option("N", "Maximum number of regions.", min=1)] = 10,
    picture: Annotated[
        Path | None, option("FILE", "Draw the regions and phrases, and write the picture to FILE.")
    ] = None,
    long: Annotated[
        bool, flag("--long", "Use long phrases, such as 'a man in a red hat', instead of short ones.")
    ] = False,
    bank: Annotated[
        Path | None,
        option(
            "FILE",
            "Phrases to choose from, instead of those of the model: a text file with one per line, optionally "
            "followed by a tab and a count.",
        ),
    ] = None,
    model: Annotated[str, option("NAME|DIR", "Describer: a name from deixis models, or a directory.")] = "describer",
    json: Json = False,
) -> None:
    """Describe regions of a photo with phrases."""
    from deixis.data.images import open_photo
    from deixis.models.describer.description import draw_descriptions, parse_region
    from deixis.models.pipeline import load
    from deixis.pictures.grounded import check_picture_name, save_picture

    if long and bank is not None:
        raise DeixisError("--long: has phrases of its own; leave out --bank")
    box = None if region is None else parse_region(region)
    if picture is not None:
        check_picture_name(picture)
    with working("describing"):
        opened = open_photo(photo)
        pipeline = load(model)
        pipeline.require("describe")
        describer = pipeline.describer if bank is None else pipeline.describer.with_phrases(bank)
        describer = describer.with_long_phrases() if long else describer
        found = describer.describe(opened, box, top=top, regions=regions)
    if picture is not None:
        save_picture(draw_descriptions(opened, found), picture)
    if json:
        print_json({"photo": str(photo), "regions": [described.as_json() for described in found]})
        return
    if not found:
        hint("no region that a phrase fits; give one with --region x1,y1,x2,y2, or other phrases with --bank")
    for described in found:
        sides = ", ".join(f"{side:.0f}" for side in described.box)
        phrases = ", ".join(f"{phrase.text} ({phrase.score:.0%})" for phrase in described.phrases)
        print(f"[{sides}]: {phrases or 'no phrase fits'}")
    if picture is not None:
        print(f"picture: {picture}")
    elif found:
        hint("next: --picture FILE draws the regions")
