"""What was proposed, and what people changed."""

from __future__ import annotations

from deixis.annotate.exporting import exported
from deixis.annotate.settings import Settings
from deixis.annotate.store.folds import Folded
from deixis.annotate.walks import Answer
from tests.annotate.fakes import Told
from tests.annotate.help.test_proposals import DOGS, HIM, MAN, SURE, boxes, told

YES, NO = Answer.YES, Answer.NO


def provenance(asked: Told) -> list[dict[str, object]]:
    folded = Folded(asked.material, tuple(asked.events), asked.state)
    return list(exported(folded, Settings()).provenance)


def test_a_project_without_help_says_nothing_of_proposals() -> None:
    asked = Told(DOGS)
    asked.say(YES, YES)
    assert "proposed" not in provenance(asked)[0]


def test_accepted_links_are_the_models_and_no_judge_is_made_of_it() -> None:
    asked = told(DOGS, SURE)
    asked.say(YES)
    (chain,) = provenance(asked)
    about = {"model": "coreference", "fingerprint": "f", "event": 1}
    counts = {"joined_by_model": 2, "kept_apart_by_model": 0, "joined_by_people": 0, "refused_by": []}
    assert chain["proposed"] == {"links": about | counts}
    assert chain["judges"] == 1
    assert [each["at"] for each in chain["judgements"]] == ["verify"]  # type: ignore[attr-defined]


def test_refused_links_are_peoples_and_the_refusal_is_named() -> None:
    asked = told(DOGS, SURE)
    asked.say(NO, YES, YES, YES)
    (chain,) = provenance(asked)
    links = chain["proposed"]["links"]  # type: ignore[index]
    assert (links["joined_by_model"], links["joined_by_people"], links["refused_by"]) == (0, 2, [2])


def test_boxes_say_who_proposed_them_and_what_people_said() -> None:
    asked = told(MAN, boxes({HIM: [[10, 10, 50, 60, 0.8], [60, 10, 90, 60, 0.7], [0, 0, 9, 9, 0.6]]}))
    asked.say(Answer.BAD, Answer.GOOD, Answer.ALL, Answer.ALL)
    (chain,) = provenance(asked)
    found = chain["proposed"]["boxes"]  # type: ignore[index]
    assert [(each["said"], each["probability"]) for each in found["judged"]] == [("bad", 0.8), ("good", 0.7)]
    assert found["not_shown"] == 1
    assert chain["drawn"] == [{"box": [60, 10, 90, 60], "worker": "m", "proposed_by": "grounder"}]
