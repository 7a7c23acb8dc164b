"""The client's side of a query: the tables' schema, types, and the rest of the query over the folded rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import duckdb

from ._database import opened, widened
from ._divide import Division, divide
from ._engine import aggregate_functions, check_partial
from ._refused import refuse

#: Bound queries that a client keeps for each schema.
BOUND_MAX = 256

#: Types that the filter `group` has as keys, and for min and max.
ORDERED = {
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "VARCHAR",
    "BLOB",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
    "UUID",
    "JSON",
}
#: Types of sums.
SUMS = {"HUGEINT", "DECIMAL", "DOUBLE"}


@dataclass(frozen=True)
class Schema:
    """The tables of a service: the columns of each, with their types, in their order."""

    tables: dict[str, list[tuple[str, str]]]
    #: How the nodes read the files of tables in CSV, by table.
    readers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: list[dict[str, Any]]) -> "Schema":
        """The schema that the partitions have reported. A column has the wider of two types. Raises `Refused` if the
        partitions differ in any other way."""
        tables: dict[str, dict[int, tuple[str, str]]] = {}
        files: dict[str, set[str]] = {}
        readers: dict[str, str] = {}
        for row in rows:
            files.setdefault(row["table"], set()).add(row["files"])
            columns = tables.setdefault(row["table"], {})
            column = (row["column"], row["type"])
            known = columns.setdefault(row["position"], column)
            wide = widened(known[1], column[1]) if known[0] == column[0] else None
            if wide is None:
                raise refuse(
                    f"partitions differ in column {row['position'] + 1} of {row['table']}: it is {known[0]} of type "
                    f"{known[1]} and {column[0]} of type {column[1]}; declare the table in schema.sql"
                )
            columns[row["position"]] = (known[0], wide)
            if row["reader"] and readers.setdefault(row["table"], row["reader"]) != row["reader"]:
                raise refuse(
                    f"partitions read {row['table']} differently: with {readers[row['table']]}, and with {row['reader']}; "
                    "give all files of the table the same form"
                )
        for table, listings in files.items():
            if len(listings) > 1:
                raise refuse(
                    f"nodes have found different files of {table}, so rows may be missing or counted twice; "
                    "give all nodes the same files, and start them again"
                )
        return cls({table: [columns[at] for at in sorted(columns)] for table, columns in tables.items()}, readers)

    def names(self) -> dict[str, dict[str, str]]:
        """The names of the columns by table, by their names in small letters."""
        return {table: {name.lower(): name for name, _ in columns} for table, columns in self.tables.items()}


@dataclass(frozen=True)
class Bound:
    """A divided query with the types of its answer."""

    division: Division
    #: The query over the table `folded`.
    final: str
    sql: str
    #: The columns' types in the table, and how its files are read, which all nodes must agree to.
    columns: dict[str, str]
    reader: str
    database: duckdb.DuckDBPyConnection

    def answer(self, folded: Any) -> Any:
        """The table of the answer. `folded` are the folded rows; `None` if there are none."""
        cursor = self.database.cursor()
        if folded is None:
            return arrow_of(cursor, self.sql)
        cursor.register("folded", folded)
        try:
            return arrow_of(cursor, self.final)
        finally:
            cursor.unregister("folded")


def arrow_of(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The rows of a select as a table of pyarrow."""
    relation: Any = connection.sql(sql)
    table = getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table
    return table()


class Binder:
    """Divides queries over a schema and finds their types, with empty tables in a DuckDB of its own."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._database = opened(enable_external_access="false")
        for table, columns in schema.tables.items():
            listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
            self._database.execute(f"create table {quoted(table)} ({listed})")
        #: Divides a query. Raises `Refused`.
        self.bind = functools.lru_cache(BOUND_MAX)(self._bind)

    def _bind(self, sql: str) -> Bound:
        division = divide(sql, self._schema.names(), aggregate_functions())
        database, source = self._database.cursor(), quoted(division.table)
        names = [name for name, _ in described(database, sql)]
        check_partial(division.partial(source), "", division.table, database)
        _check_types(division, described(database, division.partial(source), "its partial query"))
        expressions = [*division.keys, *(call for call, _ in division.values)]
        # An aggregate of no group has the type that it has in the query.
        grouped = " group by " + ", ".join(str(at + 1) for at in range(len(division.keys))) if division.keys else ""
        types = [kind for _, kind in described(database, f"select {', '.join(expressions)} from {source}{grouped}")]
        columns, reader = dict(self._schema.tables[division.table]), self._schema.readers.get(division.table, "")
        return Bound(division, division.final(types, names), sql, columns, reader, self._database)


def quoted(name: str) -> str:
    """An identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def described(database: duckdb.DuckDBPyConnection, sql: str, what: str = "") -> list[tuple[str, str]]:
    """The names and types of a select's columns."""
    try:
        return [(row[0], row[1]) for row in database.execute(f"describe {sql}").fetchall()]
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise refuse(f"{what}: {reason}" if what else reason) from None


def _check_types(division: Division, columns: list[tuple[str, str]]) -> None:
    """Refuses types that can't be folded."""
    for name, kind in columns:
        base = kind.partition("(")[0] if not kind.endswith("]") else kind
        what = division.keys[int(name[1:])] if name.startswith("k") and name[1:].isdigit() else name.partition("(")[0]
        allowed = SUMS if name.startswith("sum(") else ORDERED
        if base not in allowed and not name.startswith("variance("):
            raise refuse(f"{what} is of type {kind}, which cannot be folded; cast it, as in cast(… as varchar)")
