"""`deixis evaluate` on score matrices, predictions and models."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.evaluate import _print_groups
from deixis.cli.main import _run
from deixis.data.dataset import Dataset
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES
from deixis.evaluation.items import localization_items, regions_of, sentences_of
from deixis.models.pipeline import Pipeline
from deixis.models.training.data import MatchingDataSettings
from deixis.vision import encoders
from tests.conftest import Run
from tests.models.coloured import SMALL, fit_cca, make_coloured
from tests.models.quarters import make_quarters, use_small_encoders
from tests.vision.feature_store.small import colour_encoder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("samples") / "data"
    import_dataset(out, images=SAMPLES / "images", entities=SAMPLES / "entities")
    return out


def answer(done) -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_perfect_matrix_scores_100_and_a_constant_one_0(deixis: Run, data: Path, tmp_path: Path) -> None:
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
    assert bad["i2t_r10"] == bad["t2i_r1"] == 0  # ties count as wrong
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


def test_grounding_is_scored_with_the_blind_baseline(deixis: Run, data: Path, tmp_path: Path) -> None:
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
    # The union of two boxes is neither of them.
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
        "a very long phrase that has to be cut somewhere in the table [/b]": {
            **common,
            "interval": {"r1": [100.0, 100.0]},
        },
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


def test_captions_in_the_coco_results_format_are_scored(deixis: Run, data: Path, tmp_path: Path) -> None:
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
    assert len([line for line in done.stderr.strip().splitlines() if not line.endswith("…")]) == 1


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Small photos in ./data, and a model trained on them in ./cca.model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    pipeline = fit_cca(make_coloured(tmp_path), SMALL)
    pipeline.save_pretrained("cca.model")
    return pipeline


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert _run(["evaluate", *arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert _run(["evaluate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("split", ["dev", None])
def test_a_model_gets_the_scores_of_its_matrix(
    trained: Pipeline, capsys: pytest.CaptureFixture[str], split: str | None
) -> None:
    dataset = Dataset("data")
    photos = dataset.split(split) if split else dataset.photos
    sentences = trained.encode_sentences(sentences_of(photos).texts)
    images = trained.encode_images([dataset.path_of(photo) for photo in photos])
    np.save("photos.npy", images @ sentences.T)
    np.save("sentences.npy", sentences @ sentences.T)
    options = ["--data", "data", *(["--split", split] if split else [])]
    for task, matrix in (("retrieval", "photos.npy"), ("sentences", "sentences.npy")):
        by_model = run_json(capsys, task, "--model", "cca.model", *options)
        by_matrix = run_json(capsys, task, "--scores", matrix, *options)
        assert (by_model.pop("model"), by_matrix.pop("model")) == ("cca.model", matrix)
        assert by_model == by_matrix
        assert by_model["n"] == len(photos)


def test_a_model_is_compared_with_a_model_or_a_matrix(trained: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    poor = fit_cca(Dataset("data"), SMALL)
    poor.model.x_projection_ = poor.model.x_projection_[::-1].copy()  # red is taken for blue
    poor.save_pretrained("poor.model")
    arguments = ("retrieval", "--data", "data", "--split", "dev")
    good = run_json(capsys, *arguments, "--model", "cca.model", "--against", "poor.model")
    alone = run_json(capsys, *arguments, "--model", "poor.model")
    assert good["difference"]["t2i_r5"]["difference"] == pytest.approx(good["t2i_r5"] - alone["t2i_r5"])
    assert good["difference"]["t2i_r5"]["difference"] > 0
    dev = Dataset("data").split("dev")
    zeros = np.zeros((len(dev), len(sentences_of(dev).texts)), dtype=np.float32)
    np.save("zeros.npy", zeros)
    by_zeros = run_json(capsys, *arguments, "--model", "cca.model", "--against", "zeros.npy")
    assert by_zeros["difference"]["t2i_r5"]["difference"] == pytest.approx(good["t2i_r5"])
    reversed_ = run_json(capsys, *arguments, "--scores", "zeros.npy", "--against", "cca.model")
    assert reversed_["difference"]["t2i_r5"]["difference"] == pytest.approx(-good["t2i_r5"])


def test_images_names_the_moved_photo_folder(trained: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    Path("images").rename("moved")
    arguments = ("retrieval", "--model", "cca.model", "--data", "data", "--split", "dev")
    assert "--images DIR" in error_of(capsys, *arguments)
    assert run_json(capsys, *arguments, "--images", "moved")["n"] == 8


def test_features_names_another_feature_directory(trained: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
    np.savez("theirs.npz", ids=[f"{number:04d}" for number in range(24)], features=rows)
    assert _run(["features", "data", "--import", "theirs.npz", "--out", "theirs"]) == 0
    settings = ["--set", "features_dir=theirs", "--set", "embedding_dim=2"]
    assert _run(["train", "cca", "--data", "data", *settings, "--out", "theirs.model"]) == 0
    capsys.readouterr()
    arguments = ("retrieval", "--model", "theirs.model", "--data", "data", "--split", "dev")
    assert "--features DIR" in error_of(capsys, *arguments)
    both = run_json(capsys, *arguments, "--features", "theirs", "--against", "cca.model")
    assert "t2i_r1" in both["difference"]


def test_an_unreadable_photo_is_an_error(trained: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    Path("images/0008.png").write_bytes(b"no photo")
    assert "1 of 8 photos" in error_of(capsys, "retrieval", "--model", "cca.model", "--data", "data", "--split", "dev")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["retrieval", "--data", "data"], "--model DIR"),
        (["retrieval", "--data", "data", "--scores", "a.npy", "--model", "b"], "--model DIR"),
        (["retrieval", "--data", "data", "--model", "nowhere"], "nowhere: "),
        (["retrieval", "--data", "data", "--model", "data"], "data: "),
        (["retrieval", "--data", "data", "--scores", "cca.model"], "cca.model: "),
        (["retrieval", "--captions-per-photo", "5", "--model", "cca.model"], "cca.model: "),
        (["retrieval", "--model", "cca.model"], "--captions-per-photo N"),
        (["sentences", "--data", "data"], "--model DIR"),
    ],
)
def test_errors_name_the_option_or_the_file(
    trained: Pipeline, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in error_of(capsys, *arguments)


@pytest.fixture
def grounding_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Photos with coloured quarters in ./data, and a model of their phrases in ./phrases.model."""
    monkeypatch.chdir(tmp_path)
    use_small_encoders(monkeypatch)
    settings = MatchingDataSettings(train_on="phrases", max_proposals=4)
    pipeline = fit_cca(make_quarters(tmp_path), replace(SMALL, embedding_dim=3), settings)
    pipeline.save_pretrained("phrases.model")
    return pipeline


