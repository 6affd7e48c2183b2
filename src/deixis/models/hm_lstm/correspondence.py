"""Training data (section 3.1), and phrase-level correspondences: the region that each noun phrase names (section 3.3).

Each noun phrase is matched with the most similar candidate region of its photo: the whole image or a proposal. The
similarity is the confidence of the match. The result is written as JSON Lines, one photo per line, so that people can
inspect it. Alternatively, the correspondences come from the gold boxes of the data set. The accuracy of correspondences
is measured against these boxes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis import geometry
from deixis.arrays import BoolArray, Floats
from deixis.data.dataset import Dataset, Photos
from deixis.data.pairs import Integers, RaggedArray
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.baselines import best_fixed_boxes
from deixis.evaluation.items import Item, indices_by_type, localization_items
from deixis.language.sentence import Sentence
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.hm_lstm.trees import Forest, parse_forest
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.regions import CORRECT_IOU
from deixis.runtime.modules import weights_of
from deixis.storage.artifacts import damaged
from deixis.storage.atomic import make_parents, new_file
from deixis.storage.checksums import seal_line, unseal_line
from deixis.storage.progress import OnProgress, no_progress, track

TREES_DIR = "trees"
"""Directory of a data set in which its parsed sentences are cached."""

BoxesAndFeatures = tuple[Sequence[Any] | NDArray[Any], ArrayLike]
"""Boxes of a photo in pixels, (n, 4), and their features, (n, size)."""


@dataclass(frozen=True)
class PhotoRegions:
    """Regions of photos with their features: for each photo the whole image, then proposals, then gold boxes."""

    photos: tuple[str, ...]
    starts: Integers  # first region of each photo, and the number of regions
    candidates: Integers  # number of regions of each photo that a phrase can be matched with: all but the gold boxes
    boxes: geometry.Boxes  # (regions, 4)
    vectors: NDArray[np.floating]  # (regions, size)

    @property
    def has_gold(self) -> NDArray[np.bool_]:
        """Whether each photo has gold boxes."""
        return np.diff(self.starts) > self.candidates

    @classmethod
    def collect(cls, photos: Iterable[tuple[str, BoxesAndFeatures, BoxesAndFeatures | None]]) -> PhotoRegions:
        """Collect the candidates of each photo, the whole image first, and its gold boxes if they are used."""
        ids, counts, candidate_counts, boxes, vectors = [], [0], [], [], []
        for photo, candidates, gold in photos:
            parts = [candidates] + ([gold] if gold and len(gold[0]) else [])
            ids.append(photo)
            candidate_counts.append(len(candidates[0]))
            counts.append(sum(len(part[0]) for part in parts))
            boxes += [np.asarray(part[0], dtype=np.float64) for part in parts]
            vectors += [np.asarray(part[1]) for part in parts]
        return cls(
            tuple(ids), np.cumsum(counts), np.array(candidate_counts), np.concatenate(boxes), np.concatenate(vectors)
        )


@dataclass(frozen=True)
class ParsedPhotos:
    """Photos with their regions, and their sentences with their trees."""

    forest: Forest  # the tree of each sentence; photo by photo, in the order of `regions`
    photo: Integers  # index of each sentence's photo in `regions`
    regions: PhotoRegions


def parse_photos(
    dataset: Dataset, features: PhotoFeatures, *, gold: bool = False, on_progress: OnProgress = no_progress
) -> ParsedPhotos:
    """Parse the sentences of photos, with a cache beside the data set, and read the regions of the photos.

    `gold` includes the gold boxes of phrases.
    """
    sentences = [Sentence.from_caption(caption) for photo in features.photos for caption in photo.sentences]
    forest = parse_forest(sentences, dataset.path / TREES_DIR, on_progress)
    _, photo = features.photos.sentence_rows()
    return ParsedPhotos(forest, photo, read_photo_regions(features, gold=gold, on_progress=on_progress))


def read_photo_regions(
    features: PhotoFeatures, *, gold: bool = False, on_progress: OnProgress = no_progress
) -> PhotoRegions:
    """Read the regions of photos: the whole image, the proposals and, if `gold`, the gold boxes."""
    ids = features.photos.ids
    sizes = features.store.sizes(ids)

    def regions() -> Iterator[tuple[str, BoxesAndFeatures, BoxesAndFeatures | None]]:
        photos = track(features.photos, "reading regions", len(ids), on_progress)
        for row, photo in enumerate(photos):
            boxes = np.vstack([[0, 0, *sizes[row]], features.proposals(photo.id)])
            vectors = np.vstack([features.vectors(row, row + 1), features.proposal_vectors(photo.id)])
            own = np.array([*photo.union_boxes().values()] if gold else [], dtype=np.float64).reshape(-1, 4)
            of_gold = (own, features.region_vectors(photo.id, own).astype(np.float16)) if len(own) else None
            yield photo.id, (boxes, vectors.astype(np.float16)), of_gold

    return PhotoRegions.collect(regions())


FORMAT = "deixis-correspondences"
VERSION = 2
"""Version 1 had no checksums."""

PHOTOS_PER_BATCH = 200


@dataclass(frozen=True)
class Correspondences:
    """Phrases with their regions, sentence by sentence."""

    rows: RaggedArray  # for each sentence of the forest, its rows in the other columns
    node: Integers  # index of the phrase's node within its tree
    region: Integers  # row of `PhotoRegions`
    confidence: Floats  # similarity of phrase and region, at most 1; 1 for gold boxes

    def __len__(self) -> int:
        return len(self.node)

    def or_else(self, other: Correspondences, has_own: NDArray[np.bool_]) -> Correspondences:
        """Return these correspondences for the sentences that `has_own` marks, and `other` for the rest."""
        rows = [
            row
            for found, chosen in ((self, has_own), (other, ~has_own))
            for row in zip(*(column[chosen[found.rows.owners]].tolist() for column in found._columns), strict=True)
        ]
        return Correspondences.from_rows(rows, len(has_own))

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.rows.owners, self.node, self.region, self.confidence

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, int, int, float]], sentences: int) -> Correspondences:
        """Build from (sentence, node, region, confidence) in any order; `sentences` is the number of sentences."""
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        table = table[np.argsort(table[:, 0], kind="stable")]
        owner, node, region = table[:, :3].astype(np.int64).T
        by_sentence = RaggedArray.from_owners(owner, np.arange(len(table)), sentences)
        return cls(by_sentence, node, region, table[:, 3].astype(np.float32))


def gold_correspondences(photos: Iterable[Photo], data: ParsedPhotos) -> Correspondences:
    """Match mentions that are a node of their sentence's tree with the gold boxes of their chains.

    `photos` are those of `data`, in the same order.
    """
    rows: list[tuple[int, int, int, float]] = []
    sentence, regions = 0, data.regions
    for index, photo in enumerate(photos):
        first_gold = int(regions.starts[index] + regions.candidates[index])
        region_of = {chain: first_gold + number for number, chain in enumerate(photo.union_boxes())}
        for caption in photo.sentences:
            for mention in caption.mentions:
                if mention.chain in region_of:
                    phrase = Sentence.from_caption(caption).phrase_of(mention)
                    node = data.forest.find_node(sentence, phrase.start, phrase.end)
                    if node:  # neither None nor the root
                        rows.append((sentence, node, region_of[mention.chain], 1.0))
            sentence += 1
    return Correspondences.from_rows(rows, len(data.forest))


def nearest_regions(
    model: HMLSTM, data: ParsedPhotos, photos: Sequence[int]
) -> Iterator[tuple[Integers, Integers, Integers, Floats]]:
    """Match the noun phrases of photos: for each photo, columns of sentence, node, region and confidence."""
    regions = data.regions
    region_rows = RaggedArray(regions.starts, np.arange(len(regions.boxes)))
    candidates = [region_rows[photo][: regions.candidates[photo]] for photo in photos]
    visual = model.prepare_visual(regions.vectors[np.concatenate(candidates)].astype(np.float32))
    photo_of_sentence, sentences = _sentences_by_photo(data).gather(np.asarray(photos))
    sentence_of_phrase, nodes = data.forest.noun_phrases.gather(sentences)
    text = model.embed_nodes(data.forest, sentences[sentence_of_phrase].tolist(), nodes.tolist())
    ends = np.cumsum([len(rows) for rows in candidates])
    for index, rows in enumerate(candidates):
        in_photo = photo_of_sentence[sentence_of_phrase] == index
        in_rows = slice(ends[index] - len(rows), ends[index])
        scores = model.scores_in_photo(visual[in_rows], text[in_photo])  # s_ij = v_i · h_j
        best = scores.argmax(axis=0)
        confidence = scores[best, np.arange(len(best))]
        yield sentences[sentence_of_phrase[in_photo]], nodes[in_photo], rows[best], confidence


def _sentences_by_photo(data: ParsedPhotos) -> RaggedArray:
    return RaggedArray.from_owners(data.photo, np.arange(len(data.forest)), len(data.regions.photos))


def find_correspondences(
    model: HMLSTM, data: ParsedPhotos, path: str | os.PathLike[str], on_progress: OnProgress = no_progress
) -> Correspondences:
    """Match every noun phrase with a region, and write the result to a file; an existing file is read."""
    path = Path(path)
    if not path.exists():
        _write(model, data, path, on_progress)
    return _read(path, _header(model, data), data)


def _write(model: HMLSTM, data: ParsedPhotos, path: Path, on_progress: OnProgress) -> None:
    count = len(data.regions.photos)
    model.fit_phrase_mean(data.forest)
    with make_parents(path), new_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write(json.dumps(_header(model, data)) + "\n")
        for first in range(0, count, PHOTOS_PER_BATCH):
            photos = range(first, min(first + PHOTOS_PER_BATCH, count))
            for photo, columns in zip(photos, nearest_regions(model, data, photos), strict=True):
                file.write(seal_line(_photo_document(photo, columns, data)))
            on_progress("finding correspondences", photos.stop, count)


def _photo_document(photo: int, columns: tuple[Any, ...], data: ParsedPhotos) -> dict[str, Any]:
    regions = data.regions
    first_sentence, first_region = int(np.searchsorted(data.photo, photo)), int(regions.starts[photo])
    phrases = [
        {
            "sentence": sentence - first_sentence,
            "node": node,
            "text": data.forest.text(sentence, node),
            "region": region - first_region,
            "box": [round(side, 1) for side in regions.boxes[region].tolist()],
            "confidence": round(confidence, 4),
        }
        for sentence, node, region, confidence in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return {"photo": regions.photos[photo], "phrases": phrases}


def _header(model: HMLSTM, data: ParsedPhotos) -> dict[str, Any]:
    digest = hashlib.sha256("\n".join([model.settings.centering, *data.regions.photos]).encode())
    for name, array in sorted(weights_of(model.network).items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return {"format": FORMAT, "version": VERSION, "hash": digest.hexdigest()}


def _read(path: Path, header: dict[str, Any], data: ParsedPhotos) -> Correspondences:
    regions, sentences = data.regions, _sentences_by_photo(data)
    rows: list[tuple[int, int, int, float]] = []
    with damaged(path):
        first, *lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(first) != header:
            raise DeixisError(f"{path}: written by another model or for other photos; delete it to compute it again")
        if len(lines) != len(regions.photos):
            raise DeixisError(f"{path}: has {len(lines):,} photos instead of {len(regions.photos):,}; delete it")
        for photo, line in enumerate(lines):
            document = unseal_line(line)
            if document["photo"] != regions.photos[photo]:
                raise DeixisError(
                    f"{path}: line {photo + 2} is about photo {document['photo']!r}, not {regions.photos[photo]!r}; "
                    "delete the file to compute it again"
                )
            for phrase in document["phrases"]:
                sentence, region = sentences[photo][phrase["sentence"]], regions.starts[photo] + phrase["region"]
                rows.append((sentence, phrase["node"], region, phrase["confidence"]))
    return Correspondences.from_rows(rows, len(data.forest))


_FIXED_BOX_SAMPLE = 3000
"""Approximate number of mentions that the best fixed boxes are chosen on; all of Flickr8k would dominate the time."""


@dataclass(frozen=True)
class CorrespondenceScores:
    """Accuracy of correspondences on the gold mentions that are noun phrases of their tree, in percent."""

    phrases: int  # number of these mentions; the gold box of a mention is the union of its chain's boxes
    right: float  # the region has an IoU of at least 0.5 with the gold box
    random: float  # accuracy of a random candidate
    whole: float  # of the whole photo
    fixed: float  # of the best fixed box of the phrase's type, chosen on a sample of the same mentions
    bound: float  # mentions with a correct region among the candidates
    by_type: Mapping[str, float]  # `right` by entity type
    mean_confidence: float  # of all correspondences

    def summarize(self) -> str:
        """One line for the model card."""
        return (
            f"{self.right:.1f} % of {self.phrases:,} phrases with a gold box (a random candidate {self.random:.1f} %, "
            f"the whole photo {self.whole:.1f} %, the best fixed box of the type {self.fixed:.1f} %, any of the "
            f"candidates {self.bound:.1f} %)"
        )


@dataclass(frozen=True)
class GoldPhrases:
    """The mentions with a gold box that are a node of their tree, collected once to score every round."""

    items: Sequence[Item]
    nodes: Sequence[tuple[int, int]]  # sentence and node of each
    right: Sequence[BoolArray]  # which of the photo's candidates are correct
    fixed: BoolArray  # whether the best fixed box of the type is correct
    data: ParsedPhotos

    @classmethod
    def collect(cls, photos: Photos, data: ParsedPhotos) -> GoldPhrases:
        """Collect the mentions of the photos of `data`, which must be in the same order."""
        found = list(_mention_nodes(photos, data))
        items, nodes = [item for item, _, _ in found], [(sentence, node) for _, sentence, node in found]
        gold = np.array([geometry.union(np.array(item.boxes)) for item in items]).reshape(-1, 4)
        photo, regions = data.photo[[sentence for sentence, _ in nodes]], data.regions
        right = [
            geometry.iou(regions.boxes[begin : begin + count], box[None])[:, 0] >= CORRECT_IOU
            for begin, count, box in zip(regions.starts[photo], regions.candidates[photo], gold, strict=True)
        ]
        fixed = geometry.iou_of_sides(_fixed_boxes(items).T, gold.T) >= CORRECT_IOU
        return cls(items, nodes, right, fixed, data)

    def score(self, found: Correspondences) -> CorrespondenceScores | None:
        """Score correspondences with candidates; None if they contain none of these mentions."""
        owners = found.rows.owners.tolist()
        row_of = {pair: row for row, pair in enumerate(zip(owners, found.node.tolist(), strict=True))}
        scored = [(index, row_of[pair]) for index, pair in enumerate(self.nodes) if pair in row_of]
        if not scored:
            return None
        items = [self.items[index] for index, _ in scored]
        has_type = {kind: [kind in item.types for item in items] for kind in indices_by_type(items)}
        columns = []
        for index, row in scored:
            correct, sentence = self.right[index], self.nodes[index][0]
            chosen = found.region[row] - self.data.regions.starts[self.data.photo[sentence]]
            columns.append((correct[chosen], correct.mean(), correct[0], self.fixed[index], correct.any()))
        is_right = np.array([column[0] for column in columns])
        right, random, whole, fixed, bound = map(_percent, zip(*columns, strict=True))
        by_type = {kind: _percent(is_right[mask]) for kind, mask in has_type.items()}
        confidence = float(found.confidence.mean())
        return CorrespondenceScores(len(scored), right, random, whole, fixed, bound, by_type, confidence)


def _mention_nodes(photos: Photos, data: ParsedPhotos) -> Iterator[tuple[Item, int, int]]:
    """Every mention with a gold box that is a node, the index of its sentence, and its node."""
    sentence = 0
    for photo in photos:
        by_caption: dict[int, list[Item]] = {}
        for item in localization_items([photo]):
            by_caption.setdefault(item.caption, []).append(item)
        for index, caption in enumerate(photo.captions):
            if not caption.related or caption.region_phrase:
                continue
            parsed = Sentence.from_caption(caption)
            for item in by_caption.get(index, []):
                phrase = parsed.phrase(*item.span)
                node = data.forest.find_node(sentence, phrase.start, phrase.end)
                if node is not None:
                    yield item, sentence, node
            sentence += 1


def _fixed_boxes(items: Sequence[Item]) -> NDArray[np.float64]:
    """The best fixed box of each mention's type, in pixels of its photo."""
    if not items:
        return np.zeros((0, 4))
    sample = items[:: 1 + len(items) // _FIXED_BOX_SAMPLE]
    return np.array([each.boxes[0] for each in best_fixed_boxes(sample).predict(items)])


def _percent(right: Any) -> float:
    return round(100 * float(np.mean(right)), 2)
