"""Aggregates as measures: figures of a partition's rows that the reduce `group` folds, and how their values are
computed from the folded ones.

    avg(x)                       sum(x), count(x)                 sum / count
    stddev(x)                    count, mean, squared differences sqrt(m2 / (count - 1))
    approx_count_distinct(x)     the registers of a HyperLogLog   a row of the fold for each register
    approx_quantile(x, q)        the buckets of a DDSketch        a row of the fold for each bucket

Registers and buckets are groups too: of a layer of their own, with their numbers as slots. So a sketch for each group
needs nothing but `group`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from ._refused import refuse


def _function(name: str) -> Any:
    return lambda generator, node: generator.func(name, node.this, node.expression)


class Dialect(DuckDB):
    """DuckDB's SQL, with paths into JSON as they were written, and `->` as the function that it stands for.

    DuckDB's parser takes a bare `->` for a lambda, and checks of its tree could not tell them apart.
    """

    def to_json_path(self, path: Any) -> Any:
        return path

    class Generator(DuckDB.Generator):  # type: ignore[misc, valid-type, unused-ignore]
        TRANSFORMS = {
            **DuckDB.Generator.TRANSFORMS,
            exp.JSONExtract: _function("json_extract"),
            exp.JSONExtractScalar: _function("json_extract_string"),
        }


#: A node of a parsed query. The parser's own types differ from version to version.
Node = Any

#: The registers of a HyperLogLog. The relative standard error is 1.04 / sqrt(REGISTERS), 2.3 %.
REGISTERS = 2048
#: The bits of a hash in which the leading zeros are counted.
RANK_BITS = 40
#: The relative error of quantiles.
RELATIVE_ERROR = 0.01
#: The base of a DDSketch's buckets.
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
#: The slot of values near 1. Smaller values have lower slots, above 0; negative ones have the negative slots.
MIDDLE = 100_000
#: The slots of infinity and of NaN, beyond those of all numbers.
INFINITE, NAN = 400_000, 400_001

#: The aggregates that can be divided.
DIVIDED = {
    "count",
    "count_star",
    "count_if",
    "sum",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "avg",
    "mean",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "variance",
    "var_samp",
    "var_pop",
    "approx_count_distinct",
    "approx_quantile",
}

#: Why other aggregates can't be divided.
REASONS = {
    "median": "needs all values in one place; approx_quantile(x, 0.5) can be divided",
    "quantile_cont": "needs all values in one place; approx_quantile can be divided",
    "quantile_disc": "needs all values in one place; approx_quantile can be divided",
    "quantile": "needs all values in one place; approx_quantile can be divided",
    "mode": "needs all values in one place; group by the value, order by count(*) desc, and limit 1",
    "mad": "needs all values in one place",
    "list": "returns all values; no partial result is smaller",
    "array_agg": "returns all values; no partial result is smaller",
    "string_agg": "returns all values; no partial result is smaller",
    "listagg": "returns all values; no partial result is smaller",
    "first": "depends on the order of rows, which partitions do not have",
    "last": "depends on the order of rows, which partitions do not have",
    "any_value": "depends on the order of rows, which partitions do not have; min or max can be divided",
}


@dataclass
class Layer:
    """The groups of a sketch: its number, the expression that gives a row's value, and the condition of its rows."""

    number: int
    kind: str
    value: str
    condition: str
    column: str
    #: The fractions of a quantile sketch that are asked for.
    fractions: list[float] = field(default_factory=list)


