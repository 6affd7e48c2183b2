"""How `deixis evaluate` scores models that write captions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deixis.cli.output import progress, working

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset, Photos
    from deixis.evaluation.scores import Scores as Matrix
    from deixis.files.progress import OnProgress
    from deixis.tasks.caption_scoring import CaptionerScores


def captioner_retrieval(
    model: Path,
    dataset: Dataset,
    photos: Photos,
    texts: Sequence[str],
    also: Sequence[Path],
    on_progress: OnProgress,
) -> Matrix:
    """How likely a model that writes captions finds each sentence, for each photo."""
    from deixis.tasks import caption_scoring
    from deixis.tasks.captioning import load_captioner
    from deixis.tasks.scoring import seen_by

    bundle = load_captioner(model)
    seen = seen_by(bundle.encoder, dataset, photos, also=also, on_progress=on_progress)
    return caption_scoring.captioner_retrieval(bundle, seen.require_all(), texts, on_progress)


def captioner_scores(
    model: Path,
    dataset: Dataset,
    photos: Photos,
    beam: tuple[int, float],
    training: Sequence[str] | None,
    also: Sequence[Path],
) -> CaptionerScores:
    """The scores of a model that writes with a beam of this width and power of length."""
    from deixis.models.decoding import Decoding
    from deixis.tasks.caption_scoring import score_captioner
    from deixis.tasks.captioning import load_captioner
    from deixis.tasks.scoring import seen_by

    bundle = load_captioner(model)
    how = Decoding(beam=beam[0], length_power=beam[1], longest=bundle.model.settings.longest)
    with progress() as on_progress:
        seen = seen_by(bundle.encoder, dataset, photos, also=also, on_progress=on_progress).require_all()
    with working(f"writing and scoring captions of {len(seen.photos):,} photos"):
        return score_captioner(bundle, seen, how, training=training)
