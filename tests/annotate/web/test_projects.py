"""Several projects of one server, with one sign-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from deixis.annotate.people import Role, forget_worker, invite, suspend_worker
from deixis.annotate.project import Project, backup_project, open_project, read_secret
from deixis.annotate.web.app import WorkbenchPolicy, join_apps, make_app
from tests.annotate.conftest import MakeProject

PASSWORD, OTHER = "a long password", "another password"
NewClient = Callable[[], TestClient]


@pytest.fixture
def dogs(new_project: MakeProject) -> Project:
    return new_project(2)[0]


@pytest.fixture
def cats(new_project: MakeProject) -> Project:
    return new_project(3)[0]


@pytest.fixture
def new_client(dogs: Project, cats: Project) -> Iterator[NewClient]:
    policy, apps = WorkbenchPolicy(), {}
    for name, project in (("dogs", dogs), ("cats", cats)):
        apps[name] = make_app(project, policy=policy, link=f"http://127.0.0.1/{name}/", workforces=[], is_guarded=False)
    joined, opened = join_apps(apps, policy), []

    def make() -> TestClient:
        opened.append(TestClient(joined, base_url="http://127.0.0.1"))
        return opened[-1]

    with TestClient(joined, base_url="http://127.0.0.1"):  # the background work of both
        yield make
    for client in opened:
        client.close()


def join(client: TestClient, project: Project, where: str, name: str, password: str, role: Role = Role.WORKER) -> Any:
    token = invite(project, name, role=role, vouched=True)[1]
    return client.post(f"/{where}/api/join", json={"token": token, "password": password})


def log_in(client: TestClient, where: str, name: str, password: str) -> Any:
    return client.post(f"/{where}/api/login", json={"name": name, "password": password})


def entered(client: TestClient) -> dict[str, bool]:
    listed = [each["url"].strip("/") for each in client.get("/dogs/api/session").json()["projects"] if each["is_in"]]
    return {name: name in listed for name in ("dogs", "cats")}


def test_strangers_are_not_told_the_projects_and_wait_after_wrong_passwords_for_any(
    new_client: NewClient, dogs: Project
) -> None:
    join(new_client(), dogs, "dogs", "Ann", PASSWORD)
    eve = new_client()
    for where in ("dogs", "cats"):
        assert eve.get(f"/{where}/api/session").json()["projects"] == []
    mounted: Any = eve.app
    first, second = (route.app.state.context for route in mounted.routes if route.path in ("/dogs", "/cats"))
    assert first.attempts is second.attempts
    for _ in range(30):  # a minute of delay
        first.delays.failed("testclient", "Ann")
    for where in ("dogs", "cats"):
        assert log_in(eve, where, "Ann", PASSWORD).status_code == 429


def test_one_log_in_enters_the_projects_that_know_the_password(
    new_client: NewClient, dogs: Project, cats: Project
) -> None:
    for name, password in (("Ann", PASSWORD), ("Bob", OTHER)):
        join(new_client(), cats, "cats", name, password)
    for name in ("Ann", "Bob", "Cy"):
        join(new_client(), dogs, "dogs", name, PASSWORD)
    ann, bob, cy = new_client(), new_client(), new_client()
    assert log_in(ann, "cats", "ann", PASSWORD).json()["user"]["name"] == "Ann"
    assert entered(ann) == {"dogs": True, "cats": True}
    found = log_in(bob, "cats", "Bob", PASSWORD).json()  # of the other project
    assert (found["user"], found["projects"]) == (None, [{"name": "project0", "url": "/dogs/", "is_in": True}])
    assert entered(bob) == {"dogs": True, "cats": False}
    assert log_in(cy, "cats", "Cy", OTHER).status_code == 401
    assert entered(cy) == {"dogs": False, "cats": False}
    for where, photos in (("dogs", 2), ("cats", 3)):
        assert ann.get(f"/{where}/api/me").json()["project"]["photos"] == photos
    assert ann.post("/dogs/api/logout", json={}).status_code == 200
    assert entered(ann) == {"dogs": False, "cats": False}


def test_a_project_and_a_copy_of_it_have_sessions_of_their_own(dogs: Project) -> None:
    read_secret(dogs)
    backup_project(dogs, dogs.folder.with_name("copy"))
    copy, policy = open_project(dogs.folder.with_name("copy")), WorkbenchPolicy()
    projects = {"dogs": dogs, "copy": copy}
    links = {name: f"http://127.0.0.1/{name}/" for name in projects}
    apps = {name: make_app(each, policy=policy, link=links[name], is_guarded=False) for name, each in projects.items()}
    with TestClient(join_apps(apps, policy), base_url="http://127.0.0.1") as ann:
        for name, project in projects.items():
            join(ann, project, name, "Ann", PASSWORD)
        assert [ann.get(f"/{name}/api/session").json()["user"]["name"] for name in projects] == ["Ann", "Ann"]
    copy.close()


def test_somebody_who_is_logged_in_joins_another_project_without_a_new_password(
    new_client: NewClient, dogs: Project, cats: Project
) -> None:
    ann, eve = new_client(), new_client()
    join(ann, dogs, "dogs", "Ann", PASSWORD)
    token = invite(cats, "ANN", vouched=True)[1]
    for client, known in ((eve, False), (ann, True)):
        assert client.post("/cats/api/invitation", json={"token": token}).json()["known"] is known
    assert eve.post("/cats/api/join", json={"token": token, "password": ""}).status_code == 400
    assert ann.post("/cats/api/join", json={"token": token, "password": ""}).status_code == 200
    assert entered(ann) == {"dogs": True, "cats": True}
    body = {"old": PASSWORD, "new": OTHER}
    assert ann.post("/cats/api/password", json=body).status_code == 200
    assert entered(ann) == {"dogs": True, "cats": True}
    other = new_client()
    assert log_in(other, "dogs", "Ann", PASSWORD).status_code == 401
    assert log_in(other, "dogs", "Ann", OTHER).status_code == 200
    assert entered(other) == {"dogs": True, "cats": True}


def test_rights_and_suspensions_are_those_of_each_project(new_client: NewClient, dogs: Project, cats: Project) -> None:
    ann = new_client()
    join(ann, dogs, "dogs", "Ann", PASSWORD, Role.OWNER)
    join(ann, cats, "cats", "Ann", PASSWORD)
    assert ann.get("/dogs/api/people").status_code == 200
    assert ann.get("/cats/api/people").status_code == 403
    suspend_worker(cats, "Ann")
    again = new_client()
    assert log_in(again, "cats", "Ann", PASSWORD).json()["user"] is None
    assert entered(again) == {"dogs": True, "cats": False}
    join(new_client(), dogs, "dogs", "Bob", PASSWORD, Role.OWNER)
    suspend_worker(dogs, "Ann")
    assert log_in(new_client(), "dogs", "Ann", PASSWORD).status_code == 403
    forget_worker(dogs, "Bob")


def test_addresses_of_projects_have_their_names(new_client: NewClient, dogs: Project, cats: Project) -> None:
    ann = new_client()
    assert ann.get("/", follow_redirects=False).headers["location"] == "/dogs/"
    join(ann, cats, "cats", "Ann", PASSWORD)
    assert ann.get("/", follow_redirects=False).headers["location"] == "/cats/"
    assert ann.get("/birds/api/session").status_code == 404
    for path in ("/dogs/", "/cats/external"):
        assert "content-security-policy" in ann.get(path).headers
    question = ann.post("/cats/api/next", json={}).json()["question"]
    assert question["photo"]["url"].startswith("/cats/api/photos/")
    owner = new_client()
    join(owner, cats, "cats", "Olga", PASSWORD, Role.OWNER)
    link = owner.post("/cats/api/people", json={"name": "Dee"}).json()["link"]
    assert link.startswith("http://127.0.0.1/cats/#/join/")
