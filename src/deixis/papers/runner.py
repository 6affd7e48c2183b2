"""Compute a table on a data set, row by row and seed by seed, and test the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError, DivergedError
from deixis.models.evaluation import EvaluationData
from deixis.models.training.data import validation_split
from deixis.models.training.run_record import photo_hash
from deixis.papers.claims import ClaimTest, check_claims
from deixis.papers.datasets import count_batches, count_chains, count_pairs, describe_recurrent_layer, identify_dataset
from deixis.papers.results import DIVERGED, ModelScores, RowResult, cross_halves
from deixis.papers.scores import score_captions, score_combined, score_detection, score_grounding, score_task
from deixis.papers.tables import CaptionOptions, Claim, Row, RowRecipe, Table, Training
from deixis.papers.training import HALVES, MissingScoresError, TableModels
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from deixis.models.grounding import EmbeddingPipeline, RegionPipeline
    from deixis.models.m_rnn.pipeline import CaptionPipeline

COMMON_PHRASES = "common in this data, not among the paper's"

SEARCH_SEED = 0
"""The seed whose models choose among the alternatives of a row; the other seeds take its choice."""


@dataclass(frozen=True)
class TableResult:
    """A table with our figures beside the published ones."""

    table: Table  # the published table with the requested rows
    ours: Mapping[str, RowResult]  # by row key
    claims: tuple[ClaimTest, ...] = ()  # claims of which both rows were computed
    split: str = ""  # empty for tables without models
    split_hash: str = ""  # of its photos
    seeds: int = 0  # number of models per recipe
    crossed: bool = False  # whether choices were made on one half of the split and scored on the other
    about: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # several values where rows differ
    budgets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by row key, the settings that were tried


@dataclass(frozen=True)
class TableRunner:
    """Computes tables: scores `split`, with `seeds` models per recipe unless it is deterministic."""

    models: TableModels
    split: str
    seeds: int = 3
    show_progress: Callable[[str], AbstractContextManager[OnProgress]] = lambda label: nullcontext(no_progress)

    @property
    def dataset(self) -> Dataset:
        return self.models.dataset

    def run(self, table: Table) -> TableResult:
        """Compute all rows of a table that have a recipe for this data set."""
        recipes = {
            row.key: self.prepare(row.recipe)
            for row in table.rows
            if row.recipe and row_applies(row, table, self.dataset)
        }
        done: dict[RowRecipe, tuple[ModelScores, ...]] = {}
        for key, recipe in list(recipes.items()):
            ungrouped = replace(recipe, group="")
            if ungrouped not in done:
                try:
                    done[ungrouped] = tuple(self._score_seeds(ungrouped, f"{table.name}: {key}"))
                except MissingScoresError:
                    del recipes[key]
        all_scores = [scores for models in done.values() for scores in models]
        table = add_common_phrases(table, all_scores)
        recipes |= {row.key: row.recipe for row in table.rows if row.recipe and row.part == COMMON_PHRASES}
        single = {key for key, recipe in recipes.items() if self.seeds == 1 and is_repeated(recipe)}
        ours = {key: RowResult(done[replace(recipe, group="")], recipe.group) for key, recipe in recipes.items()}
        scored = any(not recipe.counts_only for recipe in recipes.values())
        return TableResult(
            table,
            {key: result for key, result in ours.items() if _has_scores(table, result)},
            tuple(check_claims(self._testable(table.claims), ours, single=single)),
            self.split if scored else "",
            photo_hash(self.dataset.split(self.split)) if scored else "",
            max(len(models) for models in done.values()) if scored else 0,
            scored and self.split == self.dev_split,
            _distinct_values(scores.about for scores in all_scores),
            {
                key: settings_tried(self.alternatives(recipe))
                for key, recipe in recipes.items()
                if not recipe.counts_only
            },
        )

    def _testable(self, claims: Sequence[Claim]) -> list[Claim]:
        """The claims whose inputs the models have."""
        return [
            claim for claim in claims if not claim.needs or claim.needs in (*self.models.inputs, *self.models.changes)
        ]

    def prepare(self, recipe: RowRecipe) -> RowRecipe:
        if recipe.task != "regions" or recipe.model is None:
            return recipe
        return replace(recipe, model=self.models.for_regions(recipe.model))

    @property
    def dev_split(self) -> str | None:
        """The split that chooses epochs and settings."""
        return validation_split(self.dataset)

    def alternatives(self, recipe: RowRecipe) -> list[RowRecipe]:
        """The row with each of the models that the validation split chooses from."""
        if recipe.model is None or recipe.counts_only:
            return [recipe]
        return [replace(recipe, model=each) for each in self.models.alternatives(recipe.model)]

    def _score_seeds(self, recipe: RowRecipe, label: str) -> Iterator[ModelScores]:
        """Score a row with the epochs and the settings that the validation split chooses, once for each seed."""
        seeds = self.seeds if is_repeated(recipe) else 1
        for seed in range(seeds):
            name = f"{label}, seed {seed + 1} of {seeds}" if seeds > 1 else label
            found = []
            for choice in self.choices(recipe):
                best, alternatives = choice.best(name), len(choice.alternatives)
                scores = choice.scorer.scores(best, seed, f"{name}{choice.label}")
                found.append(_with_choice(scores, choice) if alternatives > 1 else scores)
            yield cross_halves(*found) if len(found) == 2 else found[0]

    def choices(self, recipe: RowRecipe) -> list[Choice]:
        """How a row is scored: by one choice of its model, or by one on each half of the photos.

        There are two if the validation split is scored itself: each half is scored with the choice of the other half.
        """
        alternatives = tuple(self.alternatives(recipe))
        if self.dev_split is None or not (is_repeated(recipe) or len(alternatives) > 1):
            return [Choice(self, self, alternatives[:1])]
        if self.split != self.dev_split:
            return [Choice(replace(self, split=self.dev_split), self, alternatives)]
        runners = [self, self]
        if is_repeated(recipe):
            runners = [replace(self, models=replace(self.models, select_on=half)) for half in HALVES]
        labels = [f", chosen on the {half} half" if is_repeated(recipe) else "" for half in ("first", "second")]
        return [
            Choice(runner, runner, alternatives, second_half=bool(number), label=labels[number])
            for number, runner in enumerate(runners)
        ]

    def scores(self, recipe: RowRecipe, seed: int, label: str) -> ModelScores:
        """The scores of one model, computed now if they were not computed before."""

        def compute() -> ModelScores:
            with self.show_progress(label) as on_progress:
                try:
                    return self._compute(recipe, seed, on_progress)
                except DivergedError:  # the search then takes another learning rate
                    return ModelScores({}, kept=(DIVERGED,))

        return self.models.runs.scores(recipe.task, self.about(recipe, seed), compute)

    def about(self, recipe: RowRecipe, seed: int) -> dict[str, Any]:
        """Return everything that determines the scores."""
        about: dict[str, Any] = {"task": recipe.task, "data": self.dataset.manifest.hash}
        if not recipe.counts_only:
            about["split"] = photo_hash(self.dataset.split(self.split))
        if recipe.model:
            about["select_on"] = self.models.select_on
            about["model"] = self.models.about(recipe.model, seed)
        if recipe.parts:
            about |= {"parts": self.models.about(recipe.parts, seed), "weights": recipe.weights}
        if recipe.task == "captions":
            about["writing"] = asdict(recipe.caption_options)
        return about

    def _compute(self, recipe: RowRecipe, seed: int, on_progress: OnProgress) -> ModelScores:
        models = replace(self.models, on_progress=on_progress)
        if recipe.task == "statistics":
            return count_chains(self.dataset)
        if recipe.task == "set-sizes":
            return count_pairs(self.dataset, on_progress=on_progress)
        if recipe.model is None:
            raise DeixisError(f"{recipe.task}: no model is named")
        settings = models.settings(recipe.model, seed)
        if recipe.task == "recurrent-layer":
            return describe_recurrent_layer(settings)
        if recipe.task == "batch-sizes":
            return count_batches(self.dataset, settings, on_progress=on_progress)
        pipeline = models.pipeline(recipe.model, seed)
        about = models.describe(recipe.model, seed, pipeline)
        on = EvaluationData(self.dataset, self.dataset.split(self.split), models.feature_dirs, on_progress)
        if recipe.task == "captions":
            training = self.dataset.split(str(models.settings(recipe.model, seed).to_json()["train_split"]))
            found = score_captions(cast("CaptionPipeline", pipeline), on, recipe.caption_options, training)
        elif recipe.task == "grounding":
            found = score_grounding(pipeline, on)
        elif recipe.task == "detection":
            found = score_detection(cast("RegionPipeline", pipeline), on)
        elif recipe.parts:
            regions = models.pipeline(recipe.parts, seed)
            about = models.describe(recipe.parts, seed, regions) | about
            both = cast("EmbeddingPipeline", pipeline), cast("EmbeddingPipeline", regions)
            found = score_combined(*both, recipe.weights, on)
        else:
            found = score_task(recipe.task, pipeline, on)
        if found.second_half is None:  # the photos of the scores are those of the split
            found = replace(found, second_half=np.arange(found.photos) % 2 == 1)
        kept = models.kept_epoch(recipe.model, seed)
        if recipe.parts:
            kept = tuple(map(" + ".join, zip(kept, models.kept_epoch(recipe.parts, seed), strict=False)))
        return replace(found, about={**about, **found.about}, kept=kept)


@dataclass(frozen=True)
class Choice:
    """The choice among the alternatives of a row, by the scores of the models of the first seed."""

    chooser: TableRunner
    scorer: TableRunner
    alternatives: tuple[RowRecipe, ...]
    second_half: bool | None = None  # the half of the photos that chooses; None for all
    label: str = ""

    @property
    def searched(self) -> list[RowRecipe]:
        """The recipes whose scores choose; none if there is only one alternative."""
        if len(self.alternatives) < 2:
            return []
        return [replace(each, caption_options=CaptionOptions()) for each in self.alternatives]

    def best(self, label: str) -> RowRecipe:
        """The best alternative; they are scored now if they were not scored before."""
        if len(self.alternatives) < 2:
            return self.alternatives[0]
        found = [
            self.chooser.scores(each, SEARCH_SEED, f"{label}{self.label}").criterion(self.second_half)
            for each in self.searched
        ]
        return self.alternatives[int(np.argmax(found))]


def _with_choice(scores: ModelScores, choice: Choice) -> ModelScores:
    """Add the settings that were chosen: those in which the alternatives differ."""
    chosen = settings_tried(choice.alternatives)[choice.alternatives.index(choice.best(""))]
    return replace(scores, kept=tuple(f"{chosen} {each}".strip() for each in scores.kept or ("",)))


def settings_tried(alternatives: Sequence[RowRecipe]) -> tuple[str, ...]:
    """Return the settings of each alternative that not all of them have; empty if there is only one."""
    lists = [each.model.changes for each in alternatives if each.model]
    if len(lists) < 2:
        return ()
    shared = set.intersection(*map(set, lists))
    return tuple(" ".join(change for change in changes if change not in shared) for changes in lists)


def row_applies(row: Row, table: Table, dataset: Dataset) -> bool:
    """Whether a row is computed on this data set.

    If a table covers several data sets, only the rows of this one are; on an unknown data set, those of the first.
    """
    if not row.data:
        return True
    known = identify_dataset(dataset)
    return row.data == (known if known in table.data else table.data[0])


def add_common_phrases(table: Table, results: Sequence[ModelScores]) -> Table:
    """Add rows for the most common phrases of the data itself to a table of the paper's most common phrases."""
    named = {row.recipe.group: row.recipe for row in table.rows if row.recipe and row.recipe.group.startswith("“")}
    if not named:
        return table
    recipe = next(iter(named.values()))
    counts = {
        name.removesuffix("_n"): count
        for scores in results
        for name, count in scores.scores.items()
        if name.startswith("“") and name.endswith("_n")
    }
    more = sorted(counts.keys() - named.keys(), key=lambda phrase: (-counts[phrase], phrase))
    return replace(
        table,
        rows=(
            *table.rows,
            *(
                Row(phrase, phrase.strip("“”"), (), COMMON_PHRASES, recipe=replace(recipe, group=phrase))
                for phrase in more
            ),
        ),
    )


def required_models(rows: Sequence[Row]) -> list[Training]:
    recipes = [row.recipe for row in rows if row.recipe]
    return [training for recipe in recipes for training in (recipe.model, recipe.parts) if training]


def is_repeated(recipe: RowRecipe) -> bool:
    return not recipe.counts_only and any(training.repeated for training in (recipe.model, recipe.parts) if training)


def _has_scores(table: Table, result: RowResult) -> bool:
    """Return False for a phrase that does not occur in the data."""
    return result.diverged or any(result.score(column.name) is not None for column in table.columns)


MAX_VALUES = 4


def values_in_words(values: Sequence[str]) -> str:
    """Return the distinct values of a note below a table in words; of many only their number.

    Examples
    --------
    >>> values_in_words(["hglmm", "tfidf"])
    'hglmm or tfidf'
    >>> values_in_words(["5", "10", "20", "40", "60"])
    '5 different values, in the JSON document'
    """
    if len(values) > MAX_VALUES:
        return f"{len(values)} different values, in the JSON document"
    return " or ".join(values)


def _distinct_values(descriptions: Iterator[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for description in descriptions:
        for name, value in description.items():
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}
