"""Grounding: by the shipped model in the sample photos, and by small models whose scores a plain loop can check."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from safetensors.numpy import save_file

import deixis
from deixis import geometry
from deixis.arrays import Floats, to_unit_length
from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.evaluation.items import localization_items, regions_of, sentences_of
from deixis.models.base import append_locations
from deixis.models.grounder.model import GrounderPipeline
from deixis.models.grounding import (
    ABSENT,
    BoxSet,
    EmbeddingPipeline,
    GroundedPhrase,
    Grounding,
    HubnessCorrection,
    PhraseScores,
    RegionPipeline,
    load_grounding_model,
)
from deixis.models.installed import SHIPPED
from deixis.models.matching.model import MatchingPipeline
from deixis.models.photo_features import PhotoFeatures, compute_features
from deixis.pictures.grounded import PhraseBoxes, draw_grounding
from deixis.storage.artifacts import HUBNESS, WEIGHTS, find_damage, fingerprint_artifact
from deixis.storage.checksums import BLOCK, CheckedFile, TensorFile
from deixis.vision.encoder import FeatureMap
from tests.models.coloured import fit_cca
from tests.models.quarters import QUARTERS
from tests.unchecked import without_checksums

CAT = SAMPLES / "images" / "cat.jpg"


@pytest.fixture(scope="module")
def grounder() -> RegionPipeline:
    return load_grounding_model()


def test_every_noun_phrase_gets_a_box_within_the_photo(grounder: RegionPipeline) -> None:
    found = grounder.ground(CAT, "A cat with green eyes looks at the camera.")
    assert [phrase.text for phrase in found.phrases] == ["A cat", "green eyes"]
    with Image.open(CAT) as photo:
        assert found.size == photo.size
    for phrase in found.phrases:
        assert found.sentence[slice(*phrase.span)] == phrase.text
        x1, y1, x2, y2 = phrase.box
        assert 0 <= x1 < x2 <= found.size[0] + 0.01
        assert 0 <= y1 < y2 <= found.size[1] + 0.01
        assert 0 < phrase.region_probability <= 1
    assert found.phrases[0].types == ("animals",)


def test_most_phrases_of_the_sample_photos_are_found(grounder: RegionPipeline, sample_data: Dataset) -> None:
    hits = []
    for photo in sample_data.photos:
        regions = grounder.propose(sample_data.path_of(photo))
        for caption in photo.sentences:
            found = grounder.ground_regions(regions, caption.text)
            gold = {(m.start, m.end): photo.boxes_of(m.chain) for m in caption.mentions if m.chain}
            for phrase in found.phrases:
                if boxes := gold.get(phrase.span):
                    union = geometry.union(np.array([box.xyxy for box in boxes]))
                    hits.append(float(geometry.iou(union[None], np.array([phrase.box]))[0, 0]) >= 0.5)
    assert len(hits) > 30
    assert np.mean(hits) > 0.45


def test_scores_from_a_photo_equal_scores_from_its_feature_store(
    grounder: RegionPipeline, sample_data: Dataset
) -> None:
    """`evaluate grounding --model` and `ground` must not be two opinions."""
    some = sample_data.photos[:1]
    features = compute_features(
        sample_data, some, grounder.image_encoder, proposals=grounder.provenance.proposal_source
    )
    item = localization_items(some)[0]
    prediction = grounder.predict_boxes(features, [item])[0]
    best = prediction.boxes[int(np.argmax(prediction.scores))]
    caption = some[0].captions[item.caption]
    grounding = grounder.ground(sample_data.path_of(some[0]), caption.text)
    mine = next(phrase for phrase in grounding.phrases if phrase.span == item.span)
    np.testing.assert_allclose(mine.box, best, atol=2.0)


def test_a_sentence_without_noun_phrases_gives_no_boxes(grounder: RegionPipeline) -> None:
    assert grounder.ground(CAT, "").phrases == ()


def test_absent_phrases_are_reported_and_not_drawn() -> None:
    photo = Image.new("RGB", (80, 60), "white")
    there, away = (
        GroundedPhrase(text, span, ("animals",), (10.0, 10.0, 40.0, 50.0), 0.7, presence)
        for text, span, presence in (("A dog", (0, 5), ABSENT), ("a cat", (10, 15), ABSENT - 0.01))
    )
    found = Grounding("A dog and a cat.", (80, 60), (there, away))
    assert [phrase["absent"] for phrase in found.as_json()["phrases"]] == [False, True]
    expected = draw_grounding(photo, [(found.sentence, [PhraseBoxes(0, 5, (there.box,), ABSENT)])])
    assert found.draw(photo).tobytes() == expected.tobytes()


def test_a_phrase_has_one_box_unless_the_model_finds_several_things() -> None:
    one = GroundedPhrase("A dog", (0, 5), ("animals",), (10.0, 10.0, 40.0, 50.0), 0.7)
    assert one.boxes == (one.box,)
    assert Grounding("A dog.", (80, 60), (one,)).as_json()["phrases"][0]["boxes"] == [
        {"box": [10, 10, 40, 50], "score": 0.7}
    ]


def test_several_things_are_drawn_and_written_one_by_one(
    grounder: RegionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, left, right = [10.0, 10, 70, 50], [10.0, 10, 30, 50], [50.0, 10, 70, 50]
    sets = [BoxSet(np.array([right, left]), np.array([0.9, 0.8])), BoxSet(np.array([both]))]
    scores = PhraseScores(np.array([[0.0, -50], [0, -50]]), np.array([[both, left], [both, left]]), sets=sets)
    monkeypatch.setattr(grounder, "score_phrases", lambda *given: scores)
    photo = Image.new("RGB", (80, 60), "white")
    found = grounder.ground(photo, "Two dogs in snow.")
    assert [phrase.boxes for phrase in found.phrases] == [(tuple(right), tuple(left)), (tuple(both),)]
    dogs, snow = found.as_json()["phrases"]
    assert dogs["box"] == both
    assert dogs["boxes"] == [{"box": right, "score": 0.9}, {"box": left, "score": 0.8}]
    assert snow["boxes"] == [{"box": both, "score": 1.0}]
    drawn = [PhraseBoxes(0, 8, (tuple(right), tuple(left)), 1.0), PhraseBoxes(12, 16, (tuple(both),), 1.0)]  # type: ignore[arg-type]
    assert found.draw(photo).tobytes() == draw_grounding(photo, [(found.sentence, drawn)]).tobytes()


def test_proposals_of_another_version_are_refused(grounder: RegionPipeline) -> None:
    about = replace(grounder.provenance, proposals_fingerprint="0123")
    with pytest.raises(DeixisError, match="proposals head"):
        GrounderPipeline(grounder.model, about).ground(CAT, "A cat.")


def plain_scores(cca: EmbeddingPipeline, photo: FeatureMap, boxes: npt.ArrayLike, phrases: list[str]) -> Floats:
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    vectors = append_locations(photo.regions(boxes), boxes, photo.size, cca.provenance.location_weight)
    return cca.compare(cca.model.prepare_visual(vectors), cca.encode_phrases(phrases))


def test_predictions_equal_the_scores_of_the_photo(
    cca: EmbeddingPipeline, quarters: Dataset, features: PhotoFeatures
) -> None:
    items = localization_items(quarters.split("dev"))
    found = cca.predict_boxes(features, items)
    assert [prediction.key for prediction in found] == [(item.photo, item.caption, item.span) for item in items]
    for item, prediction in zip(items, found, strict=True):
        photo = cca.image_encoder.encode([open_photo(quarters.path_of(quarters.photo(item.photo)))])[0]
        assert prediction.boxes.tolist() == [list(box) for box in QUARTERS[:3]]
        plain = plain_scores(cca, photo, QUARTERS[:3], [item.phrase])[:, 0]
        np.testing.assert_allclose(prediction.scores, plain, atol=0.02)  # stored in half precision


def test_every_gold_region_is_scored_against_all_phrases(
    cca: EmbeddingPipeline, quarters: Dataset, features: PhotoFeatures
) -> None:
    gold = regions_of(quarters.split("dev"))
    scores = cca.region_scores(features, gold)
    assert scores.shape == (len(gold.boxes), len(gold.phrases))
    ids = quarters.split("dev").ids
    for row in (0, 5, len(gold.boxes) - 1):
        photo = features.store.map(ids[gold.photo_of_region[row]])
        plain = plain_scores(cca, photo, [gold.boxes[row]], gold.phrases)
        np.testing.assert_allclose(scores.rows(row, row + 1), plain, atol=1e-4)


def test_a_model_of_cosines_shows_the_similarity_of_the_best_region(cca: EmbeddingPipeline, quarters: Dataset) -> None:
    path = quarters.path_of(quarters.split("dev")[0])
    found = cca.ground(path, "A red square and a blue square.")
    proposed = cca.propose(path)
    plain = plain_scores(cca, proposed.features, proposed.proposals.boxes, [each.text for each in found.phrases])
    for column, phrase in enumerate(found.phrases):
        assert phrase.similarity == phrase.score == pytest.approx(float(plain[:, column].max()), abs=1e-4)
        assert phrase.region_probability is None
    shown = found.as_json()["phrases"][0]["boxes"][0]["score"]
    assert shown == pytest.approx(plain[:, 0].max(), abs=1e-3)
    assert found.draw(open_photo(path)).width > 0


HALF_STEP = 2e-3
"""Rounding error of cosines with codes, at most, in two dimensions."""


@pytest.fixture
def plain(dataset: Dataset) -> MatchingPipeline:
    return fit_cca(dataset)


@pytest.fixture
def corrected(dataset: Dataset) -> MatchingPipeline:
    pipeline = fit_cca(dataset)
    pipeline.hubness = HubnessCorrection.fit(vectors(1, 12), vectors(2, 9), neighbours=3)
    return pipeline


def vectors(seed: int, rows: int, dimension: int = 2) -> Floats:
    return to_unit_length(np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32))


def csls(photo: Floats, sentence: Floats, photo_bank: Floats, sentence_bank: Floats, k: int) -> float:
    """Half of eq. 3 of the paper for one pair: cosine less half the mean cosine with k neighbours of either side."""
    near_photo = sorted(float(photo @ each) for each in sentence_bank)[-k:]
    near_sentence = sorted(float(sentence @ each) for each in photo_bank)[-k:]
    return float(photo @ sentence) - sum(near_photo) / k / 2 - sum(near_sentence) / k / 2


@pytest.mark.parametrize("neighbours", [1, 4, 9])
def test_scores_equal_those_of_a_plain_loop(plain: MatchingPipeline, neighbours: int) -> None:
    photo_bank, sentence_bank = vectors(1, 12), vectors(2, 9)
    photos, sentences = vectors(3, 700), vectors(4, 5)  # more photos than are computed at once
    plain.hubness = HubnessCorrection.fit(photo_bank, sentence_bank, neighbours)
    expected = [[csls(v, t, photo_bank, sentence_bank, neighbours) for t in sentences] for v in photos]
    np.testing.assert_allclose(plain.similarity(photos, sentences), expected, atol=2 * HALF_STEP)
    assert plain.similarity(photos[:0], sentences).shape == (0, 5)


def test_a_photo_that_is_similar_to_every_sentence_no_longer_wins(plain: MatchingPipeline) -> None:
    """The hub is nearer to the sentence than the right photo, but nearer still to the sentences of others."""
    angles = {"hub": 0.0, "right": 60.0}
    photos = np.array([[np.cos(np.radians(each)), np.sin(np.radians(each))] for each in angles.values()], np.float32)
    sentence = np.array([[np.cos(np.radians(29)), np.sin(np.radians(29))]], np.float32)
    bank = np.array([[1, 0.1], [1, -0.1], [1, 0]], np.float32)
    bank /= np.linalg.norm(bank, axis=1, keepdims=True)
    assert plain.similarity(photos, sentence).argmax() == 0
    plain.hubness = HubnessCorrection.fit(bank, bank, neighbours=2)
    assert plain.similarity(photos, sentence).argmax() == 1


def test_retrieval_scores_are_corrected_and_terms_computed_once(
    corrected: MatchingPipeline, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = dataset.split("dev")
    texts, features = sentences_of(dev).texts, corrected.features(dataset, dev)
    visual, text = corrected.model.prepare_visual(features.vectors()), corrected.encode_sentences(texts)
    expected = corrected.similarity(visual, text)
    scores, counted = corrected.retrieval_scores(features, texts), []
    monkeypatch.setattr(HubnessCorrection, "_terms", lambda *arguments: counted.append(arguments))
    np.testing.assert_allclose(scores.rows(0, len(dev)), expected, atol=1e-6)
    np.testing.assert_allclose(scores.rows(2, 3), expected[2:3], atol=1e-6)
    assert not counted


def test_evaluation_and_match_use_the_correction(corrected: MatchingPipeline, dataset: Dataset, tmp_path: Path) -> None:
    corrected.save_pretrained(tmp_path / "made")
    options = {"model": tmp_path / "made", "split": "dev", "out": tmp_path / "scores.npy"}
    deixis.evaluate("retrieval", dataset.path, **options)
    dev = dataset.split("dev")
    photos = corrected.encode_images([dataset.path_of(photo) for photo in dev])
    expected = corrected.similarity(photos, corrected.encode_sentences(sentences_of(dev).texts))
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, atol=1e-4)
    texts = ["A red wall.", "A blue wall."]
    found = dict(corrected.match(dataset.path_of(dev[0]), texts))
    np.testing.assert_allclose(
        [found[text] for text in texts],
        corrected.similarity(photos[:1], corrected.encode_sentences(texts))[0],
        atol=1e-5,
    )


def test_vectors_regions_and_sentences_are_compared_as_before(
    plain: MatchingPipeline, corrected: MatchingPipeline, dataset: Dataset
) -> None:
    paths, texts = [dataset.path_of(photo) for photo in dataset.photos][:3], ["A red wall.", "A blue wall."]
    photos, sentences = plain.encode_images(paths), plain.encode_sentences(texts)
    np.testing.assert_array_equal(corrected.encode_images(paths), photos)
    np.testing.assert_array_equal(corrected.encode_sentences(texts), sentences)
    np.testing.assert_array_equal(corrected.compare(photos, sentences), plain.compare(photos, sentences))
    np.testing.assert_array_equal(corrected.sentence_scores(texts).rows(0, 2), plain.sentence_scores(texts).rows(0, 2))
    np.testing.assert_array_equal(plain.similarity(photos, sentences), plain.compare(photos, sentences))


def test_banks_are_saved_with_the_model_and_leave_its_fingerprint(corrected: MatchingPipeline, tmp_path: Path) -> None:
    photos, sentences = vectors(3, 6), vectors(4, 5)
    expected = corrected.similarity(photos, sentences)
    for name, half in (("whole", False), ("half", True)):
        (tmp_path / name).mkdir()
        corrected.write(tmp_path / name, half=half)
        again = cast(MatchingPipeline, deixis.load(tmp_path / name))
        np.testing.assert_array_equal(again.similarity(photos, sentences), expected)
        stored = TensorFile(CheckedFile(tmp_path / name / HUBNESS / WEIGHTS, None)).layout
        assert {stored[bank].dtype for bank in ("photos", "sentences")} == {"I8"}
    again.save_pretrained(tmp_path / "third")  # from banks that were read
    third = cast(MatchingPipeline, deixis.load(tmp_path / "third"))
    np.testing.assert_array_equal(third.similarity(photos, sentences), expected)
    in_memory = MatchingPipeline.from_artifact(corrected.to_artifact())
    np.testing.assert_array_equal(in_memory.similarity(photos, sentences), expected)

    third.hubness = None
    third.save_pretrained(tmp_path / "without")
    assert not (tmp_path / "without" / HUBNESS).exists()
    without = cast(MatchingPipeline, deixis.load(tmp_path / "without"))
    np.testing.assert_array_equal(without.similarity(photos, sentences), photos @ sentences.T)
    assert fingerprint_artifact(tmp_path / "without") == fingerprint_artifact(tmp_path / "third")  # indexes stay valid


def test_damaged_banks_are_refused_with_one_line_when_they_are_used(
    corrected: MatchingPipeline, dataset: Dataset, tmp_path: Path
) -> None:
    corrected.hubness = HubnessCorrection.fit(vectors(1, BLOCK), vectors(2, BLOCK))
    corrected.save_pretrained(tmp_path / "made")
    file = tmp_path / "made" / HUBNESS / WEIGHTS
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    opened = deixis.load(tmp_path / "made")  # the banks are not read yet
    assert opened.encode_sentences(["A red wall."]).shape == (1, 2)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(file))}: .*$"):
        deixis.evaluate("retrieval", dataset.path, model=tmp_path / "made", split="dev")
    [line] = find_damage(tmp_path / "made")
    assert line.startswith(str(file))


@pytest.mark.parametrize(
    ("banks", "words"),
    [
        ({"photos": np.zeros((9, 2), np.int8)}, "no sentences"),
        ({"photos": np.zeros((9, 2), np.int8), "sentences": np.zeros((9, 3), np.int8)}, "dimension 3"),
        ({"photos": np.zeros((9, 2), np.int8), "sentences": np.zeros((2, 2), np.int8)}, "3 or more rows"),
        ({"photos": np.zeros((9, 2), np.int8), "sentences": np.zeros((9, 2), np.float32)}, "int8"),
    ],
)
def test_banks_that_do_not_fit_are_refused(
    corrected: MatchingPipeline, tmp_path: Path, banks: dict[str, np.ndarray], words: str
) -> None:
    corrected.save_pretrained(tmp_path / "made")
    without_checksums(tmp_path / "made")
    save_file(banks, tmp_path / "made" / HUBNESS / WEIGHTS)
    with pytest.raises(DeixisError, match=words):
        deixis.load(tmp_path / "made").similarity(vectors(3, 1), vectors(4, 1))


def test_the_shipped_model_has_banks_that_both_encoders_share() -> None:
    model, fast = (cast(EmbeddingPipeline, deixis.load(name)) for name in ("two-branch", "two-branch-fast"))
    photos, sentences = vectors(1, 4, 512), model.encode_sentences(["Two dogs.", "A cup of coffee."])
    assert model.hubness is not None, "make the banks: scripts/fit_hubness.py DATA…"
    assert not model.hubness._banks  # not read before they are used
    scores = model.similarity(photos, sentences)
    assert (scores < photos @ sentences.T).any()
    np.testing.assert_array_equal(fast.similarity(photos, sentences), scores)
    lengths = np.linalg.norm(model.hubness._bank("photos"), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=0.02)
    assert (SHIPPED / "two-branch" / HUBNESS / WEIGHTS).stat().st_size < 3_100_000
