"""A page that shows what a model writes: photos with captions, neighbours and scores, in one file.

Photos are those at even distances over the split, so that nobody has chosen them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deixis.data.images import open_photo
from deixis.errors import DeixisError, PhotoError
from deixis.files.atomic import new_file
from deixis.tasks.captions.consensus import oracle_scores

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset
    from deixis.data.records import Photo
    from deixis.models.decoding import Decoding, Generated
    from deixis.tasks.captions.captioning import CaptionBundle, CaptionResult
    from deixis.tasks.captions.reranking import Reranker
    from deixis.tasks.captions.scoring import CaptionerScores
    from deixis.tasks.features_of import SeenPhotos

PHOTOS = 40
NEIGHBOURS = 5
_SIDE, _SMALL_SIDE = 320, 110
_QUALITY = 80


@dataclass(frozen=True)
class Sentence:
    """A sentence as the page shows it: `cider` says how good it is by the photo's own captions."""

    text: str
    log_probability: float
    cider: float
    consensus: float | None = None


@dataclass(frozen=True)
class Neighbour:
    """A training photo that is like the one shown."""

    picture: str
    captions: Sequence[str]


@dataclass(frozen=True)
class Card:
    """All that is shown of a photo.

    Attributes
    ----------
    name, picture
        Its id, and itself as a ``data:`` address.
    sentences
        As the model orders them.
    reranked
        The same as their neighbours do; empty where they were not asked.
    own
        People's captions.
    neighbours
        The nearest training photos.
    """

    name: str
    picture: str
    sentences: Sequence[Sentence]
    reranked: Sequence[Sentence] = ()
    own: Sequence[str] = ()
    neighbours: Sequence[Neighbour] = ()


@dataclass(frozen=True)
class Page:
    """What the page is about.

    Attributes
    ----------
    title
        Its heading.
    lines
        What readers must know to trust it.
    scores
        Of all photos, not only of those shown: by name, the score and its interval.
    cards
        The photos.
    reranked_by
        What the second list is called.
    """

    title: str
    lines: Sequence[str]
    scores: Mapping[str, tuple[float, float, float]]
    cards: Sequence[Card]
    reranked_by: str = ""

    def write(self, path: Path) -> None:
        """Write one file of HTML."""
        with new_file(path) as unfinished:
            unfinished.write_text(self.html(), encoding="utf-8")

    def html(self) -> str:
        """The page."""
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.lines)
        cells = "".join(
            f"<div><b>{value:.1f}</b><span>{escape(name)}</span><small>{low:.1f} – {high:.1f}</small></div>"
            for name, (value, low, high) in self.scores.items()
        )
        cards = "\n".join(map(self._card, self.cards))
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style></head><body>"
            f"<header><h1>{escape(self.title)}</h1>{lines}<div class=scores>{cells}</div></header>"
            f"<main>\n{cards}\n</main></body></html>\n"
        )

    def _card(self, card: Card) -> str:
        best = (card.reranked or card.sentences)[0]
        lists = _list("as the model orders them" if card.reranked else "what it writes", card.sentences)
        if card.reranked:
            lists += _list(self.reranked_by, card.reranked)
        own = "".join(f"<li>{escape(text)}</li>" for text in card.own)
        near = "".join(
            f'<figure><img alt="" src="{each.picture}"><figcaption>{escape(each.captions[0])}</figcaption></figure>'
            for each in card.neighbours
        )
        near = f"<section class=near><h3>nearest training photos</h3><div>{near}</div></section>" if near else ""
        return (
            f'<article><div class=photo><img alt="{escape(best.text, quote=True)}" src="{card.picture}">'
            f"<small>{escape(card.name)}</small><section class=own><h3>people wrote</h3><ul>{own}</ul></section></div>"
            f"<div class=said><h2>{escape(best.text)}</h2><div class=lists>{lists}</div>{near}</div></article>"
        )


