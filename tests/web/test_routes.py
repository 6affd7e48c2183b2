"""Every route of the API and its errors."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

from deixis.errors import DeixisError
from deixis.web.downloads import ZipDownload
from deixis.web.security import ServerLimits
from tests.web.conftest import Visit
from tests.web.fakes import FakeCollection, photo_bytes


def id_of(client: TestClient, name: str) -> str:
    return next(each["id"] for each in client.get("/api/photos").json()["photos"] if each["name"] == name)


def upload(content: bytes, name: str = "mine.jpg") -> dict[str, tuple[str, bytes, str]]:
    return {"photo": (name, content, "image/jpeg")}


def error_of(response: object) -> str:
    result = response.json()  # type: ignore[attr-defined]
    assert set(result) == {"error"}
    assert "\n" not in result["error"]
    return str(result["error"])


def test_a_search_gives_hits_with_probabilities_and_sizes(client: TestClient) -> None:
    found = client.get("/api/search", params={"q": "a dog"}).json()
    assert found["query"] == "a dog"
    assert [(hit["name"], hit["probability"], hit["width"], hit["height"]) for hit in found["hits"]] == [
        ("boat.jpg", 0.9, 64, 48),  # its name holds an a
        ("cat.jpg", 0.9, 64, 48),
        ("dog.jpg", 0.9, 64, 48),
    ]
    assert client.get("/api/search", params={"q": "dog"}).json()["hits"][0]["name"] == "dog.jpg"


def test_the_same_search_is_computed_once_until_the_index_changes(
    client: TestClient, collection: FakeCollection
) -> None:
    def found(**options: object) -> list[str]:
        hits = client.get("/api/search", params={"q": "dog", **options}).json()["hits"]
        return [hit["name"] for hit in hits]

    assert found() == found() == ["dog.jpg"]
    assert len(collection.searched) == 1
    assert found(top=1) == found(explain=1) == found(**{"in": "holiday"}) == found(before="2024") == ["dog.jpg"]
    assert found(all=1) == ["dog.jpg", "boat.jpg", "cat.jpg"]
    assert len(collection.searched) == 6
    collection.known.clear()
    assert found() == []


def test_searches_are_computed_each_time_if_changes_of_the_index_are_not_noticed(
    client: TestClient, collection: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeCollection, "version", None)
    for _ in range(2):
        client.get("/api/search", params={"q": "dog"})
    assert collection.searched == ["dog", "dog"]


def test_a_search_without_matches_is_empty_unless_all_are_requested(client: TestClient) -> None:
    assert client.get("/api/search", params={"q": "zebra"}).json()["hits"] == []
    everything = client.get("/api/search", params={"q": "zebra", "all": "true", "top": 2}).json()
    assert [hit["probability"] for hit in everything["hits"]] == [0.01, 0.01]


def test_explained_hits_have_the_boxes_that_are_found_in_their_photos(client: TestClient) -> None:
    plain, explained = (
        client.get("/api/search", params={"q": "dog", "explain": explain}).json()["hits"][0] for explain in (0, 1)
    )
    assert plain["phrases"] == []
    box = [16.0, 12.0, 32.0, 24.0]
    expected = {
        "text": "dog",
        "span": [0, 3],
        "box": box,
        "boxes": [box],
        "score": 0.8,
        "absent": False,
        "guess": False,
    }
    assert explained["phrases"] == [expected]
    alone = client.get(f"/api/photos/{explained['id']}/phrases", params={"q": "dog"})
    assert alone.json() == {"phrases": [expected]}
    assert client.get("/api/photos/0-0/phrases", params={"q": "dog"}).status_code == 404


def test_a_photo_whose_file_is_gone_has_no_boxes(client: TestClient, folder: Path) -> None:
    photo = id_of(client, "dog.jpg")
    (folder / "dog.jpg").unlink()
    assert client.get(f"/api/photos/{photo}/phrases", params={"q": "dog"}).json() == {"phrases": []}


@pytest.mark.parametrize("query", [{"q": "xyzzy in:nowhere"}, {"q": "xyzzy", "in": "nowhere"}])
def test_unknown_words_and_the_number_of_searched_photos_are_reported(
    client: TestClient, query: dict[str, str]
) -> None:
    nowhere = client.get("/api/search", params=query).json()
    assert (nowhere["photos"], nowhere["searched"], nowhere["hits"]) == (3, 0, [])
    assert nowhere["unknown_words"] == ["xyzzy"]
    assert client.get("/api/search", params={"q": "zebra"}).json()["searched"] == 3


def test_a_date_in_words_comes_with_its_filters(client: TestClient) -> None:
    found = client.get("/api/search", params={"q": "dog in 2021"}).json()
    assert found["readings"] == [{"kind": "date", "text": "in 2021", "read_as": "after:2021 before:2022"}]
    assert client.get("/api/search", params={"q": "dog"}).json()["readings"] == []


def test_search_by_a_photo_of_the_index_or_an_uploaded_one(client: TestClient) -> None:
    found = client.get("/api/search", params={"like": id_of(client, "cat.jpg"), "top": 2}).json()
    assert found["query"] is None
    assert len(found["hits"]) == 2
    assert len(client.post("/api/search/like?top=3", files=upload(photo_bytes())).json()["hits"]) == 3


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({}, 400, "q, a sentence"),
        ({"q": "dog", "like": "abc"}, 404, "photo not found"),
        ({"q": "   "}, 422, "q: "),
        ({"q": "x" * 501}, 422, "at most 500"),
        ({"q": "dog", "top": 0}, 422, "top"),
        ({"q": "dog", "top": 100_000}, 422, "top"),
        ({"q": "dog", "after": "soon"}, 400, "'soon': not a date"),
        ({"like": "0-0"}, 404, "not found"),
        ({"like": "../../etc/passwd"}, 422, "like"),
    ],
)
def test_invalid_searches_are_errors(client: TestClient, query: dict[str, str], code: int, words: str) -> None:
    response = client.get("/api/search", params=query)
    assert response.status_code == code
    assert words in error_of(response)


def test_photos_are_paged(client: TestClient) -> None:
    first, second = (client.get("/api/photos", params={"limit": 2, "offset": begin}).json() for begin in (0, 2))
    assert first["total"] == second["total"] == 3
    assert [len(first["photos"]), len(second["photos"])] == [2, 1]
    assert client.get("/api/photos", params={"limit": 5000}).status_code == 422


def test_photos_pass_filters(client: TestClient) -> None:
    found = client.get("/api/photos", params={"q": "in:nowhere"}).json()
    assert (found["total"], found["filter_reason"]) == (0, "no folder is named nowhere")
    assert client.get("/api/photos", params={"q": "is:sharp"}).status_code == 400


def test_albums_and_favourites_are_files(client: TestClient, folder: Path) -> None:
    ids = [photo["id"] for photo in client.get("/api/photos").json()["photos"]]
    assert client.post("/api/albums/Best", json={"photos": ids[:2]}).json() == {"albums": ["Best"]}
    assert len((folder / "albums" / "Best.txt").read_text().splitlines()) == 2
    assert client.get("/api/photos", params={"q": "album:Best"}).json()["total"] == 2
    client.post("/api/albums/Best", json={"photos": ids[:1], "remove": True})
    assert client.get("/api/overview").json()["albums"] == ["Best"]
    assert client.get("/api/photos", params={"q": "album:Best"}).json()["total"] == 1
    assert client.post("/api/favourites", json={"photos": ids[:2]}).json() == {"photos": ids[:2]}
    assert len(list(folder.glob("*.xmp"))) == 2
    client.post("/api/favourites", json={"photos": ids[:1], "remove": True})
    assert client.get("/api/favourites").json() == {"photos": ids[1:2]}
    assert len(list(folder.glob("*.xmp"))) == 1


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fout", "a%2fb", ".hidden", "a%00", "a:b", "end.", "%20"])
def test_no_album_is_written_elsewhere(client: TestClient, folder: Path, name: str) -> None:
    ids = [photo["id"] for photo in client.get("/api/photos").json()["photos"]]
    assert client.post(f"/api/albums/{name}", json={"photos": ids}).status_code in (400, 404, 405)
    assert not (folder / "albums").exists()


def test_photos_are_downloaded_as_one_zip(client: TestClient, folder: Path) -> None:
    photos = client.get("/api/photos").json()["photos"]
    (folder / photos[1]["name"]).unlink()
    ids = [photo["id"] for photo in photos]
    answer = client.post("/api/download", data={"photos": ",".join([*ids, ids[0]])})
    assert answer.headers["content-disposition"] == 'attachment; filename="photos.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        names = [photos[0]["name"], photos[2]["name"], f"4 {photos[0]['name']}"]
        assert archive.namelist() == [*names, "not included.txt"]
        assert archive.read(names[1]) == (folder / names[1]).read_bytes()
        assert archive.read("not included.txt").decode() == f"{photos[1]['name']}: cannot be read\n"
    assert client.post("/api/download", data={"photos": "0-0"}).status_code == 404
    assert "at most 1,000" in error_of(client.post("/api/download", data={"photos": ",".join(ids * 400)}))


def test_names_in_a_zip_lead_to_no_other_folder_and_differ(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("..\\evil.jpg", "C:x.jpg", "4 a.jpg", "a.jpg", "sub/a.jpg")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"photo")
    parts = b"".join(ZipDownload([(file, None) for file in (*files, files[3])])._parts())
    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        assert archive.namelist() == [".._evil.jpg", "C_x.jpg", "4 a.jpg", "a.jpg", "5 a.jpg", "6 a.jpg"]


def test_photo_details_do_not_contain_the_path(client: TestClient, folder: Path) -> None:
    response = client.get(f"/api/photos/{id_of(client, 'dog.jpg')}")
    assert response.json() | {"id": ""} == {
        "id": "",
        "name": "dog.jpg",
        "width": 64,
        "height": 48,
        "taken": "2024-06-01T12:30:00",
        "date_source": None,
        "camera": "Camera 1",
        "folder": folder.name,
        "regions": [{"box": [0, 0, 32, 24]}, {"box": [16, 12, 64, 48]}],
    }
    assert str(folder) not in response.text


def test_the_original_file_is_shown_or_saved(client: TestClient, folder: Path) -> None:
    address = f"/api/photos/{id_of(client, 'dog.jpg')}/original"
    shown, saved = client.get(address), client.get(address, params={"download": 1})
    assert shown.content == saved.content == (folder / "dog.jpg").read_bytes()
    assert shown.headers["content-type"] == "image/jpeg"
    assert shown.headers["content-disposition"].startswith("inline")
    assert saved.headers["content-disposition"].startswith("attachment")


def test_paths_are_given_on_the_own_machine(client: TestClient, folder: Path) -> None:
    found = client.post("/api/paths", json=[id_of(client, "dog.jpg")])
    assert found.json() == {"paths": [str(folder / "dog.jpg")]}
    assert client.post("/api/paths", json=["nothing"]).status_code == 404


@pytest.mark.parametrize("kind", ["thumbnail", "image"])
def test_images_are_new_jpegs_without_metadata(client: TestClient, folder: Path, kind: str) -> None:
    exif = Image.Exif()
    exif[0x010F] = "SECRET CAMERA"
    Image.new("RGB", (3000, 2000), "red").save(folder / "dog.jpg", exif=exif, comment=b"SECRET")
    response = client.get(f"/api/photos/{id_of(client, 'dog.jpg')}/{kind}")
    assert response.headers["content-type"] == "image/jpeg"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert b"SECRET" not in response.content
    assert max(Image.open(io.BytesIO(response.content)).size) == {"thumbnail": 320, "image": 1600}[kind]


@pytest.mark.parametrize("rest", ["", "/thumbnail", "/image"])
@pytest.mark.parametrize("photo_id", ["0-0", "1", "deadbeef"])
def test_unknown_ids_are_not_found(client: TestClient, photo_id: str, rest: str) -> None:
    response = client.get(f"/api/photos/{photo_id}{rest}")
    assert response.status_code == 404
    assert error_of(response) == "photo not found"


@pytest.mark.parametrize(
    "path",
    [
        "/api/photos/../../../etc/passwd",
        "/api/photos/..%2f..%2f..%2fetc%2fpasswd/image",
        "/api/photos/%2e%2e/image",
        "/assets/../../../../../../../etc/passwd",
        "/assets/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/assets/%2e%2e/%2e%2e/app.py",
        "/..%2f..%2fetc/passwd",
        "/static/index.html",
        "/app.py",
    ],
)
def test_no_path_leads_to_a_file(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code in (404, 422)
    assert "root:" not in response.text
    error_of(response)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a photo", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\xff\xd8\xff", "a missing file", "a folder"],
)
def test_the_error_of_a_broken_or_missing_photo_does_not_contain_its_path(
    client: TestClient, folder: Path, content: bytes | str
) -> None:
    photo, path = id_of(client, "cat.jpg"), folder / "cat.jpg"
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "a folder":
        path.mkdir()
    response = client.get(f"/api/photos/{photo}/image")
    assert response.status_code == 422
    assert str(folder) not in error_of(response)
    assert error_of(response).endswith("no such file") is (content == "a missing file")


def test_links_to_files_outside_the_folder_are_not_followed(
    client: TestClient, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "private.jpg"
    elsewhere.write_bytes(photo_bytes())
    photo = id_of(client, "cat.jpg")
    (folder / "cat.jpg").unlink()
    (folder / "cat.jpg").symlink_to(elsewhere)
    for response in (
        client.get(f"/api/photos/{photo}/image"),
        client.post("/api/caption", json={"photo": photo}),
        client.post("/api/ground", json={"photo": photo, "sentence": "dog"}),
    ):
        assert response.status_code == 422
        assert "outside its folder" in error_of(response)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DeixisError("/home/my photos.deixis/index.sqlite: damaged; rebuild it"), 400, "…: damaged; rebuild it"),
        (RuntimeError("/home is on fire"), 500, "internal error (RuntimeError)"),
    ],
)
def test_errors_reveal_no_paths(
    visit: Visit, collection: FakeCollection, error: Exception, code: int, message: str
) -> None:
    def broken(*_: object, **__: object) -> list[object]:
        raise error

    collection.search = broken  # type: ignore[method-assign,assignment]
    response = visit().get("/api/search", params={"q": "dog"})
    assert (response.status_code, error_of(response)) == (code, message)
    assert "content-security-policy" in response.headers


def test_sentences_are_grounded_in_indexed_and_uploaded_photos(client: TestClient) -> None:
    photo = id_of(client, "dog.jpg")
    indexed = client.post("/api/ground", json={"photo": photo, "sentence": "dog in snow"}).json()
    uploaded = client.post("/api/ground", files=upload(photo_bytes((80, 60))), data={"sentence": "dog in snow"}).json()
    assert indexed["photo"] == photo
    assert uploaded["photo"] is None
    assert (indexed["size"], uploaded["size"]) == ([64, 48], [80, 60])
    assert [phrase["text"] for phrase in uploaded["phrases"]] == ["dog", "snow"]
    assert uploaded["phrases"][0]["boxes"] == [{"box": [0, 0, 40, 60], "score": 0.6}]


@pytest.mark.parametrize("verb", ["ground", "caption", "describe"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b"{}", 422),
        (b'{"photo": 5, "sentence": "dog"}', 422),
        (b'{"photo": "0-0", "sentence": "dog", "more": 1}', 422),
        (b'{"photo": "0-0", "sentence": "\\ud800"}', 422),
        (b'{"photo": "../x", "sentence": "dog"}', 422),
        (b"[" * 50_000, 422),
        (b" " * 70_000, 413),
        (b"\xff\xfe", 422),
    ],
)
def test_invalid_bodies_are_errors(client: TestClient, verb: str, body: bytes, code: int) -> None:
    response = client.post(f"/api/{verb}", content=body, headers={"content-type": "application/json"})
    assert response.status_code == code
    error_of(response)


def test_a_form_without_a_photo_is_an_error(client: TestClient) -> None:
    for response in (
        client.post("/api/caption", data={"sentence": "dog"}),
        client.post("/api/caption", content=b"x", headers={"content-type": "text/plain"}),
        client.post("/api/caption", content=b"x", headers={"content-type": "multipart/form-data"}),
        client.post("/api/search/like", content=b"x", headers={"content-type": "multipart/form-data; boundary=b"}),
        client.post("/api/search/like"),
    ):
        assert response.status_code in (400, 422)
        error_of(response)


def test_photos_are_captioned(client: TestClient) -> None:
    response = client.post("/api/caption", files=upload(photo_bytes())).json()
    assert response == {
        "photo": None,
        "captions": [
            {"text": "a photo of something", "logprob": -9.0, "perplexity": 6.0, "confidence": 0.8, "sure": True}
        ],
    }


@pytest.mark.parametrize("content", [b"", b"hello", b"GIF89a", b"<svg onload=alert(1)>", photo_bytes()[:200]])
@pytest.mark.parametrize("address", ["/api/search/like", "/api/caption", "/api/preview"])
def test_uploads_must_be_photos(client: TestClient, address: str, content: bytes) -> None:
    response = client.post(address, files=upload(content))
    assert response.status_code == 422
    assert "/tmp" not in error_of(response)


def test_an_uploaded_photo_of_any_format_is_returned_as_jpeg(client: TestClient) -> None:
    response = client.post("/api/preview", files=upload(photo_bytes((2000, 1000), "TIFF"), "scan.tif"))
    assert (response.headers["content-type"], response.headers["cache-control"]) == ("image/jpeg", "no-store")
    assert (response.headers["x-width"], response.headers["x-height"]) == ("2000", "1000")
    with Image.open(io.BytesIO(response.content)) as shown:
        assert (shown.format, shown.size) == ("JPEG", (1600, 800))


def png_bomb(side: int) -> bytes:
    """A file of a few kB that says that it has very many pixels."""
    written = io.BytesIO()
    Image.new("1", (side, side)).save(written, "PNG", optimize=True)
    return written.getvalue()


@pytest.mark.parametrize("side", [8_000, 20_000])
def test_image_bombs_are_rejected_before_decoding(
    client: TestClient, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: object) -> None:
        raise AssertionError("a bomb was decoded")

    bomb = png_bomb(side)
    assert len(bomb) < 2**18
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", decode)
    response = client.post("/api/search/like", files=upload(bomb, "bomb.png"))
    assert response.status_code == 422
    assert error_of(response).endswith("pixels are too many")


def test_large_bodies_are_rejected_whatever_their_header_says(visit: Visit) -> None:
    client = visit(limits=ServerLimits(upload_bytes=100_000))
    honest = client.post("/api/search/like", files=upload(b"x" * 200_000))

    def in_pieces() -> object:
        yield b'--b\r\nContent-Disposition: form-data; name="photo"; filename="a.jpg"\r\n\r\n'
        for _ in range(100):
            yield b"x" * 10_000

    streamed = client.post(
        "/api/search/like",
        content=in_pieces(),  # type: ignore[arg-type]
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    for response in (honest, streamed):
        assert response.status_code == 413
        assert "too large" in error_of(response)


@pytest.mark.parametrize("address", ["favourites", "albums/a", "paths", "download", "search", "nothing"])
def test_only_uploads_of_photos_may_be_large(client: TestClient, address: str) -> None:
    response = client.post(f"/api/{address}", files=upload(b"x" * 200_000))
    assert response.status_code == 413
    assert "64 kB" in error_of(response)


def test_status_reports_limits(client: TestClient) -> None:
    status = client.get("/api/status").json()
    assert status["photos"] == 3
    assert status["upload"]["bytes"] == ServerLimits().upload_bytes


def test_an_empty_index_has_no_photos_and_finds_nothing(visit: Visit) -> None:
    client = visit(photos=FakeCollection())
    assert client.get("/api/photos").json() == {"total": 0, "filter_reason": None, "photos": []}
    assert client.get("/api/search", params={"q": "dog", "all": 1}).json()["hits"] == []


def test_unknown_routes_and_methods_are_errors(client: TestClient) -> None:
    assert client.delete("/api/photos").status_code == 405
    assert error_of(client.get("/api/nothing")) == "not found"
    assert error_of(client.get("/docs")) == "not found"


@pytest.mark.parametrize("address", ["/", "/favicon.ico"])
def test_head_requests_are_answered(client: TestClient, address: str) -> None:
    response = client.head(address)
    assert response.status_code == client.get(address).status_code
    assert response.content == b""
