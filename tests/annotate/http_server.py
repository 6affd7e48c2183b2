"""Servers in threads: for requests that the workbench or its client sends, and the workbench itself."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import uvicorn
from fastapi import FastAPI


@contextmanager
def answering(respond: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve requests of any method by a function of the handler, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            respond(self)

        def do_POST(self) -> None:
            respond(self)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Serve an application, and yield the address."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(20)


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    """Send a response."""
    handler.send_response(status)
    for name, value in {"content-length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
