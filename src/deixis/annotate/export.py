"""Export: a project becomes a data set again, with the provenance of each chain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sqlalchemy import select

from deixis import geometry
from deixis.annotate.chains import ChainState, proposed_boxes_for
from deixis.annotate.events import IMPORTED, Corrected, Event, Judged, ProposedBoxes, ProposedLinks, effective_events
from deixis.annotate.guidelines import read_guideline_history
from deixis.annotate.judgements import PhotoSnapshot
from deixis.annotate.own_question import ANSWERS_FILE, read_answers
from deixis.annotate.project import Project
from deixis.annotate.settings import Settings
from deixis.annotate.state import linked_by
from deixis.annotate.store import photos
from deixis.annotate.workflow import XYXY, Answer, Status, Task
from deixis.data.formats import write_as
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError
from deixis.storage.atomic import new_directory
from deixis.storage.progress import OnProgress, no_progress, track

PROVENANCE_FILE = "provenance.jsonl"
GUIDELINES_FILE = "guidelines.jsonl"
PICTURES = "pictures"


@dataclass(frozen=True, slots=True)
class ChainBoxes:
    """A chain before merging."""

    name: str
    types: tuple[str, ...]
    boxes: tuple[XYXY, ...]


@dataclass(frozen=True, slots=True)
class MergedBox:
    """The mean of drawn boxes that were merged, with the names of their chains and the types of these."""

    chains: tuple[str, ...]
    types: frozenset[str]
    drawn: tuple[XYXY, ...]

    @property
    def xyxy(self) -> XYXY:
        x1, y1, x2, y2 = np.mean(self.drawn, axis=0).tolist()
        return x1, y1, x2, y2


def merge_boxes(chains: Sequence[ChainBoxes], settings: Settings) -> tuple[list[MergedBox], dict[str, str]]:
    """Merge the boxes of a photo, then the chains with equal boxes (section 2.3 of the paper).

    Return the merged boxes, and for every chain the name of the chain that it was merged into.
    """
    boxes = [MergedBox((chain.name,), frozenset(chain.types), (box,)) for chain in chains for box in chain.boxes]
    while (pair := _closest_pair(boxes, settings)) is not None:
        first, second = boxes[pair[0]], boxes.pop(pair[1])
        names = tuple(dict.fromkeys(first.chains + second.chains))
        boxes[pair[0]] = MergedBox(names, first.types | second.types, first.drawn + second.drawn)
    merged_into: dict[str, str] = {}
    first_with: dict[frozenset[int], str] = {}
    for chain in chains:
        numbers = frozenset(number for number, box in enumerate(boxes) if chain.name in box.chains)
        merged_into[chain.name] = first_with.setdefault(numbers, chain.name) if numbers else chain.name
    kept = [replace(box, chains=tuple(dict.fromkeys(merged_into[name] for name in box.chains))) for box in boxes]
    return kept, merged_into


def _closest_pair(boxes: Sequence[MergedBox], settings: Settings) -> tuple[int, int] | None:
    """Return the two boxes with the highest IoU of those that may be merged."""
    if len(boxes) < 2:
        return None
    sides = [box.xyxy for box in boxes]
    overlaps = geometry.iou(sides, sides)
    best, highest = None, 0.0
    for first, second in combinations(range(len(boxes)), 2):
        one, other = boxes[first].types, boxes[second].types
        needed = settings.merge_iou_other if "other" in one | other else settings.merge_iou
        overlap = float(overlaps[first, second])
        if overlap > highest and overlap >= needed and not _never_merged(one, other, settings):
            best, highest = (first, second), overlap
    return best


def _never_merged(one: frozenset[str], other: frozenset[str], settings: Settings) -> bool:
    return any((a in one and b in other) or (b in one and a in other) for a, b in settings.never_merged)


def describe_proposals(chains: Sequence[ChainState], events: Sequence[Event]) -> dict[str, Any] | None:
    """Describe for the provenance what models proposed for a chain, and what workers decided; None without proposals.

    `chains` are all chains that were merged into one. ``links``: the model, how many mentions it joined to the chain,
    how often it kept one of them apart, how many workers joined, and the judgements that rejected its chains.
    ``boxes``: the model, the verdict on each box that workers saw, and the number of boxes not shown.
    """
    counted = effective_events(events)
    found: dict[str, Any] = {}
    for event in counted:
        if isinstance(event, ProposedLinks):
            found["links"] = _describe_model(event) | _describe_links(chains, event, counted)
        elif isinstance(event, ProposedBoxes):
            found["boxes"] = _describe_model(event) | _describe_boxes(chains, event, counted)
    return found or None


def _describe_model(event: ProposedLinks | ProposedBoxes) -> dict[str, Any]:
    return {"model": event.model, "fingerprint": event.fingerprint, "event": event.number}


def _describe_links(chains: Iterable[ChainState], event: ProposedLinks, events: Iterable[Event]) -> dict[str, Any]:
    answers = [
        (number, transition.answers)
        for chain in chains
        for number, transition in chain.transitions
        if transition.stage is Task.LINK
    ]
    by_model = [answer for number, answer in answers if number == event.number]
    by_workers = [answer for number, answer in answers if number != event.number]
    mentions = {mention.id for chain in chains for mention in chain.mentions}
    rejections = [
        judged.number
        for judged in events
        if isinstance(judged, Judged)
        and judged.task is Task.VERIFY
        and judged.answer is Answer.NO
        and mentions & set(judged.subject.split())
    ]
    return {
        "joined_by_model": sum(Answer.YES in answer for answer in by_model),
        "kept_apart_by_model": sum(Answer.NO in answer for answer in by_model),
        "joined_by_people": sum(Answer.YES in answer for answer in by_workers),
        "refused_by": rejections,
    }


def _describe_boxes(chains: Iterable[ChainState], event: ProposedBoxes, events: Sequence[Event]) -> dict[str, Any]:
    verdicts = {
        judged.subject.split()[-1].removeprefix("?"): judged
        for judged in events
        if isinstance(judged, Judged) and judged.task is Task.QUALITY
    }
    shown, not_shown = [], 0
    for chain in chains:
        for box in proposed_boxes_for(event, chain.mentions):
            verdict = verdicts.get(box.id)
            if verdict is None:
                not_shown += 1
                continue
            shown.append(
                {
                    "box": list(box.xyxy),
                    "probability": box.proposed.probability if box.proposed else None,
                    "said": verdict.answer,
                    "judged_by": verdict.number,
                }
            )
    return {"judged": shown, "not_shown": not_shown}


def export_photo(snapshot: PhotoSnapshot, settings: Settings) -> tuple[Photo, list[dict[str, Any]]]:
    """Convert a photo with merged chains and boxes, and describe the provenance of each chain.

    Chains that have not ended are marked as not annotated.
    """
    material = snapshot.material
    chains, boxes, merged_into = _merge_chains(snapshot, settings)
    kept = [name for name in chains if merged_into[name] == name]
    new_ids = {name: str(number) for number, name in enumerate(kept, start=1)}
    mentions: list[list[Mention]] = [[] for _ in material.captions]
    for name, chain in chains.items():
        for each in chain.mentions:
            mentions[each.caption].append(Mention(each.start, each.end, new_ids[merged_into[name]], each.types))
    captions = [
        Caption.from_text(text, tuple(sorted(found, key=lambda mention: mention.start)))
        for text, found in zip(material.captions, mentions, strict=True)
    ]
    photo = Photo(
        material.photo,
        tuple(captions),
        tuple(_make_chain(new_ids[name], chains[name]) for name in kept),
        tuple(Box(box.xyxy, tuple(new_ids[name] for name in box.chains)) for box in boxes),
        material.width,
        material.height,
        material.file,
        material.splits,
        AnnotationSource(material.photo, material.file or material.photo, material.width, material.height, 3),
        material.sha256,
    )
    provenance = []
    for name in kept:
        parts = [chains[other] for other, target in merged_into.items() if target == name]
        provenance.append({"photo": photo.id, "chain": new_ids[name]} | _describe_provenance(parts, snapshot))
    return photo, provenance


def _merge_chains(
    snapshot: PhotoSnapshot, settings: Settings
) -> tuple[dict[str, ChainState], list[MergedBox], dict[str, str]]:
    """Return the chains by name, the merged boxes, and for every chain the one that it was merged into."""
    chains = {str(number): chain for number, chain in enumerate(snapshot.state.chains, start=1)}
    drawn = [ChainBoxes(name, chain.types, _final_boxes(chain)) for name, chain in chains.items()]
    return chains, *merge_boxes(drawn, settings)


def model_boxes(snapshot: PhotoSnapshot, settings: Settings) -> set[XYXY]:
    """Return the exported boxes of a photo that only models have drawn, and people accepted."""
    proposed = {
        box.xyxy
        for chain in snapshot.state.chains
        if chain.workflow
        for box in chain.workflow.boxes
        if box.proposed and box.proposed.model != IMPORTED
    }
    return {box.xyxy for box in _merge_chains(snapshot, settings)[1] if proposed.issuperset(box.drawn)}


def _final_boxes(chain: ChainState) -> tuple[XYXY, ...]:
    workflow = chain.workflow
    return tuple(box.xyxy for box in workflow.boxes) if workflow and workflow.stage is Status.COMPLETE else ()


def _make_chain(chain_id: str, chain: ChainState) -> Chain:
    workflow = chain.workflow
    if workflow is None or not workflow.ended:
        return Chain(chain_id, annotated=False)
    not_visual = workflow.stage is Status.NOT_VISUAL
    return Chain(chain_id, scene=not_visual and workflow.is_scene, no_box=not_visual and not workflow.is_scene)


def _describe_provenance(chains: Sequence[ChainState], snapshot: PhotoSnapshot) -> dict[str, Any]:
    """Describe who judged and drew what, for chains that were merged into one."""
    by_number = {event.number: event for event in snapshot.events}
    steps = sorted(
        {
            (event, transition.stage.value, transition.target.value)
            for chain in chains
            for event, transition in chain.transitions
            if not isinstance(by_number[event], ProposedLinks)
        }
    )
    proposed = describe_proposals(chains, snapshot.events)
    workflows = [chain.workflow for chain in chains if chain.workflow]
    voters = _find_drawing_voters(chains, by_number)
    return {
        "mentions": [mention.id for chain in chains for mention in chain.mentions],
        "state": workflows[0].stage.value if workflows else "linking",
        "merged_from": len(chains),
        "judgements": [
            {"event": event, "worker": by_number[event].worker, "at": stage, "to": target}
            | ({"guideline": judged.guideline} if isinstance(judged := by_number[event], Judged) else {})
            for event, stage, target in steps
        ],
        "drawn": [
            {"box": list(box.xyxy), "worker": box.worker}
            | ({"proposed_by": box.proposed.model} if box.proposed else {})
            | ({"drawn_by_voter": True} if box.worker in voters else {})
            for workflow in workflows
            for box in workflow.boxes
        ],
        "verified_by_others": _verified_by_others(chains, snapshot),
        "reviewed": any(stage == Status.REVIEW.value for _, stage, _ in steps),
        "judges": len({by_number[event].worker for event, stage, _ in steps if stage in set(Task)}),
        "corrected": [
            {"event": event.number, "worker": event.worker, "action": event.action}
            for number in sorted({number for chain in chains for number in chain.corrected})
            if isinstance(event := by_number[number], Corrected)
        ],
    } | ({"proposed": proposed} if proposed else {})


def _find_drawing_voters(chains: Sequence[ChainState], by_number: Mapping[int, Event]) -> set[str]:
    """Return who said that a box was missing and then drew it (`Rules.voters_may_draw`), unlike in the paper."""
    found = set()
    for chain in chains:
        asked_for = ""
        for number, transition in chain.transitions:
            worker = by_number[number].worker
            if transition.stage is Task.DRAWING and worker == asked_for:
                found.add(worker)
            asked_for = worker if transition.target is Task.DRAWING else ""
    return found


def _verified_by_others(chains: Sequence[ChainState], snapshot: PhotoSnapshot) -> bool | None:
    """Whether nobody verified their own links; None if nobody had to verify."""
    by_number = {event.number: event for event in snapshot.events}
    links = [event for event in snapshot.events if isinstance(event, Judged) and event.task in (Task.LINK, Task.GROUP)]
    found = [
        by_number[number].worker not in linked_by(chain, links)
        for chain in chains
        for number, transition in chain.transitions
        if transition.stage is Task.VERIFY
    ]
    return all(found) if found else None


def export_project(
    project: Project,
    format_name: str,
    out: Path,
    *,
    unfinished: bool = False,
    with_photos: bool = False,
    pictures: bool = False,
    replace: bool = False,
    on_progress: OnProgress = no_progress,
) -> tuple[int, int]:
    """Write a data set with its provenance; return the numbers of photos written and left out as unfinished.

    ``provenance.jsonl`` describes each chain, ``answers.jsonl`` has the answers to the lead's own question, and
    ``guidelines.jsonl`` the versions of the guidelines that the provenance names.
    `pictures` adds a folder with drawings of the photos, in which boxes of models are dotted and labelled.
    """
    option = "--with-photos" if with_photos else "--pictures"
    if (with_photos or pictures) and project.images is None:
        raise DeixisError(f"{project.folder}: the project has no image files; export without {option}")
    with project.database.reading() as connection:
        rows = connection.execute(
            select(photos.c.id, photos.c.finished).where(photos.c.known.is_(False)).order_by(photos.c.place)
        ).all()
    selected = [row.id for row in rows if unfinished or row.finished]
    if not selected:
        raise DeixisError(f"{project.folder}: no photo is finished; include unfinished photos (--unfinished)")
    inputs = [project.folder, project.images, *project.more_images]
    with new_directory(out, replace=replace, inputs=inputs) as folder, TemporaryDirectory() as linked:
        _write_guidelines(project, folder / GUIDELINES_FILE)
        exported = _export_photos(project, selected, folder, on_progress)
        if pictures:
            exported = _draw_photos(project, exported, folder / PICTURES)
        images = project.images if with_photos else None
        if with_photos and project.more_images:  # writers read one folder
            images = Path(linked)
            exported = _link_photos(project, exported, images)
        write_as(exported, format_name, folder, images=images)
    return len(selected), len(rows) - len(selected)


def image_folders(project: Project) -> list[Path]:
    """List the folders of the photos to annotate, without those of known answers."""
    with project.database.reading() as connection:
        materials = connection.scalars(select(photos.c.material).where(photos.c.known.is_(False)))
        numbers = sorted({material.get("folder", 0) for material in materials})
    folders = (project.image_folder(number) for number in numbers)
    return [folder for folder in folders if folder is not None]


def _export_photos(project: Project, selected: list[str], folder: Path, on_progress: OnProgress) -> Iterator[Photo]:
    with ExitStack() as opened:
        own, names = project.settings.question, [PROVENANCE_FILE]
        names += [ANSWERS_FILE] if own else []
        files = [opened.enter_context((folder / name).open("w", encoding="utf-8", newline="\n")) for name in names]
        for photo in track(selected, "writing", len(selected), on_progress):
            snapshot = project.read_photo(photo)
            exported, provenance = export_photo(snapshot, project.settings)
            answers = ({"photo": photo} | asdict(answer) for answer in read_answers(snapshot, own))
            for file, lines in zip(files, (provenance, answers), strict=False):
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            yield exported


def _write_guidelines(project: Project, path: Path) -> None:
    versions = [(task, guideline) for task in Task for guideline in read_guideline_history(project, task)]
    lines = [json.dumps({"task": task.value} | asdict(guideline), ensure_ascii=False) for task, guideline in versions]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def _draw_photos(project: Project, exported: Iterable[Photo], folder: Path) -> Iterator[Photo]:
    """Draw each photo with its phrases and boxes."""
    from deixis.data.images import open_photo
    from deixis.pictures.grounded import draw_annotations, save_picture

    folder.mkdir()
    for number, photo in enumerate(exported, start=1):
        snapshot = project.read_photo(photo.id)
        images = project.image_folder(snapshot.material.folder)
        if photo.file is not None and images is not None:
            drawn = draw_annotations(photo, open_photo(images / photo.file), model_boxes(snapshot, project.settings))
            name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in photo.id)
            save_picture(drawn, folder / f"{number:05}-{name[:80]}.jpg")
        yield photo


def _link_photos(project: Project, exported: Iterable[Photo], images: Path) -> Iterator[Photo]:
    """Link the files of photos from several folders into one."""
    for photo in exported:
        folder = project.image_folder(project.read_photo(photo.id).material.folder)
        if photo.file is not None and folder is not None:
            link = images / photo.file
            link.parent.mkdir(parents=True, exist_ok=True)
            if link.is_symlink():
                raise DeixisError(f"photo {photo.id}: another photo is also named {photo.file}; rename one of them")
            link.symlink_to(folder / photo.file)
        yield photo
