"""Similarity of captions, consensus reranking and the choice of k and m, against plain loops."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.captions.metrics import bleu_from, bleu_statistics, cider
from deixis.evaluation.captions.ngrams import CaptionSet
from deixis.models.m_rnn import consensus as module
from deixis.models.m_rnn.consensus import (
    FOLDER,
    Candidates,
    CaptionMeasure,
    CaptionSimilarity,
    Consensus,
    Neighbours,
    Oracle,
    RerankConfig,
    Reranker,
    RerankSettings,
    cross_validated_order,
    oracle_scores,
    tune,
)
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.pipeline import CaptionPipeline, load_captioner, rank_captions
from deixis.models.photo_features import PhotoFeatures, compute_features
from deixis.models.provenance import EncoderInfo
from deixis.storage.artifacts import CONFIG
from tests.models.small_captioner import SMALL_M_RNN, train_small_m_rnn
from tests.unchecked import without_checksums
from tests.vision.feature_store.small import colour_encoder

WORDS = ("a", "the", "dog", "cat", "runs", "red", "and")


def sentence(rng: np.random.Generator, longest: int = 9) -> list[str]:
    return list(rng.choice(WORDS, size=rng.integers(1, longest)))


def captions(photos: int = 12, seed: int = 0) -> list[list[list[str]]]:
    """Of few words, so that sentences have n-grams twice and much in common."""
    rng = np.random.default_rng(seed)
    return [[sentence(rng) for _ in range(rng.integers(1, 5))] for _ in range(photos)]


def flat(of_photos: list[list[list[str]]]) -> list[list[str]]:
    return [words for photo in of_photos for words in photo]


def neighbours_by_loop(vectors: np.ndarray, queries: np.ndarray, count: int) -> list[list[int]]:
    found = []
    for one in queries:
        cosines = [one @ other / np.linalg.norm(one) / np.linalg.norm(other) for other in vectors]
        found.append(sorted(range(len(vectors)), key=lambda row: -cosines[row])[:count])
    return found


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_the_consensus_score_equals_a_plain_loop(similarity: str) -> None:
    training = captions()
    rng = np.random.default_rng(2)
    vectors, queries = rng.normal(size=(12, 4)), rng.normal(size=(3, 4))
    sentences = [[sentence(rng) for _ in range(4)] for _ in range(3)]
    settings = RerankSettings(similarity, neighbours=5, top_captions=6)  # type: ignore[arg-type]
    found = Consensus(vectors, training).scores(queries, sentences, settings)
    measure = CaptionSimilarity(training)
    starts = np.concatenate([[0], np.cumsum([len(texts) for texts in training])])
    for photo, rows in enumerate(neighbours_by_loop(vectors, queries, 5)):
        for index, words in enumerate(sentences[photo]):
            values = [
                getattr(measure, similarity)([words], np.array([caption]))[0, 0]
                for row in rows
                for caption in range(starts[row], starts[row + 1])
            ]
            assert found[photo][index] == pytest.approx(np.mean(sorted(values, reverse=True)[:6]))


def test_fewer_captions_than_m_are_all_counted() -> None:
    consensus = Consensus(np.eye(2), [["a dog"], ["a cat"]])
    assert consensus.scores(np.eye(2)[:1], [["a dog"]], RerankSettings("bleu"))[0] == pytest.approx(
        (1 + CaptionSimilarity([[["a", "dog"]], [["a", "cat"]]]).bleu([["a", "dog"]], np.array([1]))[0, 0]) / 2
    )


def test_neighbours_are_the_nearest_by_cosine() -> None:
    rng = np.random.default_rng(3)
    vectors, queries = rng.normal(size=(12, 4)), rng.normal(size=(5, 4))
    consensus = Consensus(vectors, captions())
    assert consensus.neighbours(queries, 4).tolist() == neighbours_by_loop(vectors, queries, 4)
    assert consensus.neighbours(queries * 7, 4).tolist() == consensus.neighbours(queries, 4).tolist()


def test_neighbours_may_be_the_nearest_by_euclidean_distance() -> None:
    rng = np.random.default_rng(3)
    vectors, queries = 3 + rng.normal(size=(12, 4)), 3 + rng.normal(size=(5, 4))
    expected = [sorted(range(12), key=lambda row: float(np.linalg.norm(vectors[row] - one)))[:4] for one in queries]
    assert Consensus(vectors, captions(), distance="euclidean").neighbours(queries, 4).tolist() == expected
    assert Consensus(vectors, captions()).neighbours(queries, 4).tolist() != expected


def mean_f_by_loop(one: list[str], other: list[str]) -> float:
    """BLEU of two sentences as the authors' released code computes it."""
    if min(len(one), len(other)) < 4:
        return 0.0
    scores = []
    for n in range(1, 5):
        ours, theirs = grams(one, n), grams(other, n)
        matches = sum(min(count, theirs[gram]) for gram, count in ours.items())
        precision, recall = matches / sum(ours.values()), matches / sum(theirs.values())
        scores.append(2 * precision * recall / (precision + recall) if matches else 0.0)
    return float(np.mean(scores))


