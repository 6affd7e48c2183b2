"""`deixis map`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from deixis.cli.main import _run
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES

pytest.importorskip("openTSNE", reason="the extra 'map' is not installed")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("map") / "data"
    import_dataset(folder, images=SAMPLES / "images", entities=SAMPLES / "entities", licence="mixed")
    return folder


def test_a_picture_and_a_page_are_made(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, page = tmp_path / "map.png", tmp_path / "map.html"
    assert _run(["map", str(data), "--out", str(picture), "--photos", "8"]) == 0
    assert capsys.readouterr().out.startswith(f"{picture}: 8 photos and ")
    with Image.open(picture) as drawn:
        assert max(drawn.size) > 1000
    assert _run(["map", str(data), "--out", str(page), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == str(page)
    assert document["photos"] == len(list((SAMPLES / "images").iterdir()))
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["--out", "map.txt"], "map.txt: pictures are written as .png, .jpg or .webp"),
        (["--out", "nowhere/map.html"], "nowhere/map.html: there is no folder nowhere"),
        (["--out", "map.html", "--split", "moon"], "no split 'moon'"),
        (["--out", "map.html", "--model", "grounder"], "a grounder points at phrases"),
        ([], "--out"),
    ],
)
def test_mistakes_are_one_clear_line(
    data: Path,
    typed: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run(["map", str(data), *typed]) == 2
    assert told in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
