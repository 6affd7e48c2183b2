"""The tasks on screens of several sizes: the phrases asked about, the photo and the answers are visible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from deixis.annotate.workflow import CHAIN_TASKS, Task, allowed_answers
from tests.browser.annotate.actions import join
from tests.browser.annotate.conftest import MakeBench
from tests.browser.annotate.photos import captioned

PHRASES = (
    "a young man with long dark hair and a bright red jacket",
    "the man in the red jacket who stands beside the old wooden bench",
    "a tall guy in red",
    "somebody with dark hair",
    "one of the people in the park",
)
CAPTIONS = tuple(f"On a sunny afternoon in the city {phrase} looks at the birds above the trees." for phrase in PHRASES)
BOXES = [[20, 20, 120, 200], [150, 30, 260, 220]]
PROPOSED = (Task.VERIFY, Task.DRAWING, Task.QUALITY)
MENTIONS = {Task.LINK: 2, Task.VERIFY: 5, Task.GROUP: 5}

# Whether all of an element is on the screen, and nothing is in front of it.
IS_VISIBLE = """element => [...element.getClientRects()].every(({left, top, right, bottom}) => {
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    return [[x, y], [left + 2, y], [right - 2, y], [x, top + 2], [x, bottom - 2]].every(([x, y]) =>
        element.contains(document.elementFromPoint(x, y)));
})"""


def make_question(real: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Turn any question about the photo into one of a task."""
    mentions = [
        {"id": f"{number}:{text.index(phrase)}-{text.index(phrase) + len(phrase)}", "text": phrase, "caption": number}
        for number, (text, phrase) in enumerate(zip(CAPTIONS, PHRASES, strict=True))
    ][: MENTIONS.get(task, 1)]
    captions = []
    for mention in mentions:
        before, _, after = CAPTIONS[mention["caption"]].partition(mention["text"])
        parts = [(before, None), (mention["text"], mention["id"]), (after, None)]
        captions.append(
            {"number": mention["caption"], "parts": [{"text": text, "mention": name} for text, name in parts]}
        )
    about = {"task": task.value, "mentions": mentions, "captions": captions}
    about["answers"] = [answer.value for answer in allowed_answers(task)]
    about["boxes"] = BOXES if task is Task.COVERAGE else BOXES[:1] if task is Task.QUALITY else []
    about["new_box"] = BOXES[1] if task in (Task.QUALITY, Task.PAIR) else None
    if task is Task.OWN:  # a rating
        about["own"] = {"text": "How easy is it to see {phrase} in this photo?", "hint": "", "is_rating": True}
        about["answers"] = list("12345")
    about["proposal"] = {"model": "grounder", "probability": 0.6} if task in PROPOSED else None
    return {**real, **about, "test": task is Task.LINK}


# Width and height, and the least width of the photo; phones are held upright or sideways.
SCREENS = [
    (1366, 650, 500),
    (664, 390, 320),
    *(pytest.param(*size, marks=pytest.mark.slow) for size in [(1280, 800, 500), (390, 664, 340), (390, 844, 370)]),
    *(pytest.param(*size, marks=pytest.mark.slow) for size in [(740, 360, 340), (844, 390, 400)]),
]


