"""Scores of models for tables, compared with the evaluation itself and with plain loops (eq. 2 and 8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError
from deixis.evaluation.captions import caption_scores, compare_captions
from deixis.evaluation.items import Item, regions_of, sentences_of
from deixis.evaluation.phrase_localization import RankedPredictions, localization
from deixis.evaluation.predictions import Prediction, match_predictions
from deixis.evaluation.retrieval import recall_at_k, region_retrieval
from deixis.models.consensus.consensus import Candidates, best_first, cross_validated_order, oracle_scores
from deixis.models.consensus.reranking import Neighbours, RerankConfig, neighbour_vectors
from deixis.models.evaluation import EvaluationData
from deixis.models.m_rnn.captioning import CaptionPipeline
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.evaluation import caption_perplexity
from deixis.models.photo_features import find_or_compute_features
from deixis.models.pipeline import Pipeline
from deixis.papers import scoring
from deixis.papers.results import ModelScores, RowResult
from deixis.papers.runner import TableRunner, check_claim
from deixis.papers.scoring import (
    combined_scores,
    score_captions,
    score_grounding,
    score_regions,
    score_retrieval,
    scores_from_captions,
    scores_from_predictions,
)
from deixis.papers.tables import CaptionOptions, Claim, Recipe, Training, Weights, find_table
from deixis.papers.training import ExperimentFolder, TableModels
from tests.models.quarters import make_quarters, use_small_encoders

SMALL = (
    *("epochs=8", "batch_size=16", "learning_rate=0.03", "min_count=2", "device=cpu", "threads=1"),
    *("first_embedding_dim=8", "second_embedding_dim=12", "hidden_size=12", "multimodal_dim=16"),
)
NETWORK = Training("m-rnn", "papers/m-rnn")


class Captioner:
    """Photos with coloured quarters, and a captioner trained on them for a few epochs."""

    def __init__(self, folder: Path) -> None:
        self.dataset: Dataset = make_quarters(folder, 18)
        self.runner = TableRunner(TableModels(self.dataset, ExperimentFolder(folder / "runs"), SMALL), "dev", 1)
        self.pipeline: CaptionPipeline = self.runner.models.pipeline(NETWORK, 0)
        self.on = EvaluationData(self.dataset, self.dataset.split("dev"))
        self.train = self.dataset.split("train")
        self.references = {photo.id: [caption.text for caption in photo.sentences] for photo in self.on.photos}

    def score(self, options: CaptionOptions) -> ModelScores:
        return score_captions(self.pipeline, self.on, options, self.train)


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Captioner:
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_encoders(monkeypatch)
        return Captioner(tmp_path_factory.mktemp("written"))


@pytest.fixture(autouse=True)
def _small_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_encoders(monkeypatch)


@pytest.mark.parametrize("beam", [1, 3])
def test_captions_are_generated_by_the_model_and_scored_by_the_evaluation(captioner: Captioner, beam: int) -> None:
    found = captioner.score(CaptionOptions(beam))
    photos = captioner.on.features(captioner.pipeline)
    decoding = Decoding(method="greedy") if beam == 1 else Decoding(beam=beam)
    made = captioner.pipeline.model.generate(photos.vectors(), decoding)
    written = {photo: some[0].text for photo, some in zip(photos.photos.ids, made, strict=True)}
    assert {photo: text for photo, (text, _) in found.captions.items()} == written
    expected = caption_scores(written, captioner.references, training=sentences_of(captioner.train).texts)
    assert found.scores["bleu1"] == pytest.approx(expected.bleu1)
    assert found.scores["novel"] == expected.novel
    gold = sentences_of(captioner.on.photos)
    expected_perplexity = caption_perplexity(
        captioner.pipeline.model, photos.vectors(), gold.texts, np.array(gold.photo_of_sentence)
    )
    assert found.scores["perplexity"] == expected_perplexity.perplexity
    assert "known, 0.0 % of those scored unknown" in found.about["words"]


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
@pytest.mark.parametrize("feature", ["refined", "photo"])
def test_reranking_tunes_k_and_m_on_the_other_half_of_the_photos(
    captioner: Captioner, similarity: str, feature: str
) -> None:
    found = captioner.score(CaptionOptions(4, similarity, feature))  # type: ignore[arg-type]
    pipeline, vectors = captioner.pipeline, captioner.on.features(captioner.pipeline).vectors()
    made = pipeline.model.generate(vectors, Decoding(beam=4, count=4))
    train_features = find_or_compute_features(pipeline.encoder, captioner.dataset, captioner.train)
    near = Neighbours.from_features(train_features, pipeline.encoder, RerankConfig(feature))  # type: ignore[arg-type]
    sentences = [[each.words for each in some] for some in made]
    written = Candidates(
        neighbour_vectors(pipeline.model, vectors, feature), sentences, list(captioner.references.values())
    )  # type: ignore[arg-type]
    order, settings = cross_validated_order(near.consensus(pipeline.model), written, similarity)  # type: ignore[arg-type]
    expected = [some[ranked[0]].text for some, ranked in zip(made, order, strict=True)]
    assert [text for text, _ in found.captions.values()] == expected
    assert found.about[f"k and m of {similarity}, each from the other half"].startswith(
        f"{settings[0].neighbours} and {settings[0].m}, "
    )


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_the_oracle_chooses_the_caption_most_similar_to_the_references(captioner: Captioner, similarity: str) -> None:
    found = captioner.score(CaptionOptions(4, f"{similarity}-oracle"))  # type: ignore[arg-type]
    vectors = captioner.on.features(captioner.pipeline).vectors()
    made = captioner.pipeline.model.generate(vectors, Decoding(beam=4, count=4))
    scores = oracle_scores(
        [[each.words for each in some] for some in made], list(captioner.references.values()), similarity
    )  # type: ignore[arg-type]
    expected = [some[best_first(each)[0]].text for some, each in zip(made, scores, strict=True)]
    assert [text for text, _ in found.captions.values()] == expected


def test_a_captioner_ranks_photos_and_regions_by_its_own_scores(captioner: Captioner) -> None:
    features, gold = captioner.on.features(captioner.pipeline), sentences_of(captioner.on.photos)
    photos = recall_at_k(captioner.pipeline.retrieval_scores(features, gold.texts), gold.photo_of_sentence)
    assert score_retrieval(captioner.pipeline, captioner.on).scores == photos.scores
    regions = regions_of(captioner.on.photos)
    by_region = region_retrieval(
        captioner.pipeline.region_scores(features, regions),
        regions.positives,
        phrases=regions.phrases,
        photo_of_region=regions.photo_of_region,
    )
    assert score_regions(captioner.pipeline, captioner.on).scores == by_region.scores


def test_tables_score_each_caption_option_once(captioner: Captioner) -> None:
    table = find_table("m-rnn-8")
    rows = tuple(row for row in table.rows if row.key in ("shared", "cider", "cider-oracle", "bleu-photo"))
    found = captioner.runner.run(replace(table, rows=rows))
    assert list(found.ours) == ["shared", "cider", "cider-oracle", "bleu-photo"]
    assert [each.claim.says for each in found.claims] == ["reranking by CIDEr helps"]
    assert len(list((captioner.runner.models.runs.folder / "scores").glob("captions-*"))) == 4
    oracle, reranked = (found.ours[key].score("cider_d") or 0 for key in ("cider-oracle", "cider"))
    assert oracle >= reranked


def test_each_caption_option_has_its_own_stored_scores(captioner: Captioner) -> None:
    runner = captioner.runner
    options = [
        CaptionOptions(),
        CaptionOptions(5),
        CaptionOptions(10, "bleu"),
        CaptionOptions(10, "cider"),
        CaptionOptions(10, "cider", "photo"),
    ]
    abouts = [str(runner._about(Recipe("captions", NETWORK, caption_options=each), 0)) for each in options]
    assert len(set(abouts)) == 5
    assert "writing" not in runner._about(Recipe("retrieval", NETWORK), 0), "stored scores of other tasks stay valid"


WORDS = ("a man", "A man", "the man", "a red hat", "two dogs")
TYPES = (("people",), ("people",), ("people", "other"), ("clothing",), ("animals",))


def make_predictions(seed: int = 0) -> tuple[list[Prediction], list[Item]]:
    """Mentions of five phrases in twelve photos, and boxes of which some are correct."""
    rng = np.random.default_rng(seed)
    items, predictions = [], []
    for number in range(60):
        kind = number % 5
        items.append(Item(str(number // 5), kind, (0, len(WORDS[kind])), WORDS[kind], TYPES[kind], ((0, 0, 9, 9),)))
        starts = rng.integers(0, 8, (6, 1))
        boxes = np.hstack([starts, starts, starts + 9, starts + 9]).astype(float)
        predictions.append(Prediction(items[-1].photo, kind, items[-1].span, boxes, rng.random(6)))
    return predictions, items


def test_localization_scores_equal_those_of_the_evaluation() -> None:
    predictions, items = make_predictions()
    found = scores_from_predictions(
        RankedPredictions.from_matched(match_predictions(predictions, items), items, "union")
    ).scores
    plain = localization(predictions, items, rounds=5)
    for name in ("r1", "r5", "r10", "upper_bound"):
        assert found[name] == found[f"overall_{name}"] == pytest.approx(getattr(plain, name))
        for type_, scores in plain.by_type.items():
            assert found[f"{type_}_{name}"] == pytest.approx(getattr(scores, name))
    for name in ("ap", "ap_nms"):
        assert found[f"“man”_{name}"] == pytest.approx(getattr(plain.by_phrase["man"], name))
        assert found[f"people_{name}"] == pytest.approx(getattr(plain.by_type["people"], name))
        assert found[f"overall_{name}"] == pytest.approx(getattr(plain, f"macro_{name}"))
    assert (found["“man”_n"], found["“two dogs”_n"], found["people_n"], found["overall_n"]) == (36, 12, 36, 60)


def test_intervals_by_type_equal_those_of_the_evaluation() -> None:
    predictions, items = make_predictions()
    scores = scores_from_predictions(
        RankedPredictions.from_matched(match_predictions(predictions, items), items, "union")
    )
    plain = localization(predictions, items).by_type["people"].interval["r1"]
    found = RowResult([scores], "people").interval("r1")
    assert found is not None
    assert plain is not None
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))


def test_region_scores_equal_those_of_the_evaluation(dataset: Dataset) -> None:
    changes = ("embedding_dim=2", "regularization=0.01", "max_proposals=4")
    pipeline = TableModels(dataset, ExperimentFolder(dataset.path / "runs"), changes).pipeline(
        Training("cca", "papers/cca-chunks"), 0
    )
    on = EvaluationData(dataset, dataset.split("dev"))
    gold = regions_of(on.photos)
    plain = region_retrieval(
        pipeline.region_scores(on.features(pipeline), gold),
        gold.positives,
        phrases=gold.phrases,
        photo_of_region=gold.photo_of_region,
    )
    found = score_regions(pipeline, on)
    assert found.scores == plain.scores
    assert found.photos == 6


def test_a_split_without_boxes_is_an_error(dataset: Dataset) -> None:
    with pytest.raises(DatasetError, match="data"):
        score_grounding(None, EvaluationData(dataset, dataset.photos[:0]))  # type: ignore[arg-type]


REFERENCES = {str(number): ("a dog runs in the snow", "the dog is running") for number in range(30)}


def scores_with_mistakes(caption: str, wrong: int) -> ModelScores:
    made = {photo: caption if int(photo) >= wrong else "a cat" for photo in REFERENCES}
    return scores_from_captions(
        {photo: (made[photo], REFERENCES[photo]) for photo in REFERENCES}, ["a cat"], perplexity=12.5
    )


def test_caption_scores_equal_those_of_the_evaluation_and_can_be_saved(tmp_path: Path) -> None:
    scores = scores_with_mistakes("a dog runs in snow", wrong=10)
    plain = caption_scores(
        {photo: made for photo, (made, _) in scores.captions.items()}, REFERENCES, training=["a cat"]
    )
    assert {name: scores.scores[name] for name in ("bleu4", "cider", "novel")} == pytest.approx(
        {"bleu4": plain.bleu4, "cider": plain.cider, "novel": plain.novel}
    )
    assert scores.scores["perplexity"] == 12.5
    scores.save(tmp_path)
    loaded = ModelScores.load(tmp_path)
    assert (loaded.scores, loaded.captions, loaded.photos) == (scores.scores, scores.captions, 30)


def test_claims_about_captions_are_tested_over_photos() -> None:
    better, worse = (
        scores_with_mistakes("a dog runs in snow", wrong=5),
        scores_with_mistakes("a dog runs in snow", wrong=15),
    )
    found = check_claim(Claim("a over b", "a", "b", "bleu1"), RowResult([better]), RowResult([worse]), rounds=500)
    plain = compare_captions(
        *(caption_scores({p: made for p, (made, _) in each.captions.items()}, REFERENCES) for each in (better, worse)),
        rounds=500,
    )["bleu1"]
    assert found is not None
    assert found.verdict == "holds"
    assert (found.difference.low, found.difference.high) == pytest.approx((plain.low, plain.high))


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 18)


def models(dataset: Dataset) -> tuple[Pipeline, Pipeline]:
    models = TableModels(
        dataset, ExperimentFolder(dataset.path / "runs"), ("embedding_dim=2", "regularization=0.01", "max_proposals=4")
    )
    return tuple(models.pipeline(Training("cca", f"papers/cca-{row}"), 0) for row in ("sentences", "chunks"))  # type: ignore[return-value]


def loop_scores(
    photo_model: Pipeline, region_model: Pipeline, weights: Weights, on: EvaluationData, count: int
) -> np.ndarray:
    """Photo by photo, sentence by sentence, phrase by phrase."""
    photo_features, region_features = on.features(photo_model), on.features(region_model, regions=True)
    squared, share, exponent = (True, 0.7, 1.5) if weights == "entities" else (False, 0.8, 1.0)
    rows = []
    for index, photo in enumerate(on.photos):
        regions = region_features.proposal_vectors(photo.id)[:count]
        if weights == "entities":
            regions = np.concatenate([regions, region_features.vectors(index, index + 1)])
        vectors = region_model.model.prepare_visual(regions)
        whole = photo_model.model.prepare_visual(photo_features.vectors(index, index + 1))[0]
        row = []
        for caption in (caption for each in on.photos for caption in each.sentences):
            apart = np.linalg.norm(whole - photo_model.encode_sentences([caption.text])[0])
            phrases = [caption.phrase(mention) for mention in caption.mentions]
            nearest = [
                min(np.linalg.norm(vector - region_model.encode_sentences([phrase])[0]) for vector in vectors)
                for phrase in phrases
            ]
            power = 2 if squared else 1
            local = sum(each**power for each in nearest) / len(phrases) ** exponent if phrases else apart**power
            row.append(-(share * apart**power + (1 - share) * local))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(("weights", "count"), [("entities", 2), ("two-branch", 3)])
def test_combined_scores_add_the_distance_of_each_phrase_to_its_nearest_region(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, weights: Weights, count: int
) -> None:
    monkeypatch.setitem(scoring._PROPOSALS, weights, count)
    photo_model, region_model = models(dataset)
    on = EvaluationData(dataset, dataset.split("dev"))
    found = combined_scores(photo_model, region_model, weights, on)
    np.testing.assert_allclose(found, loop_scores(photo_model, region_model, weights, on, count), atol=1e-4)
