"""Each kind of model goes to the module that knows it, with all that was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deixis.errors import DeixisError
from deixis.tasks.fit import fitting
from deixis.tasks.fit.chosen import MODELS, choose
from deixis.tasks.fit.fitting import fit

TRAINED = [model for model in MODELS if choose(model, None, []).training]


@pytest.mark.parametrize("model", TRAINED)
def test_what_was_chosen_reaches_the_right_module(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, tuple[Any, ...]] = {}

    def noting(name: str) -> Any:
        return lambda *given, **named: told.setdefault(name, (*given, named))

    for name in ("fit_grounder", "fit_m_rnn", "fit_hm_lstm", "fit_network"):
        monkeypatch.setattr(fitting, name, noting(name))
    chosen = choose(model, None, ["epochs=3"])
    fit(model, "the data", chosen, Path("out"), resume=True)  # type: ignore[arg-type]
    own = f"fit_{model.replace('-', '_')}"
    assert list(told) == [own if own in ("fit_grounder", "fit_m_rnn", "fit_hm_lstm") else "fit_network"]
    [given] = told.values()
    named = given[-1]
    assert named["resume"]
    if "fit_network" in told:
        assert given[:4] == (model, "the data", chosen, Path("out"))
    else:
        assert given[:3] == ("the data", chosen.learning, Path("out"))
        assert (named["settings"], named["training"]) == (chosen.model, chosen.training)


def test_what_is_solved_is_not_trained() -> None:
    chosen = choose("cca", None, [])

    with pytest.raises(DeixisError, match="cca: is solved"):
        fit("cca", "the data", chosen, Path("out"))  # type: ignore[arg-type]
