"""What a model scored, kept so that two can be compared photo by photo, and what several seeds say together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deixis.errors import DeixisError
from deixis.evaluation.intervals import Counts, Interval, Statistic, bootstrap, bootstrap_held, where_held
from deixis.evaluation.retrieval_result import Ranking, RetrievalResult

if TYPE_CHECKING:
    from deixis.evaluation.captions.scores import CaptionScores

KS = (1, 5, 10)
SCORES, RANKS = "scores.json", "ranks.npz"
_ARRAYS = ("ranks", "candidates", "units")


Captions = Mapping[str, tuple[str, tuple[str, ...]]]
"""For each photo, by its id, the caption that was made and those of people."""


def scores_of(captions: Captions, training: Iterable[str] | None = None) -> CaptionScores:
    """The scores of captions against those of people; `training` are captions that are not novel."""
    from deixis.evaluation.captions import caption_scores

    made = {photo: caption for photo, (caption, _) in captions.items()}
    return caption_scores(made, {photo: others for photo, (_, others) in captions.items()}, training=training)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The scores of one model.

    Attributes
    ----------
    scores
        By the names that ``deixis evaluate`` gives them; of a type or a phrase, its name stands before: people_r1.
    rankings
        For each direction, type or phrase, the rank of the best right answer of each query. From these come the scores
        that have an interval.
    about
        What people should know of how it was made: encoder, text features, proposals.
    captions
        Of a captioner: for each photo the caption it made, and those of people. The scores of captions have intervals
        too.
    """

    scores: Mapping[str, float]
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    captions: Captions = field(default_factory=dict)

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """Every score that follows from ranks or from captions, as a statistic over photos."""
        if self.captions:
            return dict(scores_of(self.captions).statistics)
        return self._of_ranks() if self.rankings else {}

    def _of_ranks(self) -> dict[str, Statistic]:
        anywhere = {
            name: replace(ranking, ranks=np.where(np.isfinite(ranking.ranks), 1.0, np.inf))
            for name, ranking in self.rankings.items()
        }
        found = RetrievalResult(self.photos, (1,), anywhere, "").statistics
        bounds = {f"{name.removesuffix('r1')}upper_bound": found[name] for name in found if name.endswith("r1")}
        finite = {name: each for name, each in self.rankings.items() if np.isfinite(each.ranks).all()}
        medians = RetrievalResult(self.photos, KS, finite, "").statistics
        recalls = RetrievalResult(self.photos, KS, self.rankings, "").statistics
        return (
            bounds
            | {name: each for name, each in recalls.items() if "med" not in name and "mean" not in name}
            | medians
        )

    @property
    def photos(self) -> int:
        """How many photos were scored."""
        return max((ranking.photos for ranking in self.rankings.values()), default=len(self.captions))

    def save(self, folder: Path) -> None:
        """Write into a folder that is there."""
        rankings = {
            name: {"number": number, "photos": ranking.photos}
            for number, (name, ranking) in enumerate(self.rankings.items())
        }
        document = {
            "scores": dict(self.scores),
            "about": dict(self.about),
            "captions": dict(self.captions),
            "rankings": rankings,
        }
        arrays: dict[str, Any] = {
            f"{what}{number}": getattr(ranking, what)
            for number, ranking in enumerate(self.rankings.values())
            for what in _ARRAYS
        }
        (folder / SCORES).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        with (folder / RANKS).open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, folder: Path) -> Outcome:
        """Read what `save` wrote."""
        try:
            document = json.loads((folder / SCORES).read_text(encoding="utf-8"))
            with np.load(folder / RANKS, allow_pickle=False) as arrays:
                rankings = {
                    name: Ranking(
                        photos=kept["photos"], **{what: arrays[f"{what}{kept['number']}"] for what in _ARRAYS}
                    )
                    for name, kept in document["rankings"].items()
                }
            captions = {photo: (made, tuple(others)) for photo, (made, others) in document["captions"].items()}
            return cls(document["scores"], rankings, document["about"], captions)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DeixisError(f"{folder}: damaged; remove it to measure it again ({error})") from None


@dataclass(frozen=True, eq=False)
class Measured:
    """The same recipe with several seeds.

    Attributes
    ----------
    outcomes
        One for each seed.
    group
        The type or phrase whose scores are meant; empty for those of all.
    """

    outcomes: Sequence[Outcome]
    group: str = ""

    def score(self, column: str) -> float | None:
        """The mean over seeds."""
        values = self.by_seed(column)
        return float(np.mean(values)) if values else None

    def by_seed(self, column: str) -> tuple[float, ...]:
        """The score of each seed; empty where there is none."""
        name = self._name(column)
        return tuple(outcome.scores[name] for outcome in self.outcomes if name in outcome.scores)

    def statistic(self, column: str) -> Statistic | None:
        """The mean over seeds as a statistic over photos: each drawing of photos is scored by every seed's model."""
        name = self._name(column)
        found = [outcome.statistics[name] for outcome in self.outcomes if name in outcome.statistics]
        return mean_statistic(found) if found else None

    def interval(self, column: str) -> Interval | None:
        """What 95 % of those drawings of the photos would give that hold a query of the group.

        None where the score does not follow from ranks, and for a group in one photo, which every drawing that holds it
        scores alike.
        """
        statistic, first = self.statistic(column), self.outcomes[0]
        if statistic is None:
            return None
        if not self.group:
            return bootstrap(statistic, first.photos)
        queries = np.bincount(first.rankings[self.group].units, minlength=first.photos)
        if np.count_nonzero(queries) < 2:
            return None
        return bootstrap_held({"": where_held(statistic, queries)}, first.photos)[""]

    def _name(self, column: str) -> str:
        return f"{self.group}_{column}" if self.group else column


def mean_statistic(statistics: Sequence[Statistic]) -> Statistic:
    """The mean of statistics of the same drawings.

    Examples
    --------
    >>> from deixis.evaluation.intervals import mean_of
    >>> mean_statistic([mean_of([1.0, 3.0]), mean_of([3.0, 5.0])])(np.array([[1.0, 1.0]])).tolist()
    [3.0]
    """

    def statistic(counts: Counts) -> Counts:
        return np.asarray(np.mean([each(counts) for each in statistics], axis=0))

    return statistic
