"""The pages of reviewers and owners."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from deixis.annotate.events import ProposedBoxes
from deixis.annotate.guidelines import read_guidelines
from deixis.annotate.help.proposals import add_proposals
from deixis.annotate.people import Role
from deixis.annotate.review import review_queue
from deixis.annotate.workflow import Task
from tests.browser.annotate.actions import draw, join
from tests.browser.annotate.conftest import MakeBench
from tests.browser.annotate.photos import SIZE, captioned, two_people_with_a_dog


def test_a_reviewer_sees_the_history_of_a_chain_decides_and_undoes(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")], bad_boxes_to_review=1)
    for name, answer, box in (("Ann", "drawn", (5, 5, 60, 50)), ("Bob", "bad", None)):
        member = site.member(name)
        member.answer(answer, box)
    join(laptop, site.invite("Rob", Role.REVIEWER))
    laptop.get_by_role("link", name="Review").click()
    expect(laptop.get_by_role("heading", name="“A man”")).to_be_visible()
    expect(laptop.locator(".story li")).to_contain_text(["Ann Draw: Drawn", "Bob Good or bad: Bad"])
    laptop.get_by_role("button", name="It is the scene or the place").click()
    expect(laptop.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()
    laptop.keyboard.press("u")
    expect(laptop.get_by_role("heading", name="“A man”")).to_be_visible()
    expect(laptop.get_by_role("link", name="People")).to_have_count(0)  # only owners have it


def test_the_review_goes_on_while_a_long_queue_is_listed_again(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles."), captioned("A boy runs.", name="boy")], bad_boxes_to_review=1)
    ann, bob = site.member("Ann"), site.member("Bob")
    for _ in range(2):
        ann.answer("drawn", (5, 5, 60, 50))
        bob.answer("bad")
    join(laptop, site.invite("Rob", Role.REVIEWER))
    laptop.get_by_role("link", name="Review").click()
    expect(laptop.locator(".review-item")).to_have_count(2)
    held: list[Route] = []
    laptop.route("**/api/review?*", lambda route: held.append(route))
    laptop.get_by_role("button", name="It is the scene or the place").click()
    expect(laptop.locator(".review-item")).to_have_count(1)
    expect(laptop.get_by_role("heading", name="“A boy”")).to_be_visible()
    laptop.get_by_role("button", name="It is the scene or the place").click()
    expect(laptop.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()
    assert review_queue(site.project) == []
    for route in held:
        route.continue_()


def test_the_dashboard_calls_absent_who_has_worked_before(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")], absent_after_h=1e-9)
    question = site.member("Ann").next()
    assert question is not None
    join(laptop, site.invite("Olga", Role.OWNER))
    rows = laptop.get_by_role("table").last.get_by_role("row")
    expect(rows.filter(has_text="Ann").get_by_text("absent", exact=True)).to_be_visible()
    expect(rows.filter(has_text="Olga").get_by_text("absent", exact=True)).to_have_count(0)


def test_a_reviewer_sees_the_box_to_judge_and_which_one_a_model_drew(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("Two men smile.")])
    body = {"model": "grounder", "fingerprint": "0" * 12, "boxes": {"0:0-7": [[9, 9, 90, 90, 0.8]]}, "show_from": 0.1}
    assert add_proposals(site.project, "cat", {ProposedBoxes.kind: body})
    ann, bob = site.member("Ann"), site.member("Bob")
    for member, said, box in ((ann, "good", None), (ann, "more", None), (bob, "drawn", (200, 9, 400, 200))):
        member.answer(said, box)
    ann.skip(ann.ask())
    join(laptop, site.invite("Rob", Role.REVIEWER))
    laptop.get_by_role("link", name="Review").click()
    expect(laptop.get_by_role("heading", name="“Two men”")).to_be_visible()
    expect(laptop.locator(".laid-tag")).to_have_text(["1 · model", "2 · not judged yet"])
    dashes = "element => getComputedStyle(element).strokeDasharray"
    assert laptop.locator(".laid.is-model .laid-line").evaluate(dashes) != "none"
    assert laptop.locator(".laid.is-asked .laid-line").evaluate(dashes) == "none"  # the person's, to be judged
    expect(laptop.locator(".answer")).to_have_text(
        ["1The box is good", "2The box is bad", "3Ask those who skipped it again"]
    )
    expect(laptop.locator(".story")).not_to_contain_text("grounder")
    laptop.get_by_role("link", name="Correct it in the gallery").click()
    expect(laptop.locator(".work.correction")).to_be_visible()


def test_an_owner_starts_at_the_dashboard_with_the_first_steps(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    join(laptop, site.invite("Olga", Role.OWNER))
    steps = laptop.get_by_role("region", name="First steps")
    expect(steps).to_be_visible()
    steps.get_by_role("link", name="gallery").click()
    picture = laptop.locator(".gallery-picture img")
    assert picture.evaluate("async element => { await element.decode(); return element.naturalWidth; }") > 0
    laptop.get_by_role("link", name="People", exact=True).click()
    laptop.get_by_label("Name").fill("Ann")
    laptop.get_by_role("button", name="Make a link").click()
    expect(laptop.locator(".made")).to_contain_text("on the computer that runs the server only")
    member = site.member("Ann's friend")
    member.answer("no more")
    laptop.get_by_role("link", name="Dashboard").click()
    expect(laptop.get_by_role("region", name="Progress")).to_be_visible()
    expect(steps).to_have_count(0)


def test_a_comment_is_marked_as_read(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    member = site.member("Ann")
    site.member("Bob")  # so that the question is not blocked
    member.answer("no more", remark="I see <b>no</b> man.\nReally.")
    join(laptop, site.invite("Rob", Role.REVIEWER))
    laptop.get_by_role("link", name="Review").click()
    expect(laptop.get_by_text("I see <b>no</b> man.")).to_be_visible()
    laptop.get_by_role("button", name="Read, nothing to do").click()
    expect(laptop.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()


def test_an_owner_edits_guidelines_and_workers_see_them_as_text(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    join(laptop, site.invite("Olga", Role.OWNER))
    laptop.get_by_role("link", name="Guidelines", exact=True).click()
    laptop.get_by_role("button", name="Edit: Draw").click()
    laptop.get_by_label("Text").fill("Mind the <i>tail</i>.\n\n- all of it\n- tight")
    laptop.get_by_role("button", name="Add an example").click()
    laptop.get_by_label("Shown").last.fill("“a dog”")
    laptop.get_by_label("Why").last.fill("It has a tail.")
    laptop.get_by_role("button", name="Save").click()
    expect(laptop.get_by_text("Mind the <i>tail</i>.")).to_be_visible()
    stored = read_guidelines(site.project)[Task.DRAWING]
    assert stored.text.startswith("Mind the <i>tail</i>.")
    assert stored.examples[-1].why == "It has a tail."
    laptop.get_by_role("link", name="Work").click()
    panel = laptop.get_by_role("complementary", name="Guidelines")
    expect(panel.get_by_text("Mind the <i>tail</i>.")).to_be_visible()
    expect(panel.locator("li", has_text="all of it")).to_have_count(1)
    laptop.keyboard.press("g")
    expect(panel).to_have_count(0)


def open_phrases(page: Page) -> None:
    page.get_by_role("link", name="Gallery", exact=True).click()
    page.get_by_role("link", name="Photo cat").click()
    page.get_by_role("link", name="Edit phrases").click()
    expect(page.get_by_role("heading", name="Phrases")).to_be_visible()


def test_an_owner_corrects_phrases_before_work_begins(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A 🐕 dog watches a tall man.")])
    join(laptop, site.invite("Olga", Role.OWNER))
    open_phrases(laptop)
    laptop.get_by_role("button", name="a tall man", exact=True).click()
    laptop.get_by_role("button", name="Remove this phrase").click()
    laptop.get_by_role("button", name="tall", exact=True).click()
    laptop.get_by_role("button", name="man", exact=True).click()
    laptop.get_by_label("people").check()
    laptop.get_by_role("button", name="Save").click()
    expect(laptop.get_by_text("Saved.")).to_be_visible()
    assert [(each.text, each.types) for each in site.project.read_photo("cat").mentions][-1] == (
        "tall man",
        ("people",),
    )


def test_a_phrase_that_would_overlap_is_refused_with_the_reason(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("🐕 A man watches a dog and a cat.")])
    join(laptop, site.invite("Olga", Role.OWNER))
    open_phrases(laptop)
    laptop.get_by_role("button", name="and", exact=True).click()
    laptop.get_by_role("button", name="watches").click()
    expect(laptop.get_by_text("This would overlap with “a dog”.")).to_be_visible()
    laptop.get_by_role("button", name="watches").click()
    expect(laptop.get_by_text("This would overlap")).to_have_count(0)


def test_the_next_photo_saves_the_phrases(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A dog watches a tall man."), captioned("A dog.", name="second")])
    join(laptop, site.invite("Olga", Role.OWNER))
    open_phrases(laptop)
    laptop.get_by_role("button", name="a tall man", exact=True).click()
    laptop.get_by_role("button", name="Remove this phrase").click()
    laptop.get_by_role("button", name="Save, next photo").click()
    expect(laptop.get_by_text("watches")).to_have_count(0)
    assert [each.text for each in site.project.read_photo("cat").mentions] == ["A dog"]


def test_nobody_leaves_unsaved_edits_by_mistake(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A dog watches a tall man.")])
    join(laptop, site.invite("Olga", Role.OWNER))
    asked: list[str] = []
    laptop.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    open_phrases(laptop)
    laptop.get_by_role("button", name="a tall man", exact=True).click()
    laptop.get_by_role("button", name="Remove this phrase").click()
    expect(laptop.get_by_text("Not saved yet.")).to_be_visible()
    here = laptop.url
    for leave in (
        laptop.get_by_role("link", name="Dashboard").click,
        laptop.get_by_role("link", name="← Photo").click,
        laptop.get_by_role("button", name="Sign out").click,
        laptop.go_back,
    ):
        leave()
        expect(laptop).to_have_url(here)
        expect(laptop.get_by_text("Not saved yet.")).to_be_visible()
    assert asked == ["Leave without saving the phrases?"] * 4
    laptop.get_by_role("button", name="Save").click()
    expect(laptop.get_by_text("Saved.")).to_be_visible()
    laptop.get_by_role("link", name="Guidelines").click()
    laptop.get_by_role("button", name="Edit: Draw").click()
    laptop.get_by_label("Text").fill("Mine.")
    laptop.get_by_role("button", name="Edit: Good or bad").click()
    expect(laptop.get_by_label("Text")).to_have_value("Mine.")
    assert asked[4:] == ["Leave without saving the guideline?"]


def test_a_reviewer_draws_the_box_that_a_question_waits_for(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    for name in ("Ann", "Bob"):
        member = site.member(name)
        member.skip(member.ask())
    join(laptop, site.invite("Olga", Role.REVIEWER))
    laptop.get_by_role("link", name="Review").click()
    expect(laptop.locator(".review-item")).to_have_count(1)
    expect(laptop.get_by_role("button", name="Drop the phrase")).to_be_visible()
    laptop.keyboard.press("d")
    expect(laptop.locator(".coloured-captions [aria-pressed=true]")).to_have_text("A man1")
    draw(laptop, (20, 20, 100, 90), SIZE)
    laptop.once("dialog", lambda dialog: dialog.dismiss())
    laptop.get_by_role("link", name="← Review").click()  # the box is not saved
    laptop.get_by_role("button", name="Save the box").click()
    expect(laptop.locator(".story li")).to_have_text(re.compile("Olga drew a box: “A man”"))
    laptop.get_by_role("link", name="← Review").click()
    expect(laptop.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()


def test_a_chain_that_may_name_several_things_can_be_split(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A dog runs.", "A dog jumps.")])
    for name, said in (("Ann", "yes"), ("Bob", "no")):  # the link, then the verification
        member = site.member(name)
        member.answer(said)
    join(laptop, site.invite("Olga", Role.REVIEWER))
    laptop.get_by_role("link", name="Review").click()
    expect(laptop.get_by_role("link", name="Split")).to_be_visible()
    laptop.keyboard.press("s")
    laptop.locator(".chain-phrases").get_by_label("A dog").first.check()
    laptop.get_by_role("button", name="Split off").click()
    expect(laptop.locator(".story li").first).to_contain_text("Olga split phrases off")
    laptop.get_by_role("link", name="← Review").click()
    expect(laptop.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()


def test_a_tie_of_two_workers_is_shown_as_blocked_and_decided_with_one_click(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A park.")])
    for name, said in (("Ann", "scene"), ("Bob", "no box")):
        member = site.member(name)
        member.answer(said)
    join(laptop, site.invite("Olga", Role.OWNER))
    laptop.get_by_role("link", name="Dashboard").click()
    expect(laptop.get_by_role("region", name="Blocked")).to_contain_text("1 question waits for another person")
    laptop.get_by_role("link", name="Decide").click()
    expect(laptop.get_by_text("Ann and Bob worked on it already").first).to_be_visible()
    laptop.get_by_role("button", name="It is the scene or the place").click()
    expect(laptop.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()


def test_an_owner_downloads_pay_and_forgets_a_worker(laptop: Page, bench: MakeBench, tmp_path: Path) -> None:
    site = bench([two_people_with_a_dog()])
    assert site.member("Ann").work()
    join(laptop, site.invite("Olga", Role.OWNER))
    laptop.get_by_role("link", name="Dashboard").click()
    expect(laptop.get_by_role("row", name="Ann").get_by_role("cell", name="1", exact=True)).to_be_visible()
    with laptop.expect_download() as download:
        laptop.get_by_role("link", name="Hours and pay (CSV)").click()
    download.value.save_as(tmp_path / "pay.csv")
    assert ",Ann,1," in (tmp_path / "pay.csv").read_text()
    laptop.get_by_role("link", name="People", exact=True).click()
    laptop.get_by_role("row", name="Ann").get_by_role("button", name="Forget").click()
    laptop.get_by_role("button", name="Forget them").click()
    expect(laptop.get_by_role("row", name="Ann")).to_have_count(0)
