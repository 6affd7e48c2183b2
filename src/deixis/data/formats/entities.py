r"""Flickr30k Entities: ``Sentences/ID.txt`` and ``Annotations/ID.xml`` in a folder or zip, and lists of ids.

A sentence marks mentions as ``[/EN#chain/type words]``. Several types are written ``/type1/type2``; chain 0 is not
visual. The release has no brackets inside mentions. We escape them with a backslash: ``\]`` inside a mention is a
bracket and not its end, ``\[/EN#…`` is text and not the start of a mention, and backslashes directly before either are
doubled. All other backslashes and brackets are literal, so lines of the release round-trip byte for byte.

An annotation is VOC-like XML: objects with one or more chains as ``<name>`` and either a ``<bndbox>`` or the flags
``<scene>`` and ``<nobndbox>``.

Written boxes are rounded to whole pixels of the size at which the photo was annotated. Chains whose ids are not numbers
are renumbered within their photo. Not written: trees, labels of boxes, boxes without a chain, line breaks in captions.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from deixis import geometry
from deixis.data.documents import decode, read_text
from deixis.data.formats.common import copy_photos, splits_of
from deixis.data.formats.content import parse_xml
from deixis.data.names import CaptionSource
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo, with_mentioned
from deixis.errors import DatasetError
from deixis.storage.archives import Tree, open_tree

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


def _corners(element: Element, file: str, number: int) -> geometry.XYXY:
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
    root = Element("annotation")
    _add(root, [("filename", annotated.file)])
    if photo.width is not None and photo.height is not None:
        size = [("width", photo.width), ("height", photo.height), ("depth", annotated.depth or 3)]
        _add(SubElement(root, "size"), size)
    for box in photo.boxes:
        if box.chains:
            element = SubElement(root, "object")
            _add(element, (("name", names.get(chain, chain)) for chain in box.chains))
            corners = geometry.to_entities(box.xyxy).tolist()
            _add(SubElement(element, "bndbox"), zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True))
    boxed = {chain for box in photo.boxes for chain in box.chains}
    for chain in photo.chains:
        if chain.scene or chain.no_box or (chain.annotated and chain.id not in boxed):
            flags = [("scene", int(chain.scene)), ("nobndbox", int(chain.no_box))]
            _add(SubElement(root, "object"), [("name", names.get(chain.id, chain.id)), *flags])
    indent(root, "\t")
    return tostring(root, encoding="unicode")


def _add(parent: Element, children: Iterable[tuple[str, object]]) -> None:
    for tag, value in children:
        SubElement(parent, tag).text = str(value)


KIND = "flickr30k-entities"
_UNRELATED = "UNRELATED_CAPTIONS"
_LAYOUT = (["Sentences"], ["Annotations"])


@contextmanager
def read_entities(path: Path, include: Callable[[str], bool] = lambda photo_id: True) -> Iterator[CaptionSource]:
    """Open the release, or the ``annotations.zip`` in its folder. Photos are sorted by id.

    Id lists next to ``Sentences`` (``train.txt``, ``dev.txt``, …) become splits. Captions listed in
    ``UNRELATED_CAPTIONS``, there or next to the zip, are marked as not related.
    """
    inner = path / "annotations.zip"
    with open_tree(inner if inner.is_file() and not (path / "Sentences").is_dir() else path) as tree:
        sentences, annotations = _by_id(tree, "Sentences", ".txt"), _by_id(tree, "Annotations", ".xml")
        if not sentences and not annotations:
            raise DatasetError(f"{path}: not Flickr30k Entities: no Sentences/ID.txt or Annotations/ID.xml found")
        lists = _read_lists(path, tree)
        splits = _splits(lists, sentences.keys() | annotations.keys())
        unrelated = _unrelated(lists.get(_UNRELATED), path)
        ids = sorted(filter(include, sentences.keys() | annotations.keys()), key=lambda i: (len(i), i))

        def photos() -> Iterator[Photo]:
            for photo_id in ids:
                photo = _read_photo(tree, photo_id, sentences.get(photo_id), annotations.get(photo_id))
                captions = tuple(
                    replace(caption, related=(photo_id, number) not in unrelated)
                    for number, caption in enumerate(photo.captions, start=1)
                )
                listed = tuple(name for name, members in splits.items() if photo_id in members)
                yield replace(photo, captions=captions, splits=listed)

        yield CaptionSource(KIND, photos(), len(ids))


def _by_id(tree: Tree, folder: str, suffix: str) -> dict[str, str]:
    """Index the files directly in a folder by photo id."""
    found: dict[str, str] = {}
    for name in tree.names():
        *_, parent, last = "", *name.split("/")
        if parent == folder and last.endswith(suffix):
            photo_id = last.removesuffix(suffix)
            if photo_id in found:
                raise DatasetError(f"{tree.root}: {found[photo_id]} and {name} both describe photo {photo_id}")
            found[photo_id] = name
    return found


def _read_photo(tree: Tree, photo_id: str, sentences: str | None, annotation: str | None) -> Photo:
    captions: tuple[Caption, ...] = ()
    if sentences is not None:
        file = f"{tree.root}: {sentences}"
        text = decode(tree.read(sentences), file)
        lines = text.removesuffix("\n").split("\n") if text else []
        captions = tuple(
            parse_sentence(line.removesuffix("\r"), f"{file}: line {number}")
            for number, line in enumerate(lines, start=1)
        )
    photo = Photo(photo_id)
    if annotation is not None:
        photo = parse_annotation(tree.read(annotation), f"{tree.root}: {annotation}", photo_id)
    return replace(photo, captions=captions, chains=with_mentioned(photo.chains, captions))


def _read_lists(path: Path, tree: Tree) -> dict[str, str]:
    """Read the text files next to ``Sentences`` or the zip: id lists and UNRELATED_CAPTIONS."""
    found = {}
    for inside in tree.names():
        *folders, name = inside.split("/")
        if (name.endswith(".txt") or name == _UNRELATED) and len(folders) <= 1 and folders not in _LAYOUT:
            found[name] = decode(tree.read(inside), f"{tree.root}: {inside}")
    folder = path if path.is_dir() else path.parent
    for file in folder.iterdir():
        is_list = file.suffix == ".txt" and path.is_dir()
        if file.name not in found and (is_list or file.name == _UNRELATED) and file.is_file():
            found[file.name] = read_text(file)
    return found


def _splits(lists: dict[str, str], ids: Set[str]) -> dict[str, set[str]]:
    """Return the split lists: files with one name per line, of which some are known ids."""
    found = {}
    for name, text in sorted(lists.items()):
        lines = [line.split() for line in text.splitlines() if line.strip()]
        if name.endswith(".txt") and all(len(line) == 1 for line in lines):
            members = {line[0] for line in lines}
            if members & ids:
                found[name.removesuffix(".txt")] = members
    return found


def _unrelated(text: str | None, path: Path) -> set[tuple[str, int]]:
    """Return photo id and sentence number, from 1, of each caption about another photo."""
    listed = set()
    for number, line in enumerate((text or "").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match line.split():
            case [photo_id, sentence] if sentence.isdecimal():
                listed.add((photo_id, int(sentence)))
            case _:
                raise DatasetError(f"{path}: UNRELATED_CAPTIONS: line {number}: expected an id and a number: {line!r}")
    return listed


_PLAIN_NUMBER = re.compile(r"[1-9][0-9]*", re.ASCII)


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``Sentences``, ``Annotations``, a list per split and ``UNRELATED_CAPTIONS``."""
    sentences, annotations = folder / "Sentences", folder / "Annotations"
    sentences.mkdir()
    annotations.mkdir()
    splits: dict[str, list[str]] = defaultdict(list)
    unrelated: list[str] = []
    for photo in copy_photos(photos, folder, images):
        photo_id = photo.annotated.id if photo.annotated else photo.id
        names = _chain_names(photo)
        lines = [re.sub(r"[\r\n]", " ", format_sentence(caption, names)) + "\n" for caption in photo.captions]
        (sentences / f"{photo_id}.txt").write_bytes("".join(lines).encode())
        (annotations / f"{photo_id}.xml").write_bytes(format_annotation(photo, names).encode())
        for split in splits_of(photo) if photo.splits else ():
            splits[split].append(photo_id)
        unrelated += [f"{photo_id} {n}" for n, caption in enumerate(photo.captions, 1) if not caption.related]
    for split, ids in splits.items():
        (folder / f"{split}.txt").write_text("\n".join([*ids, ""]))
    if unrelated:
        heading = "# format: <imageID> <sentence number>"
        (folder / "UNRELATED_CAPTIONS").write_text("\n".join([heading, *unrelated]))


def _chain_names(photo: Photo) -> dict[str, str]:
    if all(_PLAIN_NUMBER.fullmatch(chain.id) for chain in photo.chains):
        return {}
    return {chain.id: str(number) for number, chain in enumerate(photo.chains, start=1)}
