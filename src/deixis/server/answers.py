"""What the API says, field by field: the same words as the command's ``--json``, with ids in place of paths."""

from __future__ import annotations

from pydantic import BaseModel, Field

Box = tuple[float, float, float, float]


class Error(BaseModel):
    """Something that went wrong, in one line."""

    error: str


class PhotoEntry(BaseModel):
    """A photo of the index."""

    id: str
    name: str = Field(description="The name of its file, without its folder.")
    width: int
    height: int
    taken: str | None = Field(description="When, by the camera's clock.")


class FoundPhrase(BaseModel):
    """A phrase of a sentence, and where a photo shows it."""

    text: str
    span: tuple[int, int] = Field(description="Offsets in Unicode code points, end exclusive.")
    box: Box
    score: float = Field(description="How likely the photo shows it, if half of all photos did.")
    absent: bool = Field(description="Whether the photo seems not to show it; the box is where it would be.")


class HitEntry(PhotoEntry):
    """A photo that answers."""

    score: float
    probability: float | None
    phrases: list[FoundPhrase]
    duplicates: list[PhotoEntry]


class Found(BaseModel):
    """What a search finds, best first."""

    query: str | None
    unknown_words: list[str] = Field(description="Words that cannot be looked for.")
    photos: int = Field(description="Photos in the index.")
    searched: int = Field(description="Those among them that pass the filters.")
    hits: list[HitEntry]


class PhotoPage(BaseModel):
    """Some photos of the index, the newest first."""

    total: int
    photos: list[PhotoEntry]


class Region(BaseModel):
    """A part of a photo that can be searched."""

    box: Box


class PhotoDetails(PhotoEntry):
    """All that is known of a photo without looking at it again."""

    camera: str | None
    regions: list[Region]


class ScoredBox(BaseModel):
    """A box, and how sure it is."""

    box: Box
    score: float


class GroundedPhrase(BaseModel):
    """A noun phrase of a sentence, and its boxes."""

    text: str
    span: tuple[int, int]
    type: str
    boxes: list[ScoredBox]
    presence: float | None = Field(None, description="How likely the photo shows it, if half of all photos did.")
    absent: bool = Field(False, description="Whether the photo seems not to show it; the box is where it would be.")


class Grounding(BaseModel):
    """A sentence in a photo."""

    photo: str | None = Field(description="Its id; null for one that was sent.")
    size: tuple[int, int]
    unknown_words: list[str] = Field(description="Words whose place can only be guessed.")
    phrases: list[GroundedPhrase]


class Caption(BaseModel):
    """A sentence for a photo."""

    text: str
    logprob: float
    perplexity: float


class Captions(BaseModel):
    """Sentences for a photo, best first."""

    photo: str | None
    captions: list[Caption]


class ScoredPhrase(BaseModel):
    """Words for a region."""

    text: str
    score: float


class DescribedRegion(BaseModel):
    """A region and words for it, best first."""

    box: Box
    phrases: list[ScoredPhrase]


class Description(BaseModel):
    """The regions of a photo in words."""

    photo: str | None
    size: tuple[int, int]
    regions: list[DescribedRegion]


class UploadLimits(BaseModel):
    """Of a photo that is sent."""

    bytes: int
    pixels: int


class Status(BaseModel):
    """What this server can do."""

    version: str
    photos: int
    upload: UploadLimits
