"""`deixis models`: what comes with the package."""

from __future__ import annotations

from pathlib import Path

from deixis.cli.output import Json, print_json, print_table


def models(json: Json = False) -> None:
    """List the models that come with deixis, with size, licence, training data and scores."""
    from deixis.annotate import help as annotators_help
    from deixis.tasks.shipped_models import parts_in, parts_of_models, shipped_models

    helpers = parts_in(Path(annotators_help.__file__).parent / "shipped")
    found = [*shipped_models(), *parts_of_models(), *helpers]
    if json:
        print_json(
            [
                {
                    "name": model.name,
                    "does": model.does,
                    "bytes": model.size,
                    "licence": model.licence,
                    "trained_on": model.trained_on,
                    "scores": dict(model.scores),
                    "path": str(model.folder),
                }
                for model in found
            ]
        )
        return
    from rich.table import Table

    table = Table("model", "does", "size", "scores")
    for model in found:
        scores = ", ".join(f"{name} {value}" for name, value in model.scores.items() if name != "of")
        table.add_row(model.name, model.does, f"{model.size / 1e6:.1f} MB", f"{model.scores.get('of', '')}: {scores}")
    print_table(table)
    for model in found:
        print(f"{model.name}: trained on {model.trained_on}; {model.licence}")
