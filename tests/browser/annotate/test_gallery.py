"""The gallery: filters, coloured phrases and boxes, and the corrections of a lead."""

from __future__ import annotations

import re
import zipfile

import pytest
from playwright.sync_api import Page, expect

from deixis.annotate.gallery import GalleryPhoto, read_photo
from deixis.annotate.people import Role
from tests.browser.annotate.actions import draw, join
from tests.browser.annotate.conftest import Bench, MakeBench
from tests.browser.annotate.crowd import work_all
from tests.browser.annotate.photos import SIZE, captioned, two_people_with_a_dog
from tests.browser.annotate.test_screens import IS_VISIBLE
from tests.browser.test_accessibility import wcag_problems

SCREENS = [(1366, 650), (1280, 800), (390, 664), (390, 844), (664, 390), (844, 390)]


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
    page.get_by_role("link", name="Gallery", exact=True).click()
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


def test_a_lead_corrects_by_keys_alone_and_sees_which_box_is_which(laptop: Page, bench: MakeBench) -> None:
    site = annotated(bench)
    open_photo(laptop, site)
    dog = next(number for number, chain in enumerate(photo(site).chains, start=1) if "a dog" in chain.phrases)
    laptop.keyboard.press(f"{dog}")
    expect(laptop.locator(".chain-boxes li")).to_contain_text([f"Box {dog} "])
    laptop.keyboard.press("d")
    expect(laptop.locator(".drawing canvas, .drawing svg").first).to_be_attached()
    laptop.keyboard.press("b")
    expect(laptop.get_by_role("button", name="Save the box")).to_be_enabled()
    laptop.keyboard.press("Enter")
    numbers = [f"{dog}.1", f"{dog}.2"]
    expect(laptop.locator(".chain-boxes li")).to_contain_text([f"Box {number} " for number in numbers])
    expect(laptop.locator(".laid-tag").filter(has_text=re.compile(rf"^{dog}\."))).to_have_text(numbers)
    rows = laptop.locator(".chain-boxes li")
    rows.last.hover()
    expect(laptop.locator(".laid-tag.is-pointed")).to_have_text([numbers[1]])
    laptop.locator(".laid-tag").filter(has_text=numbers[0]).hover()
    expect(rows.first).to_have_class("is-pointed")
    expect(laptop.locator(".coloured-captions .is-pointed").first).to_contain_text("a dog")
    laptop.mouse.move(5, 5)
    laptop.keyboard.press("b")
    laptop.keyboard.press("b")
    expect(laptop.locator(".laid-tag.is-pointed")).to_have_text([numbers[1]])
    laptop.keyboard.press("Delete")
    expect(rows).to_have_count(1)
    laptop.keyboard.press("m")
    laptop.keyboard.press(f"{dog % 2 + 1}")
    expect(laptop.locator(".story li")).to_have_count(3)
    laptop.keyboard.press("?")
    expect(laptop.get_by_role("dialog", name="Keys")).to_be_visible()
    laptop.keyboard.press("Escape")
    laptop.keyboard.press("g")
    expect(laptop.get_by_role("heading", name="Gallery")).to_be_visible()


