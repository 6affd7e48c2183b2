"""Routes of reviewers: history, decisions and reinstatement."""

from __future__ import annotations

import pytest

from deixis.annotate.people import Role
from tests.annotate.web.conftest import MakeBench

pytestmark = pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)


def test_a_reviewer_reads_the_history_of_a_chain_and_decides(bench: MakeBench) -> None:
    opened = bench()
    ann, rob = opened.person("Ann"), opened.person("Rob", Role.REVIEWER)
    question = ann.next()
    ann.post("answer", token=question["token"], answer="no", remark="hard to see")
    name = question["photo"]["id"]
    history = rob.get(f"review/photos/{name}")
    assert [chain["phrases"] for chain in history["chains"]] == [["A dog"], ["The dog"]]
    assert history["remarks"][0] == {"event": 1, "who": "Ann", "text": "hard to see", "seen": False}
    rob.post("review/decide", photo=name, mention="0:0-5", decision="scene")
    chain = rob.get(f"review/photos/{name}")["chains"][0]
    assert (chain["place"], chain["told"][-1]["said"]) == ("not visual", "review: scene")
    assert rob.get(f"review/photos/{name}?until=1")["chains"][0]["place"] == "requirement"
    rob.post("review/decide", 422, photo=name, mention="0:0-5", decision="maybe")
    assert rob.post("review/decide", 404, photo="p" + "0" * 24, mention="0:0-5", decision="box")
    assert ann.post("review/decide", 403, photo=name, mention="0:0-5", decision="box")
    assert rob.post("review/reinstate", worker=ann.worker, task="link")["level"] == "trusted"
