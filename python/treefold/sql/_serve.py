"""The service of tables."""

from __future__ import annotations

import os
from typing import Any, Iterable, Optional, Union

from .._options import ids_of, whole
from .._service import Service
from ..errors import InvalidOption
from ._engine import Engine

#: The name of a service of tables.
NAME = "sql"


def service(
    folder: "Union[str, os.PathLike[str]]",
    partitions: Iterable[int],
    total: int,
    *,
    name: str = NAME,
    memory: Optional[str] = None,
    threads: Optional[int] = None,
) -> Service:
    """Makes a service of the tables in a folder, for a node that holds `partitions` of `total`.

    A table is a file `NAME.parquet` or `NAME.csv`, or a folder `NAME` of such files. The files of a table are dealt
    out to the partitions in turn; with `{partition}` in the folder's name, each partition has a folder of its own.
    `memory`, as in "4GB", and `threads` limit DuckDB.

    Give the same partitions to `start` or `serve`. Raises `InvalidOption` if a table can't be read.
    """
    ids = ids_of("partitions", partitions)
    if whole("total", total, 32) < 1 or not ids or max(ids) >= total:
        raise InvalidOption(f"partitions are {ids} of {total}; allowed: some, from 0, below the total")
    if threads is not None and whole("threads", threads, 16) < 1:
        raise InvalidOption(f"threads is {threads}; allowed: from 1")
    engine = Engine(os.fspath(folder), ids, total, memory, threads)
    made = Service(name, total=total)
    made.aggregation("query", local=engine.query, reduce="group", reduce_params_field="group")
    made.aggregation(
        "schema",
        local=engine.schema,
        reduce="group",
        reduce_params={
            "keys": ["table", "position", "column", "type", "files"],
            "aggregates": [{"column": "partition", "function": "count"}],
        },
    )
    return made


def spec_of(folder: str, partitions: list[int], total: int, name: str, **options: Any) -> dict[str, Any]:
    """The service of `--serve sql=…`, as the extension takes it."""
    return service(folder, partitions, total, name=name, **options)._spec({id: None for id in partitions})
