"""`deixis evaluate` on score matrices, predictions and models."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.evaluation.items import localization_items, regions_of, sentences_of
from deixis.models.evaluation import search_phrases
from deixis.models.pipeline import Pipeline
from deixis.models.training.data import MatchingDataSettings
from deixis.vision import encoders
from tests.cli.conftest import Command
from tests.models.coloured import SMALL, fit_cca, make_coloured
from tests.models.quarters import make_quarters, use_small_encoders
from tests.vision.feature_store.small import colour_encoder


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_perfect_matrix_scores_100_and_a_constant_one_0(samples: Path, command: Command) -> None:
    owners = np.array(sentences_of(Dataset(samples).photos).photo_of_sentence)
    perfect = (owners[None, :] == np.arange(owners.max() + 1)[:, None]).astype(np.float32)
    np.save("good.npy", perfect)
    np.save("bad.npy", np.zeros_like(perfect))
    arguments = ("evaluate", "retrieval", "--scores", "good.npy", "--data", samples, "--against", "bad.npy")
    found = command.json(*arguments)
    assert found["task"] == "retrieval"
    assert (found["i2t_r1"], found["t2i_r10"], found["i2t_medr"]) == (100, 100, 1)
    assert found["n"] == len(Dataset(samples).photos)
    assert found["interval"]["i2t_r1"] == [100, 100]
    assert found["difference"]["i2t_r1"]["difference"] == 100
    assert found["difference"]["i2t_r1"]["p"] < 0.05
    bad = command.json("evaluate", "retrieval", "--scores", "bad.npy", "--captions-per-photo", 5)
    assert bad["i2t_r10"] == bad["t2i_r1"] == 0  # ties count as wrong
    alone = command.json("evaluate", "retrieval", "--scores", "bad.npy", "--data", samples, "--folds", found["n"])
    assert alone["i2t_r1"] == alone["t2i_r1"] == 100
    out, _ = command(*arguments)
    assert "i2t_r1" in out
    assert "+100.00" in out


def test_sentences_and_regions_are_scored_from_matrices(samples: Path, command: Command) -> None:
    owners = np.array(sentences_of(Dataset(samples).photos).photo_of_sentence)
    np.save("s.npy", (owners[:, None] == owners[None, :]).astype(np.float32))
    assert command.json("evaluate", "sentences", "--scores", "s.npy", "--data", samples)["s2s_r1"] == 100
    gold = regions_of(Dataset(samples).photos)
    matrix = np.zeros((len(gold.boxes), len(gold.phrases)), dtype=np.float32)
    matrix[tuple(np.array(gold.positives).T)] = 1
    np.save("r.npy", matrix)
    found = command.json("evaluate", "regions", "--scores", "r.npy", "--data", samples)
    assert (found["r1"], found["medr"]) == (100, 1)


def predictions(data: Path, shift: float) -> list[str]:
    """The union of the gold boxes of each phrase, shifted, as JSON lines."""
    lines = []
    for photo in Dataset(data).photos:
        for number, caption in enumerate(photo.captions):
            for mention in caption.mentions:
                boxes = photo.boxes_of(mention.chain) if mention.chain else ()
                if boxes:
                    x1, y1 = (min(box.xyxy[i] for box in boxes) + shift for i in (0, 1))
                    x2, y2 = (max(box.xyxy[i] for box in boxes) + shift for i in (2, 3))
                    line = {"photo": photo.id, "caption": number, "span": [mention.start, mention.end]}
                    lines.append(json.dumps({**line, "boxes": [[x1, y1, x2, y2]], "scores": [0.5]}) + "\n")
    return lines


def test_grounding_is_scored_with_the_blind_baseline(samples: Path, command: Command) -> None:
    Path("gold.jsonl").write_text("".join(predictions(samples, 0)))
    Path("off.jsonl").write_text("".join(predictions(samples, 60)))
    evaluate = ("evaluate", "grounding", "--data", samples, "--predictions")
    found = command.json(*evaluate, "gold.jsonl", "--against", "off.jsonl")
    assert found["r1"] == found["upper_bound"] == found["macro_r1"] == 100
    assert 0 < found["blind_r1"] < 100
    assert found["protocol"] == "union"
    assert set(found["by_type"]) >= {"people", "animals", "other"}
    assert found["difference"]["r1"]["difference"] > 0
    scores = {"r1", "r5", "r10", "r5_nms", "r10_nms", "upper_bound", "ap", "ap_nms"}
    scores |= {"macro_r1", "macro_ap", "macro_ap_nms"}
    assert set(found["difference"]) == scores
    assert set(found["interval"]) == scores | {"blind_r1", "blind_single_r1"}
    people = found["by_type"]["people"]
    assert set(people["interval"]) == {"r1", "r5", "r10", "upper_bound", "ap", "ap_nms"}
    assert people["interval"]["r1"] == [100, 100]
    # The union of two boxes is neither of them.
    assert command.json(*evaluate, "gold.jsonl", "--protocol", "any")["r1"] < 100
    out, _ = command(*evaluate, "off.jsonl")
    assert re.search(r"\bap\b\D+[\d.]+\D+[\d.]+ – [\d.]+", out)
    assert re.search(r"│ people +│ +\d+ │ +\d+ │ +[\d.]+ \[[\d.]+, [\d.]+\] │", out)


def test_a_missing_phrase_is_an_error_unless_it_counts_as_wrong(samples: Path, command: Command) -> None:
    lines = predictions(samples, 0)
    Path("p.jsonl").write_text("".join(lines[1:]))
    evaluate = ("evaluate", "grounding", "--predictions", "p.jsonl", "--data", samples)
    command.error(*evaluate)
    found = command.json(*evaluate, "--missing-as-wrong")
    assert found["missing"] == 1
    assert found["r1"] == pytest.approx(100 * (1 - 1 / len(lines)))


def test_captions_in_the_coco_results_format_are_scored(samples: Path, command: Command) -> None:
    photos = Dataset(samples).photos

    def scores(captions: list[str]) -> dict:
        results = [{"image_id": photo.id, "caption": text} for photo, text in zip(photos, captions, strict=True)]
        Path("results.json").write_text(json.dumps(results))
        return command.json("evaluate", "captions", "--predictions", "results.json", "--data", samples)

    found = scores([photo.captions[0].text for photo in photos])
    assert found["bleu1"] == pytest.approx(100)
    assert found["rouge_l"] == pytest.approx(100)
    assert found["cider"] > 100
    assert found["novel"] < 100
    found = scores(["zzz qqq"] * len(photos))
    assert found["cider"] == found["rouge_l"] == 0
    assert found["novel"] == 100
    assert set(found["interval"]) == {name for name, value in found.items() if isinstance(value, float)}
    assert found["distinct_sentences"] == 1
    assert found["interval"]["distinct_1"][0] <= found["distinct_1"] <= found["interval"]["distinct_1"][1]


def test_boxes_of_nested_phrases_lie_in_those_of_the_longer_ones(samples: Path, command: Command) -> None:
    nested = ("evaluate", "grounding", "--data", samples, "--protocol", "nested")
    found = command.json(*nested, "--model", "grounder", "--out", "nested.jsonl")
    assert found["n"] > 10
    assert found["contained"] > found["other_contained"]
    assert found["protocol"].startswith("nested")
    again = command.json(*nested, "--predictions", "nested.jsonl", "--against", "nested.jsonl")
    assert again["contained"] == pytest.approx(found["contained"], abs=0.01)
    assert again["difference"]["contained"]["difference"] == 0
    assert "--protocol nested" in command.error(*nested, "--predictions", "nested.jsonl", "--missing-as-wrong")


PHRASE = '{"photo":"nobody","caption":0,"span":[0,1],"boxes":[[0,0,1,1]],"scores":[1]}'


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        ("retrieval", "not numpy", "output"),
        ("grounding", '{"photo": "nobody"', "output"),
        ("grounding", PHRASE, "nobody"),
        ("captions", '[{"image_id": "nobody", "caption": "A dog"}]', "nobody"),
        ("captions", "{}", "output"),
    ],
)
def test_bad_files_are_named_in_one_line(samples: Path, command: Command, task: str, text: str, words: str) -> None:
    Path("output").write_text(text)
    option = "--scores" if task == "retrieval" else "--predictions"
    assert words in command.error("evaluate", task, option, "output", "--data", samples)


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Small photos in ./data, and a model trained on them in ./cca.model."""
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    pipeline = fit_cca(make_coloured(tmp_path), SMALL)
    pipeline.save_pretrained("cca.model")
    return pipeline


