"""Sentences that are made up: by beam, greedily and by chance, against searches that try everything."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.decoding import ROWS_AT_A_TIME, Decoding, Generated, decode, start_ids
from deixis.models.m_rnn import MRNNNetwork, MRNNSettings, Seen
from deixis.models.m_rnn_quick import QuickMRNN

SIZES = {"first_embedding": 4, "second_embedding": 6, "recurrent_size": 6, "multimodal_size": 8}
VOCABULARY = Vocabulary(tuple("abcdef"), (6, 5, 4, 3, 2, 1))
KINDS = {
    "relu": MRNNSettings(**SIZES),
    "lstm": MRNNSettings(**SIZES, recurrent="lstm"),
    "vis-in-rnn": MRNNSettings(**SIZES, photo_into="recurrent"),
    "attention": MRNNSettings(**SIZES, attention=True),
}
PHOTOS = 7


def made(kind: str = "relu", seed: int = 0) -> MRNNNetwork:
    torch.manual_seed(seed)
    settings = KINDS[kind]
    network = MRNNNetwork(5, len(VOCABULARY), settings, 3 if settings.attention else 0).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=0.7)
        network.word_bias[network.end] += 1
        network.word_bias[network.unknown] += 4  # so that it would be written if it could
    return network


def seen_by(network: MRNNNetwork | QuickMRNN, count: int = PHOTOS) -> Seen:
    rng = np.random.default_rng(3)
    vectors, cells = rng.normal(size=(PHOTOS, 5)), rng.normal(size=(PHOTOS, 4, 3))
    with torch.inference_mode():
        return network.see(torch.from_numpy(vectors), torch.from_numpy(cells)).take(slice(0, count))


def decoded(network: MRNNNetwork, how: Decoding, start: str = "", count: int = PHOTOS) -> list[list[Generated]]:
    quick = QuickMRNN(network)
    return decode(quick, seen_by(quick, count), count, VOCABULARY, how, start_ids(start, VOCABULARY))


def log_probability(network: MRNNNetwork, seen: Seen, sentence: Generated) -> float:
    """A word at a time, by the network itself."""
    words = VOCABULARY.encode(sentence.words)
    with torch.inference_mode():
        likely = network(seen, torch.tensor([[network.start, *words]]))[0][0].log_softmax(-1)
    written = [*words, network.end] if sentence.finished else words
    return float(sum(row[word] for row, word in zip(likely, written, strict=False)))


WAYS = {
    "greedy": Decoding("greedy"),
    "beam": Decoding(beam=4, count=4),
    "normalised": Decoding(beam=4, count=4, length_power=0.7),
    "sample": Decoding("sample", count=3, seed=5),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_probability_told_is_the_models_own(kind: str, way: str) -> None:
    network = made(kind)
    seen = seen_by(network)
    for photo, sentences in enumerate(decoded(network, WAYS[way])):
        for sentence in sentences:
            expected = log_probability(network, seen.take(slice(photo, photo + 1)), sentence)
            assert sentence.log_probability == pytest.approx(expected)


@pytest.mark.parametrize("way", ["greedy", "beam", "normalised"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_photos_at_once_give_what_each_gives_alone(kind: str, way: str) -> None:
    network, how = made(kind), WAYS[way]
    quick = QuickMRNN(network)
    together = decoded(network, how, start="c")
    for photo in range(PHOTOS):
        alone = decode(quick, seen_by(quick).take(slice(photo, photo + 1)), 1, VOCABULARY, how, [2])[0]
        assert [s.words for s in alone] == [s.words for s in together[photo]]
        assert [s.log_probability for s in alone] == pytest.approx([s.log_probability for s in together[photo]])


@pytest.mark.parametrize("way", WAYS)
def test_photos_in_several_blocks_give_what_one_block_gives(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = made()
    whole = decoded(network, WAYS[way])
    monkeypatch.setitem(ROWS_AT_A_TIME, "cpu", 8)
    parts = decoded(network, WAYS[way])
    assert [[s.words for s in sentences] for sentences in whole] == [[s.words for s in each] for each in parts]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_a_beam_of_one_is_greedy(kind: str, seed: int) -> None:
    network = made(kind, seed)
    assert decoded(network, Decoding(beam=1)) == decoded(network, Decoding("greedy"))


def every_sentence(network: MRNNNetwork, seen: Seen, longest: int) -> list[Generated]:
    sentences = []
    for length in range(1, longest + 1):
        for words in product(VOCABULARY.words, repeat=length):
            sentence = Generated(words, 0.0, finished=length < longest)
            sentences.append(Generated(words, log_probability(network, seen, sentence), sentence.finished))
    return sorted(sentences, key=lambda sentence: -sentence.log_probability)


@pytest.mark.parametrize("kind", KINDS)
def test_a_beam_that_holds_everything_finds_the_best_sentences(kind: str) -> None:
    network = made(kind)
    seen = seen_by(network)
    found = decoded(network, Decoding(beam=300, count=10, longest=3), count=1)[0]
    expected = every_sentence(network, seen.take(slice(0, 1)), 3)[:10]
    assert [s.words for s in found] == [s.words for s in expected]
    assert [s.log_probability for s in found] == pytest.approx([s.log_probability for s in expected])


def test_all_sentences_of_a_beam_are_written_to_their_end() -> None:
    for seed in range(4):
        network = made(seed=seed)
        with torch.no_grad():
            network.word_bias[network.end] += 1
        for sentences in decoded(network, Decoding(beam=5, count=5, longest=300)):
            assert [sentence.finished for sentence in sentences] == [True] * 5


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_asking_for_fewer_sentences_of_a_beam_gives_the_first_of_them(power: float) -> None:
    for seed in range(6):
        network = made(seed=seed)
        many = decoded(network, Decoding(beam=5, count=5, length_power=power))
        for count in (1, 3):
            few = decoded(network, Decoding(beam=5, count=count, length_power=power))
            assert [[s.words for s in each] for each in few] == [[s.words for s in each[:count]] for each in many]


def test_the_best_of_a_wide_beam_is_no_worse_than_greedy() -> None:
    for seed in range(8):
        network = made(seed=seed)
        greedy, beam = decoded(network, Decoding("greedy")), decoded(network, Decoding(beam=40))
        for one, other in zip(greedy, beam, strict=True):
            assert other[0].log_probability >= one[0].log_probability - 1e-9


def test_sentences_of_a_beam_are_different_and_in_order() -> None:
    for sentences in decoded(made(), Decoding(beam=6, count=6)):
        assert len({s.words for s in sentences}) == 6
        values = [s.log_probability for s in sentences]
        assert values == sorted(values, reverse=True)


def test_with_length_power_one_a_beam_that_holds_everything_ranks_by_the_mean() -> None:
    network = made()
    found = decoded(network, Decoding(beam=300, count=300, longest=3, length_power=1.0), count=1)[0]
    means = [s.log_probability / (len(s.words) + s.finished) for s in found]
    assert means == sorted(means, reverse=True)


def test_length_power_makes_sentences_longer() -> None:
    def words(power: float) -> int:
        how = Decoding(beam=6, length_power=power)
        return sum(len(each[0].words) for seed in range(4) for each in decoded(made(seed=seed), how))

    assert words(1.0) > words(0.5) > words(0.0)


@pytest.mark.parametrize("way", WAYS)
def test_signs_and_the_unknown_word_are_never_written_and_no_sentence_is_empty(way: str) -> None:
    for seed in range(5):
        for sentences in decoded(made(seed=seed), WAYS[way]):
            for sentence in sentences:
                assert sentence.words
                assert set(sentence.words) <= set(VOCABULARY.words)


@pytest.mark.parametrize("way", WAYS)
def test_a_sentence_begins_with_the_words_given(way: str) -> None:
    for sentences in decoded(made(), WAYS[way], start="C d"):
        assert sentences
        assert all(sentence.words[:2] == ("c", "d") for sentence in sentences)


def test_given_words_that_are_all_of_it_leave_room_for_the_end() -> None:
    network = made()
    with torch.no_grad():
        network.word_bias[network.end] += 100
    assert [sentences[0].words for sentences in decoded(network, Decoding(), start="a b")] == [("a", "b")] * PHOTOS


def test_unknown_words_to_begin_with_are_named() -> None:
    with pytest.raises(DeixisError, match="^start: the model does not know the word 'zebra'$"):
        decoded(made(), Decoding(), start="a zebra")
    with pytest.raises(DeixisError, match="3 words to begin with"):
        decoded(made(), Decoding(longest=3), start="a b c")


def test_no_photos_give_no_sentences() -> None:
    quick = QuickMRNN(made())
    assert decode(quick, seen_by(quick).take(slice(0, 0)), 0, VOCABULARY, Decoding()) == []


def test_sentences_are_no_longer_than_asked_for_and_say_so() -> None:
    network = made()
    with torch.no_grad():
        network.word_bias[network.end] -= 100
    for way in WAYS.values():
        how = Decoding(way.method, way.beam, way.count, longest=4)
        for sentences in decoded(network, how):
            assert all(len(sentence.words) == 4 and not sentence.finished for sentence in sentences)


def test_the_same_seed_draws_the_same_and_another_draws_others() -> None:
    network = made()
    how = Decoding("sample", count=4, seed=1)
    assert decoded(network, how) == decoded(network, how)
    assert decoded(network, how) != decoded(network, Decoding("sample", count=4, seed=2))


def test_what_is_drawn_for_a_photo_does_not_depend_on_the_photos_after_it() -> None:
    network = made()
    how = Decoding("sample", count=2, seed=1)
    for few, many in zip(decoded(network, how, count=2), decoded(network, how), strict=False):
        assert [s.words for s in few] == [s.words for s in many]


def first_words(how: Decoding) -> Counter[str]:
    return Counter(sentence.words[0] for sentence in decoded(made(), how, count=1)[0])


def shares() -> dict[str, float]:
    """Of first words that may be written, as the network has them."""
    network = made()
    with torch.inference_mode():
        logits, _ = network(seen_by(network, 1), torch.tensor([[network.start]]))
    allowed = logits[0, 0, : len(VOCABULARY)].softmax(0)
    return dict(zip(VOCABULARY.words, allowed.tolist(), strict=True))


def test_words_are_drawn_as_often_as_they_are_likely() -> None:
    drawn = first_words(Decoding("sample", count=4000, longest=1))
    for word, share in shares().items():
        assert drawn[word] / 4000 == pytest.approx(share, abs=0.03)


def test_temperature_sharpens_the_draw() -> None:
    drawn = first_words(Decoding("sample", count=4000, longest=1, temperature=0.5))
    squares = {word: share**2 for word, share in shares().items()}
    for word, square in squares.items():
        assert drawn[word] / 4000 == pytest.approx(square / sum(squares.values()), abs=0.03)


def test_top_k_and_nucleus_keep_the_likeliest() -> None:
    ordered = sorted(shares().items(), key=lambda pair: -pair[1])
    drawn = first_words(Decoding("sample", count=1000, longest=1, top_k=2))
    assert set(drawn) == {word for word, _ in ordered[:2]}
    assert drawn[ordered[0][0]] / 1000 == pytest.approx(ordered[0][1] / (ordered[0][1] + ordered[1][1]), abs=0.06)
    enough = ordered[0][1] + ordered[1][1] / 2  # the second is needed to reach it, the third is not
    assert set(first_words(Decoding("sample", count=1000, longest=1, nucleus=enough))) == {ordered[0][0], ordered[1][0]}
    assert set(first_words(Decoding("sample", count=1000, longest=1, nucleus=1e-6))) == {ordered[0][0]}


def test_perplexity_is_base_two_with_the_end_sign_counted() -> None:
    assert Generated(("a", "b", "c"), -4 * np.log(8), True).perplexity == pytest.approx(8)
    assert Generated(("a", "b", "c"), -3 * np.log(8), False).perplexity == pytest.approx(8)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"beam": 0}, "beam=0"),
        ({"count": 6}, "count=6"),
        ({"method": "greedy", "count": 2}, "count=2"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"nucleus": 1.5}, "nucleus=1.5"),
        ({"top_k": -1}, "top_k"),
    ],
)
def test_what_cannot_be_decoded_is_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(DeixisError, match=named):
        Decoding(**wrong)  # type: ignore[arg-type]


def plainly_by_beam(network: MRNNNetwork, seen: Seen, how: Decoding, start: str) -> list[Generated]:
    """One photo, by lists and sorting: every continuation of every sentence is looked at, by the network itself."""
    kept = [Generated(tuple(start.split()), 0.0, finished=False)]
    kept = [Generated(kept[0].words, log_probability(network, seen, kept[0]), finished=False)]

    def rank(sentence: Generated) -> float:
        return sentence.log_probability / (len(sentence.words) + sentence.finished) ** how.length_power

    for _ in range(len(kept[0].words), how.longest):
        longer = [sentence for sentence in kept if sentence.finished]
        for sentence in kept:
            if not sentence.finished:
                words = torch.tensor([[network.start, *VOCABULARY.encode(sentence.words)]])
                with torch.inference_mode():
                    likely = network(seen, words)[0][0, -1].log_softmax(-1).tolist()
                for number, word in enumerate(VOCABULARY.words):
                    total = sentence.log_probability + likely[number]
                    longer.append(Generated((*sentence.words, word), total, finished=False))
                if sentence.words:
                    longer.append(Generated(sentence.words, sentence.log_probability + likely[network.end]))
        ordered = sorted(longer, key=rank, reverse=True)
        # A state that has died forgets the order of words: which of two equally likely sentences is kept is chance.
        assume(all(rank(one) - rank(other) > 1e-9 for one, other in pairwise(ordered[: how.beam + 1])))
        kept = ordered[: how.beam]
    return kept[: how.count]


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    seed=st.integers(0, 1000),
    beam=st.integers(1, 6),
    power=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    longest=st.integers(2, 7),
    photos=st.integers(1, PHOTOS),
    start=st.sampled_from(["", "c"]),
    data=st.data(),
)
def test_a_beam_writes_what_a_plain_search_writes(
    kind: str, seed: int, beam: int, power: float, longest: int, photos: int, start: str, data: st.DataObject
) -> None:
    how = Decoding(beam=beam, count=data.draw(st.integers(1, beam)), length_power=power, longest=longest)
    network = made(kind, seed)
    seen = seen_by(network)
    for photo, sentences in enumerate(decoded(network, how, start, photos)):
        expected = plainly_by_beam(network, seen.take(slice(photo, photo + 1)), how, start)
        assert [(s.words, s.finished) for s in sentences] == [(s.words, s.finished) for s in expected]
        assert [s.log_probability for s in sentences] == pytest.approx([s.log_probability for s in expected])
