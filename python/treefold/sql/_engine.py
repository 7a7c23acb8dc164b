"""The node's side: DuckDB over the files of its partitions, closed against everything else.

A query comes from whoever may call the service. So the node divides it itself, and runs only the part that it wrote,
which reads one table of one partition. Behind that, DuckDB has no access to anything but the tables' files, and its
configuration is locked.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from concurrent.futures import Future, wait
from typing import Any, Iterable, Optional

import duckdb

from .. import _native
from ..errors import InvalidOption, TreefoldError
from ._database import opened, text_of, widened
from ._divide import Division, divide, parsed, table_of
from ._files import PARTITION, SCHEMA, TableFiles, folder_of, open_quote, row_among, tables_in
from ._refused import Refused, refuse

#: Time between two looks at whether somebody still waits for a query, in seconds.
LOOK_EVERY = 0.01
#: Time that DuckDB has to end a query that was interrupted, in seconds.
INTERRUPT_GRACE = 5.0
#: Divided queries that an engine remembers, by partition.
DIVISIONS_MAX = 1024

#: Characters that may separate the cells of a row. DuckDB takes them for text if it finds one column only.
_DELIMITERS = ",;|\t"
#: The longest row of CSV that DuckDB reads, in bytes. In a longer file, it refuses a quote without end itself.
_ROW_BYTES_MAX = 2_000_000

#: Functions that could occupy any amount of memory, or that see more than their arguments.
_DENIED = {
    "repeat",
    "lpad",
    "rpad",
    "range",
    "generate_series",
    "list_resize",
    "array_resize",
    "bar",
    "format",
    "printf",
    "json_serialize_plan",
    "json_serialize_sql",
    "json_deserialize_sql",
    "parse_duckdb_log_message",
    "combine",
    "finalize",
    "to_aggregate_state",
    "invoke",
    "version",
    "current_setting",
    "getvariable",
}
#: Macros of DuckDB that are functions of their arguments.
_MACROS = {"if", "nullif", "split_part", "date_add", "days_in_month", "fdiv", "array_to_string"}
#: The aggregates of partial queries.
_PARTIAL = {"count", "count_star", "sum", "min", "max", "avg", "var_pop"}


@functools.cache
def _catalogue() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names of aggregates, of functions that always give the same, and of those that do not."""
    rows = (
        duckdb.connect(":memory:")
        .execute(
            "select lower(function_name), function_type, stability from duckdb_functions() "
            "where schema_name = 'main' or internal"
        )
        .fetchall()
    )
    aggregates = {name for name, kind, _ in rows if kind == "aggregate"}
    scalar = {name for name, kind, stability in rows if kind == "scalar" and stability == "CONSISTENT"}
    moody = {name for name, kind, stability in rows if kind == "scalar" and stability != "CONSISTENT"}
    allowed = {name for name in scalar if not name.startswith("__")} - _DENIED | _MACROS | _PARTIAL
    return frozenset(aggregates), frozenset(allowed), frozenset(moody - scalar)


def aggregate_functions() -> frozenset[str]:
    """The names of the engine's aggregates."""
    return _catalogue()[0]


def check_partial(sql: str, schema: str, table: str, connection: duckdb.DuckDBPyConnection) -> None:
    """Checks, with DuckDB's own parser, that a partial query reads one table and calls allowed functions only."""
    ((text,),) = connection.execute("select json_serialize_sql($sql)", {"sql": sql}).fetchall()
    tree = json.loads(text)
    if tree.get("error") or len(tree["statements"]) != 1:
        raise refuse(str(tree.get("error_message", "it is not one select")))
    open_nodes: list[Any] = [tree["statements"][0]]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, list):
            open_nodes.extend(node)
        if not isinstance(node, dict):
            continue
        open_nodes.extend(node.values())
        _check_node(node, schema, table)