def make_page(
    dataset: Dataset,
    bundle: CaptionBundle,
    seen: SeenPhotos,
    found: CaptionerScores,
    how: Decoding,
    *,
    reranker: Reranker | None = None,
    reranked: bool = False,
    title: str = "Captions",
    shown: int = PHOTOS,
) -> Page:
    """The page of a model that was scored.

    Parameters
    ----------
    dataset, seen
        Whose photos, and which were scored.
    bundle, found, how
        The model, its scores, and how it writes.
    reranker
        Where the neighbours come from; none are shown without it.
    reranked
        Whether the sentences stand in the reranker's order.
    title
        The heading.
    shown
        So many photos.
    """
    if dataset.images is None:
        raise DeixisError(f"{dataset.path}: a page needs the photos; say where they are with --images")
    places = np.unique(np.linspace(0, len(seen.photos) - 1, min(shown, len(seen.photos))).round().astype(int))
    photos = [seen.photos[int(place)] for place in places]
    results = [found.results[photo.id] for photo in photos]
    own = [[caption.text for caption in photo.sentences] for photo in photos]
    worth = _worth(found, photos, results)
    near = _neighbours(dataset, seen, places, reranker)
    cards = []
    for photo, result, texts, ciders, others in zip(photos, results, own, worth, near, strict=True):
        sentences = _sentences(result, ciders)
        plain = sorted(sentences, key=lambda pair: -_rank(pair[0], how)) if reranked else sentences
        cards.append(
            Card(
                photo.id,
                _picture(dataset, photo, _SIDE),
                [each for _, each in plain],
                [each for _, each in sentences] if reranked else (),
                texts,
                others,
            )
        )
    quality = found.captions.interval | found.perplexity.interval
    values = {"perplexity": found.perplexity.perplexity} | {
        name: getattr(found.captions, name)
        for name in ("bleu1", "bleu2", "bleu3", "bleu4", "cider_d", "rouge_l", "meteor")
    }
    scores = {name: (value, quality[name].low, quality[name].high) for name, value in values.items()}
    by = f"after reranking by {'BLEU' if reranker and reranker.settings.similarity == 'bleu' else 'CIDEr'}"
    return Page(title, _lines(bundle, seen, how, reranker, reranked), scores, cards, by if reranked else "")


def _lines(
    bundle: CaptionBundle, seen: SeenPhotos, how: Decoding, reranker: Reranker | None, reranked: bool
) -> list[str]:
    lines = [
        f"{len(seen.photos):,} photos were scored; those below stand at even distances among them, and nobody has "
        f"chosen them. Encoder {bundle.encoder.name} ({bundle.encoder.fingerprint}); {len(bundle.model.vocabulary):,} "
        f"words; a beam of {how.beam}. The bar behind a sentence is its CIDEr-D by the photo's own captions.",
    ]
    if reranker and reranked:
        settings = reranker.settings
        lines.append(
            f"Reranked by the captions of the {settings.neighbours} nearest of {len(reranker.neighbours.photos):,} "
            f"training photos (by {reranker.neighbours.how.feature} vectors): the mean likeness to the "
            f"{settings.captions} most similar."
        )
    return lines


def _worth(found: CaptionerScores, photos: Sequence[Photo], results: Sequence[CaptionResult]) -> list[Sequence[float]]:
    """CIDEr-D of every sentence that is shown, in percent; what is rare is judged by all photos that were scored."""
    row = {photo: place for place, photo in enumerate(found.captions.photos)}
    everyone = found.captions.captions
    sentences = [[list(candidate)] for candidate in everyone.candidates]
    for photo, result in zip(photos, results, strict=True):
        sentences[row[photo.id]] = [list(each.words) for each in result.captions]
    values = oracle_scores(sentences, everyone.references, "cider")
    return [(100 * values[row[photo.id]]).tolist() for photo in photos]


def _sentences(result: CaptionResult, ciders: Sequence[float]) -> list[tuple[Generated, Sentence]]:
    consensus = result.consensus or (None,) * len(result.captions)
    return [
        (made, Sentence(made.text, made.log_probability, cider, score))
        for made, cider, score in zip(result.captions, ciders, consensus, strict=True)
    ]


