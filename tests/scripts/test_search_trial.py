"""Probabilities that are fitted, on photos made up so that the right answer is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search_trial import (
    EncodedSplit,
    Relevance,
    TrialQuery,
    absent_trial_queries,
    assign_folds,
    calibration_error,
    cross_validate,
    encode_split,
    evaluate_queries,
    fit_calibration,
    logistic,
    make_absent_queries,
    make_queries,
    photo_likeness,
    read_absent_list,
    reliability,
)

from deixis.data.dataset import Dataset
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES
from deixis.errors import DatasetError
from deixis.search.calibration import Evidence
from deixis.search.collection import default_encoder
from deixis.search.encoder import WordStatistics

PHOTOS = 150


@pytest.fixture(scope="module")
def queries() -> list[TrialQuery]:
    """Scores of which those of the photo itself are higher; rare words where nothing is there."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(600):
        kind, photo = ("caption", "phrase", "absent")[number % 3], int(rng.integers(PHOTOS))
        relevant = np.zeros(PHOTOS, dtype=bool)
        if kind != "absent":
            relevant[photo] = True
        if kind == "phrase":
            relevant |= rng.random(PHOTOS) < 0.05
        scores = (rng.normal(0, 1, (PHOTOS, 1)) + 3 * relevant[:, None]).astype(np.float32)
        words = 5 if kind == "caption" else 1
        rarest, strange = (-9.0, 1.0) if kind == "absent" else (-5.0, 0.0)
        facts = WordStatistics(words, -4.0 * words - float(rng.random()), rarest, strange)
        made.append(TrialQuery(kind, photo, Evidence(scores[:, 0] / 10, scores / 10, scores, facts), relevant))
    return made


def likeness() -> tuple[np.ndarray, np.ndarray]:
    kinds = np.arange(PHOTOS) % 10
    alike = kinds[:, None] == kinds
    return (0.3 + 0.5 * alike).astype(np.float32), alike


def test_the_logistic_regression_recovers_the_true_weights() -> None:
    rng = np.random.default_rng(1)
    rows = np.concatenate([np.ones((20_000, 1)), rng.normal(3, 2, (20_000, 2))], axis=1)
    truth = np.array([0.5, 1.0, -1.5])
    answers = rng.random(20_000) < 1 / (1 + np.exp(-rows @ truth))
    assert np.allclose(logistic(rows.astype(np.float32), answers, ridge=0.0), truth, atol=0.1)


def test_probabilities_of_held_out_queries_are_calibrated(queries: list[TrialQuery]) -> None:
    results = []

    def on_fold(fold, calibration, left_out):  # type: ignore[no-untyped-def]
        results.append(evaluate_queries(calibration, [query for query in queries if left_out[query.photo]], "all"))

    cross_validate(queries, likeness(), "7f", on_fold)
    predicted = np.concatenate([each.probabilities for each in results])
    true = np.concatenate([each.correct for each in results])
    assert len(results) == 5
    assert calibration_error(predicted, true) < 0.08
    assert predicted.max() > 0.8


def test_captions_find_more_than_absent_queries(queries: list[TrialQuery]) -> None:
    calibration = fit_calibration(queries, likeness(), np.ones(PHOTOS, dtype=bool), "7f")
    found = {
        kind: evaluate_queries(calibration, [query for query in queries if query.kind == kind], kind).found.mean()
        for kind in ("caption", "absent")
    }
    assert found["caption"] >= 0.9
    assert found["absent"] < 0.5
    assert (
        calibration.similarity_logits(np.array([0.8]), PHOTOS)[0]
        > 0
        > calibration.similarity_logits(np.array([0.3]), PHOTOS)[0]
    )


def test_queries_without_a_known_word_find_nothing(queries: list[TrialQuery]) -> None:
    calibration = fit_calibration(queries, likeness(), np.ones(PHOTOS, dtype=bool), "7f")
    results = evaluate_queries(calibration, [replace(query, is_unknown=True) for query in queries], "all")
    assert not results.found.any()
    assert len(results.probabilities) == 0


def test_the_calibration_error_is_the_distance_of_probability_and_truth() -> None:
    predicted, true = np.array([0.2, 0.2, 0.9, 0.9]), np.array([False, False, True, True])
    assert calibration_error(predicted, true, bins=2) == pytest.approx(0.15)
    assert reliability(predicted, true, bins=2) == [(0.2, 0.0, 0.5), (0.9, 1.0, 0.5)]