def test_the_released_bleu_equals_a_plain_loop() -> None:
    references, rng = flat(captions()), np.random.default_rng(1)
    hypotheses = [["zebra", *sentence(rng)], [], *(sentence(rng) for _ in range(12))]
    found = CaptionSimilarity(captions()).mean_f(hypotheses, np.arange(len(references)))
    expected = [[mean_f_by_loop(one, other) for other in references] for one in hypotheses]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (found > 0).any()


def test_the_released_bleu_is_used_for_bleu_alone() -> None:
    training, rng = captions(), np.random.default_rng(2)
    sentences = [[sentence(rng) for _ in range(4)]]
    ours, released = (Consensus(np.eye(12), training, bleu=form) for form in ("smoothed", "mean-f"))
    bleu, cider = (RerankSettings(similarity, neighbours=12, top_captions=3) for similarity in ("bleu", "cider"))
    everything = np.arange(len(flat(training)))
    similarity = CaptionSimilarity(training).mean_f(sentences[0], everything)
    expected = np.sort(similarity, axis=1)[:, -3:].mean(axis=1)
    np.testing.assert_allclose(released.scores(np.eye(12)[:1], sentences, bleu)[0], expected)
    assert not np.allclose(ours.scores(np.eye(12)[:1], sentences, bleu)[0], expected)
    same = [each.scores(np.eye(12)[:1], sentences, cider)[0] for each in (ours, released)]
    np.testing.assert_allclose(*same)


def test_ties_keep_their_order() -> None:
    consensus = Consensus(np.eye(2), [["a dog"], ["a cat"]])
    order = consensus.order(np.eye(2)[:1], [["zebra", "a dog"] * 20])[0]
    assert order.tolist() == [*range(1, 40, 2), *range(0, 40, 2)]


def smoothed_bleu(scored: CaptionSet) -> np.ndarray:
    """BLEU-4 of each photo by the evaluation, with one more match and one more n-gram of two or more words."""
    statistics = bleu_statistics(scored)
    statistics[:, 1:4] += 1
    statistics[:, 5:8] += 1
    return bleu_from(statistics)[:, 3]


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_the_oracle_ranks_by_the_photos_own_captions(similarity: str) -> None:
    references = captions(8, seed=5)
    rng = np.random.default_rng(6)
    sentences = [[*(sentence(rng) for _ in range(3)), references[photo][0]] for photo in range(8)]
    for photo, scores in enumerate(oracle_scores(sentences, references, similarity)):  # type: ignore[arg-type]
        values = []
        for words in sentences[photo]:
            everyone = [words if other == photo else ["zebra"] for other in range(8)]
            scored = CaptionSet(tuple(map(str, range(8))), everyone, references)
            if similarity == "cider":
                values.append(cider(scored).cider_d[photo])
            else:
                values.append(smoothed_bleu(scored)[photo])
        np.testing.assert_allclose(scores, values, atol=1e-4)


def test_inputs_of_wrong_shape_are_an_error() -> None:
    with pytest.raises(DeixisError, match=r"shape \(2, 2\)"):
        Consensus(np.eye(2), [["a dog"]])
    consensus = Consensus(np.eye(2), [["a dog"], ["a cat"]])
    with pytest.raises(DeixisError, match="2 features"):
        consensus.neighbours(np.eye(3), 1)
    with pytest.raises(DeixisError, match="sentences for 1"):
        consensus.scores(np.eye(2), [["a"]])
    with pytest.raises(DeixisError, match="neighbours=0"):
        RerankSettings(neighbours=0)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEIGHBOURS", (1, 4, 30))
    monkeypatch.setattr(module, "TOP_CAPTIONS", (1, 5, 40))


