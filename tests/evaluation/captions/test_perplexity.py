from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DatasetError
from deixis.evaluation.captions.perplexity import perplexity_scores

logarithms = st.lists(st.lists(st.floats(-20, 0), min_size=1, max_size=6), min_size=1, max_size=6)


@given(logarithms)
def test_perplexity_is_two_to_the_mean_of_minus_log2_over_all_words(sentences: list[list[float]]) -> None:
    scores = perplexity_scores(sentences, base=2)
    flat = [value for sentence in sentences for value in sentence]
    assert scores.perplexity == pytest.approx(2 ** (-sum(flat) / len(flat)))
    assert scores.per_sentence == pytest.approx([2 ** (-sum(each) / len(each)) for each in sentences])


@given(logarithms)
def test_the_base_of_the_logarithms_does_not_matter(sentences: list[list[float]]) -> None:
    natural = [[value * math.log(2) for value in sentence] for sentence in sentences]
    assert perplexity_scores(natural).perplexity == pytest.approx(perplexity_scores(sentences, base=2).perplexity)


def test_a_uniform_model_has_the_size_of_its_vocabulary_as_perplexity() -> None:
    assert perplexity_scores([np.full(7, -math.log(50)), np.full(3, -math.log(50))]).perplexity == pytest.approx(50)


def test_end_tokens_do_not_count_in_the_oov_rate() -> None:
    assert perplexity_scores([[-1.0] * 5, [-1.0] * 3], unknown=[1, 2]).oov == pytest.approx(100 * 3 / 6)
    assert perplexity_scores([[-1.0]]).oov is None


def test_photos_are_the_units_of_the_bootstrap() -> None:
    sentences = [[-1.0, -1.0], [-3.0, -3.0]] * 10
    assert perplexity_scores(sentences, photos=[n // 2 for n in range(20)], base=2).interval["perplexity"].low == 4.0
    alone = perplexity_scores(sentences, base=2)
    assert alone.interval["perplexity"].low < 4.0 < alone.interval["perplexity"].high


def test_the_result_is_plain_json() -> None:
    document = perplexity_scores([[-1.0, -1.0]], unknown=[0]).as_json()
    assert set(json.loads(json.dumps(document))) == {"protocol", "n", "sentences", "perplexity", "oov", "interval"}


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        ([], {}, "no sentences"),
        ([[-1.0], []], {}, "sentence 1"),
        ([[-1.0, math.nan]], {}, "sentence 0, word 1.*nan"),
        ([[-math.inf]], {}, "word 0.*-inf"),
        ([[0.5]], {}, "word 0.*0.5"),
        ([[-1.0, -1.0]], {"unknown": [2]}, "sentence 0.*2 unknown"),
        ([[-1.0]], {"unknown": [0, 0]}, "1 sentences but 2 counts"),
        ([[-1.0]], {"photos": ["1", "2"]}, "1 sentences but 2 photos"),
    ],
)
def test_invalid_input_is_reported_with_the_sentence_and_word(
    sentences: list[list[float]], options: dict[str, list[int]], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        perplexity_scores(sentences, **options)  # type: ignore[arg-type]
