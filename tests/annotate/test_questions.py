"""Questions: what is shown, and what a page must not know."""

from __future__ import annotations

import json

from deixis.annotate.questions import Question
from deixis.annotate.walks import DrawnBox, Task

DRAWN = DrawnBox("b7", (1, 2, 3, 4), "w-secret")
NEW = DrawnBox("b9", (5, 6, 7, 8), "w-other")
QUALITY = Question("p", Task.QUALITY, ("0:0-5",), (DRAWN,), NEW, frozenset({"w-other"}))


def test_the_subject_names_all_that_is_shown() -> None:
    assert QUALITY.subject == "0:0-5 b7 ?b9"
    assert Question("p", Task.COVERAGE, ("0:0-5",), (DRAWN, NEW)).subject == "0:0-5 b7 b9"


def test_a_page_sees_boxes_but_not_whose_they_are() -> None:
    shown = json.dumps(QUALITY.as_json())
    assert json.loads(shown)["new_box"] == [5, 6, 7, 8]
    assert "w-secret" not in shown
    assert "w-other" not in shown
