"""`deixis models`: models and parts that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from deixis.models.installed import InstalledModel


def models(json: Json = False) -> None:
    """List installed and trainable models."""
    from deixis.annotate import help as annotators_help
    from deixis.models.installed import parts_in, shared_parts, shipped_models
    from deixis.models.registry import model_names

    found = shipped_models()
    parts = [*shared_parts(), *parts_in(Path(annotators_help.__file__).parent / "shipped")]
    if json:
        document: dict[str, Any] = {"models": [_document(each) for each in found]}
        print_json({**document, "parts": [_document(each) for each in parts], "trainable": model_names()})
        return
    from rich.table import Table

    for title, listed in (("model", found), ("part", parts)):
        table = Table(title, "does", "size", "scores")
        for each in listed:
            scores = ", ".join(f"{name} {value}" for name, value in each.scores.items() if name != "of")
            table.add_row(
                each.name, each.summary, f"{each.size / 1e6:.1f} MB", f"{each.scores.get('of', '')}: {scores}"
            )
        print_table(table)
    for each in [*found, *parts]:
        print(f"{each.name}: trained on {each.trained_on}; {each.licence}")
    print(f"deixis train knows: {', '.join(model_names())}")


def _document(each: InstalledModel) -> dict[str, Any]:
    is_model = bool(each.capabilities)
    able = {"capabilities": list(each.capabilities), "tasks": list(each.tasks)}
    return {
        "name": each.name,
        "does": each.summary,
        **(able if is_model else {"opened_by": each.opened_by}),
        "bytes": each.size,
        "licence": each.licence,
        "trained_on": each.trained_on,
        "scores": dict(each.scores),
        "path": str(each.folder),
    }
