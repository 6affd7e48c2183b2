"""The network that points: what a phrase says, in its sentence, against what each region of a photo shows.

A bidirectional GRU reads the sentence; a phrase is the mean of its words. A region is what the encoder saw there, where
it is, and what the whole photo shows. Their dot product is the score. Layers of a transformer may then look at regions
and words together and add to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deixis.errors import DeixisError
from deixis.models.grounder_inputs import ReadingBatch, RegionBatch
from deixis.models.text_encoders import EncoderShape, TextEncoder

_PLACE_WIDTH = 128
_HEAD = 64
# Scores of proposers near 0 and 1 must not become endless.
_LEAST = 1e-4
# A box is stretched by no more than e, or shrunk by as much.
_MOST_STRETCH = 1.0


@dataclass(frozen=True)
class GrounderSettings:
    """What can be chosen.

    Attributes
    ----------
    dimension
        Numbers in the states of regions and words.
    layers
        Transformer layers over the regions of a photo and the words of a sentence. With 0, or with `other_photos`,
        regions and phrases have vectors too that an index can hold.
    context
        Read phrases within their sentence; else each alone.
    place
        Regions know where they are and how large.
    whole
        Regions know what the whole photo shows.
    cells
        The layers see the cells of the photo's map too.
    refine
        Give a better box than the one proposed.
    target_power
        Regions that overlap the gold box by half or more share the wish by their IoU to this power.
    word_size
        Numbers in the vector of a word.
    hidden
        Numbers in the state of the GRU, in each direction.
    dropout
        Of the states of regions and words, and within layers.
    word_dropout
        Of word vectors.
    other_photos
        How much it counts that a phrase, read alone, is told from what the other photos of the batch show; 0 for not at
        all. Only then do scores say whether a photo shows what a phrase says.
    min_count
        Words that the training sentences hold less often are unknown.
    """

    dimension: int = 384
    layers: int = 0
    context: bool = True
    place: bool = True
    whole: bool = True
    cells: bool = False
    refine: bool = True
    target_power: float = 1.0
    word_size: int = 300
    hidden: int = 192
    dropout: float = 0.2
    word_dropout: float = 0.2
    other_photos: float = 0.0
    min_count: int = 5

    def __post_init__(self) -> None:
        for name in ("dimension", "word_size", "hidden", "min_count"):
            if getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 1 or more")
        for name in ("layers", "target_power", "other_photos"):
            if not 0 <= getattr(self, name) < math.inf:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 0 or more")
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be at least 0 and less than 1")
        if self.cells and not self.layers:
            raise DeixisError("cells=true: only layers can look at cells; set layers=1 or more")


class Share(Protocol):
    """Computes something for rows; `deixis.training.distributed.by_shares` lets several processes do it."""

    def __call__(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """What `compute` gives for all rows."""
        ...


def alone(compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """Compute everything here."""
    return compute(*rows)


@dataclass(frozen=True)
class Pointed:
    """What the network says of readings and the photos they are about.

    Attributes
    ----------
    scores
        Of each phrase and region, (b, phrases, regions); −∞ where there is no region.
    phrases, regions
        States, (b, phrases, dimension) and (b, regions, dimension): what boxes are refined by.
    phrase_vectors, region_vectors
        What the dot products are of: (b, phrases, dimension + 1), and for each photo (photos, regions, dimension + 1).
    """

    scores: Tensor
    phrases: Tensor
    regions: Tensor
    phrase_vectors: Tensor
    region_vectors: Tensor


class Reader(TextEncoder):
    """A GRU in both directions, with a state for every word: (n, longest, 2 · hidden)."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__(shape, 2 * shape.hidden)
        self.recurrent = nn.GRU(shape.word_size, shape.hidden, shape.layers, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The states; zeros after the end."""
        if not len(ids):  # the share of a process may be nothing
            return self.words.weight.new_zeros(0, ids.shape[1], self.size)
        words = self.dropout(self.words(ids))
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states: Tensor = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True, total_length=ids.shape[1])[0]
        return states


class Matching(nn.Module):
    """Vectors of phrases and regions, whose dot product is the score."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.phrase = nn.Linear(dimension, dimension)
        self.region = nn.Linear(dimension, dimension)

    def phrases(self, states: Tensor) -> Tensor:
        """Vectors of phrases."""
        vectors: Tensor = self.phrase(states)
        return vectors

    def regions(self, states: Tensor) -> Tensor:
        """Vectors of regions, so short that scores begin small."""
        vectors: Tensor = self.region(states) / math.sqrt(states.shape[-1])
        return vectors


class Together(nn.Module):
    """Layers in which the regions of a photo, the words of a sentence and, if wanted, cells look at each other."""

    def __init__(self, channels: int, settings: GrounderSettings) -> None:
        super().__init__()
        width = settings.dimension
        self.kinds = nn.Parameter(nn.init.normal_(torch.empty(3, width), std=0.02))
        self.cells = _projection(channels, width) if settings.cells else None
        self.cell_place = _of_place(2, width) if settings.cells else None
        heads = next(count for count in range(max(1, width // _HEAD), 0, -1) if width % count == 0)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, settings.dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, settings.layers, enable_nested_tensor=False)
        self.matching = Matching(width)

    def forward(self, regions: Tensor, there: Tensor, words: Tensor, read: Tensor, *cells: Tensor) -> Tensor:
        """New states of regions and words, one after the other: (b, regions + words, dimension)."""
        count = regions.shape[1] + words.shape[1]
        states, absent = [regions + self.kinds[0], words + self.kinds[1]], [~there, ~read]
        if self.cells is not None and self.cell_place is not None:
            seen, places = cells
            states.append(self.cells(seen) + self.cell_place(places) + self.kinds[2])
            absent.append(torch.zeros(seen.shape[:2], dtype=torch.bool, device=seen.device))
        joined = torch.cat(states, dim=1)
        if len(joined):  # the share of a process may be nothing, which torch's attention refuses
            joined = self.layers(joined, src_key_padding_mask=torch.cat(absent, dim=1))
        return joined[:, :count]


class Refiner(nn.Module):
    """Moves and stretches a box so that it fits what a phrase says; at first it leaves boxes as they are."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.phrase = nn.Linear(dimension, dimension)
        self.region = nn.Linear(dimension, dimension, bias=False)
        self.change = nn.Linear(dimension, 4)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)

    def forward(self, phrases: Tensor, regions: Tensor, boxes: Tensor, chosen: Tensor) -> Tensor:
        """Boxes for the regions chosen for each phrase, (b, phrases, c) of them, from `boxes` (b, regions, 4)."""
        row = torch.arange(len(chosen), device=chosen.device)[:, None, None]
        hidden = functional.gelu(self.phrase(phrases)[:, :, None] + self.region(regions)[row, chosen])
        return changed_boxes(boxes[row, chosen], self.change(hidden).to(boxes.dtype))


def changed_boxes(boxes: Tensor, change: Tensor) -> Tensor:
    """Boxes (…, 4) as shares of the photo, moved by shares of their size and stretched by powers of e.

    Examples
    --------
    >>> changed_boxes(torch.tensor([0.2, 0.2, 0.4, 0.6]), torch.tensor([0.5, 0.0, 0.0, 0.0]))
    tensor([0.3000, 0.2000, 0.5000, 0.6000])
    """
    begin, end = boxes[..., :2], boxes[..., 2:]
    middle = (begin + end) / 2 + change[..., :2] * (end - begin)
    half = (end - begin) / 2 * change[..., 2:].clamp(-_MOST_STRETCH, _MOST_STRETCH).exp()
    return torch.cat([middle - half, middle + half], dim=-1).clamp(0, 1)


class GrounderNetwork(nn.Module):
    """Scores every phrase of some sentences against every region of their photos.

    Parameters
    ----------
    channels, whole_size
        Numbers in the vector of a region, and of a whole photo.
    words
        How many words are known.
    settings
        As for the model.
    """

    def __init__(self, channels: int, whole_size: int, words: int, settings: GrounderSettings) -> None:
        super().__init__()
        width = settings.dimension
        shape = EncoderShape("gru", words, settings.word_size, settings.hidden, 1, settings.word_dropout)
        self.reader = Reader(shape)
        self.said = nn.Linear(self.reader.size, width)
        self.shown = _projection(channels, width)
        self.place = _of_place(7, width) if settings.place else None
        self.whole = _projection(whole_size, width) if settings.whole else None
        self.dropout = nn.Dropout(settings.dropout)
        self.matching = Matching(width)
        self.objectness = nn.Parameter(torch.tensor(0.5))
        self.together = Together(channels, settings) if settings.layers else None
        self.refiner = Refiner(width) if settings.refine else None
        # What makes a probability of a score: its logarithmic scale, and what is added.
        self.presence = nn.Parameter(torch.zeros(2)) if settings.other_photos else None

    def see(self, vectors: Tensor, boxes: Tensor, objectness: Tensor, whole: Tensor) -> Tensor:
        """States of the regions of photos: (b, k, dimension)."""
        states = self.shown(vectors)
        if self.place is not None:
            sizes = boxes[..., 2:] - boxes[..., :2]
            states = states + self.place(torch.cat([boxes, sizes, objectness[..., None]], dim=-1))
        if self.whole is not None:
            states = states + self.whole(whole)[:, None]
        seen: Tensor = self.dropout(states)
        return seen

    def read(self, words: Tensor, lengths: Tensor) -> Tensor:
        """States of the words of readings: (b, longest, dimension)."""
        states: Tensor = self.dropout(self.said(self.reader(words, lengths)))
        return states

    def region_vectors(self, states: Tensor, objectness: Tensor) -> Tensor:
        """Vectors of regions; their last number is how much likelier than others they are, whatever is said."""
        likely = self.objectness * objectness.clamp(_LEAST, 1 - _LEAST).logit()
        return torch.cat([self.matching.regions(states), likely[..., None]], dim=-1)

    def phrase_vectors(self, states: Tensor) -> Tensor:
        """Vectors of phrases."""
        vectors = self.matching.phrases(states)
        return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)

    def phrases_alone(self, text: ReadingBatch, share: Share = alone) -> Tensor:
        """Vectors of the phrases of readings, one after another, each read without its sentence: (n, dimension + 1)."""
        own = text.alone()
        states = spans_of(share(self.read, own.words, own.lengths), own.spans)[:, 0]
        with torch.autocast(states.device.type, enabled=False):
            return self.phrase_vectors(states.to(self.matching.phrase.weight.dtype))

    def forward(self, photos: RegionBatch, photo_of: Tensor, text: ReadingBatch, share: Share = alone) -> Pointed:
        """Point to what the phrases of readings say.

        Parameters
        ----------
        photos
            Regions, in the precision of the network.
        photo_of
            The photo of each reading: its place among `photos`.
        text
            The readings.
        share
            Who computes.
        """
        seen = share(self.see, photos.vectors, photos.boxes, photos.objectness, photos.whole)
        words = share(self.read, text.words, text.lengths)
        regions, phrases = seen[photo_of], spans_of(words, text.spans)
        exact = photos.boxes.dtype
        with torch.autocast(seen.device.type, enabled=False):  # ranks among a hundred regions need every digit
            region_vectors = self.region_vectors(seen.to(exact), photos.objectness)
            phrase_vectors = self.phrase_vectors(phrases.to(exact))
            scores = phrase_vectors @ region_vectors[photo_of].transpose(1, 2)
        there = photos.there[photo_of]
        if self.together is not None:
            states = self._look_together(self.together, photos, photo_of, regions, words, text, share)
            regions, phrases = states[:, : regions.shape[1]], spans_of(states[:, regions.shape[1] :], text.spans)
            with torch.autocast(seen.device.type, enabled=False):
                again = self.together.matching
                scores = scores + again.phrases(phrases.to(exact)) @ again.regions(regions.to(exact)).transpose(1, 2)
        scores = scores.masked_fill(~there[:, None], -torch.inf)
        return Pointed(scores, phrases.to(exact), regions.to(exact), phrase_vectors, region_vectors)

    def _look_together(
        self,
        layers: Together,
        photos: RegionBatch,
        photo_of: Tensor,
        regions: Tensor,
        words: Tensor,
        text: ReadingBatch,
        share: Share,
    ) -> Tensor:
        read = torch.arange(words.shape[1], device=words.device) < text.lengths.to(words.device)[:, None]
        cells = [column[photo_of] for column in (photos.cells, photos.cell_places) if column is not None]
        return share(layers, regions, photos.there[photo_of], words, read, *cells)

    def refined(self, pointed: Pointed, boxes: Tensor, chosen: Tensor) -> Tensor:
        """Boxes (b, phrases, c, 4) for some regions (b, phrases, c) of each phrase; `boxes` are those of readings."""
        if self.refiner is not None:
            better: Tensor = self.refiner(pointed.phrases, pointed.regions, boxes, chosen)
            return better
        return boxes[torch.arange(len(chosen), device=chosen.device)[:, None, None], chosen]


def spans_of(words: Tensor, spans: Tensor) -> Tensor:
    """The mean over the words of each span: (b, longest, d) and (b, phrases, 2) to (b, phrases, d).

    Examples
    --------
    >>> spans_of(torch.tensor([[[1.0], [3.0], [8.0]]]), torch.tensor([[[0, 2]]]))
    tensor([[[2.]]])
    """
    place = torch.arange(words.shape[1], device=words.device)
    within = ((place >= spans[..., :1]) & (place < spans[..., 1:])).to(words.dtype)
    return (within @ words) / within.sum(dim=-1, keepdim=True).clamp(min=1)


def _projection(size: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(size), nn.Linear(size, width))


def _of_place(size: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, _PLACE_WIDTH), nn.GELU(), nn.Linear(_PLACE_WIDTH, width))
