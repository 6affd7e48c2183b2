"""The gallery: filters, coloured phrases and boxes, and the corrections of a lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deixis.annotate.gallery import GalleryPhoto, read_photo
from deixis.annotate.people import Role
from tests.browser.annotate.actions import draw, join
from tests.browser.annotate.conftest import Bench, MakeBench
from tests.browser.annotate.crowd import work_all
from tests.browser.annotate.photos import SIZE, captioned, two_people_with_a_dog
from tests.browser.annotate.test_screens import IS_VISIBLE

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import expect

SCREENS = [(1366, 650), (1280, 800), (390, 664), (390, 844)]


def annotated(bench: MakeBench) -> Bench:
    """A finished photo and one that nobody has begun."""
    site = bench([two_people_with_a_dog()], verify_own=True)
    work_all([site.member(name) for name in ("Ann", "Bob", "Cleo")])
    return site


def photo(site: Bench) -> GalleryPhoto:
    return read_photo(site.project, "walk")


def boxes_of(site: Bench, phrase: str) -> int:
    return len(next(chain for chain in photo(site).chains if phrase in chain.phrases).boxes)


def open_photo(page: Page, site: Bench) -> None:
    join(page, site.invite("Olga", Role.REVIEWER))
    page.get_by_role("link", name="Gallery").click()
    page.get_by_role("link", name="Photo walk").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()


def press(page: Page, phrase: str) -> None:
    page.locator(".coloured-captions").get_by_role("button", name=phrase).first.click()


def test_a_lead_draws_moves_and_deletes_a_box_and_undoes_it(laptop: Page, bench: MakeBench) -> None:
    site = annotated(bench)
    before = boxes_of(site, "a dog")
    open_photo(laptop, site)
    press(laptop, "a dog")
    laptop.keyboard.press("d")
    draw(laptop, (20, 20, 120, 90), SIZE)
    laptop.get_by_role("button", name="Save the box").click()
    expect(laptop.locator(".chain-boxes li")).to_have_count(before + 1)
    expect(laptop.locator(".chain-boxes li").last).to_contain_text("by Olga")
    expect(laptop.locator(".task-line").first).to_contain_text("corrected by Olga")
    assert boxes_of(site, "a dog") == before + 1
    laptop.get_by_role("button", name="Move").last.click()
    expect(laptop.get_by_role("button", name="Save the box")).to_be_enabled()
    laptop.keyboard.press("ArrowRight")
    laptop.keyboard.press("Enter")
    expect(laptop.locator(".story li")).to_have_count(2)
    moved = next(chain for chain in photo(site).chains if "a dog" in chain.phrases).boxes[-1].xyxy
    assert moved[0] == pytest.approx(21, abs=1.5)
    laptop.get_by_role("button", name="Delete").last.click()
    expect(laptop.locator(".chain-boxes li")).to_have_count(before)
    laptop.keyboard.press("Control+z")
    expect(laptop.locator(".chain-boxes li")).to_have_count(before + 1)
    laptop.keyboard.press("Control+y")
    expect(laptop.locator(".chain-boxes li")).to_have_count(before)
    laptop.get_by_role("button", name="Undo").click()
    expect(laptop.locator(".chain-boxes li")).to_have_count(before + 1)
    laptop.reload()  # the server has it all
    expect(laptop.locator(".story li")).to_have_count(2)


def test_a_lead_splits_merges_and_retypes(laptop: Page, bench: MakeBench) -> None:
    site = annotated(bench)
    open_photo(laptop, site)
    press(laptop, "The man")
    chains = len(photo(site).chains)
    laptop.locator(".chain-phrases").get_by_label("The man").check()
    laptop.get_by_role("button", name="Split off").click()
    expect(laptop.locator(".chain-phrases")).to_have_text("“The man”")
    assert len(photo(site).chains) == chains + 1
    laptop.get_by_role("button", name="Merge with").click()
    press(laptop, "A man")
    expect(laptop.locator(".chain-phrases .check")).to_have_count(2)
    assert len(photo(site).chains) == chains
    laptop.get_by_text("Types: people").click()
    laptop.locator(".types").get_by_label("animals").click()
    expect(laptop.locator(".story li")).to_have_count(3)
    assert next(chain for chain in photo(site).chains if "The man" in chain.phrases).types == ("people", "animals")


def test_photos_are_filtered_and_show_their_state(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A park.", name="tie"), captioned("A park.", name="untouched")])
    for name, said in (("Ann", "scene"), ("Bob", "no box")):
        member = site.member(name)
        question = member.next()
        assert question is not None
        member.send(question, said)
    join(laptop, site.invite("Olga", Role.OWNER))
    laptop.get_by_role("link", name="Gallery").click()
    cards = laptop.locator(".gallery-card")
    expect(cards).to_have_count(2)
    laptop.get_by_label("People disagreed").check()
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("people disagreed")
    cards.click()
    expect(laptop.locator(".story")).to_contain_text("Ann Scene or place, Bob No box")
    laptop.get_by_role("link", name="← Gallery").click()
    expect(cards).to_have_count(1)  # the filter stays
    laptop.get_by_label("People disagreed").uncheck()
    laptop.get_by_label("Person").select_option(label="Ann")
    expect(cards).to_have_count(1)
    laptop.get_by_label("State").select_option("finished")
    expect(laptop.get_by_text("No photo is like this.")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_the_chosen_phrase_and_the_photo_are_visible_on_every_screen(
    page: Page, bench: MakeBench, width: int, height: int
) -> None:
    site = annotated(bench)
    page.set_viewport_size({"width": width, "height": height})
    open_photo(page, site)
    canvas = page.locator(".canvas").bounding_box()
    assert canvas is not None
    assert canvas["width"] >= min(340, width - 50)
    assert canvas["y"] + canvas["height"] <= height
    phrase = page.locator(".coloured-captions").get_by_role("button", name="a dog").first
    phrase.scroll_into_view_if_needed()
    assert phrase.evaluate(IS_VISIBLE)
    phrase.click()
    action = page.get_by_role("button", name="Draw a box")
    action.scroll_into_view_if_needed()
    expect(action).to_be_in_viewport()
    expect(page.locator(".canvas")).to_be_in_viewport(ratio=0.99)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="← Gallery").click()
    card = page.get_by_role("link", name="Photo walk")
    expect(card).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
