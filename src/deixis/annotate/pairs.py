"""The human check of phrase–region correspondences: read pairs from files, add them to a project, and score them.

The HM-LSTM paper (section 5.3.2) draws 2,000 pairs at random, asks ten people about each and counts those that most of
them call right. The files are those of training (``N-correspondences.jsonl``) or prediction files of any system
(`deixis.evaluation.predictions`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from deixis import geometry
from deixis.annotate.events import AddedPairs
from deixis.annotate.judgements import MIN_BOX_SIDE, change_photo
from deixis.annotate.known_answers import (
    CLEARLY_BAD_IOU,
    RIGHT_REGION,
    WRONG_REGION,
    KnownQuestion,
    add_known_photos,
    clearly_bad_box,
)
from deixis.annotate.material import Material, chains_by_mention, prepare_photo
from deixis.annotate.people import find_or_add_model
from deixis.annotate.project import (
    PAIRS_PROPERTY,
    Additions,
    Project,
    Source,
    add_image_folder,
    add_photos,
    make_project,
    readable_photos,
)
from deixis.annotate.state import VoteState
from deixis.annotate.store import photos, write_property
from deixis.annotate.workflow import XYXY, Answer, DrawnBox, Question, Task
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.agreement import Judgement, krippendorff_alpha
from deixis.evaluation.intervals import Interval, bootstrap, ratio_of
from deixis.language.sentence import Sentence
from deixis.storage.atomic import explain_os_errors
from deixis.storage.files import hash_file
from deixis.storage.progress import OnProgress, no_progress

CORRESPONDENCES = "deixis-correspondences"


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """A phrase of a photo, by its mention id, and the region that a model chose for it."""

    photo: str
    mention: str
    region: XYXY
    confidence: float


def read_pairs(path: Path, by_id: Mapping[str, Photo]) -> list[PhrasePair]:
    """Read the pairs of a file whose photos are in `by_id`, in the order of the file."""
    with explain_os_errors(path), path.open("rb") as lines:
        first = lines.readline()
    try:
        header = json.loads(first)
        is_correspondences = isinstance(header, dict) and header.get("format") == CORRESPONDENCES
    except (ValueError, RecursionError):
        raise DeixisError(f"{path}: line 1 is not JSON; expected correspondences or predictions") from None
    found = _read_correspondences(path, by_id) if is_correspondences else _read_predictions(path, by_id)
    pairs = list(found)
    if not pairs:
        raise DeixisError(f"{path}: no phrase of a photo of this data set")
    return pairs


def _read_correspondences(path: Path, by_id: Mapping[str, Photo]) -> Iterator[PhrasePair]:
    with path.open(encoding="utf-8") as lines:
        next(lines)
        for number, line in enumerate(lines, start=2):
            try:
                document = json.loads(line)
                photo = by_id.get(document["photo"])
                if photo is None:
                    continue
                seen: dict[tuple[int, str], int] = {}
                for phrase in document["phrases"]:
                    key = (phrase["sentence"], phrase["text"])
                    span = _find_phrase(photo.sentences[phrase["sentence"]].text, phrase["text"], seen.get(key, 0))
                    seen[key] = seen.get(key, 0) + 1
                    if span is not None:
                        mention = f"{phrase['sentence']}:{span[0]}-{span[1]}"
                        yield PhrasePair(photo.id, mention, tuple(phrase["box"]), float(phrase["confidence"]))
            except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
                raise DeixisError(f"{path}: line {number} is damaged ({type(error).__name__}: {error})") from None


def _find_phrase(caption: str, phrase: str, occurrence: int) -> tuple[int, int] | None:
    """Find the words of a phrase in a caption; phrases with the same words are found one after another."""
    tokens, words = Sentence(caption).tokens, phrase.casefold().split()
    starts = [
        start
        for start in range(len(tokens) - len(words) + 1)
        if words and [token.text.casefold() for token in tokens[start : start + len(words)]] == words
    ]
    if not starts:
        return None
    start = starts[min(occurrence, len(starts) - 1)]
    return tokens[start].start, tokens[start + len(words) - 1].end


def _read_predictions(path: Path, by_id: Mapping[str, Photo]) -> Iterator[PhrasePair]:
    from deixis.evaluation.predictions import Prediction, read_predictions

    for prediction in read_predictions(path):
        if not isinstance(prediction, Prediction) or prediction.photo not in by_id or not len(prediction.boxes):
            continue
        best = int(prediction.scores.argmax())
        x1, y1, x2, y2 = prediction.boxes[best].tolist()
        mention = f"{prediction.caption}:{prediction.span[0]}-{prediction.span[1]}"
        yield PhrasePair(prediction.photo, mention, (x1, y1, x2, y2), float(prediction.scores[best]))


def sample_pairs(pairs: Sequence[PhrasePair], count: int, seed: int = 0) -> list[PhrasePair]:
    """Draw pairs at random, without repetition, in the order of the file."""
    if count >= len(pairs):
        return list(pairs)
    chosen = random.Random(seed).sample(range(len(pairs)), count)  # noqa: S311 - no secret
    return [pairs[number] for number in sorted(chosen)]


def create_with_pairs(
    folder: Path,
    source: Source,
    file: Path,
    *,
    known: Source | None = None,
    sample: int = 2000,
    url: str | None = None,
    on_progress: OnProgress = no_progress,
) -> tuple[Project, Additions]:
    """Create a project in which people judge `sample` random phrase–region pairs of a file.

    `source` has the photos of the file, and `known` annotated photos for tests and hidden checks.
    """
    drawn = sample_pairs(read_pairs(file, {photo.id: photo for photo in source.photos}), sample)
    named = {pair.photo for pair in drawn}
    photos = [photo for photo in source.photos if photo.id in named]
    project = make_project(folder, url=url, images=source.data.images)
    added = Additions(photos=len(photos))
    if known is not None:
        number = add_image_folder(project, known.data.images)
        others = [photo for photo in known.photos if photo.id not in named]
        usable = readable_photos(others, known.data.images, "known answers", added.skipped, on_progress)
        added.known_questions = add_known_photos(project, usable, folder=number, make=make_known_pairs)
    usable = readable_photos(photos, source.data.images, "pairs", added.skipped, on_progress)
    added.pairs = add_pairs(project, usable, drawn, file)
    return project, added


def add_pairs(project: Project, annotated: Iterable[Photo], pairs: Iterable[PhrasePair], path: Path) -> int:
    """Add photos with pairs to judge, and nothing else to ask about them; return the number of pairs."""
    by_photo: dict[str, list[PhrasePair]] = {}
    for pair in pairs:
        by_photo.setdefault(pair.photo, []).append(pair)
    fingerprint, count = hash_file(path)[:12], 0
    for photo in annotated:
        if photo.id not in by_photo:
            continue
        material = replace(prepare_photo(photo), mentions=())
        chosen = [(pair.mention, region) for pair in by_photo[photo.id] if (region := _clip(pair, material))]
        if not chosen:
            continue
        add_photos(project, [material])
        with change_photo(project, photo.id) as transaction:
            worker = find_or_add_model(project, transaction.connection, path.name, fingerprint)
            body = {"model": path.name, "fingerprint": fingerprint, "pairs": chosen}
            transaction.add_event(f"{AddedPairs.kind}:{photo.id}:{fingerprint}", worker, AddedPairs.kind, body)
            transaction.apply()
        count += len(chosen)
    with project.database.writing() as connection:
        write_property(connection, PAIRS_PROPERTY, str(count))
    return count


def _clip(pair: PhrasePair, material: Material) -> list[float] | None:
    """Return the region inside the photo with its confidence; None if nothing of it is inside."""
    material.mention_at(pair.mention)  # it must be in a caption
    x1, y1, x2, y2 = geometry.clip(pair.region, material.width, material.height).tolist()
    if x2 - x1 < MIN_BOX_SIDE or y2 - y1 < MIN_BOX_SIDE:
        return None
    return [x1, y1, x2, y2, pair.confidence]


def make_known_pairs(photo: Photo, material: Material, rng: random.Random) -> Iterator[KnownQuestion]:
    """Make a right and a wrong pair of each chain with boxes: the region of all its boxes, and one far from them."""
    regions: dict[str, XYXY] = {}
    for chain in photo.chains:
        if boxes := [box.xyxy for box in photo.boxes_of(chain.id)]:
            x1, y1, x2, y2 = geometry.union(boxes).tolist()
            regions[chain.id] = (x1, y1, x2, y2)
    size = (material.width, material.height)
    for name, own in chains_by_mention(photo, material).items():
        region = regions.get(own)
        if region is None:
            continue
        right = tuple(box.xyxy for box in photo.boxes_of(own))
        yield _known_pair(photo.id, name, region, Answer.RIGHT, RIGHT_REGION, right)
        others = [
            other for other in regions.values() if float(geometry.iou([other], [region])[0, 0]) < CLEARLY_BAD_IOU / 2
        ]
        wrong = rng.choice(others) if others else clearly_bad_box((region,), size, rng)
        if wrong is not None:
            yield _known_pair(photo.id, name, wrong, Answer.WRONG, WRONG_REGION, right)


def _known_pair(
    photo: str, mention: str, region: XYXY, answer: Answer, why: str, boxes: tuple[XYXY, ...]
) -> KnownQuestion:
    box = DrawnBox(f"k-{answer.value}", region, "")
    return KnownQuestion(Question(photo, Task.PAIR, (mention,), (), box), answer, why=why, right_boxes=boxes)


@dataclass(frozen=True, slots=True)
class PairScores:
    """The accuracy of pairs by the majority of the judges. The fields are JSON keys.

    `accuracy` is the share of right pairs among those whose vote has ended, with a 95 % bootstrap interval over photos.
    A tie does not count as right. `agreement` is Krippendorff's alpha of the votes.
    """

    pairs: int
    judged: int
    right: int
    ties: int
    judgements: int
    judges: int
    accuracy: float | None
    interval: tuple[float, float] | None
    agreement: float | None


def score_pairs(project: Project) -> PairScores:
    """Score the pairs of a project so far."""
    by_photo = read_pair_states(project)
    pairs = [pair for found in by_photo.values() for pair in found]
    ended = {photo: [pair for pair in found if not pair.is_open] for photo, found in by_photo.items()}
    ended = {photo: found for photo, found in ended.items() if found}
    judged = sum(map(len, ended.values()))
    right = [sum(bool(is_right(pair)) for pair in found) for found in ended.values()]
    votes = [
        Judgement(photo, pair.question.subject, vote.worker, vote.answer)
        for photo, found in by_photo.items()
        for pair in found
        if len(pair.workflow.votes) > 1
        for vote in pair.workflow.votes
    ]
    interval: Interval | None = None
    if len(ended) > 1:
        interval = bootstrap(ratio_of(right, [len(found) for found in ended.values()]), len(ended))
    return PairScores(
        pairs=len(pairs),
        judged=judged,
        right=sum(right),
        ties=sum(not pair.is_open and 2 * pair.answers.count(Answer.RIGHT) == len(pair.answers) for pair in pairs),
        judgements=sum(len(pair.answers) for pair in pairs),
        judges=len({vote.worker for pair in pairs for vote in pair.workflow.votes}),
        accuracy=sum(right) / judged if judged else None,
        interval=(interval.low, interval.high) if interval else None,
        agreement=krippendorff_alpha(votes, rounds=1).coefficient if votes else None,
    )


def is_right(pair: VoteState) -> bool | None:
    """Whether most votes say "right", so not after a tie; None while the vote is open."""
    return None if pair.is_open else 2 * pair.answers.count(Answer.RIGHT) > len(pair.answers)


def read_pair_states(project: Project) -> dict[str, list[VoteState]]:
    """Read the pairs of each photo."""
    with project.database.reading() as connection:
        names = connection.scalars(select(photos.c.id).where(photos.c.known.is_(False)).order_by(photos.c.place)).all()
        votes = {name: project.snapshots.read(connection, name).state.votes for name in names}
    found = {name: [vote for vote in each if vote.question.task is Task.PAIR] for name, each in votes.items()}
    return {name: pairs for name, pairs in found.items() if pairs}


def describe_pairs(project: Project) -> Iterator[dict[str, Any]]:
    """Describe each pair with its votes, for a file of JSON Lines."""
    for photo, pairs in read_pair_states(project).items():
        material = project.read_photo(photo).material
        for pair in pairs:
            yield {
                "photo": photo,
                "mention": pair.question.mention,
                "phrase": material.text_of(pair.question.mention),
                "box": pair.question.as_json()["new_box"],
                "confidence": pair.confidence,
                "model": pair.model,
                "votes_right": pair.answers.count(Answer.RIGHT),
                "votes_wrong": pair.answers.count(Answer.WRONG),
                "right": is_right(pair),
            }
