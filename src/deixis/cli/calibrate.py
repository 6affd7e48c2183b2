"""`deixis calibrate`: fits the probabilities of search results, or of captions, to photos with captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from deixis.cli.output import (
    Index,
    Json,
    argument,
    hint,
    note,
    option,
    plural,
    print_json,
    progress,
    use_one_blas_thread,
)
from deixis.errors import DeixisError
from deixis.search.places import index_place

if TYPE_CHECKING:
    from deixis.evaluation.calibration import Score

_MIN_PHOTOS = 30
_FEW_PHOTOS = 500


def calibrate(
    data: Annotated[list[Path], argument("DATA", "Data sets with captions. Their photos need not be in the index.")],
    index: Index = None,
    split: Annotated[
        list[str] | None, option("NAME", "Split to fit to (default: dev). May be repeated.", show_default=False)
    ] = None,
    absent_from: Annotated[
        str, option("NAME", "Split whose captions are used as queries for things that are absent.")
    ] = "train",
    captions: Annotated[
        str | None, option("NAME|DIR", "Fit the confidence of the captions of this model, and store it there.")
    ] = None,
    json: Json = False,
) -> None:
    """Fit the probabilities of search results to photos with captions, and store them in an index.

    With --captions: the probability that a caption is right, stored in the model. The photos must not have been used
    to train the model. The scores that are printed are of fits to one half of the photos, on the other half.
    """
    use_one_blas_thread()
    if captions is not None:
        calibrate_captions(captions, data, split or ["dev"], json=json)
        return
    from deixis.search.collection import open_index, store_calibration
    from deixis.search.fitting import evaluate_halves, fit_calibration, summarize
    from deixis.search.trial import make_bank, make_trial, read_sources
    from deixis.storage.sql import hide_password

    place = index_place(index)
    with open_index(place) as photos:
        encoder = photos.encoder
    with progress("photos") as on_progress:
        sources = read_sources(data, split or ["dev"], encoder, absent_from, on_progress=on_progress)
    for source in sources:
        _check_count(source.name, sum(map(bool, source.photos.captions)))
    bank = make_bank(sources, encoder)
    with progress("queries") as on_progress:
        trials = [make_trial(source, encoder, bank, on_progress=on_progress) for source in sources]
    scores = {name: summarize(result) for name, result in evaluate_halves(trials, encoder.fingerprint, bank).items()}
    store_calibration(place, encoder, fit_calibration(trials, encoder.fingerprint, bank))
    about = {"index": hide_password(place), "model": encoder.model_name}
    _print_result(about, scores, "queries", f"stored in {hide_password(place)}", json)


def calibrate_captions(model: str, data: Sequence[Path], splits: Sequence[str], *, json: bool) -> None:
    """Fit the confidence of the captions of a model and store it in the directory of the model."""
    from deixis.data.derived import named_splits
    from deixis.models.captioner.confidence_fitting import (
        evaluate_halves,
        fit_confidence,
        read_caption_sources,
        summarize,
    )
    from deixis.models.captioner.pipeline import CONFIDENCE, CaptionerPipeline
    from deixis.models.installed import model_folder
    from deixis.models.m_rnn.pipeline import load_captioner
    from deixis.storage.artifacts import add_part

    folder = model_folder(model)
    captioner = load_captioner(model)
    if not isinstance(captioner, CaptionerPipeline):
        raise DeixisError(f"{model}: captions of {captioner.kind} have no confidence; a model of captioner has one")
    with progress("photos") as on_progress:
        sources = read_caption_sources(captioner, named_splits(data, splits), on_progress)
    for source in sources:
        _check_count(source.name, len(source.photos))
    scores = {name: summarize(shown) for name, shown in evaluate_halves(sources).items()}
    confidence = fit_confidence(sources)
    add_part(folder, CONFIDENCE, confidence.to_artifact())
    stored = f"stored in {folder}; captions are sure from {confidence.sure_from:.0%}"
    _print_result({"model": str(folder), "sure_from": confidence.sure_from}, scores, "captions", stored, json)


def _check_count(name: str, count: int) -> None:
    if count < _MIN_PHOTOS:
        wanted = f"a calibration needs at least {_MIN_PHOTOS} photos with captions"
        raise DeixisError(f"{name}: has {plural(count, 'photo')}; {wanted}")
    if count < _FEW_PHOTOS:
        note(f"{name}: {count} photos; probabilities are more reliable with {_FEW_PHOTOS} or more")


def _print_result(
    about: Mapping[str, object], scores: Mapping[str, Mapping[str, Score]], tested: str, stored: str, json: bool
) -> None:
    if json:
        documents = {name: {row: score.as_json() for row, score in rows.items()} for name, rows in scores.items()}
        print_json({**about, "scores": documents})
        return
    print_scores(scores, tested)
    hint(stored)


def print_scores(scores: Mapping[str, Mapping[str, Score]], tested: str = "queries") -> None:
    """Print the scores of each source with their intervals."""
    print(f"{f'{tested} of the other half of the photos':40}" + "".join(f"{name:>28}" for name in scores))
    for row in next(iter(scores.values())):
        cells = [of_source.get(row) for of_source in scores.values()]
        shown = [
            f"{cell.value:.3f} [{cell.interval.low:.3f}, {cell.interval.high:.3f}]" if cell else "–" for cell in cells
        ]
        print(f"{row:40}" + "".join(f"{cell:>28}" for cell in shown))
