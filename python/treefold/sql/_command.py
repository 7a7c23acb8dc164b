"""`treefold sql`: asks a query and prints the answer. The command's grammar is that of the program."""

from __future__ import annotations

import csv
import decimal
import io
import json
import math
import re
import sys
from typing import Any, Optional

from .._client import connect
from .._reply import Reply
from ..errors import InsufficientCoverage, InvalidCall, InvalidOption, TreefoldError, Unreachable
from ._database import opened
from ._query import explain, query
from ._refused import Refused

#: Exit codes, as in docs/command.md.
FULL, FAILED, REFUSED, PARTIAL, INSUFFICIENT, UNREACHABLE = range(6)


def ask(
    sql: str,
    *,
    at: list[str],
    service: str,
    cluster: str,
    deadline: float,
    min_coverage: float,
    output: str,
    plan: bool,
) -> tuple[int, str]:
    """Asks a query, prints the answer, and returns the exit code, and the message of a failure."""
    try:
        client = connect(*at, cluster=cluster)
        if plan:
            print(explain(client, sql, service=service, deadline=deadline), flush=True)
            return FULL, ""
        answer = query(client, sql, service=service, deadline=deadline, min_coverage=min_coverage)
    except InsufficientCoverage as error:
        if error.reply is None:
            return FAILED, str(error)
        _print(None, error.reply, output)
        return INSUFFICIENT, ""
    except Unreachable as error:
        return UNREACHABLE, str(error)
    except (Refused, InvalidOption) as error:
        return REFUSED, str(error)
    except InvalidCall as error:
        # As `treefold call`: without a node that has the service, nobody could be asked.
        return UNREACHABLE if "provides the service" in str(error) else REFUSED, str(error)
    except TreefoldError as error:
        return FAILED, str(error)
    _print(answer.table, answer.reply, output)
    return (FULL if answer.reply.status == "full" else PARTIAL), ""


def _print(table: Any, reply: Reply[Any], output: str) -> None:
    """Prints the table to standard output, and the coverage to standard error; in JSON, both together."""
    if output == "json":
        text = json.dumps(answer_as_json(table, reply), ensure_ascii=False) + "\n"
        text = re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)
    else:
        write = as_csv if output == "csv" else as_text
        text = "" if table is None else write(table)
        # A file of CSV has the values as they are.
        text = printable(text) if output != "csv" or sys.stdout.isatty() else text
    sys.stdout.write(text)
    sys.stdout.flush()
    if output != "json":
        lines = [reply, *(f"missing {loss}" for loss in reply.missing)]
        print(printable("\n".join(map(str, lines))), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with its control characters shown, as every output of the command has them: a terminal may obey them."""
    return re.sub("[\0-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def answer_as_json(table: Any, reply: Reply[Any]) -> dict[str, Any]:
    """The answer in the form of `treefold call -o json`. The value has the columns' names and types, and the rows."""
    value: Optional[dict[str, Any]] = None
    if table is not None:
        columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
        rows = zip(*map(_cells, table.columns, texts_of(table)))
        value = {"columns": columns, "rows": [list(row) for row in rows]}
    missing = [
        {"partition": id, "node": loss.node, "reason": loss.reason, "detail": loss.detail}
        for loss in reply.missing
        for id in loss.partitions
    ]
    status = "insufficient" if table is None else reply.status
    return {
        "status": status,
        "value": value,
        "coverage": {"asked": len(reply.asked), "contributed": len(reply.contributed)},
        "missing": missing,
        "elapsed_us": round(reply.elapsed * 1e6),
    }


def _cells(column: Any, texts: list[Optional[str]]) -> list[Any]:
    """A column's cells as JSON has them: numbers and booleans, and all else in DuckDB's text. A decimal that a double
    can't hold is a text."""
    kind = str(column.type)
    if kind.startswith("decimal"):
        return [None if text is None else _number(decimal.Decimal(text)) for text in texts]
    if kind.startswith(("int", "uint", "bool", "null")):
        return list(column.to_pylist())
    if kind in ("float", "double", "halffloat"):
        return [cell if cell is not None and math.isfinite(cell) else None for cell in column.to_pylist()]
    return list(texts)


def _number(cell: decimal.Decimal) -> Any:
    number = float(cell)
    if decimal.Decimal(repr(number)) == cell:
        return int(number) if number == int(number) and cell.as_tuple().exponent == 0 else number
    return str(cell)


def texts_of(table: Any) -> list[list[Optional[str]]]:
    """The cells of each column as DuckDB writes them, without a detour over values of Python, whose times have no
    nanoseconds. Null is `None`."""
    if not table.num_columns:
        return []
    names = [f"c{at}" for at in range(table.num_columns)]
    database = opened()
    database.register("answer", table.rename_columns(names))
    rows = database.execute(f"select {', '.join(f'cast({name} as varchar)' for name in names)} from answer").fetchall()
    return [[row[at] for row in rows] for at in range(len(names))]


def as_csv(table: Any) -> str:
    """The rows as CSV with a line of names. Null is nothing."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in zip(*texts_of(table)):
        writer.writerow("" if cell is None else cell for cell in row)
    return text.getvalue()


def as_text(table: Any) -> str:
    """The rows as aligned columns, numbers to the right."""
    columns = [["null" if cell is None else cell for cell in column] for column in texts_of(table)]
    # A line feed in a text must not look like another row.
    columns = [[cell.replace("\\", "\\\\").replace("\n", "\\n") for cell in column] for column in columns]
    widths = [max([len(name), *map(len, column)]) for name, column in zip(table.column_names, columns)]
    numeric = [str(field.type).startswith(("int", "uint", "double", "float", "decimal")) for field in table.schema]

    def line(cells: Any) -> str:
        padded = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(cells, widths, numeric)
        )
        return "  ".join(padded).rstrip() + "\n"

    return line(table.column_names) + "".join(line(row) for row in zip(*columns))
