"""Sentences for photos by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deixis.errors import PhotoError
from deixis.files.progress import OnProgress, silent, told
from deixis.models.decoding import Decoding
from deixis.tasks.bulk.workers import Workers, refuse_another, refuse_unshared
from deixis.tasks.captions.captioning import CaptionResult, load_captioner
from deixis.tasks.captions.consensus import Similarity
from deixis.tasks.captions.reranking import open_reranker
from deixis.tasks.search.seeing import hash_of_model
from deixis.tasks.shipped_models import place_of

Captioned = tuple[Path, CaptionResult | PhotoError]


@dataclass(frozen=True)
class CaptionPlan:
    """Which sentences are wanted.

    Attributes
    ----------
    model, fingerprint
        The model by its name or directory, and the hash of its files where the work was begun.
    how, start
        How sentences are made up, and the words that they begin with.
    rerank, neighbours
        Where they are put in order by like photos: by what, and the directory of those photos.
    """

    model: str
    fingerprint: str
    how: Decoding
    start: str = ""
    rerank: Similarity | None = None
    neighbours: Path | None = None

    @classmethod
    def of(
        cls,
        model: str,
        how: Decoding,
        start: str = "",
        rerank: Similarity | None = None,
        neighbours: Path | None = None,
    ) -> CaptionPlan:
        """A plan for a model of this machine."""
        return cls(model, hash_of_model(place_of(model)), how, start, rerank, neighbours)

    def opened(self) -> Callable[[Sequence[Path]], Iterator[Captioned]]:
        """What writes about some photos."""
        refuse_another(f"the model {self.model}", self.fingerprint, hash_of_model(place_of(self.model)))
        bundle = load_captioner(self.model)
        judge = open_reranker(self.rerank, self.model, bundle, self.neighbours) if self.rerank else None
        return lambda paths: bundle.caption_files(paths, self.how, self.start, reranker=judge)


def captions_by(
    workers: Workers, plan: CaptionPlan, paths: Sequence[Path], on_progress: OnProgress = silent
) -> Iterator[Captioned]:
    """What `CaptionBundle.caption_files` gives, written by workers."""
    for path, result in told(workers.in_order(plan, paths), "captioning photos", len(paths), on_progress):
        if isinstance(result, PhotoError):
            refuse_unshared(path, result)
        yield path, result
