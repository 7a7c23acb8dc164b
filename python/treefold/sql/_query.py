"""Queries: the client's calls."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import Any, Optional

import duckdb

from .._client import Client
from .._options import Time, seconds
from .._reply import Reply
from ..errors import TimedOut
from ._bind import Binder, Bound, Schema
from ._refused import Refused, refuse
from ._serve import NAME

#: Default deadline of a query, in seconds.
DEADLINE = 30.0
#: The share of a query's time in which the schema must be there. A node that stands still costs so much of it.
SCHEMA_SHARE = 0.25
#: The schema that any partition has is enough.
ANY = 1e-9
#: Time for which a client keeps the schema that all partitions have reported, in seconds.
SCHEMA_KEPT = 10.0
#: Least time that is left for the second call of a query, in seconds.
LEFT_MIN = 0.001


#: The schemas that clients keep, by service, and until when.
_schemas: "weakref.WeakKeyDictionary[Client, dict[str, tuple[Binder, float]]]" = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Answer:
    """The answer to a query.

    `table` is a table of pyarrow. `reply` says which partitions are in it; its value are the folded rows from which the
    table was computed.
    """

    table: Any
    reply: Reply[Any]


def query(
    client: Client,
    sql: str,
    *,
    service: str = NAME,
    deadline: Optional[Time] = DEADLINE,
    min_coverage: Optional[float] = None,
    **options: Any,
) -> Answer:
    """Asks one query over the tables of all partitions of a service.

    The other options are those of `Client.call`. The schema of the tables is asked for before, within the same
    deadline, unless the client has asked for it lately.

    Raises `treefold.sql.Refused` if the query is not valid or can't be divided, and what `Client.call` raises.
    """
    given = seconds("deadline", deadline)
    until = time.monotonic() + (DEADLINE if given is None else given)
    bound = _bound(client, sql, service, until)
    left = max(until - time.monotonic(), LEFT_MIN)
    reply = client.call(f"{service}/query", _params(bound), deadline=left, min_coverage=min_coverage, **options)
    return Answer(bound.answer(reply.value), reply)


def explain(client: Client, sql: str, *, service: str = NAME, deadline: Optional[Time] = DEADLINE) -> str:
    """Says how a query is divided: what each partition runs, what nodes fold, and what the client computes.

    Raises as `query` does.
    """
    given = seconds("deadline", deadline)
    bound = _bound(client, sql, service, time.monotonic() + (DEADLINE if given is None else given))
    return plan_of(bound)


def plan_of(bound: Bound) -> str:
    """The parts of a divided query."""
    group = bound.division.group
    figures = ", ".join(f"{one['function']}({one['column']})" for one in group["aggregates"]) or "nothing"
    return (
        f"each partition: {bound.division.partial(bound.division.table)}\n"
        f"nodes fold:     {figures} by {', '.join(group['keys'])}\n"
        f"the client:     {bound.final}"
    )


def _params(bound: Bound) -> dict[str, Any]:
    return {
        "sql": bound.sql,
        "group": bound.division.group,
        "columns": bound.columns,
        "reader": bound.reader,
        "engine": duckdb.__version__,
    }


def _bound(client: Client, sql: str, service: str, until: float) -> Bound:
    kept = _schemas.setdefault(client, {})
    known = kept.get(service)
    if known is not None and time.monotonic() < known[1]:
        try:
            return known[0].bind(sql)
        except Refused:
            pass  # The tables may be others by now.
    left = (until - time.monotonic()) * SCHEMA_SHARE
    if left <= 0:
        raise TimedOut("the deadline has passed")
    reply = client.call(f"{service}/schema", deadline=left, min_coverage=ANY)
    if reply.value is None:
        raise refuse("the partitions have no tables")
    binder = Binder(Schema.of_rows(reply.value.to_pylist()))
    if reply.status == "full":
        kept[service] = (binder, time.monotonic() + SCHEMA_KEPT)
    return binder.bind(sql)
