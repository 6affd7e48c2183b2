"""The annotation tasks as one transition table: the six of Flickr30k Entities (sections 2.1 and 2.2), and two more.

A mention passes through the link task until it is in a chain. The chain then passes through verification and the four
box tasks until it is complete or not visual. `WORKFLOW` lists every transition: at this stage, after this answer,
perform this action; the first row whose condition holds then gives the next stage. Rows without answers are taken
automatically. This module reads no clock, file or database.

Both votes of the paper follow one rule. The answer that leads to drawing takes effect as soon as it is ahead, so at
once if it comes first. The answer that ends the work needs two votes and a majority. A tie needs one more worker.

The task `PAIR` judges the regions that a model found for phrases (HM-LSTM paper, section 5.3.2); `OWN` is the lead's
own question about photos, phrases or boxes. Both are votes that belong to no chain: `deixis.annotate.state.VoteState`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from deixis.errors import DeixisError

XYXY = tuple[float, float, float, float]


class Task(StrEnum):
    """The six tasks, in the order of the paper, and three more: `GROUP` replaces `LINK` if a project says so."""

    LINK = "link"
    VERIFY = "verify"
    REQUIREMENT = "requirement"
    DRAWING = "drawing"
    QUALITY = "quality"
    COVERAGE = "coverage"
    GROUP = "group"
    PAIR = "pair"
    OWN = "own"


class Status(StrEnum):
    """Stages at which no worker is asked."""

    NEW = "new mention"
    PLACED = "in a chain"
    CHAIN = "whole chain"
    READY = "ready for boxes"
    COMPLETE = "complete"
    NOT_VISUAL = "not visual"
    REVIEW = "review"


CHAIN_TASKS: tuple[Task, ...] = tuple(task for task in Task if task not in (Task.GROUP, Task.PAIR, Task.OWN))
"""The six tasks of the paper, which make chains with boxes."""

Stage = Task | Status

TASK_NAMES: dict[Task, str] = {
    Task.LINK: "Same or not",
    Task.VERIFY: "All the same",
    Task.REQUIREMENT: "Box or not",
    Task.DRAWING: "Draw",
    Task.QUALITY: "Good or bad",
    Task.COVERAGE: "All there",
    Task.GROUP: "Sort into groups",
    Task.PAIR: "Right or wrong",
    Task.OWN: "Own question",
}
"""The names of the tasks on the pages."""


class Answer(StrEnum):
    """All answers but those to the lead's own question, for which `ANY` stands in the table; `Rules.answers_of`."""

    YES = "yes"
    NO = "no"
    BOX = "box"
    SCENE = "scene"
    NO_BOX = "no box"
    DRAWN = "drawn"
    NO_MORE = "no more"
    GOOD = "good"
    BAD = "bad"
    ADJUSTED = "adjusted"
    ALL = "all"
    MORE = "more"
    RIGHT = "right"
    WRONG = "wrong"
    WRONG_BOX = "wrong box"
    GROUPED = "grouped"
    ANY = "any answer"


ANSWERS_WITH_BOX = (Answer.DRAWN, Answer.ADJUSTED, Answer.WRONG_BOX)
"""Answers that come with a box: a new one, the judged one as it should be, or the one that is wrong."""


TYPES_WITH_BOXES = frozenset({"people", "clothing", "bodyparts"})
"""Entity types whose chains skip the requirement task because they almost always need boxes."""


MAX_ANSWER_LENGTH = 500
_MAX_CHOICES = 9  # each has a key

MAX_NUMBER = 10**9
"""No setting needs more, and databases store no number of any size."""
_ABOUT = ("photo", "phrase", "box")
_RATING_TOLERANCE = 1


