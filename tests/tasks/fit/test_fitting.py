"""Each kind of model goes to the module that knows it, with all that was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deixis.errors import DeixisError
from deixis.tasks.fit import fitting
from deixis.tasks.fit.chosen import MODELS, choose
from deixis.tasks.fit.fitting import fit
from tests.tasks.coloured import make_coloured

TRAINED = [model for model in MODELS if choose(model, None, []).training]


@pytest.mark.parametrize("model", TRAINED)
def test_what_was_chosen_reaches_the_right_module(model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: dict[str, tuple[Any, ...]] = {}

    def noting(name: str) -> Any:
        return lambda *given: told.setdefault(name, given)

    for name in ("fit_grounder", "fit_m_rnn", "fit_hm_lstm", "fit_network"):
        monkeypatch.setattr(fitting, name, noting(name))
    chosen = choose(model, None, ["epochs=3"])
    fit(model, make_coloured(tmp_path), chosen, tmp_path / "out")
    own = f"fit_{model.replace('-', '_')}"
    assert list(told) == [own if own in ("fit_grounder", "fit_m_rnn", "fit_hm_lstm") else "fit_network"]
    [(run, *parts)] = told.values()
    assert (run.model, run.chosen, run.training, run.out) == (model, chosen, chosen.training, tmp_path / "out")
    assert not run.resume
    assert run.command.endswith("--set epochs=3")  # what deixis train takes anyway is not said
    assert parts in ([chosen.learning, chosen.model], [])


def test_what_is_solved_is_not_trained() -> None:
    chosen = choose("cca", None, [])

    with pytest.raises(DeixisError, match="cca: is solved"):
        fit("cca", "the data", chosen, Path("out"))  # type: ignore[arg-type]
