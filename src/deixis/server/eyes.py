"""The models that look at a photo when somebody asks: opened when first needed, and what they saw kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from deixis.errors import DeixisError
from deixis.server.answers import Captions, Description, Grounding
from deixis.tasks.bundle import PhotoLike, opened
from deixis.tasks.search.hits import BoxXyxy, KnownPhoto

if TYPE_CHECKING:
    from deixis.tasks.captions.captioning import CaptionBundle
    from deixis.tasks.describe.describing import Describer
    from deixis.tasks.grounding import Look, Pointer

_KEPT_ANSWERS = 1000
Made = TypeVar("Made")


@dataclass(frozen=True)
class Subject:
    """The photo that is asked about: one of the index, or one that was sent.

    Attributes
    ----------
    photo
        To be opened, or open already.
    id
        In the index; None for one that was sent.
    """

    photo: PhotoLike
    id: str | None = None

    @classmethod
    def of(cls, known: KnownPhoto) -> Subject:
        """A photo of the index."""
        return cls(known.path, known.photo_id)


class Kept(Generic[Made]):
    """The last few answers by the photo's id; several who ask for the same at once wait for one answer.

    Examples
    --------
    >>> kept = Kept[int](most=2)
    >>> kept.get("a", lambda: 1), kept.get("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[str, Made] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str | None, make: Callable[[], Made]) -> Made:
        """What is kept by a name, or else made now; without a name nothing is kept."""
        if name is None:
            return make()
        with self._lock:
            if name not in self._answers:
                self._answers[name] = make()
            self._answers.move_to_end(name)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
            return self._answers[name]


class Eyes:
    """Points, captions and describes. Usable from many threads.

    Parameters
    ----------
    looks
        Photos whose features are kept.
    """

    def __init__(self, looks: int = 16) -> None:
        self._looks: Kept[Look] = Kept(looks)
        self._captions: Kept[Captions] = Kept(_KEPT_ANSWERS)
        self._descriptions: Kept[Description] = Kept(_KEPT_ANSWERS)
        self._opening = threading.Lock()
        self._is_closed = False

    def ground(self, subject: Subject, sentence: str) -> Grounding:
        """A box for each noun phrase."""
        pointer = self._opened_pointer()
        look = self._looks.get(subject.id, lambda: pointer.look_at(subject.photo))
        found = pointer.ground_in(look, sentence)
        return Grounding.model_validate({"photo": subject.id, **found.as_json()})

    def caption(self, subject: Subject) -> Captions:
        """Sentences for a photo."""
        return self._captions.get(subject.id, lambda: self._captioned(subject))

    def describe(self, subject: Subject, region: BoxXyxy | None, top: int) -> Description:
        """Words for the regions of a photo, or for one of them."""
        name = f"{subject.id} {region} {top}" if subject.id else None
        return self._descriptions.get(name, lambda: self._described(subject, region, top))

    def warm_up(self) -> None:
        """Open what most visitors will ask for, so that the first of them need not wait."""
        steps: list[Callable[[], object]] = [
            self._opened_pointer,
            lambda: self._opened_pointer().bundle.image_encoder,
            self._opened_captioner,
            self._opened_describer,
            lambda: self._opened_describer().bank_vectors,
        ]
        for step in steps:
            with suppress(DeixisError):  # said to whoever asks
                if not self._is_closed:
                    step()

    def close(self) -> None:
        """Open nothing more ahead of time."""
        self._is_closed = True

    def _captioned(self, subject: Subject) -> Captions:
        found = self._opened_captioner().caption([subject.photo])[0]
        return Captions.model_validate({"photo": subject.id, **found.as_json()})

    def _described(self, subject: Subject, region: BoxXyxy | None, top: int) -> Description:
        describer = self._opened_describer()
        photo = opened(subject.photo)
        regions = [each.as_json() for each in describer.describe(photo, region, top=top)]
        return Description.model_validate({"photo": subject.id, "size": photo.size, "regions": regions})

    def _opened_pointer(self) -> Pointer:
        with self._opening:  # or two who ask at once would open it twice
            return self._pointer

    def _opened_describer(self) -> Describer:
        with self._opening:
            return self._describer

    def _opened_captioner(self) -> CaptionBundle:
        with self._opening:
            return self._captioner

    @cached_property
    def _pointer(self) -> Pointer:
        from deixis.tasks.bundle import load
        from deixis.tasks.grounding import DEFAULT, Pointer

        return Pointer(load(DEFAULT))

    @cached_property
    def _describer(self) -> Describer:
        from deixis.tasks.describe.describing import Describer

        return Describer.open()

    @cached_property
    def _captioner(self) -> CaptionBundle:
        from deixis.tasks.captions.captioning import load_captioner

        return load_captioner()