RETRIEVAL = ("evaluate", "retrieval", "--data", "data", "--split", "dev")


@pytest.mark.parametrize("split", ["dev", None])
def test_a_model_gets_the_scores_of_its_matrix(trained: Pipeline, command: Command, split: str | None) -> None:
    dataset = Dataset("data")
    photos = dataset.split(split) if split else dataset.photos
    sentences = trained.encode_sentences(sentences_of(photos).texts)
    images = trained.encode_images([dataset.path_of(photo) for photo in photos])
    np.save("photos.npy", images @ sentences.T)
    np.save("sentences.npy", sentences @ sentences.T)
    options = ["--data", "data", *(["--split", split] if split else [])]
    for task, matrix in (("retrieval", "photos.npy"), ("sentences", "sentences.npy")):
        by_model = command.json("evaluate", task, "--model", "cca.model", *options)
        by_matrix = command.json("evaluate", task, "--scores", matrix, *options)
        assert (by_model.pop("model"), by_matrix.pop("model")) == ("cca.model", matrix)
        assert by_model == by_matrix
        assert by_model["n"] == len(photos)


def test_a_model_is_compared_with_a_model_or_a_matrix(trained: Pipeline, command: Command) -> None:
    poor = fit_cca(Dataset("data"), SMALL)
    poor.model.x_projection_ = poor.model.x_projection_[::-1].copy()  # red is taken for blue
    poor.save_pretrained("poor.model")
    dev = Dataset("data").split("dev")
    np.save("zeros.npy", np.zeros((len(dev), len(sentences_of(dev).texts)), dtype=np.float32))

    def difference(*arguments: str) -> float:
        return command.json(*RETRIEVAL, *arguments)["difference"]["t2i_r5"]["difference"]

    good, bad = (command.json(*RETRIEVAL, "--model", name)["t2i_r5"] for name in ("cca.model", "poor.model"))
    assert difference("--model", "cca.model", "--against", "poor.model") == pytest.approx(good - bad)
    assert good > bad
    assert difference("--model", "cca.model", "--against", "zeros.npy") == pytest.approx(good)
    assert difference("--scores", "zeros.npy", "--against", "cca.model") == pytest.approx(-good)


