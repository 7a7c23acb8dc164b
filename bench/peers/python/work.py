"""The work, which is the same for every peer in every language: partition `i` returns the integer `i`, or ten scored texts
of 100 bytes, and the caller has the sum, or the ten best texts of all partitions.

It is that of bench/peers/rust/src/work.rs. Here partials are values of Python, as users of Ray and Dask return them.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from typing import Any, Iterable

K = 10
TEXT_BYTES = 100
SCORES = 10_007
STEP = 7_919

Row = tuple[float, str]


def rows(partition: int) -> list[Row]:
    """The rows of a partition, highest score first."""
    each = (
        ((partition * K + row) * STEP % SCORES / SCORES, f"partition {partition} row {row} ".ljust(TEXT_BYTES, "x"))
        for row in range(K)
    )
    return sorted(each, reverse=True)


def best(partials: Iterable[list[Row]]) -> list[Row]:
    """The best rows of all partials, highest score first."""
    return heapq.nlargest(K, itertools.chain.from_iterable(partials))


class Partition:
    """What a worker holds."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows = rows(number)

    def int(self) -> int:
        return self.number

    def topk(self) -> list[Row]:
        return self.rows


class Expected:
    """The answer that a call must have."""

    def __init__(self, nodes: int) -> None:
        self.answers: dict[str, Any] = {"int": sum(range(nodes)), "topk": best(rows(number) for number in range(nodes))}

    def fold(self, kind: str, partials: Iterable[Any]) -> None:
        """Folds the partials of all partitions, and ends the program if the answer is wrong."""
        self.check(kind, sum(partials) if kind == "int" else best(partials))

    def check(self, kind: str, answer: Any) -> None:
        if answer != self.answers[kind]:
            sys.exit(f"{kind}: the answer is {answer}, expected {self.answers[kind]}")
