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
    if not ids:
        raise InvalidOption(f"partitions are [] of {total}; allowed: some, from 0, below the total")
    return _service(os.fspath(folder), ids, total, name, memory, threads)[0]


def spec_of(folder: str, partitions: list[int], total: int, name: str, **options: Any) -> dict[str, Any]:
    """The service of `--serve sql=…`, as the extension takes it. Without partitions, they are loaded later, each by
    itself."""
    made, engine = _service(folder, partitions, total, name, **options)
    return made._spec({id: engine for id in partitions})


def _service(
    folder: str,
    ids: list[int],
    total: int,
    name: str,
    memory: Optional[str] = None,
    threads: Optional[int] = None,
    is_dealt: bool = False,
) -> tuple[Service, Optional[Engine]]:
    """The service, and the engine of its partitions, if it has some."""
    if whole("total", total, 32) < 1 or any(id >= total for id in ids):
        raise InvalidOption(f"partitions are {ids} of {total}; allowed: some, from 0, below the total")
    if threads is not None and whole("threads", threads, 16) < 1:
        raise InvalidOption(f"threads is {threads}; allowed: from 1")
    own = Engine(folder, ids, total, memory, threads, is_dealt) if ids else None

    def engine(partition: Any) -> Engine:
        found = partition.data if isinstance(partition.data, Engine) else own
        assert found is not None, "invariant: a partition was opened with an engine or loaded with one"
        return found

    made = Service(name, total=total)
    made.aggregation(
        "query",
        local=lambda partition, params: engine(partition).query(partition, params),
        reduce="group",
        reduce_params_field="group",
    )
    made.aggregation(
        "schema",
        local=lambda partition, params: engine(partition).schema(partition, params),
        reduce="group",
        reduce_params={
            "keys": ["table", "position", "column", "type", "files", "reader"],
            "aggregates": [{"column": "partition", "function": "count"}],
        },
    )
    return made, own
