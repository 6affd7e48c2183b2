"""The page of captions: captions by probability and by consensus, nearest photos and references, in one file."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from caption_page import Card, Page, PageSentence

from tests.models.conftest import captioner_folder, small_encoder  # noqa: F401 - fixtures

SCRIPT = Path(__file__).parents[2] / "scripts" / "caption_page.py"


@pytest.mark.usefixtures("small_encoder")
def test_the_page_has_captions_before_and_after_reranking(
    captioner_folder: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = (captioner_folder / "data", "--images", captioner_folder / "images", "--model", captioner_folder / "run")
    arguments = (*where, "--rerank", "bleu", "--out", tmp_path / "page.html")
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for words in ("by probability", "after reranking by BLEU", "nearest training photos", "by people"):
        assert text.count(words) == 8, words
    assert text.count('src="data:image/jpeg;base64,') == 8 * 6
    assert "<script" not in text


def test_captions_are_escaped() -> None:
    bad = PageSentence('<script>alert("x")</script>', -1.0, 10.0)
    page = Page("t", [], {}, [Card("<i>", "", [bad], references=["<img src=x>"])]).html()
    assert "<script>" not in page
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page
