"""Compute a table on a data set, row by row and seed by seed, and test the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison, compare
from deixis.models.evaluation import EvaluationData
from deixis.models.training.run_record import describe_data
from deixis.papers.datasets import count_chains, count_pairs, identify_dataset
from deixis.papers.results import ModelScores, RowResult
from deixis.papers.scoring import (
    score_captions,
    score_combined,
    score_grounding,
    score_regions,
    score_retrieval,
    score_sentences,
)
from deixis.papers.tables import Claim, Recipe, Row, Table, Training
from deixis.papers.training import TableModels, describe_model
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from deixis.models.grounding import EmbeddingPipeline
    from deixis.models.m_rnn.captioning import CaptionPipeline

Verdict = Literal["holds", "does not hold", "cannot tell"]


@dataclass(frozen=True)
class ClaimTest:
    """The test of a claim."""

    claim: Claim
    difference: Comparison  # better row minus worse, with a paired interval over photos
    by_seed: tuple[float, ...]  # the same difference for each seed
    verdict: Verdict  # "does not hold": the difference has the other sign


def check_claim(claim: Claim, better: RowResult, worse: RowResult, *, rounds: int = 10_000) -> ClaimTest | None:
    """Test a claim with a paired bootstrap over photos; None if the score is not known per photo.

    A deterministic model is compared with every seed of the other.
    """
    first, second = better.statistic(claim.score), worse.statistic(claim.score)
    if first is None or second is None:
        return None
    photos = better.models[0].photos
    if photos != worse.models[0].photos:
        raise DeixisError(f"{claim.says}: the two rows were scored on different photos; compute them again")
    found = compare(first, second, photos, rounds=rounds)
    by_seed = _differences(better.by_seed(claim.score), worse.by_seed(claim.score))
    return ClaimTest(claim, found, by_seed, decide(found, by_seed))


def decide(found: Comparison, by_seed: tuple[float, ...]) -> Verdict:
    """Decide only if the interval excludes 0 and all seeds agree in sign."""
    if found.low > 0 and all(difference > 0 for difference in by_seed):
        return "holds"
    if found.high < 0 and all(difference < 0 for difference in by_seed):
        return "does not hold"
    return "cannot tell"


def _differences(better: tuple[float, ...], worse: tuple[float, ...]) -> tuple[float, ...]:
    """Return the difference for each seed; a deterministic model has one score for all seeds."""
    seeds = max(len(better), len(worse))
    first, second = (scores * seeds if len(scores) == 1 else scores for scores in (better, worse))
    return tuple(a - b for a, b in zip(first, second, strict=True))


COMMON_PHRASES = "common in this data, not among the paper's"


@dataclass(frozen=True)
class TableResult:
    """A table with our figures beside the published ones."""

    table: Table  # the published table with the requested rows
    ours: Mapping[str, RowResult]  # by row key
    claims: tuple[ClaimTest, ...] = ()  # those whose two rows were both computed
    split: str = ""  # empty for tables without models
    split_hash: str = ""  # of its photos
    seeds: int = 0  # number of models per recipe
    about: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # several values where rows differ


@dataclass(frozen=True)
class TableRunner:
    """Computes tables: scores `split`, with `seeds` models per recipe unless it is deterministic."""

    models: TableModels
    split: str
    seeds: int = 3
    show_progress: Callable[[str], AbstractContextManager[OnProgress]] = lambda label: nullcontext(no_progress)

    @property
    def dataset(self) -> Dataset:
        """The data set."""
        return self.models.dataset

    def run(self, table: Table) -> TableResult:
        """Compute all rows of a table that have a recipe for this data set."""
        recipes = {row.key: row.recipe for row in table.rows if row.recipe and row_applies(row, table, self.dataset)}
        done: dict[Recipe, tuple[ModelScores, ...]] = {}
        for key, recipe in recipes.items():
            ungrouped = replace(recipe, group="")
            if ungrouped not in done:
                done[ungrouped] = tuple(self._score_seeds(ungrouped, f"{table.name}: {key}"))
        all_scores = [scores for models in done.values() for scores in models]
        table = add_common_phrases(table, all_scores)
        recipes |= {row.key: row.recipe for row in table.rows if row.recipe and row.part == COMMON_PHRASES}
        ours = {key: RowResult(done[replace(recipe, group="")], recipe.group) for key, recipe in recipes.items()}
        scored = any(recipe.model for recipe in recipes.values())
        return TableResult(
            table,
            {key: result for key, result in ours.items() if _has_scores(table, result)},
            tuple(_check_claims(table, ours)),
            self.split if scored else "",
            describe_data(self.dataset, self.split).splits[self.split] if scored else "",
            max(len(models) for models in done.values()) if scored else 0,
            _distinct_values(scores.about for scores in all_scores),
        )

    def _score_seeds(self, recipe: Recipe, label: str) -> Iterator[ModelScores]:
        seeds = self.seeds if _repeated(recipe) else 1
        for seed in range(seeds):

            def compute(seed: int = seed) -> ModelScores:
                with self.show_progress(f"{label}, seed {seed + 1} of {seeds}" if seeds > 1 else label) as on_progress:
                    return self._compute(recipe, seed, on_progress)

            yield self.models.runs.scores(recipe.task, self._about(recipe, seed), compute)

    def _about(self, recipe: Recipe, seed: int) -> dict[str, Any]:
        """Return everything that determines the scores."""
        about: dict[str, Any] = {"task": recipe.task, "data": self.dataset.manifest.hash}
        if recipe.model:
            about["split"] = describe_data(self.dataset, self.split).splits[self.split]
            about["model"] = self.models.about(recipe.model, seed)
        if recipe.parts:
            about |= {"parts": self.models.about(recipe.parts, seed), "weights": recipe.weights}
        if recipe.task == "captions":
            about["writing"] = asdict(recipe.caption_options)
        return about

    def _compute(self, recipe: Recipe, seed: int, on_progress: OnProgress) -> ModelScores:
        models = replace(self.models, on_progress=on_progress)
        if recipe.task == "statistics":
            return count_chains(self.dataset)
        if recipe.task == "set-sizes":
            return count_pairs(self.dataset, on_progress=on_progress)
        if recipe.model is None:
            raise DeixisError(f"{recipe.task}: no model is named")
        pipeline = models.pipeline(recipe.model, seed)
        about = describe_model(pipeline, models.text_features(recipe.model, seed))
        on = EvaluationData(self.dataset, self.dataset.split(self.split), models.feature_dirs, on_progress)
        if recipe.task == "captions":
            training = self.dataset.split(models.train_split(recipe.model, seed))
            found = score_captions(cast("CaptionPipeline", pipeline), on, recipe.caption_options, training)
        elif recipe.task == "grounding":
            found = score_grounding(pipeline, on)
        elif recipe.task == "sentences":
            found = score_sentences(pipeline, on)
        elif recipe.task == "regions":
            found = score_regions(pipeline, on)
        elif recipe.parts:
            regions = models.pipeline(recipe.parts, seed)
            about = describe_model(regions, models.text_features(recipe.parts, seed)) | about
            both = cast("EmbeddingPipeline", pipeline), cast("EmbeddingPipeline", regions)
            found = score_combined(*both, recipe.weights, on)
        else:
            found = score_retrieval(pipeline, on)
        return replace(found, about={**about, **found.about})


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
    more = sorted(counts.keys() - named.keys(), key=lambda phrase: -counts[phrase])
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
    """Return all models that rows need."""
    recipes = [row.recipe for row in rows if row.recipe]
    return [training for recipe in recipes for training in (recipe.model, recipe.parts) if training]


def _repeated(recipe: Recipe) -> bool:
    return any(training.repeated for training in (recipe.model, recipe.parts) if training)


def _has_scores(table: Table, result: RowResult) -> bool:
    """Return False for a phrase that does not occur in the data."""
    return any(result.score(column.name) is not None for column in table.columns)


def _check_claims(table: Table, ours: Mapping[str, RowResult]) -> Iterator[ClaimTest]:
    for claim in table.claims:
        if claim.better in ours and claim.worse in ours:
            test = check_claim(claim, ours[claim.better], ours[claim.worse])
            if test:
                yield test


def _distinct_values(descriptions: Iterator[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Collect the distinct values of each key."""
    found: dict[str, dict[str, None]] = {}
    for description in descriptions:
        for name, value in description.items():
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}