def make_candidates(photos: int = 30, seed: int = 0) -> tuple[Consensus, Candidates]:
    rng = np.random.default_rng(seed)
    consensus = Consensus(rng.normal(size=(20, 3)), captions(20, seed))
    sentences = [[sentence(rng) for _ in range(rng.integers(2, 5))] for _ in range(photos)]
    references = [[sentence(rng) for _ in range(3)] for _ in range(photos)]
    return consensus, Candidates(rng.normal(size=(photos, 3)), sentences, references)


def score_of(consensus: Consensus, candidates: Candidates, settings: RerankSettings, photos: list[int]) -> float:
    """Score of the chosen sentences of some photos, with the document frequencies of all photos."""
    order = consensus.order(candidates.vectors, candidates.sentences, settings)
    texts = [" ".join(candidates.sentences[photo][order[photo][0]]) for photo in range(len(order))]
    own = {str(photo): [" ".join(words) for words in texts] for photo, texts in enumerate(candidates.references)}
    if settings.similarity == "cider":
        each = caption_scores({str(photo): text for photo, text in enumerate(texts)}, own).per_photo["cider_d"]
        return float(each[photos].mean())
    chosen = {str(photo): texts[photo] for photo in photos}
    return caption_scores(chosen, {photo: own[photo] for photo in chosen}).bleu4


SETTINGS = [(k, m) for k in (1, 4, 30) for m in (1, 5, 40)]


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
@pytest.mark.parametrize("seed", range(3))
def test_tuning_finds_the_k_and_m_of_an_exhaustive_loop(similarity: CaptionMeasure, seed: int) -> None:
    consensus, candidates = make_candidates(seed=seed)
    everyone = list(range(30))
    tried = {(k, m): score_of(consensus, candidates, RerankSettings(similarity, k, m), everyone) for k, m in SETTINGS}
    assert len({round(score, 6) for score in tried.values()}) > 1, "otherwise there is nothing to choose"
    found = tune(consensus, candidates, similarity)
    assert tried[found.neighbours, found.m] == pytest.approx(max(tried.values()))


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_each_half_is_reranked_with_the_choice_of_the_other(similarity: CaptionMeasure) -> None:
    consensus, candidates = make_candidates(seed=5)
    order, chosen = cross_validated_order(consensus, candidates, similarity)
    halves = [list(range(0, 30, 2)), list(range(1, 30, 2))]
    for half, others, settings in zip(halves, halves[::-1], chosen, strict=True):
        tried = [score_of(consensus, candidates, RerankSettings(similarity, k, m), others) for k, m in SETTINGS]
        assert score_of(consensus, candidates, settings, others) == pytest.approx(max(tried))
        expected = consensus.order(candidates.vectors, candidates.sentences, settings)
        for photo in half:
            assert order[photo].tolist() == expected[photo].tolist()


def test_a_single_photo_is_reranked_with_its_own_choice() -> None:
    consensus, candidates = make_candidates(photos=1)
    order, _ = cross_validated_order(consensus, candidates, "cider")
    assert sorted(order[0].tolist()) == list(range(len(candidates.sentences[0])))


def test_bleu_of_a_pair_equals_the_evaluation_with_smoothing() -> None:
    references, rng = flat(captions()), np.random.default_rng(1)
    hypotheses = [sentence(rng) for _ in references]
    found = CaptionSimilarity(captions()).bleu(hypotheses, np.arange(len(references)))
    pairs = CaptionSet(tuple(map(str, range(len(references)))), hypotheses, [[words] for words in references])
    np.testing.assert_allclose(np.diag(found), smoothed_bleu(pairs), atol=1e-4)


def test_unknown_words_match_nothing() -> None:
    similarity = CaptionSimilarity(captions())
    everything = np.arange(len(flat(captions())))
    for measure in (similarity.bleu, similarity.cider):
        known, unknown = measure([["a", "dog"], ["zebra", "zebra"]], everything)
        assert known.max() > 0
        assert (unknown == 0).all()
        assert (measure([[]], everything) == 0).all()


def grams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[begin : begin + n]) for begin in range(len(words) - n + 1))


