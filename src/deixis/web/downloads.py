"""Downloads: files that are sent from the disk in small parts, with ranges, as many at once as memory allows."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from typing import IO, ClassVar
from urllib.parse import quote

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from deixis.web.security import busy_response, error_response

_PART_BYTES = 64 * 2**10
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class FileDownload(StreamingResponse):
    """An open file, or the range of it that a request asks for. The file is closed afterwards.

    At most `limit` downloads run in a process, so that clients that do not read cannot hold more than their parts;
    `deixis.web.server` ends their connections.
    """

    limit: ClassVar[int] = 32
    _running: ClassVar[int] = 0

    def __init__(self, file: IO[bytes], name: str, media_type: str, *, inline: bool = False) -> None:
        self._file = file
        self._begin, self._end = 0, os.fstat(file.fileno()).st_size
        disposition = f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{quote(name, errors='replace')}"
        headers = {"content-disposition": disposition, "accept-ranges": "bytes", "content-length": str(self._end)}
        super().__init__(self._parts(), headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, a range of it, or an error."""
        with self._file:
            if FileDownload._running >= self.limit:
                await busy_response()(scope, receive, send)
                return
            size = self._end
            if not self._choose_range(Headers(scope=scope)):
                refusal = error_response(416, "the file has no such range", {"content-range": f"bytes */{size}"})
                await refusal(scope, receive, send)
                return
            FileDownload._running += 1
            try:
                await super().__call__(scope, receive, send)
            finally:
                FileDownload._running -= 1

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
