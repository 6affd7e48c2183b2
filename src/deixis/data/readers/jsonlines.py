"""JSON Lines: our own form, which holds all of a `Photo`, and the simple lines that people have.

Our own form is one photo a line; keys at their default may be missing::

    {"id": "1", "file": "1.jpg", "width": 500, "height": 375, "splits": ["train"], "sha256": "…",
     "annotated": {"id": "1", "file": "1.jpg", "width": 500, "height": 375, "depth": 3},
     "captions": [{"text": "A dog runs .", "mentions": [{"span": [0, 5], "chain": "7", "types": ["animals"]}],
                   "related": true, "tree": null, "region_phrase": false}],
     "chains": [{"id": "7", "scene": false, "no_box": false, "annotated": true}],
     "boxes": [{"box": [x1, y1, x2, y2], "chains": ["7"], "label": null}]}

A simple line names a photo (``image``, ``file``, ``file_name``, ``filename`` or ``path``) and holds one sentence
or a list of them (``caption``, ``text``, ``sentence`` or ``captions``) and perhaps a ``split``. Lines of the same
photo are joined. A JSON list of such objects is read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from deixis.data.readers.content import Content
from deixis.data.readers.gathered import Gathered, split_name
from deixis.data.readers.names import shown
from deixis.data.readers.source import Source
from deixis.data.readers.values import Value, parse_line
from deixis.data.records import Annotated, Box, Caption, Chain, Mention, Photo
from deixis.files.names import is_below, is_plain

KIND = "jsonl"
FORM = 'JSON Lines (our own, or {"image": …, "caption": …})'

_PHOTO_KEYS = ("image", "file_name", "filename", "path", "file")
_OWN_KEYS = {field.name for field in fields(Photo)}
_SENTENCE_KEYS = ("caption", "text", "sentence", "captions")


def recognises(content: Content) -> bool:
    """Whether the first JSON value is a photo of our own form, or names a photo and has a caption."""
    first = _first_record(content)
    return _is_own(first) or _is_simple(first)


def read(content: Content) -> Source:
    """Photos in the order of the file."""
    if _is_own(_first_record(content)):
        records = list(_records(content))
        return Source(KIND, _own_photos(records), len(records))
    gathered = Gathered()
    for record in _records(content):
        _add_simple(gathered, record)
    return gathered.source(KIND)


def _first_record(content: Content) -> object:
    match content.document:
        case [first, *_]:
            return first
    return content.first_json


def _is_own(record: object) -> bool:
    """A photo's id, and nothing that our form does not have; other people's captions are strings."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), str) or not record.keys() <= _OWN_KEYS:
        return False
    captions = record.get("captions")
    return not isinstance(captions, list) or not any(isinstance(caption, str) for caption in captions)


def _is_simple(record: object) -> bool:
    return isinstance(record, dict) and all(
        any(isinstance(record.get(key), str | list) for key in keys) for keys in (_PHOTO_KEYS, _SENTENCE_KEYS)
    )


def _records(content: Content) -> Iterator[Value]:
    """A `Value` for each line, or for each item of a list; an object that fills the file is the only one."""
    match content.document:
        case [*_]:
            yield from Value(content.document, content.path).items()
        case {}:
            yield Value(content.document, f"{content.path}: line 1")
        case _:
            for number, line in content.lines():
                yield parse_line(line, number, content.path)


def _add_simple(gathered: Gathered, record: Value) -> None:
    photo, said, split = record.first_of(_PHOTO_KEYS), record.first_of(_SENTENCE_KEYS), record.get("split")
    if photo is None or said is None:
        missing = '"image"' if photo is None else '"caption"'
        raise record.wrong(f"there is no {missing}")
    name = photo.sentence()
    for sentence in said.items() if isinstance(said.value, list) else [said]:
        gathered.add(name, sentence.sentence(), record.wrong, split=split.text() if split else "")


