"""Adjusting a box in the quality task, and calling one wrong in the coverage task."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from deixis.annotate.events import ProposedBoxes
from deixis.annotate.help.proposals import add_proposals
from deixis.annotate.workflow import Task
from tests.browser.annotate.actions import join, ready, task_shown
from tests.browser.annotate.conftest import MakeBench
from tests.browser.annotate.photos import captioned
from tests.browser.annotate.test_work_page import judged

FIRST, SECOND = (40, 40, 200, 200), (220, 40, 400, 250)
DONE = "No question for you right now."


def test_a_box_is_adjusted_and_survives_a_reload(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    ann = site.member("Ann")
    ann.answer("drawn", FIRST)
    join(laptop, site.invite("Bob"))
    expect(task_shown(laptop)).to_have_text("Good or bad")
    ready(laptop)
    laptop.keyboard.press("a")
    expect(laptop.get_by_role("button", name="Send the adjusted box")).to_be_enabled()
    laptop.keyboard.press("Escape")  # back to the three answers
    expect(laptop.get_by_role("button", name="Yes, it is good")).to_be_visible()
    laptop.get_by_role("button", name="Adjust this box").click()
    for _ in range(5):
        laptop.keyboard.press("ArrowRight")
    laptop.reload()
    expect(laptop.get_by_role("button", name="Send the adjusted box")).to_be_enabled()
    laptop.keyboard.press("Enter")
    expect(laptop.get_by_role("heading", name=DONE)).to_be_visible()
    assert [(each["answer"], each["box"]) for each in judged(site)][1:] == [("adjusted", [45, 40, 205, 200])]


def test_one_of_two_boxes_is_called_wrong(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("Two men smile.")])
    ann, bob = site.member("Ann"), site.member("Bob")
    for member, said, box in (
        (ann, "drawn", FIRST),
        (bob, "good", None),
        (bob, "more", None),
        (ann, "drawn", SECOND),
        (bob, "good", None),
    ):
        member.answer(said, box)
    join(laptop, site.invite("Cleo"))
    expect(task_shown(laptop)).to_have_text("All there")
    ready(laptop)
    laptop.keyboard.press("w")
    laptop.get_by_role("button", name="Box 2 is wrong").click()
    expect(laptop.get_by_role("heading", name=DONE)).to_be_visible()
    assert judged(site)[-1]["answer"] == "wrong box"
    again = bob.ask(Task.QUALITY)
    assert again["new_box"] == list(SECOND)


def test_a_models_box_is_dotted_and_labelled_before_and_after_it_was_accepted(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    body = {"model": "grounder", "fingerprint": "0" * 12, "boxes": {"0:0-5": [[*FIRST, 0.8]]}, "show_from": 0.1}
    assert add_proposals(site.project, "cat", {ProposedBoxes.kind: body})
    join(laptop, site.invite("Ann"))
    expect(task_shown(laptop)).to_have_text("Good or bad")
    expect(laptop.locator(".laid-tag")).to_have_text(["model"])
    dashes = "element => getComputedStyle(element).strokeDasharray"
    of_model = laptop.locator(".laid-line").evaluate(dashes)
    assert of_model != "none"
    ready(laptop)
    laptop.keyboard.press("y")
    expect(task_shown(laptop)).to_have_text("All there")
    expect(laptop.locator(".laid-tag")).to_have_text(["1 · model"])
    assert laptop.locator(".laid-line").evaluate(dashes) == of_model
    ready(laptop)
    laptop.keyboard.press("n")  # one is missing: a person draws it
    bob = site.member("Bob")
    question = bob.ask(Task.DRAWING)
    bob.send(question, "drawn", SECOND)
    expect(task_shown(laptop)).to_have_text("Good or bad")
    expect(laptop.locator(".laid-tag")).to_have_text(["model"])  # the accepted one; the person's has none
    persons = laptop.locator(".laid.is-asked:not(.is-model) .laid-line")
    assert persons.evaluate(dashes) == "none"
