"""The responses of the API: the same fields as the commands' ``--json``, with ids instead of paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from deixis.search.index.snapshot import Box
from deixis.search.results import Hit, HitPhrase, PhotoRecord, SearchResults

PhotoId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


class Error(BaseModel):
    """An error message in one line."""

    error: str


class PhotoEntry(BaseModel):
    """A photo of the index."""

    id: str
    name: str = Field(description="File name without its folder.")
    width: int
    height: int
    taken: str | None = Field(description="Time by the camera's clock.")
    date_source: str | None = Field(None, description="Source of the time: exif, xmp, name (of the file) or file.")


class TileEntry(PhotoEntry):
    """A photo with those that are almost the same."""

    duplicates: list[PhotoEntry]


class FoundPhrase(BaseModel):
    """A phrase of a sentence, located in a photo."""

    text: str
    span: tuple[int, int] = Field(description="Offsets in Unicode code points, end exclusive.")
    box: Box = Field(description="Around everything that the phrase names.")
    boxes: list[Box] = Field(description="One for each thing that the phrase names.")
    score: float | None = Field(description="Probability that the photo shows it; null for a guess.")
    absent: bool = Field(description="Whether the photo probably does not show it.")
    guess: bool = Field(False, description="Whether it has a word that the model does not know.")


class HitEntry(TileEntry):
    """A search result."""

    score: float
    probability: float | None
    phrases: list[FoundPhrase]


class ReadingEntry(BaseModel):
    """Words of a query that were read differently than typed."""

    kind: Literal["date", "spelling", "part", "name"]
    text: str = Field(description="The words, as typed.")
    read_as: str = Field(description="What was searched for instead; for a name a filter to try, or nothing.")


class SearchResponse(BaseModel):
    """The results of a search, best first."""

    query: str | None
    unknown_words: list[str] = Field(description="Words that the models do not know.")
    photos: int = Field(description="Number of photos in the index.")
    searched: int = Field(description="Number of photos that pass the filters.")
    suggestions: dict[str, list[str]] = Field(default_factory=dict, description="Known words near to unknown ones.")
    filter_reason: str | None = Field(None, description="Why no photo passes the filters.")
    is_listing: bool = Field(False, description="Whether the query has only filters; the last taken are first.")
    readings: list[ReadingEntry] = Field(default_factory=list, description="Words read differently than typed.")
    hits: list[HitEntry]


class Phrases(BaseModel):
    """The phrases of a query, located in a photo."""

    phrases: list[FoundPhrase]


class PhotoPage(BaseModel):
    """A page of photos, the last taken first and undated ones last."""

    total: int = Field(description="Number of photos, also of those that are duplicates of others.")
    filter_reason: str | None = Field(None, description="Why no photo passes the filters.")
    photos: list[TileEntry]


class Counted(BaseModel):
    """A folder or a month with its number of photos."""

    name: str
    photos: int


class Overview(BaseModel):
    """The folders and months of what a query finds, and all albums."""

    folders: list[Counted] = Field(description="Named from the indexed folder on, such as Pictures/2024/Lake.")
    months: list[Counted]
    undated: int
    albums: list[str]


class MarkedPhotos(BaseModel):
    """Photos to put into an album or to make favourites, or to take from there."""

    photos: list[PhotoId] = Field(min_length=1, max_length=1000)
    remove: bool = False


class AlbumNames(BaseModel):
    """The albums."""

    albums: list[str]


class Favourites(BaseModel):
    """The favourites."""

    photos: list[str] = Field(description="Their ids.")


class Paths(BaseModel):
    """The paths of photos."""

    paths: list[str]


class Region(BaseModel):
    """A region that is searched."""

    box: Box


class PhotoDetails(PhotoEntry):
    """A photo of the index with its regions."""

    camera: str | None
    folder: str = Field(description="Its folder, named from the indexed one on, as in an overview.")
    regions: list[Region]


class ScoredBox(BaseModel):
    """A box with its score."""

    box: Box
    score: float | None = Field(description="Null for a guess.")


class GroundedPhrase(BaseModel):
    """A noun phrase with its boxes."""

    text: str
    span: tuple[int, int]
    type: str
    box: Box = Field(description="Around everything that the phrase names.")
    boxes: list[ScoredBox] = Field(description="One for each thing that the phrase names.")
    presence: float | None = Field(
        None, description="Probability that the photo shows it, if half of all phrases were there."
    )
    absent: bool = Field(False, description="Whether the photo probably does not show it.")
    guess: bool = Field(False, description="Whether it has a word that the model does not know.")


class Grounding(BaseModel):
    """The boxes of a sentence's phrases in a photo."""

    photo: str | None = Field(description="Its id; null for an upload.")
    size: tuple[int, int]
    unknown_words: list[str] = Field(description="Words that the model does not know.")
    phrases: list[GroundedPhrase]


