"""WCAG 2.2 AA on every page and state of the web app, by axe-core, and what axe-core cannot see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deixis.web.security import AccessPolicy
from tests.browser.conftest import Site
from tests.web.fakes import FakeCollection, FakeInference, photo_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import expect

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]
SEARCH = "Search photos by a sentence"
PASSWORD = "correct-horse-battery"


def wcag_problems(page: Page) -> list[str]:
    """Return what axe-core finds on a page."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        """rules => axe.run(document, {
            runOnly: rules,
            rules: { "target-size": { enabled: true } },
            resultTypes: ["violations"],
        })""",
        RULES,
    )
    return [
        f"{rule['id']}: {node['html']} ({node['failureSummary']})"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def show_grid(page: Page, site: Site) -> None:
    page.goto(site())
    expect(page.get_by_label("a photo of something (dog.jpg)")).to_be_visible()


def show_results(page: Page, site: Site) -> None:
    page.goto(site() + "?q=dog&all=1")
    expect(page.locator(".tile .box").first).to_be_attached()


def headed(query: str, heading: str) -> Callable[[Page, Site], None]:
    """Show the page of a query, which has a heading of its own."""

    def show(page: Page, site: Site) -> None:
        page.goto(site() + query)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()

    show.__name__ = heading
    return show


def show_empty_index(page: Page, site: Site) -> None:
    page.goto(site(FakeCollection()))
    expect(page.get_by_role("heading", name="No photos yet.")).to_be_visible()


def show_error(page: Page, site: Site) -> None:
    page.route("**/api/photos?*", lambda route: route.abort())
    page.goto(site())
    expect(page.get_by_text("The server cannot be reached.")).to_be_visible()


def show_photo(page: Page, site: Site) -> None:
    inference = FakeInference()
    inference.presence_of_last = 0.05
    page.goto(site(inference=inference))
    page.get_by_label("dog.jpg").click()
    page.get_by_label("A sentence about this photo").fill("dog in snow")
    expect(page.locator(".phrase-line")).to_have_count(2)
    expect(page.get_by_text("A photo of something.")).to_be_visible()
    expect(page.locator(".region")).to_have_count(2)


def show_guess(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_label("dog.jpg").click()
    page.get_by_label("A sentence about this photo").fill("dog in xyzzy")
    expect(page.get_by_text("a guess")).to_be_visible()


def show_active_phrase(page: Page, site: Site) -> None:
    show_photo(page, site)
    page.locator(".phrase-line").nth(1).focus()
    expect(page.locator(".stage .box.is-active")).to_have_count(1)


def show_unsure_photo(page: Page, site: Site) -> None:
    inference = FakeInference()
    inference.sure_of_caption = False
    page.goto(site(inference=inference))
    page.get_by_label("dog.jpg").click()
    expect(page.get_by_text("Not sure: perhaps")).to_be_visible()


def show_upload(page: Page, site: Site) -> None:
    page.goto(site())
    photo = {"name": "mine.jpg", "mimeType": "image/jpeg", "buffer": photo_bytes((640, 480))}
    page.get_by_label("A photo to search by").set_input_files(photo)  # type: ignore[arg-type]
    expect(page.get_by_role("button", name="Caption and describe this photo")).to_be_visible()


def show_uploaded_photo(page: Page, site: Site) -> None:
    show_upload(page, site)
    page.get_by_role("button", name="Caption and describe this photo").click()
    expect(page.get_by_text("A photo of something.")).to_be_visible()
    expect(page.get_by_role("img", name="A photo of something.")).to_be_visible()


def show_filters(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_role("button", name="June 2024, 5 photos").click()
    expect(page.get_by_role("button", name="June 2024 remove filter")).to_be_visible()


def show_selection(page: Page, site: Site) -> None:
    show_grid(page, site)
    page.get_by_role("button", name="Select").click()
    page.get_by_label("dog.jpg").click()
    expect(page.get_by_text("1 photo selected")).to_be_visible()


def show_favourites(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_label("dog.jpg").click()
    expect(page.locator(".star")).to_be_visible()
    page.keyboard.press("*")
    expect(page.locator(".star")).to_have_attribute("aria-pressed", "true")
    page.goto(page.url.partition("?")[0] + "?q=is:favourite")
    expect(page.get_by_label("dog.jpg), favourite")).to_be_visible()


def show_folders(page: Page, site: Site) -> None:
    show_grid(page, site)
    page.get_by_role("button", name="Folders", exact=True).click()
    expect(
        page.get_by_role("button", name="All folders").or_(page.get_by_role("button", name="2024 5"))
    ).to_be_visible()


def show_full_screen(page: Page, site: Site) -> None:
    show_photo(page, site)
    page.get_by_role("button", name="Full screen").click()
    expect(page.get_by_role("button", name="Leave full screen")).to_be_visible()


def show_keys(page: Page, site: Site) -> None:
    show_grid(page, site)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def show_log_in(page: Page, site: Site) -> None:
    page.goto(site(policy=AccessPolicy("0.0.0.0", PASSWORD)))
    expect(page.get_by_label("Password")).to_be_visible()


STATES: tuple[Callable[[Page, Site], None], ...] = (
    show_grid,
    show_results,
    headed("?q=xyzzy", "Nothing found."),
    show_empty_index,
    show_error,
    show_photo,
    show_guess,
    show_active_phrase,
    show_unsure_photo,
    headed("?photo=0-0", "This photo cannot be shown."),
    show_upload,
    show_uploaded_photo,
    show_filters,
    show_selection,
    show_favourites,
    show_folders,
    show_full_screen,
    show_keys,
    show_log_in,
)


@pytest.fixture
def calm_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page with axe-core, whose user prefers reduced motion."""
    if not AXE.is_file():
        pytest.fail("axe-core is not installed: cd web && npm ci")
    look = getattr(request, "param", "light")
    is_phone = look == "phone"
    context = browser.new_context(
        viewport={"width": 390, "height": 844} if is_phone else {"width": 1366, "height": 768},
        color_scheme="dark" if look == "dark" else "light",
        reduced_motion="reduce",
        has_touch=is_phone,
    )
    yield context.new_page()
    context.close()


