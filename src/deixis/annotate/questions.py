"""A question: one task, and what is shown with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deixis.annotate.walks import DrawnBox, Task


@dataclass(frozen=True, slots=True)
class Question:
    """What one person is asked.

    Attributes
    ----------
    photo, task
        Where, and what.
    mentions
        Two for a link, all of a chain to verify, the longest of the chain for the box tasks.
    boxes, new_box
        Those drawn so far, and the one to judge.
    barred
        Who must not be asked: who drew the box, who has voted, who has given the question back.
    proposal
        What a model had to do with it, for the page to say so; None in a project without help.
    """

    photo: str
    task: Task
    mentions: tuple[str, ...]
    boxes: tuple[DrawnBox, ...] = ()
    new_box: DrawnBox | None = None
    barred: frozenset[str] = frozenset()
    proposal: dict[str, Any] | None = None

    @property
    def subject(self) -> str:
        """What is shown, in one line: a judgement counts for exactly the question with its task and subject.

        Examples
        --------
        >>> Question("7", Task.LINK, ("0:0-5", "1:2-9")).subject
        '0:0-5 1:2-9'
        """
        return subject(self.mentions, self.boxes, self.new_box)

    def as_json(self) -> dict[str, Any]:
        """Plain values, without those who are barred and who drew what: a page must not know."""
        return {
            "task": self.task.value,
            "photo": self.photo,
            "mentions": list(self.mentions),
            "boxes": [list(box.xyxy) for box in self.boxes],
            "new_box": list(self.new_box.xyxy) if self.new_box else None,
        } | ({"proposal": self.proposal} if self.proposal else {})


def subject(mentions: tuple[str, ...], boxes: tuple[DrawnBox, ...] = (), new_box: DrawnBox | None = None) -> str:
    """See `Question.subject`."""
    return " ".join([*mentions, *(box.id for box in boxes), *([f"?{new_box.id}"] if new_box else [])])
