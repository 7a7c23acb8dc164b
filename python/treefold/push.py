"""Push waves: the workers of an application push their results, relays fold them on the way, and the master gets
one result.

A relay, a worker, and the master, each a program of its own:

    treefold.push.application("words").serve(listen="127.0.0.1:7700", relay=True)

    with treefold.push.attach("words/sum-lines", 0, "127.0.0.1:7700") as worker:
        worker.push_last(7, "a\\t2\\nc\\t1\\n")
        worker.idle()

    client = treefold.connect("127.0.0.1:7700")
    reply = client.announce("words/sum-lines", request=7, workers=range(1))

docs/push.md describes what is guaranteed. `treefold.aio.attach` is for asyncio.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional

from . import _native
from ._options import Path, Time, addresses, is_unicode, secrets, seconds, shown, text, whole
from ._service import Service
from .errors import InvalidOption

__all__ = ["Worker", "application", "attach"]

#: Default time limit for attaching, in seconds.
TIMEOUT = 10.0


def application(name: str) -> Service:
    """An application with all ready reduces, for nodes that its workers attach to.

    Its `serve` and `start` take no partitions: the workers are these. With `relay=True` the node only folds.
    For reduces of your own, make a `Service(name, pushed=True)` and declare them.
    """
    service = Service(name, pushed=True)
    for reduce in _native.reduces():
        service.aggregation(reduce, reduce=reduce)
    return service


class WorkerBase:
    """What the blocking worker and that of asyncio have in common."""

    def __init__(self, native: _native.Worker, name: str, number: int) -> None:
        self._native = native
        self._name = name
        #: The worker's number.
        self.number = number

    def close(self) -> None:
        """Detaches the worker at once. Pushes that no node has folded are lost: wait with `idle` first."""
        self._native.close()

    def _pushing(self, request: int, piece: Any, last: bool) -> _native.Pending:
        return self._native.push(whole("request", request, 64), piece, last)

    def _failing(self, request: int, why: str) -> _native.Pending:
        return self._native.fail(whole("request", request, 64), text("why", why))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self.number})"


class Worker(WorkerBase):
    """A worker that is attached to a node. `treefold.push.attach` makes one. As a context manager it is detached
    at the end.

    If its node is lost, it attaches to the next one and sends again what that one asks for.
    """

    def push(self, request: int, piece: Any) -> None:
        """Pushes a piece of this worker's result of a request. More must follow; they are folded in their order.

        Blocks while the worker keeps as many bytes as it may. Raises `RequestOver` if the request has ended,
        `Closed` if the worker is detached for good, or `InvalidValue` if the reduce does not take the piece.
        """
        self._pushing(request, piece, False).wait()

    def push_last(self, request: int, piece: Any = None) -> None:
        """Pushes the last piece of the result, or all of it. Only with this has the worker contributed.

        `None` adds nothing to the result. Raises as `push` does.
        """
        self._pushing(request, piece, True).wait()

    def fail(self, request: int, why: str) -> None:
        """Reports that the result of a request will not come, so that nobody waits for it. `why` is the reason
        that the master reads."""
        self._failing(request, why).wait()

    def idle(self, timeout: Optional[Time] = None) -> None:
        """Blocks until every request with pushes or a failure has ended, for at most `timeout` seconds.

        Raises `TimedOut`, or `Closed` if the worker is detached for good before.
        """
        self._native.idle(seconds("timeout", timeout)).wait()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def attach(
    name: str,
    number: int,
    addr: str,
    *more: str,
    reduce_params: Any = None,
    spread: bool = False,
    timeout: Time = TIMEOUT,
    kept_bytes_max: Optional[int] = None,
    cluster: Optional[str] = None,
    token: Optional[str] = None,
    keys: Optional[Path] = None,
) -> Worker:
    """Attaches worker `number` of an application to the first of these nodes that takes it in.

    `name` is `application/reduce`, as in `Client.announce`. With a ready reduce, the worker pushes what a local
    gives to that reduce, and `reduce_params` are the parameters that the master announces. With any other
    reduce, or with the application's name alone, pieces travel as values do.

    Give the relays of the worker's own rack first. With `spread`, each worker begins at another of them, by its
    number. `timeout` is in seconds. `kept_bytes_max` are the bytes of its pushes that the worker keeps in case
    it must send them again (64 MiB by default). `cluster`, `token` and `keys` are as in `treefold.connect`.

    Raises `Unreachable` if no node takes it in.
    """
    spec = worker_spec(
        name, number, addresses(addr, more), reduce_params, spread, timeout, kept_bytes_max,
        secrets(cluster, token, keys),
    )
    return Worker(_native.attach(spec).wait(), name, number)


def worker_spec(
    name: str,
    number: int,
    addrs: list[str],
    reduce_params: Any,
    spread: bool,
    timeout: Time,
    kept_bytes_max: Optional[int],
    secrets: dict[str, Any],
) -> dict[str, Any]:
    """The settings of a worker, as the extension takes them."""
    if not isinstance(name, str) or name.count("/") > 1 or not name or not is_unicode(name):
        raise InvalidOption(f"name must be 'application/reduce' or 'application', not {shown(name)}")
    application, _, reduce = name.partition("/")
    return {
        "application": application,
        "number": whole("a worker's number", number, 32),
        "addrs": addrs,
        "reduce": reduce or None,
        "reduce_params": reduce_params,
        "spread": spread,
        "timeout": seconds("timeout", timeout),
        "kept_bytes_max": None if kept_bytes_max is None else whole("kept_bytes_max", kept_bytes_max, 63),
        "secrets": secrets,
    }
