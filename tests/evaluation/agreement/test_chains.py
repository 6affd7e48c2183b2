"""MUC, B³ and CEAF: the literature's examples and plain loops."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data.records import Caption, Mention, Photo
from deixis.errors import DeixisError
from deixis.evaluation.agreement import chain_agreement, chains_of
from deixis.evaluation.intervals import Result


def agreement(key: list[str], response: list[str]) -> Result:
    return chain_agreement({"7": key}, {"7": response}, rounds=2)


def test_scores_agree_with_the_example_of_the_reference_implementation() -> None:
    """Pradhan et al., ACL 2014: key abc defg, response ab cd fghi, with e, h and i twinless."""
    found = agreement(["abc", "defg"], ["ab", "cd", "fghi"])
    assert (found.muc.recall, found.muc.precision) == (pytest.approx(40), pytest.approx(40))
    assert found.b3.recall == pytest.approx(100 * (4 / 3 + 1 / 3 + 1 / 4 + 4 / 4) / 7)
    assert found.b3.precision == pytest.approx(100 * (4 / 2 + 1 / 2 + 1 / 2 + 4 / 4) / 8)
    assert (found.ceaf_m.recall, found.ceaf_m.precision) == (pytest.approx(400 / 7), pytest.approx(50))
    assert (found.ceaf_e.recall, found.ceaf_e.precision) == (pytest.approx(65), pytest.approx(130 / 3))
    assert (found.key_only, found.response_only, found.n) == (1, 2, 9)
    assert found.conll == pytest.approx((found.muc.f1 + found.b3.f1 + found.ceaf_e.f1) / 3)


def test_scores_agree_with_the_examples_of_bagga_and_baldwin_and_of_luo() -> None:
    """Both have the same MUC; B³ and CEAF are lower if two large chains are joined than if a small one is."""
    key = ["12345", "67", "89ABC"]
    small, large = agreement(key, ["12345", "6789ABC"]), agreement(key, ["1234589ABC", "67"])
    for found in (small, large):
        assert (found.muc.recall, round(found.muc.precision)) == (100, 90)
        assert found.b3.recall == 100
    assert (round(small.b3.precision), round(large.b3.precision)) == (76, 58)
    assert (round(small.ceaf_m.f1, 1), round(large.ceaf_m.f1, 1)) == (83.3, 58.3)
    assert (round(small.ceaf_e.f1, 1), round(large.ceaf_e.f1, 1)) == (73.3, 66.7)


def test_invalid_chains_are_errors() -> None:
    with pytest.raises(DeixisError, match="photo 8.*response"):
        chain_agreement({"7": ["ab"], "8": ["a"]}, {"7": ["ab"]})
    with pytest.raises(DeixisError, match="photo 7.*mention b"):
        agreement(["ab", "bc"], ["ab"])
    with pytest.raises(DeixisError, match="photo 7.*response"):
        agreement(["ab"], ["ab", ""])
    with pytest.raises(DeixisError, match="photos"):
        chain_agreement({}, {})


@st.composite
def partitions(draw: st.DrawFn) -> list[set[str]]:
    chains: dict[int, set[str]] = {}
    for mention in draw(st.sets(st.sampled_from("abcdefgh"), max_size=8)):
        chains.setdefault(draw(st.integers(0, 4)), set()).add(mention)
    return list(chains.values())


def chain_with(mention: str, chains: list[set[str]]) -> set[str]:
    return next((chain for chain in chains if mention in chain), set())


def plain_muc(ours: list[set[str]], theirs: list[set[str]]) -> tuple[float, float]:
    links = 0
    for chain in ours:
        parts = {frozenset(chain_with(mention, theirs) or {("alone", mention)}) for mention in chain}
        links += len(chain) - len(parts)
    return links, sum(len(chain) - 1 for chain in ours)


def plain_b3(ours: list[set[str]], theirs: list[set[str]]) -> tuple[float, float]:
    mentions = [(mention, chain) for chain in ours for mention in chain]
    right = sum(
        len(chain & chain_with(mention, theirs)) / len(chain) for mention, chain in mentions
        if chain_with(mention, theirs)
    )  # fmt: skip
    return right, len(mentions)


def plain_ceaf(key: list[set[str]], response: list[set[str]], by_chain: bool) -> float:
    few, many = sorted((key, response), key=len)

    def alike(a: set[str], b: set[str]) -> float:
        return 2 * len(a & b) / (len(a) + len(b)) if by_chain else len(a & b)

    orders = permutations(many, len(few))
    return max(sum(alike(a, b) for a, b in zip(few, order, strict=True)) for order in orders)


@given(st.lists(st.tuples(partitions(), partitions()), min_size=1, max_size=3))
def test_the_scores_agree_with_plain_loops_summed_over_photos(
    photos: list[tuple[list[set[str]], list[set[str]]]],
) -> None:
    key = {str(place): ours for place, (ours, _) in enumerate(photos)}
    response = {str(place): theirs for place, (_, theirs) in enumerate(photos)}
    found = chain_agreement(key, response, rounds=2)

    def percent(parts: list[tuple[float, float]]) -> float:
        below = sum(part[1] for part in parts)
        return 100 * sum(part[0] for part in parts) / below if below else 0.0

    for measure, plain in ((found.muc, plain_muc), (found.b3, plain_b3)):
        assert measure.recall == pytest.approx(percent([plain(ours, theirs) for ours, theirs in photos]))
        assert measure.precision == pytest.approx(percent([plain(theirs, ours) for ours, theirs in photos]))
    for measure, by_chain, size in ((found.ceaf_m, False, lambda side: sum(map(len, side))), (found.ceaf_e, True, len)):
        common = [plain_ceaf(ours, theirs, by_chain) for ours, theirs in photos]
        recall = [(part, size(ours)) for part, (ours, _) in zip(common, photos, strict=True)]
        precision = [(part, size(theirs)) for part, (_, theirs) in zip(common, photos, strict=True)]
        assert measure.recall == pytest.approx(percent(recall))
        assert measure.precision == pytest.approx(percent(precision))

    turned = chain_agreement(response, key, rounds=2)
    assert turned.b3.f1 == pytest.approx(found.b3.f1)
    assert turned.ceaf_e.precision == pytest.approx(found.ceaf_e.recall)
    json.dumps(found.as_json(), allow_nan=False)


def test_photos_are_the_units_of_the_bootstrap() -> None:
    key = {str(photo): ["ab"] for photo in range(20)}
    response = {str(photo): ["ab"] if photo < 10 else ["a", "b"] for photo in range(20)}
    found = chain_agreement(key, response)
    assert set(found.interval) == {"muc_f1", "b3_f1", "ceaf_m_f1", "ceaf_e_f1", "conll"}
    assert found.interval["muc_f1"].low < found.muc.f1 < found.interval["muc_f1"].high


def test_chains_of_a_photo_are_sets_of_caption_and_span() -> None:
    first = Caption.from_text("A dog in air.", (Mention(0, 5, "1"), Mention(9, 12, None)))
    second = Caption.from_text("The dog.", (Mention(0, 7, "1"),))
    assert chains_of(Photo("7", (first, second))) == [{(0, 0, 5), (1, 0, 7)}]