@dataclass(frozen=True)
class OwnQuestion:
    """A question of the lead, `question` in the settings; ``docs/guides/annotate-reference.md`` has an example.

    A choice that cannot be overtaken ends the vote; on a tie more people are asked.
    """

    name: str  # answers belong to it: another name makes another question
    text: str  # ``{phrase}`` is replaced by the phrase
    hint: str = ""
    about: str = "photo"  # or "phrase", each of the captions, or "box", each accepted one of a complete chain
    choices: tuple[str, ...] = ()
    rating: int = 0  # the highest number of a rating from 1; without it and `choices`, people write a text
    votes: int = 3  # number of people who answer; one without `Rules.independent`
    known: tuple[tuple[str, str], ...] = ()  # answers by photo, phrase or box: `state.parse_known_subject`

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or not self.text.strip():
            raise DeixisError("needs a name of letters, digits and underscores, and a text")
        if self.about not in _ABOUT:
            raise DeixisError(f"about is {self.about!r}; choose one of: {', '.join(_ABOUT)}")
        if (self.rating and self.choices) or not (self.rating == 0 or 2 <= self.rating <= _MAX_CHOICES):
            raise DeixisError(f"rating is {self.rating}; use 2 to {_MAX_CHOICES}, without choices")
        if self.choices and not 2 <= len(set(self.choices)) == len(self.choices) <= _MAX_CHOICES:
            raise DeixisError(f"use 2 to {_MAX_CHOICES} different choices")
        if not 1 <= self.votes <= MAX_NUMBER:
            raise DeixisError(f"votes is {str(self.votes)[:40]}; use 1 or more")
        for subject, answer in self.known:
            if self.parse(answer) is None:
                raise DeixisError(f"{answer!r}, the known answer about {subject}, is not an answer")

    @property
    def answers(self) -> tuple[str, ...]:
        """The possible answers; empty for a text."""
        return self.choices or tuple(str(number) for number in range(1, self.rating + 1))

    def parse(self, answer: str) -> str | None:
        """Return an answer as it is stored; None if it is none."""
        if self.answers:
            return answer if answer in self.answers else None
        return " ".join(answer.split())[:MAX_ANSWER_LENGTH] or None

    def counts(self, subject: str, answer: str) -> bool:
        """Whether this is an answer to the question as it is now; its name or choices may have been edited."""
        return subject.endswith(f"{_NAME}{self.name}") and self.parse(answer) is not None

    def is_correct(self, answer: str, expected: str) -> bool:
        """Compare with the known answer: ratings may differ by one, and texts in upper and lower case."""
        if self.rating:
            return abs(int(answer) - int(expected)) <= _RATING_TOLERANCE
        return answer.casefold() == expected.casefold()

    def result(self, answers: Sequence[str]) -> str | float | None:
        """Return the mean rating, or the most frequent answer; None without answers and after a tie."""
        if self.rating:
            return sum(map(int, answers)) / len(answers) if answers else None
        counts = Counter(answer.casefold() for answer in answers).most_common(2)
        if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
            return None
        return next(answer for answer in answers if answer.casefold() == counts[0][0])


@dataclass(frozen=True)
class Rules:
    """The settings that determine the questions of a photo; `deixis.annotate.settings.Settings` describes them."""

    judgements_to_end: int = 2
    votes_to_review: int = 5
    bad_boxes_to_review: int = 5
    flags_to_hold: int = 2
    independent: bool = True
    verify_own: bool = False
    judges_per_pair: int = 10
    group_links: bool = False
    skip_singular_coverage: bool = False
    voters_may_draw: bool = False
    question: OwnQuestion | None = None

    def answers_of(self, task: Task) -> tuple[str, ...]:
        """List the answers of a task; none if people write a text."""
        own = self.question.answers if self.question else ()
        return own if task is Task.OWN else tuple(answer.value for answer in allowed_answers(task))


@dataclass(frozen=True, slots=True)
class ProposalSource:
    """The model that proposed something, and its probability."""

    model: str
    probability: float


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box drawn by a worker or proposed by a model. Its id never changes."""

    id: str
    xyxy: XYXY
    worker: str
    proposed: ProposalSource | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One question to one worker."""

    photo: str
    task: Task
    mentions: tuple[str, ...]  # two for a link, all of a chain to verify, the longest of the chain for the box tasks
    boxes: tuple[DrawnBox, ...] = ()  # accepted
    new_box: DrawnBox | None = None  # to judge
    barred: frozenset[str] = frozenset()  # workers who drew the box, voted already or skipped the question
    proposal: dict[str, Any] | None = None  # contribution of a model, shown to the worker
    name: str = ""  # of the lead's own question

    @property
    def subject(self) -> str:
        """The question as one line. A judgement counts only for the question with the same task and subject."""
        subject = format_subject(self.mentions, self.boxes, self.new_box)
        return f"{subject} {_NAME}{self.name}".lstrip() if self.name else subject

    @property
    def mention(self) -> str:
        """The mention that the question is about, the first of several; empty for a whole photo."""
        return self.mentions[0] if self.mentions else ""

    def as_json(self) -> dict[str, Any]:
        """JSON for the page. It does not contain the workers involved, which the page must not reveal."""
        described: dict[str, Any] = {
            "task": self.task.value,
            "photo": self.photo,
            "mentions": list(self.mentions),
            "boxes": [list(box.xyxy) for box in self.boxes],
            "new_box": list(self.new_box.xyxy) if self.new_box else None,
        }
        models = [box.proposed.model if box.proposed else None for box in self.boxes]
        described |= {"box_models": models} if any(models) else {}
        return described | ({"proposal": self.proposal} if self.proposal else {})


