"""``deixis data``: import, merge, split, check, convert and count data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.cli.output import (
    Data,
    Force,
    Images,
    Json,
    Out,
    Split,
    To,
    argument,
    flag,
    hint,
    note,
    note_first,
    numbers_table,
    option,
    plural,
    print_json,
    print_result,
    print_table,
    progress,
    show_name,
)
from deixis.errors import DeixisError
from deixis.storage.remote import photo_path

if TYPE_CHECKING:
    from deixis.data.derived import SplitRule
    from deixis.data.imports import CaptionFile, ImportReport
    from deixis.data.records import Caption, Photo
    from deixis.data.statistics import Statistics

app = typer.Typer(help="Import, merge, split, check, convert and count data sets.", no_args_is_help=True)


@app.command("import")
def import_(
    out: Out,
    images: Annotated[
        Path | None,
        option("DIR", "Photo folder or s3:// address. Annotations without a photo are skipped.", parser=photo_path),
    ] = None,
    captions: Annotated[
        list[str] | None,
        option(
            "[SPLIT=]FILE",
            "Captions: Flickr8k or Flickr30k tokens, results.csv, Karpathy's JSON, COCO, IAPR TC-12, region phrases, "
            "Label Studio, ODVG, JSON Lines or CSV. The format is detected from the content. Repeatable.",
        ),
    ] = None,
    entities: Annotated[Path | None, option("DIR|ZIP", "Flickr30k Entities: phrases, chains and boxes.")] = None,
    instances: Annotated[
        list[Path] | None, option("FILE", "COCO instances_*.json with boxes, one for each --captions.")
    ] = None,
    split: Annotated[list[str] | None, option("NAME=FILE", "List of photos, one name per line. Repeatable.")] = None,
    licence: Annotated[str | None, option("TEXT", "Licence of the data.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Create a data set directory from photos, captions and boxes."""
    from deixis.data.dataset import UNKNOWN_LICENCE
    from deixis.data.imports import import_dataset

    lists = _assignments("--split", split or [], "NAME=FILE, such as --split dev=devImages.txt")
    with progress() as on_progress:
        report = import_dataset(
            out,
            images=images,
            captions=_caption_files(captions or [], instances or []),
            entities=entities,
            splits={name: Path(file) for name, file in lists.items()},
            licence=licence or UNKNOWN_LICENCE,
            replace_old=force,
            on_progress=on_progress,
        )
    _print_import(report, out, json)


def _caption_files(captions: list[str], instances: list[Path]) -> list[CaptionFile]:
    from deixis.data.imports import CaptionFile

    if instances and len(instances) != len(captions):
        raise DeixisError("--instances: use one for each --captions, in the same order")
    files = []
    for index, text in enumerate(captions):
        split, equals, file = text.partition("=")
        named = bool(equals and file) and not Path(text).exists()  # a file name may contain =
        boxes = instances[index] if instances else None
        files.append(CaptionFile(Path(file if named else text), boxes, split if named else None))
    return files


def _assignments(option: str, texts: Sequence[str], form: str) -> dict[str, str]:
    """Return the values of a repeated option by their names."""
    found: dict[str, str] = {}
    for text in texts:
        name, value = _assignment(option, text, form)
        if name in found:
            raise DeixisError(f"{option} {name} is used twice")
        found[name] = value
    return found


