"""IAPR TC-12: a folder or zip of ``.eng`` files, one small XML document per photo::

    <DOC>
    <DOCNO>annotations/00/25.eng</DOCNO>
    <TITLE>Plaza de Armas</TITLE>
    <DESCRIPTION>a yellow building with white columns; two palm trees in front of the house;</DESCRIPTION>
    <IMAGE>images/00/25.jpg</IMAGE>
    </DOC>

Use one folder of such files: the release describes each photo in several. Semicolons separate the captions in the
description. The release is encoded in ISO-8859-1, mostly without declaring it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element  # for types only

from deixis.data.formats.content import Content, parse_xml
from deixis.data.names import CaptionSource, PhotoIds
from deixis.data.records import AnnotationSource, Caption, Photo
from deixis.errors import DatasetError
from deixis.storage.archives import open_tree

KIND = "iapr-tc12"
FORM = "IAPR TC-12 (a folder or zip of .eng files)"

_SUFFIX = ".eng"
_STATES_ENCODING = re.compile(rb"<\?xml[^>]*\bencoding\b")


def recognizes(content: Content) -> bool:
    return any(name.endswith(_SUFFIX) for name in content.names)


def read(content: Content) -> CaptionSource:
    names = [name for name in content.names if name.endswith(_SUFFIX)]
    return CaptionSource(KIND, _photos(content.path, names), len(names))


def _photos(path: Path, files: list[str]) -> Iterator[Photo]:
    ids = PhotoIds()
    with open_tree(path) as tree:
        for file in files:
            yield _photo(tree.read(file), ids, f"{path}: {file}")


def _photo(data: bytes, ids: PhotoIds, file: str) -> Photo:
    document = parse_xml(_decoded(data), "DOC", file)
    name = _text_of(document, "IMAGE")
    if not name:
        raise DatasetError(f"{file}: <IMAGE> is missing")
    photo_id = ids.add_new(name, lambda message: DatasetError(f"{file}: {message}"))
    parts = (part.strip() for part in _text_of(document, "DESCRIPTION").split(";"))
    captions = tuple(Caption.from_text(part) for part in parts if part)
    return Photo(photo_id, captions, annotated=AnnotationSource(photo_id, name))


def _decoded(data: bytes) -> bytes | str:
    """Decode the document, unless it declares an encoding for the parser."""
    if _STATES_ENCODING.match(data):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _text_of(document: Element, tag: str) -> str:
    """Return the text of an element on one line; empty if it is missing."""
    element = document.find(tag)
    return "" if element is None else " ".join("".join(element.itertext()).split())
