"""The page of captions: one file, nothing from elsewhere, and what is in it is what was measured."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.models.decoding import Decoding
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.tasks.captions.page import Card, Page, Sentence, make_page
from deixis.tasks.captions.reranking import Reranker, open_reranker
from deixis.tasks.captions.scoring import CaptionerScores, score_captioner
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.scores.scoring import seen_by
from deixis.vision import encoders
from tests.tasks.coloured import make_coloured
from tests.tasks.writing import train_writer
from tests.vision.store.small import colour_encoder

HOW = Decoding(beam=4, count=4)


@pytest.fixture(autouse=True)
def _small_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_writer(make_coloured(folder), folder / "run")
    return folder


class Scored:
    """A model that was scored on the dev split, reranked or not."""

    def __init__(self, made: Path, reranked: bool) -> None:
        self.dataset = Dataset(made / "data", images=made / "images")
        self.bundle = CaptionBundle.load(made / "run")
        self.seen: SeenPhotos = seen_by(self.bundle.encoder, self.dataset, self.dataset.split("dev"))
        self.reranker: Reranker = open_reranker("cider", made / "run", self.bundle)
        judge = self.reranker if reranked else None
        self.found: CaptionerScores = score_captioner(self.bundle, self.seen, HOW, judge=judge)
        self.reranked = reranked

    def page(self, **others: object) -> Page:
        chosen = {"reranker": self.reranker, "reranked": self.reranked} | others
        return make_page(self.dataset, self.bundle, self.seen, self.found, HOW, **chosen)  # type: ignore[arg-type]


def test_cards_have_both_orders_neighbours_and_what_people_wrote(made: Path) -> None:
    scored = Scored(made, reranked=True)
    page = scored.page()
    assert [card.name for card in page.cards] == list(scored.dataset.split("dev").ids)
    for card, photo in zip(page.cards, scored.dataset.split("dev"), strict=True):
        result = scored.found.results[photo.id]
        assert [each.text for each in card.reranked] == [each.text for each in result.captions]
        likely = [each.log_probability for each in card.sentences]
        assert likely == sorted(likely, reverse=True)
        assert sorted(each.text for each in card.sentences) == sorted(each.text for each in card.reranked)
        assert card.own == [caption.text for caption in photo.sentences]
        colour = card.own[0].split()[1]
        assert len(card.neighbours) == 5
        assert colour in card.neighbours[0].captions[0]


def test_the_bar_of_a_sentence_is_its_cider_among_all_photos_scored(made: Path) -> None:
    scored = Scored(made, reranked=False)
    page = scored.page(shown=3)
    assert [card.reranked for card in page.cards] == [(), (), ()]
    own = {photo.id: [caption.text for caption in photo.sentences] for photo in scored.dataset.split("dev")}
    for card in page.cards:
        for each in card.sentences:
            everyone = scored.found.written | {card.name: each.text}
            found = caption_scores(everyone, own)
            assert each.cider == pytest.approx(found.per_photo["cider_d"][found.photos.index(card.name)], abs=1e-6)


def test_scores_and_intervals_are_of_all_photos(made: Path) -> None:
    scored = Scored(made, reranked=False)
    page = scored.page(shown=2)
    bounds = scored.found.captions.interval["bleu1"]
    assert page.scores["bleu1"] == (scored.found.captions.bleu1, bounds.low, bounds.high)
    assert page.scores["perplexity"][0] == scored.found.perplexity.perplexity
    assert len(page.cards) == 2


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


def test_the_file_needs_no_other_and_its_pictures_are_small_photos(made: Path, tmp_path: Path) -> None:
    scored = Scored(made, reranked=True)
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


def test_hostile_captions_stay_text() -> None:
    bad = Sentence('<script>alert("x")</script>', -1.0, 10.0)
    page = Page("t", [], {}, [Card("<i>", "", [bad], own=["<img src=x>"])]).html()
    assert "<script>" not in page
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page


def test_photos_that_are_not_there_are_one_line(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = Scored(made, reranked=False)
    monkeypatch.setattr(scored.dataset, "_images", None)
    with pytest.raises(DeixisError, match="a page needs the photos; say where they are with --images"):
        scored.page()
