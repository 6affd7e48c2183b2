"""Make the screenshots of the annotation workbench that ``docs/annotate.md`` shows.

python scripts/annotate_screenshots.py [--out docs/pictures] [--chromium /usr/bin/chromium] [--only NAME…]

A simulated crowd annotates the sample photos until there is something to see, and a browser looks at it; needs
playwright (in the test extra) and Chromium.
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

from deixis.annotate.assigning import Given, next_question
from deixis.annotate.known import add_known
from deixis.annotate.material import material_of
from deixis.annotate.opening import open_to_work
from deixis.annotate.people import Role, invite
from deixis.annotate.project import Project, add_photos, make_project
from deixis.annotate.recording import record, skip
from deixis.annotate.rehearsal import CARELESS, HONEST, Kind, Simulated, Truth
from deixis.annotate.settings import Settings
from deixis.annotate.walks import Task
from deixis.data.dataset import Dataset
from deixis.data.importing import import_dataset
from deixis.data.records import Photo
from deixis.data.samples import SAMPLES
from deixis.server.annotate.app import make_app
from deixis.server.annotate.desk import Limits

LAPTOP = {"width": 1280, "height": 800}
TABLET = {"width": 820, "height": 1180}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PASSWORD = "a password for pictures"  # noqa: S105 - of nobody
NO_HASTE = Limits(answers_per_second=1e6, answers_at_once=1e6, logins_per_minute=1e6, logins_at_once=1e6)
PERFECT = Kind("perfect", errs=0.0, shake=0.01)
HOURS = 9 * 3600.0
ENOUGH = 600
"""Answers that the crowd of the dashboard gives."""


@dataclass(frozen=True)
class Shot:
    """A task on a photo, as large as a screen."""

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
    """People who annotate in simulated time."""

    def __init__(
        self, project: Project, photos: Sequence[Photo], kinds: dict[str, Kind], *, ago_s: float = 0.0, seed: int = 0
    ) -> None:
        self.project, self.truths = project, {photo.id: Truth(photo) for photo in photos}
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.members = [
            Simulated(invite(project, name, vouched=True)[0], kind, random.Random(seed + place))  # noqa: S311
            for place, (name, kind) in enumerate(kinds.items())
        ]
        self.now = time.time() - ago_s
        project.clock = lambda: self.now

    def work(self, pace_s: float, besides: Callable[[Given], bool] = lambda given: False) -> bool:
        """Everybody answers one question; whether there was any."""
        worked = False
        for member in self.members:
            given = next_question(self.project, member.id)
            if given is None or besides(given):
                continue
            said, box = member.answer(given, self.truths[given.photo])
            took = self.chance.uniform(3, 12)
            record(self.project, member.id, given.token, said.value, box=box, seconds=took)
            self.now += pace_s
            worked = True
        return worked

    def rest(self) -> None:
        """Time is real again."""
        self.project.clock = time.time


@contextmanager
def project_of(photos: Sequence[Photo], known: Sequence[Photo] = (), **settings: object) -> Iterator[Project]:
    """A project in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample photos"
        make_project(path, images=SAMPLES / "images", settings=Settings(**settings)).close()  # type: ignore[arg-type]
        project = open_to_work(path)
        add_known(project, known)
        add_photos(project, map(material_of, photos))
        yield project
        project.close()


