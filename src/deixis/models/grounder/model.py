"""The grounder as a model: regions of a photo and phrases of a sentence in, scores and boxes out.

`docs/reference/models/grounder.md` has an ablation of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats, logistic
from deixis.errors import DeixisError
from deixis.geometry import Boxes, area, iou_of_sides, nms, overlap_areas
from deixis.language.sentence import Phrase, Sentence
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary, WordTable
from deixis.language.words import stated_count
from deixis.models.base import MAX_WORDS, Embedder, RegionInputs, WordNetworkModel, read_regions, word_vectors
from deixis.models.describer.description import DescriptionSettings
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.grounding import BoxSet, PhotoProposals, PhraseScores, RegionPipeline
from deixis.models.presence import PresenceCalibration, PresenceModel
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import Text, Token
from deixis.tokens import words as words_of_tokens
from deixis.vision.encoder import resample_cells

if TYPE_CHECKING:
    from deixis.evaluation.items import Item
    from deixis.evaluation.predictions import Prediction
    from deixis.models.grounder.network import GrounderNetwork
    from deixis.models.photo_features import PhotoFeatures
    from deixis.models.provenance import EncoderInfo


Span = tuple[int, int]


@dataclass(frozen=True)
class TextInput:
    """Words that are encoded together."""

    words: tuple[str, ...]  # at most `MAX_WORDS`
    spans: tuple[Span, ...]  # phrases, as spans of `words`
    phrases: tuple[int, ...]  # index of each phrase among the phrases of the sentence


def make_text_inputs(words: Sequence[str], spans: Sequence[Span], *, context: bool = True) -> list[TextInput]:
    """Split a sentence into inputs: the phrases within the sentence, or each phrase alone.

    A phrase beyond `MAX_WORDS` words is always encoded alone. A phrase without words becomes an unknown word. Spans
    count words, end exclusive.
    """
    for begin, end in spans:
        if not 0 <= begin <= end <= len(words):
            raise DeixisError(f"span {begin} to {end}: the sentence has {len(words)} words")
    in_context = [phrase for phrase, (begin, end) in enumerate(spans) if context and begin < end <= MAX_WORDS]
    inputs = []
    if in_context:
        own_spans = tuple(spans[phrase] for phrase in in_context)
        inputs.append(TextInput(tuple(words[:MAX_WORDS]), own_spans, tuple(in_context)))
    for phrase in sorted(set(range(len(spans))).difference(in_context)):
        alone = tuple(words[slice(*spans[phrase])][:MAX_WORDS]) or ("",)
        inputs.append(TextInput(alone, ((0, len(alone)),), (phrase,)))
    return inputs


def to_word_spans(tokens: Iterable[Token], spans: Sequence[Span]) -> tuple[list[str], list[Span]]:
    """The words of a sentence, and character spans as spans of these words.

    Character spans are offsets in code points, end exclusive. A word that is partly within a span belongs to it.
    """
    located = [(word, token) for token in tokens for word in words_of_tokens([token])]
    starts = np.array([token.start for _, token in located], dtype=np.int64)
    ends = np.array([token.end for _, token in located], dtype=np.int64)
    word_spans = []
    for start, end in spans:
        begin = int(np.searchsorted(ends, start, side="right"))
        word_spans.append((begin, max(begin, int(np.searchsorted(starts, end)))))
    return [word for word, _ in located], word_spans


def text_arrays(
    inputs: Sequence[TextInput], table: WordTable
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Word vectors (n, longest, word_dim), lengths (n,), and spans and their mask as `span_arrays` gives them."""
    return *word_vectors([text.words for text in inputs], table), *span_arrays(inputs)


