"""Decode photos of strangers in processes that can be stopped: limits of time and memory for a decode.

A decoder is a Python process that imports only what decoding needs. It reads the content of a photo from a pipe and
writes its pixels to another. The time of a decode cannot be told from the size of a file, and a thread that decodes
cannot be stopped; a process can. Messages are raw bytes, so nothing that a decoder sends is executed.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import LifoQueue
from typing import IO, cast

from PIL import Image

from deixis.data.images import open_photo
from deixis.errors import PhotoError

DECODE_S = 10.0
"""Maximum time of a decode. A photo of fifty megapixels takes about two seconds."""

DECODE_BYTES = 2 * 2**30
"""Maximum address space of a decoder, where the system has such a limit."""

_STRIP_BYTES = 2**20
NAME = "the photo"
_REQUEST = struct.Struct("<QQ")  # bytes, maximum number of pixels
_RESPONSE = struct.Struct("<BII")  # whether it failed; then width and height, or the length of the reason and 0


class DecoderPool:
    """Decoder processes, started when they are first needed. Usable from any number of threads."""

    def __init__(self, processes: int = 2, seconds: float = DECODE_S) -> None:
        self._seconds = seconds
        self._is_closed = False
        self._idle: LifoQueue[_Decoder | None] = LifoQueue()
        for _ in range(processes):
            self._idle.put(None)

    def decode(self, content: bytes, max_pixels: int) -> Image.Image:
        """Decode a photo as `open_photo` does. Raises `PhotoError` also if that takes too much time or memory."""
        decoder = self._idle.get()
        try:
            if decoder is None or not decoder.is_running:
                decoder = _Decoder()
            return decoder.decode(content, max_pixels, self._seconds)
        finally:
            if self._is_closed and decoder is not None:
                decoder.stop()
            self._idle.put(decoder)

    def close(self) -> None:
        """Stop all processes; those that are decoding stop at the end of it."""
        self._is_closed = True
        idle = [self._idle.get() for _ in range(self._idle.qsize())]
        for decoder in idle:
            if decoder is not None:
                decoder.stop()
            self._idle.put(None)


class _Decoder:
    """A decoder process, from the side of the server."""

    def __init__(self) -> None:
        # -P: no module is imported from the current folder. Its own session: Ctrl-C ends the server, which stops it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "deixis.data.decoder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._requests, self._responses = cast("list[IO[bytes]]", [self._process.stdin, self._process.stdout])
        for pipe in (self._requests, self._responses):
            _enlarge(pipe)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def decode(self, content: bytes, max_pixels: int, seconds: float) -> Image.Image:
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            self._process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            self._requests.write(_REQUEST.pack(len(content), max_pixels))
            self._requests.write(content)
            self._requests.flush()
            has_failed, width, height = _RESPONSE.unpack(_read(self._responses, _RESPONSE.size))
            body = _read(self._responses, width) if has_failed else self._read_pixels(width, height)
        except (OSError, EOFError):
            self.stop()
            reason = f"takes more than {seconds:g} s to decode" if is_late.is_set() else "its decoder has crashed"
            raise PhotoError(NAME, reason) from None
        finally:
            timer.cancel()
        if isinstance(body, bytes):
            raise PhotoError(NAME, body.decode())
        return body

    def _read_pixels(self, width: int, height: int) -> Image.Image:
        """Read rows into an image: all of them before that would be held twice."""
        image, rows = Image.new("RGB", (width, height)), max(_STRIP_BYTES // (3 * width), 1)
        for top in range(0, height, rows):
            size = width, min(rows, height - top)
            image.paste(Image.frombytes("RGB", size, _read(self._responses, 3 * size[0] * size[1])), (0, top))
        return image

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._responses):
            with suppress(OSError):  # unsent requests
                pipe.close()


def _enlarge(pipe: IO[bytes]) -> None:
    """Make a pipe hold more, where the system can, so that pixels are passed with fewer switches of processes."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 2**20)


def _read(file: IO[bytes], count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise EOFError
    return content


def _serve(requests: IO[bytes], responses: IO[bytes]) -> None:
    """Decode photos until there are no more requests. Runs in the decoder."""
    while head := requests.read(_REQUEST.size):
        length, max_pixels = _REQUEST.unpack(head)
        try:
            with io.BytesIO(_read(requests, length)) as content:
                image = open_photo(Path(NAME), max_pixels=max_pixels, content=content)
            responses.write(_RESPONSE.pack(0, *image.size))
            responses.write(image.tobytes())
        except (PhotoError, MemoryError) as error:
            reason = (error.reason if isinstance(error, PhotoError) else "too large").encode(errors="replace")
            responses.write(_RESPONSE.pack(1, len(reason), 0))
            responses.write(reason)
        responses.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (DECODE_BYTES, DECODE_BYTES))


if __name__ == "__main__":
    _limit_memory()
    if hasattr(os, "nice"):
        os.nice(5)  # searches come first
    with suppress(BrokenPipeError, EOFError):  # the server has ended
        _serve(sys.stdin.buffer, sys.stdout.buffer)
