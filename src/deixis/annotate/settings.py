"""The settings of a project, which its owner edits in ``settings.json``."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import MISSING, asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from deixis.annotate.workflow import MAX_NUMBER, OwnQuestion, Rules
from deixis.errors import DeixisError
from deixis.storage.atomic import new_file
from deixis.storage.files import read_regular

ORDERS = ("added", "uncertain")

_SHARES = (
    *("history_accuracy", "test_accuracy", "first_accuracy", "first_boxes_good", "hidden_share", "rolling_accuracy"),
    *("good_box_iou", "good_groups", "merge_iou", "merge_iou_other"),
    *("links_yes_from", "links_no_below", "boxes_show_from"),
)
_COUNTS = (
    *("judgements_to_end", "votes_to_review", "bad_boxes_to_review", "held_at_once", "rolling_items"),
    "judges_per_pair",
)


@dataclass(frozen=True)
class Settings(Rules):
    """Settings of a project. The defaults are the values of the Flickr30k Entities paper, where it states them.

    Attributes
    ----------
    judgements_to_end
        Equal answers needed to end a chain without a box, or with the boxes it has (§2.2: two).
    votes_to_review, bad_boxes_to_review
        An undecided vote with this many answers, or this many bad boxes in a row, go to a reviewer.
    flags_to_hold
        Number of workers who must report a phrase before it is held back for a reviewer.
    independent
        Votes on one thing come from different workers, and no worker judges their own box. False, with
        `judgements_to_end` 1, for a person who works alone.
    verify_own
        Let workers verify chains to which they linked a mention. Exports tell which chains were verified that way.
    voters_may_draw
        Let a worker who said that a box is missing draw it, which small teams need. This is not in the paper; the
        provenance of exports marks such boxes with ``drawn_by_voter``.
    judges_per_pair
        Number of people who judge a phrase–region pair; the majority decides (HM-LSTM, §5.3.2: ten). Nobody
        else is asked once the majority is certain.
    skip_singular_coverage
        Do not ask whether all boxes are drawn if the phrases plainly name one thing ("a dog") and it has a good box.
    group_links, good_groups
        Ask about all phrases that could be the same at once instead of about pairs, unless models propose links; and
        the share of pairs that such an answer must have right, where the answer is known.
    history_items, history_accuracy
        Record elsewhere that a worker needs (§2.3: 500 items at 95 %), unless the owner vouches for them.
    claimed_workers
        Let workers of a marketplace that confirms nobody's id, such as Mechanical Turk, answer questions. Their ids are
        claims, which may be invented, until `deixis annotate settle` confirms them; tests are the same for everybody.
    test_questions, test_accuracy, test_attempts
        Length of the qualification test of each task, accuracy to pass it, and number of attempts.
    first_items, first_accuracy, first_boxes_good
        The first items after the test (§2.3: 30) and the accuracy on known questions that they need; in the drawing
        task, the share of boxes that pass the quality task.
    hidden_share
        Share of known questions among later questions (§2.3: 2 %).
    rolling_items, rolling_accuracy
        Accuracy that a worker must keep over the last known questions or judged boxes: in each task, and in all hidden
        questions together. Five wrong of the last ten end the trust, too, and one wrong answer alone never does. These
        numbers stand for "maintain high accuracy on the 2 %" in §2.3, which names none.
    good_box_iou
        Lowest IoU at which a drawn box is correct, where the answer is known.
    question
        A question of your own, `deixis.annotate.workflow.OwnQuestion`: people answer it like the other tasks.
    lease_s, held_at_once
        Seconds for which a question is reserved for a worker, and how many questions a worker can hold.
    absent_after_h
        Hours, more than a weekend, after which a worker who has not asked for a question is absent. Open questions that
        only absent people may answer go to reviewers.
    pay_per_hour, currency, longest_item_s
        For the cost; longer items count as `longest_item_s` seconds.
    merge_iou, merge_iou_other, never_merged
        §2.3: lowest IoU at which boxes are merged, the same for type "other", and pairs of types never merged.
    propose_links, propose_boxes
        Whether models propose links and boxes for workers to accept or correct. Proposals are always marked.
    links_yes_from, links_no_below
        Probabilities from which on, and below which, the model answers a link question itself; workers verify the
        resulting chains. 1 and 0 ask workers about everything.
    boxes_show_from
        Lowest probability of being accepted at which a box is proposed.
    order
        "added": photos in the order in which they were added; "uncertain": the least certain proposals first.
    """

    history_items: int = 500
    history_accuracy: float = 0.95
    claimed_workers: bool = False
    test_questions: int = 10
    test_accuracy: float = 0.8
    test_attempts: int = 2
    first_items: int = 30
    first_accuracy: float = 0.85
    first_boxes_good: float = 0.7
    hidden_share: float = 0.02
    rolling_items: int = 20
    rolling_accuracy: float = 0.75
    good_box_iou: float = 0.5
    good_groups: float = 0.6
    lease_s: float = 600.0
    held_at_once: int = 3
    absent_after_h: float = 96.0
    pay_per_hour: float = 15.0
    currency: str = "EUR"
    longest_item_s: float = 120.0
    merge_iou: float = 0.8
    merge_iou_other: float = 0.9
    never_merged: tuple[tuple[str, str], ...] = (("clothing", "people"),)
    propose_links: bool = False
    propose_boxes: bool = False
    links_yes_from: float = 0.9
    links_no_below: float = 0.05
    boxes_show_from: float = 0.35
    order: str = "added"

    @property
    def people_needed(self) -> int:
        """Number of people who can finish a photo: those who vote, and one who draws."""
        return self.judgements_to_end + (0 if self.voters_may_draw else 1) if self.independent else 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:  # nor NaN
                raise DeixisError(f"{field.name} is {str(value)[:40]}; use a number up to {MAX_NUMBER:,}")
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise DeixisError(f"{name} is {getattr(self, name)}; use a value from 0 to 1")
        for name, least in (*((name, 1) for name in _COUNTS), ("test_questions", 0), ("first_items", 0)):
            if getattr(self, name) < least:
                raise DeixisError(f"{name} is {getattr(self, name)}; use at least {least}")
        if self.links_no_below > self.links_yes_from:
            raise DeixisError(
                f"links_no_below is {self.links_no_below}, links_yes_from {self.links_yes_from}; use a lower value"
            )
        if self.order not in ORDERS:
            raise DeixisError(f"order is {self.order!r}; choose one of: {', '.join(ORDERS)}")
        for name in ("lease_s", "absent_after_h"):
            if getattr(self, name) <= 0:
                raise DeixisError(f"{name} is {getattr(self, name)}; use a positive number")


def read_presets() -> dict[str, dict[str, Any]]:
    """Return the settings of teams by their size, which differ from the defaults."""
    found = tomllib.loads(files("deixis.annotate").joinpath("presets.toml").read_text(encoding="utf-8"))
    return {name: preset["settings"] for name, preset in found.items()}


def max_wrong(items: int, accuracy: float) -> int:
    """Return how many of the answers may be wrong."""
    return int(items * (1 - accuracy) + 1e-9)


def explain_lockouts(settings: Settings, people: int | None = None) -> list[str]:
    """Say which settings suspend or stop many people, one line each; `people` is the number of workers, if known."""
    found = []
    for name in ("first_accuracy", "first_boxes_good"):
        count, share = settings.first_items, getattr(settings, name)
        if count and share < 1 and not max_wrong(count, share):
            found.append(
                f"first_items {count} with {name} {share:g} leaves no room for a wrong answer, so one is allowed all "
                f"the same; use {math.ceil(1 / (1 - share) - 1e-9)} or more, or 0"
            )
    tests = settings.test_questions
    if tests and not max_wrong(tests, settings.test_accuracy) and settings.test_attempts == 1:
        found.append(f"one wrong answer of {tests} test questions excludes a worker; use test_attempts 2 or more")
    if settings.hidden_share == 1:
        found.append("hidden_share 1 asks trusted workers all known questions before any work; use less")
    if settings.good_box_iou == 1:
        found.append("good_box_iou 1 needs boxes that are exact to the pixel, so nobody passes the test; use less")
    if settings.votes_to_review < settings.judgements_to_end:
        found.append(
            f"every vote goes to a reviewer, because votes_to_review {settings.votes_to_review} is less than "
            f"judgements_to_end {settings.judgements_to_end}"
        )
    if people and settings.independent:
        needed = settings.people_needed
        if people < needed:
            found.append(
                f"votes need {needed} people, and {people} can work; invite more, use the settings of a small team "
                '(init --team 2), or for one person "independent": false and "judgements_to_end": 1'
            )
        if settings.question and people < settings.question.votes:
            found.append(
                f"the question {settings.question.name!r} needs {settings.question.votes} people, and {people} can "
                'work; invite more, or lower its "votes"'
            )
        if people == 1 and not settings.verify_own:
            found.append("nobody can verify the links of the only worker; verify_own true allows it")
    return found


def read_settings(path: Path) -> Settings:
    """Read settings from a JSON file; missing ones have their defaults."""
    try:
        values = json.loads(read_regular(path))
        json.dumps(values, ensure_ascii=False).encode()  # half a character can be written, but not sent
    except (OSError, ValueError, RecursionError) as error:
        raise DeixisError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(values, dict):
        raise DeixisError(f"{path}: expected a JSON object with settings")
    known = {field.name: field for field in fields(Settings)}
    for name, value in values.items():
        if name not in known:
            raise DeixisError(f"{path}: unknown setting {name!r}; choose from: {', '.join(known)}")
        default = known[name].default
        if isinstance(default, float) and type(value) is int and abs(value) <= MAX_NUMBER:
            values[name] = float(value)
        elif name == "question" and isinstance(value, dict):
            try:
                values[name] = _read_question(value)
            except DeixisError as error:
                raise DeixisError(f"{path}: question: {error}") from None
        elif name == "never_merged":
            if not isinstance(value, list) or not all(_is_pair(pair) for pair in value):
                raise DeixisError(f"{path}: {name} is {value!r}; expected pairs such as {json.dumps(default)}")
            values[name] = tuple(tuple(pair) for pair in value)
        elif type(value) is not type(default):
            raise DeixisError(f"{path}: {name} is {value!r}; expected a value like {default!r}")
    try:
        return Settings(**values)
    except DeixisError as error:
        raise DeixisError(f"{path}: {error}") from None


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(name, str) for name in value)


def _read_question(value: dict[str, Any]) -> OwnQuestion:
    found = dict(value)
    for field in fields(OwnQuestion):
        is_text = field.default in (MISSING, "", "photo")
        kind = {"choices": list, "known": dict}.get(field.name, str if is_text else int)
        if field.name in found and type(found[field.name]) is not kind:
            raise DeixisError(f"{field.name} is {found[field.name]!r}; expected a {kind.__name__}")
    found |= {"choices": tuple(found.get("choices", ())), "known": tuple(found.get("known", {}).items())}
    if not all(isinstance(said, str) for said in (*found["choices"], *(answer for _, answer in found["known"]))):
        raise DeixisError('choices and known answers are texts, such as "1"')
    try:
        return OwnQuestion(**found)
    except TypeError as error:
        names = ", ".join(field.name for field in fields(OwnQuestion))
        raise DeixisError(f"{error}; it has {names}") from None


def write_settings(settings: Settings, path: Path) -> None:
    with new_file(path) as unfinished:
        plain = asdict(settings)
        if settings.question:
            plain["question"]["known"] = dict(settings.question.known)
        unfinished.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