def span_arrays(inputs: Sequence[TextInput]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Spans (n, phrases, 2), padded, and which of them are phrases (n, phrases)."""
    most = max((len(text.spans) for text in inputs), default=0)
    spans = np.zeros((len(inputs), most, 2), dtype=np.int64)
    mask = np.zeros((len(inputs), most), dtype=np.bool_)
    for row, text in enumerate(inputs):
        spans[row, : len(text.spans)] = text.spans
        mask[row, : len(text.spans)] = True
    return spans, mask


def cell_arrays(photo: RegionInputs, grid: int = 0) -> tuple[NDArray[Any], Floats]:
    """Vectors (cells, channels) and centres (cells, 2) of the cells of a feature map, row by row.

    Centres are divided by the width and height of the photo. The map is pooled to `grid` cells per side; 0 takes it as
    it is.
    """
    if photo.cells is None or photo.cells.ndim != 3:
        raise DeixisError("use_feature_map=true: the feature map (channels, rows, columns) of the photo is missing")
    cells = resample_cells(photo.cells, grid, grid) if grid else photo.cells
    channels, rows, columns = cells.shape
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    return cells.reshape(channels, -1).T, np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32)


@dataclass(frozen=True)
class BoxSetSettings:
    """Thresholds of the selection; the defaults were fitted to the shipped preset of the grounder.

    Attributes
    ----------
    min_probability
        A region is selected if it is one of the things of the phrase with at least this probability.
    min_counted
        Threshold for phrases that state a number, such as "two dogs"; at most that many boxes are selected.
    max_iou
        Of two selected boxes with at least this IoU, the less probable is left out.
    max_containment
        Of two selected boxes of which one contains at least this share of the other, the less probable is left out;
        above 1 for never.
    """

    min_probability: float = 0.35
    min_counted: float = 0.1
    max_iou: float = 0.3
    max_containment: float = 1.1


@dataclass(frozen=True, eq=False)
class RegionMembers:
    """For one phrase, the box and the probability of each region as one of the things that the phrase names.

    `best` is the box around everything that the phrase names, `count` how many things it says that it names, if so.
    """

    best: Boxes  # (4,)
    boxes: Boxes  # (regions, 4)
    probabilities: Floats  # (regions,)
    count: int | None = None

    def select(self, settings: BoxSetSettings) -> BoxSet:
        """Select the boxes of single things; `best` alone unless there are at least two."""
        least = settings.min_probability if self.count is None else settings.min_counted
        likely = np.flatnonzero(self.probabilities >= least)
        if len(likely) > 1 and self.count != 1:
            chosen = likely[nms(self.boxes[likely], self.probabilities[likely], settings.max_iou)]
            own = np.asarray(self.boxes[chosen], dtype=np.float64)
            sizes = area(own)
            inside = overlap_areas(own, own) >= settings.max_containment * np.minimum(sizes[:, None], sizes)
            kept: list[int] = []
            for row in range(len(own)):
                if not inside[row, kept].any():
                    kept.append(row)
            kept = kept[: self.count]
            if len(kept) > 1:
                return BoxSet(own[kept], self.probabilities[chosen[kept]])
        return BoxSet(np.asarray(self.best, dtype=np.float64)[None])


_GRID = {
    "min_probability": [*np.arange(0.1, 0.9, 0.05).round(2).tolist()],
    "min_counted": [*np.arange(0.05, 0.6, 0.05).round(2).tolist()],
    "max_iou": [0.3, 0.4, 0.5, 0.6, 0.7],
    "max_containment": [0.6, 0.7, 0.8, 0.9, 1.1],
}


def fit_box_sets(phrases: Iterable[tuple[RegionMembers, Boxes]]) -> BoxSetSettings:
    """Find the settings with the highest mean F1 over phrases with their gold boxes, one setting after the other."""
    from deixis.evaluation.box_sets import set_f1  # here, because every search imports this module

    examples = list(phrases)

    def score(settings: BoxSetSettings) -> float:
        return float(np.mean([set_f1(members.select(settings).boxes, gold) for members, gold in examples]))

    best = BoxSetSettings()
    for _ in range(2):
        for name, values in _GRID.items():
            best = max((replace(best, **{name: value}) for value in values), key=score)
    return best


PRESENCE = "presence_calibrations"
"""The setting in `config.json` that `scripts/fit_presence.py` writes."""

_MIN_AGREEMENT = 0.5
"""IoU from which on a box counts for the best one, as for a correct box in evaluation."""

_TEXTS_PER_BATCH = 2
"""Texts that are grounded at once: each needs 10 MB for a photo of 60 regions."""


@dataclass(frozen=True)
class GroundingOutput:
    """The location of the phrases of a sentence in a photo."""

    scores: Floats
    """(phrases, regions). Comparable among the regions of a phrase, and among photos with `presence_weight`."""
    boxes: Floats
    """(phrases, regions, 4): the region's box refined for each phrase, divided by the size of the photo.

    That of the best region of a phrase is the mean of all that agree with it; see `vote`.
    """
    members: Floats | None = None
    """(phrases, regions): probability that a region is one of the things of the phrase. Needs `sets_weight`."""
    member_boxes: Floats | None = None
    """(phrases, regions, 4): the region's box refined to one of the things of each phrase. Needs `sets_weight`."""
    counts: tuple[int | None, ...] = ()
    """(phrases,): how many things each phrase says that it names, or None."""
    presence: Floats | None = None
    """(phrases,): probability that the photo shows the phrase, at a prior of one half. Needs `presence_weight`."""


def vote(scores: Floats, boxes: Floats) -> Floats:
    """Box of each phrase: the mean of its boxes that overlap the best one enough, weighted by their probabilities.

    `scores` (phrases, regions) are logits and `boxes` (phrases, regions, 4) the regions refined for each phrase; the
    result is (phrases, 4). Box voting (Gidaris and Komodakis, ICCV 2015): the errors of single boxes differ.

    Examples
    --------
    >>> boxes = np.array([[[0, 0, 0.4, 0.4], [0, 0, 0.5, 0.4], [0.6, 0.6, 1, 1]]])
    >>> vote(np.array([[2.0, 2.0, 1.0]]), boxes).round(2).tolist()
    [[0.0, 0.0, 0.45, 0.4]]
    """
    phrases, best = np.arange(len(boxes)), scores.argmax(axis=1)
    sides = np.moveaxis(boxes.astype(np.float64), -1, 0)
    agrees = iou_of_sides(sides[:, phrases, best][..., None], sides) >= _MIN_AGREEMENT
    agrees[phrases, best] = True  # an empty box agrees with none
    weights = np.exp(scores - scores.max(axis=1, keepdims=True)) * agrees
    mean = (weights[..., None] * boxes).sum(axis=1) / weights.sum(axis=1, keepdims=True)
    return np.asarray(mean, dtype=boxes.dtype)


class Grounder(WordNetworkModel[GrounderSettings, "GrounderNetwork"], Embedder):
    """Finds the region of a photo that a phrase names.

    A new model is untrained; `deixis.train("grounder", …)` trains one. `channels` and `whole_size` are the dimensions
    of the features of a region and of a whole photo. `frozen` are word vectors to which training adds a difference for
    each word of the vocabulary. `box_sets` are the thresholds of the selection of boxes, `presence_calibrations` are
    fits of presence, one for each image encoder.

    Examples
    --------
    >>> settings = GrounderSettings(embedding_dim=16, hidden_size=8)
    >>> model = Grounder(8, 8, Vocabulary(("a", "dog"), (2, 1)), settings)
    >>> boxes = np.array([[0, 0, 0.5, 1], [0.2, 0, 1, 1]])
    >>> photo = RegionInputs(np.ones((2, 8)), boxes, np.array([0.7, 0.4]), np.ones(8))
    >>> model.ground(photo, ["a", "dog", "and", "a", "cat"], [(0, 2), (3, 5)]).scores.shape
    (2, 2)
    >>> model.scores(model.prepare_visual(photo), model.prepare_text(["a dog"])).shape
    (2, 1)
    """

    KIND = "grounder"
    SETTINGS = GrounderSettings
    SIZES = ("channels", "whole_size")
    WORDS = "text_encoder.words"
    vocabulary: Vocabulary

    def __init__(
        self,
        channels: int,
        whole_size: int,
        vocabulary: Vocabulary,
        settings: GrounderSettings | None = None,
        frozen: WordVectors | None = None,
        *,
        box_sets: BoxSetSettings | None = None,
        presence_calibrations: Sequence[PresenceCalibration] = (),
        functions: Functions | None = None,
    ) -> None:
        self.channels = channels
        self.whole_size = whole_size
        self.box_sets = box_sets or BoxSetSettings()
        self.presence_calibrations = tuple(presence_calibrations)
        super().__init__(settings, vocabulary, frozen, functions)

    def make_network(self) -> GrounderNetwork:
        from deixis.models.grounder.network import GrounderNetwork

        network = GrounderNetwork(self.channels, self.whole_size, len(self.vocabulary), self.settings)
        if self.frozen is not None:
            network.text_encoder.words.add_frozen(lambda: self.words.frozen_by_id(), self.settings.delta_dropout)
        return network

    @property
    def dimension(self) -> int:
        return self.settings.embedding_dim + 1

    def ground(
        self, regions: RegionInputs, words: Sequence[str], spans: Sequence[Span], *, presence: bool = True
    ) -> GroundingOutput:
        """Score each phrase of a sentence against each region of a photo, and refine the boxes.

        `words` are in lower case and `spans` are phrases, end exclusive; `to_word_spans` gives both. `presence=False`
        leaves out the presence of the phrases, which takes further computations.
        """
        self._check_sizes(regions)
        count, region_count = len(spans), len(regions)
        output = GroundingOutput(
            np.zeros((count, region_count), np.float32),
            np.zeros((count, region_count, 4), np.float32),
            np.zeros((count, region_count), np.float32) if self.settings.sets_weight else None,
            np.zeros((count, region_count, 4), np.float32) if self.settings.sets_weight else None,
            tuple(stated_count(words[slice(*span)]) for span in spans),
            np.zeros(count, np.float32) if presence and self.settings.presence_weight else None,
        )
        inputs = make_text_inputs(words, spans, context=self.settings.sentence_context)
        if not inputs or not region_count:
            return output
        cells = cell_arrays(regions, self.settings.feature_grid) if self.settings.use_feature_map else ()
        photo = _region_arrays(regions)
        for some in _text_batches(inputs):
            vectors, lengths, word_spans, mask = text_arrays(some, self.words)
            rows = [phrase for each in some for phrase in each.phrases]
            found = self.functions("ground", *photo, vectors, lengths, word_spans, *cells)
            output.scores[rows], output.boxes[rows] = found[0][mask], found[1][mask]
            if output.members is not None and output.member_boxes is not None:
                output.members[rows], output.member_boxes[rows] = logistic(found[2][mask]), found[3][mask]
        output.boxes[np.arange(count), output.scores.argmax(axis=1)] = vote(output.scores, output.boxes)
        if output.presence is not None:
            rows = [phrase for each in inputs for phrase in each.phrases]
            alone = self.embed_texts(
                "embed_phrases", [each.words[slice(*span)] for each in inputs for span in each.spans], self.dimension
            )
            (visual,) = self.functions("embed_regions", *photo)
            output.presence[rows] = self.presence_probability((alone @ visual.T).max(axis=1))
        return output

    def select_boxes(self, output: GroundingOutput) -> list[BoxSet]:
        """The boxes of the things that each phrase names, divided by the size of the photo.

        One box for a phrase that names one thing, and for all phrases without `sets_weight`. The photo must have
        regions.
        """
        if output.members is None:
            best = output.boxes[np.arange(len(output.boxes)), output.scores.argmax(axis=1)]
            return [BoxSet(box[None]) for box in best.astype(np.float64)]
        return [phrase.select(self.box_sets) for phrase in self.members(output)]

    def members(self, output: GroundingOutput) -> list[RegionMembers]:
        """Each phrase with its regions as single things; needs `sets_weight`, and a photo that has regions."""
        if output.members is None or output.member_boxes is None:
            raise DeixisError("sets_weight=0: the model was not trained to find one box for each thing")
        best = output.boxes[np.arange(len(output.boxes)), output.scores.argmax(axis=1)]
        return list(map(RegionMembers, best, output.member_boxes, output.members, output.counts))

    def presence_probability(self, scores: ArrayLike) -> Floats:
        """Probability, at a prior of one half, that photos show phrases, from the highest region score of each.

        Only for models that were trained with `presence_weight`.
        """
        if not self.settings.presence_weight:
            raise DeixisError("presence_weight=0: the model was not trained to estimate presence")
        scale, bias = self.functions.weight("presence_calibration").astype(np.float32)
        return np.asarray(logistic(np.exp(scale) * np.asarray(scores) + bias), dtype=np.float32)

    def prepare_visual(self, features: RegionInputs | Sequence[RegionInputs]) -> Floats:
        """Embed the regions of a photo, or of several photos in order, without transformer layers."""
        self._require_vectors()
        vectors = [np.zeros((0, self.dimension), np.float32)]
        for photo in [features] if isinstance(features, RegionInputs) else features:
            self._check_sizes(photo)
            if len(photo):
                vectors += self.functions("embed_regions", *_region_arrays(photo))
        return np.concatenate(vectors)

    def prepare_text(self, features: Sequence[Text]) -> Floats:
        """Embed phrases, each without a sentence."""
        self._require_vectors()
        return self.embed_texts("embed_phrases", features, self.dimension)

    def save_arguments(self) -> dict[str, Any]:
        presence = [asdict(each) for each in self.presence_calibrations]
        return {**super().save_arguments(), "box_sets": asdict(self.box_sets), PRESENCE: presence}

    @classmethod
    def load_arguments(cls, artifact: Artifact) -> dict[str, Any]:
        saved = artifact.settings
        return {
            **super().load_arguments(artifact),
            "box_sets": BoxSetSettings(**saved.get("box_sets", {})),
            PRESENCE: [PresenceCalibration.from_json(each) for each in saved.get(PRESENCE, ())],
        }

    def _check_sizes(self, photo: RegionInputs) -> None:
        sizes = photo.vectors.shape[1], len(photo.whole)
        if sizes != (self.channels, self.whole_size):
            raise DeixisError(
                f"features of {sizes[0]:,} numbers per region and {sizes[1]:,} per photo: the model was trained on "
                f"{self.channels:,} and {self.whole_size:,}; use the encoder of the model"
            )

    def _require_vectors(self) -> None:
        """With transformer layers, vectors are meaningful only if phrases alone were trained too."""
        if self.settings.num_layers and not self.settings.presence_weight:
            raise DeixisError(
                f"num_layers={self.settings.num_layers}: the layers combine regions and words, so neither has a vector "
                "of its own; use ground, or train with presence_weight=0.3"
            )


def _region_arrays(photo: RegionInputs) -> tuple[NDArray[Any], ...]:
    return photo.vectors, photo.boxes, photo.objectness, photo.whole


def _text_batches(inputs: Sequence[TextInput]) -> Iterator[list[TextInput]]:
    """Yield texts in batches of as many phrases each: phrases beyond a long sentence are not padded to those in it."""
    for _, same in groupby(inputs, key=lambda text: len(text.spans)):
        texts = list(same)
        for begin in range(0, len(texts), _TEXTS_PER_BATCH):
            yield texts[begin : begin + _TEXTS_PER_BATCH]


FITTED_PHRASES = 3000
"""Number of phrases that the selection of boxes is fitted to."""


class GrounderPipeline(RegionPipeline):
    """A grounder with its image encoder and region proposals."""

    MODEL = Grounder
    model: Grounder
    tasks = frozenset({"grounding"})
    uncalibrated_description = DescriptionSettings(prior=1.0, scale=0.5, bias=1.3)

    @property
    def capabilities(self) -> frozenset[str]:
        """Layers that combine regions and words leave no vectors for `describe`, unless presence was trained."""
        settings = self.model.settings
        return frozenset({"ground"} if settings.num_layers and not settings.presence_weight else {"ground", "describe"})

    @property
    def separates_boxes(self) -> bool:
        """Whether the model was trained to find one box for each thing that a phrase names."""
        return bool(self.model.settings.sets_weight)

    def encode_regions(self, regions: RegionInputs) -> Floats:
        return self.model.prepare_visual(regions)

    def score_phrases(self, regions: PhotoProposals, sentence: Sentence, phrases: Sequence[Phrase]) -> PhraseScores:
        inputs = regions.inputs(cells=self.model.settings.use_feature_map)
        spans = to_word_spans(sentence.tokens, [phrase.span for phrase in phrases])
        found = self.model.ground(inputs, *spans, presence=self._calibrated_presence is None)
        presence = found.presence
        if self._calibrated_presence is not None:
            presence = self._calibrated_presence.probabilities(inputs, phrases)
        size = np.tile(regions.features.size, 2)
        sets = None  # without regions there is nothing to select
        if len(inputs):
            sets = [replace(each, boxes=each.boxes * size) for each in self.model.select_boxes(found)]
        return PhraseScores(found.scores, found.boxes * size, presence, sets)

    @cached_property
    def _calibrated_presence(self) -> PresenceModel | None:
        """The photo model that presence was fitted to; None if there is none for this image encoder."""
        return self.presence_model(self.encoder)

    def presence_model(self, encoder: EncoderInfo) -> PresenceModel | None:
        opened = (each.open(encoder, self.photo_model) for each in self.model.presence_calibrations)
        return next((model for model in opened if model is not None), None)

    def proposal_vectors(self, features: PhotoFeatures, photo_id: str) -> Floats:
        return self.model.prepare_visual(read_regions(features.store, photo_id, features.max_proposals))

    def predict_boxes(
        self, features: PhotoFeatures, items: Sequence[Item], on_progress: OnProgress = no_progress
    ) -> list[Prediction]:
        from deixis.evaluation.predictions import Prediction

        found: list[Prediction] = []
        for in_caption, proposals, output in self._ground_captions(features, items):
            size = np.tile(features.store.sizes([in_caption[0].photo])[0], 2)
            sets = self.model.select_boxes(output) if len(proposals) and self.separates_boxes else None
            for row, item in enumerate(in_caption):
                boxes, scores = proposals.astype(np.float64), output.scores[row].astype(np.float64)
                if len(boxes):  # only the best box of a phrase is refined
                    best = int(np.argmax(scores))
                    boxes[best] = output.boxes[row, best].astype(np.float64) * size
                selected = None if sets is None else sets[row].boxes * size
                found.append(Prediction(item.photo, item.caption, item.span, boxes, scores, selected=selected))
            on_progress("grounding phrases", len(found), len(items))
        return found

    def fit_selection(self, features: PhotoFeatures, on_progress: OnProgress = no_progress) -> None:
        """Fit the thresholds of the selection of boxes to the phrases of the first photos that have boxes."""
        from deixis.evaluation.items import localization_items

        phrases: list[tuple[RegionMembers, Boxes]] = []
        items = list(islice(localization_items(features.photos), FITTED_PHRASES))
        for in_caption, proposals, output in self._ground_captions(features, items):
            if len(proposals):
                size = np.tile(features.store.sizes([in_caption[0].photo])[0], 2)
                golds = [np.array(item.boxes) / size for item in in_caption]
                phrases += zip(self.model.members(output), golds, strict=True)
            on_progress("fitting the selection of boxes", len(phrases), len(items))
        self.model.box_sets = fit_box_sets(phrases)

    def _ground_captions(
        self, features: PhotoFeatures, items: Sequence[Item]
    ) -> Iterator[tuple[list[Item], Boxes, GroundingOutput]]:
        """The items of each caption, the proposals of their photo, and the output of the model."""
        records = {photo.id: photo for photo in features.photos}
        most = self.provenance.max_proposals
        for photo_id, photo_items in groupby(items, key=lambda item: item.photo):
            regions = read_regions(features.store, photo_id, most, cells=self.model.settings.use_feature_map)
            proposals = features.store.proposals(photo_id).boxes[:most]
            for caption, caption_items in groupby(photo_items, key=lambda item: item.caption):
                in_caption = list(caption_items)
                tokens = records[photo_id].captions[caption].tokens
                spans = to_word_spans(tokens, [item.span for item in in_caption])
                yield in_caption, proposals, self.model.ground(regions, *spans)