def format_subject(mentions: tuple[str, ...], boxes: tuple[DrawnBox, ...] = (), new_box: DrawnBox | None = None) -> str:
    """See `Question.subject`."""
    return " ".join([*mentions, *(box.id for box in boxes), *([f"?{new_box.id}"] if new_box else [])])


_NAME = "#"


def mention_of(subject: str) -> str:
    """Return the first mention of a subject; empty if it is about a whole photo."""
    first = subject.partition(" ")[0]
    return "" if first.startswith(_NAME) else first


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    answer: str  # an `Answer`, or any text to the lead's own question
    worker: str
    box: DrawnBox | None = None


@dataclass(frozen=True, slots=True)
class WorkflowState:
    """The position of a mention, or later of its chain, in the workflow."""

    stage: Stage
    # Of a mention: the chains it was not compared with yet, and the one it joined, if it did not start one.
    chains_left: tuple[str, ...] = ()
    chain: str | None = None
    # Of a chain.
    mentions: int = 1  # number of mentions
    needs_boxes: bool = False  # one of them has a type in `TYPES_WITH_BOXES`
    split: bool = False  # a worker said that it names several things
    requirement_votes: tuple[WorkerAnswer, ...] = ()
    coverage_votes: tuple[WorkerAnswer, ...] = ()
    boxes: tuple[DrawnBox, ...] = ()  # passed the quality task
    new_box: DrawnBox | None = None  # waits for the quality task
    bad_boxes: int = 0  # since the last good one
    singular: bool = False  # it plainly names one thing; only set if `Rules.skip_singular_coverage`
    adjusted: tuple[tuple[DrawnBox, DrawnBox], ...] = ()  # boxes before and after a worker adjusted them
    doubts: int = 0  # how often an accepted box was called wrong
    doubted_by: str = ""  # who called `new_box`, which had been accepted, wrong
    proposed_by: str = ""  # the model that added unconfirmed mentions
    proposed_links: int = 0  # number of unconfirmed mentions
    proposed_boxes: tuple[DrawnBox, ...] = ()  # not judged yet
    imported_boxes: bool = False  # they come with the data set
    rejected_proposal: DrawnBox | None = None  # just found bad; the drawing page offers it as a start
    votes: tuple[WorkerAnswer, ...] = ()  # on a phrase–region pair, whose region is `new_box`, or the lead's question

    @property
    def ended(self) -> bool:
        return self.stage in (Status.COMPLETE, Status.NOT_VISUAL)

    @property
    def is_scene(self) -> bool:
        """Whether most votes for no box called it a scene; the earlier answer wins a tie."""
        kinds = Counter(vote.answer for vote in self.requirement_votes if vote.answer is not Answer.BOX)
        return bool(kinds) and max(kinds, key=lambda kind: kinds[kind]) is Answer.SCENE


# Actions. Their names are printed by `deixis annotate workflow` and in the history of a chain.