def _assignment(option: str, text: str, form: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise DeixisError(f"{option} {text}: expected {form}")
    return name, value


def _print_import(report: ImportReport, out: Path, json: bool) -> None:
    if json:
        left_out = {
            "annotations_without_photo": report.without_photo,
            "photos_without_annotation": report.photos_without_caption,
            "split_names_not_in_data": report.not_in_data,
            "photos_of_same_name": report.same_name,
        }
        skipped = [{"path": error.path, "reason": error.reason} for error in report.unreadable]
        document = {"out": str(out), **report.counts, "splits": report.splits}
        print_json(document | {"left_out": left_out, "skipped": skipped})
        return
    nouns = {"photos": "photo", "captions": "caption", "mentions": "mention", "chains": "chain"}
    counts = [plural(report.counts[name], noun) for name, noun in nouns.items()]
    print(f"{out}: {', '.join(counts)}, {plural(report.counts['boxes'], 'box', 'boxes')}")
    _print_splits(report.splits)
    if report.without_photo:
        note(f"skipped: {plural(report.without_photo, 'annotation')} without a photo")
    if report.photos_without_caption:
        note(f"skipped: {plural(report.photos_without_caption, 'photo')} without an annotation")
    for split, count in report.not_in_data.items():
        if count:
            note(f"split {split}: {plural(count, 'name')} of its list not found in the data")
    for name in report.same_name:
        note(f"skipped: {show_name(name)}; another photo has the same name")
    note_first("skipped", report.unreadable)
    print(f"next: deixis data stats {out}")


def _print_splits(splits: Mapping[str, int]) -> None:
    if splits:
        print("splits: " + ", ".join(f"{name} {count:,}" for name, count in splits.items()))


@app.command()
def merge(
    data: Annotated[list[Path], argument("DATA…", "Data set directories.")],
    out: Out,
    split: Annotated[
        list[str] | None,
        option(
            "NAME=DATA:SPLIT,…",
            "A split and its parts, such as train=flickr8k:train,coco:train. DATA is the name of a directory without "
            ".data. Photos in no such split are left out. Repeatable. By default all photos are kept and splits of "
            "the same name are joined.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Merge data sets into one. Photos stay where they are."""
    from deixis.data.derived import merge_datasets

    with progress() as on_progress:
        report = merge_datasets(
            out, data, splits=_split_parts(split) if split else None, replace_old=force, on_progress=on_progress
        )
    if json:
        document = {"out": str(out), **report.counts, "splits": report.splits}
        print_json({**document, "same_photo": report.same_photo, "renamed": report.renamed})
        return
    print(f"{out}: {plural(report.counts['photos'], 'photo')}, {plural(report.counts['captions'], 'caption')}")
    _print_splits(report.splits)
    if report.same_photo:
        note(f"skipped: {plural(report.same_photo, 'photo')} of which an earlier data set has the same file")
    if report.renamed:
        note(f"renamed: {plural(len(report.renamed), 'photo')} whose id was taken, such as {report.renamed[0]}")


@app.command("split")
def split_(
    data: Data,
    out: Out,
    rule: Annotated[
        str | None,
        option(
            "NAME",
            "The papers' splits: coco (4,000 dev and 1,000 test photos of val), flickr30k (1,000 and 1,000), iapr "
            "(1,000 dev photos of train).",
        ),
    ] = None,
    draw: Annotated[
        list[str] | None,
        option(
            "NAME=N[:SPLIT]", "Draw N photos, of all or of a split, as a new split, such as dev=1000:train. Repeatable."
        ),
    ] = None,
    rest: Annotated[str | None, option("NAME", "Split of all photos that are not drawn.")] = None,
    seed: Annotated[int, option("N", "Random seed.", min=0)] = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw new splits at random. Photos stay where they are."""
    from deixis.data.derived import split_dataset

    with progress() as on_progress:
        manifest = split_dataset(
            out, data, _split_rule(rule, draw or [], rest), seed=seed, replace_old=force, on_progress=on_progress
        )
    if json:
        print_json({"out": str(out), "photos": manifest.counts["photos"], "splits": manifest.splits, "seed": seed})
        return
    print(f"{out}: {plural(manifest.counts['photos'], 'photo')}, seed {seed}")
    _print_splits(manifest.splits)


def _split_rule(rule: str | None, draws: list[str], rest: str | None) -> SplitRule:
    from deixis.data.derived import RULES, Draw, SplitRule

    if rule is not None:
        if draws or rest:
            raise DeixisError("--rule: has its own draws; leave out --draw and --rest")
        if rule not in RULES:
            raise DeixisError(f"--rule {rule}: no such rule; the rules are: {', '.join(RULES)}")
        return RULES[rule]
    if not draws:
        raise DeixisError("give --rule NAME, or --draw NAME=N, such as --draw dev=1000")
    form, found = "NAME=N or NAME=N:SPLIT, such as dev=1000:train", []
    for text in draws:  # a split may be drawn from several
        name, value = _assignment("--draw", text, form)
        count, _, source = value.partition(":")
        if not count.isdecimal():
            raise DeixisError(f"--draw {text}: expected {form}")
        found.append(Draw(name, int(count), source))
    return SplitRule(tuple(found), rest)


def _split_parts(texts: list[str]) -> dict[str, list[tuple[str, str]]]:
    form, splits = "NAME=DATA:SPLIT,…, such as train=flickr8k:train,coco:train", {}
    for name, value in _assignments("--split", texts, form).items():
        parts = [part.partition(":") for part in value.split(",")]
        if not all(data and split for data, _, split in parts):
            raise DeixisError(f"--split {name}={value}: expected {form}")
        splits[name] = [(data, split) for data, _, split in parts]
    return splits


@app.command()
def stats(
    data: Data,
    split: Split = None,
    plot: Annotated[Path | None, option("FILE", "Draw Figure 2 to a file (.png, .svg or .pdf).")] = None,
    json: Json = False,
) -> None:
    """Print statistics of a data set.

    They are those of Table 1, Figure 2 and section 2.4 of the Flickr30k Entities paper.
    """
    from deixis.data.dataset import Dataset
    from deixis.data.statistics import compute_statistics, plot_types

    found = compute_statistics(Dataset(data), split)
    if plot:
        plot_types(found, plot)
    if json:
        print_json(asdict(found))
    else:
        print_statistics(found)
        if plot:
            hint(f"figure: {plot}")


def print_statistics(found: Statistics) -> None:
    """Print sentences and a table as in the paper."""
    print(
        f"{plural(found.photos, 'photo')} with {plural(found.captions, 'caption')} "
        f"({found.captions_per_photo:.1f} per photo, {found.tokens_per_caption:.1f} tokens per caption)."
    )
    if found.region_phrases:
        print(f"{plural(found.region_phrases, 'phrase')} that describe regions.")
    if not found.chains:
        boxes = f"{plural(found.boxes, 'box', 'boxes')}, none tied to a phrase" if found.boxes else "no boxes"
        print(f"No phrases are marked; {boxes}.")
        return
    print(
        f"{plural(found.mentions, 'mention')} ({found.mentions_per_caption:.1f} per caption; "
        f"{found.not_visual:,} more are not visual) in {plural(found.chains, 'chain')} "
        f"({found.chains_per_photo:.1f} per photo), {plural(found.boxes, 'box', 'boxes')} "
        f"({found.boxes_per_photo:.1f} per photo)."
    )
    print(
        f"{found.chains_with_several_mentions_percent:.1f} % of the chains have more than one mention. "
        f"{found.chains_with_one_box_percent:.1f} % have one box, "
        f"{found.chains_with_several_boxes_percent:.1f} % several, {found.chains_without_box_percent:.1f} % none."
    )
    numbers = ("chains", "mentions", "boxes", "mentions/chain", "boxes/chain", "% of photos")
    table = numbers_table("type", numbers)
    for row in found.types:
        counts = (f"{row.chains:,}", f"{row.mentions:,}", f"{row.boxes:,}")
        per_chain = (f"{row.mentions_per_chain:.2f}", f"{row.boxes_per_chain:.2f}")
        table.add_row(row.type, *counts, *per_chain, f"{row.photos_percent:.1f}")
    table.add_section()
    totals = (f"{found.chains:,}", f"{found.mentions:,}", f"{found.boxes:,}")
    table.add_row("total", *totals, f"{found.mentions_per_chain:.2f}", f"{found.boxes_per_chain:.2f}", "")
    print_table(table)


@app.command()
def check(
    data: Data,
    decode: Annotated[bool, flag("--decode", "Decode every photo in full; slower.")] = False,
    strict: Annotated[bool, flag("--strict", "Exit with 2 for any problem, not only for damage.")] = False,
    images: Annotated[str | None, option("DIR", "Where the photos are now; the data set remembers it.")] = None,
    json: Json = False,
) -> None:
    """Find problems in a data set, and print how to fix them."""
    from deixis.data.checks import DAMAGE, check_dataset
    from deixis.data.dataset import Dataset, move_images

    if images is not None:
        move_images(data, images)
    with progress() as on_progress:
        problems = check_dataset(Dataset(data), decode=decode, on_progress=on_progress)
    if json:
        print_json({"data": str(data), "problems": [problem.as_json() for problem in problems]})
    elif not problems:
        print(f"{data}: no problems found")
    else:
        for problem in problems:
            print(f"{problem.count:,} × {problem.kind}\n  fix: {problem.remedy}")
            for example in problem.examples:
                print(f"  - {show_name(example)}")
            if problem.count > len(problem.examples):
                print(f"  … and {problem.count - len(problem.examples):,} more")
    counted = [problem for problem in problems if strict or problem.kind in DAMAGE]
    if counted:
        total = sum(problem.count for problem in counted)
        raise DeixisError(f"{data}: {plural(total, 'problem')} of {plural(len(counted), 'kind')}")


@app.command()
def convert(
    data: Data,
    to: To,
    out: Out,
    split: Split = None,
    with_photos: Annotated[bool, flag("--with-photos", "Include the image files.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Convert a data set to the format of another tool."""
    from deixis.data.dataset import Dataset
    from deixis.data.formats import convert_dataset

    with progress() as on_progress:
        count = convert_dataset(
            Dataset(data), to, out, split=split, with_photos=with_photos, replace_old=force, on_progress=on_progress
        )
    document = {"out": str(out), "format": to, "photos": count}
    print_result(json, document, f"{out}: {plural(count, 'photo')} as {to}")


@app.command()
def show(
    data: Data,
    photo: Annotated[str, argument("ID", "Id of a photo, or its file name.")],
    out: Annotated[Path | None, option("FILE", "Picture to write (default: ID.png).", "--out")] = None,
    images: Images = None,
    json: Json = False,
) -> None:
    """Draw a photo with its captions, phrases and gold boxes."""
    from deixis.data.dataset import Dataset
    from deixis.data.images import open_photo
    from deixis.pictures.grounded import check_picture_name, draw_annotations, save_picture

    dataset = Dataset(data, images=images)
    found = dataset.find_photo(photo)
    picture = out or Path(f"{found.id}.png")
    check_picture_name(picture)
    save_picture(draw_annotations(found, open_photo(dataset.path_of(found))), picture)
    if json:
        captions = [{"text": each.text, "phrases": _phrases(found, each)} for each in found.sentences]
        print_json({"photo": found.id, "picture": str(picture), "captions": captions})
        return
    counts = (plural(len(found.sentences), "caption"), plural(len(found.boxes), "box", "boxes"))
    print(f"{picture}: photo {found.id} with {' and '.join(counts)}")
    if not found.boxes:
        note("the data set has no boxes for this photo")


def _phrases(photo: Photo, caption: Caption) -> list[dict[str, Any]]:
    return [
        {
            "text": caption.phrase(mention),
            "span": [mention.start, mention.end],
            "chain": mention.chain,
            "types": list(mention.types),
            "boxes": [list(box.xyxy) for box in photo.boxes_of(mention.chain or "")],
        }
        for mention in caption.mentions
    ]
