"""Graphs (HNSW) over the vectors of an index in PostgreSQL: quicker searches that may miss a little."""

from __future__ import annotations

from deixis.errors import DeixisError
from deixis.index.postgres.address import read_address
from deixis.index.postgres.connection import connect
from deixis.index.postgres.schema import about_of, read_said
from deixis.index.postgres.troubles import plainly

SEARCH, APPROXIMATE, EXACT = "search", "approximate", "exact"
"""The key under which an index says how it is searched, and what it may say."""

REGIONS = "regions_graph"
_GRAPHS = {
    "vectors_graph": "vectors USING hnsw (whole vector_ip_ops)",
    REGIONS: "regions USING hnsw (vector halfvec_ip_ops)",
}

_MOST = 2000
"""Numbers of a vector that pgvector puts into a graph."""


def search_by_graphs(place: str, approximate: bool, *, regions: bool = True) -> None:
    """Have an index searched by graphs from now on, which are built first, or exactly, without them.

    Photos that come later join the graphs. Searches with filters are exact in any case.

    Parameters
    ----------
    place
        The address of the database.
    approximate
        False removes the graphs.
    regions
        Whether regions have a graph too, which takes most of the time and the room.

    Raises
    ------
    DeixisError
        There is no index, or its vectors are too long for a graph.
    """
    address = read_address(place)
    connection = connect(address)
    try:
        with plainly(address), connection.raw.transaction():
            about = about_of(read_said(connection, address), address)
            if approximate and max(about.dimension, about.region_dimension) > _MOST:
                raise DeixisError(f"{address.name}: its vectors have more than {_MOST:,} numbers, too many for a graph")
            for graph, over in _GRAPHS.items():
                if not approximate:
                    connection.execute(f"DROP INDEX IF EXISTS {graph}")
                elif regions or graph != REGIONS:
                    connection.execute(f"CREATE INDEX IF NOT EXISTS {graph} ON {over}")
            connection.execute(
                "INSERT INTO about VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (SEARCH, APPROXIMATE if approximate else EXACT),
            )
    finally:
        connection.raw.close()