def test_images_names_the_moved_photo_folder(trained: Pipeline, command: Command) -> None:
    Path("images").rename("moved")
    assert "--images DIR" in command.error(*RETRIEVAL, "--model", "cca.model")
    assert command.json(*RETRIEVAL, "--model", "cca.model", "--images", "moved")["n"] == 8


def test_features_names_another_feature_directory(trained: Pipeline, command: Command) -> None:
    rows = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
    np.savez("theirs.npz", ids=[f"{number:04d}" for number in range(24)], features=rows)
    command("features", "data", "--import", "theirs.npz", "--out", "theirs")
    settings = ["--set", "features_dir=theirs", "--set", "embedding_dim=2"]
    command("train", "cca", "--data", "data", *settings, "--out", "theirs.model")
    assert "--features DIR" in command.error(*RETRIEVAL, "--model", "theirs.model")
    both = command.json(*RETRIEVAL, "--model", "theirs.model", "--features", "theirs", "--against", "cca.model")
    assert "t2i_r1" in both["difference"]


def test_an_unreadable_photo_is_an_error(trained: Pipeline, command: Command) -> None:
    Path("images/0008.png").write_bytes(b"no photo")
    assert "1 of 8 photos" in command.error(*RETRIEVAL, "--model", "cca.model")


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
    trained: Pipeline, command: Command, arguments: list[str], words: str
) -> None:
    assert words in command.error("evaluate", *arguments)


