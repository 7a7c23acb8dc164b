"""The division of a query: the part that each partition runs over its rows, the parameters of the fold, and the rest,
which the client runs over the folded rows.

The division depends on the query's text and the names of the columns only. So a node divides the query itself, and
never runs a part that a client wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Iterable, Iterator, Mapping, Optional

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ._parts import Dialect, Measures, Node, estimate_of, name_of, rows_of
from ._refused import Refused, refuse

#: Most characters of a query.
QUERY_CHARACTERS_MAX = 16_384
#: Most groups of an answer, as many as the filter `group` allows. The slots of sketches are groups too.
GROUPS_MAX = 1 << 20

#: The clauses of a select that can be divided.
_CLAUSES = {"expressions", "from_", "from", "where", "group", "having", "order", "limit", "offset", "distinct", "kind"}
_CLAUSE_NAMES = {
    "joins": "a join needs rows of several tables in one place",
    "laterals": "a lateral join cannot be divided",
    "with_": "common table expressions cannot be divided; write the select over the table itself",
    "with": "common table expressions cannot be divided; write the select over the table itself",
    "windows": "window functions need all rows in one place",
    "qualify": "window functions need all rows in one place",
    "sample": "a sample would differ at each partition",
}

#: The names of a table's columns, by their names in small letters.
Columns = Mapping[str, str]


@dataclass(frozen=True)
class Division:
    """A divided query.

    `keys` are the expressions of its groups, and `values` its aggregates with the expressions that compute them from
    the folded columns. `outer` is the rest of the query, over columns `k0`… and `v0`…, without a source.
    """

    table: str
    keys: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    outer: exp.Select
    measures: Measures
    where: str

    @property
    def group(self) -> dict[str, Any]:
        """The parameters of the reduce `group`."""
        slot = ["slot"] if self.measures.layers else []
        keys = [f"k{at}" for at in range(len(self.keys))]
        return {"keys": [*keys, "layer", *slot], "aggregates": self.measures.aggregates, "groups_max": GROUPS_MAX}

    @property
    def uses_hashes(self) -> bool:
        """True if the nodes must have the same engine, because its hashes are folded."""
        return any(layer.kind == "distinct" for layer in self.measures.layers)

    def partial(self, source: str) -> str:
        """The query that a partition runs over its rows. `source` is its table."""
        keys = [(key, f"k{at}") for at, key in enumerate(self.keys)]
        slot = ["cast(0 as bigint) as slot"] if self.measures.layers else []
        columns = [f"{key} as {name}" for key, name in keys] + ["cast(0 as bigint) as layer", *slot]
        columns += [f'{expression} as "{name}"' for expression, name in self.measures.columns]
        rows = f"select {', '.join(columns)}"
        if self.keys or self.measures.columns:
            rows += f" from {source}"
            rows += f" where {self.where}" if self.where else ""
        if self.keys:
            rows += " group by " + ", ".join(str(at + 1) for at in range(len(self.keys)))
        return " union all by name ".join(
            [rows, *(rows_of(layer, keys, source, self.where) for layer in self.measures.layers)]
        )

    def final(self, types: list[str], names: list[str]) -> str:
        """The query over the table `folded` that gives the answer. `types` are those of the keys and values, and
        `names` the names of the answer's columns."""
        keys = [f"k{at}" for at in range(len(self.keys))]
        columns = [f"b.{key}" for key in keys] + [value for _, value in self.values]
        given = [*keys, *(f"v{at}" for at in range(len(self.values)))]
        typed = ", ".join(f"cast({column} as {kind}) as {name}" for column, kind, name in zip(columns, types, given))
        source = f"select {typed or '1'} from folded as b"
        for layer in self.measures.layers:
            same = " and ".join(f"b.{key} is not distinct from s{layer.number}.{key}" for key in keys) or "true"
            source += f" left join ({estimate_of(layer, keys)}) as s{layer.number} on {same}"
        outer = self.outer.copy()
        outer.set(
            "expressions",
            [exp.alias_(item.unalias(), name, quoted=True) for item, name in zip(outer.expressions, names)],
        )
        whole: exp.Select = outer.from_("computed")
        return f"with computed as ({source} where b.layer = 0) {whole.sql(Dialect)}"