@pytest.mark.parametrize(("width", "height", "photo_width"), SCREENS)
def test_phrases_photo_and_answers_are_visible_in_all_tasks(
    page: Page, bench: MakeBench, width: int, height: int, photo_width: int
) -> None:
    site = bench([captioned(*CAPTIONS)])
    page.set_viewport_size({"width": width, "height": height})
    task = Task.LINK

    def give(route: Route) -> None:
        content = route.fetch().json()
        if content["question"]:
            content["question"] = make_question(content["question"], task)
        route.fulfill(json=content)

    page.route("**/api/next", give)
    join(page, site.invite("Ann"))
    for task in (*CHAIN_TASKS, Task.PAIR, Task.GROUP, Task.OWN):
        page.reload()
        expect(page.locator(".answer").first).to_be_visible()
        page.locator(".asked-about").evaluate("element => element.scrollTo(0, element.scrollHeight)")
        expect(page.locator(".answer[aria-disabled=false]").first).to_be_visible()
        page.locator(".asked-about").evaluate("element => element.scrollTo(0, 0)")
        shown = page.locator(".asking .phrase-group button" if task is Task.GROUP else ".asking h1 mark")
        names = [f"{phrase} {number}" for number, phrase in enumerate(PHRASES, start=1)]
        expected = names if task is Task.GROUP else PHRASES[: MENTIONS.get(task, 1)]
        assert shown.all_inner_texts() == list(expected)
        for phrase in shown.all():
            phrase.scroll_into_view_if_needed()  # five long phrases need more than the smallest screen
            assert phrase.evaluate(IS_VISIBLE), f"{task}: {phrase.inner_text()}"
        for answer in [*page.locator(".answer").all(), page.get_by_role("button", name="Skip")]:
            assert answer.evaluate(IS_VISIBLE), f"{task}: {answer.inner_text()}"
        if task is Task.LINK:
            told = page.locator(".task-line .chip")
            told.evaluate(
                "element => element.textContent = 'Test question 9 of 10 · 0 wrong, 2 allowed · attempt 1 of 2'"
            )
            assert told.evaluate("element => element.scrollWidth <= element.parentElement.clientWidth"), width
        if task is Task.PAIR:  # a model chose the region
            assert page.locator(".laid.is-asked").get_attribute("class") == "laid is-asked is-model"
        if task in PROPOSED:
            told = page.locator(".chip.is-model")
            told.scroll_into_view_if_needed()
            assert told.evaluate(IS_VISIBLE), task
            assert told.evaluate("element => Boolean(element.closest('.asked-about'))")
        picture = page.locator(".canvas").bounding_box()
        assert picture is not None
        assert picture["width"] >= photo_width, task
        assert picture["x"] >= 0, task
        assert picture["y"] + picture["height"] <= height, task
        if height < 480:  # the zoom covers as little of the photo as possible
            expect(page.locator(".zoom .fit")).to_be_hidden()
        for mark in page.locator(".captions mark").all():
            mark.scroll_into_view_if_needed()
            assert mark.evaluate(IS_VISIBLE), f"{task}: {mark.inner_text()}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), task


@pytest.mark.parametrize(("width", "height"), [(1366, 650), pytest.param(390, 664, marks=pytest.mark.slow)])
def test_answers_wait_until_all_captions_were_shown_and_a_button_leads_to_them(
    page: Page, bench: MakeBench, width: int, height: int
) -> None:
    site = bench([captioned(*CAPTIONS)])
    page.set_viewport_size({"width": width, "height": height})

    def give(route: Route) -> None:
        content = route.fetch().json()
        if content["question"]:
            content["question"] = make_question(content["question"], Task.VERIFY)
        route.fulfill(json=content)

    page.route("**/api/next", give)
    join(page, site.invite("Ann"))
    more, last = page.get_by_role("button", name="More below"), page.locator(".captions .sentence").last
    count = "['.more-below', '.answer[aria-disabled=true]'].map(each => document.querySelectorAll(each).length)"
    click = "all => all.forEach(each => each.click())"
    for by_key in (False, True):  # a key that comes too early shows the rest
        expect(more).to_be_visible()
        expect(page.locator(".answer[aria-disabled=true]")).to_have_count(2)
        while (now := page.evaluate(count))[0]:
            assert now == [1, 2]
            page.keyboard.press("y") if by_key else more.evaluate_all(click)
            page.wait_for_timeout(150)
        expect(last).to_be_in_viewport(ratio=1)
        expect(page.locator(".answer[aria-disabled=false]")).to_have_count(2)
        if not by_key:
            page.reload()
    expect(page.get_by_text("There is more below.")).to_be_visible()
