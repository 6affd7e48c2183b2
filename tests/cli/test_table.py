"""`deixis table`: published and computed figures, claims, JSON and errors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.papers.tables import published_tables
from deixis.vision import proposals
from tests.cli.conftest import Command
from tests.models.quarters import make_quarters, use_small_encoders
from tests.test_architecture import HEAVY, modules_after
from tests.vision.feature_store.small import Corners

TABLES = published_tables()

SMALL = [word for change in ("embedding_dim=2", "regularization=0.01", "max_proposals=4") for word in ("--set", change)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eighteen small photos with boxes, and an encoder that needs no weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    use_small_encoders(monkeypatch)
    make_quarters(tmp_path, 18)
    return Path("data")


@pytest.mark.parametrize("name", TABLES)
def test_published_figures_need_no_data_and_fit_a_page(name: str, command: Command) -> None:
    out, err = command("table", name)
    assert err == ""
    assert TABLES[name].title in out
    assert TABLES[name].rows[-1].label in out
    drawn = out[: out.index("\npaper: ")]
    assert max(map(len, drawn.splitlines())) <= 120


def test_our_figures_are_printed_below_those_of_the_paper(data: Path, command: Command) -> None:
    out, err = command("table", "entities-3", "--data", data, "--rows", "m-rnn,cca", *SMALL)
    assert err.splitlines()[0] == "entities-3: cca …"
    lines = out.splitlines()
    index = next(number for number, line in enumerate(lines) if line.startswith("CCA (the paper: GMM FV)"))
    assert lines[index].split()[-6:] == ["32.2", "59.7", "68.5", "23.8", "51.5", "64.4"]
    assert lines[index + 1].split()[0] == "ours"
    assert lines[index + 1].count("±") == 6
    assert "What the paper claims" not in out, "a claim needs two rows"
    assert max(map(len, lines[: lines.index("")])) <= 120


def test_the_footer_names_data_models_and_the_command(data: Path, command: Command) -> None:
    out, _ = command("table", "entities-4", "--data", data, "--rows", "overall,people", *SMALL)
    for words in (
        "paper: Plummer et al., Flickr30k Entities (ICCV 2015), Table 4, on Flickr30k",
        "ours: data (none of the papers’ data sets; sha256:",
        "scored on dev: 6 photos, sha256:",
        "encoder: colours (colours-1); text: tfidf; proposals: corners, 4 a photo",
        "no figures of ours for people: not in this data",
        "deixis table entities-4 --data data --seeds 3 --set embedding_dim=2 --set regularization=0.01 "
        "--set max_proposals=4 --rows overall,people",
    ):
        assert words in out, words


def test_claims_are_tested_if_both_rows_were_computed(data: Path, command: Command) -> None:
    out, _ = command("table", "entities-3", "--data", data, "--rows", "cca,augmented-10", *SMALL)
    [first, second] = [line for line in out.splitlines() if line.startswith("they are still far below")]
    assert "i2t_r1" in first
    assert "t2i_r1" in second
    assert first.rstrip().endswith("no verdict"), "there are six photos"


def test_a_finished_table_is_not_computed_again(data: Path, command: Command) -> None:
    arguments = ("table", "entities-3", "--data", data, "--rows", "cca", "--runs", "elsewhere", *SMALL)
    first, second = command(*arguments), command(*arguments)
    assert second[0] == first[0]
    assert first[1] != ""
    assert second[1] == ""
    assert Path("elsewhere/scores").is_dir()
    assert not (data / "experiments").exists()


def test_json_is_one_document(data: Path, command: Command) -> None:
    document = command.json("table", "entities-3", "--data", data, "--rows", "brnn,cca,chunks,chunks-10", *SMALL)
    assert (document["table"], document["split"], document["seeds"]) == ("entities-3", "dev", 1)
    others, ours, *_ = document["rows"]
    assert others["ours"] is None
    assert others["why_not"] == "another group's system, figures as published"
    assert ours["published"]["i2t_r1"] == 32.2
    assert 0 <= ours["interval"]["t2i_r5"][0] <= ours["ours"]["t2i_r5"] <= ours["interval"]["t2i_r5"][1] <= 100
    assert ours["by_seed"]["t2i_r5"] == [ours["ours"]["t2i_r5"]]
    assert {claim["better"] for claim in document["claims"]} == {"chunks-10"}
    assert document["command"].startswith("deixis table entities-3 --data data")


def test_inputs_like_the_papers_stand_beside_ours(
    data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, None] = {}

    def open_proposer(name: str, encoder: str | None = None) -> Corners:
        opened[name] = None
        found = Corners(f"{name}-1")
        found.name = name
        return found

    monkeypatch.setattr(proposals, "open_proposer", open_proposer)
    arguments = ("table", "entities-3", "--data", data, "--rows", "cca,chunks", "--set", "text_dim=5", *SMALL)
    both = command.json(*arguments, "--inputs", "both")
    assert set(opened) == {"edge-boxes-dense", "head"}
    ours, recipe = both["about"], both["recipe"]["about"]
    assert (ours["text"], recipe["text"]) == (["tfidf"], ["hglmm"])
    assert {path.name for path in (data / "features").glob("text-*")} == {"text-tfidf", "text-hglmm,dim=5"}
    for row in both["rows"]:
        assert row["ours"] is not None
        assert row["recipe"]["interval"].keys() == row["ours"].keys()
    assert both["recipe"]["claims"] == [], "whole photos are compared with N = 10 only"
    out, err = command(*arguments, "--inputs", "both")
    assert err == ""
    assert [line.split()[0] for line in out.splitlines() if "±" in line and "half" not in line] == [
        "recipe",
        "ours",
    ] * 2
    alone = command.json(*arguments, "--inputs", "paper")
    assert [row["recipe"] for row in alone["rows"]] == [row["recipe"] for row in both["rows"]]
    assert {row["ours"] is None for row in alone["rows"]} == {True}


def test_saved_scores_are_printed_without_computing(data: Path, command: Command) -> None:
    arguments = ("table", "entities-3", "--data", data, "--rows", "cca,chunks", *SMALL)
    nothing = command.json(*arguments, "--saved")
    assert [row["ours"] for row in nothing["rows"]] == [None, None]
    assert not (data / "experiments").exists()
    computed = command.json("table", "entities-3", "--data", data, "--rows", "chunks", *SMALL)
    out, err = command(*arguments, "--saved")
    assert err == ""
    assert "no figures of ours for cca: not in this data, or not computed" in out
    saved = command.json(*arguments, "--saved")
    assert [row["ours"] for row in saved["rows"]] == [None, computed["rows"][0]["ours"]]


def test_lost_figures_are_marked_and_absent_ones_are_empty(command: Command) -> None:
    document = command.json("table", "two-branch-1")
    assert "claims" not in document
    assert document["rows"][0] == {
        "key": "cca",
        "label": "CCA",
        "part": "(a) State of the art",
        "published": {"r1": None, "r5": 64.52, "r10": 70.77, "upper_bound": 84.58},
        "lost": ["r1"],
        "ours": None,
        "why_not": None,
    }
    lines = [line.split() for line in command("table", "two-branch-1", "--rows", "cca,structmatch")[0].splitlines()]
    assert ["CCA", "paper", "?", "64.52", "70.77", "84.58"] in lines
    assert ["StructMatch", "paper", "42.08"] in lines


SMALL_CAPTIONER = [
    *("epochs=2", "batch_size=16", "learning_rate=0.02", "min_count=2", "device=cpu", "threads=1"),
    *("first_embedding_dim=8", "second_embedding_dim=12", "multimodal_dim=16", "lr_schedule=cosine"),
]


def test_captioners_are_trained_and_scored_row_by_row(data: Path, command: Command) -> None:
    changes = [word for change in SMALL_CAPTIONER for word in ("--set", change)]
    out, err = command("table", "m-rnn-9", "--data", data, "--rows", "m-rnn,no-emb-input", "--seeds", 2, *changes)
    assert [line for line in err.splitlines() if line.startswith("m-rnn-9")] == [
        f"m-rnn-9: {key}, seed {seed} of 2, chosen on the {half} half …"
        for key in ("m-rnn", "no-emb-input")
        for seed in (1, 2)
        for half in ("first", "second")
    ]
    assert "chosen on one half of dev" in out.splitlines()[1]
    [kept] = [line for line in out.splitlines() if line.startswith("chosen for each seed")]
    assert re.search(r"no-emb-input epoch [12] \(\d+ steps\) / epoch [12] \(\d+ steps\), epoch [12]", kept)
    lines = out.splitlines()
    index = next(number for number, line in enumerate(lines) if line.startswith("NoEmbInput"))
    assert lines[index].split()[-4:] == ["59.2", "40.8", "27.7", "18.8"]
    assert lines[index + 1].count("±") == 4
    [claim] = [line for line in lines if line.startswith("m-RNN performs best: over NoEmbInput")]
    assert len(claim.split("–")[1].split()) >= 3, "the upper bound, and a difference for each seed"
    assert "known, 0.0 % of those scored unknown" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("entity-3", "--data", "data"), "'entities-3'"),
        (("entities-3", "--data", "data", "--rows", "x"), "'x'; it has: brnn, mnlm"),
        (("entities-3", "--data", "elsewhere"), "elsewhere"),
        (("m-rnn-3", "--data", "data"), "table m-rnn-3 is of Flickr8k"),
        (("entities-3", "--data", "data", "--split", "test"), "'test'"),
        (("entities-3", "--data", "data", "--set", "componentz=3"), "componentz"),
        (("entities-1", "--data", "data", "--set", "embedding_dim=3"), "entities-1"),
        (("entities-3", "--data", "data", "--rows", "cca", "--set", "train_on=phrases"), "train_on defines the row"),
        (("m-rnn-9", "--data", "data", "--set", "image_input=nowhere"), "image_input defines the row m-rnn"),
        (("two-branch-2", "--data", "data", "--set", "loss=softmax"), "loss defines the row linear-one-way"),
        (("entities-3", "--data", "data", "--set", "seed=3"), "--set seed=3: a table sets it itself"),
        (("two-branch-1", "--data", "data", "--rows", "constraints", "--set", "epochs=2"), "epochs=2"),
        (("entities-1", "--data", "data", "--inputs", "both"), "--inputs both: table entities-1"),
        (
            ("m-rnn-9", "--data", "data", "--rows", "vis-in-rnn-both-shared", "--set", "multimodal_dim=12"),
            "image_input=both-shared",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_errors_are_one_line(data: Path, command: Command, arguments: tuple[str, ...], words: str) -> None:
    assert words in command.error("table", *arguments)


def test_the_published_figures_load_nothing_heavy() -> None:
    code = "from deixis.cli.main import _run\nassert _run(['table', 'entities-3']) == 0"
    assert modules_after(code).isdisjoint(HEAVY)


def test_feature_files_of_vgg_and_fast_r_cnn_lead_to_a_table(data: Path, command: Command) -> None:
    """The example of docs/guides/reproduce.md."""
    rng = np.random.default_rng(0)
    Path("fast-rcnn").mkdir()
    photos = list(Dataset(data).photos)
    for photo in photos:
        boxes = np.array([box.xyxy for box in photo.boxes])
        np.savez(f"fast-rcnn/{photo.id}.npz", fc7=rng.normal(size=(len(boxes), 6)), boxes=boxes)
    np.savez("vgg19.npz", features=rng.normal(size=(len(photos), 9)), names=[photo.id for photo in photos])
    command("features", data, "--import", "vgg19.npz", "--regions", "fast-rcnn", "--out", "vgg")
    document = command.json(
        "table", "entities-3", "--data", data, "--rows", "cca,chunks", "--set", "features_dir=vgg", *SMALL
    )
    assert [row["key"] for row in document["rows"] if row["ours"]] == ["cca", "chunks"]
    assert document["about"]["proposals"] == ["imported, 4 a photo"]
    assert "proposals=imported" in document["command"]


def test_one_row_is_swept(data: Path, command: Command) -> None:
    options = ("table", "entities-3", "--data", data, "--rows", "cca,chunks", *SMALL[:2])
    sweep = ("--sweep", "chunks:regularization=0.01,1000")
    document = command.json(*options, "--set", "max_proposals=4", *sweep)
    [first, second] = next(row for row in document["rows"] if row["key"] == "chunks")["chosen"][0]
    assert {first, second} <= {"regularization=0.01", "regularization=1000"}
    assert "--sweep chunks:regularization=0.01,1000" in document["command"]
    assert "--sweep chunks" in command.error(*options, "--sweep", "chunks")