GROUNDING = ("grounding", "--data", "data", "--split", "dev")


def test_a_model_and_its_written_predictions_have_the_same_scores(
    grounding_model: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    by_model = run_json(capsys, *GROUNDING, "--model", "phrases.model", "--out", "predictions.jsonl")
    by_file = run_json(capsys, *GROUNDING, "--predictions", "predictions.jsonl")
    assert (by_model.pop("model"), by_file.pop("model")) == ("phrases.model", "predictions.jsonl")
    assert by_model == by_file
    assert by_model["n"] == 16
    assert by_model["upper_bound"] == 100
    assert by_model["r1"] > 25


def test_all_photos_ranks_phrases_over_the_regions_of_all_photos(
    grounding_model: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (*GROUNDING, "--model", "phrases.model")
    plain, found = run_json(capsys, *arguments), run_json(capsys, *arguments, "--all-photos")
    dataset = Dataset("data")
    features = grounding_model.features(dataset, dataset.split("dev"), regions=True)
    direct = grounding_model.search_phrases(features, localization_items(dataset.split("dev")))
    assert found.pop("presence") == json.loads(json.dumps(direct.presence.as_json()))
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
    assert _run(["evaluate", *arguments, "--all-photos"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"presence in all photos", shown)
    assert re.search(r"pooled_roc +│ +[\d.]+ │ +[\d.]+ – [\d.]+", shown)


def test_grounding_is_compared_with_a_model_or_a_file(
    grounding_model: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    fit_cca(Dataset("data"), SMALL).save_pretrained("sentences.model")  # models of sentences can ground too
    found = run_json(
        capsys, *GROUNDING, "--model", "phrases.model", "--out", "predictions.jsonl", "--against", "phrases.model"
    )
    assert found["difference"]["r1"]["difference"] == 0
    other = run_json(capsys, *GROUNDING, "--predictions", "predictions.jsonl", "--against", "sentences.model")
    assert "r1" in other["difference"]


def test_regions_are_scored_with_a_model(grounding_model: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = Dataset("data")
    gold = regions_of(dataset.split("dev"))
    features = grounding_model.features(dataset, dataset.split("dev"))
    visual = [
        grounding_model.model.prepare_visual(features.region_vectors(features.photos.ids[photo], np.array([box])))[0]
        for box, photo in zip(gold.boxes, gold.photo_of_region, strict=True)
    ]
    np.save("r.npy", np.stack(visual) @ grounding_model.encode_sentences(gold.phrases).T)
    arguments = ("regions", "--data", "data", "--split", "dev")
    by_model = run_json(capsys, *arguments, "--model", "phrases.model", "--against", "r.npy")
    by_matrix = run_json(capsys, *arguments, "--scores", "r.npy")
    assert by_model["r5"] == by_matrix["r5"] > 0
    assert by_model["difference"]["r5"]["difference"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--model DIR"),
        (["--model", "phrases.model", "--predictions", "a"], "--model DIR"),
        (["--predictions", "a.jsonl", "--out", "b.jsonl"], "--out: "),
        (["--model", "data"], "data: "),
        (["--predictions", "a.jsonl", "--all-photos"], "--all-photos: "),
        (["--model", "phrases.model", "--against", "a.jsonl", "--all-photos"], "--all-photos: "),
    ],
)
def test_grounding_errors_name_the_option_or_the_file(
    grounding_model: Pipeline, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert _run(["evaluate", *GROUNDING, *arguments]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if not line.endswith("…")]
    assert words in line


@pytest.mark.parametrize("model", ["two-branch", "similarity"])
def test_networks_are_scored_from_their_run_directories(
    grounding_model: Pipeline, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    settings = ["epochs=1", "device=cpu", "hidden_size=8", "embedding_dim=4"]
    settings += ["text_encoder=lstm", "word_dim=4", "text_hidden_size=4"] if model == "two-branch" else []
    assert _run(["train", model, "--data", "data", *(word for each in settings for word in ("--set", each))]) == 0
    capsys.readouterr()
    options = ("--model", f"{model}.model", "--data", "data", "--split", "dev")
    assert run_json(capsys, "retrieval", *options, "--against", "phrases.model")["n"] == 8
    assert run_json(capsys, "grounding", *options, "--all-photos")["presence"]["photos"] == 8
    if model == "similarity":
        assert "(sentences)" in error_of(capsys, "sentences", *options)
    else:
        assert run_json(capsys, "sentences", *options)["n"] == 8