def divide(
    sql: str, tables: Mapping[str, Columns], aggregates: frozenset[str], casts: Mapping[str, str] = MappingProxyType({})
) -> Division:
    """Divides a query. `tables` has the names of the columns of each table, by their names in small letters, and
    `aggregates` the names of the engine's aggregate functions. `casts` are types to which columns are cast first, by the
    columns' names in small letters.

    Raises `Refused` if it can't be divided.
    """
    select = parsed(sql)
    try:
        return _Dividing(select, tables, aggregates, casts).divided()
    except RecursionError:
        raise refuse("it is nested too deeply") from None


def parsed(sql: str) -> exp.Select:
    """The select of a query's text."""
    if not isinstance(sql, str) or len(sql) > QUERY_CHARACTERS_MAX:
        raise refuse(f"a query is a text of at most {QUERY_CHARACTERS_MAX} characters")
    try:
        statements = sqlglot.parse(sql, dialect=Dialect)
    except SqlglotError as error:
        raise refuse(str(error).splitlines()[0]) from None
    except RecursionError:
        raise refuse("it is nested too deeply") from None
    if len(statements) != 1 or statements[0] is None:
        raise refuse(f"expected one select, found {len(statements)} statements")
    if not isinstance(statements[0], exp.Select):
        raise refuse(f"expected one select, found {statements[0].key.upper()}")
    return statements[0]


def table_of(select: exp.Select) -> exp.Table:
    """The only table of a select."""
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise refuse("it names no table")
    table = source.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refuse("it must select from one of the tables, and from nothing else")
    if table.args.get("db") or table.args.get("catalog"):
        raise refuse(f"tables have no schema here: write {table.name}")
    extra = [key for key, value in table.args.items() if value and key not in ("this", "alias")]
    if extra or (table.args.get("alias") and table.args["alias"].args.get("columns")):
        raise refuse("a table may have an alias, and nothing else")
    return table


def with_paths(select: exp.Select, columns: Columns) -> exp.Select:
    """The select, in which an arrow behind a column is a path into JSON, as in `max(j -> '$.name')`, and no lambda."""

    def path(node: Node) -> Node:
        if not isinstance(node, exp.Lambda) or node.args.get("colon") or len(node.expressions) != 1:
            return node
        column = node.expressions[0]
        is_column = isinstance(column, exp.Identifier) and column.name.lower() in columns
        if not is_column or any(isinstance(one, exp.Identifier) and one.name == column.name for one in node.this.walk()):
            return node
        # Of `j -> 'a' ->> 'b'`, the parser has taken `'a' ->> 'b'` for the body.
        body = first = node.this.transform(path)
        while isinstance(first, (exp.JSONExtract, exp.JSONExtractScalar)):
            first = first.this
        made = exp.JSONExtract(this=exp.column(column.copy()), expression=first.copy())
        if first is body:
            return made
        first.replace(made)
        return body

    changed: exp.Select = select.transform(path)
    return changed


