"""Routes of reviewers and owners: review, gallery, people, guidelines, phrases and pay."""

from __future__ import annotations

from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role
from deixis.annotate.project import add_photos
from tests.annotate.conftest import MakeBench
from tests.annotate.fakes import photo


def test_owners_invite_vouch_promote_and_forget(bench: MakeBench) -> None:
    opened = bench()
    eve = opened.person("Eve", Role.OWNER)
    invited = eve.post("people", name="Ann", vouched=True)
    token = invited["link"].rpartition("/")[2]
    assert invited["link"].startswith("http://127.0.0.1/#/join/")
    assert opened.client.post("/api/invitation", json={"token": token}).json()["name"] == "Ann"
    eve.post("people", 409, name="Ann")
    again = eve.post(f"people/{invited['worker']}/invitation")["link"]
    assert opened.client.post("/api/invitation", json={"token": token}).status_code == 404
    assert opened.client.post("/api/invitation", json={"token": again.rpartition("/")[2]}).status_code == 200
    assert eve.post(f"people/{invited['worker']}", role="reviewer")["role"] == "reviewer"
    eve.post(f"people/{eve.worker}", 400, role="worker")
    assert eve.client.delete(f"/api/people/{invited['worker']}").json() == {}
    names = {each["worker"]: each["name"] for each in eve.get("people")["people"]}
    assert names == {eve.worker: "Eve", invited["worker"]: None}
    assert eve.post("people/w000000000000/invitation", 404)


def test_a_new_role_is_effective_at_once(bench: MakeBench) -> None:
    opened = bench()
    eve, ann = opened.person("Eve", Role.OWNER), opened.person("Ann", Role.REVIEWER)
    assert ann.get("review")
    eve.post(f"people/{ann.worker}", role="worker")
    ann.get("review", 403)


def test_guidelines_have_defaults_that_the_owner_can_edit(bench: MakeBench) -> None:
    opened = bench()
    eve, ann = opened.person("Eve", Role.OWNER), opened.person("Ann")
    assert len(ann.get("guidelines")["tasks"]) == 6
    text = "Look <b>twice</b>.\n\n- 🐕 شكرا"
    example = {"shown": "two dogs", "answer": "no", "why": "they are two"}
    eve.put("guidelines/link", text=text, examples=[example])
    assert ann.get("guidelines")["tasks"]["link"] == {"text": text, "examples": [example], "version": 1}
    assert ann.next()["guideline"] == 1
    eve.put("guidelines/link", 422, text="", examples=[{**example, "answer": "box"}])
    assert eve.put("guidelines/link", 422, text="x" * 10_001)
    assert eve.put("guidelines/nothing", 422, text="x")


def test_owners_edit_phrases_before_and_after_the_first_judgement(bench: MakeBench) -> None:
    opened = bench(photos=0)
    add_photos(opened.project, [prepare_photo(photo("A dog in the snow.", "The dog jumps."))])
    eve, ann = opened.person("Eve", Role.OWNER), opened.person("Ann")
    name = eve.get("photos")["photos"][0]["photo"]["id"]
    before = eve.get(f"photos/{name}/phrases")
    assert before["begun"] is False
    phrases = [{"id": "0:2-5", "types": ["animals"]}, {"id": "1:0-7", "types": []}]
    after = eve.put(f"photos/{name}/phrases", phrases=phrases)
    assert [phrase["text"] for phrase in after["phrases"]] == ["dog", "The dog"]
    assert after["captions"][0]["parts"][1] == {"text": "dog", "mention": "0:2-5"}
    question = ann.next()
    assert [mention["id"] for mention in question["mentions"]] == ["0:2-5", "1:0-7"]
    ann.post("answer", token=question["token"], answer="yes")
    changed = eve.put(f"photos/{name}/phrases", phrases=[*phrases[:1], {"id": "0:9-17", "types": ["scene"]}])
    assert [phrase["text"] for phrase in changed["phrases"]] == ["dog", "the snow"]
    assert changed["begun"] is True
    eve.put(f"photos/{name}/phrases", 422, phrases=[{"id": "0:2-5"}, {"id": "0:4-9"}])
    eve.put(f"photos/{name}/phrases", 400, phrases=[{"id": "0:2-500"}])
    assert [phrase["id"] for phrase in eve.get(f"photos/{name}/phrases")["phrases"]] == ["0:2-5", "0:9-17"]


def test_hours_and_pay_are_a_csv_table(bench: MakeBench) -> None:
    opened = bench(pay_per_hour=36.0)
    opened.person("Ann").answer("yes")
    answer = opened.person("Eve", Role.OWNER).client.get("/api/pay.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    assert ",Ann,1,0.0006,0.02," in answer.text


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