@pytest.fixture
def grounding_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Photos with coloured quarters in ./data, and a model of their phrases in ./phrases.model."""
    use_small_encoders(monkeypatch)
    settings = MatchingDataSettings(train_on="phrases", max_proposals=4)
    pipeline = fit_cca(make_quarters(tmp_path), replace(SMALL, embedding_dim=3), settings)
    pipeline.save_pretrained("phrases.model")
    return pipeline


GROUNDING = ("evaluate", "grounding", "--data", "data", "--split", "dev")


def test_a_model_and_its_written_predictions_have_the_same_scores(grounding_model: Pipeline, command: Command) -> None:
    by_model = command.json(*GROUNDING, "--model", "phrases.model", "--out", "predictions.jsonl")
    by_file = command.json(*GROUNDING, "--predictions", "predictions.jsonl")
    assert (by_model.pop("model"), by_file.pop("model")) == ("phrases.model", "predictions.jsonl")
    assert by_model == by_file
    assert by_model["n"] == 16
    assert by_model["upper_bound"] == 100
    assert by_model["r1"] > 25
    fit_cca(Dataset("data"), SMALL).save_pretrained("sentences.model")  # models of sentences can ground too
    same = command.json(*GROUNDING, "--model", "phrases.model", "--against", "predictions.jsonl")
    assert same["difference"]["r1"]["difference"] == 0
    other = command.json(*GROUNDING, "--predictions", "predictions.jsonl", "--against", "sentences.model")
    assert "r1" in other["difference"]


def test_all_photos_ranks_phrases_over_the_regions_of_all_photos(grounding_model: Pipeline, command: Command) -> None:
    arguments = (*GROUNDING, "--model", "phrases.model")
    plain, found = command.json(*arguments), command.json(*arguments, "--all-photos")
    dataset = Dataset("data")
    features = grounding_model.features(dataset, dataset.split("dev"), regions=True)
    ranked, presence = search_phrases(grounding_model, features, localization_items(dataset.split("dev")))
    assert found.pop("presence") == json.loads(json.dumps(presence.as_json()))
    precision = json.loads(json.dumps(ranked.as_json()))
    for name in ("ap", "ap_nms"):
        assert found[name] == precision[name] != plain[name]
        assert found["interval"][name] == precision["interval"][name]
    assert (plain["ranked_photos"], found["ranked_photos"]) == (pytest.approx(16 / len(ranked.by_phrase)), 8)
    for phrase, row in precision["by_phrase"].items():
        mixed, alone = found["by_phrase"][phrase], plain["by_phrase"][phrase]
        assert (mixed["ap"], mixed["interval"]["ap"]) == (row["ap"], row["interval"]["ap"])
        assert (mixed["r1"], mixed["interval"]["r1"]) == (alone["r1"], alone["interval"]["r1"])
    changed = {"ap", "ap_nms", "macro_ap", "macro_ap_nms", "by_type", "by_phrase", "interval", "ranked_photos"}
    for name in plain.keys() - changed:
        assert found[name] == plain[name]
    out, _ = command(*arguments, "--all-photos")
    assert "presence in all photos" in out
    assert re.search(r"pooled_roc +│ +[\d.]+ │ +[\d.]+ – [\d.]+", out)


def test_regions_are_scored_with_a_model(grounding_model: Pipeline, command: Command) -> None:
    dataset = Dataset("data")
    gold = regions_of(dataset.split("dev"))
    features = grounding_model.features(dataset, dataset.split("dev"))
    visual = [
        grounding_model.model.prepare_visual(features.region_vectors(features.photos.ids[photo], np.array([box])))[0]
        for box, photo in zip(gold.boxes, gold.photo_of_region, strict=True)
    ]
    np.save("r.npy", np.stack(visual) @ grounding_model.encode_sentences(gold.phrases).T)
    arguments = ("evaluate", "regions", "--data", "data", "--split", "dev")
    by_model = command.json(*arguments, "--model", "phrases.model", "--against", "r.npy")
    assert by_model["r5"] == command.json(*arguments, "--scores", "r.npy")["r5"] > 0
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
    grounding_model: Pipeline, command: Command, arguments: list[str], words: str
) -> None:
    assert words in command.error(*GROUNDING, *arguments)
