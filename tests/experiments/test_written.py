"""What models that write captions score, against the tasks that write and the evaluation that scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.of_data import regions_of, sentences_of
from deixis.evaluation.retrieval import recall_at_k, region_retrieval
from deixis.experiments.measuring import Measuring
from deixis.experiments.outcomes import Outcome
from deixis.experiments.records import Recipe, Training, Writing
from deixis.experiments.runs import Runs
from deixis.experiments.scored import Scored
from deixis.experiments.tables import find_table
from deixis.experiments.trained import Workshop
from deixis.experiments.written import score_likely, score_likely_regions, score_written, seen_by_captioner
from deixis.models.decoding import Decoding
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.tasks.captions.consensus import best_first, oracle_scores
from deixis.tasks.captions.reranking import HowReranked, Neighbours, looked_up
from deixis.tasks.captions.scoring import captioner_regions, captioner_retrieval
from deixis.tasks.captions.tuned_consensus import Written, crossed_order
from deixis.tasks.scores.scoring import seen_by
from deixis.training.captions import perplexity_of
from tests.tasks.quarters import make_quarters, use_small_encoders

SMALL = (
    *("epochs=8", "batch_size=16", "learning_rate=0.03", "min_count=2", "device=cpu", "threads=1"),
    *("first_embedding=8", "second_embedding=12", "recurrent_size=12", "multimodal_size=16"),
)
NETWORK = Training("m-rnn", "papers/m-rnn")


class Quarters:
    """Photos whose quarters have colours, and a model that has learned a little from them."""

    def __init__(self, folder: Path) -> None:
        self.dataset: Dataset = make_quarters(folder, 18)
        self.measuring = Measuring(Workshop(self.dataset, Runs(folder / "runs"), SMALL), "dev", 1)
        self.bundle: CaptionBundle = self.measuring.workshop.captioner(NETWORK, 0)
        self.on = Scored(self.dataset, self.dataset.split("dev"))
        self.train = self.dataset.split("train")
        self.own = {photo.id: [caption.text for caption in photo.sentences] for photo in self.on.photos}

    def outcome(self, writing: Writing) -> Outcome:
        return score_written(self.bundle, self.on, writing, self.train)


@pytest.fixture(scope="module")
def quarters(tmp_path_factory: pytest.TempPathFactory) -> Quarters:
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_encoders(monkeypatch)
        return Quarters(tmp_path_factory.mktemp("written"))


@pytest.fixture(autouse=True)
def _small_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_encoders(monkeypatch)


@pytest.mark.parametrize("beam", [1, 3])
def test_captions_are_those_of_the_model_and_scored_as_the_evaluation_does(quarters: Quarters, beam: int) -> None:
    found = quarters.outcome(Writing(beam))
    photos = seen_by_captioner(quarters.bundle, quarters.on)
    how = Decoding(method="greedy") if beam == 1 else Decoding(beam=beam)
    made = quarters.bundle.model.generate(photos.vectors(), how)
    written = {photo: some[0].text for photo, some in zip(photos.photos.ids, made, strict=True)}
    assert {photo: text for photo, (text, _) in found.captions.items()} == written
    expected = caption_scores(written, quarters.own, training=sentences_of(quarters.train).texts)
    assert found.scores["bleu1"] == pytest.approx(expected.bleu1)
    assert found.scores["novel"] == expected.novel
    gold = sentences_of(quarters.on.photos)
    surprise = perplexity_of(quarters.bundle.model, photos.vectors(), gold.texts, np.array(gold.photo_of_sentence))
    assert found.scores["perplexity"] == surprise.perplexity
    assert found.about["encoder"] == "colours (colours-1)"
    assert "known, 0.0 % of those scored unknown" in found.about["words"]


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
@pytest.mark.parametrize("feature", ["refined", "photo"])
def test_reranking_asks_training_photos_with_k_and_m_from_the_other_half(
    quarters: Quarters, similarity: str, feature: str
) -> None:
    found = quarters.outcome(Writing(4, similarity, feature))  # type: ignore[arg-type]
    bundle, vectors = quarters.bundle, seen_by_captioner(quarters.bundle, quarters.on).vectors()
    made = bundle.model.generate(vectors, Decoding(beam=4, count=4))
    learned = seen_by(bundle.encoder, quarters.dataset, quarters.train)
    near = Neighbours.of(learned, bundle.encoder, HowReranked(feature))  # type: ignore[arg-type]
    sentences = [[each.words for each in some] for some in made]
    written = Written(looked_up(bundle.model, vectors, feature), sentences, list(quarters.own.values()))  # type: ignore[arg-type]
    order, settings = crossed_order(near.consensus(bundle.model), written, similarity)  # type: ignore[arg-type]
    expected = [some[places[0]].text for some, places in zip(made, order, strict=True)]
    assert [text for text, _ in found.captions.values()] == expected
    said = found.about[f"k and m of {similarity}, each from the other half"]
    assert said.startswith(f"{settings[0].neighbours} and {settings[0].captions}, ")


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_the_oracle_is_the_best_that_reranking_could_be(quarters: Quarters, similarity: str) -> None:
    found = quarters.outcome(Writing(4, f"{similarity}-oracle"))  # type: ignore[arg-type]
    vectors = seen_by_captioner(quarters.bundle, quarters.on).vectors()
    made = quarters.bundle.model.generate(vectors, Decoding(beam=4, count=4))
    scores = oracle_scores([[each.words for each in some] for some in made], list(quarters.own.values()), similarity)  # type: ignore[arg-type]
    expected = [some[best_first(each)[0]].text for some, each in zip(made, scores, strict=True)]
    assert [text for text, _ in found.captions.values()] == expected


def test_retrieval_and_regions_are_the_matrices_of_the_model(quarters: Quarters) -> None:
    seen, gold = seen_by_captioner(quarters.bundle, quarters.on), sentences_of(quarters.on.photos)
    whole = recall_at_k(captioner_retrieval(quarters.bundle, seen, gold.texts), gold.photo_of_sentence)
    assert score_likely(quarters.bundle, quarters.on).scores == whole.scores
    regions = regions_of(quarters.on.photos)
    parts = region_retrieval(
        captioner_regions(quarters.bundle, seen, regions),
        regions.positives,
        phrases=regions.phrases,
        photo_of_region=regions.photo_of_region,
    )
    assert score_likely_regions(quarters.bundle, quarters.on).scores == parts.scores


def test_tables_measure_each_way_of_writing_once(quarters: Quarters) -> None:
    table = find_table("m-rnn-8")
    rows = tuple(row for row in table.rows if row.key in ("shared", "cider", "cider-oracle", "bleu-photo"))
    found = quarters.measuring.table(replace(table, rows=rows))
    assert list(found.ours) == ["shared", "cider", "cider-oracle", "bleu-photo"]
    assert [each.claim.says for each in found.claims] == ["reranking by CIDEr helps"]
    assert len(list((quarters.measuring.workshop.runs.folder / "scores").glob("captions-*"))) == 4
    oracle, reranked = (found.ours[key].score("cider_d") or 0 for key in ("cider-oracle", "cider"))
    assert oracle >= reranked


def test_another_way_of_writing_is_another_outcome(quarters: Quarters) -> None:
    how = quarters.measuring
    writings = [Writing(), Writing(5), Writing(10, "bleu"), Writing(10, "cider"), Writing(10, "cider", "photo")]
    abouts = [str(how._about(Recipe("captions", NETWORK, writing=writing), 0)) for writing in writings]
    assert len(set(abouts)) == 5
    assert "writing" not in how._about(Recipe("retrieval", NETWORK), 0), "or all that was kept would be lost"
