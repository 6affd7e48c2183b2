"""Reader of the Flickr30k Entities release: ``Sentences/ID.txt`` and ``Annotations/ID.xml`` in a folder or zip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deixis.data.entities import parse_annotation, parse_sentence
from deixis.data.names import Source
from deixis.data.readers.content import decode, read_text
from deixis.data.records import Caption, Chain, Photo
from deixis.errors import DatasetError
from deixis.storage.archives import Tree, open_tree

KIND = "flickr30k-entities"
_UNRELATED = "UNRELATED_CAPTIONS"
_LAYOUT = (["Sentences"], ["Annotations"])


@contextmanager
def read_entities(path: Path, include: Callable[[str], bool] = lambda photo_id: True) -> Iterator[Source]:
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

        yield Source(KIND, photos(), len(ids))


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
    chains = {chain.id: chain for chain in photo.chains}
    for caption in captions:
        for mention in caption.mentions:
            if mention.chain:
                chains.setdefault(mention.chain, Chain(mention.chain, annotated=False))
    return replace(photo, captions=captions, chains=tuple(chains.values()))


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
