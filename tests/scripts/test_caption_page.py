"""The page of captions: one HTML file whose content is what was measured."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from caption_page import Card, Page, PageSentence, make_page
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.evaluation.captions import caption_scores
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.evaluation import CaptionerScores, score_captioner
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.models.m_rnn.reranking import Reranker
from deixis.models.photo_features import PhotoFeatures, find_or_compute_features
from tests.scripts.conftest import Script

DECODING = Decoding(beam=4, top=4)
pytestmark = pytest.mark.usefixtures("small_encoder")


class ScoringData:
    """A model that was scored on the dev split, reranked or not."""

    def __init__(self, captioner_folder: Path, reranked: bool) -> None:
        self.dataset = Dataset(captioner_folder / "data", images=captioner_folder / "images")
        self.pipeline = load_captioner(captioner_folder / "run")
        self.features: PhotoFeatures = find_or_compute_features(
            self.pipeline.encoder, self.dataset, self.dataset.split("dev")
        )
        self.reranker: Reranker = self.pipeline.reranker("cider")
        ranker = self.reranker if reranked else None
        self.found: CaptionerScores = score_captioner(self.pipeline, self.features, DECODING, ranker=ranker)
        self.reranked = reranked

    def page(self, **others: object) -> Page:
        chosen = {"reranker": self.reranker, "reranked": self.reranked} | others
        return make_page(self.dataset, self.pipeline, self.features, self.found, **chosen)  # type: ignore[arg-type]


def test_cards_show_both_orders_neighbours_and_references(captioner_folder: Path) -> None:
    scored = ScoringData(captioner_folder, reranked=True)
    page = scored.page()
    assert [card.name for card in page.cards] == list(scored.dataset.split("dev").ids)
    for card, photo in zip(page.cards, scored.dataset.split("dev"), strict=True):
        result = scored.found.results[photo.id]
        assert [each.text for each in card.reranked] == [each.text for each in result.captions]
        log_p = [each.log_probability for each in card.sentences]
        assert log_p == sorted(log_p, reverse=True)
        assert sorted(each.text for each in card.sentences) == sorted(each.text for each in card.reranked)
        assert card.references == [caption.text for caption in photo.sentences]
        colour = card.references[0].split()[1]
        assert len(card.neighbours) == 5
        assert colour in card.neighbours[0].captions[0]


def test_scores_intervals_and_the_cider_d_of_a_sentence_use_all_scored_photos(captioner_folder: Path) -> None:
    scored = ScoringData(captioner_folder, reranked=False)
    page = scored.page(count=3)
    bounds = scored.found.captions.interval["bleu1"]
    assert page.scores["bleu1"] == (scored.found.captions.bleu1, bounds.low, bounds.high)
    assert page.scores["perplexity"][0] == scored.found.perplexity.perplexity
    assert [card.reranked for card in page.cards] == [(), (), ()]
    own = {photo.id: [caption.text for caption in photo.sentences] for photo in scored.dataset.split("dev")}
    for card in page.cards:
        for each in card.sentences:
            everyone = {photo: result.text for photo, result in scored.found.results.items()} | {card.name: each.text}
            found = caption_scores(everyone, own)
            assert each.cider_d == pytest.approx(found.per_photo["cider_d"][found.photos.index(card.name)], abs=1e-6)


class Links(HTMLParser):
    """Every address that a page would load from, and whether all that was opened is closed."""

    VOID = ("meta", "img", "br")

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_one_file_with_embedded_thumbnails(captioner_folder: Path, tmp_path: Path) -> None:
    scored = ScoringData(captioner_folder, reranked=True)
    scored.page(title="a <b> & c").write(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    links = Links()
    links.feed(text)
    assert links.open == []
    assert "a &lt;b&gt; &amp; c" in text
    assert len(links.sources) == 8 * 6
    assert all(source.startswith("data:image/jpeg;base64,") for source in links.sources)
    assert not re.search(r"url\(|@import|<script", text)
    picture = Image.open(BytesIO(base64.b64decode(links.sources[0].partition(",")[2])))
    assert max(picture.size) <= 320
    assert "after reranking by CIDEr" in text


def test_captions_are_escaped() -> None:
    bad = PageSentence('<script>alert("x")</script>', -1.0, 10.0)
    page = Page("t", [], {}, [Card("<i>", "", [bad], references=["<img src=x>"])]).html()
    assert "<script>" not in page
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page


def test_the_script_writes_captions_before_and_after_reranking(
    captioner_folder: Path, tmp_path: Path, script: Script
) -> None:
    where = (captioner_folder / "data", "--images", captioner_folder / "images", "--model", captioner_folder / "run")
    page = tmp_path / "page.html"
    assert str(page) in script("caption_page.py", *where, "--rerank", "bleu", "--out", page)
    text = page.read_text(encoding="utf-8")
    for words in ("by probability", "after reranking by BLEU", "nearest training photos", "by people"):
        assert text.count(words) == 8, words
    script("caption_page.py", *where, "--length-power", "0.5", "--beam", "4", "--out", page)
    assert "a beam of 4, by log-probability / words^0.5" in page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="nowhere"):
        script("caption_page.py", *where, "--out", tmp_path / "nowhere" / "page.html")
