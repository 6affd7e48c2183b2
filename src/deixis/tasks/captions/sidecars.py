"""Captions beside photos, in XMP files that photo programs read; the photos themselves are never touched."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from deixis import __version__
from deixis.errors import DeixisError
from deixis.files.atomic import explained, new_file

_TOOL = 'x:xmptk="deixis '
"""By this a file is known as ours: a program that changes an XMP file puts its own name here."""

_LOOKED_AT = 4096

_PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/" {tool}{version}">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">
   <dc:description>
    <rdf:Alt>
     <rdf:li xml:lang="x-default">{caption}</rdf:li>
    </rdf:Alt>
   </dc:description>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""


def sidecar_of(photo: Path) -> Path:
    """Where a photo's XMP file is: its name with .xmp after it, so that dog.jpg and dog.png have one each.

    Examples
    --------
    >>> sidecar_of(Path("dog.jpg")).name
    'dog.jpg.xmp'
    """
    return photo.with_name(photo.name + ".xmp")


def write_sidecar(photo: Path, caption: str) -> Path:
    """Write a caption into a photo's XMP file as its description (dc:description).

    A file that deixis wrote is replaced; one that another program wrote or changed, under this name or as dog.xmp, is
    an error and stays as it is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_sidecar(Path(folder) / "dog.jpg", "a dog runs")
    ...     "a dog runs" in path.read_text()
    True
    """
    path = sidecar_of(photo)
    for there in (path, photo.with_suffix(".xmp")):
        if there.exists() and not _is_ours(there):
            raise DeixisError(f"{there}: left alone, another program wrote it")
    with new_file(path) as unfinished:
        packet = _PACKET.format(tool=_TOOL, version=__version__, caption=escape(caption))
        unfinished.write_text(packet, encoding="utf-8")
    return path


def _is_ours(path: Path) -> bool:
    with explained(path), path.open("rb") as file:
        return _TOOL.encode() in file.read(_LOOKED_AT)
