from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.evaluation.captions import meteor
from deixis.evaluation.captions.coded import CaptionSet, caption_set
from deixis.evaluation.captions.meteor import meteor_from, meteor_statistics
from deixis.evaluation.captions.meteor_words import normalised

from .strategies import caption_sets

spelled_oddly = st.lists(st.sampled_from(["a", "st.", "t-shirt", "u.s.", "'s", "&", "dog", "…"]), max_size=5)


@given(caption_sets(spelled_oddly))
def test_all_sentences_together_are_respelled_as_each_alone(captions: CaptionSet) -> None:
    candidates, references, ids = meteor._respelled(captions)
    words = list(ids)
    found = [
        [words[number] for number in sentences.words[begin:end]]
        for sentences in (candidates, references)
        for begin, end in pairwise(sentences.begins)
    ]
    assert found == [normalised(sentence) for sentence in captions.sentences()]


def score(candidate: str, *references: str) -> float:
    statistics = meteor_statistics(caption_set({"1": candidate}, {"1": list(references)}))
    return float(meteor_from(statistics)[0])


def test_the_same_sentence_scores_one() -> None:
    assert score("a dog runs in the snow", "a cat sleeps", "A dog runs in the snow.") == 1.0


def test_sentences_without_a_common_word_score_nothing() -> None:
    assert score("two zebras", "a quiet lake") == 0.0
    assert score("", "a quiet lake") == 0.0
    assert score("a quiet lake", "...") == 0.0


# Worked out by hand: content words weigh 0.75, function words (the, is) 0.25.
def test_a_score_by_hand() -> None:
    # the=the, dogs~dog (stem), run~runs (stem): one chunk of three words. P = (0.25 + 2 × 0.6 × 0.75) / 1.75.
    precision = recall = 1.15 / 1.75
    expected = 1 / (0.15 / precision + 0.85 / recall)  # all matched in one chunk: no penalty
    assert score("the dogs run", "the dog runs") == pytest.approx(expected)


def test_recall_counts_more_than_precision() -> None:
    # One more content word in the reference: R = 1.15 / 2.5, and now one chunk of three words is a third.
    precision, recall = 1.15 / 1.75, 1.15 / 2.5
    mean = 1 / (0.15 / precision + 0.85 / recall)
    assert score("the dogs run", "the dog runs fast") == pytest.approx(mean * (1 - 0.6 * (1 / 3) ** 0.2))


def test_fragments_are_penalised() -> None:
    # Every word matches exactly, in two chunks of four words.
    assert score("red zebra lake boat", "lake boat red zebra") == pytest.approx(1 - 0.6 * (2 / 4) ** 0.2)


def test_meteor_prefers_no_match_to_a_lone_ambiguous_one() -> None:
    # dogs~dog is a stem match and a synonym match at once; it adds a chunk and no exact word, so Meteor leaves it.
    assert score("two dogs", "one dog") == 0.0


def test_the_best_reference_counts_and_the_first_of_equals() -> None:
    several = caption_set({"1": "a dog"}, {"1": ["a red cat", "a dog runs", "runs a dog"]})
    assert meteor_from(meteor_statistics(several))[0] == pytest.approx(score("a dog", "a dog runs"))
    assert (
        meteor_statistics(several)[0].tolist()
        == meteor_statistics(caption_set({"1": "a dog"}, {"1": ["a dog runs"]}))[0].tolist()
    )


def test_each_photo_is_scored_as_if_alone() -> None:
    candidates = ["a man is running", "a dog next to the man", "two people", ""]
    references = [["the men run", "a person runs"], ["a dog near a man"], ["two persons", "people"], ["nothing"]]
    together = CaptionSet(
        ("1", "2", "3", "4"),
        [each.split() for each in candidates],
        [[one.split() for one in each] for each in references],
    )
    alone = [
        meteor_statistics(CaptionSet(("1",), together.candidates[n : n + 1], together.references[n : n + 1]))[0]
        for n in range(4)
    ]
    assert meteor_statistics(together) == pytest.approx(np.array(alone))


def test_without_paraphrases_less_is_found() -> None:
    captions = caption_set({"1": "a lady stands near it"}, {"1": ["a woman stands next to it"]})
    assert meteor_from(meteor_statistics(captions, paraphrases=None))[0] < meteor_from(meteor_statistics(captions))[0]


def test_a_set_of_empty_captions_can_be_scored() -> None:
    assert meteor_from(meteor_statistics(CaptionSet(("1",), [[]], [[[]]]))).tolist() == [0.0]
