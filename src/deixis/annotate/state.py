"""The state of a photo, derived from its events.

A judgement counts if it answers exactly the question that the state asks at that point. So a judgement about something
that an undo removed has no effect, and one about something that is still there keeps counting.

A phrase–region pair (HM-LSTM paper, section 5.3.2) and the lead's own question are workflows of their own with a single
task, a vote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from deixis.annotate.chains import (
    AppliedTransition,
    Chain,
    ChainState,
    LinkingResult,
    LinkProposals,
    apply_grouping,
    ask_for_groups,
    correct_chains,
    find_grouping,
    groups_by_type,
    is_groupable,
    link_mentions,
    mention_order,
    proposed_boxes_for,
)
from deixis.annotate.events import (
    IMPORTED,
    AddedPairs,
    ChainDecision,
    Corrected,
    Event,
    Judged,
    PhraseDecision,
    ProposedBoxes,
    ProposedLinks,
    Skipped,
    effective_events,
)
from deixis.annotate.material import CaptionMention, Material
from deixis.annotate.workflow import (
    TYPES_WITH_BOXES,
    XYXY,
    Answer,
    DrawnBox,
    OwnQuestion,
    Question,
    Rules,
    Status,
    Task,
    WorkerAnswer,
    WorkflowState,
    apply_answer,
    apply_automatic,
    format_subject,
)
from deixis.errors import DeixisError
from deixis.language.words import may_name_several, stated_count
from deixis.tokens import tokenize


@dataclass(frozen=True, slots=True)
class VoteState:
    """A question that belongs to no chain, and the votes: a phrase–region pair, or the lead's own question."""

    question: Question
    workflow: WorkflowState
    events: tuple[int, ...]  # numbers of the judgements that count
    model: str = ""  # that chose the region of a pair, with its confidence
    confidence: float = 0.0

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(vote.answer for vote in self.workflow.votes)

    @property
    def is_open(self) -> bool:
        return isinstance(self.workflow.stage, Task)

    def ask(self, rules: Rules) -> Question:
        """Return the question with the people who have voted, who must not answer it."""
        voters = frozenset(vote.worker for vote in self.workflow.votes) if rules.independent else frozenset()
        return replace(self.question, barred=voters)


def _ask_about_pairs(photo: str, index: _EventIndex, rules: Rules) -> Iterator[VoteState]:
    for event in index.pairs:
        for number, (mention, (x1, y1, x2, y2, confidence)) in enumerate(event.pairs):
            region = DrawnBox(f"q{event.number}:{number}", (x1, y1, x2, y2), event.worker)
            vote = _count_votes(Question(photo, Task.PAIR, (mention,), (), region), index, rules)
            yield replace(vote, model=event.model, confidence=confidence)


def _ask_own_question(
    photo: str, mentions: Iterable[CaptionMention], chains: Iterable[ChainState], index: _EventIndex, rules: Rules
) -> Iterator[VoteState]:
    """Ask about the photo, its phrases or its accepted boxes, but for those whose answer is known."""
    own = rules.question
    if own is None:
        return
    asked: list[Question] = []
    if own.about == "photo":
        asked = [Question(photo, Task.OWN, ())]
    elif own.about == "phrase":
        asked = [Question(photo, Task.OWN, (mention.id,)) for mention in mentions]
    else:
        complete = [(chain, flow) for chain in chains if (flow := chain.workflow) and flow.stage is Status.COMPLETE]
        asked = [
            Question(photo, Task.OWN, (chain.shown.id,), (), box) for chain, flow in complete for box in flow.boxes
        ]
    known = _known_subjects(own)
    for question in asked:
        if known_subject(question) not in known:
            yield _count_votes(replace(question, name=own.name), index, rules)


def known_subject(question: Question) -> str:
    """Describe the subject of the lead's own question as `OwnQuestion.known` does."""
    box = (_format_box(question.new_box.xyxy),) if question.new_box else ()
    return " ".join((question.photo, *question.mentions, *box))


