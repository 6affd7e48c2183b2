"""Proposals in the fold: what people are asked, and what they accept or correct."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.annotate.advancing import advanced
from deixis.annotate.events import Judged, ProposedBoxes, ProposedLinks, Undone
from deixis.annotate.help.coreference import possible_pairs
from deixis.annotate.help.mention_facts import facts_of
from deixis.annotate.help.proposals import LinkHelp, boxes_for
from deixis.annotate.material import Material, material_of
from deixis.annotate.walks import Answer, Rules, Stop, Task
from deixis.annotate.workflow import answers_to
from tests.annotate.fakes import BOX, Told, photo

YES, NO = Answer.YES, Answer.NO
DOGS = material_of(photo("A dog runs.", "The puppy jumps.", "A brown dog."))
A, B, C = (mention.id for mention in DOGS.mentions)


def links(material: Material, likely: dict[tuple[int, int], float], number: int = 1) -> ProposedLinks:
    """What a model says of pairs of mentions, by their places."""
    names = [mention.id for mention in material.mentions]
    said = {f"{names[a]} {names[b]}": probability for (a, b), probability in likely.items()}
    return ProposedLinks(
        number=number, worker="m", model="coreference", fingerprint="f", links=said, yes_from=0.9, no_below=0.1
    )


def boxes(said: dict[str, list[list[float]]], number: int = 1) -> ProposedBoxes:
    return ProposedBoxes(number=number, worker="m", model="grounder", fingerprint="f", boxes=said, show_from=0.5)


def told(material: Material, *events: ProposedLinks | ProposedBoxes) -> Told:
    made = Told(material)
    made.events += events
    return made


SURE = links(DOGS, {(0, 1): 0.99, (0, 2): 0.95, (1, 2): 0.97})


def test_links_that_the_model_is_sure_of_are_only_verified_and_marked() -> None:
    question = told(DOGS, SURE).state.questions[0]
    assert (question.task, question.mentions) == (Task.VERIFY, (A, B, C))
    assert question.as_json()["proposal"] == {"model": "coreference", "links": 2}


def test_without_proposals_no_question_has_a_mark() -> None:
    assert all("proposal" not in question.as_json() for question in told(DOGS).state.questions)


def test_what_the_model_is_not_sure_of_is_asked_of_people() -> None:
    unsure = links(DOGS, {(0, 1): 0.5, (0, 2): 0.95, (1, 2): 0.97})
    question = told(DOGS, unsure).state.questions[0]
    assert (question.task, question.mentions) == (Task.LINK, (A, B))


def test_what_the_model_is_sure_not_to_be_the_same_is_not_asked() -> None:
    apart = links(DOGS, {(0, 1): 0.01, (0, 2): 0.01, (1, 2): 0.01})
    state = told(DOGS, apart).state
    assert [len(chain.mentions) for chain in state.chains] == [1, 1, 1]
    assert {question.task for question in state.questions} == {Task.REQUIREMENT}


def test_a_person_goes_before_the_model() -> None:
    unsure = links(DOGS, {(0, 1): 0.5, (0, 2): 0.95, (1, 2): 0.97})
    asked = told(DOGS, unsure)
    asked.say(NO)
    asked.events[0] = replace(SURE)  # a model that would have said yes
    assert all(len(chain.mentions) < 3 for chain in asked.state.chains)


def test_the_likeliest_chain_is_asked_about_first() -> None:
    two = material_of(photo("A man and a boy.", "A guy."))
    likely = links(two, {(0, 2): 0.3, (1, 2): 0.6})
    assert told(two, likely).state.questions[0].mentions == (two.mentions[1].id, two.mentions[2].id)
    assert told(two).state.questions[0].mentions[0] == two.mentions[0].id


def test_accepting_leads_to_boxes() -> None:
    state = told(DOGS, SURE).say(YES)
    assert [len(chain.mentions) for chain in state.chains] == [3]
    assert state.questions[0].task is Task.REQUIREMENT


def test_refusing_asks_people_about_each_link_and_then_somebody_else_to_verify() -> None:
    asked = told(DOGS, SURE)
    state = asked.say(NO, workers=["ann"])
    assert (state.questions[0].task, state.questions[0].mentions) == (Task.LINK, (A, B))
    assert 2 in state.counted
    asked.say(YES)
    state = asked.say(YES)
    question = state.questions[0]
    assert (question.task, question.mentions) == (Task.VERIFY, (A, B, C))
    assert "proposal" not in question.as_json()
    assert question.barred == {"ann"}
    assert asked.say(YES).questions[0].task is Task.REQUIREMENT


def test_a_chain_that_people_made_anew_is_split_by_head_noun_as_any_other() -> None:
    asked = told(DOGS, SURE)
    state = asked.say(NO, YES, YES, NO)
    assert sorted(tuple(mention.id for mention in chain.mentions) for chain in state.chains) == [(A, C), (B,)]


def test_what_people_part_after_refusing_stays_parted() -> None:
    state = told(DOGS, SURE).say(NO, NO, YES)  # the last is about B and C, the likelier pair
    assert sorted(tuple(mention.id for mention in chain.mentions) for chain in state.chains) == [(A,), (B, C)]


def test_undoing_the_proposals_asks_people_everything() -> None:
    asked = told(DOGS, SURE)
    asked.events.append(Undone(number=2, worker="owner", event=1))
    assert asked.state == replace(told(DOGS).state)


def test_a_phrase_that_was_added_later_is_asked_of_people() -> None:
    help_ = LinkHelp(links(DOGS, {(0, 1): 0.99}))
    assert help_.probability(DOGS.mentions[2], DOGS.mentions[:1]) is None
    assert help_.answer(DOGS.mentions[2], DOGS.mentions[:1], "") is None


def test_a_chain_is_as_likely_as_the_mean_of_the_odds_of_its_mentions() -> None:
    help_ = LinkHelp(links(DOGS, {(0, 1): 0.5, (0, 2): 0.9, (1, 2): 0.1}))
    assert help_.probability(DOGS.mentions[2], DOGS.mentions[:2]) == pytest.approx(0.5)


MAN = material_of(photo("A man.", name="man"))
HIM = MAN.mentions[0].id


def test_a_proposed_box_is_judged_before_anybody_draws() -> None:
    state = told(MAN, boxes({HIM: [[10, 10, 50, 60, 0.8]]})).state
    question = state.questions[0]
    assert question.task is Task.QUALITY
    assert question.as_json()["new_box"] == [10, 10, 50, 60]
    assert question.as_json()["proposal"] == {"model": "grounder", "probability": 0.8}


def test_a_box_that_people_find_good_is_kept() -> None:
    state = told(MAN, boxes({HIM: [[10, 10, 50, 60, 0.8]]})).say(Answer.GOOD, Answer.ALL, Answer.ALL)
    walk = state.chains[0].walk
    assert walk is not None
    assert (walk.at, [box.xyxy for box in walk.boxes]) == (Stop.COMPLETE, [(10, 10, 50, 60)])


def test_a_box_that_people_find_bad_is_a_start_for_whoever_draws() -> None:
    asked = told(MAN, boxes({HIM: [[10, 10, 50, 60, 0.8]]}))
    question = asked.say(Answer.BAD).questions[0]
    assert question.task is Task.DRAWING
    assert question.as_json()["proposal"] == {"model": "grounder", "box": [10, 10, 50, 60]}
    question = asked.say(Answer.DRAWN).questions[0]
    assert question.task is Task.QUALITY
    assert "proposal" not in question.as_json()
    again = asked.say(Answer.BAD)
    assert "proposal" not in again.questions[0].as_json()
    walk = again.chains[0].walk
    assert walk is not None
    assert walk.bad_boxes == 1  # the model's does not count


def test_a_second_box_is_shown_only_when_more_are_needed() -> None:
    asked = told(MAN, boxes({HIM: [[10, 10, 50, 60, 0.8], [60, 10, 90, 60, 0.7]]}))
    assert asked.say(Answer.GOOD).questions[0].task is Task.COVERAGE
    question = asked.say(Answer.MORE).questions[0]
    assert (question.task, question.as_json()["new_box"]) == (Task.QUALITY, [60, 10, 90, 60])


def test_boxes_of_which_the_model_is_not_sure_are_not_shown() -> None:
    assert told(MAN, boxes({HIM: [[10, 10, 50, 60, 0.4]]})).state.questions[0].task is Task.DRAWING


def test_mentions_that_agree_make_a_box_surer_than_those_that_do_not() -> None:
    agree = boxes({A: [[0, 0, 10, 10, 0.8]], B: [[0, 0, 10, 9, 0.6]]})
    found = boxes_for(agree, DOGS.mentions[:2])
    assert [(box.xyxy, box.proposed.probability) for box in found if box.proposed] == [((0, 0, 10, 10), 0.7)]
    differ = boxes({A: [[0, 0, 10, 10, 0.8]], B: [[50, 0, 60, 9, 0.6]]})
    assert boxes_for(differ, DOGS.mentions[:2]) == ()


STREET = material_of(
    photo("A man in a hat walks a dog.", "A boy with a dog on the street.", "Two people and their pet in a street.")
)


@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False))
def test_whatever_is_proposed_and_answered_comes_to_an_end_and_every_answer_counts(chance: random.Random) -> None:
    facts = facts_of(STREET)
    asked = told(
        STREET,
        links(STREET, {pair: chance.random() for pair in possible_pairs(facts)}),
        boxes({mention.id: [[10, 10, 50, 60, chance.random()]] for mention in STREET.mentions}, number=2),
    )
    answers = 0
    while questions := asked.state.questions:
        question = chance.choice(questions)
        worker = chance.choice([name for name in map(str, range(30)) if name not in question.barred])
        answer = chance.choice(answers_to(question.task))
        said = Judged(
            number=len(asked.events) + 1,
            worker=worker,
            task=question.task,
            subject=question.subject,
            answer=answer,
            box=BOX if answer is Answer.DRAWN else None,
        )
        further = advanced(asked.state, STREET.photo, asked.events, said, Rules(), independent=True)
        asked.events.append(said)
        assert said.number in asked.state.counted
        assert further is None or further == asked.state
        answers += 1
        assert answers < 400
    placed = [mention.id for chain in asked.state.chains for mention in chain.mentions]
    assert sorted(placed) == sorted(mention.id for mention in STREET.mentions)
