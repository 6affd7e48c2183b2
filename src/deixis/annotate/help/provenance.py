"""What models proposed for a chain, and what people made of it: for the export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deixis.annotate.events import Event, Judged, ProposedBoxes, ProposedLinks, in_force
from deixis.annotate.help.proposals import boxes_for
from deixis.annotate.state import ChainState
from deixis.annotate.walks import Answer, Task


def proposed_for(chains: Sequence[ChainState], events: Sequence[Event]) -> dict[str, Any] | None:
    """What was proposed for a chain, and what became of it; None where no model had a word.

    Parameters
    ----------
    chains
        The chain, or all that were merged into it.
    events
        Those of the photo.

    Returns
    -------
    dict, optional
        ``links``: the model, how many mentions it joined to the chain, how often it kept one of them apart from another
        chain, how many people joined, and the judgements that refused what it had made of these mentions.
        ``boxes``: the model, and for each box that people judged whether they found it good; those never shown are
        counted.
    """
    counted = in_force(events)
    found: dict[str, Any] = {}
    for event in counted:
        if isinstance(event, ProposedLinks):
            found["links"] = _about(event) | _links(chains, event, counted)
        elif isinstance(event, ProposedBoxes):
            found["boxes"] = _about(event) | _boxes(chains, event, counted)
    return found or None


def _about(event: ProposedLinks | ProposedBoxes) -> dict[str, Any]:
    return {"model": event.model, "fingerprint": event.fingerprint, "event": event.number}


def _links(chains: Iterable[ChainState], event: ProposedLinks, events: Iterable[Event]) -> dict[str, Any]:
    """What the model and people answered about links, and refusals of what it had put together."""
    answers = [(number, edge.answers) for chain in chains for number, edge in chain.taken if edge.at is Task.LINK]
    by_model = [said for number, said in answers if number == event.number]
    people = [said for number, said in answers if number != event.number]
    mentions = {mention.id for chain in chains for mention in chain.mentions}
    refused = [
        said.number
        for said in events
        if isinstance(said, Judged)
        and said.task is Task.VERIFY
        and said.answer is Answer.NO
        and mentions & set(said.subject.split())
    ]
    return {
        "joined_by_model": sum(Answer.YES in said for said in by_model),
        "kept_apart_by_model": sum(Answer.NO in said for said in by_model),
        "joined_by_people": sum(Answer.YES in said for said in people),
        "refused_by": refused,
    }


def _boxes(chains: Iterable[ChainState], event: ProposedBoxes, events: Sequence[Event]) -> dict[str, Any]:
    """The boxes that were proposed, and what people said of those that they were shown."""
    verdicts = {
        said.subject.split()[-1].removeprefix("?"): said
        for said in events
        if isinstance(said, Judged) and said.task is Task.QUALITY
    }
    judged, unseen = [], 0
    for chain in chains:
        for box in boxes_for(event, chain.mentions):
            said = verdicts.get(box.id)
            if said is None:
                unseen += 1
                continue
            judged.append(
                {"box": list(box.xyxy), "probability": box.proposed.probability if box.proposed else None}
                | {"said": said.answer.value, "judged_by": said.number}
            )
    return {"judged": judged, "not_shown": unseen}
