"""`deixis evaluate` on files that anybody's system could have written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES
from deixis.evaluation.of_data import regions_of, sentences_of
from tests.conftest import Run


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
    # One box around two things is not one of them.
    assert (
        answer(
            deixis(
                "evaluate", "grounding", "--predictions", "gold.jsonl", "--data", data, "--protocol", "any", "--json"
            )
        )["r1"]
        < 100
    )


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