@dataclass
class Measures:
    """The measures of a query, each once."""

    aggregates: list[dict[str, str]] = field(default_factory=list)
    #: The expressions of layer 0, with the names of their columns.
    columns: list[tuple[str, str]] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    _known: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def value(self, call: Node, name: str) -> str:
        """The expression over the folded columns that gives the value of an aggregate of this name."""
        condition = ""
        if isinstance(call, exp.Filter):
            condition = call.expression.this.sql(Dialect)
            call = call.this
        if call.find(exp.Distinct):
            raise refuse(
                f"{name}(distinct …) needs all different values in one place; approx_count_distinct can be divided"
            )
        if call.find(exp.Order, exp.WithinGroup):
            raise refuse(f"an order within {name} needs all values in one place")
        return self._value(call, name, condition)

    def _value(self, call: Node, name: str, condition: str) -> str:
        if name in ("count", "count_star") and (
            not isinstance(call.this, exp.Expression) or isinstance(call.this, exp.Star)
        ):
            return self._one("count", "*", condition)
        if name not in DIVIDED:
            raise refuse(f"{name} {REASONS.get(name, 'cannot be divided over partitions')}")
        argument = self._argument(call, name)
        if name in ("count", "sum", "min", "max"):
            return self._one(name, argument, condition)
        if name in ("bool_and", "bool_or"):
            return self._one("min" if name == "bool_and" else "max", argument, condition)
        if name == "count_if":
            return self._one("count", f"case when {argument} then 1 end", condition)
        if name in ("avg", "mean"):
            total, count = self._one("sum", argument, condition), self._one("count", argument, condition)
            return f"cast({total} as double) / {count}"
        if name in ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"):
            moments = self._one("variance", argument, condition)
            less = "" if name.endswith("_pop") else " - 1"
            least = 0 if name.endswith("_pop") else 1
            variance = f"{moments}.m2 / ({moments}.count{less})"
            of = f"sqrt({variance})" if name.startswith("stddev") else variance
            return f"case when {moments}.count > {least} then {of} end"
        if name == "approx_count_distinct":
            layer = self._layer("distinct", argument, condition)
            return f"coalesce(s{layer.number}.estimate, 0)"
        if name == "approx_quantile":
            layer = self._layer("quantile", argument, condition)
            fraction = fraction_of(call)
            if fraction not in layer.fractions:
                layer.fractions.append(fraction)
            return f"s{layer.number}.q{layer.fractions.index(fraction)}"
        raise AssertionError(f"invariant: {name} is divided above")

    def _argument(self, call: Node, name: str) -> str:
        many = [value for key, value in call.args.items() if key not in ("this", "big_int", "quantile") and value]
        if isinstance(call, exp.Anonymous):
            if len(call.expressions) != 1:
                raise refuse(f"{name} with {len(call.expressions)} arguments cannot be divided")
            return str(call.expressions[0].sql(Dialect))
        if many or not isinstance(call.this, exp.Expression):
            raise refuse(f"{name} must have one argument here")
        return str(call.this.sql(Dialect))

    def _one(self, function: str, argument: str, condition: str) -> str:
        """The folded column of a measure."""
        known = self._known.get((function, argument, condition))
        if known is None:
            name = f"a{len(self.aggregates)}"
            known = self._known[(function, argument, condition)] = self._add(name, function)
            self.columns.append((measured(function, argument, condition), f"{function}({name})"))
        return known

    def _add(self, name: str, function: str) -> str:
        self.aggregates.append({"column": name, "function": function})
        return f'b."{function}({name})"'

    def _layer(self, kind: str, value: str, condition: str) -> Layer:
        for layer in self.layers:
            if (layer.kind, layer.value, layer.condition) == (kind, value, condition):
                return layer
        name, function = f"a{len(self.aggregates)}", "max" if kind == "distinct" else "count"
        self._add(name, function)
        layer = Layer(len(self.layers) + 1, kind, value, condition, f"{function}({name})")
        self.layers.append(layer)
        return layer


def measured(function: str, argument: str, condition: str) -> str:
    """The expression that measures the rows of a partition."""
    only = f" filter (where {condition})" if condition else ""
    if function == "count":
        return f"cast(count({argument}){only} as ubigint)"
    if function == "variance":
        x = f"cast({argument} as double)"
        count = f"count({x}){only}"
        return (
            f"struct_pack(count := cast({count} as ubigint), mean := avg({x}){only}, "
            f"m2 := var_pop({x}){only} * {count})"
        )
    return f"{function}({argument}){only}"


def fraction_of(call: Node) -> float:
    given: Any = call.args.get("quantile")
    if not isinstance(given, exp.Literal) or given.is_string or not 0 <= float(given.this) <= 1:
        raise refuse("the second argument of approx_quantile must be a number from 0 to 1")
    return float(given.this)


