"""How `deixis evaluate` scores models that write captions, and what else it makes of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from deixis.cli.output import note, progress, working
from deixis.cli.systems import OfModel
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset, Photos
    from deixis.evaluation.of_data import Regions
    from deixis.evaluation.scores import IntArray
    from deixis.evaluation.scores import Scores as Matrix
    from deixis.files.progress import OnProgress
    from deixis.tasks.captions.captioning import CaptionBundle, Judge
    from deixis.tasks.captions.reranking import Reranker
    from deixis.tasks.captions.scoring import CaptionerScores

Rerank = Literal["none", "bleu", "cider", "bleu-oracle", "cider-oracle"]


@dataclass(frozen=True)
class WritingAsked:
    """How people want captions to be written, and shown.

    Attributes
    ----------
    beam, length_power
        Of beam search.
    rerank, neighbours
        By what the sentences are put in another order, and where the training photos are.
    page
        Where to write the page that shows them.
    """

    beam: int | None
    length_power: float
    rerank: Rerank = "none"
    neighbours: Path | None = None
    page: Path | None = None


def captioner_retrieval(
    model: Path,
    dataset: Dataset,
    photos: Photos,
    texts: Sequence[str],
    also: Sequence[Path],
    on_progress: OnProgress,
) -> Matrix:
    """How likely a model that writes captions finds each sentence, for each photo."""
    from deixis.tasks.captions import scoring as caption_scoring
    from deixis.tasks.captions.captioning import load_captioner
    from deixis.tasks.scores.scoring import seen_by

    bundle = load_captioner(model)
    seen = seen_by(bundle.encoder, dataset, photos, also=also, on_progress=on_progress)
    return caption_scoring.captioner_retrieval(bundle, seen.require_all(), texts, on_progress)


def captioner_regions(
    model: Path, dataset: Dataset, photos: Photos, gold: Regions, also: Sequence[Path], on_progress: OnProgress
) -> Matrix:
    """How likely it finds each phrase, for each gold region."""
    from deixis.tasks.captions import scoring as caption_scoring
    from deixis.tasks.captions.captioning import load_captioner
    from deixis.tasks.scores.scoring import seen_by

    bundle = load_captioner(model)
    seen = seen_by(bundle.encoder, dataset, photos, also=also, on_progress=on_progress)
    return caption_scoring.captioner_regions(bundle, seen.require_all(), gold, on_progress)


def captioner_scores(
    model: Path,
    dataset: Dataset,
    photos: Photos,
    asked: WritingAsked,
    training: Sequence[str] | None,
    also: Sequence[Path],
) -> CaptionerScores:
    """The scores of a model that writes as people want it."""
    from deixis.tasks.captions.captioning import beam_of, load_captioner
    from deixis.tasks.captions.page import make_page
    from deixis.tasks.captions.scoring import score_captioner
    from deixis.tasks.scores.scoring import seen_by

    if asked.page and not asked.page.absolute().parent.is_dir():
        raise DeixisError(f"--page {asked.page}: the folder {asked.page.parent} does not exist")
    bundle = load_captioner(model)
    reranker = _neighbours(model, bundle, asked)
    how = beam_of(bundle, asked.beam, 1, length_power=asked.length_power, reranked=asked.rerank != "none")
    if asked.page:  # shows all sentences of the beam, which is no wider for that: the scores are those without a page
        how = replace(how, count=how.beam)
    with progress() as on_progress:
        seen = seen_by(bundle.encoder, dataset, photos, also=also, on_progress=on_progress).require_all()
    with working(f"writing and scoring captions of {len(seen.photos):,} photos"):
        found = score_captioner(bundle, seen, how, judge=_judge(asked, reranker, photos), training=training)
    if asked.page:
        with working("drawing the page"):
            title = f"{model}: captions of {len(seen.photos):,} photos of {dataset.path.name}"
            reranked = asked.rerank in ("bleu", "cider")
            page = make_page(dataset, bundle, seen, found, how, reranker=reranker, reranked=reranked, title=title)
            page.write(asked.page)
        shows = "captions, neighbours and scores" if reranker else "captions and scores"
        note(f"{asked.page}: {len(page.cards)} photos with {shows}")
    return found


def _neighbours(model: Path, bundle: CaptionBundle, asked: WritingAsked) -> Reranker | None:
    """The training photos: needed to rerank by, and shown on the page where they are at hand."""
    from deixis.tasks.captions.reranking import open_reranker

    if asked.rerank in ("bleu", "cider"):
        return open_reranker("bleu" if asked.rerank == "bleu" else "cider", model, bundle, asked.neighbours)
    if asked.page is None:
        return None
    try:
        return open_reranker("cider", model, bundle, asked.neighbours)
    except DeixisError as error:
        note(f"the page shows no neighbours: {error}")
        return None


def _judge(asked: WritingAsked, reranker: Reranker | None, photos: Photos) -> Judge | None:
    from deixis.tasks.captions.reranking import Oracle

    if asked.rerank in ("bleu-oracle", "cider-oracle"):
        own = [[caption.text for caption in photo.sentences] for photo in photos]
        return Oracle(own, "bleu" if asked.rerank == "bleu-oracle" else "cider")
    return reranker if asked.rerank != "none" else None


def shortlists(
    model: Path, dataset: Dataset, photos: Photos, owners: Sequence[int], count: int, also: Sequence[Path]
) -> list[IntArray]:
    """For each photo the sentences of the photos nearest to it, by the vectors that a model sees."""
    from deixis.evaluation.retrieval import nearest_photos, sentences_of
    from deixis.tasks.bundle import load, writes_captions
    from deixis.tasks.captions.captioning import load_captioner
    from deixis.tasks.scores.scoring import seen_by

    encoder = load_captioner(model).encoder if writes_captions(model) else load(model).encoder
    with progress() as on_progress:
        seen = seen_by(encoder, dataset, photos, also=also, on_progress=on_progress).require_all()
    return sentences_of(list(nearest_photos(seen.vectors(), count)), owners)


def kept(of_model: OfModel | None, out: Path | None) -> OfModel | None:
    """The same scores, and written into a file besides."""
    if of_model is None or out is None:
        return of_model
    if out.suffix != ".npy" or not out.absolute().parent.is_dir():
        raise DeixisError(f"--out {out}: a file that ends in .npy, in a folder that is there")

    def computed(model: Path, on_progress: OnProgress) -> Matrix:
        import numpy as np

        from deixis.evaluation.scores import as_blocks
        from deixis.files.atomic import new_file

        blocks = as_blocks(of_model(model, on_progress))
        matrix = np.asarray(blocks.rows(0, blocks.shape[0]))
        with new_file(out) as unfinished, unfinished.open("wb") as file:
            np.save(file, matrix.astype(np.float32), allow_pickle=False)
        return matrix

    return computed
