"""Queries made from photos with captions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES
from deixis.search.calibration import QueryBank
from deixis.search.collection import search_encoder
from deixis.search.encoder import PHOTO_MODEL
from deixis.search.trial import (
    KINDS,
    EncodedSplit,
    Relevance,
    Source,
    absent_trial_queries,
    encode_split,
    find_absent_texts,
    make_bank,
    make_trial,
)


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
    return encode_split(dataset, "dev", search_encoder(PHOTO_MODEL))


@pytest.fixture(scope="module")
def bank(encoded: EncodedSplit) -> QueryBank:
    return make_bank(
        [Source("samples", encoded, ["A giraffe eats leaves.", "Two dogs run."])], search_encoder(PHOTO_MODEL), 3
    )


def test_a_bank_has_the_captions_and_phrases_of_other_photos(encoded: EncodedSplit) -> None:
    encoder, texts = search_encoder(PHOTO_MODEL), ["A giraffe eats leaves.", "Two dogs run."]
    (source,) = [Source("samples", encoded, texts)]
    bank = make_bank([source], encoder, 100)
    reads = encoder.encode_sentences([*texts, "a giraffe", "leaves", "two dogs"])
    vectors = np.stack([read.vector for read in reads])
    assert bank.queries == len(vectors)
    expected = QueryBank.encode(vectors, bank.temperature)
    assert np.allclose(bank.scores(encoded.whole), expected.scores(encoded.whole), atol=1e-3)
    few, own = make_bank([source], encoder, 2), make_bank([Source("samples", encoded, [])], encoder, 100)
    assert few.queries == 2
    assert own.queries > len(vectors)
    # Photos are nearer to their own captions than to those of others.
    assert (own.scores(encoded.whole) > bank.scores(encoded.whole)).all()


def test_a_trial_has_queries_of_all_kinds(encoded: EncodedSplit, bank: QueryBank) -> None:
    source = Source("samples", replace(encoded, facts=[["a cat sleeping on a rug"]]), [])
    trial = make_trial(source, search_encoder(PHOTO_MODEL), bank, absent_texts=["an iceberg"])
    assert len(trial) == 4
    assert {query.kind for query in trial.queries} == set(KINDS)
    assert all(query.relevant[query.photo] for query in trial.queries if query.kind != "absent")
    assert not any(query.relevant.any() for query in trial.queries if query.kind == "absent")
    assert trial.alike.diagonal().all()
    assert np.allclose(trial.cosines.diagonal(), 1, atol=1e-4)


def test_absent_texts_have_a_word_that_no_caption_has(encoded: EncodedSplit) -> None:
    encoder, relevance = search_encoder(PHOTO_MODEL), Relevance(encoded.captions)
    absent, present = "A giraffe eats leaves.", encoded.captions[0][0]
    texts = find_absent_texts([absent, present], relevance, encoder, count=20, exclude=["a giraffe"])
    assert absent in texts
    assert "A giraffe" in texts  # its phrase; the single word is excluded
    assert "a giraffe" not in texts
    assert present not in texts
    assert all(relevance.has_absent_word(text) for text in texts)
    assert len(texts) > 20


def test_an_absent_query_has_no_relevant_photo(encoded: EncodedSplit, bank: QueryBank) -> None:
    (query,) = absent_trial_queries(search_encoder(PHOTO_MODEL).encode_sentences(["an iceberg"]), encoded, bank)
    assert (query.kind, query.relevant.any()) == ("absent", False)
    assert absent_trial_queries([], encoded, bank) == []


CAPTIONED = Relevance(
    [
        ["A brown dog runs through snow.", "A dog with a red collar."],
        ["A girl throws a ball.", "A child in a blue dress."],
        ["Two dogs play with a ball."],
    ]
)


@pytest.mark.parametrize(
    ("query", "phrases", "photos"),
    [
        ("a brown dog with a red collar", ["a brown dog", "a red collar"], [0]),  # words of all captions of a photo
        ("dogs", ["dogs"], [0, 2]),
        ("a kid", ["a kid"], [1]),  # a synonym
        ("dogs with a ball", ["dogs", "a ball"], [2]),
        ("a dog with a girl", ["a dog", "a girl"], []),
        ("a red dog runs through snow with a girl", ["a red dog", "a girl"], []),  # four of five words are there
        ("a brown dog runs fast", ["a brown dog"], [0]),  # two thirds of all words
        ("a black dog", ["a black dog"], []),
        ("a red collar", ["a red collar"], [0]),
        ("a red dog", ["a red dog"], []),  # not near each other
        ("two dogs", ["two dogs"], [2]),
        ("of the", ["of the"], []),
    ],
)
def test_photos_are_relevant_by_the_words_of_their_captions(query: str, phrases: list[str], photos: list[int]) -> None:
    assert CAPTIONED.of(query, phrases).nonzero()[0].tolist() == photos


def test_queries_are_made_of_captions_and_of_what_labels_say(encoded: EncodedSplit, bank: QueryBank) -> None:
    facts = [["a violin"], ["a violin", "two cats"], [], []]
    source = Source("samples", replace(encoded, facts=facts), [])
    trial = make_trial(source, search_encoder(PHOTO_MODEL), bank)
    labelled = [query.relevant.tolist() for query in trial.queries if query.kind == "word"]
    assert [True, True, False, False] in labelled


def test_absent_words_are_found() -> None:
    assert not CAPTIONED.with_word("elephant").any()
    assert CAPTIONED.has_absent_word("a dog and an elephant")
    assert not CAPTIONED.has_absent_word("a kid and the snow")
