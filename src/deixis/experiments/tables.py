"""Every table by its name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from deixis.errors import DeixisError
from deixis.experiments.papers import entities, hm_lstm, m_rnn, two_branch
from deixis.experiments.records import Table

TABLES: Mapping[str, Table] = {
    table.name: table for paper in (entities, two_branch, m_rnn, hm_lstm) for table in paper.TABLES
}


def find_table(name: str) -> Table:
    """A table by its name.

    Examples
    --------
    >>> find_table("entities-2").title
    'Sizes of the region–phrase training sets'
    >>> find_table("entity-2")
    Traceback (most recent call last):
    deixis.errors.DeixisError: no table is called 'entity-2'; did you mean 'entities-2'?
    """
    if name in TABLES:
        return TABLES[name]
    near = get_close_matches(name, TABLES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(TABLES)}"
    raise DeixisError(f"no table is called {name!r}; {hint}")
