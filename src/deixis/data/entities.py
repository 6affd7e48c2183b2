r"""The two file forms of Flickr30k Entities, each read and written in one place.

A sentence marks its mentions as ``[/EN#chain/type words]``; several types are ``/type1/type2`` and chain 0 is not
visual. The release never has a bracket inside a mention. Where our text has one, a backslash marks it: ``\]`` inside
a mention is a bracket and not its end, ``\[/EN#…`` is text and not a beginning, and backslashes right before either
are doubled. Every other backslash and bracket stands for itself, so lines of the release come back byte for byte.

An annotation is a VOC-like XML: objects with one or more chains as ``<name>`` and either a ``<bndbox>`` or the flags
``<scene>`` and ``<nobndbox>``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from deixis import geometry
from deixis.data.records import Annotated, Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError

_BEGIN = re.compile(r"(\\*)\[/EN#([^\s/\[\]]+)((?:/[^\s/\[\]]+)*) ")
_END = re.compile(r"(\\*)\]")


def parse_sentence(line: str, place: str = "sentence") -> Caption:
    """Read one line of a ``Sentences`` file.

    Examples
    --------
    >>> caption = parse_sentence("[/EN#18/people A child] in [/EN#0/notvisual front] .")
    >>> caption.text
    'A child in front .'
    >>> caption.mentions[0]
    Mention(start=0, end=7, chain='18', types=('people',))
    """
    pieces: list[str] = []
    mentions: list[Mention] = []
    length = done = 0

    def add(text: str) -> None:
        nonlocal length
        pieces.append(text)
        length += len(text)

    for begin in _BEGIN.finditer(line):
        if begin.start() < done:  # inside the mention before
            continue
        slashes = len(begin[1])
        add(line[done : begin.start()] + "\\" * (slashes // 2))
        if slashes % 2:
            add("[")
            done = begin.start() + slashes + 1
            continue
        words, done = _words_until_end(line, begin.end(), place)
        chain = None if begin[2] == "0" else begin[2]
        types = tuple(begin[3].split("/")[1:])
        mentions.append(Mention(length, length + len(words), chain, types))
        add(words)
    add(line[done:])
    return Caption.from_text("".join(pieces), tuple(mentions))


def _words_until_end(line: str, start: int, place: str) -> tuple[str, int]:
    """The words of a mention, and where the text goes on after its bracket."""
    words, done = "", start
    for end in _END.finditer(line, start):
        slashes = len(end[1])
        words += line[done : end.start()] + "\\" * (slashes // 2)
        done = end.end()
        if slashes % 2 == 0:
            if not words:
                raise DatasetError(f"{place}: the mention before character {done} holds no words")
            return words, done
        words += "]"
    raise DatasetError(f"{place}: the mention whose words begin at character {start + 1} has no closing ]")


def format_sentence(caption: Caption, chain_names: dict[str, str] | None = None) -> str:
    r"""Write one line of a ``Sentences`` file; `chain_names` renames chains on the way.

    Examples
    --------
    >>> format_sentence(Caption.from_text("A [big] dog", (Mention(0, 11, "7", ("animals",)),)))
    '[/EN#7/animals A [big\\] dog]'
    """
    line, done = "", 0
    for mention in caption.mentions:
        line += _escape_outside(caption.text[done : mention.start])
        slashes = len(line) - len(line.rstrip("\\"))
        types = "".join("/" + re.sub(r"[\s/\[\]]", "-", name) for name in mention.types)
        chain = "0" if mention.chain is None else (chain_names or {}).get(mention.chain, mention.chain)
        line += "\\" * slashes + f"[/EN#{chain}{types} {_escape_inside(caption.phrase(mention))}]"
        done = mention.end
    return line + _escape_outside(caption.text[done:])


def _escape_outside(text: str) -> str:
    return _BEGIN.sub(lambda found: found[1] + "\\" + found[0], text)


def _escape_inside(words: str) -> str:
    words = _END.sub(lambda found: found[1] * 2 + "\\]", words)
    slashes = len(words) - len(words.rstrip("\\"))
    return words + "\\" * slashes


@dataclass(frozen=True)
class Annotation:
    """What one ``Annotations`` file says."""

    annotated: Annotated
    chains: tuple[Chain, ...]
    boxes: tuple[Box, ...]


def parse_annotation(data: bytes, place: str, photo_id: str) -> Annotation:
    """Read one ``Annotations`` file.

    Examples
    --------
    >>> xml = b"<annotation><filename>1.jpg</filename><object><name>7</name><scene>1</scene></object></annotation>"
    >>> parse_annotation(xml, "1.xml", "1").chains
    (Chain(id='7', scene=True, no_box=False, annotated=True),)
    """
    try:
        root: Element = SafeElementTree.fromstring(data, forbid_dtd=True)
    except DefusedXmlException:
        raise DatasetError(f"{place}: refused, it declares a DOCTYPE or entities") from None
    except (ParseError, ValueError, LookupError) as error:
        raise DatasetError(f"{place}: not well-formed XML ({error})") from None
    if root.tag != "annotation":
        raise DatasetError(f"{place}: expected <annotation>, found <{root.tag}>")
    annotated = Annotated(
        photo_id,
        root.findtext("filename") or photo_id + ".jpg",
        *(_whole_number(root.findtext(f"size/{side}"), place, side) for side in ("width", "height", "depth")),
    )
    chains: dict[str, Chain] = {}
    boxes: list[Box] = []
    for number, element in enumerate(root.iterfind("object"), start=1):
        names = tuple(name.text.strip() for name in element.iterfind("name") if name.text)
        if not names:
            raise DatasetError(f"{place}: object {number} has no <name>")
        scene, no_box = _flag(element, "scene"), _flag(element, "nobndbox")
        for name in names:
            known = chains.get(name, Chain(name))
            chains[name] = Chain(name, known.scene or scene, known.no_box or no_box)
        corners = element.find("bndbox")
        if corners is not None:
            boxes.append(Box(_corners(corners, place, number), names))
    return Annotation(annotated, tuple(chains.values()), tuple(boxes))


def _flag(element: Element, name: str) -> bool:
    return (element.findtext(name) or "0").strip() == "1"


def _whole_number(text: str | None, place: str, name: str) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 0 < number < 2**31:
        raise DatasetError(f"{place}: <{name}> is not a size: {text[:20]!r}")
    return number


def _corners(element: Element, place: str, number: int) -> tuple[float, float, float, float]:
    values = []
    for name in ("xmin", "ymin", "xmax", "ymax"):
        text = element.findtext(name)
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DatasetError(f"{place}: object {number}: <{name}> is not a number: {text[:20] if text else text!r}")
        values.append(value)
    x1, y1, x2, y2 = geometry.from_entities(values).tolist()
    return x1, y1, x2, y2


def format_annotation(photo: Photo, chain_names: dict[str, str] | None = None) -> str:
    """Write one ``Annotations`` file, at the size that the photo was annotated at."""
    names = chain_names or {}
    photo = photo.as_annotated()
    annotated = photo.annotated or Annotated(photo.id, photo.id + ".jpg")
    depth = annotated.depth or 3
    lines = ["<annotation>", f"\t<filename>{_escape_xml(annotated.file)}</filename>"]
    if photo.width is not None and photo.height is not None:
        size = _elements([("width", photo.width), ("height", photo.height), ("depth", depth)], "\t\t")
        lines += ["\t<size>", *size, "\t</size>"]
    boxed = {chain for box in photo.boxes for chain in box.chains}
    for box in photo.boxes:
        if not box.chains:
            continue
        corners = zip(("xmin", "ymin", "xmax", "ymax"), geometry.to_entities(box.xyxy).tolist(), strict=True)
        chains = _elements((("name", names.get(chain, chain)) for chain in box.chains), "\t\t")
        lines += [
            "\t<object>",
            *chains,
            "\t\t<bndbox>",
            *_elements(corners, "\t\t\t"),
            "\t\t</bndbox>",
            "\t</object>",
        ]
    for chain in photo.chains:
        if chain.scene or chain.no_box or (chain.annotated and chain.id not in boxed):
            flags = [
                ("name", names.get(chain.id, chain.id)),
                ("scene", int(chain.scene)),
                ("nobndbox", int(chain.no_box)),
            ]
            lines += ["\t<object>", *_elements(flags, "\t\t"), "\t</object>"]
    return "\n".join([*lines, "</annotation>"])


def _elements(pairs: Iterable[tuple[str, object]], indent: str) -> list[str]:
    return [f"{indent}<{name}>{_escape_xml(str(value))}</{name}>" for name, value in pairs]


def _escape_xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