def test_photos_are_searched_and_jumped_to_and_the_address_keeps_it(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man." if n % 2 else "A dog and a cat.", name=f"photo{n:02}") for n in range(60)])
    join(laptop, site.invite("Olga", Role.OWNER))
    laptop.get_by_role("link", name="Gallery", exact=True).click()
    cards = laptop.locator(".gallery-card")
    expect(cards).to_have_count(24)
    laptop.get_by_label("Go to photo").fill("60")
    laptop.keyboard.press("Enter")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("photo59 · 60")
    laptop.get_by_role("button", name="Show all").wait_for(state="detached")
    laptop.locator("h1").click()
    laptop.keyboard.press("/")
    laptop.keyboard.type("DOG photo0")
    expect(cards).to_have_count(5)
    laptop.get_by_label("Phrases").select_option("people")
    expect(laptop.get_by_text("No photo is like this.")).to_be_visible()
    laptop.get_by_label("Phrases").select_option("animals")
    expect(cards).to_have_count(5)
    laptop.reload()
    expect(cards).to_have_count(5)
    laptop.get_by_role("button", name="Show all").click()
    expect(laptop.get_by_label("Search")).to_have_value("")
    expect(cards).to_have_count(24)
    laptop.get_by_role("link", name="Photo photo23").click()
    expect(laptop.get_by_text("photo23 · 24 of 60")).to_be_visible()
    laptop.keyboard.press("j")  # on the next page of the list
    expect(laptop.get_by_text("photo24 · 25 of 60")).to_be_visible()
    laptop.keyboard.press("k")
    expect(laptop.get_by_text("photo23 · 24 of 60")).to_be_visible()
    laptop.keyboard.press("g")
    expect(cards.first).to_be_visible()
    laptop.keyboard.press("j")
    expect(cards.first.get_by_role("link")).to_be_focused()


def test_another_address_of_the_gallery_changes_the_search_and_a_photo_leads_back_to_it(
    laptop: Page, bench: MakeBench
) -> None:
    site = bench([captioned("A man." if n % 2 else "A dog.", name=f"photo{n}") for n in range(8)])
    join(laptop, site.invite("Olga", Role.REVIEWER))
    cards, search = laptop.locator(".gallery-card"), laptop.get_by_label("Search")
    laptop.evaluate("location.hash = '#/gallery?words=dog'")
    expect(cards).to_have_count(4)
    laptop.evaluate("location.hash = '#/gallery?words=photo1'")  # what another lead has sent
    expect(cards).to_have_count(1)
    expect(search).to_have_value("photo1")
    cards.get_by_role("link").click()
    expect(laptop.get_by_text("photo1 · 1 of 1")).to_be_visible()
    laptop.keyboard.press("g")
    expect(cards).to_have_count(1)
    laptop.get_by_role("link", name="Gallery", exact=True).click()
    expect(cards).to_have_count(8)
    expect(search).to_have_value("")
    laptop.go_back()
    expect(cards).to_have_count(1)


def test_an_owner_exports_from_the_dashboard(laptop: Page, bench: MakeBench) -> None:
    site = annotated(bench)
    join(laptop, site.invite("Olga", Role.OWNER))
    laptop.get_by_label("Format").select_option("jsonl")
    with laptop.expect_download() as download:
        laptop.get_by_role("button", name="Download (zip)").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert "photos.jsonl" in archive.namelist()


def test_an_export_that_fails_is_explained_on_the_dashboard(laptop: Page, bench: MakeBench) -> None:
    site = bench([two_people_with_a_dog()])
    member = site.member("Ann")
    member.work()
    join(laptop, site.invite("Olga", Role.OWNER))
    expect(laptop.get_by_label("Unfinished photos too")).to_be_checked()  # no photo is finished
    laptop.get_by_label("Unfinished photos too").uncheck()
    laptop.get_by_role("button", name="Download (zip)").click()
    expect(laptop.get_by_role("alert")).to_contain_text("no photo is finished; include unfinished photos")
    laptop.get_by_label("Unfinished photos too").check()
    with laptop.expect_download():
        laptop.get_by_role("button", name="Download (zip)").click()


@pytest.mark.parametrize("place", ["gallery", "photo", "phrases", "dashboard"])
def test_the_pages_of_a_lead_meet_wcag(laptop: Page, bench: MakeBench, place: str) -> None:
    site = annotated(bench)
    join(laptop, site.invite("Olga", Role.OWNER))
    if place != "dashboard":
        laptop.get_by_role("link", name="Gallery", exact=True).click()
        expect(laptop.get_by_role("link", name="Photo walk")).to_be_visible()
    if place in ("photo", "phrases"):
        laptop.get_by_role("link", name="Photo walk").click()
        press(laptop, "a dog")
        expect(laptop.locator(".chain-panel")).to_be_visible()
    if place == "phrases":
        laptop.get_by_role("link", name="Edit phrases").click()
        expect(laptop.get_by_role("heading", name="Phrases")).to_be_visible()
    assert wcag_problems(laptop) == []


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
        member.answer(said)
    join(laptop, site.invite("Olga", Role.OWNER))
    laptop.get_by_role("link", name="Gallery", exact=True).click()
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
    laptop.get_by_label("Worked on by").select_option(label="Ann")
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
    assert canvas["width"] >= (width // 2 - 20 if width > height and width < 900 else min(340, width - 50))
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
    page.get_by_role("link", name="Olga").click()
    expect(page.get_by_role("heading", name="API tokens")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
