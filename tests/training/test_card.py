"""The card says all that a reader of a model asks."""

from __future__ import annotations

from deixis.training.about import About, DataFacts
from deixis.training.card import model_card
from deixis.training.checkpoints import Best
from deixis.training.settings import TrainSettings

ABOUT = About(
    "two-branch",
    {"margin": 0.05, "layers": [1024, 512]},
    DataFacts("flickr8k", "0a1b", {"train": "2c3d", "dev": "4e5f"}, "research only"),
    "deixis train two-branch --data flickr8k --set epochs=3",
    {"encoder": "efficientnet-lite2"},
)
CARD = model_card(
    ABOUT, TrainSettings(epochs=3), Best(120, 2, "i2t_r1", {"i2t_r1": 24.4567, "odd": float("nan")}), 75.0
)


def test_it_tells_data_splits_settings_scores_licence_and_command() -> None:
    for words in (
        "# two-branch, trained on flickr8k",
        "| hash | 0a1b |",
        "| photos of dev | 4e5f |",
        "| encoder | efficientnet-lite2 |",
        "| layers | [1024, 512] |",
        "| epochs | 3 |",
        "| i2t_r1 | 24.46 |",
        "chosen by the best `i2t_r1`",
        "120 steps, to epoch 2, after 1 min 15 s",
        "```\ndeixis train two-branch --data flickr8k --set epochs=3\n```",
        "The data: research only.",
        "torch 2",
    ):
        assert words in CARD, words


def test_a_model_that_is_solved_has_no_steps_and_no_chosen_weights() -> None:
    card = model_card(ABOUT, None, Best(0, 0, "", {"i2t_r1": 24.4567}), 75.0)
    assert "| i2t_r1 | 24.46 |" in card
    assert "; in 1 min 15 s." in card
    for words in ("Settings of training", "chosen", "steps", "epoch 0"):
        assert words not in card, words
    assert "Not measured on dev.\n" in model_card(ABOUT, None, Best(0, 0, "", {}), 75.0)


def test_every_table_has_two_columns() -> None:
    rows = [line for line in CARD.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {3}


def test_what_stands_in_a_table_cannot_break_it() -> None:
    hostile = About("a", {"x": "1 | 2\n\n# not a heading"}, ABOUT.data)
    card = model_card(hostile, TrainSettings(), Best(1, 1, "", {}), 0.0)
    assert "| x | 1 \\| 2 # not a heading |" in card
    assert "\n# not" not in card
