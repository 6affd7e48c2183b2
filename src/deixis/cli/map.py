"""`deixis map`: photos and their sentences on a plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deixis.cli.output import Json, plural, print_json, progress
from deixis.errors import DeixisError


def map_(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A data set directory.", show_default=False)],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="A picture (.png, .jpg, .webp) or a page (.html).", show_default=False)
    ],
    model: Annotated[str, typer.Option(metavar="NAME|DIR", help="Whose space is shown.")] = "two-branch",
    photos: Annotated[int, typer.Option(min=4, help="So many photos, drawn at random.")] = 60,
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Of one split; of all photos unless said.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another one draws other photos.")] = 0,
    images: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the photos are now.")] = None,
    json: Json = False,
) -> None:
    """Lay photos and their sentences out by t-SNE: what a model finds alike lies together."""
    from deixis.data.dataset import Dataset
    from deixis.files.atomic import new_file
    from deixis.tasks.bundle import load
    from deixis.tasks.map.layout import map_of, some_photos
    from deixis.tasks.pictures.saving import check_picture_name, save_picture

    page = out.suffix.lower() in (".html", ".htm")
    if not page:
        check_picture_name(out)
    elif not out.parent.is_dir():
        raise DeixisError(f"{out}: there is no folder {out.parent}")
    dataset = Dataset(data, images=images)
    chosen = some_photos(dataset, dataset.split(split) if split else dataset.photos, photos, seed)
    with progress("photos") as on_progress:
        shown = map_of(load(model), dataset, chosen, seed=seed, on_progress=on_progress)
        if page:
            from deixis.tasks.map.page import map_page

            with new_file(out) as unfinished:
                unfinished.write_text(map_page(shown, on_progress=on_progress), encoding="utf-8")
        else:
            from deixis.tasks.map.picture import draw_map

            save_picture(draw_map(shown, on_progress=on_progress), out)
    if json:
        print_json({"file": str(out), "photos": len(shown.files), "sentences": len(shown.sentences)})
        return
    print(f"{out}: {plural(len(shown.files), 'photo')} and {plural(len(shown.sentences), 'sentence')}")
