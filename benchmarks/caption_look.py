"""A page of photos with the captions of a model and of people, for judging captions by eye.

    python benchmarks/caption_look.py DATA [--split dev] [--photos 50] [--model captioner] --out captions.html
                                      [--seed N] [--sheets DIR]

The photos are evenly spaced over the split, or drawn with --seed; they are not selected. The caption, its confidence
and people's captions stand beside each photo. The page has a button for each verdict (right, partly right, wrong),
counts them, apart for captions that are shown as sure, and keeps them in the browser. With --sheets the same is written
as PNG files of ten photos each, for reading without a browser.

The confidence is the one that comes with the caption; for models without one, the mean probability of its words.
"""

from __future__ import annotations

import argparse
import base64
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import deixis
from deixis.cli.output import progress
from deixis.data.dataset import Dataset, Photos
from deixis.data.images import open_photo
from deixis.models.m_rnn.pipeline import CaptionResult
from deixis.pictures.style import font
from deixis.storage.atomic import new_file
from deixis.storage.progress import track

SIDE, PER_SHEET, COLUMNS = 320, 10, 2
_TEXT_WIDTH, _ROW, _LINE = 420, 260, 17

_STYLE = """
body{font:15px/1.4 system-ui,sans-serif;margin:0 auto;max-width:1100px;padding:1rem;background:#fafafa;color:#1d2430}
article{display:grid;grid-template-columns:320px 1fr;gap:1rem;background:#fff;border:1px solid #ddd;border-radius:8px;
padding:.8rem;margin:.8rem 0}img{max-width:320px;border-radius:6px}h2{margin:0;font-size:1.15rem}
.unsure h2{color:#777;font-style:italic}ul{color:#555;padding-left:1.1rem}small{color:#777}
button[aria-pressed=true]{background:#0072b2;color:#fff}#counts{position:sticky;top:0;background:#fafafa;padding:.5rem}
"""

_SCRIPT = """
const key = document.title, store = JSON.parse(localStorage.getItem(key) || '{}');
function show() {
  const verdicts = ['right', 'partly', 'wrong'], counts = {};
  document.querySelectorAll('article').forEach(card => {
    const verdict = store[card.id], sure = card.className === 'sure' ? 'sure' : 'unsure';
    card.querySelectorAll('button').forEach(b => b.setAttribute('aria-pressed', b.value === verdict));
    if (verdict) counts[sure + ' ' + verdict] = (counts[sure + ' ' + verdict] || 0) + 1;
  });
  const judged = Object.values(counts).reduce((a, b) => a + b, 0);
  document.getElementById('counts').textContent = judged + ' judged: ' + ['sure', 'unsure'].map(sure =>
    sure + ' ' + verdicts.map(v => (counts[sure + ' ' + v] || 0) + ' ' + v).join(', ')).join('; ');
}
document.addEventListener('click', event => {
  if (event.target.tagName !== 'BUTTON') return;
  store[event.target.closest('article').id] = event.target.value;
  localStorage.setItem(key, JSON.stringify(store));
  show();
});
show();
"""


@dataclass(frozen=True)
class Card:
    """A photo with the caption of the model, its confidence, and people's captions."""

    photo: str
    image: Image.Image
    caption: str
    confidence: float
    sure: bool
    people: Sequence[str]


def read_caption(result: CaptionResult) -> tuple[str, float, bool]:
    """Return the caption, its confidence and whether it is shown as sure."""
    document = result.as_json()
    best = document["captions"][0]
    confidence = best.get("confidence", document.get("confidence"))
    if confidence is None:
        return best["text"], 1 / best["perplexity"], True
    return best["text"], float(confidence), bool(best.get("sure", document.get("sure", True)))


def choose_photos(photos: Photos, count: int, seed: int | None) -> list[int]:
    """Return indices of photos that are evenly spaced, or drawn at random."""
    if seed is None:
        return np.unique(np.linspace(0, len(photos) - 1, min(count, len(photos))).astype(int)).tolist()
    drawn = np.random.default_rng(seed).choice(len(photos), min(count, len(photos)), replace=False)
    return sorted(drawn.tolist())


def page(title: str, cards: Sequence[Card]) -> str:
    """Return the HTML page."""
    articles = "\n".join(map(_article, cards))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f'<h1>{escape(title)}</h1><p id="counts"></p>{articles}<script>{_SCRIPT}</script></html>\n'
    )


def _article(card: Card) -> str:
    data = BytesIO()
    card.image.save(data, "JPEG", quality=80)
    source = base64.b64encode(data.getvalue()).decode("ascii")
    buttons = "".join(f'<button value="{verdict}">{verdict}</button> ' for verdict in ("right", "partly", "wrong"))
    people = "".join(f"<li>{escape(caption)}</li>" for caption in card.people)
    return (
        f'<article id="{escape(card.photo)}" class="{"sure" if card.sure else "unsure"}">'
        f'<img src="data:image/jpeg;base64,{source}" alt=""><div><h2>{escape(card.caption)}</h2>'
        f"<small>{card.confidence:.0%}{'' if card.sure else ', not sure'} · {escape(card.photo)}</small>"
        f"<p>{buttons}</p><ul>{people}</ul></div></article>"
    )


def sheet(cards: Sequence[Card], first: int) -> Image.Image:
    """Return a picture of numbered photos with their captions; people's captions are in grey."""
    rows = -(-len(cards) // COLUMNS)
    width = SIDE + _TEXT_WIDTH
    picture = Image.new("RGB", (COLUMNS * width, rows * _ROW), "white")
    draw = ImageDraw.Draw(picture)
    for number, card in enumerate(cards):
        left, top = number % COLUMNS * width, number // COLUMNS * _ROW
        image = card.image.copy()
        image.thumbnail((SIDE - 10, _ROW - 10))
        picture.paste(image, (left, top))
        sure = "" if card.sure else " not sure:"
        lines = [(f"{first + number}. {card.confidence:.0%}{sure} {card.caption}", (0, 0, 0))]
        lines += [(f"– {caption}", (120, 120, 120)) for caption in card.people[:5]]
        at = top
        for text, colour in lines:
            for line in textwrap.wrap(text, _TEXT_WIDTH // 8):
                draw.text((left + SIDE, at), line, colour, font(14))
                at += _LINE
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--photos", type=int, default=50)
    parser.add_argument("--model", default="captioner")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sheets", type=Path, metavar="DIR")
    options = parser.parse_args()
    dataset = Dataset(options.data)
    photos = dataset.split(options.split)
    chosen = [photos[index] for index in choose_photos(photos, options.photos, options.seed)]
    model = deixis.load(options.model)
    cards = []
    with progress("photos") as on_progress:
        for photo in track(chosen, "captioning", len(chosen), on_progress):
            image = open_photo(dataset.path_of(photo))
            text, confidence, sure = read_caption(model.caption(image))
            image.thumbnail((SIDE, SIDE))
            cards.append(Card(photo.id, image, text, confidence, sure, [each.text for each in photo.sentences]))
    title = f"{len(cards)} photos of {options.data.name}, {options.split}, by {options.model}"
    with new_file(options.out) as file:
        file.write_text(page(title, cards), encoding="utf-8")
    print(f"written: {options.out}")
    if options.sheets:
        options.sheets.mkdir(parents=True, exist_ok=True)
        for begin in range(0, len(cards), PER_SHEET):
            file = options.sheets / f"captions-{begin + 1:03}.png"
            sheet(cards[begin : begin + PER_SHEET], begin + 1).save(file)
        print(f"written: {options.sheets}")


if __name__ == "__main__":
    main()
