"""Take the screenshots of the annotation workbench for ``docs/guides/annotate*.md``.

python scripts/annotate_screenshots.py [--out docs/pictures] [--chromium /usr/bin/chromium] [--only NAME…]

A simulated crowd annotates the sample photos, and a browser opens the workbench. Needs playwright (in the test extra)
and Chromium.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from simulated_crowd import CARELESS, HONEST, Kind, SimulatedWorker, Truth, lease, submit

from deixis.annotate.judgements import skip_question
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role, invite
from deixis.annotate.project import Project, add_photos, make_project, open_for_work
from deixis.annotate.queue import LeasedQuestion
from deixis.annotate.settings import Settings
from deixis.annotate.web.app import make_app
from deixis.annotate.web.context import Limits
from deixis.annotate.workflow import Task
from deixis.data.dataset import Dataset
from deixis.data.imports import import_dataset
from deixis.data.records import Photo
from deixis.data.samples import SAMPLES

LAPTOP = {"width": 1280, "height": 800}
TABLET = {"width": 820, "height": 1180}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PASSWORD = "a password for pictures"  # noqa: S105 - of no account
NO_LIMITS = Limits(answers_per_second=1e6, answers_at_once=1e6, attempts_per_minute=1e6, attempts_at_once=1e6)
PERFECT = Kind("perfect", error_rate=0.0, box_noise=0.01)
DURATION_S = 9 * 3600.0
ANSWERS = 600
"""Number of answers before the screenshot of the dashboard."""


@dataclass(frozen=True)
class Shot:
    """A screenshot of a task on a photo."""

    name: str
    task: Task
    photo: str
    is_tablet: bool = False
    scheme: str = "light"


SHOTS = (
    Shot("annotate-link", Task.LINK, "tourist"),
    Shot("annotate-verify", Task.VERIFY, "astronaut"),
    Shot("annotate-requirement", Task.REQUIREMENT, "mountains"),
    Shot("annotate-drawing", Task.DRAWING, "otters"),
    Shot("annotate-quality", Task.QUALITY, "photographer"),
    Shot("annotate-coverage", Task.COVERAGE, "dogs"),
    Shot("annotate-tablet", Task.DRAWING, "staircase", is_tablet=True),
    Shot("annotate-tablet-dark", Task.VERIFY, "dogs", is_tablet=True, scheme="dark"),
)


class Crowd:
    """Simulated workers that annotate in simulated time."""

    def __init__(
        self, project: Project, photos: Sequence[Photo], kinds: dict[str, Kind], *, ago_s: float = 0.0, seed: int = 0
    ) -> None:
        self.project, self.truths = project, {photo.id: Truth(photo) for photo in photos}
        self.rng = random.Random(seed)  # noqa: S311 - no secret
        self.members = [
            SimulatedWorker(invite(project, name, vouched=True)[0], kind, random.Random(seed + index))  # noqa: S311
            for index, (name, kind) in enumerate(kinds.items())
        ]
        self.now = time.time() - ago_s
        project.clock = lambda: self.now

    def work(self, pace_s: float, is_skipped: Callable[[LeasedQuestion], bool] = lambda question: False) -> bool:
        """Let every worker answer one question; return whether there was any."""
        worked = False
        for member in self.members:
            question = lease(self.project, member.id)
            if question is None or is_skipped(question):
                continue
            answer, box = member.answer(question, self.truths[question.photo])
            seconds = self.rng.uniform(3, 12)
            submit(self.project, member.id, question.token, answer.value, box=box, seconds=seconds)
            self.now += pace_s
            worked = True
        return worked

    def stop_clock(self) -> None:
        """Return to real time."""
        self.project.clock = time.time


@contextmanager
def temporary_project(photos: Sequence[Photo], known: Sequence[Photo] = (), **settings: object) -> Iterator[Project]:
    """A temporary project."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample photos"
        make_project(path, images=SAMPLES / "images", settings=Settings(**settings)).close()  # type: ignore[arg-type]
        project = open_for_work(path)
        add_known_photos(project, known)
        add_photos(project, map(prepare_photo, photos))
        yield project
        project.close()