_FORMS = {"photo": '"PHOTO"', "phrase": '"PHOTO 0:2-7"', "box": '"PHOTO 0:2-7 X1,Y1,X2,Y2"'}


def parse_known_subject(subject: str, own: OwnQuestion) -> Question:
    """Parse the subject of a known answer. The id of a box has its coordinates, so that another box is another one."""
    spaces = _FORMS[own.about].count(" ")
    photo, *rest = subject.rsplit(None, spaces) if spaces else [subject]
    try:
        sides = [float(side) for side in rest.pop().split(",")] if own.about == "box" else []
        x1, y1, x2, y2 = sides or (0.0, 0.0, 0.0, 0.0)
        if len(rest) != (own.about != "photo"):
            raise ValueError(subject)
    except (ValueError, IndexError):
        raise DeixisError(f"the question is about a {own.about}, so use {_FORMS[own.about]}") from None
    xyxy = (x1, y1, x2, y2)
    box = DrawnBox(f"k{_format_box(xyxy)}", xyxy, "") if sides else None
    return Question(photo, Task.OWN, tuple(rest), (), box, name=own.name)


@lru_cache(maxsize=16)
def _known_subjects(own: OwnQuestion) -> frozenset[str]:
    """Normalise the subjects of the known answers, as far as they can be parsed."""
    found = set()
    for subject, _ in own.known:
        with suppress(DeixisError):
            found.add(known_subject(parse_known_subject(subject, own)))
    return frozenset(found)


def _format_box(xyxy: XYXY) -> str:
    return ",".join(f"{side:g}" for side in xyxy)


def _count_votes(question: Question, index: _EventIndex, rules: Rules) -> VoteState:
    workflow, counted = WorkflowState(question.task, new_box=question.new_box), []
    for judged in index.votes.get((question.task, question.subject), ()):
        if question.name and rules.question and not rules.question.counts(judged.subject, judged.answer):
            continue
        workflow, transition = apply_answer(workflow, WorkerAnswer(judged.answer, judged.worker), rules)
        if transition is not None:
            counted.append(judged.number)
    return VoteState(question, workflow, tuple(counted))


def is_plainly_singular(mentions: Iterable[CaptionMention]) -> bool:
    """Whether a chain plainly names one thing: "a" or "one" says so, and no mention names several."""
    texts = [mention.text for mention in mentions]
    return any(_names_one(text) for text in texts) and not any(_may_name_several(text) for text in texts)


@lru_cache(maxsize=100_000)
def _names_one(text: str) -> bool:
    return stated_count(_words(text)) == 1


@lru_cache(maxsize=100_000)
def _may_name_several(text: str) -> bool:
    return may_name_several(_words(text))


def _words(text: str) -> list[str]:
    return [token.text.lower() for token in tokenize(text)]


class Reason(StrEnum):
    """Why something waits for a reviewer."""

    UNDECIDED = "workers keep disagreeing"
    SAME_HEADS = "names several things, but all head nouns are the same"
    BAD_PHRASE = "reported as not being a phrase"
    SKIPPED = "skipped by several workers"


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """Something for a reviewer, and the event that caused it."""

    reason: Reason
    mention: str
    event: int
    holds_up: bool = False  # the photo cannot be finished before the decision


@dataclass(frozen=True, slots=True)
class PhotoState:
    """The state of a photo."""

    chains: tuple[ChainState, ...]  # in the order of their first mentions
    questions: tuple[Question, ...]
    review: tuple[ReviewItem, ...]
    finished: bool  # nothing is left to ask or to review
    counted: frozenset[int]  # numbers of the judgements that count
    votes: tuple[VoteState, ...] = ()  # phrase–region pairs, and the lead's own question

    def chain_of(self, mention: str) -> ChainState | None:
        return next((chain for chain in self.chains if mention in {each.id for each in chain.mentions}), None)


