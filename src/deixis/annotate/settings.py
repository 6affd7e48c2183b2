"""Every threshold of a project in one place. A project keeps them in ``settings.json``, for its owner to edit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from deixis.annotate.walks import Rules
from deixis.errors import DeixisError
from deixis.files.atomic import new_file

ORDERS = ("added", "uncertain")


@dataclass(frozen=True)
class Settings:
    """What a project's owner decides. The defaults are the paper's, where it states a number.

    Attributes
    ----------
    judgements_to_end
        How many must agree before a chain ends without a box, or with those it has (§2.2: two).
    votes_to_review, bad_boxes_to_review
        A vote still open with so many voices, or so many bad boxes in a row, go to the reviewers.
    flags_to_hold
        So many workers must call a phrase bad before it waits for a reviewer.
    independent
        Votes on one thing come from different people, and nobody judges a box of their own. False, with
        `judgements_to_end` 1, for a person who works alone.
    history_items, history_accuracy
        What a worker must have done elsewhere (§2.3: 500 items at 95 %), unless the owner vouches for them.
    test_questions, test_accuracy, test_attempts
        The qualification test of each task, and how often it may be tried.
    first_items, first_accuracy, first_boxes_good
        The first items after the test (§2.3: 30): for Drawing the share of boxes that pass Quality, for the other
        tasks the accuracy on questions with known answers.
    hidden_share
        Of later questions, how many have a known answer (§2.3: 2 %).
    rolling_items, rolling_accuracy
        Over so many of the last known answers, or judged boxes, a worker must stay at least this good: in each task,
        and in all hidden questions together.
    good_box_iou
        A drawn box is right, where the answer is known, from this IoU on.
    lease_s, held_at_once
        How long a question waits for its worker, and how many one worker may hold.
    pay_per_hour, currency, longest_item_s
        For the cost; a question that took longer counts as so many seconds.
    merge_iou, merge_iou_other, never_merged
        §2.3: boxes that overlap so far become one, those of type "other" at the second figure, and never boxes of
        these types with each other.
    propose_links, propose_boxes
        Let models propose which mentions are the same, and boxes: for people to accept or correct, and always marked.
    links_yes_from, links_no_below
        The model answers about a link on its own from this probability on, and below that one; people verify the chains
        that come of it. 1 and 0 ask people about everything.
    boxes_show_from
        A box is proposed from this probability to be found good on.
    order
        "added": photos in the order in which they came; "uncertain": those first that models know least about.
    """

    judgements_to_end: int = 2
    votes_to_review: int = 5
    bad_boxes_to_review: int = 5
    flags_to_hold: int = 2
    independent: bool = True
    history_items: int = 500
    history_accuracy: float = 0.95
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
    lease_s: float = 600.0
    held_at_once: int = 3
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

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        shares = ("history_accuracy", "test_accuracy", "first_accuracy", "first_boxes_good", "hidden_share")
        bounds = ("links_yes_from", "links_no_below", "boxes_show_from")
        for name in (*shares, *bounds, "rolling_accuracy", "good_box_iou", "merge_iou", "merge_iou_other"):
            if not 0 <= getattr(self, name) <= 1:
                raise DeixisError(f"{name} is {getattr(self, name)}; it is a share, from 0 to 1")
        for name in ("judgements_to_end", "votes_to_review", "bad_boxes_to_review", "held_at_once", "rolling_items"):
            if getattr(self, name) < 1:
                raise DeixisError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.links_no_below > self.links_yes_from:
            raise DeixisError(
                f"links_no_below is {self.links_no_below}, links_yes_from {self.links_yes_from}; it cannot be above it"
            )
        if self.order not in ORDERS:
            raise DeixisError(f"order is {self.order!r}; choose one of: {', '.join(ORDERS)}")
        if self.lease_s <= 0:
            raise DeixisError(f"lease_s is {self.lease_s}; a question must wait for its worker for some seconds")

    @property
    def rules(self) -> Rules:
        """The numbers of the table."""
        return Rules(self.judgements_to_end, self.votes_to_review, self.bad_boxes_to_review, self.flags_to_hold)


def read_settings(path: Path) -> Settings:
    """Settings from JSON; what is not there is as by default."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DeixisError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(given, dict):
        raise DeixisError(f"{path}: expected one JSON object with a project's settings")
    known = {field.name: field for field in fields(Settings)}
    for name, value in given.items():
        if name not in known:
            raise DeixisError(f"{path}: there is no setting {name!r}; there are: {', '.join(known)}")
        default = known[name].default
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            given[name] = float(value)
        elif name == "never_merged":
            if not isinstance(value, list) or not all(isinstance(pair, list) for pair in value):
                raise DeixisError(f"{path}: {name} is {value!r}; expected pairs such as {json.dumps(default)}")
            given[name] = tuple(tuple(pair) for pair in value)
        elif type(value) is not type(default):
            raise DeixisError(f"{path}: {name} is {value!r}; expected something like {default!r}")
    try:
        return Settings(**given)
    except DeixisError as error:
        raise DeixisError(f"{path}: {error}") from None


def write_settings(settings: Settings, path: Path) -> None:
    """All settings as JSON, for people to edit."""
    with new_file(path) as unfinished:
        unfinished.write_text(json.dumps(asdict(settings), indent=2) + "\n", encoding="utf-8")
