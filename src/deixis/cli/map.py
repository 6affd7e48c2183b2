"""`deixis map`: a map of photos and their sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deixis.cli.output import Data, Images, Json, Split, option, plural, print_result, progress
from deixis.errors import DeixisError


def map_(
    data: Data,
    out: Annotated[
        Path, option("FILE", "Output file: a picture (.png, .jpg, .webp) or a page (.html).", show_default=False)
    ],
    model: Annotated[
        str, option("NAME|DIR", "Embedding model: a name from deixis models, or a directory.")
    ] = "two-branch",
    photos: Annotated[int, option("N", "Number of photos, sampled at random.", min=4)] = 60,
    split: Split = None,
    seed: Annotated[int, option("N", "Random seed of the sample and the layout.", min=0)] = 0,
    images: Images = None,
    json: Json = False,
) -> None:
    """Draw a t-SNE map of photos and their sentences.

    Photos and sentences whose embeddings are similar are close to each other.
    """
    from deixis.data.dataset import Dataset
    from deixis.models.grounding import load_embedding_model
    from deixis.pictures.grounded import check_picture_name, save_picture
    from deixis.search.map import draw_map, make_map, map_page, sample_photos
    from deixis.storage.atomic import new_file

    is_page = out.suffix.lower() in (".html", ".htm")
    if not is_page:
        check_picture_name(out)
    elif not out.parent.is_dir():
        raise DeixisError(f"{out}: there is no folder {out.parent}")
    dataset = Dataset(data, images=images)
    chosen = sample_photos(dataset, dataset.split(split) if split else dataset.photos, photos, seed)
    with progress("photos") as on_progress:
        semantic_map = make_map(load_embedding_model(model), dataset, chosen, seed=seed, on_progress=on_progress)
        if is_page:
            with new_file(out) as partial:
                partial.write_text(map_page(semantic_map, on_progress=on_progress), encoding="utf-8")
        else:
            save_picture(draw_map(semantic_map, on_progress=on_progress), out)
    shown, sentences = len(semantic_map.files), len(semantic_map.sentences)
    document = {"file": str(out), "photos": shown, "sentences": sentences}
    print_result(json, document, f"{out}: {plural(shown, 'photo')} and {plural(sentences, 'sentence')}")
