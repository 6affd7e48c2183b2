"""Uploads: slow decodes stop nobody else, unfinished ones leave no files, and rates are limited before tokens."""

from __future__ import annotations

import errno
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image
from starlette.testclient import TestClient

from deixis.data.decoder import DecoderPool
from deixis.errors import DeixisError
from deixis.web.app import make_app
from deixis.web.inference import PhotoInput
from deixis.web.responses import Captions
from deixis.web.security import AccessPolicy, ServerLimits
from tests.trust.test_files import progressive
from tests.trust.test_slow_clients import connect
from tests.web.fakes import FakeCollection, FakeInference, photo_bytes
from tests.web.serving import served

HEAD = (
    b"POST /api/caption HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000000\r\n"
    b"content-type: multipart/form-data; boundary=b\r\n\r\n"
    b'--b\r\ncontent-disposition: form-data; name="photo"; filename="a.jpg"\r\n\r\n'
)


@pytest.fixture
def collection(tmp_path: Path) -> FakeCollection:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "dog.jpg").write_bytes(photo_bytes())
    return FakeCollection([tmp_path / "photos" / "dog.jpg"], tmp_path / "photos")


def test_uploads_that_take_long_to_decode_stop_neither_searches_nor_models(
    collection: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding, finish = threading.Semaphore(0), threading.Event()

    def decode(*_: object) -> Image.Image:
        decoding.release()
        assert finish.wait(60)
        return Image.new("RGB", (8, 8))

    monkeypatch.setattr(DecoderPool, "decode", decode)
    app = make_app(collection, inference=FakeInference())
    with TestClient(app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(4) as threads:
        try:
            uploads = [
                threads.submit(client.post, "/api/caption", files={"photo": ("a.jpg", b"x", "image/jpeg")})
                for _ in range(4)
            ]
            assert decoding.acquire(timeout=60)
            assert decoding.acquire(timeout=60)  # all decoders are busy
            (photo,) = client.get("/api/photos").json()["photos"]
            assert client.get("/api/search", params={"q": "dog"}).status_code == 200
            assert client.post("/api/caption", json={"photo": photo["id"]}).status_code == 200
            assert not any(each.done() for each in uploads)
        finally:
            finish.set()
        assert uploads[0].result().status_code == 200


def test_rates_are_limited_by_address_before_the_token_is_looked_at(collection: FakeCollection) -> None:
    policy = AccessPolicy(token="a long enough token", requests_per_s=0.001, requests_at_once=3)
    app = make_app(collection, inference=FakeInference(), policy=policy)
    right = {"authorization": f"Bearer {policy.token}"}
    with TestClient(app, base_url="http://127.0.0.1", client=("192.0.2.1", 1)) as client:
        assert [client.get("/api/status").status_code for _ in range(3)] == [401] * 3
        refused = client.get("/api/status", headers=right)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        other = TestClient(app, base_url="http://127.0.0.1", client=("192.0.2.2", 1))
        assert other.get("/api/status", headers=right).status_code == 200


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files of servers that are started."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_unfinished_uploads_leave_no_temporary_files(collection: FakeCollection, temporary: Path) -> None:
    with served(collection.folder) as (link, process):
        port = urlsplit(link).port or 0

        def held() -> bool:
            for each in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # closed since
                    if str(temporary) in str(each.readlink()):
                        return True
            return False

        with connect(port, HEAD + bytes(3_000_000)):
            _wait_for(held)  # more than is kept in memory
            assert list(temporary.iterdir()) == []  # not even if the server is killed now
        _wait_for(lambda: not held())


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
def test_a_server_that_is_killed_while_it_decodes_leaves_no_files(collection: FakeCollection, temporary: Path) -> None:
    bomb = progressive(2400, 500)
    with served(collection.folder) as (link, process), ThreadPoolExecutor(1) as threads:
        upload = threads.submit(httpx.post, f"{link}api/caption", files={"photo": ("a.jpg", bomb, "image/jpeg")})
        time.sleep(0.5)  # usually long enough to begin decoding; if not, the test is easier to pass
        process.kill()
        assert isinstance(upload.exception(), httpx.HTTPError)
        assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("code", "status"), [(errno.ENOSPC, 503), (errno.EDQUOT, 503), (errno.EIO, 500)])
def test_an_upload_for_which_the_disk_has_no_room_is_refused_in_one_line(
    collection: FakeCollection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    status: int,
) -> None:
    """Each one was an internal error, with a traceback in the log."""

    def write(*_: object) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(SpooledTemporaryFile, "write", write)
    app = make_app(collection, inference=FakeInference())
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        refused = client.post("/api/caption", files={"photo": ("a.jpg", photo_bytes(), "image/jpeg")})
    assert refused.status_code == status
    assert ("full" in refused.text) == (status == 503)
    assert bool(caplog.records) == (status == 500)


def test_uploads_beyond_the_limit_are_refused_at_once(
    collection: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.trust import test_slow_clients

    policy = AccessPolicy(uploads_at_once=2)
    app = make_app(collection, inference=FakeInference(), policy=policy)
    monkeypatch.setattr(test_slow_clients, "_app", lambda: app)
    with test_slow_clients.running() as port, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connect(port, HEAD + b"some"))
        for head in (HEAD, HEAD.replace(b"multipart/form", b"Multipart/Form")):
            _wait_for(lambda head=head: _status(port, head) == b"503")  # type: ignore[misc]
        assert httpx.get(f"http://127.0.0.1:{port}/api/status").status_code == 200
        stack.close()
        _wait_for(lambda: _status(port) == b"")  # received until the rest does not come


def _status(port: int, head: bytes = HEAD) -> bytes:
    """Begin an upload, and return the status of the answer, if there is one at once."""
    with connect(port, head + b"some") as client:
        client.settimeout(0.5)
        try:
            return client.recv(4096)[9:12]
        except TimeoutError:
            return b""


def _wait_for(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_search_for_which_there_is_no_room_is_refused_before_it_is_parsed(
    collection: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, finish = threading.Semaphore(0), threading.Event()

    def search(*_: object, **__: object) -> None:
        running.release()
        assert finish.wait(60)
        raise DeixisError("enough")

    monkeypatch.setattr(collection, "search", search)
    limits = ServerLimits(search_threads=1, search_queue=1)
    app = make_app(collection, inference=FakeInference(), limits=limits)
    with TestClient(app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(2) as threads:
        try:
            asked = [threads.submit(client.get, "/api/search", params={"q": f"dog {number}"}) for number in range(2)]
            assert running.acquire(timeout=60)
            _wait_for(lambda: client.get("/api/search", params={"top": "no number"}).status_code == 503)
            assert client.get("/api/openapi.json").status_code == 200
        finally:
            finish.set()
        assert {each.result().status_code for each in asked} <= {400, 503}


def test_forms_that_are_none_cannot_fill_the_log(collection: FakeCollection, tmp_path: Path) -> None:
    """The library that reads forms writes a line for each."""
    with served(tmp_path / "photos") as (link, process), httpx.Client() as client:
        form = {"content-type": "multipart/form-data; boundary=b"}
        for _ in range(100):
            assert client.post(f"{link}api/caption", content=b"none", headers=form).status_code == 400
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert 0 < len(errors.splitlines()) <= 60


def test_no_more_photos_are_decoded_than_are_worked_on(
    collection: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoded photos of fifty megapixels take 200 MB each: they do not wait for the model."""
    decoded, finish = [], threading.Event()
    inference = FakeInference()
    caption = inference.caption

    def decode(*_: object) -> Image.Image:
        decoded.append(1)
        return Image.new("RGB", (8, 8))

    def wait(photo: PhotoInput) -> Captions:
        assert finish.wait(60)
        return caption(photo)

    monkeypatch.setattr(DecoderPool, "decode", decode)
    monkeypatch.setattr(inference, "caption", wait)
    app = make_app(collection, inference=inference, limits=ServerLimits(upload_threads=2, upload_wait_s=0.5))
    photo = {"photo": ("a.jpg", b"x", "image/jpeg")}
    with TestClient(app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(client.post, "/api/caption", files=photo) for _ in range(6)]
        wait_for(answers, return_when=FIRST_COMPLETED, timeout=60)
        assert len(decoded) <= 2
        finish.set()
        codes = [answer.result().status_code for answer in answers]
    assert set(codes) <= {200, 503}
    assert codes.count(200) >= len(decoded) >= 1


def test_an_upload_that_finds_no_place_in_the_queue_is_refused_at_once(
    collection: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = threading.Event()
    inference = FakeInference()
    caption = inference.caption

    def wait(photo: PhotoInput) -> Captions:
        assert finish.wait(60)
        return caption(photo)

    monkeypatch.setattr(DecoderPool, "decode", lambda *_: Image.new("RGB", (8, 8)))
    monkeypatch.setattr(inference, "caption", wait)
    limits = ServerLimits(upload_threads=1, upload_queue=1, upload_wait_s=600, model_wait_s=600)
    photo = {"photo": ("a.jpg", b"x", "image/jpeg")}
    app = make_app(collection, inference=inference, limits=limits)
    with TestClient(app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(client.post, "/api/caption", files=photo) for _ in range(3)]
        refused, _ = wait_for(answers, return_when=FIRST_COMPLETED, timeout=60)
        finish.set()
        assert [answer.result().status_code for answer in refused] == [503]
        assert sorted(answer.result().status_code for answer in answers) == [200, 200, 503]
