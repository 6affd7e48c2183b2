"""The fold, one event further: most events change one chain only, and the rest of the photo stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deixis.annotate.events import Event, Judged, Skipped
from deixis.annotate.state import ChainState, PhotoState, is_finished, question_of, walk_on
from deixis.annotate.walks import Rules, Stop, Task


def advanced(
    state: PhotoState, photo: str, events: Sequence[Event], new: Event, rules: Rules, *, independent: bool
) -> PhotoState | None:
    """The state after a judgement about boxes; None for any other event, which may change more than one chain.

    Parameters
    ----------
    state, photo, events
        The state that these events of a photo make.
    new
        The event after them.
    rules, independent
        As `deixis.annotate.state.photo_state` takes them.
    """
    if not isinstance(new, Judged) or new.task in (Task.LINK, Task.VERIFY):
        return None
    if any(isinstance(event, Skipped) for event in events):  # who gave a question back is not in the state
        return None
    place = _place_of(state, new.subject.partition(" ")[0])
    if place is None:
        return None
    before = state.chains[place]
    chain = walk_on(before, new, rules)
    if chain is before:
        return state
    if chain.walk is None or chain.walk.at is Stop.REVIEW:
        return None
    asked = question_of(photo, chain, independent)
    questions = tuple(
        other
        for question in state.questions
        if (other := asked if question.mentions == (chain.shown.id,) else question) is not None
    )
    chains = (*state.chains[:place], chain, *state.chains[place + 1 :])
    return replace(
        state,
        chains=chains,
        questions=questions,
        finished=is_finished(chains, questions, state.review),
        counted=state.counted | {new.number},
    )


def _place_of(state: PhotoState, shown: str) -> int | None:
    """Which chain a mention stands for."""

    def stands_for(chain: ChainState) -> bool:
        return chain.walk is not None and chain.shown.id == shown

    return next((place for place, chain in enumerate(state.chains) if stands_for(chain)), None)
