"""XMP sidecars: captions and ratings in files beside photos, where photo programs read and write them too."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path

from deixis import __version__
from deixis.errors import DeixisError
from deixis.storage.atomic import explain_os_errors, new_file
from deixis.storage.files import open_regular, size_and_time
from deixis.storage.remote import is_remote

SUFFIX = ".xmp"
FAVOURITE = 5
"""The rating of a favourite, in stars."""

_TOOLKIT = 'x:xmptk="deixis '
"""Marks a sidecar as ours: a program that changes an XMP file writes its own name here."""

_HEADER = 4096
_NAMESPACE = 'xmlns:xmp="http://ns.adobe.com/xap/1.0/"'
_MAX_BYTES = 8 * 2**20
_DIGITS = 4
_VALID_S = 3.0
"""How long sidecars are not read again."""

_PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/" {toolkit}{version}">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">{description}
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""
_CAPTION = """
   <dc:description>
    <rdf:Alt>
     <rdf:li xml:lang="x-default">{caption}</rdf:li>
    </rdf:Alt>
   </dc:description>"""
_DESCRIPTION = re.compile(r"""<rdf:Description(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*""")
_RATING = re.compile(r"""(?<![\w:/])(?P<head>xmp:Rating\s*(?:=\s*["']|>\s*))(?P<stars>-?\d+)""")


def write_caption(photo: Path, caption: str) -> Path:
    """Write a caption into a photo's XMP sidecar, dog.jpg.xmp, as its description (dc:description).

    A sidecar that deixis wrote is replaced, with its rating. One that another program wrote or changed, as dog.jpg.xmp
    or dog.xmp, is an error and stays as it is.
    """
    sidecar, stars = _own_sidecar(photo), 0
    for path in _sidecars(photo):
        text = _read(path)
        if not _is_ours(text):
            raise DeixisError(f"{path}: not replaced, because another program wrote it")
        stars = _stars(text)
    _write(sidecar, _with_rating(_packet(caption), stars))
    return sidecar


def write_rating(photo: Path, stars: int) -> Path:
    """Write a rating from 0 to 5 stars into a photo's XMP sidecar; the rest of the file stays as it is."""
    if is_remote(photo):
        raise DeixisError(f"{photo}: is not on this machine, so no rating can be written beside it")
    there = _sidecars(photo)
    sidecar = (there or [_own_sidecar(photo)])[0]
    text = _read(sidecar) if there else _packet("")
    if not stars and _is_ours(text) and "<dc:description>" not in text:
        with explain_os_errors(sidecar):
            sidecar.unlink(missing_ok=True)
    else:
        changed = _with_rating(text, stars)
        if _stars(changed) != stars:
            raise DeixisError(f"{sidecar}: not changed, because it is not XMP as deixis knows it")
        _write(sidecar, changed)
    return sidecar


def _own_sidecar(photo: Path) -> Path:
    return photo.with_name(photo.name + SUFFIX)


def _sidecars(photo: Path) -> list[Path]:
    """Return the sidecars that a photo has."""
    with explain_os_errors(photo):  # a name may be too long for one
        return [path for path in (_own_sidecar(photo), photo.with_suffix(SUFFIX)) if path.exists()]


def _read(sidecar: Path) -> str:
    with explain_os_errors(sidecar), open_regular(sidecar) as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise DeixisError(f"{sidecar}: larger than {_MAX_BYTES // 2**20} MB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return ""  # as in UTF-16


def _write(sidecar: Path, text: str) -> None:
    with new_file(sidecar) as unfinished:
        unfinished.write_bytes(text.encode())


def _is_ours(text: str) -> bool:
    return _TOOLKIT in text[:_HEADER]


def _packet(caption: str) -> str:
    from xml.sax.saxutils import escape  # slow import

    description = _CAPTION.format(caption=escape(caption)) if caption else ""
    return _PACKET.format(toolkit=_TOOLKIT, version=__version__, description=description)


def _stars(text: str) -> int:
    found = _RATING.search(text)
    return int(found["stars"][:_DIGITS]) if found else 0


def _with_rating(text: str, stars: int) -> str:
    """Return XMP with another rating; the same if it has no place for one."""
    if _RATING.search(text):
        return _RATING.sub(rf"\g<head>{stars}", text)
    found = _DESCRIPTION.search(text)
    if found is None or not stars:
        return text
    namespace = "" if "xmlns:xmp=" in text[: found.end()] else f" {_NAMESPACE}"
    return f'{text[: found.end()]}{namespace} xmp:Rating="{stars}"{text[found.end() :]}'


class Favourites:
    """The photos of folders that have five stars in their XMP sidecars; files are read again when they change."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int], bool]] = {}
        self._found: tuple[float, frozenset[Path]] = (-_VALID_S, frozenset())

    def read(self, folders: Iterable[Path]) -> frozenset[Path]:
        """Return the paths of the favourites."""
        since, found = self._found
        if time.monotonic() - since >= _VALID_S:
            found = frozenset(photo for folder in folders if not is_remote(folder) for photo in self._in_folder(folder))
            self._found = time.monotonic(), found
        return found

    def change(self, photos: Iterable[Path], is_favourite: bool) -> None:
        """Give photos five stars, or none."""
        self._found = -_VALID_S, frozenset()
        for photo in photos:
            write_rating(photo, FAVOURITE if is_favourite else 0)

    def _in_folder(self, folder: Path) -> list[Path]:
        try:
            names = {each.name for each in folder.iterdir()}
        except OSError:  # an unmounted disk
            return []
        sidecars = {name for name in names if name.endswith(SUFFIX)}
        favourites = {name[: -len(SUFFIX)] for name in sidecars if self._is_favourite(folder / name)}
        return [folder / name for name in names - sidecars if favourites & {name, name.rpartition(".")[0]}]

    def _is_favourite(self, sidecar: Path) -> bool:
        try:
            state = size_and_time(sidecar.stat())
            known = self._known.get(sidecar)
            if known is None or known[0] != state:
                known = self._known[sidecar] = state, _stars(_read(sidecar)) == FAVOURITE
        except (OSError, DeixisError):
            return False
        return known[1]
