"""A table measured on a data set: row by row, seed by seed, and what that says of the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.experiments.claims import Judged, judge
from deixis.experiments.counting import count_chains, count_pairs
from deixis.experiments.data_sets import known_data
from deixis.experiments.outcomes import Measured, Outcome
from deixis.experiments.records import Recipe, Row, Table, Training
from deixis.experiments.scored import (
    Scored,
    score_grounding,
    score_regions,
    score_retrieval,
    score_sentences,
    score_weighted,
)
from deixis.experiments.trained import Workshop, words_of
from deixis.files.progress import OnProgress, silent
from deixis.training.about import facts_of

OWN_PHRASES = "common in this data, not among the paper's"


@dataclass(frozen=True)
class MeasuredTable:
    """A table with ours beside the published figures.

    Attributes
    ----------
    table
        As published, with the rows that were asked for.
    ours
        What was measured, by the keys of rows.
    claims
        Those of the paper's claims whose two rows were both measured.
    split, split_hash
        What was scored, and a hash of its photos; empty for tables that score nothing.
    seeds
        How many models of each recipe were trained.
    about
        What the models were made with, by name; several where rows differ.
    """

    table: Table
    ours: Mapping[str, Measured]
    claims: tuple[Judged, ...] = ()
    split: str = ""
    split_hash: str = ""
    seeds: int = 0
    about: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Measuring:
    """How tables are measured.

    Attributes
    ----------
    workshop
        Where models come from.
    split
        The split that is scored.
    seeds
        How many models of each recipe are trained, where a seed makes a difference.
    showing
        Asked, with what is to be measured, for somebody to tell how far it is.
    """

    workshop: Workshop
    split: str
    seeds: int = 3
    showing: Callable[[str], AbstractContextManager[OnProgress]] = lambda what: nullcontext(silent)

    @property
    def dataset(self) -> Dataset:
        """What is measured on."""
        return self.workshop.dataset

    def table(self, table: Table) -> MeasuredTable:
        """Measure all rows of a table that can be."""
        recipes = {row.key: row.recipe for row in table.rows if row.recipe and applies(row, table, self.dataset)}
        done: dict[Recipe, tuple[Outcome, ...]] = {}
        for key, recipe in recipes.items():
            whole = replace(recipe, group="")
            if whole not in done:
                done[whole] = tuple(self._outcomes(whole, f"{table.name}: {key}"))
        outcomes = [outcome for some in done.values() for outcome in some]
        table = with_own_phrases(table, outcomes)
        recipes |= {row.key: row.recipe for row in table.rows if row.recipe and row.part == OWN_PHRASES}
        ours = {key: Measured(done[replace(recipe, group="")], recipe.group) for key, recipe in recipes.items()}
        scored = any(recipe.model for recipe in recipes.values())
        return MeasuredTable(
            table,
            {key: measured for key, measured in ours.items() if _says_something(table, measured)},
            tuple(_judged(table, ours)),
            self.split if scored else "",
            facts_of(self.dataset, self.split).splits[self.split] if scored else "",
            max(len(some) for some in done.values()) if scored else 0,
            _together(outcome.about for outcome in outcomes),
        )

    def _outcomes(self, recipe: Recipe, what: str) -> Iterator[Outcome]:
        seeds = self.seeds if _repeated(recipe) else 1
        for seed in range(seeds):

            def measure(seed: int = seed) -> Outcome:
                with self.showing(f"{what}, seed {seed + 1} of {seeds}" if seeds > 1 else what) as on_progress:
                    return self._measured(recipe, seed, on_progress)

            yield self.workshop.runs.outcome(recipe.task, self._about(recipe, seed), measure)

    def _about(self, recipe: Recipe, seed: int) -> dict[str, Any]:
        """Everything that decides an outcome."""
        about: dict[str, Any] = {"task": recipe.task, "data": self.dataset.manifest.hash}
        if recipe.model:
            about["split"] = facts_of(self.dataset, self.split).splits[self.split]
            about["model"] = self.workshop.about(recipe.model, seed)
        if recipe.parts:
            about |= {"parts": self.workshop.about(recipe.parts, seed), "weights": recipe.weights}
        if recipe.task == "captions":
            about["writing"] = asdict(recipe.writing)
        return about

    def _measured(self, recipe: Recipe, seed: int, on_progress: OnProgress) -> Outcome:
        workshop = replace(self.workshop, on_progress=on_progress)
        if recipe.task == "statistics":
            return count_chains(self.dataset)
        if recipe.task == "set-sizes":
            return count_pairs(self.dataset, on_progress=on_progress)
        if recipe.model is None:
            raise DeixisError(f"{recipe.task}: no model is named")
        if recipe.model.model == "m-rnn":
            return self._of_captioner(workshop, recipe, recipe.model, seed)
        bundle = workshop.bundle(recipe.model, seed)
        about = words_of(bundle, workshop.text_of(recipe.model, seed))
        on = Scored(self.dataset, self.dataset.split(self.split), workshop.stores, on_progress)
        if recipe.task == "grounding":
            found = score_grounding(bundle, on)
        elif recipe.task == "sentences":
            found = score_sentences(bundle, on)
        elif recipe.task == "regions":
            found = score_regions(bundle, on)
        elif recipe.parts:
            parts = workshop.bundle(recipe.parts, seed)
            about = words_of(parts, workshop.text_of(recipe.parts, seed)) | about
            found = score_weighted(bundle, parts, recipe.weights, on)
        else:
            found = score_retrieval(bundle, on)
        return replace(found, about=about)

    def _of_captioner(self, workshop: Workshop, recipe: Recipe, training: Training, seed: int) -> Outcome:
        """What a model scores that writes captions, and whose own words are all that it reads."""
        from deixis.experiments.written import score_likely, score_likely_regions, score_written

        bundle = workshop.captioner(training, seed)
        on = Scored(self.dataset, self.dataset.split(self.split), workshop.stores, workshop.on_progress)
        if recipe.task == "captions":
            learned_from = self.dataset.split(workshop.train_split(training, seed))
            return score_written(bundle, on, recipe.writing, learned_from)
        return score_likely_regions(bundle, on) if recipe.task == "regions" else score_likely(bundle, on)


def applies(row: Row, table: Table, dataset: Dataset) -> bool:
    """Whether the figures of a row are measured on this data set.

    Where a table is of several data sets, only the rows of this one are; on any other, those of the first.
    """
    if not row.data:
        return True
    known = known_data(dataset)
    return row.data == (known if known in table.data else table.data[0])


def with_own_phrases(table: Table, outcomes: Sequence[Outcome]) -> Table:
    """Where the rows are the paper's commonest phrases: with rows for those of the data itself that are not among them.

    Such rows have no published figures.
    """
    named = {row.recipe.group: row.recipe for row in table.rows if row.recipe and row.recipe.group.startswith("“")}
    if not named:
        return table
    recipe = next(iter(named.values()))
    counts = {
        name.removesuffix("_n"): count
        for outcome in outcomes
        for name, count in outcome.scores.items()
        if name.startswith("“") and name.endswith("_n")
    }
    more = sorted(counts.keys() - named.keys(), key=lambda phrase: -counts[phrase])
    return replace(
        table,
        rows=(
            *table.rows,
            *(
                Row(phrase, phrase.strip("“”"), (), OWN_PHRASES, recipe=replace(recipe, group=phrase))
                for phrase in more
            ),
        ),
    )


def trainings_of(rows: Sequence[Row]) -> list[Training]:
    """All models that rows are measured with."""
    recipes = [row.recipe for row in rows if row.recipe]
    return [training for recipe in recipes for training in (recipe.model, recipe.parts) if training]


def _repeated(recipe: Recipe) -> bool:
    return any(training.repeated for training in (recipe.model, recipe.parts) if training)


def _says_something(table: Table, measured: Measured) -> bool:
    """A phrase that the data has never has no scores."""
    return any(measured.score(column.name) is not None for column in table.columns)


def _judged(table: Table, ours: Mapping[str, Measured]) -> Iterator[Judged]:
    for claim in table.claims:
        if claim.better in ours and claim.worse in ours:
            found = judge(claim, ours[claim.better], ours[claim.worse])
            if found:
                yield found


def _together(several: Iterator[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """All that is said under each name, each once."""
    found: dict[str, dict[str, None]] = {}
    for said in several:
        for name, words in said.items():
            found.setdefault(name, {})[words] = None
    return {name: tuple(words) for name, words in found.items()}
