"""SQL over Parquet files on many machines: DuckDB aggregates each file, and the nodes fold the groups in Rust.

    python parquet.py make DATA 4                                   writes four files with requests of web servers
    python parquet.py serve 127.0.0.1:7820 DATA 0,1                 serves two of them, in terminals of their own
    python parquet.py serve 127.0.0.1:7821 DATA 2,3 127.0.0.1:7820
    python parquet.py ask 127.0.0.1:7820 100                        requests of at least 100 ms, by host

Needs duckdb and pyarrow.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import duckdb
import treefold

PATTERN = "requests-{}.parquet"
QUERY = """
    SELECT host, count(*)::BIGINT AS requests, sum(ms) AS ms, max(ms) AS slowest
    FROM read_parquet($path) WHERE ms >= $least GROUP BY host
"""


def by_host(partition: treefold.Partition, least: float) -> Any:
    """The groups of one file. DuckDB releases the interpreter's lock, so files are read side by side."""
    with duckdb.connect() as database:
        return database.execute(QUERY, {"path": partition.data, "least": least}).to_arrow_table()


def service(total: int) -> treefold.Service:
    service = treefold.Service("requests", total=total)
    columns = [("requests", "sum"), ("ms", "sum"), ("slowest", "max")]
    aggregates = [{"column": column, "function": function} for column, function in columns]
    service.aggregation(
        "by_host", local=by_host, reduce="group", reduce_params={"keys": ["host"], "aggregates": aggregates}
    )
    return service


def make(directory: str, files: int) -> None:
    os.makedirs(directory, exist_ok=True)
    with duckdb.connect() as database:
        for file in range(files):
            rows = f"SELECT 'web-' || (i * 7 + {file}) % 5 AS host, ((i * {file + 3}) % 250 + 0.5)::DOUBLE AS ms FROM range(20000) r(i)"
            database.execute(f"COPY ({rows}) TO '{os.path.join(directory, PATTERN.format(file))}' (FORMAT parquet)")


def serve(addr: str, directory: str, held: str, *join: str) -> None:
    total = sum(name.startswith("requests-") for name in os.listdir(directory))
    files = {int(id): os.path.join(directory, PATTERN.format(id)) for id in held.split(",")}
    service(total).serve(addr, join, files, ready=lambda node: print(node.addr, flush=True))


def ask(addr: str, least: str) -> None:
    reply = treefold.connect(addr).call("requests/by_host", float(least), deadline=5, min_coverage=0.5)
    for row in reply.value.to_pylist():
        mean = row["sum(ms)"] / float(row["sum(requests)"])
        print(f"{row['host']}: {row['sum(requests)']} requests, mean {mean:.1f} ms, slowest {row['max(slowest)']} ms")
    print(reply)
    for loss in reply.missing:
        print("missing", loss)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "make":
        make(arguments[0], int(arguments[1]))
    else:
        {"serve": serve, "ask": ask}[command](*arguments)
