"""Questions as pages show them: captions cut into parts, so that no page has to count characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deixis.annotate.assigning import Given
from deixis.annotate.material import place_of
from deixis.annotate.workflow import answers_to
from deixis.server.annotate.photos import Sight


def photo_shown(sight: Sight, key: str | None = None) -> dict[str, Any]:
    """A photo; `key` goes into its address where browsers send no cookie."""
    url = f"/api/photos/{sight.id}/image" + (f"?key={key}" if key else "")
    return {"id": sight.id, "width": sight.width, "height": sight.height, "url": url}


def parts_of(text: str, spans: Iterable[tuple[int, int, str]]) -> list[dict[str, str | None]]:
    """A caption cut where mentions begin and end.

    Examples
    --------
    >>> parts_of("A dog runs.", [(0, 5, "0:0-5")])
    [{'text': 'A dog', 'mention': '0:0-5'}, {'text': ' runs.', 'mention': None}]
    """
    parts: list[dict[str, str | None]] = []
    at = 0
    for start, end, mention in sorted(spans):
        if start < at:  # what overlaps cannot be shown twice
            continue
        if start > at:
            parts.append({"text": text[at:start], "mention": None})
        parts.append({"text": text[start:end], "mention": mention})
        at = end
    if at < len(text):
        parts.append({"text": text[at:], "mention": None})
    return parts


def captions_shown(captions: Iterable[tuple[int, str]], mentions: Iterable[str]) -> list[dict[str, Any]]:
    """Captions by number, with these mentions marked."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for mention in mentions:
        caption, start, end = place_of(mention)
        spans.setdefault(caption, []).append((start, end, mention))
    return [{"number": number, "parts": parts_of(text, spans.get(number, []))} for number, text in captions]


def question_shown(given: Given, sight: Sight, key: str | None = None) -> dict[str, Any]:
    """A question with all that a page needs for it."""
    asked = given.asked
    mentions = []
    for mention in asked["mentions"]:
        caption, start, end = place_of(mention)
        mentions.append({"id": mention, "text": sight.captions[caption][start:end], "caption": caption})
    numbers = sorted({mention["caption"] for mention in mentions})
    return {
        "token": given.token,
        "task": given.task.value,
        "test": given.test,
        "until": given.until,
        "photo": photo_shown(sight, key),
        "captions": captions_shown([(number, sight.captions[number]) for number in numbers], asked["mentions"]),
        "mentions": mentions,
        "boxes": asked["boxes"],
        "new_box": asked["new_box"],
        "answers": [answer.value for answer in answers_to(given.task)],
        "proposal": asked.get("proposal"),
    }
