"""The models behind the API for single photos: loaded when first needed, with cached results."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from deixis.errors import DeixisError
from deixis.models.arguments import PhotoLike, open_image
from deixis.search.index.snapshot import Box
from deixis.web.responses import Captions, Description, Grounding

if TYPE_CHECKING:
    from deixis.models.captioner.pipeline import CaptionerPipeline
    from deixis.models.describer.description import Describer
    from deixis.models.grounding import PhotoProposals, RegionPipeline

_CACHED_RESULTS = 1000
T = TypeVar("T")
Checked = TypeVar("Checked", "CaptionerPipeline", "Describer")


@dataclass(frozen=True)
class PhotoInput:
    """The photo of a request, or what opens it, with its id if it is one of the index."""

    source: PhotoLike | Callable[[], PhotoLike]
    id: str | None = None

    @property
    def photo(self) -> PhotoLike:
        return self.source() if callable(self.source) else self.source


class ResultCache(Generic[T]):
    """A least-recently-used cache; concurrent requests for the same key compute it once, those for others at once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable | None, compute: Callable[[], T]) -> T:
        """Return the cached result, computing it if necessary. Errors, and calls without a key, are not cached."""
        if key is None:
            return compute()
        with self._lock:
            known = self._results.get(key)
            if known is None:
                future = self._results[key] = Future[T]()
            self._results.move_to_end(key)
            while len(self._results) > self._size:
                self._results.popitem(last=False)
        if known is not None:
            return known.result()
        try:
            future.set_result(compute())
        except BaseException as error:
            with self._lock:
                if self._results.get(key) is future:
                    del self._results[key]
            future.set_exception(error)
        return future.result()


class InferenceService:
    """Grounds, captions and describes photos, and caches their features. Usable from any number of threads.

    `grounder` should be that of the index, so that searches and groundings find the same boxes.
    """

    def __init__(self, cached_photos: int = 16, grounder: RegionPipeline | None = None) -> None:
        self._given_grounder = grounder
        self._proposals: ResultCache[PhotoProposals] = ResultCache(cached_photos)
        self._captions: ResultCache[Captions] = ResultCache(_CACHED_RESULTS)
        self._descriptions: ResultCache[Description] = ResultCache(_CACHED_RESULTS)
        self._models: dict[str, Any] = {}
        self._loading = threading.Lock()
        self._is_closed = False

    def ground(self, photo: PhotoInput, sentence: str) -> Grounding:
        """Return boxes for each noun phrase of a sentence."""
        grounding = self._grounder().ground_regions(self.propose(photo), sentence)
        return Grounding.model_validate({"photo": photo.id, **grounding.as_json()})

    def propose(self, photo: PhotoInput) -> PhotoProposals:
        """Return the features and the region proposals of a photo, for the grounder."""
        return self._proposals.get(photo.id, lambda: self._grounder().propose(photo.photo))

    def caption(self, photo: PhotoInput) -> Captions:
        """Return captions of a photo."""
        return self._captions.get(photo.id, lambda: self._compute_captions(photo))

    def describe(self, photo: PhotoInput, region: Box | None, top: int) -> Description:
        """Return phrases for the regions of a photo, or for one region."""
        key = f"{photo.id} {region} {top}" if photo.id else None
        return self._descriptions.get(key, lambda: self._compute_description(photo, region, top))

    def warm_up(self) -> None:
        """Load the models ahead of the first request."""
        steps: list[Callable[[], object]] = [
            self._grounder,
            lambda: self._grounder().image_encoder,
            lambda: self._captioner().ranker(),
            self._describer,
            lambda: self._describer().bank_vectors,
        ]
        for step in steps:
            with suppress(DeixisError):  # reported to the first request
                if not self._is_closed:
                    step()

    def close(self) -> None:
        """Stop loading ahead."""
        self._is_closed = True

    def _compute_captions(self, photo: PhotoInput) -> Captions:
        result = self._captioner().caption(photo.photo)
        return Captions.model_validate({"photo": photo.id, **result.as_json()})

    def _compute_description(self, photo: PhotoInput, region: Box | None, top: int) -> Description:
        describer = self._describer()
        image = open_image(photo.photo)
        regions = [each.as_json() for each in describer.describe(image, region, top=top)]
        return Description.model_validate({"photo": photo.id, "size": image.size, "regions": regions})

    def _grounder(self) -> RegionPipeline:
        from deixis.models.grounding import load_grounding_model

        return self._load("grounder", lambda: self._given_grounder or load_grounding_model())

    def _describer(self) -> Describer:
        from deixis.models.pipeline import load

        return self._load("describer", lambda: self._with_photo_model(load("describer").describer))

    def _captioner(self) -> CaptionerPipeline:
        from deixis.models.pipeline import DEFAULT_CAPTIONER, load

        return self._load(
            "captioner", lambda: self._with_photo_model(cast("CaptionerPipeline", load(DEFAULT_CAPTIONER)))
        )

    def _with_photo_model(self, model: Checked) -> Checked:
        """Let a model check what it says with the photo model of the index, which is open already."""
        if self._given_grounder is not None:
            model.photo_model = self._given_grounder.photo_model
        return model

    def _load(self, name: str, load: Callable[[], T]) -> T:
        with self._loading:  # so that concurrent requests load a model once
            if name not in self._models:
                self._models[name] = load()
            model: T = self._models[name]
            return model
