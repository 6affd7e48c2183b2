"""Coreference links: who is asked against whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deixis.annotate.events import Judged
from deixis.annotate.linking import groups_by_type, link
from deixis.annotate.material import Marked
from deixis.annotate.walks import Answer, Rules, Task

TYPES = ("people", "animals", "scene")


def mention(caption: int, start: int, head: str = "dog", *types: str) -> Marked:
    return Marked(f"{caption}:{start}-{start + 1}", caption, start, start + 1, types or ("animals",), head, head)


def asked_in_turn(mentions: list[Marked], truth: dict[str, int]) -> tuple[list[set[str]], list[tuple[str, str]]]:
    """Answer truthfully until all are placed; the chains, and all pairs that were asked."""
    answers: dict[tuple[str, str], Judged] = {}
    chains: list[set[str]] = []
    for group in groups_by_type(mentions):
        while (linked := link(group, answers.get, Rules())).asked:
            pair = linked.asked
            said = Answer.YES if truth[pair[0]] == truth[pair[1]] else Answer.NO
            number = len(answers) + 1
            assert pair not in answers
            answers[pair] = Judged(number=number, worker="ann", task=Task.LINK, subject=" ".join(pair), answer=said)
        chains += [{each.id for each in chain} for chain in linked.chains]
    return chains, list(answers)


def test_a_mention_is_asked_against_one_mention_of_each_chain() -> None:
    mentions = [mention(0, 0, "dog"), mention(0, 5, "cat"), mention(1, 0, "dog"), mention(2, 0, "cat")]
    chains, asked = asked_in_turn(mentions, {"0:0-1": 1, "0:5-6": 2, "1:0-1": 1, "2:0-1": 2})
    assert chains == [{"0:0-1", "1:0-1"}, {"0:5-6", "2:0-1"}]
    assert asked == [("0:0-1", "1:0-1"), ("0:5-6", "2:0-1")]


def test_the_chain_of_the_same_head_noun_is_asked_first() -> None:
    mentions = [mention(0, 0, "cat"), mention(0, 5, "dog"), mention(1, 0, "dog")]
    assert link(mentions, {}.get, Rules()).asked == ("0:5-6", "1:0-1")


def test_mentions_of_one_caption_and_of_no_common_type_are_never_asked() -> None:
    assert link([mention(0, 0), mention(0, 5)], {}.get, Rules()).asked is None
    one, other = mention(0, 0, "dog", "animals"), mention(1, 0, "man", "people")
    assert [link(group, {}.get, Rules()).asked for group in groups_by_type([one, other])] == [None, None]


def test_a_chain_that_holds_a_mention_of_the_caption_is_not_asked() -> None:
    mentions = [mention(0, 0), mention(1, 0), mention(1, 5)]
    chains, asked = asked_in_turn(mentions, {"0:0-1": 1, "1:0-1": 1, "1:5-6": 1})
    assert asked == [("0:0-1", "1:0-1")]
    assert chains == [{"0:0-1", "1:0-1"}, {"1:5-6"}]


@st.composite
def photos(draw: st.DrawFn) -> tuple[list[Marked], dict[str, int]]:
    mentions, truth = [], {}
    for caption in range(draw(st.integers(1, 5))):
        for place in range(draw(st.integers(0, 4))):
            types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True))
            made = mention(caption, 3 * place, draw(st.sampled_from(["dog", "cat", "man"])), *types)
            mentions.append(made)
            truth[made.id] = draw(st.integers(0, 4))
    return mentions, truth


@given(photos())
def test_truthful_answers_need_no_more_than_mentions_times_chains_and_give_chains_of_one_thing(
    made: tuple[list[Marked], dict[str, int]],
) -> None:
    mentions, truth = made
    by_id = {each.id: each for each in mentions}
    chains, asked = asked_in_turn(mentions, truth)
    assert sorted(name for chain in chains for name in chain) == sorted(by_id)
    assert len(asked) <= len(mentions) * max(len(chains), 1)
    for chain in chains:
        assert len({truth[name] for name in chain}) == 1
        assert len({by_id[name].caption for name in chain}) == len(chain)
    for first, second in asked:
        assert by_id[first].caption < by_id[second].caption
        assert set(by_id[first].types) & set(by_id[second].types)
