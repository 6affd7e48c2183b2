"""What was annotated becomes data again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.annotate.exporting import PROVENANCE, export, exported
from deixis.annotate.material import material_of
from deixis.annotate.project import Project, add_photos
from deixis.annotate.rehearsal import Kind, Truth, rehearse
from deixis.annotate.settings import Settings
from deixis.annotate.store.folds import Folded
from deixis.annotate.walks import Answer
from deixis.data.dataset import Dataset
from deixis.data.importing import CaptionFile, import_dataset
from deixis.data.records import Photo
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import Told, gold, photo

PERFECT = Kind("perfect", errs=0.0, shake=0.0)


@pytest.fixture
def annotated(new_project: MakeProject) -> Project:
    """A project in which perfect workers have annotated two photos of people with a dog."""
    project, _ = new_project(0)
    photos = [gold("a"), gold("b")]
    add_photos(project, map(material_of, photos))
    rehearse(project, {each.id: Truth(each) for each in photos}, {PERFECT: 5})
    return project


def same(found: Photo, wanted: Photo) -> None:
    """The same mentions, chains and boxes, whatever the chains are called."""
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


def test_perfect_workers_give_the_gold_back_and_it_imports_again(annotated: Project, tmp_path: Path) -> None:
    assert export(annotated, "jsonl", tmp_path / "out") == (2, 0)
    import_dataset(tmp_path / "data", captions=[CaptionFile(tmp_path / "out" / "photos.jsonl")])
    for photo_ in Dataset(tmp_path / "data").photos:
        same(photo_, gold(photo_.id))


def test_the_entities_form_imports_again_too(annotated: Project, tmp_path: Path) -> None:
    export(annotated, "entities", tmp_path / "out")
    import_dataset(tmp_path / "data", entities=tmp_path / "out")
    for photo_ in Dataset(tmp_path / "data").photos:
        same(photo_, gold(photo_.id))


@pytest.mark.parametrize("form", ["coco", "odvg", "label-studio"])
def test_the_other_forms_are_written_whole(form: str, annotated: Project, tmp_path: Path) -> None:
    assert export(annotated, form, tmp_path / "out") == (2, 0)
    assert len(list((tmp_path / "out").glob("*.json*"))) >= 2


def test_every_chain_says_who_made_it(annotated: Project, tmp_path: Path) -> None:
    export(annotated, "jsonl", tmp_path / "out")
    records = [json.loads(line) for line in (tmp_path / "out" / PROVENANCE).read_text().splitlines()]
    assert {(each["photo"], each["chain"]) for each in records} == {(p, str(n)) for p in "ab" for n in range(1, 6)}
    for each in records:
        assert each["judgements"]
        assert each["judges"] >= 2
        assert each["state"] in ("complete", "not visual")
        assert bool(each["drawn"]) == (each["state"] == "complete")


def test_what_is_not_finished_is_left_out_or_marked(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(2)
    with pytest.raises(DeixisError, match="no photo is finished; --unfinished"):
        export(project, "jsonl", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export(project, "jsonl", tmp_path / "out", unfinished=True) == (2, 0)
    line = json.loads((tmp_path / "out" / "photos.jsonl").read_text().splitlines()[0])
    assert all(chain["annotated"] is False for chain in line["chains"])


def test_hostile_captions_come_out_as_they_went_in() -> None:
    text = "<script>A dog</script> \u202e& a cat\u202c 👩‍👩‍👧 &amp; ]]>"
    told = Told(material_of(photo(text)))
    made = exported(Folded(told.material, (), told.state), Settings())
    assert made.photo.captions[0].text == text


def test_chains_that_missed_a_link_meet_through_their_boxes() -> None:
    told = Told(material_of(photo("A dog runs.", "A puppy runs.")))
    told.say(Answer.NO)
    for _ in range(2):
        told.say(Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL)
    made = exported(Folded(told.material, tuple(told.events), told.state), Settings())
    assert (len(told.state.chains), len(made.photo.chains), len(made.photo.boxes)) == (2, 1, 1)
    assert made.provenance[0]["merged_from"] == 2
