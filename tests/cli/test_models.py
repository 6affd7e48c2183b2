"""`deixis models` on the command line."""

from __future__ import annotations

from tests.cli.conftest import Command


def test_installed_models_and_parts_are_listed(command: Command) -> None:
    document = command.json("models")
    models = {model["name"]: model for model in document["models"]}
    parts = {part["name"]: part for part in document["parts"]}
    assert (
        {"captioner", "describer", "grounder", "m-rnn", "two-branch"}
        <= set(models)
        <= {*document["trainable"], "describer"}
    )
    assert {"encoder", "head", "chunker", "parser", "tagger"} <= set(parts)
    for each in [*models.values(), *parts.values()]:
        assert each["scores"]
        assert "education" in each["licence"]
    assert models["two-branch"]["bytes"] > 1_000_000
    assert "Flickr8k" in models["two-branch"]["trained_on"]
    assert all(model["capabilities"] for model in models.values())
    assert all(part["opened_by"] for part in parts.values())
    assert "two-branch" in command("models")[0]


def test_the_table_says_what_the_scores_are_of(command: Command) -> None:
    scores = next(each for each in command.json("models")["models"] if each["name"] == "hm-lstm")["scores"]
    table = command("models")[0]
    assert scores["of"].split()[0] in table.partition("hm-lstm")[2].partition("trained on")[0]