def _own_photos(records: Iterable[Value]) -> Iterator[Photo]:
    seen = set()
    for record in records:
        photo = _own_photo(record)
        if photo.id in seen:
            raise record.wrong(f"photo {shown(photo.id)} comes a second time")
        seen.add(photo.id)
        yield photo


def _own_photo(record: Value) -> Photo:
    record.only(_OWN_KEYS)
    captions = tuple(_caption(caption) for caption in record.items_of("captions"))
    chains = _chains(record, captions)
    known = {chain.id for chain in chains}
    annotated, sha256 = record.get("annotated"), record.get("sha256")
    return Photo(
        _plain(record["id"]),
        captions,
        chains,
        tuple(_box(box, known) for box in record.items_of("boxes")),
        record.side("width"),
        record.side("height"),
        _file(record),
        tuple(split_name(split.text(), split.wrong) for split in record.items_of("splits")),
        None if annotated is None else _annotated(annotated),
        None if sha256 is None else sha256.text(),
    )


def _plain(given: Value) -> str:
    """An id, which must be fit to name a file: some formats write one file for each photo."""
    if not is_plain(given.text()):
        raise given.wrong(f"{shown(given.text())} cannot be the id of a photo")
    return given.text()


def _file(record: Value) -> str | None:
    given = record.get("file")
    if given is None:
        return None
    if not is_below(given.text()):
        raise given.wrong(f"{shown(given.text())} is not a path below the folder of photos")
    return given.text()


def _annotated(given: Value) -> Annotated:
    depth = given.get("depth")
    return Annotated(
        _plain(given["id"]),
        given["file"].text(),
        given.side("width"),
        given.side("height"),
        None if depth is None else depth.whole(),
    )


def _caption(given: Value) -> Caption:
    text, tree = given["text"].text(), given.get("tree")
    return Caption.from_text(
        text,
        _mentions(given, len(text)),
        related=_flag(given, "related", True),
        tree=None if tree is None else tree.text(),
        region_phrase=_flag(given, "region_phrase", False),
    )


def _mentions(caption: Value, length: int) -> tuple[Mention, ...]:
    mentions, done = [], 0
    for given in caption.items_of("mentions"):
        span, chain = given["span"], given.get("chain")
        ends = [end.whole() for end in span.items()]
        if len(ends) != 2 or not ends[0] < ends[1] <= length:
            raise span.wrong(f"expected [start, end] with start < end within the {length} characters of the text")
        if ends[0] < done:
            raise span.wrong(f"begins at {ends[0]}, before the mention before it ends at {done}")
        start, done = ends
        types = tuple(kind.text() for kind in given.items_of("types"))
        mentions.append(Mention(start, done, None if chain is None else chain.text(), types))
    return tuple(mentions)


def _chains(record: Value, captions: tuple[Caption, ...]) -> tuple[Chain, ...]:
    """The chains that are listed, and those that only mentions name."""
    chains: dict[str, Chain] = {}
    for given in record.items_of("chains"):
        chain = given["id"].text()
        if chain in chains:
            raise given.wrong(f"chain {shown(chain)} comes a second time")
        chains[chain] = Chain(
            chain,
            _flag(given, "scene", False),
            _flag(given, "no_box", False),
            _flag(given, "annotated", True),
        )
    for caption in captions:
        for mention in caption.mentions:
            if mention.chain is not None:
                chains.setdefault(mention.chain, Chain(mention.chain, annotated=False))
    return tuple(chains.values())


def _box(given: Value, known: set[str]) -> Box:
    x1, y1, x2, y2 = given["box"].numbers(4)
    if x2 < x1 or y2 < y1:
        raise given["box"].wrong("the box ends before it begins")
    chains = [chain.text() for chain in given.items_of("chains")]
    for chain in chains:
        if chain not in known:
            raise given.wrong(f"there is no chain {shown(chain)}")
    label = given.get("label")
    return Box((x1, y1, x2, y2), tuple(chains), None if label is None else label.text())


def _flag(given: Value, key: str, default: bool) -> bool:
    found = given.get(key)
    return default if found is None else found.flag()
