"""Photos into other people's formats: one module each, imported only when it is chosen.

Records come in, one photo after another; files in an empty folder go out. Each module says what its format cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from deixis.data.records import Photo
from deixis.errors import DeixisError

FORMATS: Mapping[str, str] = {
    "entities": "entities",
    "coco": "coco",
    "karpathy": "karpathy",
    "jsonl": "jsonl",
    "odvg": "odvg",
    "label-studio": "label_studio",
    "parquet": "parquet",
}
"""The module of each format."""


def write_as(photos: Iterable[Photo], format_name: str, folder: Path, *, images: Path | None = None) -> None:
    """Write photos in a format.

    Parameters
    ----------
    photos
        Read once, and never held all together.
    format_name
        One of `FORMATS`.
    folder
        Exists and is empty.
    images
        The folder that the photos' files are below, where they shall travel along: inside the files of ``parquet``,
        as copies in ``folder/images`` for every other format.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_as([Photo("1", width=4, height=3)], "jsonl", Path(folder))
    ...     print((Path(folder) / "photos.jsonl").read_text(), end="")
    {"id":"1","width":4,"height":3}
    """
    if format_name not in FORMATS:
        raise DeixisError(f"unknown format {format_name!r}; choose one of: {', '.join(FORMATS)}")
    import_module(f"{__name__}.{FORMATS[format_name]}").write(photos, folder, images=images)
