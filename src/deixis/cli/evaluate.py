"""`deixis evaluate`: scores of a model, or of anybody's system from its matrix of scores or its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deixis.cli.captioners import (
    Rerank,
    WritingAsked,
    captioner_regions,
    captioner_retrieval,
    captioner_scores,
    kept,
    shortlists,
)
from deixis.cli.output import Json, note, progress, working
from deixis.cli.scores import answer, with_all_photos
from deixis.cli.systems import OfModel, System, answer_from_matrices, systems_asked
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset, Photos
    from deixis.evaluation.localization_items import Item
    from deixis.evaluation.predictions import PhraseElsewhere, Prediction
    from deixis.evaluation.scores import Scores as Matrix
    from deixis.files.progress import OnProgress
    from deixis.tasks.captions.scoring import CaptionerScores
    from deixis.tasks.pointing import OverAllPhotos

app = typer.Typer(help="Score a system: retrieval, sentences, regions, grounding or captions.", no_args_is_help=True)

Data = Annotated[Path, typer.Option("--data", metavar="DATA", help="A data set directory.", show_default=False)]
Split = Annotated[str | None, typer.Option("--split", metavar="NAME", help="Score one split; all photos unless said.")]
Scores = Annotated[
    Path | None,
    typer.Option("--scores", metavar="FILE.npy", help="A matrix of scores, higher is better."),
]
Model = Annotated[
    Path | None,
    typer.Option("--model", metavar="NAME|DIR", help="A model of deixis models or deixis train, instead of --scores."),
]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="FILE|DIR", help="Another system's file, or a model: is the difference real?"),
]

Images = Annotated[Path | None, typer.Option("--images", metavar="DIR", help="For a model: where the photos are now.")]
FeaturesElsewhere = Annotated[
    Path | None,
    typer.Option("--features", metavar="DIR", help="For a model: features that lie elsewhere than in DATA."),
]


def _opened(data: Path, split: str | None, images: Path | None = None) -> tuple[Dataset, Photos]:
    """The data set, and the photos that are asked for."""
    from deixis.data.dataset import Dataset

    dataset = Dataset(data, images=images)
    return dataset, dataset.split(split) if split else dataset.photos


def _also(features: Path | None) -> Sequence[Path]:
    """Where to look for features besides the data set."""
    if features is None:
        return []
    from deixis.vision.store.manifest import read_manifest

    read_manifest(features)  # a wrong name is said here, and not passed over
    return [features]


@app.command()
def retrieval(
    scores: Scores = None,
    model: Model = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DATA", help="A data set directory.", show_default=False)
    ] = None,
    split: Split = None,
    captions_per_photo: Annotated[
        int | None, typer.Option(min=1, help="Instead of --data: sentence j belongs to photo j // N.")
    ] = None,
    against: Against = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write recall by percentage of the ranking: a .csv, or a drawing (.png, .svg)."
        ),
    ] = None,
    shortlist: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Of a model: a photo ranks the sentences of the N photos nearest to it, no others."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.npy", help="Of a model: keep its matrix, for --scores another time.")
    ] = None,
    images: Images = None,
    features: FeaturesElsewhere = None,
    json: Json = False,
) -> None:
    """Image→sentence and sentence→image: a matrix is photos × sentences, in the order of the data."""
    from deixis.evaluation.retrieval import recall_at_k

    owners, of_model, lists = None, None, None
    if (data is None) == (captions_per_photo is None):
        raise DeixisError("give --data DATA, or --captions-per-photo N for a matrix of no data set")
    if data is not None:
        owners, of_model = _photos_and_sentences(data, split, images, _also(features))
    if curve:
        from deixis.tasks.scores.curves import refuse_other_endings, write_curves

        refuse_other_endings(curve)
    if shortlist:
        if data is None or model is None or owners is None:
            raise DeixisError("--shortlist: needs --model and --data, whose photos say which are near to each other")
        lists = shortlists(model, *_opened(data, split, images), owners, shortlist, _also(features))
    results = answer_from_matrices(
        "retrieval",
        lambda matrix: recall_at_k(matrix, owners, captions_per_photo=captions_per_photo, i2t_shortlists=lists),
        systems_asked(scores, model, against),
        kept(of_model, out),
        (data, split, json),
    )
    if curve:
        note(write_curves(curve, results[0].rankings))


def _photos_and_sentences(
    data: Path, split: str | None, images: Path | None, also: Sequence[Path]
) -> tuple[Sequence[int], OfModel]:
    """The photo of each sentence, and how a model scores them all."""
    from deixis.evaluation.of_data import sentences_of

    dataset, photos = _opened(data, split, images)
    gold = sentences_of(photos)

    def of_model(model: Path, on_progress: OnProgress) -> Matrix:
        from deixis.tasks.bundle import load, writes_captions
        from deixis.tasks.scores.scoring import retrieval_scores, seen_photos

        if writes_captions(model):
            return captioner_retrieval(model, dataset, photos, gold.texts, also, on_progress)
        bundle = load(model)
        seen = seen_photos(bundle, dataset, photos, also=also, on_progress=on_progress)
        return retrieval_scores(bundle, seen.require_all(), gold.texts)

    return gold.photo_of_sentence, of_model


@app.command()
def sentences(
    data: Data,
    scores: Scores = None,
    model: Model = None,
    split: Split = None,
    against: Against = None,
    json: Json = False,
) -> None:
    """Sentence→sentence: a matrix is sentences × sentences; each asks for the others of its photo."""
    from deixis.evaluation.of_data import sentences_of
    from deixis.evaluation.retrieval import sentence_retrieval

    gold = sentences_of(_opened(data, split)[1])

    def of_model(model: Path, on_progress: OnProgress) -> Matrix:
        from deixis.tasks.bundle import load
        from deixis.tasks.scores.scoring import sentence_scores

        return sentence_scores(load(model), gold.texts)

    answer_from_matrices(
        "sentences",
        lambda matrix: sentence_retrieval(matrix, gold.photo_of_sentence),
        systems_asked(scores, model, against),
        of_model,
        (data, split, json),
    )


@app.command()
def regions(
    data: Data,
    scores: Scores = None,
    model: Model = None,
    split: Split = None,
    against: Against = None,
    images: Images = None,
    features: FeaturesElsewhere = None,
    json: Json = False,
) -> None:
    """Region→phrase: a matrix is gold regions × all phrases, in the order of the data."""
    from deixis.evaluation.of_data import regions_of
    from deixis.evaluation.retrieval import region_retrieval

    dataset, photos = _opened(data, split, images)
    gold = regions_of(photos)

    def of_model(model: Path, on_progress: OnProgress) -> Matrix:
        from deixis.tasks.bundle import load, writes_captions
        from deixis.tasks.pointing import gold_region_scores
        from deixis.tasks.scores.scoring import seen_photos

        if writes_captions(model):
            return captioner_regions(model, dataset, photos, gold, _also(features), on_progress)
        bundle = load(model)
        seen = seen_photos(bundle, dataset, photos, also=_also(features), on_progress=on_progress)
        return gold_region_scores(bundle, seen.require_all(), gold)

    answer_from_matrices(
        "regions",
        lambda matrix: region_retrieval(
            matrix, gold.positives, phrases=gold.phrases, photo_of_region=gold.photo_of_region
        ),
        systems_asked(scores, model, against),
        of_model,
        (data, split, json),
    )


@app.command()
def grounding(
    data: Data,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="FILE", help="JSON Lines, one phrase a line.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="NAME|DIR", help="A model, instead of --predictions."),
    ] = None,
    split: Split = None,
    protocol: Annotated[
        Literal["union", "any"], typer.Option(help="The union of the chain's boxes, as the papers, or any of them.")
    ] = "union",
    blind_split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where to learn the fixed boxes; train, if there is one.")
    ] = None,
    missing_as_wrong: Annotated[
        bool, typer.Option("--missing-as-wrong", help="Count phrases without a prediction as wrong.")
    ] = False,
    all_photos: Annotated[
        bool,
        typer.Option(
            "--all-photos",
            help="For a model: AP with each phrase ranked over the regions of all photos, as in Flickr30k Entities, "
            "and presence: is it in the photo at all? A minute or two for 1,000 photos, most of it for ap_nms; a "
            "similarity network takes an hour of CPU.",
        ),
    ] = False,
    against: Against = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For a model: write its predictions, as JSON Lines.")
    ] = None,
    images: Images = None,
    features: FeaturesElsewhere = None,
    json: Json = False,
) -> None:
    """Phrase localisation: a box for each phrase, beside the best box that never looks at the photo."""
    from deixis.evaluation.fixed_boxes import best_fixed_boxes
    from deixis.evaluation.grounding import compare_localization, localization
    from deixis.evaluation.localization_items import localization_items
    from deixis.evaluation.predictions import write_predictions

    systems = systems_asked(predictions, model, against, "--predictions FILE")
    if out and not model:
        raise DeixisError("--out: there is nothing to write without --model")
    if all_photos and (not model or against):
        raise DeixisError("--all-photos: scores one model; give --model DIR, and no --against")
    dataset, photos = _opened(data, split, images)
    items = localization_items(photos)
    blind_split = blind_split or ("train" if "train" in dataset.manifest.splits else None)
    blind = None
    if blind_split:
        with working(f"finding the best fixed boxes on {blind_split}"):
            blind = best_fixed_boxes(localization_items(dataset.split(blind_split)), protocol=protocol)
    given = [_predictions(system, dataset, photos, items, _also(features)) for system in systems]
    if out:
        write_predictions(out, given[0])
    missing: Literal["miss", "error"] = "miss" if missing_as_wrong else "error"
    with working(f"scoring {len(items):,} phrases"):
        result = localization(given[0], items, protocol=protocol, blind=blind, missing=missing)
        compared = (
            compare_localization(given[0], given[1], items, protocol=protocol, missing=missing) if against else {}
        )
    scores = result.as_json()
    if all_photos:
        found = _over_all_photos(systems[0], dataset, photos, items, protocol, _also(features))
        scores = with_all_photos(scores, found.precision.as_json(), found.presence.as_json())
    answer("grounding", systems[0].path, (data, split, json), scores, compared)


def _predictions(
    system: System, dataset: Dataset, photos: Photos, items: Sequence[Item], also: Sequence[Path]
) -> Sequence[Prediction | PhraseElsewhere]:
    """The boxes of a system for all items: from its file, or from a model."""
    if not system.is_model:
        from deixis.evaluation.predictions import read_predictions

        return read_predictions(system.path)
    from deixis.tasks.bundle import load
    from deixis.tasks.pointing import predictions_of
    from deixis.tasks.scores.scoring import seen_photos

    bundle = load(system.path)
    with progress() as on_progress:
        seen = seen_photos(bundle, dataset, photos, regions=True, also=also, on_progress=on_progress)
        return predictions_of(bundle, seen.require_all(), items, on_progress=on_progress)


def _over_all_photos(
    system: System,
    dataset: Dataset,
    photos: Photos,
    items: Sequence[Item],
    protocol: Literal["union", "any"],
    also: Sequence[Path],
) -> OverAllPhotos:
    """How well a model looks for phrases in photos that do not mention them, too."""
    from deixis.tasks.bundle import load
    from deixis.tasks.pointing import score_over_all_photos
    from deixis.tasks.scores.scoring import seen_photos

    bundle = load(system.path)
    with progress() as on_progress:
        seen = seen_photos(bundle, dataset, photos, regions=True, also=also, on_progress=on_progress)
        return score_over_all_photos(bundle, seen.require_all(), items, protocol=protocol, on_progress=on_progress)


@app.command()
def captions(
    data: Data,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="FILE", help="COCO's result format.", show_default=False)
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="DIR", help="A model that deixis train m-rnn made, instead of --predictions."),
    ] = None,
    split: Split = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="For a model: unfinished sentences kept at each word; 5, or 10 to rerank.")
    ] = None,
    length_power: Annotated[
        float, typer.Option(min=0, help="For a model: compare sentences by log-probability / words^N.")
    ] = 0.0,
    rerank: Annotated[
        Rerank,
        typer.Option(help="For a model: order its sentences by captions of like photos, or of the photo itself."),
    ] = "none",
    neighbours: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --rerank: what deixis train consensus made, unless kept with the model."
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="For a model: show 40 photos with captions, neighbours and scores."),
    ] = None,
    train_split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose captions are not novel; train, if there is one.")
    ] = None,
    against: Against = None,
    images: Images = None,
    features: FeaturesElsewhere = None,
    json: Json = False,
) -> None:
    """Captions: BLEU, CIDEr, ROUGE-L, METEOR, novelty and diversity, without Java; perplexity too for a model."""
    from deixis.evaluation.captions import CaptionScores, caption_scores, compare_captions
    from deixis.evaluation.captions.results_file import match_results, read_results
    from deixis.evaluation.of_data import sentences_of

    systems = systems_asked(predictions, model, against, "--predictions FILE")
    if model is None and (page or rerank != "none"):
        raise DeixisError(f"{'--page' if page else '--rerank'}: needs a model that writes; give --model DIR")
    dataset, photos = _opened(data, split, images)
    train_split = train_split or ("train" if "train" in dataset.manifest.splits else None)
    training = sentences_of(dataset.split(train_split)).texts if train_split else None
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in photos}

    def scored(system: System) -> CaptionScores | CaptionerScores:
        if system.is_model:
            writing = WritingAsked(beam, length_power, rerank, neighbours, page if system is systems[0] else None)
            return captioner_scores(system.path, dataset, photos, writing, training, _also(features))
        with working(f"scoring {len(references):,} photos"):
            return caption_scores(match_results(read_results(system.path), photos), references, training=training)

    results = [scored(system) for system in systems]
    own = [found if isinstance(found, CaptionScores) else found.captions for found in results]
    compared = compare_captions(*own) if against else {}
    answer("captions", systems[0].path, (data, split, json), results[0].as_json(), compared)