class Caption(BaseModel):
    """A caption."""

    text: str
    logprob: float
    perplexity: float
    confidence: float | None = Field(None, description="Probability that it is right; null without a calibration.")
    sure: bool | None = Field(None, description="Whether it is grammatical and probably right; null if unknown.")


class Captions(BaseModel):
    """Captions of a photo, best first."""

    photo: str | None
    captions: list[Caption]


class ScoredPhrase(BaseModel):
    """A phrase for a region."""

    text: str
    score: float


class DescribedRegion(BaseModel):
    """A region with its phrases, best first."""

    box: Box
    phrases: list[ScoredPhrase]


class Description(BaseModel):
    """Phrases for the regions of a photo."""

    photo: str | None
    size: tuple[int, int]
    regions: list[DescribedRegion]


class UploadLimits(BaseModel):
    """Limits of an uploaded photo."""

    bytes: int
    pixels: int


class Status(BaseModel):
    """The state of the server."""

    version: str
    photos: int
    upload: UploadLimits
    is_local: bool = Field(description="Whether only this machine has access, so that paths may be asked for.")


def photo_entry(photo: PhotoRecord) -> PhotoEntry:
    """Return a photo without its path."""
    # A file name need not be valid text; what is not cannot be displayed.
    name = photo.path.name.encode("utf-8", "replace").decode()
    width, height = photo.size
    return PhotoEntry(
        id=photo.photo_id, name=name, width=width, height=height, taken=photo.taken, date_source=photo.date_source
    )


def photo_details(photo: PhotoRecord, regions: list[Box]) -> PhotoDetails:
    """Return a photo with its camera and regions."""
    boxes = [Region.model_validate({"box": [round(side, 1) for side in box]}) for box in regions]
    folder, root = photo.path.parent, photo.root
    name = "/".join(folder.relative_to(root.parent).parts) if root and folder.is_relative_to(root) else folder.name
    name = name.encode("utf-8", "replace").decode()
    return PhotoDetails(**photo_entry(photo).model_dump(), camera=photo.camera, folder=name, regions=boxes)


def search_response(query: str | None, results: SearchResults) -> SearchResponse:
    """Return the results of a search without paths."""
    return SearchResponse(
        query=query,
        unknown_words=list(results.unknown_words),
        photos=results.photos,
        searched=results.searched,
        suggestions={word: list(near) for word, near in results.suggestions.items()},
        filter_reason=results.filter_reason,
        is_listing=results.is_listing,
        readings=[ReadingEntry.model_validate(vars(reading)) for reading in results.readings],
        hits=[_hit_entry(hit) for hit in results],
    )


def found_phrases(phrases: Iterable[HitPhrase]) -> list[FoundPhrase]:
    """Return located phrases in the form of the API."""
    return [FoundPhrase.model_validate(phrase.as_json()) for phrase in phrases]


def tile_entry(hit: Hit) -> TileEntry:
    """Return a photo with its duplicates."""
    others = [photo_entry(other.photo) for other in hit.duplicates]
    return TileEntry(**photo_entry(hit.photo).model_dump(), duplicates=others)


def _hit_entry(hit: Hit) -> HitEntry:
    return HitEntry(
        **tile_entry(hit).model_dump(),
        score=round(hit.score, 4),
        probability=None if hit.probability is None else round(hit.probability, 4),
        phrases=found_phrases(hit.phrases),
    )
