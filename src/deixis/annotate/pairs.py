"""Phrase–region pairs that people judge right or wrong (HM-LSTM paper, section 5.3.2).

Each pair is a workflow of its own with a single task, a vote of `judges_per_pair` people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deixis.annotate.events import AddedPairs, Judged
from deixis.annotate.workflow import (
    Answer,
    DrawnBox,
    Question,
    Rules,
    Task,
    WorkerAnswer,
    WorkflowState,
    apply_answer,
    format_subject,
)


@dataclass(frozen=True, slots=True)
class PairState:
    """A phrase, the region that a model chose for it, and the votes about it."""

    mention: str
    region: DrawnBox
    confidence: float
    model: str
    workflow: WorkflowState
    events: tuple[int, ...]  # numbers of the judgements that count

    @property
    def is_right(self) -> bool | None:
        """Whether most votes say "right", so not after a tie; None while the vote is open."""
        if self.workflow.stage is Task.PAIR:
            return None
        votes = [vote.answer for vote in self.workflow.pair_votes]
        return 2 * votes.count(Answer.RIGHT) > len(votes)

    @property
    def is_tie(self) -> bool:
        votes = [vote.answer for vote in self.workflow.pair_votes]
        return self.is_right is not None and 2 * votes.count(Answer.RIGHT) == len(votes)

    def next_question(self, photo: str, rules: Rules) -> Question | None:
        """Return the open question about the pair, with the people who have voted."""
        if self.workflow.stage is not Task.PAIR:
            return None
        voters = frozenset(vote.worker for vote in self.workflow.pair_votes) if rules.independent else frozenset()
        return Question(photo, Task.PAIR, (self.mention,), (), self.region, voters)


def derive_pairs(
    added: Iterable[AddedPairs], judgements: Mapping[str, Sequence[Judged]], rules: Rules
) -> tuple[PairState, ...]:
    """Derive the pairs of a photo from its events; `judgements` are those about pairs by their subjects."""
    return tuple(
        _derive_pair(event, number, mention, region, judgements, rules)
        for event in added
        for number, (mention, region) in enumerate(event.pairs)
    )


def _derive_pair(
    event: AddedPairs,
    number: int,
    mention: str,
    region: Sequence[float],
    judgements: Mapping[str, Sequence[Judged]],
    rules: Rules,
) -> PairState:
    x1, y1, x2, y2, confidence = region
    box = DrawnBox(f"q{event.number}:{number}", (x1, y1, x2, y2), event.worker)
    workflow, counted = WorkflowState(Task.PAIR, new_box=box), []
    for judged in judgements.get(format_subject((mention,), (), box), ()):
        workflow, transition = apply_answer(workflow, WorkerAnswer(judged.answer, judged.worker), rules)
        if transition is not None:
            counted.append(judged.number)
    return PairState(mention, box, confidence, event.model, workflow, tuple(counted))
