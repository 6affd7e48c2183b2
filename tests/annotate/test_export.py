"""Merging boxes and chains, and exporting with provenance."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from simulated_crowd import Kind, Truth, simulate_crowd

from deixis import geometry
from deixis.annotate.events import ProposedBoxes
from deixis.annotate.export import (
    GUIDELINES_FILE,
    PICTURES,
    PROVENANCE_FILE,
    ChainBoxes,
    export_photo,
    export_project,
    merge_boxes,
    model_boxes,
)
from deixis.annotate.guidelines import Guideline, keep_default_guidelines, write_guideline
from deixis.annotate.help.proposals import add_proposals
from deixis.annotate.judgements import PhotoSnapshot
from deixis.annotate.material import prepare_photo
from deixis.annotate.project import Project, add_photos, make_project
from deixis.annotate.settings import Settings
from deixis.annotate.workflow import XYXY, Answer, Task
from deixis.data.dataset import Dataset
from deixis.data.imports import CaptionFile, import_dataset
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.pictures.grounded import draw_annotations
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import BOX, EventLog, answer, gold, people, photo, snapshot
from tests.annotate.test_chains import DOGS, HIM, ONE_MAN, SURE, log_with, proposed_boxes

PERFECT = Kind("perfect", error_rate=0.0, box_noise=0.0)


@pytest.fixture
def annotated(new_project: MakeProject) -> Project:
    """A project in which perfect workers have annotated two photos of people with a dog."""
    project, _ = new_project(0)
    photos = [gold("a"), gold("b")]
    add_photos(project, map(prepare_photo, photos))
    simulate_crowd(project, {each.id: Truth(each) for each in photos}, {PERFECT: 5})
    return project


def assert_same(found: Photo, wanted: Photo) -> None:
    """Compare mentions, chains and boxes; the names of chains may differ."""
    names = {
        mention.chain: wanted_mention.chain
        for caption, wanted_caption in zip(found.captions, wanted.captions, strict=True)
        for mention, wanted_mention in zip(caption.mentions, wanted_caption.mentions, strict=True)
    }
    assert len(names) == len(wanted.chains)
    assert {names[chain.id]: (chain.scene, chain.no_box) for chain in found.chains} == {
        chain.id: (chain.scene, chain.no_box) for chain in wanted.chains
    }
    boxes = {(box.xyxy, frozenset(names[chain] for chain in box.chains)) for box in found.boxes}
    assert boxes == {(box.xyxy, frozenset(box.chains)) for box in wanted.boxes}


def export_log(log: EventLog) -> tuple[Photo, list[dict[str, Any]]]:
    return export_photo(PhotoSnapshot(log.material, tuple(log.events), log.state), Settings())


def test_perfect_workers_reproduce_the_gold_and_exports_import_again(annotated: Project, tmp_path: Path) -> None:
    for form in ("jsonl", "entities"):
        assert export_project(annotated, form, tmp_path / form) == (2, 0)
    import_dataset(tmp_path / "data1", captions=[CaptionFile(tmp_path / "jsonl" / "photos.jsonl")])
    import_dataset(tmp_path / "data2", entities=tmp_path / "entities")
    for folder in (tmp_path / "data1", tmp_path / "data2"):
        for photo_ in Dataset(folder).photos:
            assert_same(photo_, gold(photo_.id))


@pytest.mark.parametrize("form", ["coco", "karpathy", "label-studio", "odvg", "parquet"])
def test_every_other_format_has_all_photos_and_their_provenance(form: str, annotated: Project, tmp_path: Path) -> None:
    assert export_project(annotated, form, tmp_path / "out") == (2, 0)
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert PROVENANCE_FILE in files
    assert len(files) >= 2


def test_provenance_names_the_workers_of_every_chain(annotated: Project, tmp_path: Path) -> None:
    export_project(annotated, "jsonl", tmp_path / "out")
    records = [json.loads(line) for line in (tmp_path / "out" / PROVENANCE_FILE).read_text().splitlines()]
    assert {(each["photo"], each["chain"]) for each in records} == {(p, str(n)) for p in "ab" for n in range(1, 6)}
    for each in records:
        assert each["judgements"]
        assert each["judges"] >= 2
        assert each["state"] in ("complete", "not visual")
        assert bool(each["drawn"]) == (each["state"] == "complete")


def test_unfinished_photos_are_left_out_or_marked(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(2)
    with pytest.raises(DeixisError, match="--unfinished"):
        export_project(project, "jsonl", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export_project(project, "jsonl", tmp_path / "out", unfinished=True) == (2, 0)
    line = json.loads((tmp_path / "out" / "photos.jsonl").read_text().splitlines()[0])
    assert all(chain["annotated"] is False for chain in line["chains"])


def test_hostile_captions_are_returned_unchanged() -> None:
    text = "<script>A dog</script> \u202e& a cat\u202c 👩‍👩‍👧 &amp; ]]>"
    made, _ = export_log(EventLog(prepare_photo(photo(text))))
    assert made.captions[0].text == text


def test_chains_without_a_link_are_merged_through_their_boxes() -> None:
    log = EventLog(prepare_photo(photo("A dog runs.", "A puppy runs.")))
    log.answer(Answer.NO)
    for _ in range(2):
        log.answer(Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL)
    made, provenance = export_log(log)
    assert (len(log.state.chains), len(made.chains), len(made.boxes)) == (2, 1, 1)
    assert provenance[0]["merged_from"] == 2


HIGH: XYXY = (0, 0, 100, 100)
ALMOST: XYXY = (0, 0, 100, 85)
"""An IoU of 0.85 with `HIGH`."""


@pytest.mark.parametrize(
    ("boxes", "merged_into"),
    [
        ((("people", HIGH), ("people", ALMOST)), "11"),
        ((("other", HIGH), ("animals", ALMOST)), "12"),
        ((("other", HIGH), ("other", (0, 0, 100, 91))), "11"),
        ((("people", HIGH), ("clothing", HIGH)), "12"),
        ((("people", HIGH), ("bodyparts", HIGH), ("clothing", HIGH)), "113"),
    ],
)
def test_chains_are_merged_by_the_iou_that_their_types_require(
    boxes: tuple[tuple[str, XYXY], ...], merged_into: str
) -> None:
    chains = [ChainBoxes(str(n), (kind,), (box,)) for n, (kind, box) in enumerate(boxes, start=1)]
    assert "".join(merge_boxes(chains, Settings())[1].values()) == merged_into


def test_a_merged_box_is_the_mean_of_the_drawn_ones() -> None:
    chains = [ChainBoxes("1", ("people",), (HIGH,)), ChainBoxes("2", ("people",), (ALMOST,))]
    merged, _ = merge_boxes(chains, Settings())
    assert [(box.xyxy, box.chains, len(box.drawn)) for box in merged] == [((0, 0, 100, 92.5), ("1",), 2)]


def test_chains_that_share_only_some_boxes_stay_apart_and_share_them() -> None:
    couple = ChainBoxes("1", ("people",), ((0, 0, 50, 100), (60, 0, 100, 100)))
    bride = ChainBoxes("2", ("people",), ((0, 0, 50, 98),))
    merged, merged_into = merge_boxes([couple, bride], Settings())
    assert merged_into == {"1": "1", "2": "2"}
    assert sorted(box.chains for box in merged) == [("1",), ("1", "2")]


def test_chains_without_boxes_are_not_merged() -> None:
    chains = [ChainBoxes("1", ("scene",), ()), ChainBoxes("2", ("scene",), ())]
    assert merge_boxes(chains, Settings()) == ([], {"1": "1", "2": "2"})


sides = st.integers(0, 40)
boxes = st.tuples(sides, sides, st.integers(50, 90), st.integers(50, 90))
kinds = st.sampled_from(["people", "clothing", "other", "animals"])
chains = st.lists(st.tuples(kinds, st.lists(boxes, max_size=3)), max_size=5)


@given(chains)
def test_merging_is_complete_and_loses_nothing(drawn: list[tuple[str, list[XYXY]]]) -> None:
    before = [ChainBoxes(str(n), (kind,), tuple(found)) for n, (kind, found) in enumerate(drawn)]
    merged, merged_into = merge_boxes(before, Settings())
    assert sum(len(box.drawn) for box in merged) == sum(len(chain.boxes) for chain in before)
    assert all(merged_into[target] == target for target in merged_into.values())
    for chain in before:
        target = merged_into[chain.name]
        assert any(target in box.chains for box in merged) == bool(chain.boxes)
    types = {chain.name: chain.types[0] for chain in before}
    for one, other in combinations(merged, 2):
        names = {name for name, target in merged_into.items() if target in one.chains + other.chains}
        apart = {"people", "clothing"} <= {types[name] for name in names}
        assert apart or float(geometry.iou([one.xyxy], [other.xyxy])[0, 0]) < Settings().merge_iou_other


YES, NO = Answer.YES, Answer.NO


def provenance(log: EventLog) -> list[dict[str, Any]]:
    return export_log(log)[1]


def test_provenance_without_proposals_does_not_mention_them() -> None:
    log = EventLog(DOGS)
    log.answer(YES, YES)
    assert "proposed" not in provenance(log)[0]


def test_accepted_links_are_attributed_to_the_model_which_is_not_a_judge() -> None:
    log = log_with(DOGS, SURE)
    log.answer(YES)
    (chain,) = provenance(log)
    about = {"model": "coreference", "fingerprint": "f", "event": 1}
    counts = {"joined_by_model": 2, "kept_apart_by_model": 0, "joined_by_people": 0, "refused_by": []}
    assert chain["proposed"] == {"links": about | counts}
    assert chain["judges"] == 1
    assert [each["at"] for each in chain["judgements"]] == ["verify"]


def test_rejected_links_are_attributed_to_workers_with_the_rejection() -> None:
    log = log_with(DOGS, SURE)
    log.answer(NO, YES, YES, YES)
    (chain,) = provenance(log)
    links = chain["proposed"]["links"]
    assert (links["joined_by_model"], links["joined_by_people"], links["refused_by"]) == (0, 2, [2])


def test_boxes_are_attributed_with_the_verdict_of_workers() -> None:
    log = log_with(ONE_MAN, proposed_boxes({HIM: [[10, 10, 50, 60, 0.8], [60, 10, 90, 60, 0.7], [0, 0, 9, 9, 0.6]]}))
    log.answer(Answer.BAD, Answer.GOOD, Answer.ALL, Answer.ALL)
    (chain,) = provenance(log)
    found = chain["proposed"]["boxes"]
    assert [(each["said"], each["probability"]) for each in found["judged"]] == [("bad", 0.8), ("good", 0.7)]
    assert found["not_shown"] == 1
    assert chain["drawn"] == [{"box": [60, 10, 90, 60], "worker": "m", "proposed_by": "grounder"}]


def test_pictures_show_which_boxes_are_a_models(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    Image.new("RGB", (100, 80), "white").save(tmp_path / "images" / "dog.png")
    settings = Settings(history_items=0, history_accuracy=0.0, first_items=0, independent=False, judgements_to_end=1)
    project = make_project(tmp_path / "project", images=tmp_path / "images", settings=settings)
    add_photos(project, [prepare_photo(replace(photo("A man smiles.", name="7"), file="dog.png"))])
    body = {"model": "grounder", "fingerprint": "0" * 12, "boxes": {"0:0-5": [[*BOX, 0.8]]}, "show_from": 0.0}
    assert add_proposals(project, "7", {ProposedBoxes.kind: body})
    [ann] = people(project, "ann")
    answer(project, ann, Answer.GOOD)
    answer(project, ann, Answer.ALL)
    assert model_boxes(snapshot(project, "7"), settings) == {BOX}
    export_project(project, "entities", tmp_path / "out", pictures=True)
    exported = export_photo(snapshot(project, "7"), settings)[0]
    [drawn] = (tmp_path / "out" / PICTURES).iterdir()
    with Image.open(drawn) as found, Image.open(tmp_path / "images" / "dog.png") as image:
        dotted, solid = draw_annotations(exported, image, {BOX}), draw_annotations(exported, image)
        distance = [np.abs(np.asarray(found, int) - np.asarray(each, int)).mean() for each in (dotted, solid)]
    assert distance[0] < distance[1]  # up to the compression
    project.close()


def test_an_export_has_the_texts_of_the_guidelines_that_judgements_name(annotated: Project, tmp_path: Path) -> None:
    keep_default_guidelines(annotated)
    write_guideline(annotated, Task.PAIR, Guideline("mine"))
    export_project(annotated, "jsonl", tmp_path / "out")
    lines = list(map(json.loads, (tmp_path / "out" / GUIDELINES_FILE).read_text(encoding="utf-8").splitlines()))
    assert {line["task"] for line in lines} == {task.value for task in Task}
    assert [line["version"] for line in lines if line["task"] == "pair"] == [0, 1]
    assert [line["text"] for line in lines if line["task"] == "pair"][-1] == "mine"
