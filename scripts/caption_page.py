"""Write a page that shows the captions of a captioner: one HTML file of photos with captions, neighbours and scores.

python scripts/caption_page.py DATA --model DIR --out page.html [--split dev] [--images DIR] [--beam N]
    [--length-power P] [--rerank none|match|bleu|cider] [--neighbours DIR]

The photos are evenly spaced over the split, not selected. The defaults are those of deixis evaluate captions.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.cli.output import progress
from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.records import Photo
from deixis.errors import DeixisError, PhotoError
from deixis.models.m_rnn.consensus import Reranker, oracle_scores
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence
from deixis.models.m_rnn.evaluation import CaptionerScores, score_captioner
from deixis.models.m_rnn.pipeline import CaptionPipeline, CaptionResult, load_captioner
from deixis.models.photo_features import PhotoFeatures
from deixis.storage.atomic import new_file

_PHOTOS = 40
_NEIGHBOURS = 5
_PHOTO_SIDE, _NEIGHBOUR_SIDE = 320, 110
_JPEG_QUALITY = 80


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.html")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--images", type=Path, metavar="DIR")
    parser.add_argument("--beam", type=int, metavar="N")
    parser.add_argument("--length-power", type=float, default=0.0, metavar="P")
    parser.add_argument("--rerank", choices=("none", "match", "bleu", "cider"))
    parser.add_argument("--neighbours", type=Path, metavar="DIR", help="output of deixis train consensus")
    options = parser.parse_args()
    try:
        write_page(options)
    except DeixisError as error:
        raise SystemExit(str(error)) from None


def write_page(options: argparse.Namespace) -> None:
    if not options.out.absolute().parent.is_dir():
        raise DeixisError(f"--out {options.out}: the directory {options.out.parent} does not exist")
    dataset, pipeline = Dataset(options.data, images=options.images), load_captioner(options.model)
    rerank = options.rerank or ("none" if options.length_power else pipeline.default_rerank)
    ranker, reranker = pipeline.ranker(rerank, options.neighbours), None
    try:
        reranker = pipeline.reranker("bleu" if rerank == "bleu" else "cider", options.neighbours)
    except DeixisError as error:
        print(f"the page shows no neighbours: {error}", file=sys.stderr)
    decoding = pipeline.beam_search(options.beam, 1, length_power=options.length_power, ranker=ranker)
    decoding = replace(decoding, top=decoding.beam)  # the page shows the whole beam; only the first caption is scored
    with progress() as on_progress:
        features = pipeline.features(dataset, dataset.split(options.split), on_progress=on_progress).require_all()
        on_progress(f"writing and scoring captions of {len(features.photos):,} photos", 0, None)
        scores = score_captioner(pipeline, features, decoding, ranker=ranker)
    title = f"{pipeline.name}: captions of {len(features.photos):,} photos of {dataset.path.name}"
    reranked = rerank in ("bleu", "cider")
    page = make_page(dataset, pipeline, features, scores, reranker=reranker, reranked=reranked, title=title)
    page.write(options.out)
    print(f"{options.out}: {len(page.cards)} photos")


@dataclass(frozen=True)
class PageSentence:
    """A generated sentence; `cider_d` is by the photo's own captions, in percent."""

    text: str
    log_probability: float
    cider_d: float
    consensus: float | None = None


@dataclass(frozen=True)
class PageNeighbour:
    """A similar training photo, with its captions."""

    image: str
    captions: Sequence[str]


@dataclass(frozen=True)
class Card:
    """A photo on the page."""

    name: str  # its id
    image: str  # a ``data:`` URL
    sentences: Sequence[PageSentence]  # generated, by probability
    reranked: Sequence[PageSentence] = ()  # captions after reranking; empty without
    references: Sequence[str] = ()  # people's captions
    neighbours: Sequence[PageNeighbour] = ()  # nearest training photos


@dataclass(frozen=True)
class Page:
    """The content of the page."""

    title: str
    lines: Sequence[str]  # how the captions and scores were made
    scores: Mapping[str, tuple[float, float, float]]  # of all photos of the split: name → (score, low, high)
    cards: Sequence[Card]
    reranked_by: str = ""  # heading of the reranked list

    def write(self, path: Path) -> None:
        with new_file(path) as unfinished:
            unfinished.write_text(self.html(), encoding="utf-8")

    def html(self) -> str:
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
        lists = _sentence_list("by probability" if card.reranked else "generated", card.sentences)
        if card.reranked:
            lists += _sentence_list(self.reranked_by, card.reranked)
        references = "".join(f"<li>{escape(text)}</li>" for text in card.references)
        near = "".join(
            f'<figure><img alt="" src="{each.image}"><figcaption>{escape(each.captions[0])}</figcaption></figure>'
            for each in card.neighbours
        )
        near = f"<section class=near><h3>nearest training photos</h3><div>{near}</div></section>" if near else ""
        return (
            f'<article><div class=photo><img alt="{escape(best.text, quote=True)}" src="{card.image}">'
            f"<small>{escape(card.name)}</small>"
            f"<section class=own><h3>by people</h3><ul>{references}</ul></section></div>"
            f"<div class=said><h2>{escape(best.text)}</h2><div class=lists>{lists}</div>{near}</div></article>"
        )


