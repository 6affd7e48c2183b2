"""The group interface for coreference."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_crowd import HONEST, Truth, simulate_crowd

from deixis.annotate.chains import (
    LinkProposals,
    find_grouping_problem,
    groups_by_type,
    link_mentions,
    proposed_boxes_for,
    rand_index,
)
from deixis.annotate.events import Event, Judged, PhraseDecision, ProposedBoxes, ProposedLinks, Undone
from deixis.annotate.help.coreference import mention_features, possible_pairs
from deixis.annotate.known_answers import add_known_photos, make_grouped_questions
from deixis.annotate.material import CaptionMention, Material, prepare_photo
from deixis.annotate.project import add_photos
from deixis.annotate.state import PhotoState, derive_state, extend_state
from deixis.annotate.store import RefusedError
from deixis.annotate.workflow import Answer, Question, Rules, Status, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import EventLog, ask, gold, judge, judge_at_random, people, photo, record, snapshot

YES, NO = Answer.YES, Answer.NO
TYPES = ("people", "animals", "scene")


def mention(caption: int, start: int, head: str = "dog", *types: str) -> CaptionMention:
    return CaptionMention(
        f"{caption}:{start}-{start + 1}", caption, start, start + 1, types or ("animals",), head, head
    )


def link_truthfully(
    mentions: list[CaptionMention], truth: dict[str, int]
) -> tuple[list[set[str]], list[tuple[str, str]]]:
    """Answer correctly until all mentions are placed; return the chains and all pairs that were asked."""
    answers: dict[str, Judged] = {}
    asked: list[tuple[str, str]] = []
    chains: list[set[str]] = []
    for group in groups_by_type(mentions):
        while (linked := link_mentions(group, answers, Rules())).next_pair:
            pair = linked.next_pair
            assert pair not in asked
            asked.append(pair)
            question = Question("7", Task.LINK, pair)
            value = YES if truth[pair[0]] == truth[pair[1]] else NO
            answers[question.subject] = judge(len(asked), question, "ann", value)
        chains += [{each.id for each in chain} for chain in linked.chains]
    return chains, asked


def test_a_mention_is_compared_with_one_mention_of_each_chain() -> None:
    mentions = [mention(0, 0, "dog"), mention(0, 5, "cat"), mention(1, 0, "dog"), mention(2, 0, "cat")]
    chains, asked = link_truthfully(mentions, {"0:0-1": 1, "0:5-6": 2, "1:0-1": 1, "2:0-1": 2})
    assert chains == [{"0:0-1", "1:0-1"}, {"0:5-6", "2:0-1"}]
    assert asked == [("0:0-1", "1:0-1"), ("0:5-6", "2:0-1")]


def test_the_chain_with_the_same_head_noun_comes_first() -> None:
    mentions = [mention(0, 0, "cat"), mention(0, 5, "dog"), mention(1, 0, "dog")]
    assert link_mentions(mentions, {}, Rules()).next_pair == ("0:5-6", "1:0-1")


def test_mentions_of_one_caption_or_without_a_common_type_are_never_compared() -> None:
    assert link_mentions([mention(0, 0), mention(0, 5)], {}, Rules()).next_pair is None
    one, other = mention(0, 0, "dog", "animals"), mention(1, 0, "man", "people")
    assert [link_mentions(group, {}, Rules()).next_pair for group in groups_by_type([one, other])] == [None, None]


def test_a_chain_with_a_mention_of_the_same_caption_is_not_compared() -> None:
    mentions = [mention(0, 0), mention(1, 0), mention(1, 5)]
    chains, asked = link_truthfully(mentions, {"0:0-1": 1, "1:0-1": 1, "1:5-6": 1})
    assert asked == [("0:0-1", "1:0-1")]
    assert chains == [{"0:0-1", "1:0-1"}, {"1:5-6"}]


@st.composite
def photos(draw: st.DrawFn) -> tuple[list[CaptionMention], dict[str, int]]:
    mentions, truth = [], {}
    for caption in range(draw(st.integers(1, 5))):
        for index in range(draw(st.integers(0, 4))):
            types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True))
            made = mention(caption, 3 * index, draw(st.sampled_from(["dog", "cat", "man"])), *types)
            mentions.append(made)
            truth[made.id] = draw(st.integers(0, 4))
    return mentions, truth


@given(photos())
def test_truthful_answers_give_the_true_chains_with_at_most_mentions_times_chains_questions(
    made: tuple[list[CaptionMention], dict[str, int]],
) -> None:
    mentions, truth = made
    by_id = {each.id: each for each in mentions}
    chains, asked = link_truthfully(mentions, truth)
    assert sorted(name for chain in chains for name in chain) == sorted(by_id)
    assert len(asked) <= len(mentions) * max(len(chains), 1)
    for chain in chains:
        assert len({truth[name] for name in chain}) == 1
        assert len({by_id[name].caption for name in chain}) == len(chain)
    for first, second in asked:
        assert by_id[first].caption < by_id[second].caption
        assert set(by_id[first].types) & set(by_id[second].types)


DOGS = prepare_photo(photo("A dog runs.", "The puppy jumps.", "A brown dog."))
A, B, C = (mention.id for mention in DOGS.mentions)


def links(material: Material, probabilities: dict[tuple[int, int], float]) -> ProposedLinks:
    """Propose links with these probabilities, by the indices of the mentions."""
    names = [mention.id for mention in material.mentions]
    found = {f"{names[a]} {names[b]}": probability for (a, b), probability in probabilities.items()}
    return ProposedLinks(
        number=1, worker="m", model="coreference", fingerprint="f", links=found, yes_from=0.9, no_below=0.1
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

    assert all("proposal" not in question.as_json() for question in log_with(DOGS).state.questions)


def test_uncertain_links_are_asked_of_workers_whose_answer_overrides_the_model() -> None:
    log = log_with(DOGS, links(DOGS, {(0, 1): 0.5, (0, 2): 0.95, (1, 2): 0.97}))
    question = log.state.questions[0]
    assert (question.task, question.mentions) == (Task.LINK, (A, B))
    log.answer(NO)
    log.events[0] = SURE  # a model that would have said yes
    assert all(len(chain.mentions) < 3 for chain in log.state.chains)


def test_links_that_the_model_excludes_are_not_asked() -> None:
    apart = links(DOGS, {(0, 1): 0.01, (0, 2): 0.01, (1, 2): 0.01})
    state = log_with(DOGS, apart).state
    assert [len(chain.mentions) for chain in state.chains] == [1, 1, 1]
    assert {question.task for question in state.questions} == {Task.REQUIREMENT}


def test_the_most_probable_chain_is_asked_first() -> None:
    two = prepare_photo(photo("A man and a boy.", "A guy."))
    assert log_with(two, links(two, {(0, 2): 0.3, (1, 2): 0.6})).state.questions[0].mentions == (
        two.mentions[1].id,
        two.mentions[2].id,
    )
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
    assert "ann" in question.barred
    assert log.answer(YES).questions[0].task is Task.REQUIREMENT


@pytest.mark.parametrize(
    ("answers", "chains"),
    [
        ((NO, YES, YES, NO), [(A, C), (B,)]),  # linked again, then split by head noun
        ((NO, NO, YES), [(A,), (B, C)]),  # the last answer is about B and C, the more probable pair
    ],
)
def test_links_of_workers_replace_rejected_ones(answers: tuple[Answer, ...], chains: list[tuple[str, ...]]) -> None:
    state = log_with(DOGS, SURE).answer(*answers)
    assert sorted(tuple(mention.id for mention in chain.mentions) for chain in state.chains) == chains


def test_undoing_the_proposals_asks_workers_everything() -> None:
    log = log_with(DOGS, SURE)
    log.events.append(Undone(number=2, worker="owner", event=1))
    assert log.state == log_with(DOGS).state


def test_the_probability_of_a_chain_is_the_mean_of_the_log_odds() -> None:
    proposals = LinkProposals(links(DOGS, {(0, 1): 0.5, (0, 2): 0.9, (1, 2): 0.1}))
    assert proposals.probability(DOGS.mentions[2], DOGS.mentions[:2]) == pytest.approx(0.5)
    without = LinkProposals(links(DOGS, {(0, 1): 0.99}))  # the third phrase was added later
    assert without.probability(DOGS.mentions[2], DOGS.mentions[:1]) is None
    assert without.answer(DOGS.mentions[2], DOGS.mentions[:1], "") is None


ONE_MAN = prepare_photo(photo("A man.", name="man"))
HIM = ONE_MAN.mentions[0].id


ONE_BOX = proposed_boxes({HIM: [[10, 10, 50, 60, 0.8]]})


def test_a_proposed_box_is_judged_before_anybody_draws_and_kept_if_accepted() -> None:
    log = log_with(ONE_MAN, ONE_BOX)
    question = log.state.questions[0]
    assert question.task is Task.QUALITY
    assert question.as_json()["new_box"] == [10, 10, 50, 60]
    assert question.as_json()["proposal"] == {"model": "grounder", "probability": 0.8}
    workflow = log.answer(Answer.GOOD, Answer.ALL, Answer.ALL).chains[0].workflow
    assert workflow is not None
    assert (workflow.stage, [box.xyxy for box in workflow.boxes]) == (Status.COMPLETE, [(10, 10, 50, 60)])


def test_a_rejected_proposal_is_offered_as_a_start_for_drawing() -> None:
    log = log_with(ONE_MAN, ONE_BOX)
    question = log.answer(Answer.BAD).questions[0]
    assert question.task is Task.DRAWING
    assert question.as_json()["proposal"] == {"model": "grounder", "box": [10, 10, 50, 60]}
    question = log.answer(Answer.DRAWN).questions[0]
    assert question.task is Task.QUALITY
    assert "proposal" not in question.as_json()
    again = log.answer(Answer.BAD)
    assert "proposal" not in again.questions[0].as_json()
    workflow = again.chains[0].workflow
    assert workflow is not None
    assert workflow.bad_boxes == 1  # the model's box does not count


def test_a_second_box_is_shown_only_when_more_are_needed() -> None:
    log = log_with(ONE_MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.8], [60, 10, 90, 60, 0.7]]}))
    assert log.answer(Answer.GOOD).questions[0].task is Task.COVERAGE
    question = log.answer(Answer.MORE).questions[0]
    assert (question.task, question.as_json()["new_box"]) == (Task.QUALITY, [60, 10, 90, 60])


def test_improbable_boxes_are_not_shown() -> None:
    assert log_with(ONE_MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.4]]})).state.questions[0].task is Task.DRAWING


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
def test_any_proposals_and_answers_end_and_every_answer_counts(rng: random.Random) -> None:
    log = log_with(
        STREET,
        links(STREET, {pair: rng.random() for pair in possible_pairs(mention_features(STREET))}),
        proposed_boxes({mention.id: [[10, 10, 50, 60, rng.random()]] for mention in STREET.mentions}, number=2),
    )
    while questions := log.state.questions:
        judged = judge_at_random(len(log.events) + 1, questions, rng)
        extended = extend_state(log.state, STREET.photo, log.events, judged, Rules())
        log.events.append(judged)
        assert judged.number in log.state.counted
        assert extended in (None, log.state)
        assert len(log.events) < 400
    placed = [mention.id for chain in log.state.chains for mention in chain.mentions]
    assert sorted(placed) == sorted(mention.id for mention in STREET.mentions)


MATERIAL = prepare_photo(photo("A man sees a woman.", "The guy waves.", "Two people."))
MAN, WOMAN, GUY, BOTH = (mention.id for mention in MATERIAL.mentions)
RULES = Rules(group_links=True)


def grouped(*groups: tuple[str, ...], number: int = 1, worker: str = "ann") -> Judged:
    subject = " ".join((MAN, WOMAN, GUY, BOTH))
    return Judged(number=number, worker=worker, task=Task.GROUP, subject=subject, answer=Answer.GROUPED, groups=groups)


def state_after(*events: Event, rules: Rules = RULES) -> PhotoState:
    return derive_state(MATERIAL, list(events), rules)


def test_one_question_asks_about_all_mentions_that_could_be_the_same() -> None:
    asked = state_after().questions
    assert [(question.task, question.mentions) for question in asked] == [(Task.GROUP, (MAN, WOMAN, GUY, BOTH))]
    assert state_after(rules=Rules()).questions[0].task is Task.LINK


def test_the_answer_makes_chains_that_somebody_else_verifies() -> None:
    state = state_after(grouped((MAN, GUY), (WOMAN,), (BOTH,)))
    assert [[mention.id for mention in chain.mentions] for chain in state.chains] == [[MAN, GUY], [WOMAN], [BOTH]]
    verify = next(question for question in state.questions if question.task is Task.VERIFY)
    assert (verify.mentions, verify.barred) == ((MAN, GUY), {"ann"})
    assert state.counted == {1}


def test_a_dropped_phrase_leaves_the_other_groups() -> None:
    dropped = PhraseDecision(number=2, worker="rob", mention=WOMAN, decision="drop")
    state = state_after(grouped((MAN, GUY), (WOMAN,), (BOTH,)), dropped)
    assert [[mention.id for mention in chain.mentions] for chain in state.chains] == [[MAN, GUY], [BOTH]]


def test_pairs_that_were_begun_are_finished_as_pairs() -> None:
    pair = state_after(rules=Rules()).questions[0]
    judged = Judged(number=1, worker="ann", task=Task.LINK, subject=pair.subject, answer=Answer.NO)
    assert {question.task for question in state_after(judged).questions} == {Task.LINK}


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [[MAN, GUY]],
        [[MAN, GUY], [WOMAN], [BOTH, BOTH]],
        [[MAN, WOMAN], [GUY], [BOTH]],
        [[MAN, GUY, WOMAN, BOTH], []],
    ],
)
def test_answers_that_are_no_groups_are_refused(new_project: MakeProject, groups: list[list[str]]) -> None:
    assert find_grouping_problem((MAN, WOMAN, GUY, BOTH), groups)
    project, _ = new_project(0, group_links=True)
    add_photos(project, [MATERIAL])
    [ann] = people(project, "Ann")
    token = ask(project, ann).token
    with pytest.raises(RefusedError):
        record(project, ann, token, "grouped", groups=groups)
    record(project, ann, token, "grouped", groups=[[MAN, GUY], [WOMAN], [BOTH]])
    assert len(snapshot(project, "7").state.chains) == 3


def test_agreement_of_groups_is_that_of_their_pairs() -> None:
    assert rand_index([[MAN, GUY], [WOMAN]], [[GUY, MAN], [WOMAN]]) == 1.0
    assert rand_index([[MAN, GUY], [WOMAN]], [[GUY], [MAN], [WOMAN]]) == 0.5  # man and woman are of one caption


def test_known_groups_are_the_gold_chains() -> None:
    annotated = gold()
    made = list(make_grouped_questions(annotated, prepare_photo(annotated), random.Random(0)))
    questions = [known for known in made if known.question.task is Task.GROUP]
    assert questions
    assert all(known.question.task is not Task.LINK for known in made)
    for known in questions:
        truth = Truth(annotated).groups(known.question.mentions)
        assert rand_index(known.groups, truth) == 1.0
        assert known.why.startswith("Annotators ")


def test_a_wrong_group_in_a_test_is_explained(new_project: MakeProject) -> None:
    project, _ = new_project(0, group_links=True, test_questions=1, first_items=0)
    add_known_photos(project, [gold(f"g{number}") for number in range(4)])
    add_photos(project, [MATERIAL])
    [ann] = people(project, "Ann")
    question = ask(project, ann)
    assert (question.task, question.test) == (Task.GROUP, True)
    told = record(project, ann, question.token, "grouped", groups=[[name] for name in question.content["mentions"]])
    truth = Truth(gold()).groups(question.content["mentions"])
    assert told.lesson is not None
    assert told.lesson.correct == (rand_index([[name] for name in question.content["mentions"]], truth) >= 0.6)
    assert told.lesson.why


def test_a_crowd_finishes_photos_with_fewer_questions_than_pairs(new_project: MakeProject) -> None:
    judged = {}
    for groups in (False, True):
        project, _ = new_project(0, group_links=groups, test_questions=0, first_items=0, verify_own=False)
        photos = [gold(f"g{number}") for number in range(6)]
        add_photos(project, map(prepare_photo, photos))
        done = simulate_crowd(project, {each.id: Truth(each) for each in photos}, {HONEST: 5})
        assert all(snapshot(project, each.id).state.finished for each in photos)
        judged[groups] = done.judged[Task.LINK] + done.judged[Task.GROUP]
    assert 0 < judged[True] < judged[False]
