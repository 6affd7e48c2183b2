"""People who work over HTTP, as many as a test wants: they know the truth, and tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from deixis.annotate.rehearsal import Truth
from deixis.annotate.walks import Answer, Task
from deixis.data.records import Photo

PASSWORD = "correct horse battery"

Asked = Mapping[str, Any]


class Truths:
    """What is true of photos that questions name by opaque ids; their captions give them away."""

    def __init__(self, photos: Iterable[Photo]) -> None:
        self._by_caption = {
            (number, caption.text): Truth(photo) for photo in photos for number, caption in enumerate(photo.sentences)
        }

    def of(self, question: Asked) -> Truth:
        """That of the photo of a question."""
        first = question["captions"][0]
        return self._by_caption[first["number"], "".join(part["text"] for part in first["parts"])]

    def answer(self, question: Asked) -> tuple[str, list[float] | None]:
        """What somebody says who knows: the answer, and the box where one is drawn."""
        asked = {**question, "mentions": [mention["id"] for mention in question["mentions"]]}
        truth = self.of(question)
        said = truth.answer(asked)
        if said is not Answer.DRAWN:
            return said.value, None
        return said.value, list(truth.missing(asked["mentions"][0], asked["boxes"])[0])


@dataclass
class Member:
    """Somebody with a session."""

    client: httpx.Client
    truths: Truths

    @classmethod
    def join(cls, address: str, link: str, truths: Truths) -> Member:
        """Take an invitation."""
        return cls._entered(address, "join", {"token": link.rpartition("/")[2]}, truths)

    @classmethod
    def login(cls, address: str, name: str, truths: Truths) -> Member:
        """Come again."""
        return cls._entered(address, "login", {"name": name}, truths)

    @classmethod
    def _entered(cls, address: str, how: str, who: Mapping[str, str], truths: Truths) -> Member:
        client = httpx.Client(base_url=address, timeout=30)
        said = _said(client.post(f"/api/{how}", json={**who, "password": PASSWORD}))
        client.headers["x-deixis-csrf"] = said["csrf"]
        return cls(client, truths)

    def next(self, *tasks: Task, besides: Sequence[str] = ()) -> Asked | None:
        """A question, of these tasks if any are named."""
        asked = {"besides": list(besides), "tasks": [task.value for task in tasks] or None}
        question: Asked | None = _said(self.client.post("/api/next", json=asked))["question"]
        return question

    def say(self, question: Asked, said: str, box: Sequence[float] | None = None, remark: str = "") -> None:
        """Answer a question."""
        sent = {"token": question["token"], "answer": said, "box": box, "seconds": 2.0, "remark": remark, "next": None}
        _said(self.client.post("/api/answer", json=sent))

    def work(self, *tasks: Task) -> bool:
        """Answer one question truly; whether there was one."""
        question = self.next(*tasks)
        if question is None:
            return False
        self.say(question, *self.truths.answer(question))
        return True


def work_all(crowd: Sequence[Member]) -> int:
    """Everybody works until nobody has anything to do; the number of answers."""
    done = 0
    while worked := sum(member.work() for member in crowd):
        done += worked
    return done


def _said(response: httpx.Response) -> dict[str, Any]:
    assert response.is_success, response.text
    said: dict[str, Any] = response.json()
    return said
