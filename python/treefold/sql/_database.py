"""DuckDB as every node and every client opens it: the settings and types that all of them must agree on.

An answer must not depend on where a node runs. DuckDB takes the time zone and the calendar from its surroundings, so both
are set. The types of a table's columns may be narrower in some partitions than in others, as Parquet files of different
days often are; `widened` says which type holds both, and each node casts to the agreed one.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Optional

import duckdb

#: The settings that DuckDB would take from its surroundings.
SETTINGS = {"TimeZone": "UTC", "Calendar": "gregorian"}

#: Types of which one may be wider than another: numbers, and times without a zone.
_KINDS = (
    re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|HUGEINT|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)"),
    re.compile(r"DATE|TIMESTAMP(_S|_MS|_NS)?"),
)
_DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)")


def opened(**config: Any) -> duckdb.DuckDBPyConnection:
    """A database in memory. Raises `duckdb.Error` if the configuration is not valid."""
    database = duckdb.connect(":memory:", config=config)
    for name, value in SETTINGS.items():
        # Cursors are connections of their own, and take over global settings only.
        database.execute(f"set global {name} = '{value}'")
    return database


@functools.lru_cache(1024)
def widened(one: str, other: str) -> Optional[str]:
    """The type to which DuckDB widens two types of a column; `None` if there is none that keeps their values."""
    if one == other:
        return one
    if not any(kind.fullmatch(one) and kind.fullmatch(other) for kind in _KINDS):
        return None
    described = f"describe select cast(null as {one}) as x union all select cast(null as {other})"
    ((_, wide, *_),) = duckdb.connect(":memory:").execute(described).fetchall()
    scales = [int(found[1]) for kind in (one, other, wide) if (found := _DECIMAL.fullmatch(kind))]
    # With too many digits before the point, DuckDB would drop digits behind it.
    return None if _DECIMAL.fullmatch(wide) and scales[-1] < max(scales) else str(wide)


def text_of(cell: Any) -> Optional[str]:
    """A value that `sniff_csv` gives; `None` if it has found none."""
    return None if cell in (None, "(empty)") else str(cell)
