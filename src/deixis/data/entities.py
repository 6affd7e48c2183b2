r"""Parse and format the two file formats of Flickr30k Entities: sentences and annotations.

A sentence marks mentions as ``[/EN#chain/type words]``. Several types are written ``/type1/type2``; chain 0 is not
visual. The release has no brackets inside mentions. We escape them with a backslash: ``\]`` inside a mention is a
bracket and not its end, ``\[/EN#…`` is text and not the start of a mention, and backslashes directly before either are
doubled. All other backslashes and brackets are literal, so lines of the release round-trip byte for byte.

An annotation is VOC-like XML: objects with one or more chains as ``<name>`` and either a ``<bndbox>`` or the flags
``<scene>`` and ``<nobndbox>``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, ParseError
from xml.sax.saxutils import escape

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from deixis import geometry
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError

_BEGIN = re.compile(r"(\\*)\[/EN#([^\s/\[\]]+)((?:/[^\s/\[\]]+)*) ")
_END = re.compile(r"(\\*)\]")


def parse_sentence(line: str, source: str = "sentence") -> Caption:
    """Parse one line of a ``Sentences`` file. Errors name `source`."""
    pieces: list[str] = []
    mentions: list[Mention] = []
    length = position = 0

    def add(text: str) -> None:
        nonlocal length
        pieces.append(text)
        length += len(text)

    for begin in _BEGIN.finditer(line):
        if begin.start() < position:  # inside the previous mention
            continue
        slashes = len(begin[1])
        add(line[position : begin.start()] + "\\" * (slashes // 2))
        if slashes % 2:
            add("[")
            position = begin.start() + slashes + 1
            continue
        words, position = _read_mention(line, begin.end(), source)
        chain = None if begin[2] == "0" else begin[2]
        types = tuple(begin[3].split("/")[1:])
        mentions.append(Mention(length, length + len(words), chain, types))
        add(words)
    add(line[position:])
    return Caption.from_text("".join(pieces), tuple(mentions))


def _read_mention(line: str, start: int, source: str) -> tuple[str, int]:
    """Return the words of a mention and the position after its closing bracket."""
    words, position = "", start
    for end in _END.finditer(line, start):
        slashes = len(end[1])
        words += line[position : end.start()] + "\\" * (slashes // 2)
        position = end.end()
        if slashes % 2 == 0:
            if not words:
                raise DatasetError(f"{source}: the mention before character {position} is empty")
            return words, position
        words += "]"
    raise DatasetError(f"{source}: the mention at character {start + 1} has no closing bracket")


def format_sentence(caption: Caption, chain_names: dict[str, str] | None = None) -> str:
    """Format one line of a ``Sentences`` file. `chain_names` optionally renames chains."""
    line, position = "", 0
    for mention in caption.mentions:
        line += _escape_outside(caption.text[position : mention.start])
        slashes = len(line) - len(line.rstrip("\\"))
        types = "".join("/" + re.sub(r"[\s/\[\]]", "-", name) for name in mention.types)
        chain = "0" if mention.chain is None else (chain_names or {}).get(mention.chain, mention.chain)
        line += "\\" * slashes + f"[/EN#{chain}{types} {_escape_inside(caption.phrase(mention))}]"
        position = mention.end
    return line + _escape_outside(caption.text[position:])


def _escape_outside(text: str) -> str:
    return _BEGIN.sub(lambda found: found[1] + "\\" + found[0], text)


def _escape_inside(words: str) -> str:
    words = _END.sub(lambda found: found[1] * 2 + "\\]", words)
    slashes = len(words) - len(words.rstrip("\\"))
    return words + "\\" * slashes


def parse_annotation(data: bytes, file: str, photo_id: str) -> Photo:
    """Parse one ``Annotations`` file. The photo has no captions. Errors name `file`."""
    root = parse_xml(data, "annotation", file)
    source = AnnotationSource(
        photo_id,
        root.findtext("filename") or photo_id + ".jpg",
        *(_parse_size(root.findtext(f"size/{side}"), file, side) for side in ("width", "height", "depth")),
    )
    chains: dict[str, Chain] = {}
    boxes: list[Box] = []
    for number, element in enumerate(root.iterfind("object"), start=1):
        names = tuple(name.text.strip() for name in element.iterfind("name") if name.text)
        if not names:
            raise DatasetError(f"{file}: object {number} has no <name>")
        scene, no_box = _flag(element, "scene"), _flag(element, "nobndbox")
        for name in names:
            known = chains.get(name, Chain(name))
            chains[name] = Chain(name, known.scene or scene, known.no_box or no_box)
        corners = element.find("bndbox")
        if corners is not None:
            boxes.append(Box(_corners(corners, file, number), names))
    return Photo(photo_id, (), tuple(chains.values()), tuple(boxes), source.width, source.height, annotated=source)


def parse_xml(data: bytes | str, tag: str, file: str) -> Element:
    """Parse an untrusted XML document. Errors name `file`."""
    try:
        root: Element = SafeElementTree.fromstring(data, forbid_dtd=True)
    except DefusedXmlException:
        raise DatasetError(f"{file}: refused, because it declares a DOCTYPE or entities") from None
    except (ParseError, ValueError, LookupError) as error:
        raise DatasetError(f"{file}: not well-formed XML ({error})") from None
    if root.tag != tag:
        raise DatasetError(f"{file}: expected <{tag}>, found <{root.tag}>")
    return root


def _flag(element: Element, name: str) -> bool:
    return (element.findtext(name) or "0").strip() == "1"


def _parse_size(text: str | None, file: str, name: str) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 0 < number < 2**31:
        raise DatasetError(f"{file}: <{name}> is not a size: {text[:20]!r}")
    return number


def _corners(element: Element, file: str, number: int) -> tuple[float, float, float, float]:
    values = []
    for name in ("xmin", "ymin", "xmax", "ymax"):
        text = element.findtext(name)
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DatasetError(f"{file}: object {number}: <{name}> is not a number: {text[:20] if text else text!r}")
        values.append(value)
    x1, y1, x2, y2 = geometry.from_entities(values).tolist()
    return x1, y1, x2, y2


def format_annotation(photo: Photo, chain_names: dict[str, str] | None = None) -> str:
    """Format one ``Annotations`` file, at the size at which the photo was annotated."""
    names = chain_names or {}
    photo = photo.as_annotated()
    annotated = photo.annotated or AnnotationSource(photo.id, photo.id + ".jpg")
    depth = annotated.depth or 3
    lines = ["<annotation>", f"\t<filename>{escape(annotated.file)}</filename>"]
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
    return [f"{indent}<{name}>{escape(str(value))}</{name}>" for name, value in pairs]
