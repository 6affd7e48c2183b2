"""IAPR TC-12: a folder or a zip of ``.eng`` files, one small XML document for each photo::

    <DOC>
    <DOCNO>annotations/00/25.eng</DOCNO>
    <TITLE>Plaza de Armas</TITLE>
    <DESCRIPTION>a yellow building with white columns; two palm trees in front of the house;</DESCRIPTION>
    <IMAGE>images/00/25.jpg</IMAGE>
    </DOC>

Give one folder of such files: the release describes each photo in several. What stands between the semicolons of the
description are the captions. The release is in ISO-8859-1, mostly without saying so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError  # types only; defusedxml parses

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from deixis.data.readers.content import Content
from deixis.data.readers.names import Names, Wrong
from deixis.data.readers.source import Source
from deixis.data.records import Annotated, Caption, Photo
from deixis.errors import DatasetError
from deixis.files.trees import open_tree

KIND = "iapr-tc12"
FORM = "IAPR TC-12 (a folder or zip of .eng files)"

_SUFFIX = ".eng"
_STATES_ENCODING = re.compile(rb"<\?xml[^>]*\bencoding\b")


def recognises(content: Content) -> bool:
    """Whether it is a folder or zip with ``.eng`` files in it."""
    return any(name.endswith(_SUFFIX) for name in content.names)


def read(content: Content) -> Source:
    """Photos in the order of their files' names."""
    names = [name for name in content.names if name.endswith(_SUFFIX)]
    return Source(KIND, _photos(content.path, names), len(names))


def _photos(path: Path, files: list[str]) -> Iterator[Photo]:
    names = Names()
    with open_tree(path) as tree:
        for file in files:
            yield _photo(tree.read(file), names, _at_file(path, file))


def _at_file(path: Path, file: str) -> Wrong:
    return lambda what: DatasetError(f"{path}: {file}: {what}")


def _photo(data: bytes, names: Names, wrong: Wrong) -> Photo:
    document = _parse(data, wrong)
    name = _text_of(document, "IMAGE")
    if not name:
        raise wrong("it names no IMAGE")
    photo_id = names.new_id_of(name, wrong)
    parts = (part.strip() for part in _text_of(document, "DESCRIPTION").split(";"))
    captions = tuple(Caption.from_text(part) for part in parts if part)
    return Photo(photo_id, captions, annotated=Annotated(photo_id, name))


def _parse(data: bytes, wrong: Wrong) -> Element:
    try:
        document: Element = SafeElementTree.fromstring(_decoded(data), forbid_dtd=True)
    except DefusedXmlException:
        raise wrong("refused, it declares a DOCTYPE or entities") from None
    except (ParseError, ValueError, LookupError) as error:
        raise wrong(f"not well-formed XML ({error})") from None
    if document.tag != "DOC":
        raise wrong(f"expected <DOC>, found <{document.tag}>")
    return document


def _decoded(data: bytes) -> bytes | str:
    """The document as text, unless it states its encoding: then the parser knows best."""
    if _STATES_ENCODING.match(data):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _text_of(document: Element, tag: str) -> str:
    """The text of an element on one line; empty where there is no such element."""
    element = document.find(tag)
    return "" if element is None else " ".join("".join(element.itertext()).split())