RICH = (show_results, show_photo, show_selection)
"""States that the fast tier sees in the dark and on a phone, too."""

LOOKS = [
    pytest.param(look, show, marks=[pytest.mark.slow] * (look != "light" and show not in RICH))
    for look in ("light", "dark", "phone")
    for show in STATES
]


@pytest.mark.parametrize(
    ("calm_page", "show"),
    LOOKS,
    indirect=["calm_page"],
    ids=lambda value: value if isinstance(value, str) else value.__name__.removeprefix("show_"),
)
def test_every_state_meets_wcag(calm_page: Page, site: Site, show: Callable[[Page, Site], None]) -> None:
    show(calm_page, site)
    assert wcag_problems(calm_page) == []


def test_the_keyboard_reaches_everything_in_the_order_of_the_page(page: Page, site: Site) -> None:
    show_photo(page, site)
    page.locator("body").click(position={"x": 2, "y": 2})
    seen: list[dict[str, float]] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
                const {activeElement: it} = document, box = it.getBoundingClientRect();
                const look = getComputedStyle(it), line = it.closest(".search, .marked-field");
                const ink = getComputedStyle(document.documentElement).color;
                return {
                    name: it.getAttribute("aria-label") || it.innerText, isBody: it === document.body,
                    inSide: Boolean(it.closest("aside")), top: box.top + scrollY,
                    isMarked: look.outlineStyle === "solid"
                        || (line !== null && getComputedStyle(line).borderBottomColor === ink),
                };
            }"""
        )
        if at["isBody"]:
            break
        seen.append(at)
    names = [at["name"] for at in seen]
    assert names[:2] == ["deixis, all photos", SEARCH]
    expected = ("Back", "A sentence about this photo", "dog", "a brown thing", "Folder", "Download", "More like this")
    places = [
        next(place for place, name in enumerate(names) if str(name).lstrip("← 12\n").startswith(word))
        for word in expected
    ]
    assert places == sorted(places)
    side = [at["top"] for at in seen if at["inSide"]]
    assert all(above <= below + 20 for above, below in pairwise(side))
    assert all(at["isMarked"] for at in seen), [at["name"] for at in seen if not at["isMarked"]]


def test_nothing_moves_for_users_who_prefer_that(calm_page: Page, site: Site) -> None:
    show_photo(calm_page, site)
    moving = """[...document.querySelectorAll("*")].filter(each => {
        const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(each);
        return parseFloat(transitionDuration) > 0 || animationName !== "none" || scrollBehavior === "smooth";
    }).map(each => each.className)"""
    assert calm_page.evaluate(moving) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1366, 390])
def test_the_logo_stays_where_it_is_in_every_state(browser: Browser, site: Site, width: int) -> None:
    places = set()
    for show in STATES[:-1]:  # the log-in page has none
        context = browser.new_context(viewport={"width": width, "height": 800})
        page = context.new_page()
        show(page, site)
        page.evaluate("scrollTo(0, 0)")
        box = page.locator(".name").bounding_box()
        assert box is not None
        places.add((show.__name__, round(box["x"]), round(box["y"])))
        context.close()
    assert len({place[1:] for place in places}) == 1, sorted(places)
