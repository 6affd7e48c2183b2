"""Queries for the photos of a data set: its captions and their phrases, and things that none of its photos shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError
from deixis.evaluation.captions.meteor_words import stem
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats
from deixis.language.sentence import Sentence
from deixis.tasks.features_of import Proposing, encode_photos
from deixis.tasks.search.fit_probability import Asked
from deixis.tasks.search.probability import Evidence
from deixis.tasks.search.relevance import Mask, Relevance, words_of
from deixis.tasks.search.seeing import REGIONS, ReadSentence, Seer
from deixis.training.grounder_examples import region_inputs

_PHRASES_AT_ONCE = 256


@dataclass(frozen=True)
class SeenSplit:
    """The photos of a split as an index would hold them.

    Attributes
    ----------
    captions
        Of each photo.
    whole : array of float32, (photos, dimension)
    regions : array of float32, (all regions, region_dimension)
        Of one photo after another.
    starts
        Where the regions of each photo begin.
    """

    captions: list[list[str]]
    whole: Floats
    regions: Floats
    starts: list[int]

    def evidence(self, reads: Sequence[ReadSentence], on_progress: OnProgress = silent) -> list[Evidence]:
        """What the models see of queries in all photos."""
        phrases = {phrase.text: phrase for read in reads for phrase in read.phrases}
        texts = list(phrases)
        place = {text: number for number, text in enumerate(texts)}
        best = np.empty((len(texts), len(self.whole)), dtype=np.float32)
        for begin in range(0, len(texts), _PHRASES_AT_ONCE):
            asked = np.stack([phrases[text].vector for text in texts[begin : begin + _PHRASES_AT_ONCE]])
            best[begin : begin + len(asked)] = np.maximum.reduceat(asked @ self.regions.T, self.starts, axis=1)
            on_progress("looking for phrases", begin + len(asked), len(texts))
        whole = np.stack([phrases[text].whole_vector for text in texts]) @ self.whole.T
        queries = np.stack([read.vector for read in reads]) @ self.whole.T
        found = []
        for read, scores in zip(reads, queries, strict=True):
            places = [place[phrase.text] for phrase in read.phrases]
            found.append(Evidence(scores, whole[places].T, best[places].T, read.facts))
        return found


def see_split(dataset: Dataset, split: str, seer: Seer, on_progress: OnProgress = silent) -> SeenSplit:
    """Look at the photos of a split, or read what was seen of them before."""
    learned = seer.pointing.learned
    proposing = Proposing(learned.proposals, learned.top, learned.proposals_fingerprint)
    photos: Photos = dataset.split(split)
    seen = encode_photos(dataset, photos, seer.whole.image_encoder, proposing=proposing, on_progress=on_progress)
    ids, vectors = seen.photos.ids, []
    for done, photo_id in enumerate(ids, start=1):
        vectors.append(seer.region_vectors(region_inputs(seen.store, photo_id, REGIONS)))
        on_progress("reading regions", done, len(ids))
    starts = np.cumsum([0, *(len(regions) for regions in vectors)])[:-1]
    return SeenSplit(
        [[caption.text for caption in photo.sentences] for photo in seen.photos],
        seer.whole.model.prepare_visual(seen.vectors()),
        np.concatenate(vectors),
        starts.tolist(),
    )


def queries_of(
    seen: SeenSplit, relevance: Relevance, seer: Seer, *, every: int = 2, on_progress: OnProgress = silent
) -> list[Asked]:
    """Captions of photos, one in `every` of them, and the distinct phrases of these."""
    captions = [(photo, text) for photo, texts in enumerate(seen.captions) for text in texts][::every]
    reads = seer.read_all([text for _, text in captions])
    first = {
        phrase.text.lower(): photo for (photo, _), read in zip(captions, reads, strict=True) for phrase in read.phrases
    }
    on_progress("reading captions", len(reads), len(reads))
    reads_of_phrases = seer.read_all(list(first))
    evidence = seen.evidence([*reads, *reads_of_phrases], on_progress)
    found = []
    sources = [("caption", photo) for photo, _ in captions] + [("phrase", photo) for photo in first.values()]
    for (kind, photo), read, of_it in zip(sources, [*reads, *reads_of_phrases], evidence, strict=True):
        shown = relevance.of(read.text, [phrase.text for phrase in read.phrases])
        shown[photo] = True  # whoever described the photo says so
        if words_of(read.text):
            found.append(Asked(kind, photo, of_it, shown, read.is_unknown))
    return found


def absent_queries(
    dataset: Dataset,
    split: str,
    seen: SeenSplit,
    relevance: Relevance,
    seer: Seer,
    *,
    count: int = 2000,
    but: Sequence[str] = (),
) -> list[Asked]:
    """Queries with a word that no caption of these photos holds.

    They are captions and phrases of another split, and single words that the model of whole photos knows, so many of
    each. What is in `but` has the words that are left to others.
    """
    rng = np.random.default_rng(0)
    captions: list[str] = []
    phrases: set[str] = set()
    for photo in dataset.split(split):
        for caption in photo.sentences:
            if _names_what_is_not_there(caption.text, relevance):
                captions.append(caption.text)
                said = (caption.text[mention.start : mention.end] for mention in caption.mentions)
                phrases |= {text for text in said if _names_what_is_not_there(text, relevance)}
    chosen = [*_some(captions, count, rng), *_some(sorted(phrases), count, rng)]
    reads = [
        read
        for read in seer.read_all([*chosen, *_some(_things_not_there(relevance, seer, but), count, rng)])
        if not relevance.of(read.text, [phrase.text for phrase in read.phrases]).any()
    ]
    return absent_as_asked(reads, seen)


def _things_not_there(relevance: Relevance, seer: Seer, but: Sequence[str]) -> list[str]:
    """Words for visible things that the model of whole photos knows and no photo shows."""
    left = {stem(word) for text in but for word in words_of(text)}
    words = [word for word in seer.known_words if word.isalpha() and stem(word) not in left]
    absent = [f"a {word}" for word in words if words_of(word) and not relevance.holding(word).any()]
    return [text for text in absent if Sentence(text).phrases]


def absent_as_asked(reads: Sequence[ReadSentence], seen: SeenSplit) -> list[Asked]:
    """Queries for things that are not there."""
    nowhere = np.zeros(len(seen.whole), dtype=bool)
    folds = np.random.default_rng(0).integers(len(seen.whole), size=len(reads))
    evidence = seen.evidence(reads)
    return [
        Asked("absent", int(photo), each, nowhere, read.is_unknown)
        for photo, each, read in zip(folds, evidence, reads, strict=True)
    ]


def likeness_of(seen: SeenSplit, queries: Sequence[Asked]) -> tuple[Floats, Mask]:
    """The cosines of all pairs of photos, and whether the second shows what a caption of the first says."""
    alike = np.zeros((len(seen.whole), len(seen.whole)), dtype=bool)
    for query in queries:
        if query.kind == "caption":
            alike[query.photo] |= query.shown
    return seen.whole @ seen.whole.T, alike


def read_list(file: Path, captions: Sequence[Sequence[str]]) -> list[str]:
    """Queries from a file with a query, a bar and the name of what is not there in each line.

    Raises
    ------
    DatasetError
        Where a caption holds all words of such a name.
    """
    said = [{stem(word) for word in words_of(caption)} for of_photo in captions for caption in of_photo]
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        query, _, thing = (part.strip() for part in line.partition("|"))
        names = {stem(word) for word in words_of(thing)}
        if not query or not names:
            raise DatasetError(f"{file}: line {number} is no query, bar and name")
        if any(names <= words for words in said):
            raise DatasetError(f"{file}: line {number}: a caption names {thing!r}, so it is there")
        found.append(query)
    return found


def _names_what_is_not_there(text: str, relevance: Relevance) -> bool:
    return any(not relevance.holding(word).any() for word in words_of(text))


def _some(texts: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    places = rng.choice(len(texts), min(count, len(texts)), replace=False)
    return [texts[place] for place in places]
