"""SQL over Parquet and CSV files in partitions, by DuckDB (`pip install 'treefold[sql]'`).

    service = treefold.sql.service("/srv/tables", partitions=range(4), total=4)
    with service.start(partitions=range(4)) as node:
        answer = treefold.sql.query(node.client(), "select host, avg(ms) from requests group by host")
        print(answer.table, answer.reply.coverage)

Each partition aggregates its own rows, nodes fold the groups on their way up without Python, and the client computes
the rest of the query. docs/sql.md describes the queries that can be divided.
"""

from __future__ import annotations

from ._query import Answer, explain, query
from ._refused import Refused
from ._serve import service

__all__ = ["Answer", "Refused", "explain", "query", "service"]
