"""`deixis caption`, and the commands that make and score what it needs, as typed."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deixis.cli.main import _run
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.vision import encoders
from tests.tasks.coloured import make_coloured
from tests.tasks.writing import train_writer
from tests.test_house import HEAVY, modules_after
from tests.vision.store.small import colour_encoder

SIZES = ["first_embedding=8", "second_embedding=12", "recurrent_size=12", "multimodal_size=16", "min_count=2"]
BRIEF = ["epochs=2", "batch_size=8", "device=cpu", "threads=1"]
SMALL_RUN = [word for each in (*SIZES, *BRIEF) for word in ("--set", each)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in four colours in ./images, the data set in ./data, and in ./m-rnn.model a model that names colours."""
    folder = tmp_path_factory.mktemp("writing")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_writer(make_coloured(folder), folder / "m-rnn.model")
    return folder


@pytest.fixture(autouse=True)
def _here(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


def caption(*arguments: object) -> int:
    return _run(["caption", "--model", "m-rnn.model", *map(str, arguments)])


def test_photos_and_folders_get_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert caption("images/0009.png", "images") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 24  # the one that is named twice is captioned once
    assert lines[0].startswith("images/0009.png: ")
    assert "green" in lines[0]
    assert lines[1].startswith("images/0000.png: ")


def test_json_is_as_the_interface_says_and_bad_files_are_named_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    (tmp_path / "none").mkdir()
    assert caption("images/0000.png", tmp_path, tmp_path / "none", "--beam", 4, "--top", 2, "--json") == 0
    out, err = capsys.readouterr()
    [found] = json.loads(out)
    assert found["photo"] == "images/0000.png"
    assert [set(each) for each in found["captions"]] == [{"text", "logprob", "perplexity"}] * 2
    assert f"left out: {tmp_path / 'bad.jpg'}: not a photo in a known format\n" in err
    assert f"left out: {tmp_path / 'none'}: no photo in this folder\n" in err


def test_a_table_has_a_row_for_each_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "captions.csv"
    assert caption("images/0000.png", "images/0001.png", "--top", 2, "--csv", table) == 0
    out, err = capsys.readouterr()
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [f"{row['photo']}: {row['caption']}" for row in rows] == out.splitlines()
    assert all(float(row["logprob"]) < 0 < 1 <= float(row["perplexity"]) for row in rows)
    assert "4 sentences about 2 photos" in err


def test_a_table_that_was_stopped_goes_on_and_is_that_of_an_unbroken_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert caption("images", "--csv", tmp_path / "whole.csv") == 0
    (tmp_path / "broken.csv").write_text("of a run before")

    def two_at_most(self: CaptionBundle, paths: Sequence[Path], **given: Any) -> Iterator[Any]:
        yield from list(caption_files(self, paths[:2], **given))
        raise KeyboardInterrupt

    caption_files = CaptionBundle.caption_files
    with monkeypatch.context() as patch:
        patch.setattr(CaptionBundle, "caption_files", two_at_most)
        assert caption("images", "--csv", tmp_path / "broken.csv") != 0
    assert (tmp_path / "broken.csv").read_text() == "of a run before"
    capsys.readouterr()
    assert caption("images", "--csv", tmp_path / "broken.csv") == 0
    out, err = capsys.readouterr()
    assert f"{tmp_path / 'broken.csv'}: goes on after 2 photos of a run that was stopped\n" in err
    assert out.count("\n") == 24
    assert (tmp_path / "broken.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.csv", "whole.csv"]


def test_the_best_sentence_goes_into_a_file_beside_each_photo_but_never_over_a_strangers(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("0000.png", "0001.png"):
        (tmp_path / name).write_bytes((made / "images" / name).read_bytes())
    (tmp_path / "0001.xmp").write_text("<x/>")
    assert caption(tmp_path, "--top", 2, "--xmp") == 0
    out, err = capsys.readouterr()
    best = out.splitlines()[0].removeprefix(f"{tmp_path / '0000.png'}: ")
    assert f">{best}<" in (tmp_path / "0000.png.xmp").read_text()
    assert f"not written: {tmp_path / '0001.xmp'}: left alone, another program wrote it\n" in err
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".png", ".png", ".xmp", ".xmp"]


def test_first_words_and_chance(capsys: pytest.CaptureFixture[str]) -> None:
    assert caption("images/0000.png", "--start", "everything") == 0
    assert ": everything" in capsys.readouterr().out
    drawn = []
    for seed in (1, 1, 2, 3, 4):
        assert caption("images/0000.png", "--sample", "--temperature", 3, "--top", 8, "--seed", seed) == 0
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1
    assert len(drawn[0].splitlines()) == 8
    assert caption("images/0000.png", "--beam", 1) == 0
    greedy = capsys.readouterr().out
    for careful in (("--top-k", 1), ("--nucleus", 0.00001)):
        assert caption("images/0000.png", "--sample", "--temperature", 3, "--seed", 2, *careful) == 0
        assert capsys.readouterr().out == greedy


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ([], "Missing argument 'PHOTO…'"),
        (["data"], "data: no photo in this folder"),
        (["nowhere.jpg"], "nowhere.jpg: no such file"),
        (["nowhere.jpg", "either.jpg"], "nowhere.jpg: no such file; 1 other photo cannot be read either"),
        (["images", "--start", "a zebra"], "start: the model does not know the word 'zebra'"),
        (["images", "--top", "9"], "--top 9: a beam of 5 has no more than 5 sentences; give --beam 9"),
        (["images", "--sample", "--temperature", "0"], "temperature=0.0: must be greater than 0"),
        (["images", "--nucleus", "0.9"], "--nucleus: say how words are drawn by chance; add --sample"),
        (["images", "--csv", "nowhere/a.csv"], "--csv nowhere/a.csv: the folder nowhere does not exist"),
        (["images", "--model", "two-branch"], "one that writes captions is needed here"),
    ],
)
def test_mistakes_are_one_clear_line(typed: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert caption(*typed) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert told in err


def test_a_model_is_trained_and_its_perplexity_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    named = ["--settings", "papers/m-rnn-shared", *SMALL_RUN, "--out", str(out)]
    assert _run(["train", "m-rnn", "--data", "data", *named]) == 0
    told, err = capsys.readouterr()
    assert told.splitlines()[0] == f"{out}: m-rnn, learned from 16 photos and 32 sentences of data"
    assert told.splitlines()[1].startswith("dev (8 photos): perplexity ")
    assert told.splitlines()[1].endswith(", oov 0.0")
    assert err.endswith(f"next: deixis evaluate captions --model {out} --data data --split dev\n")
    assert _run(["train", "m-rnn", "--data", "data", *named, "--resume", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["settings"]["shared_words"] is True
    assert set(answer["dev"]) == {"split", "n", "left_out", "perplexity", "oov"}


def test_a_model_is_scored_on_peoples_captions_and_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "give one of --predictions FILE and --model DIR" in capsys.readouterr().err


def test_a_model_that_writes_also_finds_photos_and_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--model", "m-rnn.model", "--data", "data", "--split", "dev", "--json"]
    assert _run(["evaluate", "retrieval", *named]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["t2i_r1"] > 40  # two photos of each colour; chance is 12.5
    assert _run(["evaluate", "sentences", *named]) == 2
    assert "a model that writes captions; one that compares" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    assert modules_after("-m", "deixis.cli.main", "caption", "--help").isdisjoint(HEAVY)


def test_sentences_are_reranked_by_the_captions_of_training_photos(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("images/0009.png", "--start", "a", "--top", 3, "--json")
    for rerank in ("bleu", "cider"):
        assert caption(*asked, "--rerank", rerank) == 0
        [found] = json.loads(capsys.readouterr().out)
        scores = [each["consensus"] for each in found["captions"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        assert found["captions"][0]["text"] == "a green wall"
    assert caption(*asked) == 0
    assert "consensus" not in capsys.readouterr().out


def test_training_photos_are_made_from_the_users_own_data_by_one_command(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").mkdir()
    shutil.copytree(made / "m-rnn.model" / "model", tmp_path / "plain" / "model")
    model = tmp_path / "plain" / "model"
    alone = ["caption", "images/0009.png", "--model", str(model), "--rerank", "cider"]
    assert _run(alone) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    command = f"deixis train consensus --data DATA --set model={model}"
    assert command in err
    assert "and name them with --neighbours consensus.model" in err

    typed = command.replace("DATA", "data").split()[1:]
    assert _run([*typed, "--set", "beam=4", "--out", str(tmp_path / "consensus.model")]) == 0
    out, err = capsys.readouterr()
    assert "consensus.model: consensus, learned from 16 photos and 32 sentences of data" in out
    assert "bleu4_by_cider" in out
    assert "next: deixis caption PHOTO --model DIR --rerank cider --neighbours" in err
    assert _run([*alone, "--neighbours", str(tmp_path / "consensus.model")]) == 0
    assert "green" in capsys.readouterr().out


def test_training_consensus_answers_in_json_and_has_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "near"
    typed = ["train", "consensus", "--data", "data", "--set", "model=m-rnn.model", "--out", str(out), "--json"]
    assert _run([*typed, "--set", "tune=false", "--set", "neighbours=3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["photos"], document["sentences"], document["dev"]) == (16, 32, None)
    assert document["settings"]["neighbours"] == 3
    assert _run([*typed, "--resume"]) == 2
    assert "consensus learns in one pass" in capsys.readouterr().err
    assert _run(["train", "consensus", "--list-settings"]) == 0
    assert "papers/consensus" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("images/0000.png", "--start", "a zebra"), "start: the model does not know the word 'zebra'"),
        (("images/0000.png", "--rerank", "cider", "--sample"), "--rerank: orders the sentences of a beam"),
        (("images/0000.png", "--rerank", "cider", "--top", "11"), "--top 11: a beam of 10 has no more than 10"),
        (("images/0000.png", "--rerank", "cider", "--neighbours", "images"), "images holds none; make them"),
        (("empty",), "empty: no photo in this folder"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_mistakes_of_captioning_are_one_line(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    (made / "empty").mkdir(exist_ok=True)
    assert caption(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


def test_too_many_words_to_begin_with_are_refused_before_any_photo_is_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CaptionBundle, "caption_files", lambda *_, **__: pytest.fail("a photo was looked at"))
    assert caption("images", "--start", "a " * 99) == 2
    assert "start: 99 words to begin with, and a sentence has" in capsys.readouterr().err


def test_a_list_of_no_photos_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["caption", "--model", "m-rnn.model"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "PHOTO" in err


@pytest.mark.parametrize("file", ["model/bundle.json", "model/model/settings.json"])
def test_a_model_saved_by_a_newer_deixis_is_one_line(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    shutil.copytree(made / "m-rnn.model", tmp_path / "newer")
    path = tmp_path / "newer" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    for verb in (
        ["caption", "images/0000.png", "--model"],
        ["evaluate", "captions", "--data", "data", "--split", "dev", "--model"],
    ):
        assert _run([*verb, str(tmp_path / "newer")]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"{path}: written for version 2, this deixis reads 1" in err
