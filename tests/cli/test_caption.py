"""`deixis caption`, and the commands that make and score what it needs."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis.models.captioner.pipeline import CONFIDENCE
from deixis.models.captioner.ranking import Confidence
from deixis.models.installed import model_folder
from deixis.models.m_rnn.pipeline import CaptionPipeline, load_captioner
from deixis.storage.artifacts import add_part
from deixis.vision import encoders
from tests.cli.conftest import Command
from tests.models.coloured import make_coloured
from tests.models.small_captioner import train_small_captioner
from tests.vision.feature_store.small import colour_encoder

SIZES = ["first_embedding_dim=8", "second_embedding_dim=12", "multimodal_dim=16", "min_count=2"]
BRIEF = ["epochs=2", "batch_size=8", "device=cpu", "threads=1"]
SMALL_RUN = [word for each in (*SIZES, *BRIEF) for word in ("--set", each)]
CAPTION = ("caption", "--model", "captioner.model")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in four colours in ./images, the data set in ./data, and in ./captioner.model one that names them."""
    folder = tmp_path_factory.mktemp("captioner")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
        train_small_captioner(make_coloured(folder), folder / "captioner.model")
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())


def test_captions_of_files_and_folders_are_printed_one_per_line(command: Command) -> None:
    lines = command(*CAPTION, "images/0009.png", "images")[0].splitlines()
    assert len(lines) == 24  # the one that is named twice is captioned once
    assert lines[0].startswith("images/0009.png: ")
    assert "green" in lines[0]
    assert lines[1].startswith("images/0000.png: ")


def test_json_has_the_documented_keys_and_unreadable_files_are_named(tmp_path: Path, command: Command) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    (tmp_path / "none").mkdir()
    paths = "images/0000.png", tmp_path, tmp_path / "none"
    out, err = command(*CAPTION, *paths, "--beam", 4, "--top", 2, "--json")
    [found] = json.loads(out)
    assert found["photo"] == "images/0000.png"
    assert [set(each) for each in found["captions"]] == [{"text", "logprob", "perplexity", "confidence", "sure"}] * 2
    assert str(tmp_path / "bad.jpg") in err
    assert str(tmp_path / "none") in err


def test_the_csv_has_a_row_for_each_caption(tmp_path: Path, command: Command) -> None:
    table = tmp_path / "captions.csv"
    out, err = command(*CAPTION, "images/0000.png", "images/0001.png", "--top", 2, "--csv", table)
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [f"{row['photo']}: {row['caption']}" for row in rows] == out.splitlines()
    assert all(float(row["logprob"]) < 0 < 1 <= float(row["perplexity"]) for row in rows)
    assert all((row["confidence"], row["sure"]) == ("", "") for row in rows)  # this model has no calibration
    assert str(table) in err


