"""Benchmarks of quality: single nouns, absent things, and the page of captions."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from named_things import NamedThings
from PIL import Image

from deixis.search.calibration import Evidence
from deixis.search.encoder import WordStatistics
from deixis.search.fitting import TrialResult


@pytest.fixture(scope="module")
def nouns(benchmarks: Any) -> ModuleType:
    module: ModuleType = benchmarks("nouns")
    return module


def test_average_precision_equals_a_plain_loop(nouns: ModuleType) -> None:
    rng = np.random.default_rng(0)
    relevant, order = rng.random(50) < 0.3, rng.permutation(50)
    hits, total = 0, 0.0
    for rank, photo in enumerate(order, start=1):
        if relevant[photo]:
            hits += 1
            total += hits / rank
    assert nouns.average_precision(relevant, order) == pytest.approx(total / relevant.sum())
    top = min(5, int(relevant.sum()))
    assert nouns.precision_of_possible(relevant, order) == pytest.approx(relevant[order[:5]].sum() / top)


def test_nouns_are_ranked_by_each_score(nouns: ModuleType) -> None:
    things = NamedThings([["A dog."], ["A cat."], ["A bird."]])
    words, query = WordStatistics(1, -3.0, -3.0, 0.0), np.zeros(2, np.float32)
    by_whole = np.array([3.0, 2.0, 1.0], np.float32)
    evidence = Evidence(by_whole, by_whole[:, None], -by_whole[:, None], 0 * by_whole, words, query)
    dog, zebra = nouns.evaluate(
        {"dog": "dog, puppy", "zebra": "zebra"}, things, [evidence, evidence], [False, False], None
    )
    assert dog.average_precision == {nouns.WHOLE: 1.0, nouns.REGIONS: pytest.approx(1 / 3)}
    assert (zebra.relevant, zebra.precision) == (0, None)
    report = nouns.summarize([dog, zebra])
    assert (report["nouns"], report["present"]) == (2, 1)
    assert report[nouns.WHOLE]["average precision"]["value"] == 1.0


def result(kinds: list[str], best: list[float], cut_off: float) -> TrialResult:
    found = np.array(best) >= cut_off
    none = np.zeros(0)
    return TrialResult(
        np.array(kinds),
        np.arange(len(kinds)),
        np.array(best),
        found,
        found,
        found,
        none.astype(int),
        none,
        none.astype(bool),
    )


def test_absent_things_are_counted_at_the_cut_off_and_at_that_of_85_percent(benchmarks: Any) -> None:
    calibration = benchmarks("calibration")
    present = result(["caption"] * 20 + ["phrase"] * 20, [*np.linspace(0.05, 1, 20)] * 2, 0.5)
    things = result(["absent"] * 4, [0.01, 0.1, 0.3, 0.6], 0.5)
    scores = calibration.absent_scores([things], present)
    assert [score.value for score in scores.values()] == [0.75, 0.5, 0.5]


def test_the_caption_page_shows_every_photo_and_escapes_captions(benchmarks: Any, tmp_path: Path) -> None:
    look = benchmarks("caption_look")
    cards = [
        look.Card("1", Image.new("RGB", (40, 30)), "a <b> dog", 0.5, True, ["A dog & a cat."]),
        look.Card("2", Image.new("RGB", (30, 40)), "a cat", 0.2, False, []),
    ]
    page = look.page("captions", cards)
    assert page.count("<article") == 2
    assert "a &lt;b&gt; dog" in page
    assert "A dog &amp; a cat." in page
    assert 'class="unsure"' in page
    assert look.sheet(cards, 1).width == 2 * (look.SIDE + 420)
