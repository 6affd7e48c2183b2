"""Pictures onto the disk, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from deixis.errors import DeixisError
from deixis.files.atomic import new_file


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture in the format that its name asks for.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_picture(Image.new("RGB", (8, 6)), Path(folder) / "a.png")
    ...     Image.open(Path(folder) / "a.png").size
    (8, 6)
    """
    form = check_picture_name(path)
    with new_file(path) as unfinished:
        picture.save(unfinished, format=form)


def check_picture_name(path: Path) -> str:
    """The format that a name asks for; said before the work, not after it, where there is none or no such folder."""
    form = Image.registered_extensions().get(path.suffix.lower())
    if form not in Image.SAVE:
        raise DeixisError(f"{path}: pictures are written as .png, .jpg or .webp; give such a name")
    if not path.parent.is_dir():
        raise DeixisError(f"{path}: there is no folder {path.parent}")
    return form
