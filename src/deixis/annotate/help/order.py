"""The order of photos by uncertainty, which follows the answers of the team.

A photo is as uncertain as the mean entropy of what models propose for it. The team's answers to proposals of other
photos say how far the probabilities of a model can be trusted: a logistic regression maps them to the share that this
team accepts. Photos that somebody has begun come first, so that they are finished.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Integer, String, bindparam, func, select, update

from deixis.annotate.events import IMPORTED, Event, Judged, ProposedBoxes, ProposedLinks, effective_events
from deixis.annotate.project import Project
from deixis.annotate.store import events, photos, questions
from deixis.annotate.workflow import Answer, Task
from deixis.arrays import Floats, logistic

EVENTS_PER_REFRESH = 20
"""Number of new events after which the order is computed again."""

_SLOPE_PRECISION, _INTERCEPT_PRECISION = 4.0, 1.0
"""Strength of the prior, which trusts the model: a few answers change little."""

_CERTAIN = 1e-4
_NEWTON_STEPS = 20

ProposalAnswer = tuple[float, bool]
"""The probability of a proposal, and whether the team accepted it."""


@dataclass(frozen=True, slots=True)
class Recalibration:
    """Maps the log odds of a model to those that a proposal is accepted: ``intercept + slope · log odds``."""

    intercept: float = 0.0
    slope: float = 1.0

    @classmethod
    def fit(cls, answers: Sequence[ProposalAnswer]) -> Recalibration:
        """Fit the answers of a team by logistic regression, with a prior on no change."""
        if not answers:
            return cls()
        inputs = np.stack([np.ones(len(answers)), _log_odds([probability for probability, _ in answers])], axis=1)
        accepted = np.array([float(each) for _, each in answers])
        prior, precision = np.array([0.0, 1.0]), np.diag([_INTERCEPT_PRECISION, _SLOPE_PRECISION])
        weights = prior.copy()
        for _ in range(_NEWTON_STEPS):
            expected = logistic(inputs @ weights)
            gradient = inputs.T @ (accepted - expected) - precision @ (weights - prior)
            curvature = (inputs * (expected * (1 - expected))[:, None]).T @ inputs + precision
            step = np.linalg.solve(curvature, gradient)
            weights += np.clip(step, -1.0, 1.0)
        return cls(float(weights[0]), float(weights[1]))

    def apply(self, probabilities: Iterable[float]) -> Floats:
        return logistic(self.intercept + self.slope * _log_odds(list(probabilities)))


def _log_odds(probabilities: Sequence[float]) -> Floats:
    clipped = np.clip(np.asarray(probabilities, float), _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(clipped / (1 - clipped)))


@dataclass(frozen=True, slots=True)
class PhotoProposals:
    """Proposals of models for a photo, by the kind of event, and the answers of the team."""

    last_event: int
    begun: bool
    probabilities: dict[str, list[float]]
    answers: dict[str, list[ProposalAnswer]]


def read_proposals(photo_events: Sequence[Event]) -> PhotoProposals:
    """Collect the proposals of a photo and the answers to them. What came with a data set is no model's."""
    counting = effective_events(photo_events)
    links: dict[str, float] = {}
    boxes: dict[str, float] = {}
    for event in counting:
        if isinstance(event, ProposedLinks) and event.model != IMPORTED:
            links = event.links
        elif isinstance(event, ProposedBoxes) and event.model != IMPORTED:
            for mention, found in event.boxes.items():
                boxes |= {f"?p{event.number}:{mention}:{rank}": box[4] for rank, box in enumerate(found)}
    answers: dict[str, list[ProposalAnswer]] = {ProposedLinks.kind: [], ProposedBoxes.kind: []}
    judged = [event for event in counting if isinstance(event, Judged)]
    for event in judged:
        shown = event.subject.rpartition(" ")[2]
        if event.task is Task.LINK and event.subject in links:
            answers[ProposedLinks.kind].append((links[event.subject], event.answer is Answer.YES))
        elif event.task is Task.QUALITY and shown in boxes:
            answers[ProposedBoxes.kind].append((boxes[shown], event.answer is Answer.GOOD))
    probabilities = {ProposedLinks.kind: list(links.values()), ProposedBoxes.kind: list(boxes.values())}
    return PhotoProposals(photo_events[-1].number if photo_events else 0, bool(judged), probabilities, answers)