def test_an_interrupted_csv_run_resumes_to_the_same_file(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = tmp_path / "whole.csv", tmp_path / "broken.csv"
    command(*CAPTION, "images", "--csv", whole)
    broken.write_text("of a run before")

    def two_at_most(self: CaptionPipeline, paths: Sequence[Path], **options: Any) -> Iterator[Any]:
        yield from list(caption_files(self, paths[:2], **options))
        raise KeyboardInterrupt

    caption_files = CaptionPipeline.caption_files
    with monkeypatch.context() as patch:
        patch.setattr(CaptionPipeline, "caption_files", two_at_most)
        command(*CAPTION, "images", "--csv", broken, code=130)
    assert broken.read_text() == "of a run before"
    out, err = command(*CAPTION, "images", "--csv", broken)
    assert f"{broken}: continues an interrupted run after 2 photos" in err
    assert out.count("\n") == 24
    assert broken.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.csv", "whole.csv"]


def test_xmp_sidecars_hold_the_best_caption_and_foreign_ones_are_kept(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    for name in ("0000.png", "0001.png"):
        shutil.copy(folder / "images" / name, tmp_path)
    (tmp_path / "0001.xmp").write_text("<x/>")
    out, err = command(*CAPTION, tmp_path, "--top", 2, "--xmp")
    best = out.splitlines()[0].removeprefix(f"{tmp_path / '0000.png'}: ")
    assert f">{best}<" in (tmp_path / "0000.png.xmp").read_text()
    assert str(tmp_path / "0001.xmp") in err
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".png", ".png", ".xmp", ".xmp"]


def test_a_caption_that_the_model_is_not_sure_of_is_marked_and_not_written_to_xmp(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    shutil.copytree(folder / "captioner.model", tmp_path / "model")
    for name in ("0000.png", "0001.png"):
        shutil.copy(folder / "images" / name, tmp_path)
    photos = [tmp_path / name for name in ("0000.png", "0001.png")]
    caption = ("caption", "--model", tmp_path / "model", *photos)
    plain = [each["captions"][0] for each in command.json(*caption)]
    assert [(each["confidence"], each["sure"]) for each in plain] == [(None, None)] * 2
    for weight, sure in ((-2.0, False), (2.0, True)):
        add_part(model_folder(tmp_path / "model"), CONFIDENCE, Confidence([weight, 0, 0, 0, 0]).to_artifact())
        found = [each["captions"][0] for each in command.json(*caption)]
        assert [each["text"] for each in found] == [each["text"] for each in plain]
        assert [each["sure"] for each in found] == [sure] * 2
        assert [each["confidence"] for each in found] == pytest.approx([1 / (1 + np.exp(-weight))] * 2, abs=1e-3)
        out, err = command(*caption, "--xmp", "--csv", tmp_path / "captions.csv")
        assert out.count(": not sure: perhaps ") == (0 if sure else 2)
        assert [path.with_name(f"{path.name}.xmp").exists() for path in photos] == [sure] * 2
        assert ("no XMP sidecar for 2 photos" in err) is not sure
        with (tmp_path / "captions.csv").open(encoding="utf-8", newline="") as file:
            assert [row["sure"] for row in csv.DictReader(file)] == [str(sure).lower()] * 2
    assert "--xmp" in command.error(*caption, "--xmp", "--sample")


def test_start_and_sampling_options(command: Command) -> None:
    caption = (*CAPTION, "images/0000.png")
    assert ": everything" in command(*caption, "--start", "everything")[0]
    sample = (*caption, "--sample", "--temperature", 3, "--seed")
    sampled = [command(*sample, seed, "--top", 8)[0] for seed in (1, 1, 2, 3, 4)]
    assert sampled[0] == sampled[1]
    assert len(set(sampled)) > 1
    assert len(sampled[0].splitlines()) == 8
    greedy = command(*caption, "--beam", 1)[0]
    for careful in (("--top-k", 1), ("--nucleus", 0.00001)):
        assert command(*sample, 2, *careful)[0] == greedy


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "PHOTO"),
        (["data"], "data: "),
        (["nowhere.jpg"], "nowhere.jpg: "),
        (["nowhere.jpg", "either.jpg"], "1 other photo"),
        (["images", "--start", "a zebra"], "'zebra'"),
        (["images", "--top", "9"], "--beam N"),
        (["images", "--sample", "--temperature", "0"], "temperature=0.0"),
        (["images", "--nucleus", "0.9"], "--sample"),
        (["images", "--csv", "nowhere/a.csv"], "nowhere/a.csv: the folder "),
        (["images", "--csv", "/proc/a.csv"], "/proc/a.csv: No such file"),
        (["images", "--csv", "images"], "images: is a folder"),
        (["images", "--model", "two-branch"], "two-branch"),
        (["images", "--rerank", "cider", "--sample"], "--rerank"),
        (["images", "--rerank", "cider", "--top", "11"], "--top 11"),
        (["images", "--rerank", "cider", "--neighbours", "images"], "deixis train consensus"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_user_errors_are_one_line(arguments: list[str], words: str, command: Command) -> None:
    assert words in command.error(*CAPTION, *arguments)


def test_too_many_first_words_are_refused_before_any_photo_is_opened(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CaptionPipeline, "caption_files", lambda *_, **__: pytest.fail("a photo was opened"))
    assert "99 words" in command.error(*CAPTION, "images", "--start", "a " * 99)


def test_training_reports_the_perplexity(tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    train = ["train", "m-rnn", "--data", "data", "--settings", "papers/m-rnn-shared", *SMALL_RUN, "--out", out]
    report, err = command(*train)
    assert report.splitlines()[0] == f"{out}: m-rnn, learned from 16 photos and 32 sentences of data"
    assert report.splitlines()[1].startswith("dev (8 photos): perplexity ")
    assert report.splitlines()[1].endswith(", oov 0.0")
    assert err.endswith(f"next: deixis evaluate captions --model {out} --data data --split dev\n")
    resumed = command.json(*train, "--resume")
    assert resumed["settings"]["tie_word_weights"] is True
    assert set(resumed["dev"]) == {"split", "n", "left_out", "perplexity", "oov"}


def test_evaluate_captions_scores_gold_and_generated_captions(tmp_path: Path, command: Command) -> None:
    evaluate = ["evaluate", "captions", "--data", "data", "--split", "dev"]
    found = command.json(*evaluate, "--model", "captioner.model")
    assert (found["task"], found["n"], found["oov"]) == ("captions", 8, 0)
    assert 1 < found["perplexity"] < 2
    assert found["interval"]["perplexity"][0] <= found["perplexity"] <= found["interval"]["perplexity"][1]
    assert found["bleu1"] > 90
    results = [{"image_id": f"{number:04d}", "caption": "A red wall"} for number in (8, 9, 10, 11, 20, 21, 22, 23)]
    (tmp_path / "theirs.json").write_text(json.dumps(results))
    compared = command.json(*evaluate, "--predictions", tmp_path / "theirs.json", "--against", "captioner.model")
    assert compared["bleu1"] < 80  # three of four walls have another colour
    assert compared["difference"]["bleu1"]["difference"] == pytest.approx(compared["bleu1"] - found["bleu1"])
    assert "--model DIR" in command.error(*evaluate)


def test_the_suggested_command_makes_the_neighbours_that_reranking_needs(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    model, consensus = tmp_path / "plain" / "model", tmp_path / "consensus.model"
    shutil.copytree(folder / "captioner.model" / "model", model)
    alone = ["caption", "images/0009.png", "--model", model, "--rerank", "cider"]
    error = command.error(*alone)
    suggested = f"deixis train consensus --data DATA --set captioner={model}"
    assert suggested in error
    assert "--neighbours consensus.model" in error

    arguments = suggested.replace("DATA", "data").split()[1:]
    out, err = command(*arguments, "--set", "beam=4", "--out", consensus)
    assert "consensus.model: consensus, learned from 16 photos and 32 sentences of data" in out
    assert "bleu4_by_cider" in out
    assert f"deixis caption PHOTO --model {consensus}" in err
    reranked = command.json(*alone, "--neighbours", consensus)
    assert "green" in reranked[0]["captions"][0]["text"]
    for more in ([], ["--rerank", "cider"]):
        found = command.json("caption", "images/0009.png", "--model", consensus, *more)
        assert found == reranked, "a consensus model reranks by its own photos"


def test_the_confidence_is_fitted_to_photos_with_captions_and_stored_in_the_model(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    shutil.copytree(folder / "captioner.model", tmp_path / "model")
    data = make_coloured(tmp_path, 120).path
    document = command.json("calibrate", data, "--captions", tmp_path / "model")
    [scores] = document["scores"].values()
    assert {"calibration error", "captions right", "sure captions"} <= set(scores)
    assert scores["captions right"]["count"] == 40
    captioner = load_captioner(tmp_path / "model")
    assert captioner.confidence is not None
    assert captioner.confidence.sure_from == document["sure_from"] >= 0.6
    [found] = command.json("caption", "images/0000.png", "--model", tmp_path / "model")
    assert found["captions"][0]["confidence"] > 0.5  # it names the colours of all photos
    captioner.save_pretrained(tmp_path / "copy")
    assert load_captioner(tmp_path / "copy").confidence is not None
    assert "needs at least 30" in command.error("calibrate", "data", "--captions", tmp_path / "model")
    assert "cannot" in command.error("calibrate", data, "--captions", "grounder")
