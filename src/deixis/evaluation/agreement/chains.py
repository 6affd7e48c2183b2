"""Agreement on coreference chains: MUC, B³ and CEAF of two groupings of the mentions of photos.

One side is the *key*, the other the *response*; each is a set of chains, and a chain is a set of mentions. Scores are
in percent. Exchanging the sides exchanges precision and recall and leaves F1 unchanged, so F1 measures the agreement
of two annotators.

*Twinless* mentions, found on one side only, are neither added to the other side nor removed, as in the reference
implementation of Pradhan et al. (Scoring Coreference Partitions of Predicted Mentions, ACL 2014). For MUC, a mention
that the other side lacks is a separate part; for B³ it scores 0; for CEAF it overlaps with nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deixis.arrays import FloatArray, best_matching
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Counts, Result, Statistic

Chains = Iterable[Iterable[Hashable]]

MEASURES = ("muc", "b3", "ceaf_m", "ceaf_e")


class PrecisionRecall(NamedTuple):
    """Precision, recall and F1, in percent; 0 if the denominator is 0."""

    precision: float
    recall: float
    f1: float


def chains_of(photo: Photo) -> list[set[tuple[int, int, int]]]:
    """Return the chains of a photo as sets of mentions; a mention is (caption, start, end).

    Mentions without a chain, which are not visual, are left out.
    """
    chains: dict[str, set[tuple[int, int, int]]] = {}
    for index, caption in enumerate(photo.captions):
        for mention in caption.mentions:
            if mention.chain is not None:
                chains.setdefault(mention.chain, set()).add((index, mention.start, mention.end))
    return list(chains.values())


def chain_agreement(key: Mapping[str, Chains], response: Mapping[str, Chains], *, rounds: int = 1000) -> Result:
    """Compare two groupings of the mentions of the same photos.

    Parameters
    ----------
    key, response
        The chains of each photo; no mention may be in two chains of one side.
    rounds
        Number of samples of the bootstrap over photos.

    Returns
    -------
    Result
        A `PrecisionRecall` each: `muc`, of the links of the chains that the other side has too, which ignores chains of
        one mention; `b3`, per mention the fraction of its chain that is in its chain on the other side; `ceaf_m` and
        `ceaf_e`, the best one-to-one matching of the chains by the number of common mentions (φ3) or by their fraction
        of the sizes of both chains (φ4). `conll` is the mean F1 of MUC, B³ and CEAF_e; it and the F1 of each measure
        have an interval. `n` mentions on either side in so many `photos`, of them twinless `key_only` and
        `response_only`.

    Examples
    --------
    >>> found = chain_agreement({"7": ["abc", "defg"]}, {"7": ["ab", "cd", "fghi"]})
    >>> round(found.muc.f1), round(found.b3.precision), round(found.ceaf_e.recall)
    (40, 50, 65)
    """
    if not key:
        raise DeixisError("key: no photos to compare")
    unshared = sorted(set(key) ^ set(response))
    if unshared:
        side = "response" if unshared[0] in key else "key"
        raise DeixisError(f"photo {unshared[0]}: is missing in the {side}; pass an empty list if it has no chains")
    pairs = [
        (_check_chains(key[photo], photo, "key"), _check_chains(response[photo], photo, "response")) for photo in key
    ]
    sums = np.array([_parts(ours, theirs) for ours, theirs in pairs])
    mentions = [(_all(ours), _all(theirs)) for ours, theirs in pairs]
    statistics = _statistics(sums)
    scores = _scores(sums.sum(axis=0, keepdims=True))[0]
    about = {
        **{name: PrecisionRecall(*row.tolist()) for name, row in zip(MEASURES, scores, strict=True)},
        "protocol": "sums over photos; twinless mentions stay where they are",
        "n": sum(len(ours | theirs) for ours, theirs in mentions),
        "photos": len(pairs),
        "key_only": sum(len(ours - theirs) for ours, theirs in mentions),
        "response_only": sum(len(theirs - ours) for ours, theirs in mentions),
    }
    conll = {"conll": _conll(scores[None]).item()}
    return Result(about=about, scores=conll, statistics=statistics, units=len(pairs), rounds=rounds)


def _check_chains(chains: Chains, photo: str, side: str) -> list[frozenset[Hashable]]:
    found = [frozenset(chain) for chain in chains]
    if not all(found):
        raise DeixisError(f"photo {photo}: a chain of the {side} has no mention")
    seen: set[Hashable] = set()
    for chain in found:
        twice = seen & chain
        if twice:
            raise DeixisError(f"photo {photo}: mention {min(twice, key=str)} is in two chains of the {side}")
        seen |= chain
    return found


def _all(chains: Sequence[frozenset[Hashable]]) -> frozenset[Hashable]:
    return frozenset().union(*chains)


def _parts(key: Sequence[frozenset[Hashable]], response: Sequence[frozenset[Hashable]]) -> list[list[float]]:
    """For each measure: the numerators and denominators of precision and recall, of one photo."""
    common = np.array([[len(ours & theirs) for theirs in response] for ours in key], dtype=np.float64)
    common = common.reshape(len(key), len(response))
    ours, theirs = (np.array([len(chain) for chain in side], dtype=np.float64) for side in (key, response))
    same_share = 2 * common / (ours[:, None] + theirs[None, :])
    by_mention, by_chain = (gain[best_matching(gain)].sum() for gain in (common, same_share))
    return [
        [_links(common.T, theirs), (theirs - 1).sum(), _links(common, ours), (ours - 1).sum()],
        [(common**2 / theirs[None, :]).sum(), theirs.sum(), (common**2 / ours[:, None]).sum(), ours.sum()],
        [by_mention, theirs.sum(), by_mention, ours.sum()],
        [by_chain, len(theirs), by_chain, len(ours)],
    ]


def _links(common: FloatArray, sizes: FloatArray) -> float:
    """MUC: the size of each chain minus the number of parts that the other side splits it into."""
    cut = (common > 0).sum(axis=1)
    twinless = sizes - common.sum(axis=1)
    return float((sizes - cut - twinless).sum())


def _scores(sums: FloatArray) -> FloatArray:
    """Precision, recall and F1 in percent, (rounds, measures, 3), from sums (rounds, measures, 4)."""
    precision = _divide(100 * sums[..., 0], sums[..., 1])
    recall = _divide(100 * sums[..., 2], sums[..., 3])
    return np.stack([precision, recall, _divide(2 * precision * recall, precision + recall)], axis=-1)


def _divide(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def _conll(scores: FloatArray) -> FloatArray:
    return np.asarray(scores[:, [MEASURES.index(name) for name in ("muc", "b3", "ceaf_e")], 2].mean(axis=1))


def _statistics(sums: FloatArray) -> dict[str, Statistic]:
    def drawn(counts: Counts) -> FloatArray:
        return _scores(np.einsum("rp,pms->rms", counts, sums))

    def f1(measure: int) -> Statistic:
        return lambda counts: drawn(counts)[:, measure, 2]

    found: dict[str, Statistic] = {f"{name}_f1": f1(index) for index, name in enumerate(MEASURES)}
    return {**found, "conll": lambda counts: _conll(drawn(counts))}
