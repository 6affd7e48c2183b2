"""The gallery over HTTP."""

from __future__ import annotations

from deixis.annotate.people import Role
from tests.annotate.web.conftest import MakeBench

MENTION = "0:0-5"


def test_a_lead_filters_corrects_undoes_and_redoes(bench: MakeBench) -> None:
    site = bench(photos=2)
    ann, lead = site.person("ann"), site.person("olga", Role.REVIEWER)
    assert ann.get("gallery", 403)
    ann.answer("yes")
    found = lead.get("gallery?stage=open&limit=1")
    assert (found["total"], len(found["photos"])) == (2, 1)
    assert found["people"] == [{"worker": ann.worker, "name": "ann"}]
    assert lead.get(f"gallery?person={ann.worker}")["total"] == 1
    photo = found["photos"][0]
    assert photo["captions"][0]["parts"][0] == {"text": "A dog", "mention": MENTION}
    ann.answer("yes")
    address = f"gallery/{photo['photo']['id']}"
    seen = lead.get(address)["last_event"]
    body = {"action": "draw", "mention": MENTION, "box": [1, 1, 50, 50], "seen": seen}
    changed = lead.post(f"{address}/correct", **body)
    assert changed["chains"][0]["boxes"][0]["by"] == "olga"
    assert changed["chains"][0]["corrected_by"] == ["olga"]
    assert lead.post(f"{address}/correct", **body)["last_event"] == changed["last_event"]  # sent twice
    assert lead.post(f"{address}/undo")["chains"][0]["boxes"] == []
    assert lead.post(f"{address}/redo")["chains"] == changed["chains"]
    assert lead.get("gallery?changed=true")["total"] == 1
    assert lead.get("dashboard")["corrections"]["photos"] == 1


def test_workers_cannot_correct_and_impossible_requests_get_one_line(bench: MakeBench) -> None:
    site = bench()
    ann, lead = site.person("ann"), site.person("olga", Role.OWNER)
    photo = lead.get("gallery")["photos"][0]["photo"]["id"]
    body = {"action": "draw", "mention": MENTION, "box": [1, 1, 50, 50], "seen": 0}
    for path, said in (("correct", body), ("undo", {}), ("redo", {})):
        assert ann.post(f"gallery/{photo}/{path}", 403, **said)
    assert "still" in lead.post(f"gallery/{photo}/correct", 422, **body)["error"]
    assert "undo" in lead.post(f"gallery/{photo}/undo", 422)["error"]
    assert lead.get(f"gallery/p{'0' * 24}", 404)