@contextmanager
def served(project: Project) -> Iterator[str]:
    """Serve the workbench and yield its address."""
    server = uvicorn.Server(uvicorn.Config(make_app(project, limits=NO_LIMITS), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


def join(page: Page, address: str, token: str) -> None:
    """Join with an invitation, by a request outside the page."""
    page.request.post(f"{address}api/join", data={"token": token, "password": PASSWORD})


def wait_for_images(page: Page) -> None:
    """Wait until all images are loaded."""
    is_done = "[...document.images].every(each => each.complete || each.loading === 'lazy')"
    while not page.evaluate(is_done):
        page.wait_for_timeout(50)
    page.wait_for_timeout(500)


def take_screenshot(page: Page, path: Path) -> None:
    """Write a screenshot."""
    page.screenshot(path=path, type="jpeg", quality=88)


def open_page(browser: Browser, shot: Shot) -> Page:
    """Open a page of the size of a screenshot."""
    size = TABLET if shot.is_tablet else LAPTOP
    return browser.new_page(viewport=size, has_touch=shot.is_tablet, color_scheme=shot.scheme)  # type: ignore[arg-type]


def take_task(browser: Browser, photos: dict[str, Photo], shot: Shot, out: Path) -> None:
    """Take the screenshot of a task, once a photo has reached it."""
    photo = photos[shot.photo]
    with temporary_project([photo], first_items=0) as project:
        crowd = Crowd(project, [photo], dict.fromkeys(("Bob", "Cleo", "Dan", "Eve"), PERFECT))
        ann, token = invite(project, "Ann", vouched=True)
        while lease(project, ann, tasks=[shot.task]) is None:
            assert crowd.work(0.0), f"{shot.name}: no question of this task"  # noqa: S101
        crowd.stop_clock()
        with served(project) as address:
            page = open_page(browser, shot)
            join(page, address, token)
            page.goto(address)
            page.locator('.answer[aria-disabled="false"]').last.wait_for()
            if shot.task is Task.DRAWING:
                draw_true_box(page, project, ann, crowd)
            wait_for_images(page)
            take_screenshot(page, out / f"{shot.name}.jpg")
            page.close()


def draw_true_box(page: Page, project: Project, worker: str, crowd: Crowd) -> None:
    """Draw a gold box that is still missing."""
    question = lease(project, worker)
    assert question is not None  # noqa: S101
    truth = crowd.truths[question.photo]
    x1, y1, x2, y2 = truth.missing(question.content["mentions"][0], question.content["boxes"])[0]
    canvas = page.locator(".canvas").bounding_box()
    assert canvas is not None  # noqa: S101
    across, down = canvas["width"] / truth.photo.width, canvas["height"] / truth.photo.height  # type: ignore[operator]
    page.mouse.move(canvas["x"] + x1 * across, canvas["y"] + y1 * down)
    page.mouse.down()
    page.mouse.move(canvas["x"] + x2 * across, canvas["y"] + y2 * down, steps=5)
    page.mouse.up()


def take_pages(browser: Browser, photos: dict[str, Photo], out: Path) -> None:
    """Take the screenshots of the review, the dashboard and the gallery of a half-finished project."""
    known = [photos[name] for name in ("coffee", "cat")]
    annotated = [photo for photo in photos.values() if photo not in known]
    settings = {
        "test_questions": 0,
        "first_items": 0,
        "hidden_share": 0.1,
        "votes_to_review": 3,
        "bad_boxes_to_review": 2,
    }
    with temporary_project(annotated, known, **settings) as project:
        kinds = dict.fromkeys(("Ann", "Bob", "Cleo", "Dan", "Eve"), HONEST) | {"Finn": CARELESS}
        crowd = Crowd(project, list(photos.values()), kinds, ago_s=DURATION_S)
        skip_one_question(project, crowd)
        answered = 0
        while answered < ANSWERS and crowd.work(DURATION_S / ANSWERS * (0.4 + 0.5 * (answered // 80 % 3))):
            answered += len(kinds)
        crowd.stop_clock()
        _, token = invite(project, "Olga", role=Role.OWNER)
        with served(project) as address:
            page = browser.new_page(viewport=LAPTOP)  # type: ignore[arg-type]
            join(page, address, token)
            for view, size in (("review", LAPTOP), ("dashboard", TABLET), ("gallery", LAPTOP)):
                page.set_viewport_size(size)  # type: ignore[arg-type]
                page.goto(f"{address}#/{view}")
                wait_for_images(page)
                take_screenshot(page, out / f"annotate-{view}.jpg")
            page.locator(".gallery-card").nth(2).click()
            page.locator(".coloured-captions button").first.click()
            page.get_by_role("button", name="Move").first.click()
            page.get_by_role("button", name="Save the box").wait_for()
            wait_for_images(page)
            take_screenshot(page, out / "annotate-correction.jpg")
            page.close()


def skip_one_question(project: Project, crowd: Crowd) -> None:
    """Let a worker skip a question with a remark."""
    member = crowd.members[0].id
    question = lease(project, member)
    assert question is not None  # noqa: S101
    details = {"bad_phrase": question.content["mentions"][0], "seconds": 8.0, "remark": "Half a phrase, I think."}
    project.database.run(lambda connection: skip_question(project, connection, member, question.token, **details))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="names of screenshots, such as annotate-link"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        import_dataset(Path(folder) / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
        photos = {photo.id: photo for photo in Dataset(Path(folder) / "data").photos}
        browser = driver.chromium.launch(executable_path=args.chromium, args=FLAGS)
        for shot in SHOTS:
            if not args.only or shot.name in args.only:
                take_task(browser, photos, shot, args.out)
        if not args.only or "annotate-pages" in args.only:
            take_pages(browser, photos, args.out)
        browser.close()


if __name__ == "__main__":
    main()
