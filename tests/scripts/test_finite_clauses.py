"""scripts/finite_clauses.py: forms of verbs and nouns, and sentences made from captions."""

from __future__ import annotations

import random

import pytest
from finite_clauses import FiniteClauses, lemma_of_participle, past, plural, third_person

from deixis.language.trees import read_tree

KNOWN = frozenset(["ride", "run", "hold", "chase", "sit", "lie", "stop"])
RIDING = "(NP (NP (DT A) (NN man)) (VP (VBG riding) (NP (DT a) (NN wave))) (. .))"
CHASING = "(NP (NP (DT A) (JJ small) (NN dog)) (VP (VBG chasing) (NP (DT a) (NN cat))))"


@pytest.mark.parametrize(
    ("participle", "lemma"),
    [("riding", "ride"), ("running", "run"), ("holding", "hold"), ("lying", "lie"), ("string", None), ("ing", None)],
)
def test_the_base_form_of_a_participle_is_a_known_verb(participle: str, lemma: str | None) -> None:
    assert lemma_of_participle(participle, KNOWN) == lemma


def test_verbs_and_nouns_are_inflected() -> None:
    assert [third_person(verb) for verb in ("ride", "carry", "play", "watch", "have")] == [
        "rides", "carries", "plays", "watches", "has",
    ]  # fmt: skip
    assert [past(verb) for verb in ("ride", "carry", "play", "stop", "rain", "sit")] == [
        "rode", "carried", "played", "stopped", "rained", "sat",
    ]  # fmt: skip
    assert [plural(noun) for noun in ("dog", "woman", "child", "bus")] == ["dogs", "women", "children", "buses"]


def test_a_fragment_with_a_participle_becomes_sentences_of_its_words() -> None:
    clauses = FiniteClauses([read_tree(RIDING), read_tree(CHASING)], KNOWN)
    rng = random.Random(0)
    made = {str(clauses.clause(read_tree(RIDING), rng)) for _ in range(60)}
    wave = "(NP (DT a) (NN wave))) (. .))"
    assert f"(S (NP (DT A) (NN man)) (VP (VBZ rides) {wave}" in made
    assert f"(S (NP (DT A) (NN man)) (VP (VBD rode) {wave}" in made
    assert f"(S (NP (NNS Men)) (VP (VBP ride) {wave}" in made
    assert f"(S (NP (DT A) (NN man)) (VP (VBZ chases) {wave}" in made, "another verb with one object"
    verbs = {"rides", "rode", "ride", "chases", "chased", "chase"}
    assert all(verbs & set(read_tree(text).words()) for text in made)


def test_the_present_becomes_the_past_and_other_captions_nothing() -> None:
    clauses, rng = FiniteClauses([read_tree(RIDING)], KNOWN), random.Random(0)
    sentence = "(S (NP (DT A) (NN dog)) (VP (VBZ {}) (PP (IN in) (NP (NN snow)))))"
    assert str(clauses.clause(read_tree(sentence.format("sits")), rng)) == sentence.replace("VBZ", "VBD").format("sat")
    for other in (sentence.format("quuxes"), "(NP (DT a) (NN dog))", "(NP (NP (NN dog)) (PP (IN in) (NP (NN snow))))"):
        assert clauses.clause(read_tree(other), rng) is None
