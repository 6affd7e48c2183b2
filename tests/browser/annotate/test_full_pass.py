"""From an invitation to a model trained on the annotations."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from deixis.annotate.people import Role
from deixis.annotate.progress import read_progress
from deixis.annotate.workflow import CHAIN_TASKS, Task
from deixis.cli.main import _run
from deixis.data.dataset import Dataset
from deixis.data.samples import SAMPLES
from deixis.vision import encoders
from tests.browser.annotate.actions import NAMES, all_sent, answer, join, sign_out, task_shown
from tests.browser.annotate.conftest import Bench, MakeBench
from tests.browser.annotate.crowd import PASSWORD, Member, work_all
from tests.vision.feature_store.small import colour_encoder

PHOTOS = 3


def test_a_model_is_trained_on_annotations_made_in_browsers_and_over_http(
    laptop: Page, bench: MakeBench, sample_data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = [photo for photo in sample_data.photos if "train" in photo.splits][:PHOTOS]
    site = bench(photos)
    join(laptop, site.invite("Olga", Role.OWNER))
    link = _invite_in_the_page(laptop, "Ann")
    sign_out(laptop)
    join(laptop, link)
    expect(task_shown(laptop)).to_have_text(NAMES[Task.LINK])
    # Open pages hold leased questions, so Olga and Ann must answer theirs too.
    crowd = [Member.login(site.address, name, site.truths) for name in ("Olga", "Ann")]
    crowd += [site.member(name) for name in ("Bob", "Cleo", "Dan")]
    for task in CHAIN_TASKS:
        crowd.append(_answer_in_the_browser(laptop, site, task, crowd))

    work_all(crowd)
    sign_out(laptop)
    _sign_in(laptop, "Olga")
    laptop.get_by_role("link", name="Dashboard").click()
    expect(laptop.get_by_text(f"{PHOTOS} of {PHOTOS}")).to_be_visible()
    _export_import_train(site, tmp_path, monkeypatch)


def _invite_in_the_page(page: Page, name: str) -> str:
    page.get_by_role("link", name="People", exact=True).click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Make a link").click()
    return page.get_by_label("Invitation link").input_value()


def _answer_in_the_browser(page: Page, site: Bench, task: Task, crowd: list[Member]) -> Member:
    """Let a new member answer a question of a task in the browser, once there is one."""
    member = site.member(f"Worker for {task.value}")
    while (question := member.next(task)) is None:
        assert sum(each.work() for each in crowd), f"no question of {task.value}"
    before = read_progress(site.project).judged
    page.goto("about:blank")
    page.request.post(f"{site.address}api/login", data={"name": f"Worker for {task.value}", "password": PASSWORD})
    page.goto(site.address)
    expect(task_shown(page)).to_have_text(NAMES[task])
    answer(page, question, *site.truths.answer(question))
    expect(page.get_by_text("1 answer by you")).to_be_visible()
    all_sent(page)
    assert read_progress(site.project).judged == before + 1
    return member


def _sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def _export_import_train(site: Bench, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    assert _run(["annotate", "export", "project", "--to", "entities", "--out", "out"]) == 0
    split = folder / "train.txt"
    split.write_text("\n".join(path.stem for path in (folder / "out" / "Annotations").glob("*.xml")))
    imported = ["data", "import", "--entities", "out", "--images", str(SAMPLES / "images"), "--out", "again"]
    assert _run([*imported, "--split", f"train={split}"]) == 0
    again = Dataset(folder / "again")
    assert len(again.split("train")) == PHOTOS
    assert all(photo.boxes for photo in again.photos)
    assert _run(["train", "cca", "--data", "again", "--set", "embedding_dim=2", "--set", "regularization=0.1"]) == 0
    assert (folder / "cca.model").is_dir()
