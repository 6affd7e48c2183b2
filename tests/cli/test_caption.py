"""`deixis caption`, and the commands that make and score what it needs."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deixis.cli.main import _run
from deixis.models.m_rnn.captioning import CaptionPipeline
from deixis.vision import encoders
from tests.models.captioner import train_small_captioner
from tests.models.coloured import make_coloured
from tests.test_architecture import HEAVY, modules_after
from tests.vision.feature_store.small import colour_encoder

SIZES = ["first_embedding_dim=8", "second_embedding_dim=12", "hidden_size=12", "multimodal_dim=16", "min_count=2"]
BRIEF = ["epochs=2", "batch_size=8", "device=cpu", "threads=1"]
SMALL_RUN = [word for each in (*SIZES, *BRIEF) for word in ("--set", each)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in four colours in ./images, the data set in ./data, and in ./m-rnn.model a model that names colours."""
    folder = tmp_path_factory.mktemp("captioner")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_small_captioner(make_coloured(folder), folder / "m-rnn.model")
    return folder


@pytest.fixture(autouse=True)
def _here(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


def caption(*arguments: object) -> int:
    return _run(["caption", "--model", "m-rnn.model", *map(str, arguments)])


def test_captions_of_files_and_folders_are_printed_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert caption("images/0009.png", "images") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 24  # the one that is named twice is captioned once
    assert lines[0].startswith("images/0009.png: ")
    assert "green" in lines[0]
    assert lines[1].startswith("images/0000.png: ")


def test_json_has_the_documented_keys_and_unreadable_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    (tmp_path / "none").mkdir()
    assert caption("images/0000.png", tmp_path, tmp_path / "none", "--beam", 4, "--top", 2, "--json") == 0
    out, err = capsys.readouterr()
    [found] = json.loads(out)
    assert found["photo"] == "images/0000.png"
    assert [set(each) for each in found["captions"]] == [{"text", "logprob", "perplexity"}] * 2
    assert str(tmp_path / "bad.jpg") in err
    assert str(tmp_path / "none") in err


def test_the_csv_has_a_row_for_each_caption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "captions.csv"
    assert caption("images/0000.png", "images/0001.png", "--top", 2, "--csv", table) == 0
    out, err = capsys.readouterr()
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [f"{row['photo']}: {row['caption']}" for row in rows] == out.splitlines()
    assert all(float(row["logprob"]) < 0 < 1 <= float(row["perplexity"]) for row in rows)
    assert str(table) in err


def test_an_interrupted_csv_run_resumes_to_the_same_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert caption("images", "--csv", tmp_path / "whole.csv") == 0
    (tmp_path / "broken.csv").write_text("of a run before")

    def two_at_most(self: CaptionPipeline, paths: Sequence[Path], **options: Any) -> Iterator[Any]:
        yield from list(caption_files(self, paths[:2], **options))
        raise KeyboardInterrupt

    caption_files = CaptionPipeline.caption_files
    with monkeypatch.context() as patch:
        patch.setattr(CaptionPipeline, "caption_files", two_at_most)
        assert caption("images", "--csv", tmp_path / "broken.csv") != 0
    assert (tmp_path / "broken.csv").read_text() == "of a run before"
    capsys.readouterr()
    assert caption("images", "--csv", tmp_path / "broken.csv") == 0
    out, err = capsys.readouterr()
    assert f"{tmp_path / 'broken.csv'}: " in err
    assert "2 photos" in err
    assert out.count("\n") == 24
    assert (tmp_path / "broken.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.csv", "whole.csv"]


def test_xmp_sidecars_hold_the_best_caption_and_foreign_ones_are_kept(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("0000.png", "0001.png"):
        (tmp_path / name).write_bytes((made / "images" / name).read_bytes())
    (tmp_path / "0001.xmp").write_text("<x/>")
    assert caption(tmp_path, "--top", 2, "--xmp") == 0
    out, err = capsys.readouterr()
    best = out.splitlines()[0].removeprefix(f"{tmp_path / '0000.png'}: ")
    assert f">{best}<" in (tmp_path / "0000.png.xmp").read_text()
    assert str(tmp_path / "0001.xmp") in err
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".png", ".png", ".xmp", ".xmp"]


def test_start_and_sampling_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert caption("images/0000.png", "--start", "everything") == 0
    assert ": everything" in capsys.readouterr().out
    sampled = []
    for seed in (1, 1, 2, 3, 4):
        assert caption("images/0000.png", "--sample", "--temperature", 3, "--top", 8, "--seed", seed) == 0
        sampled.append(capsys.readouterr().out)
    assert sampled[0] == sampled[1]
    assert len(set(sampled)) > 1
    assert len(sampled[0].splitlines()) == 8
    assert caption("images/0000.png", "--beam", 1) == 0
    greedy = capsys.readouterr().out
    for careful in (("--top-k", 1), ("--nucleus", 0.00001)):
        assert caption("images/0000.png", "--sample", "--temperature", 3, "--seed", 2, *careful) == 0
        assert capsys.readouterr().out == greedy


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "PHOTO…"),
        (["data"], "data: "),
        (["nowhere.jpg"], "nowhere.jpg: "),
        (["nowhere.jpg", "either.jpg"], "1 other photo"),
        (["images", "--start", "a zebra"], "'zebra'"),
        (["images", "--top", "9"], "--beam 9"),
        (["images", "--sample", "--temperature", "0"], "temperature=0.0"),
        (["images", "--nucleus", "0.9"], "--sample"),
        (["images", "--csv", "nowhere/a.csv"], "--csv nowhere/a.csv"),
        (["images", "--model", "two-branch"], "two-branch"),
    ],
)
def test_user_errors_are_one_line(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert caption(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert named in err


def test_training_reports_the_perplexity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    named = ["--settings", "papers/m-rnn-shared", *SMALL_RUN, "--out", str(out)]
    assert _run(["train", "m-rnn", "--data", "data", *named]) == 0
    report, err = capsys.readouterr()
    assert report.splitlines()[0] == f"{out}: m-rnn, learned from 16 photos and 32 sentences of data"
    assert report.splitlines()[1].startswith("dev (8 photos): perplexity ")
    assert report.splitlines()[1].endswith(", oov 0.0")
    assert err.endswith(f"next: deixis evaluate captions --model {out} --data data --split dev\n")
    assert _run(["train", "m-rnn", "--data", "data", *named, "--resume", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["settings"]["tie_word_weights"] is True
    assert set(answer["dev"]) == {"split", "n", "left_out", "perplexity", "oov"}


def test_evaluate_captions_scores_gold_and_generated_captions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--data", "data", "--split", "dev", "--json"]
    assert _run(["evaluate", "captions", "--model", "m-rnn.model", *named]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["task"], found["n"], found["oov"]) == ("captions", 8, 0)
    assert 1 < found["perplexity"] < 2
    assert found["interval"]["perplexity"][0] <= found["perplexity"] <= found["interval"]["perplexity"][1]
    assert found["bleu1"] > 90
    results = [{"image_id": f"{number:04d}", "caption": "A red wall"} for number in (8, 9, 10, 11, 20, 21, 22, 23)]
    (tmp_path / "theirs.json").write_text(json.dumps(results))
    theirs = ["--predictions", str(tmp_path / "theirs.json")]
    assert _run(["evaluate", "captions", *theirs, "--against", "m-rnn.model", *named]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["bleu1"] < 80  # three of four walls have another colour
    worse = compared["difference"]["bleu1"]["difference"]
    assert worse == pytest.approx(compared["bleu1"] - found["bleu1"])
    assert _run(["evaluate", "captions", *named]) == 2
    assert "--model DIR" in capsys.readouterr().err


def test_a_captioner_can_be_evaluated_on_retrieval(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--model", "m-rnn.model", "--data", "data", "--split", "dev", "--json"]
    assert _run(["evaluate", "retrieval", *named]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["t2i_r1"] > 40  # two photos of each colour; chance is 12.5
    assert _run(["evaluate", "sentences", *named]) == 2
    assert "m-rnn.model" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    assert modules_after("-m", "deixis.cli.main", "caption", "--help").isdisjoint(HEAVY)


def test_rerank_sorts_captions_by_consensus(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("images/0009.png", "--start", "a", "--top", 3, "--json")
    for rerank in ("bleu", "cider"):
        assert caption(*arguments, "--rerank", rerank) == 0
        [found] = json.loads(capsys.readouterr().out)
        scores = [each["consensus"] for each in found["captions"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        assert found["captions"][0]["text"] == "a green wall"
    assert caption(*arguments) == 0
    assert "consensus" not in capsys.readouterr().out


def test_the_suggested_command_makes_the_neighbours_that_reranking_needs(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").mkdir()
    shutil.copytree(made / "m-rnn.model" / "model", tmp_path / "plain" / "model")
    model = tmp_path / "plain" / "model"
    alone = ["caption", "images/0009.png", "--model", str(model), "--rerank", "cider"]
    assert _run(alone) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    command = f"deixis train consensus --data DATA --set captioner={model}"
    assert command in err
    assert "--neighbours consensus.model" in err

    arguments = command.replace("DATA", "data").split()[1:]
    assert _run([*arguments, "--set", "beam=4", "--out", str(tmp_path / "consensus.model")]) == 0
    out, err = capsys.readouterr()
    assert "consensus.model: consensus, learned from 16 photos and 32 sentences of data" in out
    assert "bleu4_by_cider" in out
    assert f"deixis caption PHOTO --model {tmp_path / 'consensus.model'}" in err
    assert _run([*alone, "--neighbours", str(tmp_path / "consensus.model"), "--json"]) == 0
    reranked = json.loads(capsys.readouterr().out)
    assert "green" in reranked[0]["captions"][0]["text"]
    for more in ([], ["--rerank", "cider"]):
        assert _run(["caption", "images/0009.png", "--model", str(tmp_path / "consensus.model"), *more, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == reranked, "a consensus model reranks by its own photos"


def test_train_consensus_has_json_and_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "near"
    arguments = ["train", "consensus", "--data", "data", "--set", "captioner=m-rnn.model", "--out", str(out), "--json"]
    assert _run([*arguments, "--set", "tune=false", "--set", "neighbours=3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["photos"], document["sentences"], document["dev"]) == (16, 32, None)
    assert document["settings"]["neighbours"] == 3
    assert _run([*arguments, "--resume"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert _run(["train", "consensus", "--list-settings"]) == 0
    assert "papers/consensus" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("images/0000.png", "--start", "a zebra"), "'zebra'"),
        (("images/0000.png", "--rerank", "cider", "--sample"), "--rerank"),
        (("images/0000.png", "--rerank", "cider", "--top", "11"), "--top 11"),
        (("images/0000.png", "--rerank", "cider", "--neighbours", "images"), "deixis train consensus"),
        (("empty",), "empty: "),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_caption_errors_are_one_line(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    (made / "empty").mkdir(exist_ok=True)
    assert caption(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


def test_too_many_first_words_are_refused_before_any_photo_is_opened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CaptionPipeline, "caption_files", lambda *_, **__: pytest.fail("a photo was opened"))
    assert caption("images", "--start", "a " * 99) == 2
    assert "99 words" in capsys.readouterr().err


def test_a_photo_argument_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["caption", "--model", "m-rnn.model"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "PHOTO" in err


def test_a_model_of_a_newer_version_is_refused(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(made / "m-rnn.model", tmp_path / "newer")
    path = tmp_path / "newer" / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    for verb in (
        ["caption", "images/0000.png", "--model"],
        ["evaluate", "captions", "--data", "data", "--split", "dev", "--model"],
    ):
        assert _run([*verb, str(tmp_path / "newer")]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert str(path) in err
