"""The walks of ``docs/architecture.md``: the modules that a reader opens to follow a command or a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deixis.cli.main import _run
from tests.annotate.conftest import MakeBench, bench, made_projects, new_project  # noqa: F401 - fixtures
from tests.tracing import Calls, trace_command, tracing

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
SAMPLES = Path(__file__).parents[1] / "src" / "deixis" / "data" / "samples"
OWN = ("deixis.cli.", "deixis.search.")


def listed(walk: str) -> list[str]:
    """Return the modules of a walk, in the order of the page."""
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition(f"### {walk}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    return [f"deixis.{name}" for name in re.findall(r"^\d+\. `([\w.]+)`", section, re.MULTILINE)]


def taking_part(calls: Calls, own: tuple[str, ...] = OWN) -> set[str]:
    """Return the own modules that were called, and those that they call directly, except arrays and errors."""
    called_by_own = {called for caller, called in calls if called.startswith(own) or caller.startswith(own)}
    return called_by_own - {"deixis.arrays", "deixis.errors"}


def executed(calls: Calls) -> set[str]:
    """Return all modules that were called, except lazy imports and messages."""
    return {called for _, called in calls} - {"deixis.exports", "deixis.errors"}


def test_a_search_passes_the_modules_of_the_page_and_no_others(sample_index: Path) -> None:
    calls, loaded = trace_command("search", "two dogs", "--index", sample_index, open_functions=["open_index"])
    walk = listed("Search")
    assert taking_part(calls) == set(walk)
    assert len(walk) <= 24
    assert len(executed(calls)) <= 40
    assert not [name for name in loaded if name.startswith("deixis.evaluation.captions")]


def test_few_modules_take_part_in_indexing_and_in_grounding(tmp_path: Path) -> None:
    photo = SAMPLES / "images" / "astronaut.jpg"
    calls, _ = trace_command("index", photo, "--into", tmp_path / "index", open_functions=["encoder_to_fill"])
    assert len(executed(calls)) <= 45
    opening = ["load", "open", "_open", "proposer", "image_encoder", "_calibrated_presence"]
    calls, _ = trace_command("ground", photo, "an astronaut", open_functions=opening)
    assert len(executed(calls)) <= 30


def test_a_caption_passes_the_modules_of_the_page_and_no_others() -> None:
    opening = ["load_captioner", "open", "_open", "image_encoder"]
    calls, loaded = trace_command("caption", SAMPLES / "images" / "cat.jpg", open_functions=opening)
    walk = listed("Caption")
    assert taking_part(calls, ("deixis.cli.", "deixis.models.captioner.", "deixis.models.m_rnn.")) == set(walk)
    assert len(walk) <= 24
    assert len(executed(calls)) <= 30
    assert not [name for name in loaded if name.endswith(("fisher", "consensus", "reranking", "meteor"))]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    """The calls of a training in a folder with its data set and its model, which becomes the working directory."""
    folder = tmp_path_factory.mktemp("walk")
    entities = SAMPLES / "entities"
    splits = [f"--split={name}={entities / f'{file}.txt'}" for name, file in (("train", "train"), ("dev", "val"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run("data", "import", "--images", SAMPLES / "images", "--entities", entities, *splits, "--out", "data")
        with tracing() as calls:
            run("train", "cca", "--data", "data", "--set", "embedding_dim=2", "--json")
        yield calls


def run(*arguments: object) -> None:
    assert _run([str(argument) for argument in arguments]) == 0


def test_a_training_passes_the_modules_of_the_page(trained: Calls) -> None:
    assert set(listed("Training")) <= {called for _, called in trained}


@pytest.mark.usefixtures("trained")
def test_an_evaluation_passes_the_modules_of_the_page() -> None:
    with tracing() as calls:
        run("evaluate", "retrieval", "--model", "cca.model", "--data", "data", "--split", "dev")
    assert set(listed("Evaluation")) <= {called for _, called in calls}


def test_a_judgement_passes_the_modules_of_the_page(bench: MakeBench) -> None:  # noqa: F811
    with tracing() as calls:
        ann = bench().person("Ann")
        question = ann.next()
        calls.clear()
        ann.post("answer", token=question["token"], answer="yes", next={"besides": []})
    assert set(listed("A judgement")) <= {name for call in calls for name in call}
