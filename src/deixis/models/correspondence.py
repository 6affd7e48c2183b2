"""Which region a phrase names, found by a model without being told (§3.3 of the HM-LSTM paper), or told by the data.

Every noun phrase takes the region of its photo whose vector is nearest to its own: the whole photo, or one of the
proposals. How near is the confidence. What is found is kept as JSON Lines, a photo a line, for people to look at.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis import geometry
from deixis.data.pairs import Lists, Numbers
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.files.atomic import explained, parents_of
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats
from deixis.language.saved import damaged
from deixis.language.sentence import Sentence
from deixis.models.hm_lstm import HMLSTM
from deixis.models.networks import weights_of
from deixis.models.trees import Forest

FORMAT = "deixis-correspondences"
VERSION = 1
PHOTOS_AT_A_TIME = 200

BoxesAndVectors = tuple[ArrayLike, ArrayLike]
"""(n, 4) boxes of a photo in pixels, and their features, (n, size)."""


@dataclass(frozen=True)
class PhotoRegions:
    """The regions of photos with their features: of each photo the whole of it, then proposals, then gold boxes.

    Attributes
    ----------
    photos
        Ids.
    starts
        Where the regions of each photo begin, and the end.
    candidates
        How many of a photo's regions a phrase may be found to name: all but the gold boxes.
    boxes : array of float64, (regions, 4)
    vectors : array of floats, (regions, size)

    Examples
    --------
    >>> regions = PhotoRegions.of(["7"], lambda photo: ([[0, 0, 9, 9], [1, 1, 5, 5]], np.eye(2, 4)))
    >>> regions.starts.tolist(), regions.candidates.tolist()
    ([0, 2], [2])
    """

    photos: tuple[str, ...]
    starts: Numbers
    candidates: Numbers
    boxes: geometry.Boxes
    vectors: NDArray[np.floating]

    @classmethod
    def of(
        cls,
        photos: Iterable[str],
        regions: Callable[[str], BoxesAndVectors],
        gold: Callable[[str], BoxesAndVectors] | None = None,
    ) -> PhotoRegions:
        """Gather regions: for each photo its candidates, the whole of it first, and its gold boxes if they are used."""
        ids, counts, candidates, boxes, vectors = [], [0], [], [], []
        for photo in photos:
            parts = [regions(photo)] + ([gold(photo)] if gold else [])
            own = [np.asarray(part[0], dtype=np.float64).reshape(-1, 4) for part in parts]
            boxes += own
            vectors += [np.asarray(part[1]) for part, box in zip(parts, own, strict=True) if len(box)]
            ids.append(photo)
            candidates.append(len(own[0]))
            counts.append(sum(map(len, own)))
        return cls(tuple(ids), np.cumsum(counts), np.array(candidates), np.concatenate(boxes), np.concatenate(vectors))


@dataclass(frozen=True)
class Correspondences:
    """Phrases with the region that each names, sentence by sentence.

    Attributes
    ----------
    of_sentence : Lists
        For each sentence of the forest, its rows in what follows.
    node
        The phrase: the number of its node in the tree of its sentence.
    region
        The region: a row of `PhotoRegions`.
    confidence : array of float32
        How near their vectors are, at most 1; 1 for what the data says.
    """

    of_sentence: Lists
    node: Numbers
    region: Numbers
    confidence: Floats

    def __len__(self) -> int:
        return len(self.node)

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[int, int, int, float]], sentences: int) -> Correspondences:
        """From sentence, node, region and confidence of each, in any order."""
        sentence, node, region, confidence = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        return cls.of_columns(sentence, node, region, confidence, sentences)

    @classmethod
    def of_columns(
        cls, sentence: ArrayLike, node: ArrayLike, region: ArrayLike, confidence: ArrayLike, sentences: int
    ) -> Correspondences:
        """From columns in any order."""
        owner = np.asarray(sentence, dtype=np.int64)
        order = np.argsort(owner, kind="stable")
        return cls(
            Lists.of(owner[order], np.arange(len(order)), sentences),
            np.asarray(node, dtype=np.int64)[order],
            np.asarray(region, dtype=np.int64)[order],
            np.asarray(confidence, dtype=np.float32)[order],
        )


def gold_boxes(photo: Photo) -> dict[str, tuple[float, ...]]:
    """For each chain that has boxes, the box around all of them.

    Examples
    --------
    >>> from deixis.data.records import Box
    >>> gold_boxes(Photo("7", boxes=(Box((0, 0, 5, 5), ("1",)), Box((4, 4, 9, 9), ("1",)))))
    {'1': (0.0, 0.0, 9.0, 9.0)}
    """
    chains = dict.fromkeys(chain for box in photo.boxes for chain in box.chains)
    return {chain: tuple(geometry.union([box.xyxy for box in photo.boxes_of(chain)]).tolist()) for chain in chains}


def gold_correspondences(photos: Iterable[Photo], forest: Forest, regions: PhotoRegions) -> Correspondences:
    """What the data says: mentions that are a node of their sentence's tree, with the gold boxes of their chains.

    Parameters
    ----------
    photos
        Those of `regions`, in the same order.
    forest
        The trees of their sentences, in order.
    regions
        With the boxes that `gold_boxes` gives as gold boxes.
    """
    rows: list[tuple[int, int, int, float]] = []
    sentence = 0
    for place, photo in enumerate(photos):
        begin = int(regions.starts[place] + regions.candidates[place])
        region_of = {chain: begin + number for number, chain in enumerate(gold_boxes(photo))}
        for caption in photo.sentences:
            for mention in caption.mentions:
                if mention.chain in region_of:
                    phrase = Sentence.of_caption(caption).phrase_of(mention)
                    node = forest.spanning(sentence, phrase.start, phrase.end)
                    if node:  # neither missing nor the root
                        rows.append((sentence, node, region_of[mention.chain], 1.0))
            sentence += 1
    return Correspondences.of_rows(rows, len(forest))


def nearest_regions(
    model: HMLSTM, forest: Forest, sentences: Lists, regions: PhotoRegions, photos: Sequence[int]
) -> Iterator[tuple[Numbers, Numbers, Numbers, Floats]]:
    """For each of some photos its noun phrases: their sentences and nodes, the nearest regions, and the confidences."""
    rows = Lists(regions.starts, np.arange(len(regions.boxes)))
    own_regions = [rows[photo][: regions.candidates[photo]] for photo in photos]
    visual = model.prepare_visual(regions.vectors[np.concatenate(own_regions)].astype(np.float32))
    of_photo, own_sentences = sentences.joined(np.asarray(photos))
    of_sentence, nodes = forest.noun_phrases.joined(own_sentences)
    text = model.node_vectors(forest, own_sentences[of_sentence].tolist(), nodes.tolist())
    ends = np.cumsum([len(own) for own in own_regions])
    for number, own in enumerate(own_regions):
        mine = of_photo[of_sentence] == number
        scores = model.scores_in_photo(visual[ends[number] - len(own) : ends[number]], text[mine])
        best = scores.argmax(axis=0)
        yield own_sentences[of_sentence[mine]], nodes[mine], own[best], scores[best, np.arange(len(best))]


def find_correspondences(
    model: HMLSTM,
    forest: Forest,
    photo_of_sentence: Numbers,
    regions: PhotoRegions,
    path: str | os.PathLike[str],
    on_progress: OnProgress = silent,
) -> Correspondences:
    """The best region for every noun phrase of every sentence (§3.3), kept in a file.

    A file that is there already is read; one that a killed process left unfinished is gone on with.

    Parameters
    ----------
    model
        Its scores decide.
    forest
        The trees of the sentences.
    photo_of_sentence
        For each of them the place of its photo in `regions`; sentences of a photo stand together.
    regions
        Of the photos.
    path
        The file.
    on_progress
        Told how many photos are done.
    """
    path = Path(path)
    sentences = Lists.of(photo_of_sentence, np.arange(len(forest)), len(regions.photos))
    if not path.exists():
        _write(model, forest, sentences, regions, path, on_progress)
    return _read(path, _header(model, regions), sentences, regions)


def _write(
    model: HMLSTM, forest: Forest, sentences: Lists, regions: PhotoRegions, path: Path, on_progress: OnProgress
) -> None:
    unfinished = path.with_name(path.name + ".part")
    with explained(path), parents_of(path):
        done = _go_on(unfinished, _header(model, regions))
        model.note_phrases(forest)
        with unfinished.open("a", encoding="utf-8") as file:
            for first in range(done, len(regions.photos), PHOTOS_AT_A_TIME):
                photos = range(first, min(first + PHOTOS_AT_A_TIME, len(regions.photos)))
                found = nearest_regions(model, forest, sentences, regions, photos)
                for photo, columns in zip(photos, found, strict=True):
                    file.write(_line(_document(photo, columns, forest, sentences, regions)))
                file.flush()
                on_progress("finding correspondences", photos.stop, len(regions.photos))
            os.fsync(file.fileno())
        unfinished.replace(path)


def _document(
    photo: int, columns: tuple[Any, ...], forest: Forest, sentences: Lists, regions: PhotoRegions
) -> dict[str, Any]:
    """A photo as its line says it."""
    first_sentence, first_region = int(sentences.values[sentences.starts[photo]]), int(regions.starts[photo])
    phrases = []
    for sentence, node, region, confidence in zip(*(column.tolist() for column in columns), strict=True):
        phrases.append(
            {
                "sentence": sentence - first_sentence,
                "node": node,
                "text": forest.text(sentence, node),
                "region": region - first_region,
                "box": [round(side, 1) for side in regions.boxes[region].tolist()],
                "confidence": round(confidence, 4),
            }
        )
    return {"photo": regions.photos[photo], "phrases": phrases}


def _go_on(unfinished: Path, header: dict[str, Any]) -> int:
    """How many photos an unfinished file has, once a torn last line is cut off; of another model, it begins anew."""
    lines = unfinished.read_bytes().splitlines(keepends=True) if unfinished.exists() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    if not whole or whole[0] != _line(header).encode():
        whole = [_line(header).encode()]
    unfinished.write_bytes(b"".join(whole))
    return len(whole) - 1


def _header(model: HMLSTM, regions: PhotoRegions) -> dict[str, Any]:
    seen = hashlib.sha256("\n".join([model.settings.centre, *regions.photos]).encode())
    for name, array in sorted(weights_of(model.network).items()):
        seen.update(name.encode())
        seen.update(np.ascontiguousarray(array).tobytes())
    return {"format": FORMAT, "version": VERSION, "hash": seen.hexdigest()}


def _line(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False) + "\n"


def _read(path: Path, header: dict[str, Any], sentences: Lists, regions: PhotoRegions) -> Correspondences:
    with damaged(path):
        first, *lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(first) != header:
            raise DeixisError(f"{path}: was made by another model or for other photos; remove it to make it anew")
        rows: list[tuple[int, int, int, float]] = []
        for photo, line in enumerate(lines):
            document = json.loads(line)
            if document["photo"] != regions.photos[photo]:
                raise DeixisError(
                    f"{path}: line {photo + 2} is of {document['photo']!r}, not {regions.photos[photo]!r}"
                )
            of_photo = sentences[photo]
            for phrase in document["phrases"]:
                sentence, region = of_photo[phrase["sentence"]], regions.starts[photo] + phrase["region"]
                rows.append((sentence, phrase["node"], region, phrase["confidence"]))
    return Correspondences.of_rows(rows, len(sentences.values))
