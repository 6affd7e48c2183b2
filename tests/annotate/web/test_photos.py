"""Sending photos."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from deixis.annotate.project import add_photos, read_secret
from deixis.annotate.web import photos
from tests.annotate.conftest import Bench, MakeBench
from tests.annotate.fakes import dogs


def with_files(bench: MakeBench, *files: str | None) -> tuple[Bench, list[str]]:
    """A workbench whose photos have these files, and their addresses."""
    opened = bench(photos=0)
    made = [replace(material, file=file) for material, file in zip(dogs(len(files)), files, strict=True)]
    add_photos(opened.project, made)
    return opened, [image_url(opened, material.photo) for material in made]


def image_url(opened: Bench, photo: str) -> str:
    return f"/api/photos/{library(opened).public_id(photo)}/image"


def library(opened: Bench) -> photos.PhotoLibrary:
    return photos.PhotoLibrary(opened.project, read_secret(opened.project))


def test_a_photo_is_sent_as_jpeg_to_logged_in_users_only(bench: MakeBench) -> None:
    opened, [url] = with_files(bench, "dog.jpg")
    assert opened.project.images is not None
    original = (opened.project.images / "dog.jpg").read_bytes()
    answer = opened.person("Ann").client.get(url)
    assert Image.open(io.BytesIO(answer.content)).size == (100, 80)
    assert answer.content != original
    assert answer.headers["cache-control"].startswith("private")
    assert opened.client.get(url).status_code == 401


@pytest.mark.parametrize("file", ["../secret.jpg", "/etc/passwd", "link.jpg", None])
def test_files_outside_the_folder_are_never_sent(bench: MakeBench, file: str | None) -> None:
    opened, [url] = with_files(bench, file)
    assert opened.project.images is not None
    picture = (opened.project.images / "dog.jpg").read_bytes()
    outside = opened.project.images.parent / "secret.jpg"
    outside.write_bytes(picture)
    Path(opened.project.images / "link.jpg").symlink_to(outside)
    answer = opened.person("Ann").client.get(url)
    assert answer.status_code in (404, 422), answer.text
    assert str(outside.parent) not in answer.text


def test_guessed_ids_give_nothing(bench: MakeBench) -> None:
    opened, _ = with_files(bench, "dog.jpg")
    ann = opened.person("Ann")
    for name, status in (("p" + "0" * 24, 404), ("dog0", 422), ("..%2f..%2fsecret", 404)):
        assert ann.client.get(f"/api/photos/{name}/image").status_code == status


def test_photos_added_while_serving_are_found(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "_ID_REFRESH_S", 0.0)
    opened, [url] = with_files(bench, "dog.jpg")
    ann = opened.person("Ann")
    assert ann.client.get(url).status_code == 200
    new = replace(dogs(2)[1], file="dog.jpg")
    add_photos(opened.project, [new])
    assert ann.client.get(image_url(opened, new.photo)).status_code == 200


def test_a_key_gives_access_to_one_photo_for_a_limited_time(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, [url, other] = with_files(bench, "dog.jpg", "dog.jpg")
    key = library(opened).make_key(url.split("/")[3])
    assert opened.client.get(f"{url}?key={key}").status_code == 200
    assert opened.client.get(f"{other}?key={key}").status_code == 401
    assert opened.client.get(f"{url}?key={key[:-1]}x").status_code == 401
    now = photos.time.time()
    monkeypatch.setattr(photos.time, "time", lambda: now + 3 * 86400)
    assert opened.client.get(f"{url}?key={key}").status_code == 401
