"""`deixis demo`: the sample photos, counted and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deixis.cli.output import progress


def demo(
    into: Annotated[Path, typer.Option(metavar="DIR", help="Where to put what it makes.")] = Path("deixis-demo"),
) -> None:
    """Import the sample photos, print their statistics and draw every phrase with its boxes."""
    from deixis.cli.data import print_statistics
    from deixis.data.dataset import Dataset
    from deixis.data.images import open_photo
    from deixis.data.importing import import_dataset
    from deixis.data.samples import SAMPLES
    from deixis.data.stats import plot_types, statistics
    from deixis.files.atomic import new_file
    from deixis.files.progress import told
    from deixis.tasks.pictures import grounding_of

    data, pictures = into / "data", into / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    with progress() as on_progress:
        import_dataset(
            data,
            images=SAMPLES / "images",
            entities=SAMPLES / "entities",
            licence=f"see {SAMPLES / 'README.md'}",
            replace_old=True,
            on_progress=on_progress,
        )
        dataset = Dataset(data)
        for photo in told(dataset.photos, "drawing", len(dataset.photos), on_progress):
            picture = grounding_of(photo, open_photo(dataset.path_of(photo)))
            with new_file(pictures / f"{photo.id}.png") as unfinished:
                picture.save(unfinished)
    found = statistics(dataset)
    plot_types(found, into / "types.png")
    print_statistics(found)
    print(f"data set:  {data}")
    print(f"pictures:  {pictures}  (phrases and boxes in matching colours)")
    print(f"figure:    {into / 'types.png'}")
    print(f"next:      deixis data check {data}")
