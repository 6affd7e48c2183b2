"""Results of a table: scores of one model, stored per query so that models can be compared, and means over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deixis.errors import DeixisError
from deixis.evaluation.intervals import Interval, Statistic, bootstrap, bootstrap_groups
from deixis.evaluation.retrieval import Ranking, RetrievalResult, percentage

if TYPE_CHECKING:
    from deixis.evaluation.captions.scores import CaptionScores

KS = (1, 5, 10)
SCORES, RANKS = "scores.json", "ranks.npz"
_ARRAYS = ("ranks", "candidates", "units")


Captions = Mapping[str, tuple[str, tuple[str, ...]]]
"""For each photo id, the generated caption and the reference captions."""


def score_caption_texts(captions: Captions, training: Iterable[str] | None = None) -> CaptionScores:
    """Score captions against their references; captions in `training` do not count as novel."""
    from deixis.evaluation.captions import caption_scores

    generated = {photo: caption for photo, (caption, _) in captions.items()}
    references = {photo: texts for photo, (_, texts) in captions.items()}
    return caption_scores(generated, references, training=training)


@dataclass(frozen=True, eq=False)
class ModelScores:
    """The scores of one model. Those that follow from rankings or captions have an interval."""

    scores: Mapping[str, float]  # as in ``deixis evaluate``; those of a type or phrase have a prefix: people_r1
    rankings: Mapping[str, Ranking] = field(default_factory=dict)  # by direction, type or phrase
    about: Mapping[str, str] = field(default_factory=dict)  # encoder, text features and proposals
    captions: Captions = field(default_factory=dict)  # generated and reference captions by photo

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """Every score that follows from ranks or captions, as a statistic over photos."""
        if self.captions:
            return dict(score_caption_texts(self.captions).statistics)
        found = dict(RetrievalResult(self.photos, KS, self.rankings, "").finite_statistics)
        for name, ranking in self.rankings.items():
            found[f"{name}_upper_bound" if name else "upper_bound"] = percentage(ranking, np.isfinite(ranking.ranks))
        return found

    @property
    def photos(self) -> int:
        return max((ranking.photos for ranking in self.rankings.values()), default=len(self.captions))

    def save(self, folder: Path) -> None:
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
            f"{name}{number}": getattr(ranking, name)
            for number, ranking in enumerate(self.rankings.values())
            for name in _ARRAYS
        }
        (folder / SCORES).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        with (folder / RANKS).open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, folder: Path) -> ModelScores:
        try:
            document = json.loads((folder / SCORES).read_text(encoding="utf-8"))
            with np.load(folder / RANKS, allow_pickle=False) as arrays:
                rankings = {
                    name: Ranking(
                        photos=entry["photos"], **{array: arrays[f"{array}{entry['number']}"] for array in _ARRAYS}
                    )
                    for name, entry in document["rankings"].items()
                }
            captions = {photo: (text, tuple(references)) for photo, (text, references) in document["captions"].items()}
            return cls(document["scores"], rankings, document["about"], captions)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DeixisError(f"{folder}: damaged; remove it to compute it again ({error})") from None


@dataclass(frozen=True, eq=False)
class RowResult:
    """The result of one row: the scores of one model per seed; `group` names a type or phrase, or is empty for all."""

    models: Sequence[ModelScores]
    group: str = ""

    def score(self, column: str) -> float | None:
        values = self.by_seed(column)
        return float(np.mean(values)) if values else None

    def by_seed(self, column: str) -> tuple[float, ...]:
        """Score of each seed; empty if there is none."""
        name = self._name(column)
        return tuple(model.scores[name] for model in self.models if name in model.scores)

    def statistic(self, column: str) -> Statistic | None:
        """Mean over seeds as a statistic over photos: every bootstrap sample of photos is scored with every seed."""
        name = self._name(column)
        found = [model.statistics[name] for model in self.models if name in model.statistics]
        return (lambda counts: np.mean([each(counts) for each in found], axis=0)) if found else None

    def interval(self, column: str) -> Interval | None:
        """95 % bootstrap interval over the samples of photos that contain a query of the group.

        None if the score does not follow from ranks, or if all queries of the group are in one photo.
        """
        statistic, first = self.statistic(column), self.models[0]
        if statistic is None:
            return None
        if not self.group:
            return bootstrap(statistic, first.photos)
        group = first.rankings[self.group].units, {column: statistic}
        return bootstrap_groups({self.group: group}, first.photos)[self.group].interval[column]

    def _name(self, column: str) -> str:
        return f"{self.group}_{column}" if self.group else column
