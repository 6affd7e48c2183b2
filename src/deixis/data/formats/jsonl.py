"""JSON Lines: the full format of deixis, which holds all fields of a `Photo`, and simple image–caption lines.

The full format has one photo per line. Keys with default values may be missing::

    {"id": "1", "file": "1.jpg", "width": 500, "height": 375, "splits": ["train"], "sha256": "…",
     "annotated": {"id": "1", "file": "1.jpg", "width": 500, "height": 375, "depth": 3},
     "captions": [{"text": "A dog runs .", "mentions": [{"span": [0, 5], "chain": "7", "types": ["animals"]}],
                   "related": true, "tree": null, "region_phrase": false}],
     "chains": [{"id": "7", "scene": false, "no_box": false, "annotated": true}],
     "boxes": [{"box": [x1, y1, x2, y2], "chains": ["7"], "label": null}]}

A simple line has a photo (``image``, ``file``, ``file_name``, ``filename`` or ``path``), one sentence or a list
(``caption``, ``text``, ``sentence`` or ``captions``) and optionally a ``split``. Lines of the same photo are merged. A
JSON list of such objects is read in the same way.

``photos.jsonl`` is written in the full format, without default values. Nothing is lost: tokens are computed again from
the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from deixis.data.documents import Value, parse_line
from deixis.data.formats.common import compact_number, copy_photos, write_text
from deixis.data.formats.content import Content
from deixis.data.names import CaptionCollector, CaptionSource, check_split_name, quote_text
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo, with_mentioned
from deixis.storage.files import is_file_name, is_relative_path

KIND = "jsonl"
FORM = 'JSON Lines (of deixis, or {"image": …, "caption": …})'

_PHOTO_KEYS = ("image", "file_name", "filename", "path", "file")
_FULL_KEYS = {field.name for field in fields(Photo)}
_SENTENCE_KEYS = ("caption", "text", "sentence", "captions")


def recognizes(content: Content) -> bool:
    first = _first_record(content)
    return _is_full(first) or _is_simple(first)


def read(content: Content) -> CaptionSource:
    if _is_full(_first_record(content)):
        records = list(_records(content))
        return CaptionSource(KIND, _full_photos(records), len(records))
    collector = CaptionCollector()
    for record in _records(content):
        _add_simple(collector, record)
    return collector.source(KIND)


def _first_record(content: Content) -> object:
    match content.document:
        case [first, *_]:
            return first
    return content.first_json


def _is_full(record: object) -> bool:
    """The full format has a string id and no unknown keys. Captions that are strings belong to the simple format."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), str) or not record.keys() <= _FULL_KEYS:
        return False
    captions = record.get("captions")
    return not isinstance(captions, list) or not any(isinstance(caption, str) for caption in captions)


def _is_simple(record: object) -> bool:
    return isinstance(record, dict) and all(
        any(isinstance(record.get(key), str | list) for key in keys) for keys in (_PHOTO_KEYS, _SENTENCE_KEYS)
    )


def _records(content: Content) -> Iterator[Value]:
    """Yield each line, each item of a list, or the only object of the file."""
    match content.document:
        case [*_]:
            yield from Value(content.document, content.path).items()
        case {}:
            yield Value(content.document, f"{content.path}: line 1")
        case _:
            for number, line in content.lines():
                yield parse_line(line, number, content.path)


def _add_simple(collector: CaptionCollector, record: Value) -> None:
    photo, sentences, split = record.first_of(_PHOTO_KEYS), record.first_of(_SENTENCE_KEYS), record.text_at("split")
    if photo is None or sentences is None:
        missing = '"image"' if photo is None else '"caption"'
        raise record.error(f"{missing} is missing")
    name = photo.nonblank_text()
    for sentence in sentences.items() if isinstance(sentences.value, list) else [sentences]:
        collector.add(name, sentence.nonblank_text(), record.error, split=split or "")


def _full_photos(records: Iterable[Value]) -> Iterator[Photo]:
    seen = set()
    for record in records:
        photo = _full_photo(record)
        if photo.id in seen:
            raise record.error(f"duplicate photo {quote_text(photo.id)}")
        seen.add(photo.id)
        yield photo


