"""Actions of users in the pages of the annotation workbench."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import Locator, Page, expect

from deixis.annotate.workflow import Task
from tests.browser.annotate.crowd import PASSWORD, Question

NAMES = {
    Task.LINK: "Same or not",
    Task.VERIFY: "All the same",
    Task.REQUIREMENT: "Box or not",
    Task.DRAWING: "Draw",
    Task.QUALITY: "Good or bad",
    Task.COVERAGE: "All there",
    Task.GROUP: "Sort into groups",
    Task.PAIR: "Right or wrong",
    Task.OWN: "Own question",
}
KEYS = {
    "yes": "y",
    "no": "n",
    "box": "1",
    "scene": "2",
    "no box": "3",
    "drawn": "Enter",
    "no more": "n",
    "good": "y",
    "bad": "n",
    "all": "y",
    "more": "n",
    "right": "y",
    "wrong": "n",
}


def join(page: Page, link: str) -> None:
    """Accept an invitation."""
    page.goto(link)
    page.get_by_label("Password", exact=False).first.fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def sign_out(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def task_shown(page: Page) -> Locator:
    """Locate the name of the current task."""
    return page.locator(".asking .task-name")


def ready(page: Page) -> None:
    """Wait until earlier keys were processed and the question can be answered."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.locator(".answer").last).to_be_enabled()


def draw(page: Page, box: Sequence[float], size: Sequence[int]) -> None:
    """Drag a box given in pixels of the photo."""
    canvas = page.locator(".canvas").bounding_box()
    assert canvas is not None
    (x1, y1), (x2, y2) = (
        (canvas["x"] + x * canvas["width"] / size[0], canvas["y"] + y * canvas["height"] / size[1])
        for x, y in (box[:2], box[2:])
    )
    page.mouse.move(x1, y1)
    page.mouse.down()
    page.mouse.move((x1 + x2) / 2, (y1 + y2) / 2, steps=3)
    page.mouse.move(x2, y2, steps=3)
    page.mouse.up()
    page.evaluate("new Promise((done) => setTimeout(() => requestAnimationFrame(done)))")  # the page settles the box


def answer(page: Page, question: Question, value: str, box: Sequence[float] | None) -> None:
    """Answer the question on the screen, with the mouse if a box is drawn and with a key otherwise."""
    ready(page)
    if box is not None:
        photo = question["photo"]
        draw(page, box, (photo["width"], photo["height"]))
        expect(page.get_by_role("button", name="Send this box")).to_be_enabled()
    page.keyboard.press(KEYS[value])


def all_sent(page: Page) -> None:
    """Wait until the server has every answer."""
    expect(page.locator(".progress")).to_be_visible()  # it appears once the page knows the worker's own work
    expect(page.locator(".progress")).not_to_contain_text("on the way")