def test_folds_are_of_equal_size_and_reproducible() -> None:
    assert np.bincount(assign_folds(100)).tolist() == [20] * 5
    assert (assign_folds(100) == assign_folds(100)).all()


CAPTIONED = Relevance(
    [
        ["A brown dog runs through snow.", "A dog with a red collar."],
        ["A girl throws a ball.", "A child in a blue dress."],
        ["Two dogs play with a ball."],
    ]
)


def shows(query: str, *phrases: str) -> list[int]:
    return CAPTIONED.of(query, phrases or (query,)).nonzero()[0].tolist()


def test_words_of_all_captions_of_a_photo_count() -> None:
    assert shows("a brown dog with a red collar", "a brown dog", "a red collar") == [0]


def test_plurals_and_synonyms_match() -> None:
    assert shows("dogs") == [0, 2]
    assert shows("a kid") == [1]


def test_every_object_must_be_mentioned() -> None:
    assert shows("dogs with a ball", "dogs", "a ball") == [2]
    assert shows("a dog with a girl", "a dog", "a girl") == []
    assert shows("a red dog runs through snow with a girl", "a red dog", "a girl") == []  # four of five words are there


def test_two_thirds_of_all_words_are_enough() -> None:
    assert shows("a brown dog runs fast", "a brown dog") == [0]
    assert shows("a black dog") == []


def test_a_query_without_words_is_shown_by_none() -> None:
    assert shows("of the") == []
    assert not CAPTIONED.with_word("elephant").any()


LIST = Path(__file__).parents[2] / "benchmarks" / "absent_queries.txt"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("trial")
    names = sorted(path.stem for path in (SAMPLES / "images").glob("*.jpg"))
    for split, part in (("dev", names[:4]), ("train", names[4:6])):
        (folder / f"{split}.txt").write_text("\n".join(part))
    splits = {split: folder / f"{split}.txt" for split in ("dev", "train")}
    import_dataset(folder / "data", images=SAMPLES / "images", entities=SAMPLES / "entities", splits=splits)
    return Dataset(folder / "data")


@pytest.fixture(scope="module")
def encoded(dataset: Dataset) -> EncodedSplit:
    return encode_split(dataset, "dev", default_encoder())


def test_evidence_equals_that_of_an_index(encoded: EncodedSplit) -> None:
    encoder = default_encoder()
    reads = encoder.encode_sentences(["a cat with green eyes", "coffee"])
    regions = np.split(encoded.regions, encoded.starts[1:])
    for read, found in zip(reads, encoded.evidence(reads), strict=True):
        expected = Evidence.collect(read, encoded.whole, regions)
        assert np.allclose(found.whole, expected.whole, atol=1e-5)
        assert np.allclose(found.phrases, expected.phrases, atol=1e-5)
        assert np.allclose(found.regions, expected.regions, atol=1e-3)


def test_captions_and_phrases_are_shown_by_their_own_photos(encoded: EncodedSplit) -> None:
    queries = make_queries(encoded, Relevance(encoded.captions), default_encoder(), every=1)
    assert {query.kind for query in queries} == {"caption", "phrase"}
    assert all(query.relevant[query.photo] for query in queries)
    cosines, alike = photo_likeness(encoded, queries)
    assert alike.diagonal().all()
    assert np.allclose(cosines.diagonal(), 1, atol=1e-4)


def test_absent_queries_are_shown_by_no_photo(dataset: Dataset, encoded: EncodedSplit) -> None:
    relevance = Relevance(encoded.captions)
    queries = make_absent_queries(dataset, "train", encoded, relevance, default_encoder(), count=20)
    assert len(queries) > 20
    assert not any(query.relevant.any() for query in queries)
    assert absent_trial_queries(default_encoder().encode_sentences(["an iceberg"]), encoded)[0].kind == "absent"


def test_an_absent_list_must_not_name_objects_in_captions(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("# things\n\na red giraffe | giraffe\na power line | power line\n")
    assert read_absent_list(file, [["A power plant.", "A line."]]) == ["a red giraffe", "a power line"]
    with pytest.raises(DatasetError, match="line 3: .*'giraffe'"):
        read_absent_list(file, [["Two giraffes."]])
    file.write_text("a giraffe\n")
    with pytest.raises(DatasetError, match="line 1 "):
        read_absent_list(file, [])


def test_the_list_of_the_benchmarks_has_two_hundred_queries() -> None:
    texts = read_absent_list(LIST, [])
    assert len(texts) == len(set(texts)) == 200
