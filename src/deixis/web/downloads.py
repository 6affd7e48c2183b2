"""Downloads: files, alone or as zip, that are sent from the disk in small parts, as many at once as memory allows."""

from __future__ import annotations

import io
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import IO, ClassVar
from urllib.parse import quote
from zipfile import ZipFile, ZipInfo

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from deixis.storage.files import open_regular
from deixis.web.security import busy_response, error_response

_PART_BYTES = 64 * 2**10
_NOT_PORTABLE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
"""On Windows, a name of a zip file with these may lead to another folder."""

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Download(StreamingResponse):
    """At most `limit` downloads run in a process, so that clients that do not read cannot hold more than their parts.

    `deixis.web.server` ends their connections.
    """

    limit: ClassVar[int] = 32
    _running: ClassVar[int] = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if Download._running >= self.limit:
            await busy_response()(scope, receive, send)
            return
        Download._running += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            Download._running -= 1


class ZipDownload(Download):
    """Photos as a zip file that is made while it is sent; photos are not compressed again.

    Parameters
    ----------
    photos
        Paths, each with the folder inside which it must lie. What cannot be read is named in a file of its own.
    """

    def __init__(self, photos: Sequence[tuple[Path, Path | None]]) -> None:
        self._photos = photos
        headers = {"content-disposition": 'attachment; filename="photos.zip"'}
        super().__init__(self._parts(), headers=headers, media_type="application/zip")

    def _parts(self) -> Iterator[bytes]:
        sink, names, missing = _Sink(), set[str](), list[str]()
        with ZipFile(sink, "w") as archive:
            for number, (path, root) in enumerate(self._photos, start=1):
                name = _NOT_PORTABLE.sub("_", path.name.encode("utf-8", "replace").decode())
                while name.casefold() in names:
                    name = f"{number} {name}"
                names.add(name.casefold())
                try:
                    about = ZipInfo.from_file(path, name, strict_timestamps=False)
                    file = open_regular(path, root or Path(os.path.realpath(path.parent)))
                except OSError:  # gone, or on another machine
                    missing.append(name)
                    continue
                with file, archive.open(about, "w", force_zip64=True) as entry:
                    while part := file.read(_PART_BYTES):
                        entry.write(part)
                        yield sink.take()
            if missing:
                archive.writestr("not included.txt", "".join(f"{name}: cannot be read\n" for name in missing))
        yield sink.take()


class _Sink(io.BytesIO):
    """A file that cannot be rewound: what is written is sent."""

    def tell(self) -> int:
        raise OSError("not seekable")

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = self.getvalue()
        self.seek(0)
        self.truncate()
        return taken


class FileDownload(Download):
    """An open file, or the range of it that a request asks for. The file is closed afterwards."""

    def __init__(self, file: IO[bytes], name: str, media_type: str, *, inline: bool = False) -> None:
        self._file = file
        self._begin, self._end = 0, os.fstat(file.fileno()).st_size
        disposition = f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{quote(name, errors='replace')}"
        headers = {"content-disposition": disposition, "accept-ranges": "bytes", "content-length": str(self._end)}
        super().__init__(self._parts(), headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            size = self._end
            if not self._choose_range(Headers(scope=scope)):
                refusal = error_response(416, "the file has no such range", {"content-range": f"bytes */{size}"})
                await refusal(scope, receive, send)
                return
            await super().__call__(scope, receive, send)

    def _choose_range(self, headers: Headers) -> bool:
        """Apply a Range header; several ranges, and those of an older file, are answered with the whole file."""
        found = _RANGE.fullmatch(headers.get("range", "").replace(" ", ""))
        if found is None or found[0] == "bytes=-" or "if-range" in headers:
            return True
        size = self._end
        if found[1]:
            self._begin, self._end = int(found[1]), min(int(found[2] or size) + 1, size)
        else:
            self._begin = max(size - int(found[2]), 0)
        if self._begin >= self._end:
            return False
        self.status_code = 206
        self.headers["content-range"] = f"bytes {self._begin}-{self._end - 1}/{size}"
        self.headers["content-length"] = str(self._end - self._begin)
        return True

    async def _parts(self) -> AsyncIterator[bytes]:
        self._file.seek(self._begin)
        left = self._end - self._begin
        while left and (part := await to_thread.run_sync(self._file.read, min(_PART_BYTES, left))):
            left -= len(part)
            yield part
