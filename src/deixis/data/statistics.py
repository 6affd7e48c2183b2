"""Statistics of a data set: Table 1, Figure 2 and section 2.4 of the Flickr30k Entities paper, for any data set.

A chain has all types of its mentions, so the chains of the types sum to more than the number of chains. All mentions
and boxes of a chain count for each of its types. The means of the last row of Table 1 are computed from sums over the
types. Mentions that are not visual (chain 0) are counted separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deixis.arrays import BoolArray, IntArray
from deixis.data.dataset import Dataset
from deixis.data.records import ENTITY_TYPES, NOT_VISUAL
from deixis.errors import DeixisError
from deixis.storage.atomic import new_file


@dataclass(frozen=True)
class TypeRow:
    """Counts of one entity type: a row of Table 1 and a group of bars of Figure 2."""

    type: str
    chains: int
    mentions: int
    boxes: int
    photos_percent: float
    mentions_per_chain: float
    boxes_per_chain: float


@dataclass(frozen=True)
class Statistics:
    """The figures of ``deixis data stats``."""

    photos: int
    captions: int
    region_phrases: int
    tokens: int
    mentions: int
    not_visual: int
    chains: int
    boxes: int
    chains_with_several_mentions_percent: float
    chains_with_one_box_percent: float
    chains_with_several_boxes_percent: float
    chains_without_box_percent: float
    captions_per_photo: float
    tokens_per_caption: float
    mentions_per_caption: float
    chains_per_photo: float
    boxes_per_photo: float
    # Sums over the types divided by sums over the types, as in the last row of Table 1
    mentions_per_chain: float
    boxes_per_chain: float
    types: tuple[TypeRow, ...]


def compute_statistics(dataset: Dataset, split: str | None = None) -> Statistics:
    """Compute the statistics of a data set or of one split.

    Examples
    --------
    >>> compute_statistics(Dataset("flickr30k.data"), "dev").photos  # doctest: +SKIP
    1000
    """
    tables = dataset.tables
    photo_in = np.zeros(tables["photos"].num_rows, dtype=bool)
    photo_in[(dataset.split(split) if split else dataset.photos).rows] = True
    caption_in = photo_in[_integers(tables["captions"]["photo"])]
    chain_photo = _integers(tables["chains"]["photo"])
    chain_in = photo_in[chain_photo]
    box_in = photo_in[_integers(tables["boxes"]["photo"])]
    mention_in = caption_in[_integers(tables["mentions"]["caption"])]
    mention_chain = _integers(tables["mentions"]["chain"])
    visual = mention_in & (mention_chain >= 0)

    chains = int(chain_in.sum())
    box_chains = tables["boxes"]["chains"].combine_chunks().values.to_numpy()
    boxes_of_chain = np.bincount(box_chains, minlength=len(chain_in))
    mentions_of_chain = np.bincount(mention_chain[visual], minlength=len(chain_in))
    phrase = np.asarray(tables["captions"]["region_phrase"].combine_chunks())
    tokens = pc.list_value_length(tables["captions"]["token_starts"]).to_numpy()
    rows = []
    for name, own in _types(tables["mentions"], visual, mention_chain, len(chain_in)):
        count, named, drawn = (int(each.sum()) for each in (own, mentions_of_chain[own], boxes_of_chain[own]))
        percent = 100 * _ratio(len(np.unique(chain_photo[own])), int(photo_in.sum()))
        rows.append(TypeRow(name, count, named, drawn, percent, _ratio(named, count), _ratio(drawn, count)))
    inside = boxes_of_chain[chain_in]
    photos, sentences = int(photo_in.sum()), int((caption_in & ~phrase).sum())
    captions, mentions, boxes = int(caption_in.sum()), int(visual.sum()), int(box_in.sum())
    type_chains = sum(row.chains for row in rows)
    return Statistics(
        photos=photos,
        captions=sentences,
        region_phrases=captions - sentences,
        tokens=int(tokens[caption_in].sum()),
        mentions=mentions,
        not_visual=int((mention_in & (mention_chain < 0)).sum()),
        chains=chains,
        boxes=boxes,
        chains_with_several_mentions_percent=100 * _ratio(int((mentions_of_chain[chain_in] > 1).sum()), chains),
        chains_with_one_box_percent=100 * _ratio(int((inside == 1).sum()), chains),
        chains_with_several_boxes_percent=100 * _ratio(int((inside > 1).sum()), chains),
        chains_without_box_percent=100 * _ratio(int((inside == 0).sum()), chains),
        captions_per_photo=_ratio(sentences, photos),
        tokens_per_caption=_ratio(int(tokens[caption_in].sum()), captions),
        mentions_per_caption=_ratio(mentions, captions),
        chains_per_photo=_ratio(chains, photos),
        boxes_per_photo=_ratio(boxes, photos),
        mentions_per_chain=_ratio(sum(row.mentions for row in rows), type_chains),
        boxes_per_chain=_ratio(sum(row.boxes for row in rows), type_chains),
        types=tuple(sorted(rows, key=lambda row: _paper_order(row.type))),
    )


def _types(
    mentions: pa.Table, visual: BoolArray, mention_chain: IntArray, chain_count: int
) -> list[tuple[str, BoolArray]]:
    """Return the name of each type and a mask of its chains."""
    lists = mentions["types"].combine_chunks()
    codes = pc.dictionary_encode(lists.values)
    mention_of_code = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
    counted = visual[mention_of_code]
    found = []
    for code, name in enumerate(codes.dictionary.to_pylist()):
        of_type = mention_of_code[(codes.indices.to_numpy() == code) & counted]
        chains = np.zeros(chain_count, dtype=bool)
        chains[mention_chain[of_type]] = True
        if name != NOT_VISUAL and len(of_type):
            found.append((name, chains))
    return found


def _integers(column: pa.ChunkedArray) -> IntArray:
    """Return a column as an array; null becomes −1."""
    return np.asarray(pc.fill_null(column, -1).to_numpy(), dtype=np.int64)


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _paper_order(name: str) -> tuple[int, str]:
    return (ENTITY_TYPES.index(name) if name in ENTITY_TYPES else len(ENTITY_TYPES), name)


def plot_types(statistics: Statistics, path: Path) -> None:
    """Draw Figure 2: chains, mentions and boxes of each type. The suffix of `path` selects png, svg or pdf."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise DeixisError(f"{path}: the file name must end in .png, .svg or .pdf")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(8, 3.6), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    positions = np.arange(len(statistics.types))
    bars = {"chains": "#0072B2", "mentions": "#E69F00", "boxes": "#009E73"}
    for offset, (what, colour) in enumerate(bars.items(), start=-1):
        heights = [getattr(row, what) for row in statistics.types]
        axes.bar(positions + 0.27 * offset, heights, 0.25, label=what, color=colour)
    axes.set_xticks(positions, [row.type for row in statistics.types])
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    axes.set_title("Chains, mentions and boxes by type", loc="left")
    with new_file(path) as unfinished:
        figure.savefig(unfinished)
