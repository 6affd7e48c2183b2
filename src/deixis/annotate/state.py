"""The state of a photo: a fold over its events.

A judgement counts if, at its turn, it answers exactly the question that the state asks. So a judgement about something
that an undo has taken away counts for nothing, and one about something that is still there keeps counting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from deixis.annotate.events import Event, Judged, Marking, ProposedBoxes, ProposedLinks, Ruled, Skipped, in_force
from deixis.annotate.help.proposals import LinkHelp, boxes_for
from deixis.annotate.linking import Linked, Taken, groups_by_type, link
from deixis.annotate.material import Marked, Material
from deixis.annotate.questions import Question, subject
from deixis.annotate.walks import DRAWN_AT_ONCE, DrawnBox, Rules, Said, Stop, Task, Vote, Walk
from deixis.annotate.workflow import begin, step


class Reason(StrEnum):
    """Why something waits for a reviewer."""

    CYCLES = "people disagree again and again"
    SAME_HEADS = "said to be several things, but all its head nouns are the same"
    BAD_PHRASE = "said to be no phrase"
    GIVEN_BACK = "given back by several"


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """Something for a reviewer: the mention it is about, why, and the event that brought it."""

    reason: Reason
    mention: str
    event: int
    holds_up: bool = False


@dataclass(frozen=True, slots=True)
class ChainState:
    """A chain, its way through the tasks, and the judgements that led it there.

    Attributes
    ----------
    mentions
        In the order of the captions.
    walk
        Where it is; None while mentions may still join it.
    taken
        The judgements that counted, with the rows of the table that they led along.
    undivided
        Whether somebody said that it is not one thing, and its head nouns could not part it.
    """

    mentions: tuple[Marked, ...]
    walk: Walk | None = None
    taken: tuple[Taken, ...] = ()
    undivided: bool = False

    @property
    def shown(self) -> Marked:
        """The mention that stands for the chain in the box tasks: the longest, the first of equals."""
        return max(self.mentions, key=lambda mention: len(mention.text))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of all its mentions."""
        return tuple(dict.fromkeys(name for mention in self.mentions for name in mention.types))


@dataclass(frozen=True, slots=True)
class PhotoState:
    """What is known about a photo, and what is to be asked next.

    Attributes
    ----------
    chains
        In the order of their first mentions.
    questions
        All that can be asked now; different people can answer them at the same time.
    review
        What waits for a reviewer.
    finished
        Whether nothing is left to ask or to review.
    counted
        The numbers of the judgements that count.
    """

    chains: tuple[ChainState, ...]
    questions: tuple[Question, ...]
    review: tuple[ReviewItem, ...]
    finished: bool
    counted: frozenset[int]