def _rank(made: Generated, how: Decoding) -> float:
    """By what the beam has ordered its sentences."""
    return float(made.log_probability / (len(made.words) + made.finished) ** how.length_power)


def _neighbours(
    dataset: Dataset, seen: SeenPhotos, places: NDArray[np.int64], reranker: Reranker | None
) -> list[list[Neighbour]]:
    if reranker is None:
        return [[] for _ in places]
    nearest = reranker.nearest(seen.vectors()[places], NEIGHBOURS)
    known = {photo_id: row for row, photo_id in enumerate(dataset.photos.ids)}
    found = []
    for rows in nearest:
        ids = [(int(row), reranker.neighbours.photos[row]) for row in rows]
        found.append(
            [
                Neighbour(
                    _picture(dataset, dataset.photos[known[photo_id]], _SMALL_SIDE),
                    reranker.neighbours.captions_of(row),
                )
                for row, photo_id in ids
                if photo_id in known  # neighbours of another data set have no photos here
            ]
        )
    return found


def _picture(dataset: Dataset, photo: Photo, side: int) -> str:
    """A photo made small, as a ``data:`` address; empty where it cannot be read."""
    try:
        image = open_photo(dataset.path_of(photo)).convert("RGB")
    except PhotoError:
        return ""
    image.thumbnail((side, side))
    file = BytesIO()
    image.save(file, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _list(title: str, sentences: Sequence[Sentence]) -> str:
    items = []
    for each in sentences:
        beside = f"log P {each.log_probability:.1f}"
        if each.consensus is not None:
            beside += f", consensus {each.consensus:.2f}"
        width = min(100.0, each.cider / 2)
        items.append(
            f'<li title="{beside}, CIDEr-D {each.cider:.0f}"><i style="width:{width:.0f}%"></i>'
            f"<span>{escape(each.text)}</span></li>"
        )
    return f"<section><h3>{escape(title)}</h3><ol>{''.join(items)}</ol></section>"


_STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--dim:#667085;--line:#e4e7ec;--card:#fff;--page:#f5f6f8;--bar:#d6e8f7}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--dim:#98a2b3;--line:#2c3340;--card:#171c25;--page:#0e1218;
--bar:#1f3f5c}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
header,main{max-width:1180px;margin:0 auto;padding:1.5rem}h1{font-size:1.6rem;margin:0 0 .5rem}
header p{margin:.2rem 0;color:var(--dim);max-width:60rem}
.scores{display:flex;flex-wrap:wrap;gap:.6rem;margin-top:1rem}
.scores div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.5rem .8rem;min-width:6.5rem}
.scores b{display:block;font-size:1.25rem}.scores span{display:block}.scores small,small{color:var(--dim)}
article{display:grid;grid-template-columns:320px 1fr;gap:1.25rem;background:var(--card);border:1px solid var(--line);
border-radius:12px;padding:1rem;margin:0 0 1rem}
.photo img{width:100%;border-radius:8px;display:block}.photo small{overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:0 0 .6rem}h3{font-size:.75rem;letter-spacing:.04em;text-transform:uppercase;
color:var(--dim);margin:0 0 .3rem;font-weight:600}
.lists{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:1rem}
ol,ul{margin:0;padding-left:1.6rem}ul{padding-left:1.1rem}ol li{position:relative;padding:1px 4px;font-size:.86rem}
ol li i{position:absolute;left:0;top:1px;bottom:1px;background:var(--bar);border-radius:3px}
ol li span{position:relative}ul li{font-size:.86rem}.own,.near{margin-top:.8rem}
.near div{display:flex;gap:.6rem;flex-wrap:wrap}figure{margin:0;width:110px}
figure img{width:110px;height:82px;object-fit:cover;border-radius:6px;display:block}
figcaption{font-size:.7rem;color:var(--dim);line-height:1.25;margin-top:.2rem}
@media(max-width:760px){article{grid-template-columns:1fr}}
@media print{article{break-inside:avoid}}
"""
