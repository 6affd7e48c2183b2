"""Caption scores against the Java and Python programs of COCO's caption evaluation, on all captions of Flickr8k."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from deixis.evaluation.captions import CaptionScores, caption_scores

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def captions(real_data: Path) -> dict[str, list[str]]:
    """The five captions of each photo of Flickr8k."""
    found: dict[str, list[str]] = {}
    for line in (real_data / "flickr8k" / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines():
        name, caption = line.split("\t", 1)
        found.setdefault(name.split("#")[0], []).append(caption)
    assert len(found) >= 5000
    return found


@pytest.fixture(scope="module")
def ours(captions: dict[str, list[str]]) -> CaptionScores:
    """The first caption of each photo, scored against the other four."""
    return caption_scores(
        {photo: five[0] for photo, five in captions.items()}, {photo: five[1:] for photo, five in captions.items()}
    )


@pytest.fixture(scope="module")
def words(captions: dict[str, list[str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """References and candidates tokenized by COCO's own tokenizer."""
    if not shutil.which("java"):
        pytest.skip("java is not installed: nothing to compare with")
    tokenizer = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer").PTBTokenizer()
    references = {photo: [{"caption": caption} for caption in five[1:]] for photo, five in captions.items()}
    candidates = {photo: [{"caption": five[0]}] for photo, five in captions.items()}
    return tokenizer.tokenize(references), tokenizer.tokenize(candidates)


def test_bleu_equals_pycocoevalcap(ours: CaptionScores, words: tuple[dict[str, Any], dict[str, Any]]) -> None:
    from pycocoevalcap.bleu.bleu import Bleu

    corpus, per_photo = Bleu(4).compute_score(*words, verbose=0)
    assert [ours.bleu1, ours.bleu2, ours.bleu3, ours.bleu4] == pytest.approx([100 * each for each in corpus], abs=1e-6)
    for k in range(4):
        theirs = [100 * each for each in per_photo[k]]
        assert ours.per_photo[f"bleu{k + 1}"].tolist() == pytest.approx(theirs, abs=1e-6)


def test_rouge_l_equals_pycocoevalcap(ours: CaptionScores, words: tuple[dict[str, Any], dict[str, Any]]) -> None:
    from pycocoevalcap.rouge.rouge import Rouge

    corpus, per_photo = Rouge().compute_score(*words)
    assert ours.rouge_l == pytest.approx(100 * corpus, abs=1e-6)
    assert ours.per_photo["rouge_l"] == pytest.approx(100 * per_photo, abs=1e-6)


def test_cider_of_pycocoevalcap_is_cider_d(ours: CaptionScores, words: tuple[dict[str, Any], dict[str, Any]]) -> None:
    from pycocoevalcap.cider.cider import Cider

    corpus, per_photo = Cider().compute_score(*words)
    assert ours.cider_d == pytest.approx(100 * corpus, abs=1e-6)
    assert ours.per_photo["cider_d"] == pytest.approx(100 * per_photo, abs=1e-6)
    assert ours.cider > ours.cider_d + 10


def test_meteor_is_within_two_thousandths_of_pycocoevalcap(
    ours: CaptionScores, words: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    from pycocoevalcap.meteor.meteor import Meteor

    corpus, per_photo = Meteor().compute_score(*words)
    assert ours.meteor == pytest.approx(100 * corpus, abs=0.2)
    close = sum(abs(a - 100 * b) < 1e-4 for a, b in zip(ours.per_photo["meteor"], per_photo, strict=True))
    assert close > 0.98 * len(per_photo)