@dataclass(slots=True)
class _EventIndex:
    """The effective events of a photo, by what they are about."""

    links: dict[str, Judged] = field(default_factory=dict)
    groupings: list[Judged] = field(default_factory=list)
    verifications: dict[str, list[Judged]] = field(default_factory=lambda: defaultdict(list))
    box_events: dict[str, list[Judged | ChainDecision]] = field(default_factory=lambda: defaultdict(list))
    skipped_by: dict[tuple[Task, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    skips: list[Skipped] = field(default_factory=list)
    phrase_decisions: dict[str, PhraseDecision] = field(default_factory=dict)
    proposed_links: ProposedLinks | None = None
    proposed_boxes: ProposedBoxes | None = None
    pairs: list[AddedPairs] = field(default_factory=list)
    votes: dict[tuple[Task, str], list[Judged]] = field(default_factory=lambda: defaultdict(list))
    corrections: list[Corrected] = field(default_factory=list)


def _index_events(events: Sequence[Event]) -> _EventIndex:
    index = _EventIndex()
    for event in effective_events(events):
        if isinstance(event, Judged) and event.task is Task.LINK:
            index.links.setdefault(event.subject, event)
        elif isinstance(event, Judged) and event.task is Task.GROUP:
            index.groupings.append(event)
        elif isinstance(event, Judged) and event.task is Task.VERIFY:
            index.verifications[event.subject].append(event)
        elif isinstance(event, Judged) and event.task in (Task.PAIR, Task.OWN):
            index.votes[event.task, event.subject].append(event)
        elif isinstance(event, Judged | ChainDecision):
            index.box_events[event.subject.partition(" ")[0]].append(event)
        elif isinstance(event, Skipped):
            index.skipped_by[event.task, event.subject].add(event.worker)
            index.skips.append(event)
        elif isinstance(event, PhraseDecision):
            index.phrase_decisions[event.mention] = event
        elif isinstance(event, ProposedLinks):
            index.proposed_links = event
        elif isinstance(event, ProposedBoxes):
            index.proposed_boxes = event
        elif isinstance(event, AddedPairs):
            index.pairs.append(event)
        elif isinstance(event, Corrected):
            index.corrections.append(event)
    return index


def derive_state(material: Material, events: Sequence[Event], rules: Rules) -> PhotoState:
    """Derive the state of a photo from its events in order."""
    index = _index_events(events)
    review = _reported_phrases(index, rules)
    held = {item.mention for item in review if item.holds_up}
    counted: set[int] = set()
    found: list[ChainState | Question] = []  # a question where mentions are still being linked
    mentions = _select_mentions(material, index, held)
    for group in groups_by_type(mentions):
        linking, rejections = _link_group(group, index, rules)
        counted.update(number for taken in linking.transitions.values() for number, _ in taken)
        counted.update(rejection.number for rejection in rejections)
        if rules.independent:  # a worker who rejected a chain of the model gets no question about it
            for rejection in rejections:
                index.skipped_by[rejection.task, rejection.subject].add(rejection.worker)
        asked = linking.next_pair or linking.next_group
        if asked:
            task = Task.LINK if linking.next_pair else Task.GROUP
            found.append(Question(material.photo, task, asked))
            found += [ChainState(chain, None, _link_transitions(chain, linking)) for chain in linking.chains]
            continue
        for chain in linking.chains:
            linked = ChainState(chain, _start_chain(chain, linking, index, rules), _link_transitions(chain, linking))
            parts = _verify_chain(linked, index, rejections, rules)
            found += [_apply_box_events(part, index, rules) for part in parts]
    if index.corrections:
        found = _apply_corrections(found, index, rules)
    chains: list[ChainState] = []
    questions: list[Question] = []
    for each in found:
        if isinstance(each, Question):
            questions.append(each)
            continue
        chains.append(each)
        if (question := next_question_about(material.photo, each, rules)) is not None:
            questions.append(_bar_linkers(question, each, index, rules))
        review += _chain_reviews(each, index)
    chains.sort(key=lambda chain: mention_order(chain.mentions[0]))
    pairs = _ask_about_pairs(material.photo, index, rules)
    votes = (*pairs, *_ask_own_question(material.photo, mentions, chains, index, rules))
    questions += [vote.ask(rules) for vote in votes if vote.is_open]
    counted.update(number for vote in votes for number in vote.events)
    counted.update(number for chain in chains for number, _ in chain.transitions)
    open_questions = tuple(_bar_skippers(question, index) for question in questions)
    review = sorted([*review, *_skipped_questions(open_questions, index, rules)], key=lambda item: item.event)
    finished = _is_finished(chains, open_questions, review)
    return PhotoState(tuple(chains), open_questions, tuple(review), finished, frozenset(counted), votes)


def _apply_box_events(chain: ChainState, index: _EventIndex, rules: Rules) -> ChainState:
    """Apply the events about boxes in order, and an earlier judgement as soon as its question is asked again.

    So judgements of others about the same boxes are kept when one before them is undone or discounted.
    """
    unused: list[Judged] = []
    for event in index.box_events.get(chain.shown.id, []):
        if event.number <= chain.since:
            continue
        before, chain = chain, apply_box_event(chain, event, rules)
        if chain is before:
            unused += [event] if isinstance(event, Judged) else []
            continue
        while (again := _find_applicable(chain, unused, rules)) is not None:
            unused.remove(again)
            chain = apply_box_event(chain, again, rules)
    return chain


def _find_applicable(chain: ChainState, unused: Iterable[Judged], rules: Rules) -> Judged | None:
    """Find the first of the judgements that answers the question of the chain, by somebody who may answer it."""
    workflow = chain.workflow
    if workflow is None or not isinstance(workflow.stage, Task):
        return None
    subject = format_subject((chain.shown.id,), workflow.boxes, workflow.new_box)
    barred = _barred_workers(workflow, rules)
    matching = (each for each in unused if each.task is workflow.stage and each.subject == subject)
    return next((each for each in matching if each.worker not in barred), None)


def _apply_corrections(
    found: Sequence[ChainState | Question], index: _EventIndex, rules: Rules
) -> list[ChainState | Question]:
    """Correct the chains, then apply the judgements that workers made after the corrections."""

    def start(mentions: Chain) -> WorkflowState:
        # What a model proposed was there before the correction and is not proposed again.
        workflow = replace(_new_workflow(mentions, Status.READY, index, rules), proposed_boxes=(), imported_boxes=False)
        return apply_automatic(workflow, rules)

    chains = correct_chains([each for each in found if isinstance(each, ChainState)], index.corrections, start)
    corrected = [_apply_box_events(chain, index, rules) if chain.since else chain for chain in chains]
    return [*(each for each in found if isinstance(each, Question)), *corrected]


def _is_finished(chains: Sequence[ChainState], questions: Sequence[Question], review: Sequence[ReviewItem]) -> bool:
    waits = bool(questions) or any(item.holds_up for item in review)
    return not waits and all(chain.workflow is not None and chain.workflow.ended for chain in chains)


def current_mentions(material: Material, events: Sequence[Event]) -> list[CaptionMention]:
    """List the mentions that were not dropped, including those held back for a reviewer."""
    return _select_mentions(material, _index_events(events), set())


def _select_mentions(material: Material, index: _EventIndex, held: set[str]) -> list[CaptionMention]:
    """Return the mentions of the material without dropped and held ones, and with those that a reviewer added."""
    decisions = index.phrase_decisions
    excluded = held | {name for name, decision in decisions.items() if decision.decision == "drop"}
    mentions = [mention for mention in material.mentions if mention.id not in excluded]
    original = {mention.id for mention in material.mentions}
    for name, decision in decisions.items():
        if decision.decision == "add" and name not in original:
            mentions.append(material.mention_at(name, decision.types))
    return sorted(mentions, key=mention_order)


def _reported_phrases(index: _EventIndex, rules: Rules) -> list[ReviewItem]:
    """List reported phrases, unless a reviewer has decided since."""
    reports: dict[str, dict[str, int]] = defaultdict(dict)
    for skip in index.skips:
        if skip.bad_phrase and _is_undecided(skip.bad_phrase, skip, index):
            reports[skip.bad_phrase].setdefault(skip.worker, skip.number)
    return [
        ReviewItem(Reason.BAD_PHRASE, name, max(workers.values()), len(workers) >= rules.flags_to_hold)
        for name, workers in reports.items()
    ]


def _skipped_questions(questions: Iterable[Question], index: _EventIndex, rules: Rules) -> Iterator[ReviewItem]:
    """List open questions that several workers have skipped, unless a reviewer has decided since."""
    for question in questions:
        mention = question.mention
        skips = {
            skip.worker: skip.number
            for skip in index.skips
            if (skip.task, skip.subject, skip.bad_phrase) == (question.task, question.subject, None)
            and _is_undecided(mention, skip, index)
        }
        if mention and len(skips) >= rules.flags_to_hold:
            yield ReviewItem(Reason.SKIPPED, mention, max(skips.values()))


def _is_undecided(mention: str, skip: Skipped, index: _EventIndex) -> bool:
    decision = index.phrase_decisions.get(mention)
    return decision is None or decision.number < skip.number


def _link_transitions(chain: Chain, linking: LinkingResult) -> tuple[AppliedTransition, ...]:
    taken = (applied for mention in chain for applied in linking.transitions[mention.id])
    return tuple(sorted(taken, key=lambda applied: applied[0]))


def _link_group(
    group: Sequence[CaptionMention], index: _EventIndex, rules: Rules
) -> tuple[LinkingResult, list[Judged]]:
    """Link a group without the proposals of chains that workers rejected; also return the rejections."""
    if grouped := find_grouping(group, index.groupings):
        return apply_grouping(group, grouped), []
    if rules.group_links and not index.proposed_links and is_groupable(group) and not _is_linked(group, index):
        return ask_for_groups(group), []
    proposals = LinkProposals(index.proposed_links) if index.proposed_links else None
    rejections: list[Judged] = []
    while True:
        linking = link_mentions(group, index.links, rules, proposals)
        if proposals is None or linking.next_pair:
            return linking, rejections
        rejected = []
        for chain in linking.chains:
            judged = _find_verification(chain, index, rejections)
            if judged is None:
                continue
            workflow = _start_chain(chain, linking, index, rules, until=judged.number)
            workflow, _ = apply_answer(workflow, WorkerAnswer(judged.answer, judged.worker), rules)
            if workflow.stage is Task.LINK:
                rejected.append(judged)
                proposals = proposals.withdraw(chain)
        if not rejected:
            return linking, rejections
        rejections += rejected


def _is_linked(group: Sequence[CaptionMention], index: _EventIndex) -> bool:
    """Return whether people have answered pairs of the group, which then stays with pairs."""
    names = {mention.id for mention in group}
    return any(names >= set(subject.split()) for subject in index.links)


def _start_chain(
    chain: Chain, linking: LinkingResult, index: _EventIndex, rules: Rules, until: int | None = None
) -> WorkflowState:
    """Return the workflow state of a chain that no mention can join any more, as of the event `until`."""
    workflow = _new_workflow(chain, Status.CHAIN, index, rules)
    if proposed := index.proposed_links:
        linked = linking.count_linked_by(proposed.number, chain, until)
        workflow = replace(workflow, proposed_by=proposed.model, proposed_links=linked)
    return apply_automatic(workflow, rules)


def _find_verification(mentions: Chain, index: _EventIndex, rejections: Sequence[Judged]) -> Judged | None:
    """Find the verification of a chain; one that rejected a model's chain counts only for that."""
    subject = format_subject(tuple(mention.id for mention in mentions))
    return next((judged for judged in index.verifications.get(subject, ()) if judged not in rejections), None)


def _verify_chain(
    chain: ChainState, index: _EventIndex, rejections: Sequence[Judged], rules: Rules
) -> Iterable[ChainState]:
    """Yield the chain after verification: itself, or its parts by head noun."""
    workflow, judged = chain.workflow, _find_verification(chain.mentions, index, rejections)
    if workflow is None or workflow.stage is not Task.VERIFY or judged is None:
        yield chain
        return
    workflow, transition = apply_answer(workflow, WorkerAnswer(judged.answer, judged.worker), rules)
    transitions = (*chain.transitions, (judged.number, transition)) if transition else chain.transitions
    parts: dict[str, list[CaptionMention]] = defaultdict(list)
    for mention in chain.mentions:
        parts[mention.head if workflow.split else ""].append(mention)
    for part in map(tuple, parts.values()):
        started = apply_automatic(_new_workflow(part, Status.READY, index, rules), rules)
        yield ChainState(part, started, transitions, workflow.split and len(parts) == 1)


def _new_workflow(mentions: Chain, status: Status, index: _EventIndex, rules: Rules) -> WorkflowState:
    needs_boxes = any(TYPES_WITH_BOXES.intersection(mention.types) for mention in mentions)
    boxes = proposed_boxes_for(index.proposed_boxes, mentions) if index.proposed_boxes else ()
    imported = bool(boxes) and index.proposed_boxes is not None and index.proposed_boxes.model == IMPORTED
    return WorkflowState(
        status,
        mentions=len(mentions),
        needs_boxes=needs_boxes,
        singular=rules.skip_singular_coverage and is_plainly_singular(mentions),
        proposed_boxes=boxes,
        imported_boxes=imported,
    )


def apply_box_event(chain: ChainState, event: Judged | ChainDecision, rules: Rules) -> ChainState:
    """Apply a judgement or decision about boxes; the chain is unchanged if that is not what is asked."""
    workflow = chain.workflow
    if workflow is None or event.subject != format_subject((chain.shown.id,), workflow.boxes, workflow.new_box):
        return chain
    if isinstance(event, ChainDecision):
        workflow = replace(workflow, stage=Status.REVIEW)
        answer = WorkerAnswer(event.answer, event.worker)
    elif event.task is workflow.stage or _is_skipped_vote(workflow, event):
        workflow = replace(workflow, stage=event.task)
        box = DrawnBox(f"b{event.number}", event.box, event.worker) if event.box else None
        answer = WorkerAnswer(event.answer, event.worker, box)
    else:
        return chain
    workflow, transition = apply_answer(workflow, answer, rules)
    if transition is None:
        return chain
    return replace(chain, workflow=workflow, transitions=(*chain.transitions, (event.number, transition)))


def _is_skipped_vote(workflow: WorkflowState, event: Judged) -> bool:
    """Whether it is a vote on coverage from before the lead allowed to skip it; such votes keep counting."""
    return workflow.stage is Status.COMPLETE and workflow.singular and event.task is Task.COVERAGE


def next_question_about(photo: str, chain: ChainState, rules: Rules) -> Question | None:
    """Return the open question about a chain, with the workers who must not answer it."""
    workflow = chain.workflow
    if workflow is None or not isinstance(workflow.stage, Task):
        return None
    proposal = _describe_proposal(workflow)
    if workflow.stage is Task.VERIFY:
        return Question(photo, workflow.stage, tuple(mention.id for mention in chain.mentions), proposal=proposal)
    barred = _barred_workers(workflow, rules)
    shown = (chain.shown.id,)
    return Question(photo, workflow.stage, shown, workflow.boxes, workflow.new_box, barred, proposal)


def _describe_proposal(workflow: WorkflowState) -> dict[str, Any] | None:
    """Describe what a model contributed to a question, for the page."""
    if workflow.stage is Task.VERIFY and workflow.proposed_links:
        return {"model": workflow.proposed_by, "links": workflow.proposed_links}
    if workflow.stage is Task.QUALITY and workflow.new_box and (source := workflow.new_box.proposed):
        return {"model": source.model, "probability": source.probability}
    if workflow.stage is Task.DRAWING and (rejected := workflow.rejected_proposal) and rejected.proposed:
        return {"model": rejected.proposed.model, "box": list(rejected.xyxy)}
    return None


def _barred_workers(workflow: WorkflowState, rules: Rules) -> frozenset[str]:
    """Return who drew or doubted the box to judge, or who has voted.

    Voters do not draw, because drawing can end in a vote; with `voters_may_draw`, those who said that a box is missing
    do, and "no more" then takes the place of their vote.
    """
    if not rules.independent:
        return frozenset()
    if workflow.new_box:
        return frozenset({workflow.new_box.worker, workflow.doubted_by} - {""})
    votes = workflow.coverage_votes if workflow.boxes else workflow.requirement_votes
    may_draw = rules.voters_may_draw and workflow.stage is Task.DRAWING
    return frozenset(vote.worker for vote in votes if not (may_draw and vote.answer in (Answer.MORE, Answer.BOX)))


def linked_by(chain: ChainState, links: Iterable[Judged]) -> frozenset[str]:
    """Return the workers who linked a mention to the chain."""
    joining = {Answer.YES, Answer.GROUPED}
    joined = {number for number, transition in chain.transitions if joining.intersection(transition.answers)}
    return frozenset(judged.worker for judged in links if judged.number in joined)


def _bar_linkers(question: Question, chain: ChainState, index: _EventIndex, rules: Rules) -> Question:
    """Keep workers from verifying their own links."""
    if question.task is not Task.VERIFY or not rules.independent or rules.verify_own:
        return question
    return replace(question, barred=question.barred | linked_by(chain, [*index.links.values(), *index.groupings]))


def _bar_skippers(question: Question, index: _EventIndex) -> Question:
    skipped = index.skipped_by.get((question.task, question.subject), set())
    return replace(question, barred=question.barred | skipped) if skipped else question


def _chain_reviews(chain: ChainState, index: _EventIndex) -> Iterable[ReviewItem]:
    workflow = chain.workflow
    if workflow is not None and workflow.stage is Status.REVIEW:
        yield ReviewItem(Reason.UNDECIDED, chain.shown.id, chain.transitions[-1][0], holds_up=True)
    if chain.unsplit:
        decision = index.phrase_decisions.get(chain.shown.id)
        verified = next(number for number, transition in chain.transitions if transition.stage is Task.VERIFY)
        if decision is None or decision.number < verified:
            yield ReviewItem(Reason.SAME_HEADS, chain.shown.id, verified)


def extend_state(state: PhotoState, photo: str, events: Sequence[Event], new: Event, rules: Rules) -> PhotoState | None:
    """Update the state of `events` by one judgement about boxes, which changes one chain; None for other events."""
    if not isinstance(new, Judged) or new.task in (Task.LINK, Task.GROUP, Task.VERIFY, Task.PAIR) or rules.question:
        return None
    for event in events:  # the state does not say who skipped a question, and unused judgements may count again
        if isinstance(event, Skipped) or (isinstance(event, Judged) and event.number not in state.counted):
            return None
    shown = new.subject.partition(" ")[0]
    position = next(
        (i for i, chain in enumerate(state.chains) if chain.workflow is not None and chain.shown.id == shown), None
    )
    if position is None:
        return None
    before = state.chains[position]
    chain = apply_box_event(before, new, rules)
    if chain is before:
        return state
    if chain.workflow is None or chain.workflow.stage is Status.REVIEW:
        return None
    question = next_question_about(photo, chain, rules)
    questions = tuple(
        other
        for old in state.questions
        if (other := question if old.mentions == (chain.shown.id,) else old) is not None
    )
    chains = (*state.chains[:position], chain, *state.chains[position + 1 :])
    return replace(
        state,
        chains=chains,
        questions=questions,
        finished=_is_finished(chains, questions, state.review),
        counted=state.counted | {new.number},
    )
