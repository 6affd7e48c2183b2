"""Agreement on chains: MUC, B³ and CEAF of two ways to group the mentions of photos.

One side is called *key*, the other *response*; each is a set of chains, and a chain is a set of mentions. Scores
are in percent. Turning the sides round swaps precision and recall and leaves F1 as it is, so F1 serves as the
agreement of two annotators.

*Twinless* mentions, found on one side only, stay where they are, as in the reference implementation of Pradhan et
al. (Scoring Coreference Partitions of Predicted Mentions, ACL 2014): nothing is added to the other side or taken
away. For MUC, a mention that the other side lacks is a part of its own; for B³ it scores 0; for CEAF it overlaps
with nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.agreement.matching import best_matching
from deixis.evaluation.intervals import Counts, Interval, Statistic, bootstrap_all

Values = npt.NDArray[np.float64]
Chains = Iterable[Iterable[Hashable]]

MEASURES = ("muc", "b3", "ceaf_m", "ceaf_e")


@dataclass(frozen=True)
class PrecisionRecall:
    """Precision, recall and their harmonic mean, in percent; 0 where there is nothing to divide by."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ChainAgreement:
    """How far two groupings of mentions agree, over all photos together.

    Attributes
    ----------
    muc
        Links: of the links that hold the chains together, how many the other side has too. Blind to chains of a
        single mention.
    b3
        Mentions: for each, how much of its chain is in its chain on the other side.
    ceaf_m, ceaf_e
        Chains: the two sides' chains are matched one to one as well as possible, by the number of common mentions
        (`ceaf_m`, φ3) or by its share of both chains' sizes (`ceaf_e`, φ4).
    conll
        Mean F1 of MUC, B³ and CEAF_e.
    n, photos
        Mentions on either side, and photos.
    key_only, response_only
        Twinless mentions.
    interval
        Of `conll` and of each measure's F1, over photos.
    """

    muc: PrecisionRecall
    b3: PrecisionRecall
    ceaf_m: PrecisionRecall
    ceaf_e: PrecisionRecall
    conll: float
    n: int
    photos: int
    key_only: int
    response_only: int
    interval: Mapping[str, Interval]
    protocol: str = "sums over photos; twinless mentions stay where they are"

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; intervals as [low, high]."""
        plain = dict(vars(self))
        for name in MEASURES:
            plain[name] = dict(vars(plain[name]))
        plain["interval"] = {name: [found.low, found.high] for name, found in self.interval.items()}
        return plain


def chains_of(photo: Photo) -> list[set[tuple[int, int, int]]]:
    """The chains of a photo as sets of mentions, each mention as caption, start and end.

    Mentions without a chain, which are not visual, are in none.

    Examples
    --------
    >>> from deixis.data.records import Caption, Mention
    >>> said = [Caption.from_text("A dog.", (Mention(0, 5, "1"),)), Caption.from_text("It.", (Mention(0, 2, "1"),))]
    >>> [sorted(chain) for chain in chains_of(Photo("7", tuple(said)))]
    [[(0, 0, 5), (1, 0, 2)]]
    """
    chains: dict[str, set[tuple[int, int, int]]] = {}
    for place, caption in enumerate(photo.captions):
        for mention in caption.mentions:
            if mention.chain is not None:
                chains.setdefault(mention.chain, set()).add((place, mention.start, mention.end))
    return list(chains.values())


def chain_agreement(
    key: Mapping[str, Chains], response: Mapping[str, Chains], *, rounds: int = 1000, seed: int = 0
) -> ChainAgreement:
    """Compare two groupings of the mentions of the same photos.

    Parameters
    ----------
    key, response
        For each photo, its chains; no mention may be in two chains of one side.
    rounds, seed
        Of the bootstrap over photos.

    Examples
    --------
    >>> found = chain_agreement({"7": ["abc", "defg"]}, {"7": ["ab", "cd", "fghi"]})
    >>> round(found.muc.f1), round(found.b3.precision), round(found.ceaf_e.recall)
    (40, 50, 65)
    """
    if not key:
        raise DeixisError("there is no photo whose chains could be compared")
    unshared = sorted(set(key) ^ set(response))
    if unshared:
        side = "response" if unshared[0] in key else "key"
        raise DeixisError(f"photo {unshared[0]}: has no chains in the {side}; give it an empty list if it has none")
    pairs = [(_checked(key[photo], photo, "key"), _checked(response[photo], photo, "response")) for photo in key]
    sums = np.array([_parts(ours, theirs) for ours, theirs in pairs])
    mentions = [(_all(ours), _all(theirs)) for ours, theirs in pairs]
    statistics = _statistics(sums)
    scores = _scores(sums.sum(axis=0, keepdims=True))[0]
    muc, b3, ceaf_m, ceaf_e = (PrecisionRecall(*row.tolist()) for row in scores)
    return ChainAgreement(
        muc=muc,
        b3=b3,
        ceaf_m=ceaf_m,
        ceaf_e=ceaf_e,
        conll=_conll(scores[None]).item(),
        n=sum(len(ours | theirs) for ours, theirs in mentions),
        photos=len(pairs),
        key_only=sum(len(ours - theirs) for ours, theirs in mentions),
        response_only=sum(len(theirs - ours) for ours, theirs in mentions),
        interval=bootstrap_all(statistics, len(pairs), rounds=rounds, seed=seed),
    )


def _checked(chains: Chains, photo: str, side: str) -> list[frozenset[Hashable]]:
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


def _links(common: Values, sizes: Values) -> float:
    """MUC: the size of each chain less the number of parts that the other side cuts it into."""
    cut = (common > 0).sum(axis=1)
    twinless = sizes - common.sum(axis=1)
    return float((sizes - cut - twinless).sum())


def _scores(sums: Values) -> Values:
    """(rounds, measures, 4) sums to (rounds, measures, 3) precision, recall and F1 in percent."""
    precision = _divide(100 * sums[..., 0], sums[..., 1])
    recall = _divide(100 * sums[..., 2], sums[..., 3])
    return np.stack([precision, recall, _divide(2 * precision * recall, precision + recall)], axis=-1)


def _divide(above: Values, below: Values) -> Values:
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def _conll(scores: Values) -> Values:
    return np.asarray(scores[:, [MEASURES.index(name) for name in ("muc", "b3", "ceaf_e")], 2].mean(axis=1))


def _statistics(sums: Values) -> dict[str, Statistic]:
    def drawn(counts: Counts) -> Values:
        return _scores(np.einsum("rp,pms->rms", counts, sums))

    def f1(measure: int) -> Statistic:
        return lambda counts: drawn(counts)[:, measure, 2]

    found: dict[str, Statistic] = {f"{name}_f1": f1(place) for place, name in enumerate(MEASURES)}
    return {**found, "conll": lambda counts: _conll(drawn(counts))}
