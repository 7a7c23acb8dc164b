"""The exceptions of the package. All of them are `TreefoldError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    from ._reply import Missing, Reply


class TreefoldError(Exception):
    """The base of all exceptions of this package.

    `coverage` is the share of partitions that contributed, from 0 to 1, and `missing` lists the others with
    reasons. Both are 0 and empty where no partition was asked.
    """

    coverage: float = 0.0
    missing: "Sequence[Missing]" = ()


class InsufficientCoverage(TreefoldError):
    """Fewer partitions contributed than `min_coverage` asks for, so the call has no value.

    `reply` is the whole reply, with its tree if `explain` was set.
    """

    reply: "Reply[Any]"

    def __init__(self, message: str, reply: "Reply[Any]") -> None:
        super().__init__(message, reply)
        self.reply = reply
        self.coverage = reply.coverage
        self.missing = reply.missing

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidCall(TreefoldError, ValueError):
    """The call can't be carried out: a field is outside its limits, no node has the service or the aggregation, or the
    aggregation does not accept the parameters."""


class InvalidOption(TreefoldError, ValueError):
    """An option of a client, a service or a node is not valid."""


class InvalidValue(TreefoldError, TypeError):
    """A value cannot travel, or has not the form that a ready reduce needs."""


class InvalidReply(TreefoldError):
    """The reply contradicts itself or cannot be read."""


class Denied(TreefoldError, PermissionError):
    """This process's certificate does not give it the right."""


class Busy(TreefoldError):
    """The node has as many calls open as it may have, or is shutting down. Another node may take the call."""


class Unreachable(TreefoldError, ConnectionError):
    """No node answered, or the connection broke before the reply came."""


class StartFailed(TreefoldError):
    """A node or a cluster could not be started. Nothing of it is left."""


class Closed(TreefoldError):
    """The client, the node, the cluster, the stream, the reader or the worker has been closed, or has ended."""


class RequestOver(TreefoldError):
    """The request for which a worker pushes has ended, or its result is complete. The push was discarded."""


class TimedOut(TreefoldError, TimeoutError):
    """Nothing came within the `timeout` of a wait. Nothing is lost: wait again. A call never raises it; its
    `deadline` gives a reply or `InsufficientCoverage`."""