def _check_node(node: dict[str, Any], schema: str, table: str) -> None:
    kind, place = node.get("type"), node.get("class")
    if kind == "BASE_TABLE" and (node.get("schema_name"), node.get("table_name")) != (schema, table):
        raise refuse(f"it reads {node.get('table_name')}")
    if kind in ("TABLE_FUNCTION", "JOIN", "PIVOT", "SHOW_REF", "COLUMN_DATA", "DELIM_GET") and place is None:
        raise refuse(f"it reads a {str(kind).lower().replace('_', ' ')}")
    if place in ("SUBQUERY", "WINDOW", "PARAMETER", "LAMBDA", "STAR") and kind != "COUNT_STAR":
        raise refuse(f"{place.lower()} is not allowed in it")
    if place == "FUNCTION":
        _, allowed, moody = _catalogue()
        name = str(node.get("function_name")).lower()
        if name in moody:
            raise refuse(f"{name}() has another value at each partition; write the value")
        if name not in allowed:
            raise refuse(f"the function {name} is not allowed")


class Engine:
    """DuckDB over the files of this node's partitions."""

    def __init__(
        self,
        folder: str,
        partitions: Iterable[int],
        total: int,
        memory: Optional[str],
        threads: Optional[int],
        is_dealt: bool = False,
    ) -> None:
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": "",
        }
        config.update({"memory_limit": memory} if memory else {})
        config.update({"threads": threads} if threads else {})
        try:
            self._database = opened(**config)
        except duckdb.Error as error:
            raise InvalidOption(str(error).splitlines()[0]) from None
        #: The schema rows of each partition.
        self._schemas: dict[int, list[dict[str, Any]]] = {}
        self._columns: dict[int, dict[str, dict[str, str]]] = {}
        #: The types of columns, and how files are read, by partition and table.
        self._types: dict[int, dict[str, dict[str, str]]] = {}
        self._readers: dict[int, dict[str, str]] = {}
        self._prepared = functools.lru_cache(DIVISIONS_MAX)(self._prepare)
        files: set[str] = set()
        # Without the files of all partitions, there is nothing to deal out.
        whole = None if is_dealt or PARTITION in folder else tables_in(folder_of(folder, 0))
        for partition in partitions:
            tables = tables_in(folder_of(folder, partition)) if whole is None else whole
            files.update(self._open(partition, total, folder_of(folder, partition), tables, whole is not None))
        if not whole and not any(self._columns.values()):
            raise InvalidOption(
                f"{folder} has no table: files NAME.parquet or NAME.csv, or folders NAME with such files"
            )
        self._database.execute("set allowed_paths = $paths", {"paths": sorted(files)})
        self._database.execute("set enable_external_access = false")
        self._database.execute("set lock_configuration = true")
        self._warm_up()

    def _open(self, partition: int, total: int, folder: Any, tables: dict[str, TableFiles], dealt: bool) -> list[str]:
        """Makes the views of a partition, and returns its files."""
        self._database.execute(f"create schema p{partition}")
        self._schemas[partition], self._columns[partition] = [], {}
        self._types[partition], self._readers[partition] = {}, {}
        declared = _declared(folder / SCHEMA)
        allowed: list[str] = []
        for name in sorted(tables.keys() | declared.keys()):
            files = tables.get(name)
            paths = [] if files is None else files.dealt(partition, total) if dealt else files.paths
            view, reader = f'p{partition}."{name}"'.replace("\0", ""), ""
            try:
                if paths:
                    assert files is not None
                    reading = _parquet if files.reader == "parquet" else _csv
                    select, reader = reading(self._database, paths, declared.get(name))
                    self._database.execute(f"create view {view} as {select}")
                elif name in declared:
                    listed = ", ".join(f'"{column}" {kind}' for column, kind in declared[name])
                    self._database.execute(f"create table {view} ({listed})")
                else:
                    continue  # The partition has no file of it.
                columns = self._database.execute(f"describe {view}").fetchall()
            except (duckdb.Error, InvalidOption) as error:
                raise InvalidOption(f"table {name} in {folder}: {str(error).splitlines()[0]}") from None
            allowed += paths
            self._types[partition][name] = {column[0]: column[1] for column in columns}
            self._readers[partition][name] = reader
            fingerprint = files.fingerprint if files is not None and dealt else ""
            self._columns[partition][name] = {column[0].lower(): column[0] for column in columns}
            self._schemas[partition] += [
                {
                    "table": name,
                    "position": at,
                    "column": column[0],
                    "type": column[1],
                    "files": fingerprint,
                    "reader": reader,
                    "partition": partition,
                }
                for at, column in enumerate(columns)
            ]
        return allowed

    def schema(self, partition: Any, params: Any) -> Any:
        """The columns of a partition's tables, as rows; `None` if it has no table."""
        import pyarrow  # type: ignore[import-untyped, unused-ignore]

        rows = self._held(self._schemas, partition.id)
        return pyarrow.Table.from_pylist(rows) if rows else None

    def query(self, partition: Any, params: Any) -> Any:
        """The partial result of a partition; `None` if it has no file of the table."""
        columns = params.get("columns") if isinstance(params, dict) else None
        if columns is None or not isinstance(params.get("sql"), str):
            raise refuse("the call's parameters must be those of treefold.sql; use the same version of treefold")
        if not isinstance(columns, dict) or not all(isinstance(one, str) for one in (*columns, *columns.values())):
            raise refuse("the call's columns must be a map from names to types")
        prepared = self._prepared(params["sql"], partition.id, tuple(columns.items()), params.get("reader"))
        if prepared is None:
            return None
        division, partial = prepared
        if division.group != params.get("group"):
            raise refuse("the client has divided it otherwise; use the same version of treefold")
        if division.uses_hashes and params.get("engine") != duckdb.__version__:
            raise refuse(f"approx_count_distinct needs DuckDB {duckdb.__version__} at the client, as at this node")
        return self._run(partial, partition.id)

    def _prepare(
        self, sql: str, partition: int, agreed: tuple[tuple[str, str], ...] = (), reader: Any = ""
    ) -> Optional[tuple[Division, str]]:
        """Divides a query and checks its part for a partition; `None` if the partition has no file of the table.

        `agreed` are the columns' types over all partitions, and `reader` says how all read the files.
        """
        columns = self._held(self._columns, partition)
        table = table_of(parsed(sql)).name.lower()
        if table not in columns:
            return None
        own = self._readers[partition][table]
        if own and reader and own != reader:
            raise refuse(f"this partition reads {table} with {own}, and others with {reader}")
        casts: dict[str, str] = {}
        types = self._types[partition][table]
        for name, kind in agreed:
            if name not in types or widened(types[name], kind) != kind:
                raise refuse(f"column {name} of {table} is {kind} in other partitions, and {types.get(name)} in this one")
            if types[name] != kind:
                casts[name.lower()] = kind
        division = divide(sql, columns, aggregate_functions(), casts)
        partial = division.partial(f'p{partition}."{division.table}"')
        check_partial(partial, f"p{partition}", division.table, self._database.cursor())
        return division, partial

    def _held(self, by_partition: dict[int, Any], partition: int) -> Any:
        if partition not in by_partition:
            held = ", ".join(map(str, by_partition))
            raise Failed(f"the node's service was made for partitions {held}, and not for {partition}")
        return by_partition[partition]

    def _warm_up(self) -> None:
        """Asks for no rows of a table. Otherwise the first query would take long, and calls are judged by that."""
        for partition, columns in self._columns.items():
            for table in columns:
                prepared = self._prepared(f'select count(*) from "{table}" where false', partition)
                assert prepared is not None, "invariant: the partition has the table"
                self._run(prepared[1], partition)
                return

    def _run(self, sql: str, partition: int) -> Any:
        """Runs a partial query. It is interrupted if nobody waits for it any longer."""
        cursor = self._database.cursor()
        done: "Future[Any]" = Future()

        def run() -> None:
            try:
                relation: Any = cursor.sql(sql)
                done.set_result((getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table)())
            except BaseException as error:
                done.set_exception(error)

        # `cancelled` is about the thread that a local runs on, so the query runs on another one.
        threading.Thread(target=run, name=f"treefold-sql-{partition}", daemon=True).start()
        try:
            while not _native.cancelled():
                if wait([done], LOOK_EVERY).done:
                    return done.result()
            # The query may only be about to begin, so once may be too early.
            until = time.monotonic() + INTERRUPT_GRACE
            while not done.done() and time.monotonic() < until:
                cursor.interrupt()
                time.sleep(LOOK_EVERY)
            raise Interrupted("nobody waits for the query any longer")
        except duckdb.Error as error:
            raise Failed(str(error).splitlines()[0]) from None