def make_page(
    dataset: Dataset,
    pipeline: CaptionPipeline,
    features: PhotoFeatures,
    scores: CaptionerScores,
    *,
    reranker: Reranker | None = None,
    reranked: bool = False,
    title: str = "Captions",
    count: int = _PHOTOS,
) -> Page:
    """Make the page of a captioner that was scored.

    The reranker gives the neighbours; without it none are shown.
    """
    if dataset.images is None:
        raise DeixisError(f"{dataset.path}: a page needs the photos; give their folder with --images")
    total = len(features.photos)
    rows = np.unique(np.linspace(0, total - 1, min(count, total)).round().astype(int))
    photos = [features.photos[int(row)] for row in rows]
    results = [scores.results[photo.id] for photo in photos]
    cards = []
    for photo, result, values, neighbours in zip(
        photos, results, _cider_d(scores, photos, results), _neighbours(dataset, features, rows, reranker), strict=True
    ):
        consensus = result.consensus or (None,) * len(result.captions)
        pairs = [
            (caption, PageSentence(caption.text, caption.log_probability, cider_d, score))
            for caption, cider_d, score in zip(result.captions, values, consensus, strict=True)
        ]
        by_probability = sorted(pairs, key=lambda pair: -_beam_score(pair[0], scores.decoding)) if reranked else pairs
        cards.append(
            Card(
                photo.id,
                _data_url(dataset, photo, _PHOTO_SIDE),
                [sentence for _, sentence in by_probability],
                [sentence for _, sentence in pairs] if reranked else (),
                [caption.text for caption in photo.sentences],
                neighbours,
            )
        )
    names = ("bleu1", "bleu2", "bleu3", "bleu4", "cider_d", "rouge_l", "meteor")
    points = {"perplexity": scores.perplexity.perplexity} | {name: getattr(scores.captions, name) for name in names}
    intervals = scores.captions.interval | scores.perplexity.interval
    shown = {name: (value, intervals[name].low, intervals[name].high) for name, value in points.items()}
    by = f"after reranking by {'BLEU' if reranker and reranker.settings.similarity == 'bleu' else 'CIDEr'}"
    lines = _lines(pipeline, features, scores.method, reranker if reranked else None)
    return Page(title, lines, shown, cards, by if reranked else "")


def _lines(pipeline: CaptionPipeline, features: PhotoFeatures, method: str, reranker: Reranker | None) -> list[str]:
    lines = [
        f"Scores are over {len(features.photos):,} photos; those below are evenly spaced among them, not selected. "
        f"Encoder {pipeline.encoder.name} ({pipeline.encoder.fingerprint}); {len(pipeline.model.vocabulary):,} words; "
        f"{method}. The bar behind a sentence is its CIDEr-D by the photo's own captions.",
    ]
    if reranker:
        settings = reranker.settings
        lines.append(
            f"Reranked by the captions of the {settings.neighbours} nearest of {len(reranker.neighbours.photos):,} "
            f"training photos ({reranker.neighbours.config.neighbour_feature} features): mean similarity to the "
            f"{settings.m} most similar captions."
        )
    return lines


def _cider_d(
    scores: CaptionerScores, photos: Sequence[Photo], results: Sequence[CaptionResult]
) -> list[Sequence[float]]:
    """CIDEr-D of every sentence that is shown, in percent, with the document frequencies of all scored photos."""
    row = {photo: number for number, photo in enumerate(scores.captions.photos)}
    everything = scores.captions.captions
    sentences = [[list(candidate)] for candidate in everything.candidates]
    for photo, result in zip(photos, results, strict=True):
        sentences[row[photo.id]] = [list(each.words) for each in result.captions]
    values = oracle_scores(sentences, everything.references, "cider")
    return [(100 * values[row[photo.id]]).tolist() for photo in photos]


def _beam_score(sentence: GeneratedSentence, decoding: Decoding) -> float:
    """The score that beam search ranks by."""
    return float(sentence.log_probability / (len(sentence.words) + sentence.finished) ** decoding.length_power)


def _neighbours(
    dataset: Dataset, features: PhotoFeatures, rows: NDArray[np.int64], reranker: Reranker | None
) -> list[list[PageNeighbour]]:
    if reranker is None:
        return [[] for _ in rows]
    known = {photo_id: row for row, photo_id in enumerate(dataset.photos.ids)}
    found = []
    for nearest in reranker.nearest(features.vectors()[rows], _NEIGHBOURS):
        ids = [(int(row), reranker.neighbours.photos[row]) for row in nearest]
        found.append(
            [
                PageNeighbour(
                    _data_url(dataset, dataset.photos[known[photo_id]], _NEIGHBOUR_SIDE),
                    reranker.neighbours.captions_of(row),
                )
                for row, photo_id in ids
                if photo_id in known  # neighbours of another data set have no photos here
            ]
        )
    return found


def _data_url(dataset: Dataset, photo: Photo, side: int) -> str:
    """A thumbnail as a ``data:`` URL; empty if the photo cannot be read."""
    try:
        image = open_photo(dataset.path_of(photo)).convert("RGB")
    except PhotoError:
        return ""
    image.thumbnail((side, side))
    file = BytesIO()
    image.save(file, "JPEG", quality=_JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _sentence_list(title: str, sentences: Sequence[PageSentence]) -> str:
    items = []
    for each in sentences:
        details = f"log P {each.log_probability:.1f}"
        if each.consensus is not None:
            details += f", consensus {each.consensus:.2f}"
        width = min(100.0, each.cider_d / 2)
        items.append(
            f'<li title="{details}, CIDEr-D {each.cider_d:.0f}"><i style="width:{width:.0f}%"></i>'
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


if __name__ == "__main__":
    main()
