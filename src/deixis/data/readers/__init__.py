"""Readers of other people's files: bytes of any origin come in, `Photo` records go out.

`read_captions` tells the format by what a file holds, never by its name. Each format is a module with a ``KIND``
and a ``FORM`` (its name for machines and for people), ``recognises``, which looks at the content, and ``read``,
which makes a `Source` of it. Whatever is in a file, nothing but a `DatasetError` of one line is raised.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from deixis.data.readers import coco, flickr, iapr, jsonlines, karpathy, regions, results, table
from deixis.data.readers.content import Content
from deixis.data.readers.names import shown
from deixis.data.readers.source import Source
from deixis.errors import DatasetError

__all__ = ["Source", "read_captions"]


class Format(Protocol):
    """What the module of a format has."""

    KIND: str
    FORM: str

    def recognises(self, content: Content) -> bool:
        """Whether the content is of this format."""
        ...

    def read(self, content: Content) -> Source:
        """The photos in it."""
        ...


FORMATS: tuple[Format, ...] = (iapr, flickr, karpathy, coco, regions, jsonlines, results, table)
"""In the order in which they are tried."""


def read_captions(path: Path, *, instances: Path | None = None) -> Source:
    r"""Read photos and their captions from a file, or from a folder or zip of files.

    Parameters
    ----------
    path
        A file of any format of `FORMATS`; IAPR TC-12 is a folder or a zip.
    instances
        With COCO's captions, its file of boxes.

    Returns
    -------
    Source
        Its photos come with `Photo.file` unset, and with what the file calls them in `Photo.annotated`.

    Raises
    ------
    DatasetError
        At once, or from `Source.photos` once the place that is wrong is reached.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "captions.txt"
    ...     _ = file.write_text("image,caption\n1.jpg,A dog runs .\n")
    ...     source = read_captions(file)
    >>> source.kind, source.total, next(source.photos).captions[0].text
    ('table', 1, 'A dog runs .')
    """
    content = Content(path, instances)
    try:
        chosen = next((known for known in FORMATS if known.recognises(content)), None)
        if chosen is None:
            forms = "; ".join(known.FORM for known in FORMATS)
            raise DatasetError(f"{path}: unknown form, {_what_was_seen(content)}. Known are: {forms}")
        if instances is not None and chosen is not coco:
            raise DatasetError(
                f"{path}: boxes from {instances} go with COCO's captions only, and this is {chosen.FORM}"
            )
        source = chosen.read(content)
    except OSError as error:
        raise DatasetError(f"{error.filename or path}: cannot be read ({error.strerror})") from error
    if source.total == 0:
        raise DatasetError(f"{path}: there are no photos in it")
    return source


def _what_was_seen(content: Content) -> str:
    if content.is_tree:
        seen = f"the first of {len(content.names)} files is {shown(content.names[0])}" if content.names else "no file"
        return f"a folder or zip: {seen}"
    if isinstance(content.first_json, dict):
        return f"a JSON object with the keys {shown(', '.join(content.first_json))}"
    return f"it begins with {shown(content.first_line)}"