def cider_by_loop(one: list[str], other: list[str], training: list[list[list[str]]]) -> float:
    """CIDEr-D of a sentence with one reference, as in its paper."""
    total = 0.0
    for n in range(1, 5):
        photos = [set().union(*(grams(words, n) for words in texts)) for texts in training]

        def idf(gram: tuple[str, ...], photos: list[set[tuple[str, ...]]] = photos) -> float:
            return float(np.log(len(photos)) - np.log(max(1, sum(gram in photo for photo in photos))))

        ours, theirs = grams(one, n), grams(other, n)
        lengths = [np.sqrt(sum((count * idf(gram)) ** 2 for gram, count in some.items())) for some in (ours, theirs)]
        if all(lengths):
            common = sum(min(ours[gram], count) * count * idf(gram) ** 2 for gram, count in theirs.items())
            total += common / np.prod(lengths)
    difference = max(0, len(one) - 1) - max(0, len(other) - 1)
    return float(10 / 4 * total * np.exp(-(difference**2) / 72))


def test_cider_equals_a_plain_loop_with_unknown_words_and_photos_without_captions() -> None:
    training = [[], *captions(8, seed=3), []]
    rng = np.random.default_rng(4)
    sentences = [["zebra", *sentence(rng), "zebra", "zebra", "zebra"], *(sentence(rng) for _ in range(4))]
    references = flat(training)
    found = CaptionSimilarity(training).cider(sentences, np.arange(len(references)))
    expected = [[cider_by_loop(one, other, training) for other in references] for one in sentences]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_captions_are_compared_in_the_order_of_the_argument() -> None:
    similarity, everything = CaptionSimilarity(captions()), np.arange(len(flat(captions())))
    some = np.array([7, 2, 2, 11])
    for measure in (similarity.bleu, similarity.cider):
        whole = measure([["a", "red", "dog"]], everything)
        np.testing.assert_allclose(measure([["a", "red", "dog"]], some), whole[:, some])


pytestmark = pytest.mark.usefixtures("small_encoder")


@pytest.fixture
def captioner(captioner_folder: Path) -> CaptionPipeline:
    return load_captioner(captioner_folder / "run")


def features_of(captioner_folder: Path, split: str) -> PhotoFeatures:
    dataset = Dataset(captioner_folder / "data", images=captioner_folder / "images")
    return compute_features(dataset, dataset.split(split), colour_encoder())


def test_training_saves_photos_and_captions_beside_the_model_not_in_it(captioner_folder: Path) -> None:
    found = Neighbours.load(captioner_folder / "run" / FOLDER)
    train = Dataset(captioner_folder / "data").split("train")
    assert found.photos == tuple(train.ids)
    assert found.captions_of(1) == ["a green wall", "everything here is green"]
    assert found.config == RerankConfig("refined")
    inside = "".join(path.read_text() for path in (captioner_folder / "run" / "model").rglob("*.json"))
    assert "everything here is green" not in inside


def test_neighbours_are_found_by_refined_or_plain_features(captioner_folder: Path, captioner: CaptionPipeline) -> None:
    features = features_of(captioner_folder, "dev")
    kept = Neighbours.load(captioner_folder / "run" / FOLDER)
    vectors, train = features.vectors(), features_of(captioner_folder, "train").vectors()
    for feature, change in (("refined", captioner.model.refine), ("photo", np.asarray)):
        kept.config = RerankConfig(feature)  # type: ignore[arg-type]
        reranker = Reranker(kept, captioner.model, RerankSettings("cider", neighbours=4))
        expected = Consensus(change(train), kept.captions).neighbours(change(vectors), 4)
        np.testing.assert_array_equal(reranker.nearest(vectors, 4), expected)
        np.testing.assert_array_equal(reranker.nearest((vectors, np.zeros((8, 1, 1))), 4), expected)


WALLS = [GeneratedSentence(("a", colour, "wall"), -1.0) for colour in ("blue", "green", "red")]


def test_captions_are_sorted_by_consensus(captioner_folder: Path, captioner: CaptionPipeline) -> None:
    reranker = captioner.reranker("cider")
    reranker = replace(reranker, settings=RerankSettings("cider", neighbours=2))
    red, green = features_of(captioner_folder, "dev").vectors()[:2]
    found = rank_captions(np.stack([red, green]), [WALLS, WALLS], reranker)
    assert [result.text for result in found] == ["a red wall", "a green wall"]
    assert found[0].captions[0].log_probability == -1.0
    for result in found:
        assert list(result.consensus) == sorted(result.consensus, reverse=True)
        assert result.consensus[0] > 2 * result.consensus[1]
    assert found[0].as_json()["captions"][0]["consensus"] == round(found[0].consensus[0], 4)
    assert found[0].first(1).as_json()["captions"] == found[0].as_json()["captions"][:1]