def _full_photo(record: Value) -> Photo:
    record.allow_keys(_FULL_KEYS)
    captions = tuple(_caption(caption) for caption in record.items_at("captions"))
    chains = _chains(record, captions)
    known = {chain.id for chain in chains}
    annotated = record.get("annotated")
    return Photo(
        _photo_id(record["id"]),
        captions,
        chains,
        tuple(_box(box, known) for box in record.items_at("boxes")),
        record.side("width"),
        record.side("height"),
        _file(record),
        tuple(check_split_name(split.text(), split.error) for split in record.items_at("splits")),
        None if annotated is None else _annotated(annotated),
        record.text_at("sha256"),
    )


def _photo_id(value: Value) -> str:
    """Some formats write a file per photo, so an id must be a valid file name."""
    if not is_file_name(value.text()):
        raise value.error(f"{quote_text(value.text())} is not a valid photo id")
    return value.text()


def _file(record: Value) -> str | None:
    file = record.get("file")
    if file is None:
        return None
    if not is_relative_path(file.text()):
        raise file.error(f"{quote_text(file.text())} is not a path inside the photo folder")
    return file.text()


def _annotated(value: Value) -> AnnotationSource:
    depth = value.get("depth")
    size = (value.side("width"), value.side("height"), None if depth is None else depth.integer())
    return AnnotationSource(_photo_id(value["id"]), value["file"].text(), *size)


def _caption(value: Value) -> Caption:
    text = value["text"].text()
    related, region_phrase = value.flag_at("related", True), value.flag_at("region_phrase", False)
    mentions, tree = _mentions(value, len(text)), value.text_at("tree")
    return Caption.from_text(text, mentions, related=related, tree=tree, region_phrase=region_phrase)


def _mentions(caption: Value, length: int) -> tuple[Mention, ...]:
    mentions, done = [], 0
    for value in caption.items_at("mentions"):
        span = value["span"]
        ends = [end.integer() for end in span.items()]
        if len(ends) != 2 or not ends[0] < ends[1] <= length:
            raise span.error(f"expected [start, end] with start < end within the {length} characters of the text")
        if ends[0] < done:
            raise span.error(f"overlaps the previous mention, which ends at {done}")
        start, done = ends
        types = tuple(kind.text() for kind in value.items_at("types"))
        mentions.append(Mention(start, done, value.text_at("chain"), types))
    return tuple(mentions)


def _chains(record: Value, captions: tuple[Caption, ...]) -> tuple[Chain, ...]:
    """Return the listed chains and those that only mentions refer to."""
    chains: dict[str, Chain] = {}
    for value in record.items_at("chains"):
        chain = value["id"].text()
        if chain in chains:
            raise value.error(f"duplicate chain {quote_text(chain)}")
        flags = value.flag_at("scene", False), value.flag_at("no_box", False), value.flag_at("annotated", True)
        chains[chain] = Chain(chain, *flags)
    return with_mentioned(chains.values(), captions)


def _box(value: Value, known: set[str]) -> Box:
    corners = value["box"].corners()
    chains = [chain.text() for chain in value.items_at("chains")]
    for chain in chains:
        if chain not in known:
            raise value.error(f"no such chain: {quote_text(chain)}")
    return Box(corners, tuple(chains), value.text_at("label"))


_ORDER = ("id", "file", "width", "height", "splits", "sha256", "annotated", "captions", "chains", "boxes")


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    # Not escaped to ASCII, because people read this format.
    lines = (
        json.dumps(_photo(photo), separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"
        for photo in copy_photos(photos, folder, images)
    )
    write_text(folder / "photos.jsonl", lines)


def _photo(photo: Photo) -> dict[str, Any]:
    found = _fields(photo)
    return {name: found[name] for name in _ORDER if name in found}


def _plain(value: Any) -> Any:
    match value:
        case tuple():
            return [_plain(each) for each in value]
        case Mention():
            return {"span": [value.start, value.end]} | _fields(value, "start", "end")
        case Box():
            return {"box": [compact_number(side) for side in value.xyxy]} | _fields(value, "xyxy")
        case Caption():
            return _fields(value, "tokens")
        case None | str() | int():
            return value
    return _fields(value)


def _fields(record: Any, *left_out: str) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults."""
    values = {field.name: (getattr(record, field.name), field.default) for field in fields(record)}
    return {
        name: _plain(value) for name, (value, default) in values.items() if name not in left_out and value != default
    }