@contextmanager
def served(project: Project) -> Iterator[str]:
    """The address of the workbench."""
    server = uvicorn.Server(uvicorn.Config(make_app(project, limits=NO_HASTE), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


def enter(page: Page, address: str, token: str) -> None:
    """Join with an invitation, beside the page."""
    page.request.post(f"{address}api/join", data={"token": token, "password": PASSWORD})


def settled(page: Page) -> None:
    """Until all pictures are painted."""
    while not page.evaluate("[...document.images].every(each => each.complete)"):
        page.wait_for_timeout(50)
    page.wait_for_timeout(500)


def keep(page: Page, path: Path) -> None:
    """Take the picture."""
    page.screenshot(path=path, type="jpeg", quality=88)


def opened(browser: Browser, shot: Shot) -> Page:
    """A page of a screen."""
    size = TABLET if shot.is_tablet else LAPTOP
    return browser.new_page(viewport=size, has_touch=shot.is_tablet, color_scheme=shot.scheme)  # type: ignore[arg-type]


def take_task(browser: Browser, photos: dict[str, Photo], shot: Shot, out: Path) -> None:
    """One task, as soon as the crowd has brought a photo there."""
    photo = photos[shot.photo]
    with project_of([photo], first_items=0) as project:
        crowd = Crowd(project, [photo], dict.fromkeys(("Bob", "Cleo", "Dan", "Eve"), PERFECT))
        ann, token = invite(project, "Ann", vouched=True)
        while next_question(project, ann, only=[shot.task]) is None:
            assert crowd.work(0.0), f"{shot.name}: nothing is asked"  # noqa: S101
        crowd.rest()
        with served(project) as address:
            page = opened(browser, shot)
            enter(page, address, token)
            page.goto(address)
            page.locator('.answer[aria-disabled="false"]').last.wait_for()
            if shot.task is Task.DRAWING:
                draw_true_box(page, project, ann, crowd)
            settled(page)
            keep(page, out / f"{shot.name}.jpg")
            page.close()


def draw_true_box(page: Page, project: Project, worker: str, crowd: Crowd) -> None:
    """Draw what is to be drawn."""
    given = next_question(project, worker)
    assert given is not None  # noqa: S101
    truth = crowd.truths[given.photo]
    x1, y1, x2, y2 = truth.missing(given.asked["mentions"][0], given.asked["boxes"])[0]
    canvas = page.locator(".canvas").bounding_box()
    assert canvas is not None  # noqa: S101
    across, down = canvas["width"] / truth.photo.width, canvas["height"] / truth.photo.height  # type: ignore[operator]
    page.mouse.move(canvas["x"] + x1 * across, canvas["y"] + y1 * down)
    page.mouse.down()
    page.mouse.move(canvas["x"] + x2 * across, canvas["y"] + y2 * down, steps=5)
    page.mouse.up()


def take_pages(browser: Browser, photos: dict[str, Photo], out: Path) -> None:
    """What reviewers and owners see of a project that is half done."""
    known = [photos[name] for name in ("coffee", "cat")]
    asked = [photo for photo in photos.values() if photo not in known]
    settings = {
        "test_questions": 0,
        "first_items": 0,
        "hidden_share": 0.1,
        "votes_to_review": 3,
        "bad_boxes_to_review": 2,
    }
    with project_of(asked, known, **settings) as project:
        kinds = dict.fromkeys(("Ann", "Bob", "Cleo", "Dan", "Eve"), HONEST) | {"Finn": CARELESS}
        crowd = Crowd(project, list(photos.values()), kinds, ago_s=HOURS)
        given_back(project, crowd)
        answered = 0
        while answered < ENOUGH and crowd.work(HOURS / ENOUGH * (0.4 + 0.5 * (answered // 80 % 3))):
            answered += len(kinds)
        crowd.rest()
        _, token = invite(project, "Olga", role=Role.OWNER)
        with served(project) as address:
            page = browser.new_page(viewport=LAPTOP)  # type: ignore[arg-type]
            enter(page, address, token)
            for place, size in (("review", LAPTOP), ("dashboard", TABLET)):
                page.set_viewport_size(size)  # type: ignore[arg-type]
                page.goto(f"{address}#/{place}")
                settled(page)
                keep(page, out / f"annotate-{place}.jpg")
            page.close()


def given_back(project: Project, crowd: Crowd) -> None:
    """Somebody has something to say."""
    member = crowd.members[0].id
    given = next_question(project, member)
    assert given is not None  # noqa: S101
    skip(
        project,
        member,
        given.token,
        bad_phrase=given.asked["mentions"][0],
        seconds=8.0,
        remark="Half a phrase, I think.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="of these pictures, such as annotate-link"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        import_dataset(Path(folder) / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
        photos = {photo.id: photo for photo in Dataset(Path(folder) / "data").photos}
        browser = driver.chromium.launch(executable_path=given.chromium, args=FLAGS)
        for shot in SHOTS:
            if not given.only or shot.name in given.only:
                take_task(browser, photos, shot, given.out)
        if not given.only or "annotate-pages" in given.only:
            take_pages(browser, photos, given.out)
        browser.close()


if __name__ == "__main__":
    main()
