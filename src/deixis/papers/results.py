"""Results of a table: scores of one model, stored per query so that models can be compared, and means over seeds."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from deixis.arrays import BoolArray
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Interval, Statistic, bootstrap, bootstrap_groups, perplexity_of, values_of
from deixis.evaluation.retrieval import Ranking, percentage, ranking_statistics
from deixis.storage.checksums import CheckedFile, FileChecks, seal, unseal
from deixis.storage.files import read_regular

if TYPE_CHECKING:
    from deixis.evaluation.captions.scores import CaptionScores

KS = (1, 5, 10)
DIVERGED = "diverged"
SCORES, RANKS = "scores.json", "ranks.npz"
_ARRAYS = ("ranks", "candidates", "units")
_VERSION = 2
"""Version 1 had no checksums, and no number."""


CaptionsByPhoto = Mapping[str, tuple[str, tuple[str, ...]]]
"""For each photo id, the generated caption and the reference captions."""

Likelihoods = Mapping[str, tuple[float, int]]
"""For each photo id, the bits that encode its reference captions, and their number of words and end tokens."""


def score_caption_texts(captions: CaptionsByPhoto, training: Iterable[str] | None = None) -> CaptionScores:
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
    captions: CaptionsByPhoto = field(default_factory=dict)  # generated and reference captions by photo
    likelihoods: Likelihoods = field(default_factory=dict)  # of the reference captions, in the same order
    second_half: BoolArray | None = None  # (photos,) whether each photo is in the second half of the split
    kept: tuple[str, ...] = ()  # the choice, such as "epoch 7"; one for each half if the scores are crossed

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """Every score that follows from ranks or captions, as a statistic over photos."""
        if self.captions:
            found = dict(score_caption_texts(self.captions).statistics)
            if self.likelihoods:
                found["perplexity"] = perplexity_of(*map(np.array, zip(*self.likelihoods.values(), strict=True)))
            return found
        found = ranking_statistics(self.rankings, KS)
        for name, ranking in self.rankings.items():
            found[f"{name}_upper_bound" if name else "upper_bound"] = percentage(ranking, np.isfinite(ranking.ranks))
        return found

    @property
    def diverged(self) -> bool:
        """Whether the training failed, on either half if the scores are crossed: there are no scores."""
        return any(each.endswith(DIVERGED) for each in self.kept)

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
            "likelihoods": dict(self.likelihoods),
            "rankings": rankings,
            "kept": list(self.kept),
        }
        arrays: dict[str, Any] = {
            f"{name}{number}": getattr(ranking, name)
            for number, ranking in enumerate(self.rankings.values())
            for name in _ARRAYS
        }
        if self.second_half is not None:
            arrays["second_half"] = self.second_half
        with (folder / RANKS).open("wb") as file:
            np.savez_compressed(file, **arrays)
        checks = {"version": _VERSION, "files": {RANKS: FileChecks.of(folder / RANKS).to_json()}}
        (folder / SCORES).write_bytes(seal(checks | document))

    @classmethod
    def load(cls, folder: Path) -> ModelScores:
        try:
            document = unseal(read_regular(folder / SCORES))
            entry = document.get("files", {}).get(RANKS)  # older versions wrote none
            ranks = CheckedFile(folder / RANKS, FileChecks.from_json(entry) if entry else None).read()
            with np.load(io.BytesIO(ranks), allow_pickle=False) as arrays:
                rankings = {
                    name: Ranking(
                        photos=entry["photos"], **{array: arrays[f"{array}{entry['number']}"] for array in _ARRAYS}
                    )
                    for name, entry in document["rankings"].items()
                }
                second_half = arrays.get("second_half", None)
            likelihoods = {photo: (bits, words) for photo, (bits, words) in document["likelihoods"].items()}
            captions = {photo: (text, tuple(references)) for photo, (text, references) in document["captions"].items()}
            kept = tuple(document["kept"])
            return cls(document["scores"], rankings, document["about"], captions, likelihoods, second_half, kept)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadZipFile) as error:
            raise DeixisError(f"{folder}: damaged; remove it to compute it again ({error})") from None

    def criterion(self, second_half: bool | None = None) -> float:
        """The score that chooses among settings, on one half of the photos or on all: higher is better.

        That of rankings is the mean R@K over directions and K, that of captions the likelihood of people's captions.
        """
        if self.likelihoods:
            bits, words = np.array(list(self.likelihoods.values())).T
            chosen = slice(None) if second_half is None else self._halves == second_half
            return -float(bits[chosen].sum() / words[chosen].sum())
        recalls = []
        whole = {"": self.rankings[""]} if "" in self.rankings else self.rankings  # not those of types and phrases
        for ranking in whole.values():
            asked = np.ones(len(ranking.ranks), dtype=bool)
            if second_half is not None:
                asked = self._halves[ranking.units] == second_half
            recalls += [float(np.mean(ranking.ranks[asked] <= k)) for k in KS if asked.any()]
        return float(np.mean(recalls)) if recalls else -np.inf  # there are none if the training diverged

    @property
    def _halves(self) -> BoolArray:
        if self.second_half is None:
            raise DeixisError("these scores do not say which half of the split a photo is in; compute them again")
        return self.second_half


def cross_halves(first: ModelScores, second: ModelScores) -> ModelScores:
    """Combine the scores of two models: one chosen on the first half of the photos, and one on the second.

    Each half is scored by the model that was chosen on the other. Scores that do not follow from rankings, captions or
    likelihoods are left out, but for the numbers of queries. There are none if either model diverged.
    """
    if first.diverged or second.diverged:
        return ModelScores({}, kept=(*first.kept, *second.kept))
    in_second = first._halves
    rankings = {}
    for name, one in first.rankings.items():
        other, from_first = second.rankings[name], in_second[one.units]
        if not np.array_equal(one.units, other.units):
            raise DeixisError("the two models were scored on different queries; compute them again")
        ranks = np.where(from_first, one.ranks, other.ranks)
        rankings[name] = replace(one, ranks=ranks, candidates=np.where(from_first, one.candidates, other.candidates))
    sources = [first if late else second for late in in_second]
    photos = list(first.captions)
    crossed = replace(
        first,
        scores={},
        rankings=rankings,
        captions={photo: source.captions[photo] for photo, source in zip(photos, sources, strict=False)},
        likelihoods={
            photo: source.likelihoods[photo]
            for photo, source in zip(photos, sources, strict=False)
            if photo in first.likelihoods
        },
        about={
            name: " / ".join(dict.fromkeys(each.about[name] for each in (first, second) if name in each.about))
            for name in {**first.about, **second.about}
        },
        kept=(*first.kept, *second.kept),
    )
    counts = {name: score for name, score in first.scores.items() if name.endswith("_n")}
    return replace(crossed, scores=values_of(crossed.statistics, crossed.photos) | counts)


@dataclass(frozen=True, eq=False)
class RowResult:
    """The result of one row: the scores of one model per seed; `group` names a type or phrase, or is empty for all."""

    models: Sequence[ModelScores]
    group: str = ""

    @property
    def diverged(self) -> bool:
        """Whether the training of a seed diverged: the row is then not measured, its other seeds would flatter it."""
        return any(model.diverged for model in self.models)

    def score(self, column: str) -> float | None:
        values = self.by_seed(column)
        return float(np.mean(values)) if values and not self.diverged else None

    def by_seed(self, column: str) -> tuple[float, ...]:
        """Score of each seed; empty if there is none."""
        name = self._name(column)
        return tuple(model.scores[name] for model in self.models if name in model.scores)

    def statistic(self, column: str) -> Statistic | None:
        """Mean over seeds as a statistic over photos: every bootstrap sample of photos is scored with every seed.

        None if the score does not follow from ranks or captions, or if a seed diverged.
        """
        if self.diverged:
            return None
        name = self._name(column)
        found = [model.statistics[name] for model in self.models if name in model.statistics]
        return (lambda counts: np.mean([each(counts) for each in found], axis=0)) if found else None

    def interval(self, column: str) -> Interval | None:
        """95 % bootstrap interval over the samples of photos that contain a query of the group.

        None if there is no `statistic`, or if all queries of the group are in one photo.
        """
        statistic, first = self.statistic(column), self.models[0]
        if statistic is None:
            return None
        if not self.group:
            return bootstrap(statistic, first.photos)
        group = first.rankings[self.group].units, {column: statistic}
        return bootstrap_groups({self.group: group}, first.photos)[self.group].interval[column]

    @property
    def kept(self) -> tuple[tuple[str, ...], ...]:
        """For each seed, what was chosen; empty if there was no choice."""
        return tuple(model.kept for model in self.models if model.kept)

    def _name(self, column: str) -> str:
        return f"{self.group}_{column}" if self.group else column
