"""The page of a worker: keys, boxes, undo, and an unreachable server."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from sqlalchemy import select

from deixis.annotate.people import Role, invite, suspend_worker
from deixis.annotate.review import edit_phrases
from deixis.annotate.store import events, remarks
from tests.browser.annotate.actions import all_sent, answer, draw, join, ready, task_shown
from tests.browser.annotate.conftest import Bench, MakeBench
from tests.browser.annotate.crowd import PASSWORD, Member
from tests.browser.annotate.photos import SIZE, captioned, two_people_with_a_dog

TWICE = """() => {
    for (const key of ["n", "n", "s"])
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}"""
HOSTILE = '<img src=x onerror="document.title=1"> <b>A dog</b> & 🐕‍🦺 كلب يجري &lt;script&gt;'


def judged(site: Bench) -> list[dict[str, object]]:
    """Return the judgements in order."""
    chosen = select(events.c.body).where(events.c.kind == "judged").order_by(events.c.number)
    with site.project.database.reading() as connection:
        return list(connection.scalars(chosen))


def start(page: Page, site: Bench) -> Bench:
    """Join and wait for the first question."""
    join(page, site.invite("Ann"))
    ready(page)
    return site


def test_a_box_is_drawn_moved_and_sent_by_keys_alone(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    laptop.goto(site.invite("Ann"))
    expect(laptop.get_by_role("heading", name="Welcome, Ann")).to_be_visible()
    laptop.keyboard.press("Tab")
    laptop.keyboard.type(PASSWORD)
    laptop.keyboard.press("Enter")
    expect(task_shown(laptop)).to_have_text("Draw")
    ready(laptop)
    laptop.keyboard.press("Enter")  # there is no box to send
    laptop.keyboard.press("b")
    for _ in range(10):
        laptop.keyboard.press("ArrowLeft")
    for _ in range(5):
        laptop.keyboard.press("Shift+ArrowDown")
    laptop.keyboard.press("Control+z")
    laptop.keyboard.press("?")
    expect(laptop.get_by_role("dialog", name="Keys")).to_be_visible()
    laptop.keyboard.press("n")  # must not answer while the dialog is open
    laptop.keyboard.press("Escape")
    expect(laptop.get_by_role("dialog")).to_have_count(0)
    laptop.keyboard.press("Enter")
    expect(laptop.get_by_role("heading", name="No question for you right now.")).to_be_visible()
    x1, y1, x2, y2 = 0.3 * 451, 0.3 * 300, 0.7 * 451, 0.7 * 300
    expected = [round(x1) - 10, round(y1), round(x2) - 10, round(y2) + 4]
    assert [(each["answer"], each["box"]) for each in judged(site)] == [("drawn", expected)]


def test_a_drag_is_clipped_a_second_box_replaces_the_first_and_handles_resize(laptop: Page, bench: MakeBench) -> None:
    site = start(laptop, bench([captioned("A man smiles.")]))
    draw(laptop, (20, 20, 100, 90), SIZE)
    laptop.keyboard.press("+")  # zoom in, then fit again
    laptop.keyboard.press("0")
    expect(laptop.get_by_role("button", name="Fit")).to_have_text("100 %")
    draw(laptop, (300, 200, 600, 400), SIZE)  # beside the first
    draw(laptop, (300, 200, 250, 150), SIZE)  # by its corner
    laptop.keyboard.press("Enter")
    all_sent(laptop)
    expect(laptop.get_by_role("heading", name="No question for you right now.")).to_be_visible()
    ((x1, y1, x2, y2),) = [each["box"] for each in judged(site)]  # type: ignore[misc]
    assert (x1, y1) == (pytest.approx(250, abs=2), pytest.approx(150, abs=2))
    assert (x2, y2) == SIZE


def test_a_drag_may_begin_beside_the_photo(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    join(laptop, site.invite("Ann"))
    ready(laptop)
    draw(laptop, (100, 50, 150, 90), SIZE)
    expect(laptop.get_by_role("button", name="Send this box")).to_be_enabled()
    draw(laptop, (-8, 200, 200, 320), SIZE)  # the grass, up to two sides of the photo
    laptop.keyboard.press("Enter")
    expect(laptop.get_by_role("heading", name="No question for you right now.")).to_be_visible()
    all_sent(laptop)
    assert [each["box"] for each in judged(site)] == [pytest.approx([0, 200, 200, 300], abs=2)]


def test_a_drawn_box_and_a_comment_are_not_lost(laptop: Page, bench: MakeBench) -> None:
    site = start(laptop, bench([captioned("A man smiles.")]))
    draw(laptop, (20, 20, 100, 90), SIZE)
    expect(laptop.get_by_role("button", name="Send this box")).to_be_enabled()
    laptop.keyboard.press("n")  # "no box", although there is one
    expect(laptop.get_by_text("There is a box.")).to_be_visible()
    laptop.keyboard.press("c")
    expect(laptop.get_by_label("What should a reviewer know?")).to_be_focused()
    laptop.keyboard.type("half of a man")
    laptop.keyboard.press("Escape")
    laptop.reload()
    expect(laptop.get_by_role("button", name="Send this box")).to_be_enabled()
    laptop.get_by_role("button", name="Your comment is not finished").click()
    expect(laptop.get_by_label("What should a reviewer know?")).to_have_value("half of a man")
    laptop.get_by_role("button", name="Send it with my answer").click()
    laptop.reload()
    expect(laptop.get_by_text("Your comment goes with the answer: half of a man")).to_be_visible()
    laptop.get_by_role("button", name="Send this box").click()
    expect(laptop.get_by_role("heading", name="No question for you right now.")).to_be_visible()
    all_sent(laptop)
    [sent] = judged(site)
    assert (sent["answer"], sent["box"]) == ("drawn", pytest.approx([20, 20, 100, 90], abs=2))
    with site.project.database.reading() as connection:
        assert connection.scalars(select(remarks.c.text)).all() == ["half of a man"]


@pytest.mark.parametrize("late", ["**/*.js", "**/api/session", "**/api/next"])
def test_a_page_on_a_slow_line_says_that_it_is_coming(laptop: Page, bench: MakeBench, late: str) -> None:
    site = bench([captioned("A man smiles.")])
    join(laptop, site.invite("Ann"))
    ready(laptop)
    held: list[Route] = []
    laptop.route(late, lambda route: held.append(route))
    laptop.reload(wait_until="commit")
    expect(laptop.get_by_text("One moment …")).to_be_visible()
    laptop.route(late, lambda route: route.continue_())
    while held:
        held.pop().continue_()
    expect(laptop.get_by_text("One moment …")).to_have_count(0)
    ready(laptop)


def test_somebody_suspended_at_work_learns_why_the_page_asks_to_sign_in(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    join(laptop, site.invite("Ann"))
    ready(laptop)
    suspend_worker(site.project, "Ann")
    laptop.keyboard.press("n")
    expect(laptop.get_by_text("You are not signed in any more.")).to_be_visible()
    laptop.get_by_label("Name").fill("Ann")
    laptop.get_by_label("Password").fill(PASSWORD)
    laptop.get_by_role("button", name="Sign in").click()
    expect(laptop.get_by_text("the project's owner has suspended you")).to_be_visible()


def test_undo_brings_the_question_back(laptop: Page, bench: MakeBench) -> None:
    site = start(laptop, bench([two_people_with_a_dog()]))
    first = laptop.locator(".captions").inner_text()
    laptop.keyboard.press("n")
    expect(laptop.locator(".captions")).not_to_have_text(first)
    ready(laptop)
    laptop.keyboard.press("u")
    expect(laptop.get_by_text("Taken back. Here it is again.")).to_be_visible()
    assert laptop.locator(".captions").inner_text() == first
    ready(laptop)
    laptop.keyboard.press("y")
    all_sent(laptop)
    expect(laptop.get_by_text("1 answer by you")).to_be_visible()
    with site.project.database.reading() as connection:
        kinds = list(connection.scalars(select(events.c.kind).order_by(events.c.number)))
    assert kinds == ["judged", "undone", "judged"]


def test_pressing_a_key_twice_answers_once(laptop: Page, bench: MakeBench) -> None:
    site = start(laptop, bench([two_people_with_a_dog()]))
    laptop.evaluate(TWICE)  # before the next question is drawn, and just after
    laptop.keyboard.press("s")
    ready(laptop)
    all_sent(laptop)
    assert len(judged(site)) == 1


def test_an_answer_before_the_photo_is_there_is_dropped_and_said(laptop: Page, bench: MakeBench) -> None:
    site = bench([two_people_with_a_dog()])
    held: list[Route] = []
    laptop.route("**/api/photos/**", lambda route: held.append(route), times=1)
    join(laptop, site.invite("Ann"))
    expect(task_shown(laptop)).to_be_visible()
    laptop.keyboard.press("y")
    expect(laptop.get_by_text("The photo is not here yet.")).to_be_visible()
    held[0].continue_()
    ready(laptop)
    assert judged(site) == []


def test_an_answer_that_does_not_count_is_said(laptop: Page, bench: MakeBench) -> None:
    site = start(laptop, bench([two_people_with_a_dog()]))
    other = laptop.context.new_page()  # shows the same question
    other.goto(site.address)
    ready(other)
    laptop.keyboard.press("y")
    all_sent(laptop)
    other.keyboard.press("n")
    expect(other.locator(".status-line.is-trouble")).to_contain_text("answered that question in another window")
    assert [each["answer"] for each in judged(site)] == ["yes"]


def test_a_suspension_is_no_good_news(laptop: Page, bench: MakeBench) -> None:
    site = bench([two_people_with_a_dog()])

    def suspend(route: Route) -> None:
        content = route.fetch().json()
        route.fulfill(json={**content, "standing": {"task": "link", "level": "suspended", "test": None}})

    laptop.route("**/api/answer", suspend)
    join(laptop, site.invite("Ann"))
    ready(laptop)
    laptop.keyboard.press("y")
    expect(laptop.locator(".status-line.is-trouble")).to_contain_text("You get no more questions of “Same or not”")


def test_a_comment_is_sent_with_an_answer_and_reporting_a_phrase_skips_the_question(
    laptop: Page, bench: MakeBench
) -> None:
    site = start(laptop, bench([two_people_with_a_dog()]))
    laptop.keyboard.press("c")
    expect(laptop.get_by_label("What should a reviewer know?")).to_be_focused()
    laptop.keyboard.type("yes and no, <b>truly</b>")
    laptop.keyboard.press("Control+Enter")
    expect(laptop.get_by_text("yes and no, <b>truly</b>")).to_be_visible()
    laptop.keyboard.press("y")
    ready(laptop)
    laptop.keyboard.press("x")
    expect(laptop.get_by_role("dialog", name="A bad phrase")).to_be_visible()
    laptop.keyboard.press("2")
    ready(laptop)
    all_sent(laptop)
    with site.project.database.reading() as connection:
        recorded = connection.execute(select(events.c.kind, events.c.body).order_by(events.c.number)).all()
        assert connection.scalars(select(remarks.c.text)).all() == ["yes and no, <b>truly</b>"]
    assert [kind for kind, _ in recorded] == ["judged", "skipped"]
    assert recorded[1].body["bad_phrase"]


def test_answers_survive_a_server_restart_and_a_reload_and_count_once(laptop: Page, bench: MakeBench) -> None:
    site = start(laptop, bench([two_people_with_a_dog()]))
    laptop.wait_for_load_state("networkidle")  # the next question is loaded
    site.stop()
    laptop.keyboard.press("n")
    expect(laptop.get_by_text("Your answers are kept (1)")).to_be_visible()
    kept = laptop.evaluate("JSON.stringify(Object.values(localStorage))")
    assert "token" in kept
    site.start()
    laptop.reload()  # while the answer is unsent
    ready(laptop)
    all_sent(laptop)
    assert len(judged(site)) == 1
    # An answer whose acknowledgement was lost is sent again and is counted once.
    laptop.evaluate("kept => localStorage.setItem(Object.keys(localStorage)[0] ?? 'x', kept)", "[]")
    again = json.loads(json.loads(kept)[0])[0]["said"]
    response = laptop.request.post(
        f"{site.address}api/answer",
        data={**{key: value for key, value in again.items() if key != "kind"}, "next": None},
    ).json()
    assert response["again"] is True
    assert len(judged(site)) == 1


def test_the_next_question_does_not_wait_for_the_server(laptop: Page, bench: MakeBench) -> None:
    site = start(laptop, bench([two_people_with_a_dog()]))
    laptop.wait_for_load_state("networkidle")
    first = laptop.locator(".captions").inner_text()
    held: list[Route] = []
    laptop.route("**/api/answer", lambda route: held.append(route))
    laptop.keyboard.press("n")
    expect(laptop.locator(".captions")).not_to_have_text(first)
    ready(laptop)
    expect(laptop.get_by_text("1 on the way")).to_be_visible()
    assert judged(site) == []
    held[0].continue_()
    all_sent(laptop)
    assert len(judged(site)) == 1


def test_a_proposed_box_is_marked_and_can_be_accepted_and_corrected(laptop: Page, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])

    def propose(route: Route) -> None:
        content = route.fetch().json()
        content["question"]["proposal"] = {"model": "grounder", "box": [20, 30, 200, 210]}
        route.fulfill(json=content)

    laptop.route("**/api/next", propose, times=1)
    join(laptop, site.invite("Ann"))
    expect(laptop.get_by_text("A model suggests a box")).to_be_visible()
    ready(laptop)
    laptop.keyboard.press("a")
    laptop.keyboard.press("ArrowRight")
    laptop.keyboard.press("Enter")
    expect(laptop.get_by_role("heading", name="No question for you right now.")).to_be_visible()
    assert [each["box"] for each in judged(site)] == [[21, 30, 201, 210]]


def test_captions_are_shown_as_plain_text(laptop: Page, bench: MakeBench) -> None:
    right_to_left = "كلب يجري في الحديقة ‮evil‬"
    site = bench([captioned(HOSTILE, right_to_left)])
    owner, _ = invite(site.project, "Olga", role=Role.OWNER)
    phrases = (f"0:{HOSTILE.index('A dog')}-{len(HOSTILE)}", f"1:0-{len(right_to_left)}")
    edit_phrases(site.project, owner, "cat", [(phrase, ("animals",)) for phrase in phrases])
    join(laptop, site.invite("<i>Ann</i>"))
    ready(laptop)
    assert [line.inner_text() for line in laptop.locator(".sentence").all()] == [HOSTILE, right_to_left]
    assert laptop.locator(".captions img, .captions b, .captions script").count() == 0
    directions = laptop.evaluate(
        "[...document.querySelectorAll('.sentence')].map(each => getComputedStyle(each).direction)"
    )
    assert directions == ["ltr", "rtl"]
    assert laptop.title() == "Work – deixis annotate"
    expect(laptop.get_by_role("link", name="<i>Ann</i>")).to_be_visible()


def test_the_qualification_test_and_its_result_are_announced(laptop: Page, bench: MakeBench) -> None:
    known = [two_people_with_a_dog(f"known{number}") for number in range(3)]
    site = bench([two_people_with_a_dog()], known, test_questions=2, test_attempts=1, test_accuracy=1.0, first_items=0)
    member = sign_in(laptop, site)
    expect(laptop.get_by_text("Test question 1 of 2")).to_be_visible()
    answer_correctly(laptop, member)
    proceed(laptop)
    expect(laptop.get_by_text("Test question 2 of 2")).to_be_visible()
    answer_correctly(laptop, member)
    expect(laptop.get_by_text("You have passed the test of “Same or not”.")).to_be_visible()


def proceed(page: Page) -> None:
    """Leave a lesson, which a key that comes too soon does not."""
    expect(page.get_by_role("button", name="Next question")).to_be_focused()
    page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 300))")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Next question")).to_have_count(0)


def test_a_wrong_test_answer_is_explained_and_attempts_are_counted(laptop: Page, bench: MakeBench) -> None:
    known = [two_people_with_a_dog(f"known{number}") for number in range(3)]
    site = bench([two_people_with_a_dog()], known, test_questions=2, test_attempts=2, test_accuracy=1.0, first_items=0)
    member = sign_in(laptop, site)
    expect(laptop.get_by_text("0 wrong, 0 allowed · attempt 1 of 2")).to_be_visible()
    question = member.ask()
    right, _ = member.truths.answer(question)
    answer(laptop, question, "no" if right == "yes" else "yes", None)
    expect(laptop.get_by_text("That was not right.")).to_be_visible()
    expect(laptop.locator(".lesson .why")).to_contain_text("Annotators found that")
    expect(laptop.get_by_text("it begins again: attempt 2 of 2")).to_be_visible()
    expect(laptop.locator(".answer")).to_have_count(1)
    proceed(laptop)
    expect(laptop.get_by_text("0 wrong, 0 allowed · attempt 2 of 2")).to_be_visible()
    expect(laptop.get_by_role("button", name="Undo")).to_be_disabled()


def sign_in(page: Page, site: Bench) -> Member:
    """Sign Ann in, who also works over HTTP."""
    member = site.member("Ann")
    page.request.post(f"{site.address}api/login", data={"name": "Ann", "password": PASSWORD})
    page.goto(site.address)
    return member


def answer_correctly(page: Page, member: Member) -> None:
    """Answer the question on the screen, which is the oldest one leased to the worker."""
    question = member.ask()
    answer(page, question, *member.truths.answer(question))


def test_a_tablet_draws_with_one_finger_and_zooms_with_two(browser: Browser, bench: MakeBench) -> None:
    site = bench([captioned("A man smiles.")])
    context = browser.new_context(viewport={"width": 820, "height": 1180}, has_touch=True, is_mobile=True)
    page = context.new_page()
    join(page, site.invite("Ann"))
    ready(page)
    canvas = page.locator(".canvas").bounding_box()
    assert canvas is not None
    touch = context.new_cdp_session(page)

    def fingers(kind: str, *points: tuple[float, float]) -> None:
        touch_points = [
            {"x": canvas["x"] + x * canvas["width"], "y": canvas["y"] + y * canvas["height"], "id": number}
            for number, (x, y) in enumerate(points)
        ]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touch_points})

    fingers("touchStart", (0.4, 0.4))
    fingers("touchStart", (0.4, 0.4), (0.6, 0.6))
    fingers("touchMove", (0.3, 0.3), (0.7, 0.7))
    fingers("touchEnd")
    expect(page.get_by_role("button", name="Fit")).to_have_text("200 %")
    expect(page.get_by_role("button", name="Send this box")).to_be_disabled()  # two fingers draw nothing
    page.get_by_role("button", name="Fit").tap()
    fingers("touchStart", (0.2, 0.2))
    for step in range(1, 6):
        fingers("touchMove", (0.2 + 0.1 * step, 0.2 + 0.1 * step))
    fingers("touchEnd")
    page.get_by_role("button", name="Send this box").tap()
    expect(page.get_by_role("heading", name="No question for you right now.")).to_be_visible()
    all_sent(page)
    (box,) = [each["box"] for each in judged(site)]
    assert box == pytest.approx([0.2 * 451, 0.2 * 300, 0.7 * 451, 0.7 * 300], abs=4)
    context.close()
