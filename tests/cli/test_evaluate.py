"""`deixis evaluate` on files that anybody's system could have written."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.main import _run
from deixis.cli.scores import _print_groups
from deixis.data.dataset import Dataset
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.of_data import regions_of, sentences_of
from deixis.tasks.bundle import Bundle
from deixis.tasks.fit.cca import fit_cca
from deixis.tasks.learning import Learning
from deixis.tasks.pointing import score_over_all_photos
from deixis.tasks.scores.scoring import score_on_dev, seen_photos
from deixis.vision import encoders
from tests.conftest import Run
from tests.tasks.coloured import SMALL, make_coloured
from tests.tasks.quarters import make_quarters, use_small_encoders
from tests.vision.store.small import colour_encoder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("samples") / "data"
    import_dataset(out, images=SAMPLES / "images", entities=SAMPLES / "entities")
    return out


def answer(done) -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_perfect_and_a_useless_matrix_get_what_they_deserve(deixis: Run, data: Path, tmp_path: Path) -> None:
    sentences = sentences_of(Dataset(data).photos)
    owners = np.array(sentences.photo_of_sentence)
    perfect = (owners[None, :] == np.arange(owners.max() + 1)[:, None]).astype(np.float32)
    np.save(tmp_path / "good.npy", perfect)
    np.save(tmp_path / "bad.npy", np.zeros_like(perfect))
    found = answer(
        deixis("evaluate", "retrieval", "--scores", "good.npy", "--data", data, "--against", "bad.npy", "--json")
    )
    assert found["task"] == "retrieval"
    assert (found["i2t_r1"], found["t2i_r10"], found["i2t_medr"]) == (100, 100, 1)
    assert found["n"] == len(Dataset(data).photos)
    assert found["interval"]["i2t_r1"] == [100, 100]
    assert found["difference"]["i2t_r1"]["difference"] == 100
    assert found["difference"]["i2t_r1"]["p"] < 0.05
    bad = answer(deixis("evaluate", "retrieval", "--scores", "bad.npy", "--captions-per-photo", "5", "--json"))
    assert bad["i2t_r10"] == bad["t2i_r1"] == 0  # equal scores earn nothing
    shown = deixis("evaluate", "retrieval", "--scores", "good.npy", "--data", data, "--against", "bad.npy")
    assert "i2t_r1" in shown.stdout
    assert "+100.00" in shown.stdout


def test_sentences_and_regions_are_scored_from_matrices(deixis: Run, data: Path, tmp_path: Path) -> None:
    owners = np.array(sentences_of(Dataset(data).photos).photo_of_sentence)
    np.save(tmp_path / "s.npy", (owners[:, None] == owners[None, :]).astype(np.float32))
    assert answer(deixis("evaluate", "sentences", "--scores", "s.npy", "--data", data, "--json"))["s2s_r1"] == 100
    gold = regions_of(Dataset(data).photos)
    matrix = np.zeros((len(gold.boxes), len(gold.phrases)), dtype=np.float32)
    matrix[tuple(np.array(gold.positives).T)] = 1
    np.save(tmp_path / "r.npy", matrix)
    found = answer(deixis("evaluate", "regions", "--scores", "r.npy", "--data", data, "--json"))
    assert (found["r1"], found["medr"]) == (100, 1)


def predictions(data: Path, shift: float) -> str:
    lines = []
    for photo in Dataset(data).photos:
        for number, caption in enumerate(photo.captions):
            for mention in caption.mentions:
                boxes = photo.boxes_of(mention.chain) if mention.chain else ()
                if boxes:
                    x1, y1 = (min(box.xyxy[i] for box in boxes) + shift for i in (0, 1))
                    x2, y2 = (max(box.xyxy[i] for box in boxes) + shift for i in (2, 3))
                    line = {"photo": photo.id, "caption": number, "span": [mention.start, mention.end]}
                    lines.append(json.dumps({**line, "boxes": [[x1, y1, x2, y2]], "scores": [0.5]}))
    return "\n".join(lines) + "\n"


def test_grounding_is_scored_beside_the_blind_boxes(deixis: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "gold.jsonl").write_text(predictions(data, 0))
    (tmp_path / "off.jsonl").write_text(predictions(data, 60))
    found = answer(
        deixis(
            "evaluate", "grounding", "--predictions", "gold.jsonl", "--data", data, "--against", "off.jsonl", "--json"
        )
    )
    assert found["r1"] == found["upper_bound"] == found["macro_r1"] == 100
    assert 0 < found["blind_r1"] < 100
    assert found["protocol"] == "union"
    assert set(found["by_type"]) >= {"people", "animals", "other"}
    assert found["difference"]["r1"]["difference"] > 0
    scores = {"r1", "r5", "r10", "r5_nms", "r10_nms", "upper_bound", "ap", "ap_nms"}
    scores |= {"macro_r1", "macro_ap", "macro_ap_nms"}
    assert set(found["difference"]) == scores
    assert set(found["interval"]) == scores | {"blind_r1", "blind_single_r1"}
    shown = deixis("evaluate", "grounding", "--predictions", "off.jsonl", "--data", data).stdout
    assert re.search(r"\bap\b\D+[\d.]+\D+[\d.]+ – [\d.]+", shown)
    assert re.search(r"│ people +│ +\d+ │ +\d+ │ +[\d.]+ \[[\d.]+, [\d.]+\] │", shown)
    people = found["by_type"]["people"]
    assert set(people["interval"]) == {"r1", "r5", "r10", "upper_bound", "ap", "ap_nms"}
    assert people["interval"]["r1"] == [100, 100]
    # One box around two things is not one of them.
    assert (
        answer(
            deixis(
                "evaluate", "grounding", "--predictions", "gold.jsonl", "--data", data, "--protocol", "any", "--json"
            )
        )["r1"]
        < 100
    )


def test_tables_of_groups_show_the_interval_of_r1_within_120_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    scores = dict.fromkeys(("r1", "r5", "r10", "upper_bound", "ap", "ap_nms"), 100.0)
    common = {"n": 10_000, "photos": 10_000, **scores, "no_interval": None}
    rows = {
        "man": {**common, "r1": 61.234, "interval": {"r1": [58.94, 63.41]}},
        "a very long phrase of a person who said all there is [/b]": {**common, "interval": {"r1": [100.0, 100.0]}},
        "ox": {**common, "photos": 1, "interval": {"r1": None}, "no_interval": "all mentions are in one photo"},
    }
    _print_groups({"by_type": {}, "by_phrase": rows})
    shown = capsys.readouterr().out
    assert "│ 61.2 [58.9, 63.4] │" in re.sub(" +", " ", shown)
    assert "│ 100.0 [–] │" in re.sub(" +", " ", shown)
    assert "[/b]" in shown
    assert shown.endswith("[–] no interval: all mentions are in one photo\n")
    assert "by type" not in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_a_missing_phrase_is_an_error_unless_it_counts_as_wrong(deixis: Run, data: Path, tmp_path: Path) -> None:
    whole = predictions(data, 0).splitlines(keepends=True)
    (tmp_path / "p.jsonl").write_text("".join(whole[1:]))
    done = deixis("evaluate", "grounding", "--predictions", "p.jsonl", "--data", data)
    assert done.returncode == 2
    found = answer(
        deixis("evaluate", "grounding", "--predictions", "p.jsonl", "--data", data, "--missing-as-wrong", "--json")
    )
    assert found["missing"] == 1
    assert found["r1"] == pytest.approx(100 * (1 - 1 / len(whole)))


def test_captions_in_cocos_form_are_scored(deixis: Run, data: Path, tmp_path: Path) -> None:
    photos = Dataset(data).photos
    results = [{"image_id": photo.id, "caption": photo.captions[0].text} for photo in photos]
    (tmp_path / "results.json").write_text(json.dumps(results))
    found = answer(deixis("evaluate", "captions", "--predictions", "results.json", "--data", data, "--json"))
    assert found["bleu1"] == pytest.approx(100)
    assert found["rouge_l"] == pytest.approx(100)
    assert found["cider"] > 100
    assert found["novel"] < 100
    nonsense = [{"image_id": photo.id, "caption": "zzz qqq"} for photo in photos]
    (tmp_path / "nonsense.json").write_text(json.dumps(nonsense))
    found = answer(deixis("evaluate", "captions", "--predictions", "nonsense.json", "--data", data, "--json"))
    assert found["cider"] == found["rouge_l"] == 0
    assert found["novel"] == 100
    assert set(found["interval"]) == {name for name, value in found.items() if isinstance(value, float)}
    assert found["distinct_sentences"] == 1
    assert found["interval"]["distinct_1"][0] <= found["distinct_1"] <= found["interval"]["distinct_1"][1]


@pytest.mark.parametrize(
    ("task", "name", "text", "words"),
    [
        ("retrieval", "m.npy", "not numpy", "m.npy"),
        ("grounding", "p.jsonl", '{"photo": "nobody"', "p.jsonl"),
        (
            "grounding",
            "p.jsonl",
            '{"photo":"nobody","caption":0,"span":[0,1],"boxes":[[0,0,1,1]],"scores":[1]}',
            "nobody",
        ),
        ("captions", "r.json", '[{"image_id": "nobody", "caption": "A dog"}]', "nobody"),
        ("captions", "r.json", "{}", "r.json"),
    ],
)
def test_bad_files_are_named_in_one_line(
    deixis: Run, data: Path, tmp_path: Path, task: str, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    option = "--scores" if task == "retrieval" else "--predictions"
    done = deixis("evaluate", task, option, name, "--data", data, "--json")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stdout == ""
    said = [line for line in done.stderr.strip().splitlines() if not line.endswith("…")]
    assert len(said) == 1


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """Small photos in ./data, and in ./cca.model what was learned from them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    bundle = fit_cca(make_coloured(tmp_path), SMALL).bundle
    bundle.save("cca.model")
    return bundle


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert _run(["evaluate", *arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert _run(["evaluate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("split", ["dev", None])
def test_a_model_gets_the_scores_of_its_matrix(
    trained: Bundle, capsys: pytest.CaptureFixture[str], split: str | None
) -> None:
    dataset = Dataset("data")
    photos = dataset.split(split) if split else dataset.photos
    sentences = trained.encode_sentences(sentences_of(photos).texts)
    images = trained.encode_images([dataset.path_of(photo) for photo in photos])
    np.save("photos.npy", images @ sentences.T)
    np.save("sentences.npy", sentences @ sentences.T)
    where = ["--data", "data", *(["--split", split] if split else [])]
    for task, matrix in (("retrieval", "photos.npy"), ("sentences", "sentences.npy")):
        by_model = evaluated(capsys, task, "--model", "cca.model", *where)
        by_matrix = evaluated(capsys, task, "--scores", matrix, *where)
        assert (by_model.pop("model"), by_matrix.pop("model")) == ("cca.model", matrix)
        assert by_model == by_matrix
        assert by_model["n"] == len(photos)


def test_a_model_may_be_compared_with_a_model_or_a_matrix(trained: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    poor = fit_cca(Dataset("data"), SMALL).bundle
    poor.model.x_projection_ = poor.model.x_projection_[::-1].copy()  # red is taken for blue
    poor.save("poor.model")
    asked = ("retrieval", "--data", "data", "--split", "dev")
    good = evaluated(capsys, *asked, "--model", "cca.model", "--against", "poor.model")
    alone = evaluated(capsys, *asked, "--model", "poor.model")
    assert good["difference"]["t2i_r5"]["difference"] == pytest.approx(good["t2i_r5"] - alone["t2i_r5"])
    assert good["difference"]["t2i_r5"]["difference"] > 0
    dev = Dataset("data").split("dev")
    zeros = np.zeros((len(dev), len(sentences_of(dev).texts)), dtype=np.float32)
    np.save("zeros.npy", zeros)
    by_zeros = evaluated(capsys, *asked, "--model", "cca.model", "--against", "zeros.npy")
    assert by_zeros["difference"]["t2i_r5"]["difference"] == pytest.approx(good["t2i_r5"])
    the_other_way = evaluated(capsys, *asked, "--scores", "zeros.npy", "--against", "cca.model")
    assert the_other_way["difference"]["t2i_r5"]["difference"] == pytest.approx(-good["t2i_r5"])


def test_a_model_is_scored_where_the_photos_are_now(trained: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    Path("images").rename("moved")
    asked = ("retrieval", "--model", "cca.model", "--data", "data", "--split", "dev")
    assert "images: no such folder; say where the photos are now with --images DIR" in refusal(capsys, *asked)
    assert evaluated(capsys, *asked, "--images", "moved")["n"] == 8


def test_imported_features_may_lie_elsewhere(trained: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
    np.savez("theirs.npz", ids=[f"{number:04d}" for number in range(24)], features=rows)
    assert _run(["features", "data", "--import", "theirs.npz", "--out", "theirs"]) == 0
    settings = ["--set", "features=theirs", "--set", "components=2"]
    assert _run(["train", "cca", "--data", "data", *settings, "--out", "theirs.model"]) == 0
    capsys.readouterr()
    asked = ("retrieval", "--model", "theirs.model", "--data", "data", "--split", "dev")
    assert "say where they are with --features DIR" in refusal(capsys, *asked)
    both = evaluated(capsys, *asked, "--features", "theirs", "--against", "cca.model")
    assert "t2i_r1" in both["difference"]


def test_a_photo_that_cannot_be_read_is_one_line(trained: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    Path("images/0008.png").write_bytes(b"no photo")
    assert "1 of 8 photos have no features, the first: " in refusal(
        capsys, "retrieval", "--model", "cca.model", "--data", "data", "--split", "dev"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["retrieval", "--data", "data"], "give one of --scores FILE.npy and --model DIR"),
        (["retrieval", "--data", "data", "--scores", "a.npy", "--model", "b"], "give one of --scores FILE.npy and"),
        (["retrieval", "--data", "data", "--model", "nowhere"], "nowhere: no such directory, and no model comes with"),
        (["retrieval", "--data", "data", "--model", "data"], "data: no model here"),
        (["retrieval", "--data", "data", "--scores", "cca.model"], "cca.model: Is a directory"),
        (["retrieval", "--captions-per-photo", "5", "--model", "cca.model"], "a model is scored on the photos and"),
        (["retrieval", "--model", "cca.model"], "give --data DATA, or --captions-per-photo N"),
        (["sentences", "--data", "data"], "give one of --scores FILE.npy and --model DIR"),
    ],
)
def test_systems_that_cannot_be_scored_are_one_line(
    trained: Bundle, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in refusal(capsys, *arguments)


@pytest.fixture
def pointing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """Photos of four coloured quarters in ./data, and in ./points.model what was learned of their phrases."""
    monkeypatch.chdir(tmp_path)
    use_small_encoders(monkeypatch)
    learning = Learning(learn="phrases", top=4)
    bundle = fit_cca(make_quarters(tmp_path), replace(SMALL, components=3), learning).bundle
    bundle.save("points.model")
    return bundle


GROUNDING = ("grounding", "--data", "data", "--split", "dev")


def test_a_model_points_as_its_own_predictions_say(pointing: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    by_model = evaluated(capsys, *GROUNDING, "--model", "points.model", "--out", "said.jsonl")
    by_file = evaluated(capsys, *GROUNDING, "--predictions", "said.jsonl")
    assert (by_model.pop("model"), by_file.pop("model")) == ("points.model", "said.jsonl")
    assert by_model == by_file
    assert by_model["n"] == 16
    assert by_model["upper_bound"] == 100
    assert by_model["r1"] == score_on_dev(pointing, Dataset("data")).scores["r1"] > 25


def test_phrases_are_ranked_over_all_photos_where_that_is_asked_for(
    pointing: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*GROUNDING, "--model", "points.model")
    plain, found = evaluated(capsys, *asked), evaluated(capsys, *asked, "--all-photos")
    dataset = Dataset("data")
    seen = seen_photos(pointing, dataset, dataset.split("dev"), regions=True)
    direct = score_over_all_photos(pointing, seen, localization_items(dataset.split("dev")))
    there = found.pop("presence")
    assert there == json.loads(json.dumps(direct.presence.as_json()))
    precision = json.loads(json.dumps(direct.precision.as_json()))
    for name in ("ap", "ap_nms"):
        assert found[name] == precision[name] != plain[name]
        assert found["interval"][name] == precision["interval"][name]
    assert (plain["ranked_photos"], found["ranked_photos"]) == (pytest.approx(16 / len(direct.precision.by_phrase)), 8)
    for phrase, row in precision["by_phrase"].items():
        mixed = found["by_phrase"][phrase]
        assert (mixed["ap"], mixed["interval"]["ap"]) == (row["ap"], row["interval"]["ap"])
        assert (mixed["r1"], mixed["interval"]["r1"]) == (
            plain["by_phrase"][phrase]["r1"],
            plain["by_phrase"][phrase]["interval"]["r1"],
        )
    changed = {"ap", "ap_nms", "macro_ap", "macro_ap_nms", "by_type", "by_phrase", "interval", "ranked_photos"}
    for name in plain.keys() - changed:
        assert found[name] == plain[name]
    assert _run(["evaluate", *asked, "--all-photos"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"presence in all photos", shown)
    assert re.search(r"pooled_roc +│ +[\d.]+ │ +[\d.]+ – [\d.]+", shown)


def test_pointing_may_be_compared_with_a_model_or_a_file(pointing: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    fit_cca(Dataset("data"), SMALL).bundle.save("whole.model")  # has learned from sentences, and points all the same
    found = evaluated(capsys, *GROUNDING, "--model", "points.model", "--out", "said.jsonl", "--against", "points.model")
    assert found["difference"]["r1"]["difference"] == 0
    whole = evaluated(capsys, *GROUNDING, "--predictions", "said.jsonl", "--against", "whole.model")
    assert "r1" in whole["difference"]


def test_regions_are_scored_with_a_model(pointing: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = Dataset("data")
    gold = regions_of(dataset.split("dev"))
    seen = seen_photos(pointing, dataset, dataset.split("dev"))
    visual = [
        pointing.model.prepare_visual(seen.region_vectors(seen.photos.ids[photo], np.array([box])))[0]
        for box, photo in zip(gold.boxes, gold.photo_of_region, strict=True)
    ]
    np.save("r.npy", np.stack(visual) @ pointing.encode_sentences(gold.phrases).T)
    asked = ("regions", "--data", "data", "--split", "dev")
    by_model = evaluated(capsys, *asked, "--model", "points.model", "--against", "r.npy")
    by_matrix = evaluated(capsys, *asked, "--scores", "r.npy")
    assert by_model["r5"] == by_matrix["r5"] > 0
    assert by_model["difference"]["r5"]["difference"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of --predictions FILE and --model DIR"),
        (["--model", "points.model", "--predictions", "a"], "give one of --predictions FILE and --model DIR"),
        (["--predictions", "a.jsonl", "--out", "b.jsonl"], "--out: there is nothing to write without --model"),
        (["--model", "data"], "data: no model here"),
        (["--predictions", "a.jsonl", "--all-photos"], "--all-photos: scores one model; give --model DIR, and no"),
        (["--model", "points.model", "--against", "a.jsonl", "--all-photos"], "--all-photos: scores one model"),
    ],
)
def test_what_cannot_point_is_one_line(
    pointing: Bundle, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert _run(["evaluate", *GROUNDING, *arguments]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if not line.endswith("…")]
    assert len(said) == 1
    assert words in said[0]


@pytest.mark.parametrize("model", ["two-branch", "similarity"])
def test_networks_are_scored_from_their_run_directories(
    pointing: Bundle, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    settings = ["epochs=1", "device=cpu", "hidden=8", "dimension=4"]
    settings += ["reader=lstm", "word_size=4", "text_hidden=4"] if model == "two-branch" else []
    assert _run(["train", model, "--data", "data", *(word for each in settings for word in ("--set", each))]) == 0
    capsys.readouterr()
    where = ("--model", f"{model}.model", "--data", "data", "--split", "dev")
    assert evaluated(capsys, "retrieval", *where, "--against", "points.model")["n"] == 8
    assert evaluated(capsys, "grounding", *where, "--all-photos")["presence"]["photos"] == 8
    if model == "similarity":
        assert "not sentences with each other" in refusal(capsys, "sentences", *where)
    else:
        assert evaluated(capsys, "sentences", *where)["n"] == 8