class Interrupted(TreefoldError):
    """A query was interrupted."""

    is_complete = True


class Failed(TreefoldError):
    """DuckDB could not run a partial query. The text says everything, so the node adds nothing to it."""

    is_complete = True


def _declared(path: Any) -> dict[str, list[tuple[str, str]]]:
    """The tables that a file declares, with their columns."""
    if not path.is_file():
        return {}
    scratch = opened(enable_external_access="false")
    try:
        scratch.execute(path.read_text(encoding="utf-8"))
        rows = scratch.execute(
            "select lower(table_name), column_name, data_type from duckdb_columns() where not internal "
            "order by table_name, column_index"
        ).fetchall()
    except (duckdb.Error, OSError, UnicodeError) as error:
        raise InvalidOption(f"{path}: {str(error).splitlines()[0]}") from None
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in rows:
        tables.setdefault(table, []).append((column, kind))
    return tables


Declared = Optional[list[tuple[str, str]]]


def _parquet(database: duckdb.DuckDBPyConnection, paths: list[str], declared: Declared) -> tuple[str, str]:
    """The select over a table's files in Parquet, and how they are read, which is the same at all nodes.

    DuckDB would cast all files to the types of the first one, and 1.5 becomes 2 if that has whole numbers. So files with
    other types are read apart, and each is cast to the types that hold all values.
    """
    about = "name, type, type_length, num_children, converted_type, scale, precision, logical_type"
    forms = f"select file_name, string_agg(concat_ws('|', {about}), ';') from parquet_schema($paths) group by file_name"
    alike: dict[str, list[str]] = {}
    for path, form in sorted(database.execute(forms, {"paths": paths}).fetchall()):
        alike.setdefault(form, []).append(path)
    parts: list[tuple[str, dict[str, str]]] = []
    types: dict[str, str] = dict(declared or ())
    for group in alike.values():
        source = f"read_parquet({_listed(group)})"
        own = {name: kind for name, kind, *_ in database.execute(f"describe select * from {source}").fetchall()}
        parts.append((source, own))
        for name, kind in () if declared else own.items():
            known = types.setdefault(name, kind)
            wide = widened(known, kind)
            if wide is None:
                raise InvalidOption(f"files differ in column {name}: {known} and {kind}; declare the table in {SCHEMA}")
            types[name] = wide
    for name in () if declared else types:
        if not all(name in own for _, own in parts):
            raise InvalidOption(f"files differ: some have no column {name}; declare the table in {SCHEMA}")
    selects = (
        "select " + ", ".join(_column(name, kind, own.get(name)) for name, kind in types.items()) + f" from {source}"
        for source, own in parts
    )
    return " union all ".join(selects), ""


