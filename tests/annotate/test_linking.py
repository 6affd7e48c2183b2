"""Coreference links, and links and boxes that models propose."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.annotate.events import Judged, ProposedBoxes, ProposedLinks, Undone
from deixis.annotate.help.coreference import mention_features, possible_pairs
from deixis.annotate.linking import LinkProposals, groups_by_type, link_mentions, proposed_boxes_for
from deixis.annotate.material import CaptionMention, Material, prepare_photo
from deixis.annotate.state import extend_state
from deixis.annotate.workflow import Answer, Rules, Status, Task, allowed_answers
from tests.annotate.fakes import BOX, EventLog, photo

TYPES = ("people", "animals", "scene")


def mention(caption: int, start: int, head: str = "dog", *types: str) -> CaptionMention:
    return CaptionMention(
        f"{caption}:{start}-{start + 1}", caption, start, start + 1, types or ("animals",), head, head
    )


def asked_in_turn(
    mentions: list[CaptionMention], truth: dict[str, int]
) -> tuple[list[set[str]], list[tuple[str, str]]]:
    """Answer truthfully until all are placed; the chains, and all pairs that were asked."""
    answers: dict[tuple[str, str], Judged] = {}
    chains: list[set[str]] = []
    for group in groups_by_type(mentions):
        while (linked := link_mentions(group, answers.get, Rules())).next_pair:
            pair = linked.next_pair
            said = Answer.YES if truth[pair[0]] == truth[pair[1]] else Answer.NO
            number = len(answers) + 1
            assert pair not in answers
            answers[pair] = Judged(number=number, worker="ann", task=Task.LINK, subject=" ".join(pair), answer=said)
        chains += [{each.id for each in chain} for chain in linked.chains]
    return chains, list(answers)


def test_a_mention_is_compared_with_one_mention_of_each_chain() -> None:
    mentions = [mention(0, 0, "dog"), mention(0, 5, "cat"), mention(1, 0, "dog"), mention(2, 0, "cat")]
    chains, asked = asked_in_turn(mentions, {"0:0-1": 1, "0:5-6": 2, "1:0-1": 1, "2:0-1": 2})
    assert chains == [{"0:0-1", "1:0-1"}, {"0:5-6", "2:0-1"}]
    assert asked == [("0:0-1", "1:0-1"), ("0:5-6", "2:0-1")]


def test_the_chain_with_the_same_head_noun_comes_first() -> None:
    mentions = [mention(0, 0, "cat"), mention(0, 5, "dog"), mention(1, 0, "dog")]
    assert link_mentions(mentions, {}.get, Rules()).next_pair == ("0:5-6", "1:0-1")


def test_mentions_of_one_caption_or_without_a_common_type_are_never_compared() -> None:
    assert link_mentions([mention(0, 0), mention(0, 5)], {}.get, Rules()).next_pair is None
    one, other = mention(0, 0, "dog", "animals"), mention(1, 0, "man", "people")
    assert [link_mentions(group, {}.get, Rules()).next_pair for group in groups_by_type([one, other])] == [None, None]


def test_a_chain_with_a_mention_of_the_same_caption_is_not_compared() -> None:
    mentions = [mention(0, 0), mention(1, 0), mention(1, 5)]
    chains, asked = asked_in_turn(mentions, {"0:0-1": 1, "1:0-1": 1, "1:5-6": 1})
    assert asked == [("0:0-1", "1:0-1")]
    assert chains == [{"0:0-1", "1:0-1"}, {"1:5-6"}]


@st.composite
def photos(draw: st.DrawFn) -> tuple[list[CaptionMention], dict[str, int]]:
    mentions, truth = [], {}
    for caption in range(draw(st.integers(1, 5))):
        for place in range(draw(st.integers(0, 4))):
            types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True))
            made = mention(caption, 3 * place, draw(st.sampled_from(["dog", "cat", "man"])), *types)
            mentions.append(made)
            truth[made.id] = draw(st.integers(0, 4))
    return mentions, truth


@given(photos())
def test_truthful_answers_give_the_true_chains_with_at_most_mentions_times_chains_questions(
    made: tuple[list[CaptionMention], dict[str, int]],
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


YES, NO = Answer.YES, Answer.NO
DOGS = prepare_photo(photo("A dog runs.", "The puppy jumps.", "A brown dog."))
A, B, C = (mention.id for mention in DOGS.mentions)


def links(material: Material, likely: dict[tuple[int, int], float], number: int = 1) -> ProposedLinks:
    """What a model says of pairs of mentions, by their places."""
    names = [mention.id for mention in material.mentions]
    said = {f"{names[a]} {names[b]}": probability for (a, b), probability in likely.items()}
    return ProposedLinks(
        number=number, worker="m", model="coreference", fingerprint="f", links=said, yes_from=0.9, no_below=0.1
    )


def proposed_boxes(found: dict[str, list[list[float]]], number: int = 1) -> ProposedBoxes:
    return ProposedBoxes(number=number, worker="m", model="grounder", fingerprint="f", boxes=found, show_from=0.5)


def log_with(material: Material, *events: ProposedLinks | ProposedBoxes) -> EventLog:
    made = EventLog(material)
    made.events += events
    return made


SURE = links(DOGS, {(0, 1): 0.99, (0, 2): 0.95, (1, 2): 0.97})


def test_certain_links_of_the_model_are_only_verified_and_are_marked() -> None:
    question = log_with(DOGS, SURE).state.questions[0]
    assert (question.task, question.mentions) == (Task.VERIFY, (A, B, C))
    assert question.as_json()["proposal"] == {"model": "coreference", "links": 2}


def test_questions_without_proposals_have_no_mark() -> None:
    assert all("proposal" not in question.as_json() for question in log_with(DOGS).state.questions)


def test_uncertain_links_are_asked_of_workers() -> None:
    unsure = links(DOGS, {(0, 1): 0.5, (0, 2): 0.95, (1, 2): 0.97})
    question = log_with(DOGS, unsure).state.questions[0]
    assert (question.task, question.mentions) == (Task.LINK, (A, B))


def test_links_that_the_model_excludes_are_not_asked() -> None:
    apart = links(DOGS, {(0, 1): 0.01, (0, 2): 0.01, (1, 2): 0.01})
    state = log_with(DOGS, apart).state
    assert [len(chain.mentions) for chain in state.chains] == [1, 1, 1]
    assert {question.task for question in state.questions} == {Task.REQUIREMENT}


def test_the_answer_of_a_worker_overrides_the_model() -> None:
    unsure = links(DOGS, {(0, 1): 0.5, (0, 2): 0.95, (1, 2): 0.97})
    log = log_with(DOGS, unsure)
    log.answer(NO)
    log.events[0] = replace(SURE)  # a model that would have said yes
    assert all(len(chain.mentions) < 3 for chain in log.state.chains)


def test_the_most_probable_chain_is_asked_first() -> None:
    two = prepare_photo(photo("A man and a boy.", "A guy."))
    likely = links(two, {(0, 2): 0.3, (1, 2): 0.6})
    assert log_with(two, likely).state.questions[0].mentions == (two.mentions[1].id, two.mentions[2].id)
    assert log_with(two).state.questions[0].mentions[0] == two.mentions[0].id


def test_accepting_proposed_links_leads_to_boxes() -> None:
    state = log_with(DOGS, SURE).answer(YES)
    assert [len(chain.mentions) for chain in state.chains] == [3]
    assert state.questions[0].task is Task.REQUIREMENT


def test_rejecting_proposed_links_asks_about_each_and_another_worker_verifies() -> None:
    log = log_with(DOGS, SURE)
    state = log.answer(NO, workers=["ann"])
    assert (state.questions[0].task, state.questions[0].mentions) == (Task.LINK, (A, B))
    assert 2 in state.counted
    log.answer(YES)
    state = log.answer(YES)
    question = state.questions[0]
    assert (question.task, question.mentions) == (Task.VERIFY, (A, B, C))
    assert "proposal" not in question.as_json()
    assert question.barred == {"ann"}
    assert log.answer(YES).questions[0].task is Task.REQUIREMENT


def test_a_chain_that_workers_linked_again_is_split_by_head_noun() -> None:
    log = log_with(DOGS, SURE)
    state = log.answer(NO, YES, YES, NO)
    assert sorted(tuple(mention.id for mention in chain.mentions) for chain in state.chains) == [(A, C), (B,)]


def test_mentions_separated_after_a_rejection_stay_separate() -> None:
    state = log_with(DOGS, SURE).answer(NO, NO, YES)  # the last is about B and C, the likelier pair
    assert sorted(tuple(mention.id for mention in chain.mentions) for chain in state.chains) == [(A,), (B, C)]


def test_undoing_the_proposals_asks_workers_everything() -> None:
    log = log_with(DOGS, SURE)
    log.events.append(Undone(number=2, worker="owner", event=1))
    assert log.state == replace(log_with(DOGS).state)


def test_a_phrase_added_later_is_asked_of_workers() -> None:
    help_ = LinkProposals(links(DOGS, {(0, 1): 0.99}))
    assert help_.probability(DOGS.mentions[2], DOGS.mentions[:1]) is None
    assert help_.answer(DOGS.mentions[2], DOGS.mentions[:1], "") is None


def test_the_probability_of_a_chain_is_the_mean_of_the_log_odds() -> None:
    help_ = LinkProposals(links(DOGS, {(0, 1): 0.5, (0, 2): 0.9, (1, 2): 0.1}))
    assert help_.probability(DOGS.mentions[2], DOGS.mentions[:2]) == pytest.approx(0.5)


MAN = prepare_photo(photo("A man.", name="man"))
HIM = MAN.mentions[0].id


def test_a_proposed_box_is_judged_before_anybody_draws() -> None:
    state = log_with(MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.8]]})).state
    question = state.questions[0]
    assert question.task is Task.QUALITY
    assert question.as_json()["new_box"] == [10, 10, 50, 60]
    assert question.as_json()["proposal"] == {"model": "grounder", "probability": 0.8}


def test_a_proposed_box_that_workers_accept_is_kept() -> None:
    state = log_with(MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.8]]})).answer(Answer.GOOD, Answer.ALL, Answer.ALL)
    walk = state.chains[0].workflow
    assert walk is not None
    assert (walk.stage, [box.xyxy for box in walk.boxes]) == (Status.COMPLETE, [(10, 10, 50, 60)])


def test_a_rejected_proposal_is_offered_as_a_start_for_drawing() -> None:
    log = log_with(MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.8]]}))
    question = log.answer(Answer.BAD).questions[0]
    assert question.task is Task.DRAWING
    assert question.as_json()["proposal"] == {"model": "grounder", "box": [10, 10, 50, 60]}
    question = log.answer(Answer.DRAWN).questions[0]
    assert question.task is Task.QUALITY
    assert "proposal" not in question.as_json()
    again = log.answer(Answer.BAD)
    assert "proposal" not in again.questions[0].as_json()
    walk = again.chains[0].workflow
    assert walk is not None
    assert walk.bad_boxes == 1  # the model's does not count


def test_a_second_box_is_shown_only_when_more_are_needed() -> None:
    log = log_with(MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.8], [60, 10, 90, 60, 0.7]]}))
    assert log.answer(Answer.GOOD).questions[0].task is Task.COVERAGE
    question = log.answer(Answer.MORE).questions[0]
    assert (question.task, question.as_json()["new_box"]) == (Task.QUALITY, [60, 10, 90, 60])


def test_improbable_boxes_are_not_shown() -> None:
    assert log_with(MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.4]]})).state.questions[0].task is Task.DRAWING


def test_mentions_that_agree_on_a_box_make_it_more_probable() -> None:
    agree = proposed_boxes({A: [[0, 0, 10, 10, 0.8]], B: [[0, 0, 10, 9, 0.6]]})
    found = proposed_boxes_for(agree, DOGS.mentions[:2])
    assert [(box.xyxy, box.proposed.probability) for box in found if box.proposed] == [((0, 0, 10, 10), 0.7)]
    differ = proposed_boxes({A: [[0, 0, 10, 10, 0.8]], B: [[50, 0, 60, 9, 0.6]]})
    assert proposed_boxes_for(differ, DOGS.mentions[:2]) == ()


STREET = prepare_photo(
    photo("A man in a hat walks a dog.", "A boy with a dog on the street.", "Two people and their pet in a street.")
)


@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_proposals_and_answers_end_and_every_answer_counts(chance: random.Random) -> None:
    facts = mention_features(STREET)
    log = log_with(
        STREET,
        links(STREET, {pair: chance.random() for pair in possible_pairs(facts)}),
        proposed_boxes({mention.id: [[10, 10, 50, 60, chance.random()]] for mention in STREET.mentions}, number=2),
    )
    answers = 0
    while questions := log.state.questions:
        question = chance.choice(questions)
        worker = chance.choice([name for name in map(str, range(30)) if name not in question.barred])
        answer = chance.choice(allowed_answers(question.task))
        said = Judged(
            number=len(log.events) + 1,
            worker=worker,
            task=question.task,
            subject=question.subject,
            answer=answer,
            box=BOX if answer is Answer.DRAWN else None,
        )
        further = extend_state(log.state, STREET.photo, log.events, said, Rules(), independent=True)
        log.events.append(said)
        assert said.number in log.state.counted
        assert further is None or further == log.state
        answers += 1
        assert answers < 400
    placed = [mention.id for chain in log.state.chains for mention in chain.mentions]
    assert sorted(placed) == sorted(mention.id for mention in STREET.mentions)