def nothing(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    return state


def join_the_chain(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    return replace(state, chain=state.chains_left[0], chains_left=())


def skip_the_chain(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    return replace(state, chains_left=state.chains_left[1:])


def start_a_chain(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    return replace(state, chains_left=())


def place_in_groups(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """All mentions of a group are placed at once; `deixis.annotate.chains` makes the chains."""
    return replace(state, chains_left=())


def split_by_head_noun(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """Each part with the same head noun continues as a chain of its own and is not verified again."""
    return replace(state, split=True)


def withdraw_the_proposals(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """Workers are asked about the links that the model proposed; `deixis.annotate.state` links the mentions again."""
    return state


def vote_on_requirement(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """Answering "no more" instead of drawing the first box is a vote for no box."""
    return replace(state, requirement_votes=_add_vote(state.requirement_votes, answer, Answer.NO_BOX))


def vote_on_coverage(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """Answering "no more" instead of drawing another box is a vote that all are drawn."""
    return replace(state, coverage_votes=_add_vote(state.coverage_votes, answer, Answer.ALL))


def _add_vote(votes: tuple[WorkerAnswer, ...], answer: WorkerAnswer, no_more: Answer) -> tuple[WorkerAnswer, ...]:
    """Add a vote; "no more" takes the place of an earlier vote of the same person (`Rules.voters_may_draw`)."""
    if answer.answer is not Answer.NO_MORE:
        return (*votes, answer)
    return (*(vote for vote in votes if vote.worker != answer.worker), replace(answer, answer=no_more))


def show_the_new_box(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    return replace(state, new_box=answer.box, rejected_proposal=None, doubted_by="")


def show_the_proposed_box(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """A model's box is judged like any other, before a worker draws."""
    proposed = state.proposed_boxes
    return replace(state, new_box=proposed[0], proposed_boxes=proposed[1:], rejected_proposal=None, doubted_by="")


def keep_the_box(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """The boxes have changed, so the vote on coverage starts again."""
    assert state.new_box is not None  # noqa: S101 - only the quality task leads here
    return replace(state, boxes=(*state.boxes, state.new_box), new_box=None, coverage_votes=(), bad_boxes=0)


def discard_the_box(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """The other boxes and the votes about them stay. A model's box does not count as a failure of the workers."""
    box = state.new_box
    if box is not None and box.proposed:
        return replace(state, new_box=None, rejected_proposal=box)
    return replace(state, new_box=None, bad_boxes=state.bad_boxes + 1)


def show_the_adjusted_box(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """Somebody else judges the box as it was adjusted, which counts like a box after a bad one."""
    assert state.new_box is not None  # noqa: S101 - only the quality task leads here
    assert answer.box is not None  # noqa: S101 - the answer has one
    bad_boxes = state.bad_boxes if state.new_box.proposed else state.bad_boxes + 1
    pair = (state.new_box, answer.box)
    return replace(state, new_box=answer.box, bad_boxes=bad_boxes, adjusted=(*state.adjusted, pair), doubted_by="")


def count_the_doubt(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """A worker reports that an accepted box is wrong."""
    return replace(state, doubts=state.doubts + 1)


def judge_the_box_again(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """Take the box that is called wrong back to the quality task; a new vote on coverage follows."""
    wrong = next((box for box in state.boxes if answer.box and box.xyxy == answer.box.xyxy), None)
    if wrong is None:
        return state
    others = tuple(box for box in state.boxes if box is not wrong)
    state = count_the_doubt(state, answer)
    return replace(state, boxes=others, new_box=wrong, coverage_votes=(), doubted_by=answer.worker)


def restart_the_votes(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """A reviewer decided that something has to be drawn."""
    return replace(state, requirement_votes=(), coverage_votes=(), new_box=None, bad_boxes=0, doubts=0)


def remove_the_boxes(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    """A reviewer decided that there is nothing to draw."""
    return replace(state, requirement_votes=(answer,), boxes=(), new_box=None)


def add_the_vote(state: WorkflowState, answer: WorkerAnswer) -> WorkflowState:
    return replace(state, votes=(*state.votes, answer))


# Conditions. Their names are printed too.


def always(state: WorkflowState, rules: Rules) -> bool:
    return True


def a_chain_is_left(state: WorkflowState, rules: Rules) -> bool:
    return bool(state.chains_left)


def it_has_several_mentions(state: WorkflowState, rules: Rules) -> bool:
    return state.mentions > 1


def links_were_proposed(state: WorkflowState, rules: Rules) -> bool:
    return state.proposed_links > 0


def a_box_is_proposed(state: WorkflowState, rules: Rules) -> bool:
    return bool(state.proposed_boxes)


def it_came_with_boxes(state: WorkflowState, rules: Rules) -> bool:
    return state.imported_boxes


def more_boxes_came_with_it(state: WorkflowState, rules: Rules) -> bool:
    return state.imported_boxes and bool(state.proposed_boxes)


def its_type_needs_boxes(state: WorkflowState, rules: Rules) -> bool:
    return state.needs_boxes


def a_box_is_needed(state: WorkflowState, rules: Rules) -> bool:
    return 2 * _count(state.requirement_votes, Answer.BOX) > len(state.requirement_votes)


def no_box_is_needed(state: WorkflowState, rules: Rules) -> bool:
    """A majority says scene or no box, and two agree on which; after a third judgement the majority is enough."""
    votes = state.requirement_votes
    kinds = Counter(vote.answer for vote in votes if vote.answer is not Answer.BOX)
    agreed = max(kinds.values(), default=0) >= rules.judgements_to_end or len(votes) > rules.judgements_to_end
    return 2 * kinds.total() > len(votes) and agreed


def need_is_undecided(state: WorkflowState, rules: Rules) -> bool:
    return len(state.requirement_votes) >= rules.votes_to_review


def there_are_boxes(state: WorkflowState, rules: Rules) -> bool:
    return bool(state.boxes)


def one_box_is_enough(state: WorkflowState, rules: Rules) -> bool:
    """The phrase plainly names one thing, the lead allows to skip coverage, and nobody has asked for more."""
    allowed = rules.skip_singular_coverage and state.singular
    return allowed and len(state.boxes) == 1 and not more_are_needed(state, rules)


def a_box_is_doubted(state: WorkflowState, rules: Rules) -> bool:
    return state.new_box is not None


def doubts_keep_coming(state: WorkflowState, rules: Rules) -> bool:
    return state.doubts >= rules.bad_boxes_to_review


def all_are_drawn(state: WorkflowState, rules: Rules) -> bool:
    votes = _count(state.coverage_votes, Answer.ALL)
    return votes >= rules.judgements_to_end and 2 * votes > len(state.coverage_votes)


def these_boxes_are_all(state: WorkflowState, rules: Rules) -> bool:
    return bool(state.boxes) and all_are_drawn(state, rules)


def more_are_needed(state: WorkflowState, rules: Rules) -> bool:
    return 2 * _count(state.coverage_votes, Answer.MORE) > len(state.coverage_votes)


def coverage_is_undecided(state: WorkflowState, rules: Rules) -> bool:
    return len(state.coverage_votes) >= rules.votes_to_review


def boxes_keep_failing(state: WorkflowState, rules: Rules) -> bool:
    return state.bad_boxes >= rules.bad_boxes_to_review


def the_result_is_certain(state: WorkflowState, rules: Rules) -> bool:
    """No further vote can change the majority of `judges_per_pair` votes."""
    votes = state.votes
    ahead = max(_count(votes, Answer.RIGHT), _count(votes, Answer.WRONG))
    return 2 * ahead > rules.judges_per_pair or len(votes) >= rules.judges_per_pair


def the_answer_is_certain(state: WorkflowState, rules: Rules) -> bool:
    """A choice cannot be overtaken, or all votes are in and no two choices are tied for long."""
    answers, asked = [vote.answer for vote in state.votes], rules.question
    if asked is None or not rules.independent:  # nobody is asked the same twice
        return True
    if not asked.choices:
        return len(answers) >= asked.votes
    if len(answers) >= asked.votes:
        return asked.result(answers) is not None or len(answers) >= max(asked.votes, rules.votes_to_review)
    return 2 * max(Counter(answers).values()) > asked.votes


def _count(votes: tuple[WorkerAnswer, ...], answer: Answer) -> int:
    return sum(vote.answer is answer for vote in votes)


@dataclass(frozen=True, slots=True)
class Transition:
    stage: Stage
    answers: tuple[Answer, ...]
    action: Callable[[WorkflowState, WorkerAnswer], WorkflowState]
    condition: Callable[[WorkflowState, Rules], bool]
    target: Stage

    @property
    def action_text(self) -> str:
        return self.action.__name__.replace("_", " ")

    @property
    def condition_text(self) -> str:
        return self.condition.__name__.replace("_", " ")


_NEED = (Answer.BOX, Answer.SCENE, Answer.NO_BOX)
_COVERAGE = (Answer.ALL, Answer.MORE)
_PAIR = (Answer.RIGHT, Answer.WRONG)

# fmt: off
WORKFLOW: tuple[Transition, ...] = (
    # §2.1 Binary Coreference Link Annotation: "do these two mentions, of two captions, name the same?"
    Transition(Status.NEW,       (),                nothing,                a_chain_is_left,         Task.LINK),
    Transition(Status.NEW,       (),                start_a_chain,          always,                  Status.PLACED),
    Transition(Task.LINK,        (Answer.YES,),     join_the_chain,         always,                  Status.PLACED),
    Transition(Task.LINK,        (Answer.NO,),      skip_the_chain,         a_chain_is_left,         Task.LINK),
    Transition(Task.LINK,        (Answer.NO,),      start_a_chain,          always,                  Status.PLACED),
    # The same with one question about all mentions that could be the same, if `Rules.group_links`.
    Transition(Task.GROUP,       (Answer.GROUPED,), place_in_groups,        always,                  Status.PLACED),
    # §2.1 Coreference Chain Verification, once no mention is left that may join: "do all these mentions name the same?"
    Transition(Status.CHAIN,     (),                nothing,                it_has_several_mentions, Task.VERIFY),
    Transition(Status.CHAIN,     (),                nothing,                always,                  Status.READY),
    Transition(Task.VERIFY,      (Answer.YES,),     nothing,                always,                  Status.READY),
    Transition(Task.VERIFY,      (Answer.NO,),      withdraw_the_proposals, links_were_proposed,     Task.LINK),
    Transition(Task.VERIFY,      (Answer.NO,),      split_by_head_noun,     always,                  Status.READY),
    # §2.2 Box Requirement: "can a box be drawn, is it a scene or place, or can no box be drawn?"
    Transition(Status.READY,     (),                nothing,                it_came_with_boxes,      Task.DRAWING),
    Transition(Status.READY,     (),                nothing,                its_type_needs_boxes,    Task.DRAWING),
    Transition(Status.READY,     (),                nothing,                always,                  Task.REQUIREMENT),
    Transition(Task.REQUIREMENT, _NEED,             vote_on_requirement,    no_box_is_needed,        Status.NOT_VISUAL),
    Transition(Task.REQUIREMENT, _NEED,             vote_on_requirement,    need_is_undecided,       Status.REVIEW),
    Transition(Task.REQUIREMENT, _NEED,             vote_on_requirement,    a_box_is_needed,         Task.DRAWING),
    Transition(Task.REQUIREMENT, _NEED,             vote_on_requirement,    always,                  Task.REQUIREMENT),
    # §2.2 Box Drawing: "draw one new box, or say that no (further) box is needed". Not in the paper: with
    # `Rules.voters_may_draw`, "no more" can end a vote, because it takes the place of the person's own earlier vote.
    Transition(Task.DRAWING,     (),                show_the_proposed_box,  a_box_is_proposed,       Task.QUALITY),
    Transition(Task.DRAWING,     (Answer.DRAWN,),   show_the_new_box,       always,                  Task.QUALITY),
    Transition(Task.DRAWING,     (Answer.NO_MORE,), vote_on_coverage,       these_boxes_are_all,     Status.COMPLETE),
    Transition(Task.DRAWING,     (Answer.NO_MORE,), vote_on_coverage,       there_are_boxes,         Task.COVERAGE),
    Transition(Task.DRAWING,     (Answer.NO_MORE,), vote_on_requirement,    no_box_is_needed,        Status.NOT_VISUAL),
    Transition(Task.DRAWING,     (Answer.NO_MORE,), vote_on_requirement,    always,                  Task.REQUIREMENT),
    # §2.2 Box Quality: "is the highlighted box good?"
    Transition(Task.QUALITY,     (Answer.GOOD,),    keep_the_box,           more_boxes_came_with_it, Task.DRAWING),
    Transition(Task.QUALITY,     (Answer.GOOD,),    keep_the_box,           one_box_is_enough,       Status.COMPLETE),
    Transition(Task.QUALITY,     (Answer.GOOD,),    keep_the_box,           always,                  Task.COVERAGE),
    Transition(Task.QUALITY,     (Answer.BAD,),     discard_the_box,        boxes_keep_failing,      Status.REVIEW),
    Transition(Task.QUALITY,     (Answer.BAD,),     discard_the_box,        always,                  Task.DRAWING),
    Transition(Task.QUALITY,     (Answer.ADJUSTED,), discard_the_box,       boxes_keep_failing,      Status.REVIEW),
    Transition(Task.QUALITY,     (Answer.ADJUSTED,), show_the_adjusted_box, always,                  Task.QUALITY),
    # §2.2 Box Coverage: "are all boxes drawn?"
    Transition(Task.COVERAGE,    _COVERAGE,         vote_on_coverage,       all_are_drawn,           Status.COMPLETE),
    Transition(Task.COVERAGE,    (Answer.ALL,),     vote_on_coverage,       one_box_is_enough,       Status.COMPLETE),
    Transition(Task.COVERAGE,    _COVERAGE,         vote_on_coverage,       coverage_is_undecided,   Status.REVIEW),
    Transition(Task.COVERAGE,    _COVERAGE,         vote_on_coverage,       more_are_needed,         Task.DRAWING),
    Transition(Task.COVERAGE,    _COVERAGE,         vote_on_coverage,       always,                  Task.COVERAGE),
    Transition(Task.COVERAGE,    (Answer.WRONG_BOX,), count_the_doubt,      doubts_keep_coming,      Status.REVIEW),
    Transition(Task.COVERAGE,    (Answer.WRONG_BOX,), judge_the_box_again,  a_box_is_doubted,        Task.QUALITY),
    # §2.3 Additional Review: the decision of one reviewer is final
    Transition(Status.REVIEW,    (Answer.ALL,),     nothing,                there_are_boxes,         Status.COMPLETE),
    Transition(Status.REVIEW,    (Answer.BOX, Answer.MORE),     restart_the_votes, always,           Task.DRAWING),
    Transition(Status.REVIEW,    (Answer.SCENE, Answer.NO_BOX), remove_the_boxes, always,            Status.NOT_VISUAL),
    # HM-LSTM §5.3.2, the check of correspondences: "does this region show what the phrase names?"
    Transition(Task.PAIR,        _PAIR,             add_the_vote,           the_result_is_certain,   Status.COMPLETE),
    Transition(Task.PAIR,        _PAIR,             add_the_vote,           always,                  Task.PAIR),
    # Not in the papers: the lead's own question, `Rules.question`.
    Transition(Task.OWN,         (Answer.ANY,),     add_the_vote,           the_answer_is_certain,   Status.COMPLETE),
    Transition(Task.OWN,         (Answer.ANY,),     add_the_vote,           always,                  Task.OWN),
)
# fmt: on

_AFTER_ANSWER: dict[tuple[Stage, str], tuple[Transition, ...]] = {
    (row.stage, answer): tuple(other for other in WORKFLOW if other.stage is row.stage and answer in other.answers)
    for row in WORKFLOW
    for answer in row.answers
}
_AUTOMATIC: dict[Stage, tuple[Transition, ...]] = {
    row.stage: tuple(other for other in WORKFLOW if other.stage is row.stage and not other.answers)
    for row in WORKFLOW
    if not row.answers
}
_NO_ANSWER = WorkerAnswer(Answer.YES, "")
"""Passed to actions of automatic transitions, which ignore it."""


def allowed_answers(stage: Stage) -> tuple[Answer, ...]:
    """List the answers that a task, or a reviewer, accepts."""
    return tuple(dict.fromkeys(answer for row in WORKFLOW if row.stage is stage for answer in row.answers))


def apply_answer(state: WorkflowState, answer: WorkerAnswer, rules: Rules) -> tuple[WorkflowState, Transition | None]:
    """Take the transition of an answer and the automatic ones after it; None if no row fits the answer."""
    for row in _AFTER_ANSWER.get((state.stage, Answer.ANY if state.stage is Task.OWN else answer.answer), ()):
        after = row.action(state, answer)
        if row.condition(after, rules):
            return apply_automatic(replace(after, stage=row.target), rules), row
    return state, None


def apply_automatic(state: WorkflowState, rules: Rules) -> WorkflowState:
    """Take the transitions that need no answer."""
    for row in _AUTOMATIC.get(state.stage, ()):
        if row.condition(state, rules):
            return apply_automatic(replace(row.action(state, _NO_ANSWER), stage=row.target), rules)
    return state


def workflow_rows() -> list[tuple[str, str, str, str, str]]:
    """Describe the table in words: stage, answers, action, condition and next stage."""
    return [
        (
            row.stage.value,
            ", ".join(answer.value for answer in row.answers),
            "" if row.action is nothing else row.action_text,
            "" if row.condition is always else row.condition_text,
            row.target.value,
        )
        for row in WORKFLOW
    ]