@dataclass(slots=True)
class _Heard:
    """The events of a photo that are in force, sorted for looking up."""

    linked: dict[str, Judged] = field(default_factory=dict)
    verified: dict[str, list[Judged]] = field(default_factory=lambda: defaultdict(list))
    about_boxes: dict[str, list[Judged | Ruled]] = field(default_factory=lambda: defaultdict(list))
    skipped: dict[tuple[Task, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    skips: list[Skipped] = field(default_factory=list)
    markings: dict[str, Marking] = field(default_factory=dict)
    proposed_links: ProposedLinks | None = None
    proposed_boxes: ProposedBoxes | None = None

    @classmethod
    def of(cls, events: Sequence[Event]) -> _Heard:
        heard = cls()
        for event in in_force(events):
            if isinstance(event, Judged) and event.task is Task.LINK:
                heard.linked.setdefault(event.subject, event)
            elif isinstance(event, Judged) and event.task is Task.VERIFY:
                heard.verified[event.subject].append(event)
            elif isinstance(event, Judged | Ruled):
                heard.about_boxes[event.subject.partition(" ")[0]].append(event)
            elif isinstance(event, Skipped):
                heard.skipped[event.task, event.subject].add(event.worker)
                heard.skips.append(event)
            elif isinstance(event, Marking):
                heard.markings[event.mention] = event
            elif isinstance(event, ProposedLinks):
                heard.proposed_links = event
            elif isinstance(event, ProposedBoxes):
                heard.proposed_boxes = event
        return heard


def photo_state(
    material: Material, events: Sequence[Event], rules: Rules | None = None, *, independent: bool = True
) -> PhotoState:
    """Fold the events of a photo.

    Parameters
    ----------
    material
        The photo.
    events
        All of its events, in the order of their numbers.
    rules
        The numbers in the rules.
    independent
        Whether votes on one thing come from different people, who did not draw it; False for a person alone.

    Examples
    --------
    >>> from deixis.data.records import Caption, Photo
    >>> from deixis.annotate.material import material_of
    >>> from deixis.annotate.walks import Answer
    >>> said = (Caption.from_text("A dog runs."), Caption.from_text("The dog jumps."))
    >>> material = material_of(Photo("7", said, width=4, height=3))
    >>> question = photo_state(material, []).questions[0]
    >>> question.task.value, question.mentions
    ('link', ('0:0-5', '1:0-7'))
    >>> yes = Judged(number=1, worker="ann", task=Task.LINK, subject=question.subject, answer=Answer.YES)
    >>> photo_state(material, [yes]).questions[0].task.value
    'verify'
    """
    rules = rules or Rules()
    heard = _Heard.of(events)
    review = _flagged(heard, rules)
    held = {item.mention for item in review if item.holds_up}
    mentions = _mentions(material, heard, held)
    counted: set[int] = set()
    chains: list[ChainState] = []
    questions: list[Question] = []
    for group in groups_by_type(mentions):
        linked, refusals = _linked(group, heard, rules)
        counted.update(number for steps in linked.taken.values() for number, _ in steps)
        counted.update(refusal.number for refusal in refusals)
        if independent:  # who has refused what a model proposed is not asked about it again
            for refusal in refusals:
                heard.skipped[refusal.task, refusal.subject].add(refusal.worker)
        if linked.asked:
            questions.append(Question(material.photo, Task.LINK, linked.asked))
            chains += [ChainState(chain, None, _steps_of(chain, linked.taken)) for chain in linked.chains]
            continue
        for chain in linked.chains:
            whole = ChainState(chain, _whole(chain, linked, heard, rules), _steps_of(chain, linked.taken))
            for part in _verified(whole, heard, refusals, rules):
                part = _walked(part, heard, rules)
                chains.append(part)
                if (question := question_of(material.photo, part, independent)) is not None:
                    questions.append(question)
                review += _troubles(part, heard)
    chains.sort(key=lambda chain: (chain.mentions[0].caption, chain.mentions[0].start))
    counted.update(number for chain in chains for number, _ in chain.taken)
    asked = tuple(_with_skips(question, heard) for question in questions)
    finished = is_finished(chains, asked, review)
    return PhotoState(tuple(chains), asked, tuple(review), finished, frozenset(counted))


def is_finished(chains: Sequence[ChainState], questions: Sequence[Question], review: Sequence[ReviewItem]) -> bool:
    """Whether nothing is left to ask, and nothing waits."""
    waits = bool(questions) or any(item.holds_up for item in review)
    return not waits and all(chain.walk is not None and chain.walk.ended for chain in chains)


def phrases_in(material: Material, events: Sequence[Event]) -> list[Marked]:
    """The mentions of a photo that were not dropped, also those that wait for a reviewer or for their chain."""
    return _mentions(material, _Heard.of(events), set())


def _mentions(material: Material, heard: _Heard, held: set[str]) -> list[Marked]:
    """The material's mentions, less those dropped or held back, with those that a reviewer has added."""
    decided = {name: marking.decision for name, marking in heard.markings.items()}
    out = held | {name for name, decision in decided.items() if decision == "drop"}
    mentions = [mention for mention in material.mentions if mention.id not in out]
    known = {mention.id for mention in material.mentions}
    for name, marking in heard.markings.items():
        if marking.decision == "add" and name not in known:
            mentions.append(material.marked(name, marking.types))
    return sorted(mentions, key=lambda mention: (mention.caption, mention.start))


def _flagged(heard: _Heard, rules: Rules) -> list[ReviewItem]:
    """Phrases that workers called bad and questions that several gave back, unless a reviewer has looked since."""
    blamed: dict[tuple[Reason, str], dict[str, int]] = defaultdict(dict)
    for skip in heard.skips:
        name = skip.bad_phrase or skip.subject.partition(" ")[0]
        marking = heard.markings.get(name)
        if marking is None or marking.number < skip.number:
            reason = Reason.BAD_PHRASE if skip.bad_phrase else Reason.GIVEN_BACK
            blamed[reason, name].setdefault(skip.worker, skip.number)
    items = []
    for (reason, name), workers in blamed.items():
        several = len(workers) >= rules.flags_to_hold
        if several or reason is Reason.BAD_PHRASE:
            holds_up = several and reason is Reason.BAD_PHRASE
            items.append(ReviewItem(reason, name, max(workers.values()), holds_up))
    return sorted(items, key=lambda item: item.event)


def _steps_of(chain: Iterable[Marked], taken: dict[str, tuple[Taken, ...]]) -> tuple[Taken, ...]:
    return tuple(sorted((step for mention in chain for step in taken[mention.id]), key=lambda step: step[0]))


def _linked(group: Sequence[Marked], heard: _Heard, rules: Rules) -> tuple[Linked, list[Judged]]:
    """Place the mentions of a group; what a model has put together and a person has refused is placed by people."""
    help_ = LinkHelp(heard.proposed_links) if heard.proposed_links else None
    refusals: list[Judged] = []
    while True:
        linked = link(group, lambda pair: heard.linked.get(subject(pair)), rules, help_)
        if help_ is None or linked.asked:
            return linked, refusals
        refused = []
        for chain in linked.chains:
            said = _verdict(chain, heard, refusals)
            walk = _whole(chain, linked, heard, rules, said)
            if said and step(walk, Said(said.answer, said.worker), rules)[0].at is Task.LINK:
                refused.append(said)
                help_ = help_.without(chain)
        if not refused:
            return linked, refusals
        refusals += refused


def _whole(chain: tuple[Marked, ...], linked: Linked, heard: _Heard, rules: Rules, said: Judged | None = None) -> Walk:
    """A chain that no mention may join any more, as it was when something was said of it."""
    walk = _walk(chain, Stop.CHAIN, heard)
    if event := heard.proposed_links:
        proposed = linked.linked_by(event.number, chain, said.number if said else None)
        walk = replace(walk, proposed_links=proposed, proposed_by=event.model)
    return begin(walk, rules)


def _verdict(mentions: tuple[Marked, ...], heard: _Heard, refusals: Sequence[Judged]) -> Judged | None:
    """What was said of a chain; a judgement that has refused what a model proposed is used up by that."""
    about = subject(tuple(mention.id for mention in mentions))
    return next((said for said in heard.verified.get(about, ()) if said not in refusals), None)


def _verified(chain: ChainState, heard: _Heard, refusals: Sequence[Judged], rules: Rules) -> Iterable[ChainState]:
    """The chain after verification: itself, or its parts by head noun."""
    walk, said = chain.walk, _verdict(chain.mentions, heard, refusals)
    if walk is None or walk.at is not Task.VERIFY or said is None:
        yield chain
        return
    walk, edge = step(walk, Said(said.answer, said.worker), rules)
    steps = (*chain.taken, (said.number, edge)) if edge else chain.taken
    parts: dict[str, list[Marked]] = defaultdict(list)
    for mention in chain.mentions:
        parts[mention.head if walk.split else ""].append(mention)
    for part in map(tuple, parts.values()):
        yield ChainState(part, begin(_walk(part, Stop.READY, heard), rules), steps, walk.split and len(parts) == 1)


def _walk(mentions: tuple[Marked, ...], at: Stop, heard: _Heard) -> Walk:
    at_once = any(DRAWN_AT_ONCE.intersection(mention.types) for mention in mentions)
    boxes = boxes_for(heard.proposed_boxes, mentions) if heard.proposed_boxes else ()
    return Walk(at, mentions=len(mentions), drawn_at_once=at_once, proposed_boxes=boxes)


def _walked(chain: ChainState, heard: _Heard, rules: Rules) -> ChainState:
    """The chain after all judgements about its boxes, and all rulings."""
    for said in heard.about_boxes.get(chain.shown.id, []):
        chain = walk_on(chain, said, rules)
    return chain


def walk_on(chain: ChainState, said: Judged | Ruled, rules: Rules) -> ChainState:
    """The chain after one more judgement about its boxes; the chain as it was where that is not what is asked."""
    walk = chain.walk
    if walk is None or said.subject != subject((chain.shown.id,), walk.boxes, walk.new_box):
        return chain
    if isinstance(said, Ruled):
        after, edge = step(replace(walk, at=Stop.REVIEW), Said(said.answer, said.worker), rules)
    elif said.task is walk.at:
        box = DrawnBox(f"b{said.number}", said.box, said.worker) if said.box else None
        after, edge = step(walk, Said(said.answer, said.worker, box), rules)
    else:
        return chain
    return replace(chain, walk=after, taken=(*chain.taken, (said.number, edge))) if edge is not None else chain


def question_of(photo: str, chain: ChainState, independent: bool) -> Question | None:
    """What to ask about a chain, and whom not to ask."""
    walk = chain.walk
    if walk is None or not isinstance(walk.at, Task):
        return None
    if walk.at is Task.VERIFY:
        return Question(photo, walk.at, tuple(mention.id for mention in chain.mentions), proposal=_proposal(walk))
    barred = _barred(walk) if independent else frozenset()
    return Question(photo, walk.at, (chain.shown.id,), walk.boxes, walk.new_box, barred, _proposal(walk))


def _proposal(walk: Walk) -> dict[str, Any] | None:
    """What a model had to do with what is asked, for the page to say so."""
    if walk.at is Task.VERIFY and walk.proposed_links:
        return {"model": walk.proposed_by, "links": walk.proposed_links}
    if walk.at is Task.QUALITY and walk.new_box and (by := walk.new_box.proposed):
        return {"model": by.model, "probability": by.probability}
    if walk.at is Task.DRAWING and walk.set_aside and (by := walk.set_aside.proposed):
        return {"model": by.model, "box": list(walk.set_aside.xyxy)}
    return None


def _barred(walk: Walk) -> frozenset[str]:
    """Who has answered already, or drew what is judged: drawing may end in a vote, so voters do not draw."""
    if walk.new_box:
        return frozenset({walk.new_box.worker})
    votes: tuple[Vote, ...] = walk.covered if walk.boxes else walk.wanted
    return frozenset(vote.worker for vote in votes)


def _with_skips(question: Question, heard: _Heard) -> Question:
    skipped = heard.skipped.get((question.task, question.subject), set())
    return replace(question, barred=question.barred | skipped) if skipped else question


def _troubles(chain: ChainState, heard: _Heard) -> Iterable[ReviewItem]:
    walk = chain.walk
    if walk is not None and walk.at is Stop.REVIEW:
        yield ReviewItem(Reason.CYCLES, chain.shown.id, chain.taken[-1][0], holds_up=True)
    if chain.undivided:
        marking = heard.markings.get(chain.shown.id)
        verified = next(number for number, edge in chain.taken if edge.at is Task.VERIFY)
        if marking is None or marking.number < verified:
            yield ReviewItem(Reason.SAME_HEADS, chain.shown.id, verified)