def _column(name: str, kind: str, own: Optional[str]) -> str:
    """A column in the select over files in which it has the type `own`; `None` if they lack it, and it is null."""
    value = _quoted(name) if own else "null"
    if own and ("FLOAT" in own or "DOUBLE" in own):
        # Files' statistics leave NaN out, and DuckDB would conclude from them that there is none.
        value = f"case when {value} is not null then {value} end"
    if own != kind:
        value = f"cast({value} as {kind})"
    return f"{value} as {_quoted(name)}"


def _csv(database: duckdb.DuckDBPyConnection, paths: list[str], declared: Declared) -> tuple[str, str]:
    """The select over a table's files in CSV, and how they are read. DuckDB finds out some of it from the first file.

    Dates must have the year first. DuckDB would guess the order of day and month from the files of one partition, and
    another partition might guess otherwise. So a column with other dates is a text, and an error if it is declared.
    """
    # DuckDB can't tell anything from files without a byte.
    full = [path for path in paths if os.path.getsize(path)]
    if not full and declared is not None:
        nulls = ", ".join(f"cast(null as {kind}) as {_quoted(name)}" for name, kind in declared)
        return f"select {nulls} limit 0", ""
    paths = full or paths
    sniffed = (
        "select Delimiter, Quote, Escape, Comment, SkipRows, len(Columns), HasHeader, DateFormat, TimestampFormat "
        "from sniff_csv($path)"
    )
    ((*marks, skipped, columns, has_header, date, timestamp),) = database.execute(sniffed, {"path": paths[0]}).fetchall()
    delimiter, quote, escape, comment = (text_of(mark) or "" for mark in marks)
    _check_skipped(paths[0], skipped, delimiter)
    is_plain = not comment and not skipped and escape in ("", quote)
    if is_plain and not quote:
        _check_quotes(paths[:1], _DELIMITERS if columns == 1 else delimiter, '"')
    # Other files may have quotes although the first one has none.
    quote = quote or '"'
    options = f"quote = {_literal(quote)}, escape = {_literal(escape or quote)}"
    # With the quotes alone, DuckDB would look for the delimiter again, and might take a quote without end for a text.
    options += f", delim = {_literal(delimiter)}" if delimiter or declared is not None else ""
    reader = f"delimiter {delimiter!r}, {'a' if has_header else 'no'} header, {skipped} lines skipped"
    reader += f", comments {comment!r}" if comment else ""
    if declared is not None:
        if is_plain:
            _check_quotes([path for path in paths if os.path.getsize(path) <= _ROW_BYTES_MAX], delimiter, quote)
        options += f", auto_detect = false, comment = {_literal(comment)}"
        options += f", skip = {skipped}, header = {has_header}, columns = {_types(declared)}"
        return f"select * from read_csv({_listed(paths)}, {options})", reader
    dates, times = (not (text_of(form) or "%Y").startswith("%Y") for form in (date, timestamp))
    try:
        found = database.execute(f"describe select * from read_csv({_listed(paths)}, {options})").fetchall()
    except duckdb.Error:
        if is_plain:
            _check_quotes(paths, delimiter, quote)
        raise
    guessed = {kind for kind, is_guessed in (("DATE", dates), ("TIMESTAMP", times)) if is_guessed}
    texts = [(name, "VARCHAR") for name, kind, *_ in found if kind in guessed]
    options += f", types = {_types(texts)}" if texts else ""
    return f"select * from read_csv({_listed(paths)}, {options})", reader


def _check_skipped(path: str, skipped: int, delimiter: str) -> None:
    """Refuses a file of CSV of whose first lines DuckDB would skip some that are rows of another width."""
    line = row_among(path, skipped, delimiter)
    if line is not None:
        raise InvalidOption(
            f"{os.path.basename(path)}: line {line} has another number of values than the rows below, and would be skipped; "
            "give all rows as many values, or take the lines above the header out"
        )


def _check_quotes(paths: list[str], delimiters: str, quote: str) -> None:
    """Refuses files of CSV with a quote that has no end."""
    for path in paths:
        line = open_quote(path, delimiters, quote)
        if line is not None:
            raise InvalidOption(f"{os.path.basename(path)}: the quote that opens in line {line} has no end; close it")


def _types(columns: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{_literal(name)}: {_literal(kind)}" for name, kind in columns) + "}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(paths: list[str]) -> str:
    return "[" + ", ".join(map(_literal, paths)) + "]"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


__all__ = ["Engine", "Refused", "aggregate_functions", "check_partial"]
