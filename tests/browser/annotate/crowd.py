"""Workers over HTTP who know the correct answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from simulated_crowd import Truth

from deixis.annotate.workflow import Answer, Task
from deixis.data.records import Photo

PASSWORD = "correct horse battery"

Question = Mapping[str, Any]


class Truths:
    """Correct answers; the photo of a question, which has an opaque id, is identified by its captions."""

    def __init__(self, photos: Iterable[Photo]) -> None:
        self._by_caption = {
            (number, caption.text): Truth(photo) for photo in photos for number, caption in enumerate(photo.sentences)
        }

    def of(self, question: Question) -> Truth:
        """Return the truth about the photo of a question."""
        first = question["captions"][0]
        return self._by_caption[first["number"], "".join(part["text"] for part in first["parts"])]

    def answer(self, question: Question) -> tuple[str, list[float] | None]:
        """Return the correct answer, and the box if one must be drawn."""
        content = {**question, "mentions": [mention["id"] for mention in question["mentions"]]}
        truth = self.of(question)
        answer = truth.answer(content)
        if answer is not Answer.DRAWN:
            return answer.value, None
        return answer.value, list(truth.missing(content["mentions"][0], content["boxes"])[0])


@dataclass
class Member:
    """A member with a session."""

    client: httpx.Client
    truths: Truths

    @classmethod
    def join(cls, address: str, link: str, truths: Truths) -> Member:
        """Accept an invitation."""
        return cls._enter(address, "join", {"token": link.rpartition("/")[2]}, truths)

    @classmethod
    def login(cls, address: str, name: str, truths: Truths) -> Member:
        """Sign in again."""
        return cls._enter(address, "login", {"name": name}, truths)

    @classmethod
    def _enter(cls, address: str, how: str, who: Mapping[str, str], truths: Truths) -> Member:
        client = httpx.Client(base_url=address, timeout=30)
        _checked_json(client.post(f"/api/{how}", json={**who, "password": PASSWORD}))
        return cls(client, truths)

    def next(self, *tasks: Task, besides: Sequence[str] = ()) -> Question | None:
        """Fetch a question, of these tasks if any are named."""
        body = {"besides": list(besides), "tasks": [task.value for task in tasks] or None}
        question: Question | None = _checked_json(self.client.post("/api/next", json=body))["question"]
        return question

    def ask(self, *tasks: Task) -> Question:
        """Fetch a question, which must be there."""
        question = self.next(*tasks)
        assert question is not None
        return question

    def answer(self, said: str, box: Sequence[float] | None = None, remark: str = "") -> None:
        """Fetch a question and answer it."""
        self.send(self.ask(), said, box, remark)

    def send(self, question: Question, answer: str, box: Sequence[float] | None = None, remark: str = "") -> None:
        """Send an answer."""
        body = {
            "token": question["token"],
            "answer": answer,
            "box": box,
            "seconds": 2.0,
            "remark": remark,
            "next": None,
        }
        _checked_json(self.client.post("/api/answer", json=body))

    def skip(self, question: Question) -> None:
        """Skip a question."""
        body = {"token": question["token"], "bad_phrase": None, "seconds": 2.0, "remark": "", "next": None}
        _checked_json(self.client.post("/api/skip", json=body))

    def work(self, *tasks: Task) -> bool:
        """Answer one question correctly; return whether there was one."""
        question = self.next(*tasks)
        if question is None:
            return False
        self.send(question, *self.truths.answer(question))
        return True


def work_all(crowd: Sequence[Member]) -> int:
    """Let all members answer until there are no more questions; return the number of answers."""
    done = 0
    while worked := sum(member.work() for member in crowd):
        done += worked
    return done


def _checked_json(response: httpx.Response) -> dict[str, Any]:
    assert response.is_success, response.text
    content: dict[str, Any] = response.json()
    return content
