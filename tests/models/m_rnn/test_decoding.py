"""Beam search, greedy search and sampling, against plain loops."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn import decoding as module
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence, decode, encode_start
from deixis.models.m_rnn.network import MRNNNetwork, VisualContext
from deixis.runtime import Functions
from tests.models.m_rnn import networks
from tests.models.m_rnn.networks import CAPTIONERS, PAPERS, photo_tensors, take, word_steps

VOCABULARY = Vocabulary(tuple("abcdefghi"), (9, 8, 7, 6, 5, 4, 3, 2, 1))
KINDS = {
    "m-rnn": PAPERS["papers/m-rnn"],
    "vis-in-rnn": PAPERS["papers/m-rnn-vis-in-rnn"],
    "captioner": CAPTIONERS["one attention"],
}
PHOTOS = 7


def make_network(kind: str = "m-rnn", seed: int = 0) -> MRNNNetwork:
    network = networks.make_network(KINDS[kind], seed, std=0.7)
    with torch.no_grad():
        network.word_bias[network.end] += 1
        network.word_bias[network.unknown] += 4  # so that it would be generated if it could
    return network


def context_of(network: MRNNNetwork, count: int = PHOTOS) -> VisualContext:
    with torch.inference_mode():
        return take(network.visual_context(*photo_tensors(network, PHOTOS)), slice(0, count))


def generate(
    network: MRNNNetwork, decoding: Decoding, start: str = "", count: int = PHOTOS
) -> list[list[GeneratedSentence]]:
    photos = [part[:count].numpy() for part in photo_tensors(network, PHOTOS)]
    first = encode_start(start, VOCABULARY, decoding.max_length)
    context = Functions(network)("photo_terms", *photos)
    return decode(word_steps(network), context, count, VOCABULARY, decoding, first)


def log_probability(network: MRNNNetwork, context: VisualContext, sentence: GeneratedSentence) -> float:
    """By the network itself."""
    words = VOCABULARY.encode(sentence.words)
    with torch.inference_mode():
        log_p = network(context, torch.tensor([[network.start, *words]]))[0][0].log_softmax(-1)
    generated = [*words, network.end] if sentence.finished else words
    return float(sum(row[word] for row, word in zip(log_p, generated, strict=False)))


METHODS = {
    "greedy": Decoding("greedy"),
    "beam": Decoding(beam=4, top=4),
    "normalised": Decoding(beam=4, top=4, length_power=0.7),
    "sample": Decoding("sample", top=3, seed=5),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_log_probability_of_a_sentence_is_that_of_the_network(kind: str, method: str) -> None:
    network = make_network(kind)
    context = context_of(network)
    for photo, sentences in enumerate(generate(network, METHODS[method])):
        for sentence in sentences:
            expected = log_probability(network, take(context, slice(photo, photo + 1)), sentence)
            assert sentence.log_probability == pytest.approx(expected, rel=1e-5)
            assert len(sentence.word_log_probabilities) == len(sentence.words) + sentence.finished
            assert sum(sentence.word_log_probabilities) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_block_size_does_not_change_the_sentences(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_network()
    whole = generate(network, METHODS[method])
    monkeypatch.setattr(module, "ROWS_PER_BLOCK", 8)
    parts = generate(network, METHODS[method])
    assert [[s.words for s in sentences] for sentences in whole] == [[s.words for s in each] for each in parts]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_a_beam_of_one_is_greedy_search(kind: str, seed: int) -> None:
    network = make_network(kind, seed)
    for one, other in zip(generate(network, Decoding(beam=1)), generate(network, Decoding("greedy")), strict=True):
        assert [(s.words, s.finished) for s in one] == [(s.words, s.finished) for s in other]
        assert [s.log_probability for s in one] == pytest.approx([s.log_probability for s in other], rel=1e-5)


@pytest.mark.parametrize("start", ["", "C d"])
@pytest.mark.parametrize("method", METHODS)
def test_sentences_are_known_words_after_the_first_words(method: str, start: str) -> None:
    for seed in range(5):
        for sentence in chain(*generate(make_network(seed=seed), METHODS[method], start=start)):
            assert sentence.words
            assert sentence.words[: len(start.split())] == tuple(start.lower().split())
            assert set(sentence.words) <= set(VOCABULARY.words)


def test_a_sentence_may_end_right_after_its_first_words() -> None:
    network = make_network()
    with torch.no_grad():
        network.word_bias[network.end] += 100
    assert [sentences[0].words for sentences in generate(network, Decoding(), start="a b")] == [("a", "b")] * PHOTOS


def test_unknown_or_too_many_first_words_are_an_error() -> None:
    with pytest.raises(DeixisError, match="start: .*'zebra'"):
        generate(make_network(), Decoding(), start="a zebra")
    with pytest.raises(DeixisError, match="start: 3 words"):
        generate(make_network(), Decoding(max_length=3), start="a b c")


def test_no_photos_give_no_sentences() -> None:
    assert generate(make_network(), Decoding(), count=0) == []


def test_sentences_cut_at_the_maximum_length_are_not_finished() -> None:
    network = make_network()
    with torch.no_grad():
        network.word_bias[network.end] -= 100
    for method in METHODS.values():
        decoding = Decoding(method.method, method.beam, method.top, max_length=4)
        for sentences in generate(network, decoding):
            assert all(len(sentence.words) == 4 and not sentence.finished for sentence in sentences)


def test_samples_of_a_photo_depend_on_the_seed_and_not_on_the_photos_after_it() -> None:
    network, decoding = make_network(), Decoding("sample", top=4, seed=1)
    assert generate(network, decoding) != generate(network, Decoding("sample", top=4, seed=2))
    for few, many in zip(generate(network, decoding, count=2), generate(network, decoding), strict=False):
        assert [s.words for s in few] == [s.words for s in many]


def first_words(decoding: Decoding) -> Counter[str]:
    return Counter(sentence.words[0] for sentence in generate(make_network(), decoding, count=1)[0])


def shares() -> dict[str, float]:
    """Probabilities of the first words."""
    network = make_network()
    with torch.inference_mode():
        logits, _ = network(context_of(network, 1), torch.tensor([[network.start]]))
    allowed = logits[0, 0, : len(VOCABULARY)].softmax(0)
    return dict(zip(VOCABULARY.words, allowed.tolist(), strict=True))


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_words_are_sampled_with_their_probabilities_which_a_low_temperature_sharpens(temperature: float) -> None:
    sampled = first_words(Decoding("sample", top=1000, max_length=1, temperature=temperature))
    powers = {word: share ** (1 / temperature) for word, share in shares().items()}
    for word, power in powers.items():
        assert sampled[word] / 1000 == pytest.approx(power / sum(powers.values()), abs=0.06)


def test_top_k_and_nucleus_keep_the_most_probable_words() -> None:
    ordered = sorted(shares().items(), key=lambda pair: -pair[1])
    sampled = first_words(Decoding("sample", top=1000, max_length=1, top_k=2))
    assert set(sampled) == {word for word, _ in ordered[:2]}
    assert sampled[ordered[0][0]] / 1000 == pytest.approx(ordered[0][1] / (ordered[0][1] + ordered[1][1]), abs=0.06)
    enough = ordered[0][1] + ordered[1][1] / 2  # the second is needed to reach it, the third is not
    assert set(first_words(Decoding("sample", top=1000, max_length=1, nucleus=enough))) == set(sampled)
    assert set(first_words(Decoding("sample", top=1000, max_length=1, nucleus=1e-6))) == {ordered[0][0]}


def test_perplexity_counts_the_end_token() -> None:
    assert GeneratedSentence(("a", "b", "c"), -4 * np.log(8), True).perplexity == pytest.approx(8)
    assert GeneratedSentence(("a", "b", "c"), -3 * np.log(8), False).perplexity == pytest.approx(8)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"beam": 0}, "beam=0"),
        ({"top": 6}, "top=6"),
        ({"method": "greedy", "top": 2}, "top=2"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"nucleus": 1.5}, "nucleus=1.5"),
        ({"top_k": -1}, "top_k"),
    ],
)
def test_impossible_decoding_settings_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(DeixisError, match=named):
        Decoding(**wrong)  # type: ignore[arg-type]


def plain_beam_search(
    network: MRNNNetwork, context: VisualContext, decoding: Decoding, start: str
) -> list[GeneratedSentence]:
    """Beam search for one photo with lists: sorts all continuations of all sentences."""
    kept = [GeneratedSentence(tuple(start.split()), 0.0, finished=False)]
    kept = [GeneratedSentence(kept[0].words, log_probability(network, context, kept[0]), finished=False)]

    def rank(sentence: GeneratedSentence) -> float:
        return sentence.log_probability / (len(sentence.words) + sentence.finished) ** decoding.length_power

    for _ in range(len(kept[0].words), decoding.max_length):
        longer = [sentence for sentence in kept if sentence.finished]
        for sentence in kept:
            if not sentence.finished:
                words = torch.tensor([[network.start, *VOCABULARY.encode(sentence.words)]])
                with torch.inference_mode():
                    log_p = network(context, words)[0][0, -1].log_softmax(-1).tolist()
                for number, word in enumerate(VOCABULARY.words):
                    total = sentence.log_probability + log_p[number]
                    longer.append(GeneratedSentence((*sentence.words, word), total, finished=False))
                if sentence.words:
                    longer.append(GeneratedSentence(sentence.words, sentence.log_probability + log_p[network.end]))
        ordered = sorted(longer, key=rank, reverse=True)
        # A state that has died forgets the order of words: which of two equally log_p sentences is kept is chance.
        assume(all(rank(one) - rank(other) > 1e-4 for one, other in pairwise(ordered[: decoding.beam + 1])))
        kept = ordered[: decoding.beam]
    return kept[: decoding.top]


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    seed=st.integers(0, 1000),
    beam=st.integers(1, 10),  # more than there are first words
    power=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    max_length=st.integers(1, 7),
    photos=st.integers(1, PHOTOS),
    start=st.sampled_from(["", "c"]),
    count=st.integers(1, 10),
)
@example(
    kind="m-rnn", seed=0, beam=10, power=0.0, max_length=1, photos=2, start="", count=10
)  # there are nine sentences
def test_beam_search_finds_what_a_plain_loop_finds(
    kind: str, seed: int, beam: int, power: float, max_length: int, photos: int, start: str, count: int
) -> None:
    assume(len(start) < max_length)
    decoding = Decoding(beam=beam, top=min(count, beam), length_power=power, max_length=max_length)
    network = make_network(kind, seed)
    context = context_of(network)
    for photo, sentences in enumerate(generate(network, decoding, start, photos)):
        expected = plain_beam_search(network, take(context, slice(photo, photo + 1)), decoding, start)
        assert [(s.words, s.finished) for s in sentences] == [(s.words, s.finished) for s in expected]
        assert [s.log_probability for s in sentences] == pytest.approx([s.log_probability for s in expected], rel=1e-5)
