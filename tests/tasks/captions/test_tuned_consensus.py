"""k and m of reranking, against trying each of them by itself."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.evaluation.captions import caption_scores
from deixis.tasks.captions import tuned_consensus
from deixis.tasks.captions.consensus import Consensus, ConsensusSettings, Similarity
from deixis.tasks.captions.tuned_consensus import Written, crossed_order, tuned
from tests.tasks.sentences import captions, sentence


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned_consensus, "NEIGHBOURS", (1, 4, 30))
    monkeypatch.setattr(tuned_consensus, "BEST", (1, 5, 40))


def made(photos: int = 30, seed: int = 0) -> tuple[Consensus, Written]:
    rng = np.random.default_rng(seed)
    consensus = Consensus(rng.normal(size=(20, 3)), captions(20, seed))
    sentences = [[sentence(rng) for _ in range(rng.integers(2, 5))] for _ in range(photos)]
    references = [[sentence(rng) for _ in range(3)] for _ in range(photos)]
    return consensus, Written(rng.normal(size=(photos, 3)), sentences, references)


def score_of(consensus: Consensus, written: Written, settings: ConsensusSettings, photos: list[int]) -> float:
    """What settings choose for some photos, scored by the evaluation with what is rare in all photos."""
    order = consensus.order(written.vectors, written.sentences, settings)
    texts = [" ".join(written.sentences[photo][order[photo][0]]) for photo in range(len(order))]
    own = {str(photo): [" ".join(words) for words in texts] for photo, texts in enumerate(written.references)}
    if settings.similarity == "cider":
        each = caption_scores({str(photo): text for photo, text in enumerate(texts)}, own).per_photo["cider_d"]
        return float(each[photos].mean())
    chosen = {str(photo): texts[photo] for photo in photos}
    return caption_scores(chosen, {photo: own[photo] for photo in chosen}).bleu4


SETTINGS = [(k, m) for k in (1, 4, 30) for m in (1, 5, 40)]


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_k_and_m_are_those_that_score_best_when_tried_one_by_one(similarity: Similarity, seed: int) -> None:
    consensus, written = made(seed=seed)
    everyone = list(range(30))
    tried = {(k, m): score_of(consensus, written, ConsensusSettings(similarity, k, m), everyone) for k, m in SETTINGS}
    assert len({round(score, 6) for score in tried.values()}) > 1, "else nothing would be chosen"
    found = tuned(consensus, written, similarity)
    assert tried[found.neighbours, found.captions] == pytest.approx(max(tried.values()))


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_each_half_is_reranked_by_what_is_best_on_the_other(similarity: Similarity) -> None:
    consensus, written = made(seed=5)
    order, chosen = crossed_order(consensus, written, similarity)
    halves = [list(range(0, 30, 2)), list(range(1, 30, 2))]
    for half, others, settings in zip(halves, halves[::-1], chosen, strict=True):
        tried = [score_of(consensus, written, ConsensusSettings(similarity, k, m), others) for k, m in SETTINGS]
        assert score_of(consensus, written, settings, others) == pytest.approx(max(tried))
        expected = consensus.order(written.vectors, written.sentences, settings)
        for photo in half:
            assert order[photo].tolist() == expected[photo].tolist()


def test_one_photo_is_reranked_by_what_is_best_on_itself() -> None:
    consensus, written = made(photos=1)
    order, _ = crossed_order(consensus, written, "cider")
    assert sorted(order[0].tolist()) == list(range(len(written.sentences[0])))
