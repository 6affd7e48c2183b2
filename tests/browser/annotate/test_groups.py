"""Sorting phrases into groups, and staying with a photo, in the browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Request, expect

from deixis.annotate.workflow import Task
from tests.browser.annotate.actions import NAMES, join, task_shown
from tests.browser.annotate.conftest import MakeBench
from tests.browser.annotate.photos import captioned

WORDS = ("tall", "small", "young", "quiet", "calm")
CAPTIONS = ("A man sees a woman.", "The guy waves.", "Two people.")


@pytest.mark.parametrize(("width", "height"), [(1366, 650), (390, 664)])
def test_phrases_are_sorted_with_clicks_and_sent(page: Page, bench: MakeBench, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    site = bench([captioned(*CAPTIONS)], group_links=True)
    join(page, site.invite("Ann"))
    expect(task_shown(page)).to_have_text(NAMES[Task.GROUP])
    expect(page.locator(".phrase-group")).to_have_count(4)
    page.get_by_role("button", name="A man, caption 1").click()
    page.get_by_role("button", name="The guy, caption 2").click()
    expect(page.locator(".phrase-group")).to_have_count(3)
    # Two phrases of one caption are never the same: the second click takes the other phrase.
    page.get_by_role("button", name="A man, caption 1").click()
    page.get_by_role("button", name="a woman, caption 1").click()
    expect(page.locator(".phrase-group")).to_have_count(3)
    expect(page.get_by_role("button", name="a woman, caption 1")).to_have_attribute("aria-pressed", "true")
    page.reload()  # loses nothing
    expect(page.locator(".phrase-group")).to_have_count(3)
    with page.expect_response("**/api/answer") as sent:
        page.get_by_role("button", name="Send these groups").click()
    assert sent.value.ok
    groups = sent.value.request.post_data_json["groups"]
    assert sorted(map(sorted, groups)) == [["0:0-5", "1:0-7"], ["0:11-18"], ["2:0-10"]]


def test_groups_whose_phrases_are_all_visible_need_no_scrolling(laptop: Page, bench: MakeBench) -> None:
    captions = [f"A {word} man and a {word} woman wait for the old bus beside the long road." for word in WORDS]
    site = bench([captioned(*captions)], group_links=True)
    join(laptop, site.invite("Ann"))
    expect(laptop.locator(".phrase-group")).to_have_count(10)
    expect(laptop.get_by_role("button", name="a calm woman, caption 5")).to_be_in_viewport(ratio=1)
    expect(laptop.get_by_role("button", name="Send these groups")).to_have_attribute("aria-disabled", "false")
    expect(laptop.get_by_role("button", name="More below")).to_be_visible()  # captions are


def test_a_worker_chooses_to_stay_and_the_choice_is_kept(page: Page, bench: MakeBench) -> None:
    site = bench([captioned("A dog runs.", "The dog jumps.")])
    page.set_viewport_size({"width": 1280, "height": 800})
    join(page, site.invite("Ann"))
    page.get_by_label("Next questions").select_option("photo")
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if request.url.endswith("/api/next") else None)
    page.reload()
    expect(page.get_by_label("Next questions")).to_have_value("photo")
    expect(page.locator(".answer").first).to_be_visible()
    assert {request.post_data_json["stay"] for request in asked} == {"photo"}