class _Dividing:
    """The state of one division."""

    def __init__(
        self,
        select: exp.Select,
        tables: Mapping[str, Columns],
        aggregates: frozenset[str],
        casts: Mapping[str, str],
    ) -> None:
        self.aggregates = aggregates
        self.casts = casts
        named = select.find(exp.Table)
        self.select = select if named is None else with_paths(select, tables.get(named.name.lower(), {}))
        self._check()
        table = table_of(self.select)
        self.table = table.name.lower()
        if self.table not in tables:
            raise refuse(f"there is no table {table.name}; there are {', '.join(sorted(tables)) or 'none'}")
        self.columns = tables[self.table]
        self.qualifiers = {(table.alias or table.name).lower()}
        self.measures = Measures()
        self.keys: list[Node] = []
        self.values: list[tuple[Node, str]] = []
        self.aliases: dict[str, Node] = {}

    def divided(self) -> Division:
        """Divides the query."""
        items = [self._item(item) for item in self.select.expressions]
        where = self.select.args.get("where")
        condition = "" if where is None else self._resolved(where.this).sql(Dialect)
        if where is not None and any(self._aggregates(where.this)):
            raise refuse("where can't have aggregates; use having")
        self._group(items)
        outer = exp.Select(expressions=[self._outer(item) for item in items])
        having, order = self.select.args.get("having"), self.select.args.get("order")
        if having is not None:
            outer.set("where", exp.Where(this=self._outer(self._resolved(having.this))))
        if order is not None:
            outer.set("order", self._order(order, len(items)))
        for clause in ("limit", "offset", "distinct"):
            if self.select.args.get(clause):
                outer.set(clause, self.select.args[clause].copy())
        if not self.keys and not self.values:
            raise refuse(
                "it selects rows; only aggregates and groups can be folded, as in select count(*) or select distinct"
            )
        keys = tuple(key.sql(Dialect) for key in self.keys)
        values = tuple((call.sql(Dialect), value) for call, value in self.values)
        return Division(self.table, keys, values, outer, self.measures, condition)

    def _check(self) -> None:
        """Refuses clauses that can't be divided."""
        for clause, value in self.select.args.items():
            if value and clause not in _CLAUSES:
                raise refuse(_CLAUSE_NAMES.get(clause, f"the clause {clause.strip('_')} cannot be divided"))
        for node in self.select.walk():
            if node is self.select:
                continue
            if isinstance(node, (exp.Query, exp.Exists, exp.Subquery)):
                raise refuse("a subquery needs all rows in one place")
            if isinstance(node, exp.Window):
                raise refuse("window functions need all rows in one place")
            if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
                raise refuse("parameters have no values here; write the values")
            if isinstance(node, (exp.Lambda, exp.Comprehension)):
                raise refuse("functions of lists with lambdas are not supported")
            if isinstance(node, (exp.Explode, exp.Unnest, exp.Columns)):
                raise refuse("unnest and columns(…) are not supported; name the columns")
        distinct = self.select.args.get("distinct")
        if distinct and distinct.args.get("on"):
            raise refuse("distinct on depends on the order of rows, which partitions do not have")

    def _item(self, item: Node) -> Node:
        """An expression of the select list, with the columns of the table. Its alias may be used after it."""
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            raise refuse("* is all columns of all rows; only aggregates and groups can be folded")
        resolved = self._resolved(item.unalias())
        if item.alias:
            self.aliases[item.alias.lower()] = resolved
        return resolved

    def _resolved(self, expression: Node, aliases_first: bool = False) -> Node:
        """The expression with the columns' own names, and with aliases replaced."""

        def resolve(node: Node) -> Node:
            return self._column(node, aliases_first) if isinstance(node, exp.Column) else node

        return expression.copy().transform(resolve)

    def _column(self, column: exp.Column, aliases_first: bool) -> Node:
        if isinstance(column.this, exp.Star):
            raise refuse("* can be counted, and nothing else")
        name, qualifier = column.name.lower(), column.table.lower()
        if column.args.get("db") or column.args.get("catalog"):
            raise refuse(f"there is no column {column.sql(Dialect)}")
        if qualifier and qualifier not in self.qualifiers:
            if qualifier in self.columns:
                whole = exp.column(exp.to_identifier(self.columns[qualifier], quoted=True))
                return exp.Dot(this=whole, expression=exp.to_identifier(column.name, quoted=True))
            raise refuse(f"there is no table {column.table} in it")
        is_alias = not qualifier and name in self.aliases
        if is_alias and (aliases_first or name not in self.columns):
            return exp.paren(self.aliases[name].copy())
        if name not in self.columns:
            raise refuse(f"there is no column {column.name}; {self.table} has {', '.join(self.columns.values())}")
        own = exp.column(exp.to_identifier(self.columns[name], quoted=True))
        return exp.cast(own, self.casts[name], dialect=Dialect) if name in self.casts else own

    def _group(self, items: list[Node]) -> None:
        """Finds the groups' expressions."""
        group = self.select.args.get("group")
        if group is None:
            # Without aggregates, `select distinct` is a group by all.
            if self.select.args.get("distinct") and not any(any(self._aggregates(item)) for item in items):
                self._add_keys(items)
            return
        extra = [key for key, value in group.args.items() if value and key not in ("expressions", "all")]
        if extra or any(isinstance(one, (exp.Rollup, exp.Cube, exp.GroupingSets)) for one in group.expressions):
            raise refuse("grouping sets, rollup and cube are several queries; ask them one by one")
        if group.args.get("all"):
            self._add_keys(item for item in items if not any(self._aggregates(item)))
            return
        for expression in group.expressions:
            if isinstance(expression, exp.Literal) and not expression.is_string:
                self._add_keys([items[self._place(expression, len(items))]])
            else:
                self._add_keys([self._resolved(expression)])

    def _add_keys(self, expressions: Iterable[Node]) -> None:
        for expression in expressions:
            key = expression.unnest()
            if any(self._aggregates(key)):
                raise refuse("a group can't be an aggregate")
            if key not in self.keys:
                self.keys.append(key)

    def _place(self, literal: Node, items: int) -> int:
        place = int(str(literal.this)) if str(literal.this).isdigit() else 0
        if not 1 <= place <= items:
            raise refuse(f"{literal.this} is no place in the select list, which has {items}")
        return place - 1

    def _order(self, order: Node, items: int) -> Node:
        made = order.copy()
        for ordered in made.expressions:
            given = ordered.this
            if isinstance(given, exp.Literal) and not given.is_string:
                self._place(given, items)
            elif isinstance(given, exp.Column) and given.name.lower() == "all" and "all" not in self.columns:
                raise refuse("order by all is not supported; write the places, as in order by 1, 2")
            else:
                ordered.set("this", self._outer(self._resolved(given, aliases_first=isinstance(given, exp.Column))))
        return made

    def _aggregates(self, expression: Node) -> Iterator[Node]:
        return (node for node in expression.walk() if name_of(node, self.aggregates) is not None)

    def _outer(self, expression: Node) -> Node:
        """The expression over the columns of keys and values."""
        if expression.unnest() in self.keys:
            return exp.column(f"k{self.keys.index(expression.unnest())}")
        name = name_of(expression, self.aggregates)
        if name is not None:
            return exp.column(f"v{self._value(expression, name)}")
        if isinstance(expression, exp.Column):
            raise refuse(f"column {expression.name} must be in group by, or in an aggregate")
        made = expression.copy()
        for key, child in list(made.args.items()):
            if isinstance(child, exp.Expression):
                made.set(key, self._outer(child))
            elif isinstance(child, list):
                made.set(key, [self._outer(one) if isinstance(one, exp.Expression) else one for one in child])
        return made

    def _value(self, call: Node, name: str) -> int:
        for at, (known, _) in enumerate(self.values):
            if known == call:
                return at
        inner: Optional[exp.Expression] = call.this if isinstance(call, exp.Filter) else call
        for node in inner.walk() if inner is not None else ():
            if node is not inner and not isinstance(inner, exp.IgnoreNulls) and name_of(node, self.aggregates):
                raise refuse("an aggregate of an aggregate needs all groups in one place")
        self.values.append((call, self.measures.value(call, name)))
        return len(self.values) - 1


__all__ = ["Division", "Refused", "divide", "parsed", "table_of"]
