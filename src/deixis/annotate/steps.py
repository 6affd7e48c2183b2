"""The words in the table of the workflow: first what a step does, then when it is taken.

That is asked after it was done, and before it where no answer is needed.

Their names are what `deixis annotate workflow` prints, so they read as the paper does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from deixis.annotate.walks import Answer, Rules, Said, Vote, Walk


def nothing(walk: Walk, said: Said) -> Walk:
    """Nothing but the step itself."""
    return walk


def join_the_chain(walk: Walk, said: Said) -> Walk:
    """The mention names the same as the chain it was asked against."""
    return replace(walk, chain=walk.chains_left[0], chains_left=())


def pass_the_chain_by(walk: Walk, said: Said) -> Walk:
    """It does not; the chain is not asked about again."""
    return replace(walk, chains_left=walk.chains_left[1:])


def start_a_chain(walk: Walk, said: Said) -> Walk:
    """It names something that no chain names yet."""
    return replace(walk, chains_left=())


def split_by_head_noun(walk: Walk, said: Said) -> Walk:
    """Each part with the same last word walks on as a chain of its own, and is not verified again."""
    return replace(walk, split=True)


def take_the_proposals_back(walk: Walk, said: Said) -> Walk:
    """What a model has linked is asked of people, mention by mention; the mentions walk anew."""
    return walk


def vote_on_requirement(walk: Walk, said: Said) -> Walk:
    """Whoever was to draw the first box and says "no more" votes for no box."""
    answer = Answer.NO_BOX if said.answer is Answer.NO_MORE else said.answer
    return replace(walk, wanted=(*walk.wanted, Vote(said.worker, answer)))


def vote_on_coverage(walk: Walk, said: Said) -> Walk:
    """Whoever was to draw a further box and says "no more" votes that all are drawn."""
    answer = Answer.ALL if said.answer is Answer.NO_MORE else said.answer
    return replace(walk, covered=(*walk.covered, Vote(said.worker, answer)))


def show_the_new_box(walk: Walk, said: Said) -> Walk:
    """One new box, beside those that are there."""
    return replace(walk, new_box=said.box, set_aside=None)


def show_the_proposed_box(walk: Walk, said: Said) -> Walk:
    """A model's box is judged like any other, and before anybody draws."""
    return replace(walk, new_box=walk.proposed_boxes[0], proposed_boxes=walk.proposed_boxes[1:], set_aside=None)


def keep_the_box(walk: Walk, said: Said) -> Walk:
    """The boxes are others now, so the vote on coverage begins anew."""
    assert walk.new_box is not None  # noqa: S101 - only Quality leads here
    return replace(walk, boxes=(*walk.boxes, walk.new_box), new_box=None, covered=(), bad_boxes=0)


def discard_the_box(walk: Walk, said: Said) -> Walk:
    """The other boxes, and the votes about them, stay. A model's box is no failure of those who draw."""
    box = walk.new_box
    if box is not None and box.proposed:
        return replace(walk, new_box=None, set_aside=box)
    return replace(walk, new_box=None, bad_boxes=walk.bad_boxes + 1)


def begin_votes_anew(walk: Walk, said: Said) -> Walk:
    """A reviewer has decided that there is something to draw."""
    return replace(walk, wanted=(), covered=(), new_box=None, bad_boxes=0)


def take_the_boxes_away(walk: Walk, said: Said) -> Walk:
    """A reviewer has decided that there is nothing to draw."""
    return replace(walk, wanted=(Vote(said.worker, said.answer),), boxes=(), new_box=None)


def always(walk: Walk, rules: Rules) -> bool:
    """In every other case."""
    return True


def a_chain_is_left(walk: Walk, rules: Rules) -> bool:
    """There is a chain that the mention may belong to and was not asked against."""
    return bool(walk.chains_left)


def it_has_several_mentions(walk: Walk, rules: Rules) -> bool:
    """Links could be wrong only where there are links."""
    return walk.mentions > 1


def links_were_proposed(walk: Walk, rules: Rules) -> bool:
    """A model has put mentions into it."""
    return walk.proposed_links > 0


def a_box_is_proposed(walk: Walk, rules: Rules) -> bool:
    """A model has one that nobody has judged yet."""
    return bool(walk.proposed_boxes)


def its_type_needs_boxes(walk: Walk, rules: Rules) -> bool:
    """It holds a mention of people, clothing or body parts."""
    return walk.drawn_at_once


def a_box_is_wanted(walk: Walk, rules: Rules) -> bool:
    """More say that a box can be drawn than do not."""
    return 2 * _count(walk.wanted, Answer.BOX) > len(walk.wanted)


def no_box_is_wanted(walk: Walk, rules: Rules) -> bool:
    """More say scene or no box, and two of them the same; after a third judgement the majority is enough."""
    kinds = Counter(vote.answer for vote in walk.wanted if vote.answer is not Answer.BOX)
    agreed = max(kinds.values(), default=0) >= rules.to_end or len(walk.wanted) > rules.to_end
    return 2 * kinds.total() > len(walk.wanted) and agreed


def requirement_cycles(walk: Walk, rules: Rules) -> bool:
    """Many voices, and still no end."""
    return len(walk.wanted) >= rules.votes_to_review


def there_are_boxes(walk: Walk, rules: Rules) -> bool:
    """At least one box passed Quality."""
    return bool(walk.boxes)


def all_are_drawn(walk: Walk, rules: Rules) -> bool:
    """Two say that all boxes are drawn, and they are the majority."""
    said_all = _count(walk.covered, Answer.ALL)
    return said_all >= rules.to_end and 2 * said_all > len(walk.covered)


def more_are_needed(walk: Walk, rules: Rules) -> bool:
    """More say that boxes are missing than do not."""
    return 2 * _count(walk.covered, Answer.MORE) > len(walk.covered)


def coverage_cycles(walk: Walk, rules: Rules) -> bool:
    """Many voices on the same boxes, and still no end."""
    return len(walk.covered) >= rules.votes_to_review


def boxes_keep_failing(walk: Walk, rules: Rules) -> bool:
    """One box after the other was bad."""
    return walk.bad_boxes >= rules.bad_boxes_to_review


def _count(votes: tuple[Vote, ...], answer: Answer) -> int:
    return sum(vote.answer is answer for vote in votes)