def mean_entropy(proposals: PhotoProposals, models: dict[str, Recalibration] | None = None) -> float:
    """Return the mean entropy, in bits, of all proposals for a photo; 1 without proposals."""
    found = [
        model.apply(each) if models else np.asarray(each, float)
        for kind, each in proposals.probabilities.items()
        for model in [(models or {}).get(kind, Recalibration())]
    ]
    joined = np.concatenate(found) if found else np.zeros(0)
    if not joined.size:
        return 1.0
    return sum(map(_entropy, joined.tolist())) / joined.size


def _entropy(probability: float) -> float:
    return -sum(part * math.log2(part) for part in (probability, 1 - probability) if part > 0)


@dataclass
class UncertaintyOrder:
    """Keeps the photos of a project in order. Reads only photos that have changed since the last time."""

    project: Project
    recalibrations: dict[str, Recalibration] = field(default_factory=dict)
    _known: dict[str, PhotoProposals] = field(default_factory=dict, init=False)
    _last_event: int | None = field(default=None, init=False)

    def refresh_if_due(self) -> bool:
        """Put the photos in order if the project's settings say so and enough has happened since the last time."""
        if self.project.settings.order != "uncertain":
            return False
        with self.project.database.reading() as connection:
            last = connection.scalar(select(func.coalesce(func.max(events.c.number), 0))) or 0
        if self._last_event is not None and last - self._last_event < EVENTS_PER_REFRESH:
            return False
        self.refresh()
        self._last_event = last
        return True

    def refresh(self) -> int:
        """Put the photos with the least certain proposals first, after those that are begun; return how many moved."""
        columns = (photos.c.id, photos.c.known, photos.c.place, photos.c.last_event, photos.c.finished)
        with self.project.database.reading() as connection:
            rows = connection.execute(select(*columns).order_by(photos.c.place)).all()
            for row in rows:
                known = self._known.get(row.id)
                if not row.known and (known is None or known.last_event != row.last_event):
                    self._known[row.id] = read_proposals(self.project.snapshots.read(connection, row.id).events)
        self.recalibrations = {
            kind: Recalibration.fit([answer for each in self._known.values() for answer in each.answers[kind]])
            for kind in (ProposedLinks.kind, ProposedBoxes.kind)
        }
        in_front = [row.id for row in rows if row.known or row.finished or self._known[row.id].begun]
        waiting = [row.id for row in rows if row.id not in set(in_front)]
        rank = {name: -mean_entropy(self._known[name], self.recalibrations) for name in waiting}
        return self._move([row.id for row in rows], in_front + sorted(waiting, key=lambda name: rank[name]))

    def _move(self, before: Sequence[str], after: Sequence[str]) -> int:
        """Store the new order. Photos that were added meanwhile come last."""
        if list(before) == list(after):
            return 0
        position = bindparam("p_position", type_=Integer)
        photo = bindparam("p_photo", type_=String)
        listed = set(after)
        with self.project.database.writing() as connection:
            names = connection.scalars(select(photos.c.id).order_by(photos.c.place)).all()
            ordered = [*after, *(name for name in names if name not in listed)]
            moves = [{"p_photo": name, "p_position": place} for place, name in enumerate(ordered, start=1)]
            # Positions are unique at all times, so move them out of the way first.
            connection.execute(update(photos).values(place=-photos.c.place))
            connection.execute(update(photos).where(photos.c.id == photo).values(place=position), moves)
            connection.execute(update(questions).where(questions.c.photo == photo).values(place=position), moves)
        return sum(one != other for one, other in zip(before, after, strict=True))