def test_the_oracle_scores_by_the_photos_own_captions() -> None:
    for similarity in ("bleu", "cider"):
        oracle = Oracle([["A red wall."], ["A green one."]], similarity)  # type: ignore[arg-type]
        found = rank_captions(np.zeros((2, 3)), [WALLS, WALLS], oracle)
        assert [result.text for result in found] == ["a red wall", "a green wall"]


def test_the_default_beam_is_wider_for_reranking(captioner: CaptionPipeline) -> None:
    assert (captioner.beam_search(None, 1).beam, captioner.beam_search(None, 1).top) == (5, 1)
    reranker = captioner.reranker("bleu")
    reranked = captioner.beam_search(None, 2, ranker=reranker)
    assert (reranked.beam, reranked.top) == (10, 10)
    with pytest.raises(DeixisError, match="top=4"):
        captioner.beam_search(3, 4, ranker=reranker)


def test_neighbours_are_found_beside_the_model_and_missing_ones_name_the_command(
    captioner_folder: Path, captioner: CaptionPipeline, tmp_path: Path
) -> None:
    inside = load_captioner(captioner_folder / "run" / "model")
    assert inside.reranker("bleu").settings == captioner.reranker("bleu").settings == RerankSettings("bleu")
    with pytest.raises(DeixisError, match=str(tmp_path)):
        captioner.reranker("cider", tmp_path)
    captioner.save_pretrained(tmp_path / "alone")
    with pytest.raises(DeixisError, match=f"deixis train consensus --data DATA --set captioner={tmp_path / 'alone'}"):
        load_captioner(tmp_path / "alone").reranker("bleu")


def test_neighbours_of_another_encoder_are_refused(
    captioner_folder: Path, captioner: CaptionPipeline, tmp_path: Path
) -> None:
    kept = Neighbours.load(captioner_folder / "run" / FOLDER)
    for encoder in (EncoderInfo("deixis", "1f2e"), replace(captioner.encoder, crops=10)):
        Neighbours(encoder, kept.photos, kept.vectors, kept.captions).save(tmp_path / "other")
        with pytest.raises(DeixisError, match="other: .* colours"):
            captioner.reranker("cider", tmp_path / "other")


def test_saved_neighbours_are_read_back_and_damaged_ones_refused(
    captioner_folder: Path, captioner: CaptionPipeline, tmp_path: Path
) -> None:
    config = RerankConfig("photo", RerankSettings("bleu", 3, 4), RerankSettings("cider", 5, 6), "euclidean", "mean-f")
    original = Neighbours.from_features(features_of(captioner_folder, "train"), captioner.encoder, config)
    original.save(tmp_path / "kept")
    read = Neighbours.load(tmp_path / "kept")
    assert (read.config, read.photos, read.encoder) == (config, original.photos, captioner.encoder)
    assert [list(map(tuple, texts)) for texts in read.captions] == [list(map(tuple, t)) for t in original.captions]
    np.testing.assert_array_equal(read.vectors, original.vectors)
    assert captioner.reranker("bleu", tmp_path / "kept").settings.neighbours == 3
    without_checksums(tmp_path / "kept")
    document = json.loads((tmp_path / "kept" / CONFIG).read_text())
    for changed, words in (
        ({"version": 9}, "version 9"),
        ({"settings": document["settings"] | {"config": {"neighbour_feature": "smell"}}}, "damaged"),
        ({"kind": "cca"}, "cca"),
    ):
        (tmp_path / "kept" / CONFIG).write_text(json.dumps(document | changed))
        with pytest.raises(DeixisError, match=words):
            load_captioner(captioner_folder / "run").reranker("bleu", tmp_path / "kept")


def test_a_split_without_captions_is_an_error(captioner_folder: Path, captioner: CaptionPipeline) -> None:
    features = features_of(captioner_folder, "train")
    with pytest.raises(DatasetError, match="caption"):
        Neighbours.from_features(replace(features, photos=features.photos[:0]), captioner.encoder)


def test_a_network_without_image_input_uses_plain_features(captioner_folder: Path, tmp_path: Path) -> None:
    dataset = Dataset(captioner_folder / "data", images=captioner_folder / "images")
    train_small_m_rnn(dataset, tmp_path / "run", settings=replace(SMALL_M_RNN, image_input="nowhere"))
    assert Neighbours.load(tmp_path / "run" / FOLDER).config.neighbour_feature == "photo"