def rows_of(layer: Layer, keys: list[tuple[str, str]], source: str, where: str) -> str:
    """The query that gives a sketch's slots over the rows of a partition."""
    value = layer.value if layer.kind == "distinct" else f"cast({layer.value} as double)"
    conditions = [f"({one})" for one in (where, layer.condition) if one]
    conditions.append(f"({layer.value}) is not null")
    named = "".join(f"{expression} as {name}, " for expression, name in keys)
    given = "".join(f"{name}, " for _, name in keys)
    if layer.kind == "distinct":
        slot = f"cast(h & {REGISTERS - 1} as bigint)"
        bits = f"((h >> {REGISTERS.bit_length() - 1}) & {2**RANK_BITS - 1})"
        rank = f"case when {bits} = 0 then {RANK_BITS + 1} else {RANK_BITS} - cast(floor(log2({bits})) as bigint) end"
        measure, value = f"max(cast({rank} as bigint))", f"hash({value}) as h"
    else:
        bucket = f"cast(ceil(ln(abs(h)) / {math.log(GAMMA)!r}) as bigint) + {MIDDLE}"
        slot = (
            f"case when isnan(h) then {NAN} when isinf(h) then sign(h) * {INFINITE} when h = 0 then 0 "
            f"when abs(h) < 1e-300 then sign(h) else sign(h) * ({bucket}) end"
        )
        slot, measure, value = f"cast({slot} as bigint)", "cast(count(*) as ubigint)", f"{value} as h"
    grouped = ", ".join(str(at + 1) for at in range(len(keys) + 2))
    return (
        f'select {given}cast({layer.number} as bigint) as layer, {slot} as slot, {measure} as "{layer.column}" '
        f"from (select {named}{value} from {source} where {' and '.join(conditions)}) group by {grouped}"
    )


def estimate_of(layer: Layer, keys: list[str]) -> str:
    """The query over the folded rows that gives a sketch's estimates by group."""
    given = "".join(f"{key}, " for key in keys)
    grouped = ", ".join(keys) or "()"
    if layer.kind == "distinct":
        empty = f"({REGISTERS} - count(*))"
        raw = f'{0.7213 / (1 + 1.079 / REGISTERS) * REGISTERS**2!r} / ({empty} + sum(power(2.0, -"{layer.column}")))'
        linear = f"{REGISTERS} * ln({REGISTERS} / {empty})"
        estimate = f"case when {raw} <= {2.5 * REGISTERS} and {empty} > 0 then {linear} else {raw} end"
        return (
            f"select {given}round({estimate}) as estimate from folded where layer = {layer.number} group by {grouped}"
        )
    power = f"{2 / (GAMMA + 1)!r} * power({GAMMA!r}, abs(slot) - {MIDDLE})"
    value = (
        f"case slot when {NAN} then 'nan'::double when {INFINITE} then 'inf'::double "
        f"when -{INFINITE} then '-inf'::double when 0 then 0.0 else sign(slot) * {power} end"
    )
    parted = f"partition by {', '.join(keys)}" if keys else ""
    counts = f'cast("{layer.column}" as bigint)'
    # The value of a fraction is that of the first bucket beyond the rank floor(fraction · (n - 1)).
    values = ", ".join(
        f"arg_min(value, slot) filter (where upto > floor({fraction!r} * (n - 1))) as q{at}"
        for at, fraction in enumerate(layer.fractions)
    )
    return (
        f"select {given}{values} from (select {given}slot, {value} as value, "
        f"sum({counts}) over ({parted} order by slot) as upto, sum({counts}) over ({parted}) as n "
        f"from folded where layer = {layer.number}) group by {grouped}"
    )


def name_of(node: Node, known: "frozenset[str]") -> Optional[str]:
    """The name of an aggregate, if the node is one. `known` are the names of the engine's aggregates."""
    if isinstance(node, exp.Filter):
        node = node.this
    if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AggFunc):
        node = node.this
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        return name if name in known else None
    if isinstance(node, exp.AggFunc):
        return str(node.sql(Dialect).partition("(")[0].lower())
    if isinstance(node, exp.Func):
        return next((name.lower() for name in node.sql_names() if name.lower() in known), None)
    return None
