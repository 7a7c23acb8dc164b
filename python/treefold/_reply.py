"""Replies of calls."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from html import escape
from typing import Any, Generic, Iterable, Iterator, Optional, TypeVar

from . import _native
from ._options import text
from .errors import InsufficientCoverage

T = TypeVar("T")

#: Rows of a table in a notebook; further ones are counted, not drawn.
ROWS_MAX = 200


@dataclass(frozen=True)
class Missing:
    """Partitions that did not contribute, the node that held them, and the reason.

    `partitions` are their numbers. `node` is the node's address, or `None` if no node holds them. `reason` is
    a word such as `late`, `lost`, `no_replica`, `local_failed`; `detail` is the operator's message or the
    limit's name.
    """

    partitions: tuple[int, ...]
    node: Optional[str]
    reason: str
    detail: Optional[str] = None

    def __str__(self) -> str:
        place = f" at {self.node}" if self.node else ""
        detail = f": {self.detail}" if self.detail else ""
        plural = "" if len(self.partitions) == 1 else "s"
        return f"partition{plural} {ranges(self.partitions)}{place}: {self.reason}{detail}"


@dataclass(frozen=True)
class TreeNode:
    """A node of a call's tree, and how it spent the call's time, in seconds.

    `queue` is the time until its first job ran, `local` and `reduce` the time in its functions, `wait` the
    time after its last local, and `total` the time from the call's arrival until it answered. `replaced` are nodes in
    whose place it asked others, because they were slow, late or lost.
    """

    node: str
    rack: str
    partitions: tuple[int, ...]
    queue: float
    local: float
    reduce: float
    wait: float
    total: float
    replaced: tuple[str, ...] = ()
    children: tuple["TreeNode", ...] = field(default=(), repr=False)

    def walk(self) -> Iterator[tuple[int, "TreeNode"]]:
        """Yields every node with its depth, parents before their children."""
        pending = [(0, self)]
        while pending:
            depth, node = pending.pop()
            yield depth, node
            pending.extend((depth + 1, child) for child in reversed(node.children))


@dataclass(frozen=True)
class Reply(Generic[T]):
    """The reply of a call.

    `value` is the folded value. `status` is `full` or `partial` (`insufficient` only in the `reply` of an
    exception). `coverage` is the share of partitions in it, from 0 to 1; `contributed` are these partitions,
    `asked` all that were asked, and `missing` the others with reasons. `elapsed` is the time of the call in
    seconds. `total_is_guess` is true if no node declares the service's total. `tree` is the call's tree if
    `explain` was set.
    """

    value: T
    status: str
    coverage: float
    asked: list[int]
    contributed: list[int]
    missing: list[Missing]
    elapsed: float
    total_is_guess: bool
    tree: Optional[TreeNode] = None

    @property
    def report(self) -> Optional[TreeNode]:
        """The same as `tree`."""
        return self.tree

    def __str__(self) -> str:
        counts = f"{len(self.contributed)} of {len(self.asked)} partitions"
        return f"{self.status}: coverage {self.coverage:.3f} ({counts}) in {self.elapsed * 1000:.1f} ms"

    def _repr_html_(self) -> str:
        """Draws value, coverage, missing partitions and tree in a notebook. All text is escaped."""
        return "".join(_html(self))


def ranges(ids: tuple[int, ...]) -> str:
    """Writes ascending numbers as in `0-3,7`."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def losses_of(losses: Iterable[tuple[Any, ...]]) -> list[Missing]:
    """The extension's losses."""
    return [Missing(tuple(ids), node, reason, detail) for ids, node, reason, detail in losses]


def error_text(error: BaseException) -> str:
    """The exception's type and message, and the place where it was raised."""
    places = traceback.extract_tb(error.__traceback__)
    place = f' (File "{places[-1].filename}", line {places[-1].lineno}, in {places[-1].name})' if places else ""
    return f"{type(error).__name__}: {error}{place}"


def reply_of(kind: str, fields: tuple[Any, ...], decode: str) -> Reply[Any]:
    """Makes a reply of the extension's tuple.

    Raises `InsufficientCoverage` if there is no value.
    """
    status, payload, asked, contributed, lost, guess, elapsed, report = fields
    missing = losses_of(lost)
    coverage = len(contributed) / len(asked) if asked else 1.0
    value = None if payload is None else _native.unpack(payload, text("decode", decode))
    tree = None if report is None else _tree(report)
    reply = Reply(value, status, coverage, asked, contributed, missing, elapsed, guess, tree)
    if status != "insufficient":
        return reply
    reasons = "; ".join(str(loss) for loss in missing[:3])
    more = f"; and {len(missing) - 3} more" if len(missing) > 3 else ""
    counts = f"{len(contributed)} of {len(asked)} partitions"
    raise InsufficientCoverage(f"{kind}: coverage {coverage:.3f} ({counts}); missing {reasons}{more}", reply)


def _tree(report: list[Any]) -> TreeNode:
    children: list[list[TreeNode]] = [[] for _ in report]
    # Parents come before their children, so from the end on every node's children are complete.
    for index in range(len(report) - 1, -1, -1):
        parent, node, rack, partitions, times, replaced = report[index]
        queue, local, reduce, wait, total = times
        below = tuple(reversed(children[index]))
        made = TreeNode(node, rack, tuple(partitions), queue, local, reduce, wait, total, tuple(replaced), below)
        if parent is None:
            return made
        children[parent].append(made)
    raise AssertionError("invariant: the first node has no parent")


def _html(reply: Reply[Any]) -> Iterator[str]:
    share = max(0.0, min(1.0, reply.coverage))
    color = {"full": "#2a7", "partial": "#c80"}.get(reply.status, "#c33")
    yield f"<div><div>{escape(str(reply))}</div>"
    yield '<div style="width:20em;height:0.6em;border:1px solid #888">'
    yield f'<div style="width:{100 * share:.1f}%;height:100%;background:{color}"></div></div>'
    shown = repr(reply.value)
    cut = shown if len(shown) <= 2000 else shown[:2000] + "…"
    yield f"<pre>{escape(cut)}</pre>"
    if reply.missing:
        yield "<table><tr><th>missing</th><th>node</th><th>reason</th></tr>"
        for loss in reply.missing[:ROWS_MAX]:
            reason = f"{loss.reason}: {loss.detail}" if loss.detail else loss.reason
            cells = (ranges(loss.partitions), loss.node or "–", reason)
            yield _row(cells)
        yield _further(len(reply.missing))
        yield "</table>"
    if reply.tree is not None:
        yield from _html_tree(reply.tree)
    yield "</div>"


def _html_tree(root: TreeNode) -> Iterator[str]:
    heads = ("node", "partitions", "queue ms", "local ms", "reduce ms", "wait ms", "total ms")
    yield "<table><tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"
    count = 0
    for depth, node in root.walk():
        count += 1
        if count <= ROWS_MAX:
            times = (node.queue, node.local, node.reduce, node.wait, node.total)
            yield _row((
                "\u2003" * depth + node.node,
                ranges(node.partitions) or "relay",
                *(f"{1000 * time:.2f}" for time in times),
            ))
    yield _further(count)
    yield "</table>"


def _row(cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in cells) + "</tr>"


def _further(count: int) -> str:
    return _row((f"… and {count - ROWS_MAX} more",)) if count > ROWS_MAX else ""
