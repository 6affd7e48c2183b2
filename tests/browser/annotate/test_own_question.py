"""The lead's own question, photos that are assigned, and people who are absent, in the browser."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect
from sqlalchemy import update

from deixis.annotate.people import Role
from deixis.annotate.store import workers
from deixis.annotate.workflow import OwnQuestion
from tests.browser.annotate.actions import join
from tests.browser.annotate.conftest import MakeBench
from tests.browser.annotate.photos import captioned


def test_a_written_answer_survives_a_reload_and_the_lead_sees_it(
    browser: Browser, laptop: Page, bench: MakeBench
) -> None:
    question = OwnQuestion("place", "Where was this photo taken?", votes=2)
    site = bench([captioned("Birds.")], question=question)
    join(laptop, site.invite("Ann"))
    heading = laptop.get_by_role("heading", name="Where was this photo taken?")
    while not heading.is_visible():
        laptop.get_by_role("button", name="Skip").click()
        laptop.wait_for_timeout(300)
    expect(laptop.locator(".captions")).to_have_text("Birds.")
    expect(laptop.get_by_role("button", name="Bad phrase")).to_be_disabled()
    field = laptop.get_by_label("Your answer")
    field.fill("in a <b>park</b>")
    laptop.reload()
    expect(field).to_have_value("in a <b>park</b>")
    expect(laptop.locator(".answer[aria-disabled=false]")).to_have_count(1)
    field.press("Enter")
    expect(heading).to_have_count(0)
    page = browser.new_page()
    join(page, site.invite("Rob", Role.REVIEWER))
    page.get_by_role("link", name="Gallery").click()
    page.locator(".gallery-card a").first.click()
    expect(page.locator(".story", has_text="Answers: place")).to_contain_text("people are asked Ann: in a <b>park</b>")
    page.close()


def test_ratings_have_keys_and_the_phrase_in_the_question(laptop: Page, bench: MakeBench) -> None:
    site = bench(
        [captioned("A dog runs.")], question=OwnQuestion("q", "Is {phrase} easy to see?", about="phrase", rating=3)
    )
    ann = site.invite("Ann")
    join(laptop, ann)
    heading = laptop.get_by_role("heading", name="Is “A dog” easy to see?")
    while not heading.is_visible():
        laptop.get_by_role("button", name="Skip").click()
        laptop.wait_for_timeout(300)
    expect(laptop.get_by_text("1 is the lowest, 3 the highest.")).to_be_visible()
    expect(laptop.locator(".answer[aria-disabled=false]")).to_have_count(3)
    with laptop.expect_response("**/api/answer"):
        laptop.keyboard.press("2")
    expect(heading).to_have_count(0)
    with site.project.database.reading() as connection:
        state = site.project.snapshots.read(connection, captioned("A dog runs.").id).state
    assert state.votes[0].answers == ("2",)


def test_a_lead_assigns_the_photos_of_a_search(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A dog runs."), captioned("A cat sits.", name="second")])
    site.member("Ann")
    join(laptop, site.invite("Rob", Role.REVIEWER))
    laptop.get_by_role("link", name="Gallery").click()
    laptop.get_by_label("Search").fill("sits")
    laptop.get_by_text("Assign this photo").click()
    laptop.get_by_role("group", name="People").get_by_label("Ann").check()
    laptop.get_by_role("button", name="Assign", exact=True).click()
    expect(laptop.get_by_text("1 photo: only Ann from now on. But votes need 3 people, so")).to_be_visible()
    expect(laptop.locator(".gallery-card .chip", has_text="for Ann")).to_have_count(1)
    laptop.get_by_label("Search").fill("")
    expect(laptop.locator(".gallery-card")).to_have_count(2)
    laptop.get_by_label("Assigned to").select_option(label="Ann")
    expect(laptop.locator(".gallery-card")).to_have_count(1)
    laptop.get_by_role("button", name="Ask everybody").click()
    expect(laptop.get_by_text("No photo is like this.")).to_be_visible()


def test_a_reviewer_gives_what_waits_for_somebody_absent_to_others(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A dog runs.")])
    ann, _ = site.member("Ann"), site.member("Bob")
    assert ann.next() is not None
    with site.project.database.writing() as connection:
        connection.execute(update(workers).where(workers.c.name == "Ann").values(seen_at=1.0))
    join(laptop, site.invite("Rob", Role.REVIEWER))
    laptop.get_by_role("link", name="Dashboard").click()
    row = laptop.get_by_role("row", name="Ann")
    expect(row).to_contain_text("days ago")
    expect(row).to_contain_text("absent")
    row.get_by_role("button", name="Ask others the question that waits").click()
    expect(row.get_by_role("status")).to_have_text("1 given to others, 0 for review")
    expect(laptop.get_by_role("row", name="Bob")).not_to_contain_text("absent")
