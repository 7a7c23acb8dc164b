"""Blocking clients."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterable, Mapping, Optional, Union

from . import _native
from ._options import Path, Time, addresses, aggregation_of, call_options, ids_of, own_params, secrets, seconds, text, whole
from ._reply import Reply, reply_of
from ._slices import Slices
from ._streams import Stream, stream_options
from .errors import Closed
from .mirrors import Reader, reader_options


class ClientBase:
    """What the blocking client and that of asyncio have in common."""

    def __init__(self, native: _native.Client) -> None:
        self._native: Optional[_native.Client] = native

    def close(self) -> None:
        """Closes the client. Calls that are open go on."""
        self._native = None

    def _open(self) -> _native.Client:
        if self._native is None:
            raise Closed("the client is closed")
        return self._native

    def __repr__(self) -> str:
        return f"Client({'closed' if self._native is None else 'open'})"


class Client(ClientBase):
    """Makes calls, opens streams, and reads feeds. `treefold.connect` makes one.

    A client may be used by many threads at a time. If its connection breaks, the next call makes a new one. A
    process that was forked needs a client of its own.
    """

    def call(
        self,
        aggregation: str,
        params: Any = None,
        *,
        params_for: Optional[Mapping[int, Any]] = None,
        reduce_params: Any = None,
        deadline: Optional[Time] = None,
        min_coverage: Optional[float] = None,
        partitions: Optional[Iterable[int]] = None,
        explain: bool = False,
        hedge: bool = False,
        shape: Optional[str] = None,
        policy: Optional[str] = None,
        waiting: Optional[str] = None,
        slices: Optional[int] = None,
        decode: str = "auto",
    ) -> Reply[Any]:
        """Calls `service/aggregation` and blocks until the reply is there. Ctrl-C cancels the call.

        `params` is passed to every local and reduce. Dicts, lists, texts and numbers travel as MessagePack,
        bytes as they are, tables of pyarrow as Arrow. `params_for` is a dict from partitions to parameters that these
        partitions get instead. `reduce_params` is passed to the reduce instead of `params`, unless it is None.

        `deadline` is in seconds, or a `timedelta` (2 s by default). `min_coverage` is the least share of partitions
        that makes a reply, from 0 to 1 (1 by default); with less, `InsufficientCoverage` is raised. `partitions` are the
        ones to ask; by default, all.

        `explain` asks for the tree with times. `hedge` asks a second replica sooner if the first takes long. `shape`, `policy`, `waiting` and `slices` are those of `treefold call`.

        `decode` says how the value is read: "auto", "raw" for bytes as they are, "numpy" for arrays of
        numbers as numpy's.
        """
        options = call_options(deadline, min_coverage, partitions, shape, policy, waiting, hedge, slices, explain)
        pending = self._open().call(aggregation_of(aggregation), params, own_params(params_for), reduce_params, options)
        return reply_of(aggregation, pending.wait(), decode)

    def each_slice(
        self,
        aggregation: str,
        params: Any = None,
        *,
        slices: int,
        window: Optional[int] = None,
        params_for: Optional[Mapping[int, Any]] = None,
        reduce_params: Any = None,
        deadline: Optional[Time] = None,
        min_coverage: Optional[float] = None,
        partitions: Optional[Iterable[int]] = None,
        hedge: bool = False,
        shape: Optional[str] = None,
        policy: Optional[str] = None,
        waiting: Optional[str] = None,
        decode: str = "auto",
    ) -> Slices:
        """Calls `service/aggregation` for a result that is larger than memory, and returns an iterator over its slices.

            for counts in client.each_slice("words/count", slices=4096, deadline=600):
                store(counts)

        Nothing joins the slices: each value is the folded value of one. At most `window` slices are in flight (4 by
        default), and the next begins when one has been taken. `deadline` is that of all slices. The other parameters are
        those of `call`.

        If the slices so far fall below `min_coverage`, or the deadline passes, the iteration raises
        `InsufficientCoverage`: what was taken before is a part of the result only. At its end, `reply` has the coverage of
        the whole.
        """
        options = call_options(deadline, min_coverage, partitions, shape, policy, waiting, hedge, slices, False)
        held = None if window is None else whole("window", window, 32)
        native = self._open().each_slice(
            aggregation_of(aggregation), params, own_params(params_for), reduce_params, held, options
        )
        return Slices(native, aggregation, decode)

    def announce(
        self,
        aggregation: str,
        request: int,
        workers: Iterable[int],
        params: Any = None,
        *,
        deadline: Optional[Time] = None,
        min_coverage: Optional[float] = None,
        patience: Optional[Time] = None,
        explain: bool = False,
        hedge: bool = False,
        shape: Optional[str] = None,
        policy: Optional[str] = None,
        waiting: Optional[str] = None,
        slices: Optional[int] = None,
        decode: str = "auto",
    ) -> Reply[Any]:
        """Announces a request of an application whose workers push, and blocks until the reply is there.

        `aggregation` is `application/reduce`. `request` is a number that no other request has, and `workers` are
        the numbers of the workers that are expected. `params` are the reduce's parameters. `patience` is how
        long a worker that is attached nowhere is waited for, in seconds (2 by default). The other parameters
        are those of `call`, and the reply's partitions are the workers.

        The node that this client talks to must accept the application (`treefold.push.application`).
        """
        options = call_options(deadline, min_coverage, None, shape, policy, waiting, hedge, slices, explain)
        asked, number = ids_of("workers", workers), whole("request", request, 64)
        pending = self._open().announce(
            aggregation_of(aggregation), params, number, asked, seconds("patience", patience), options
        )
        return reply_of(aggregation, pending.wait(), decode)

    def stream(
        self,
        service: str,
        *,
        up_filter: Optional[str] = None,
        down_filter: Optional[str] = None,
        filter_params: Any = None,
        params: Any = None,
        sync: Union[str, Time] = "wait-for-all",
        endpoints: Optional[Iterable[int]] = None,
        shape: Optional[str] = None,
        window_bytes: Optional[int] = None,
        lag_bytes_max: Optional[int] = None,
        decode: str = "auto",
    ) -> Stream:
        """Opens a stream to the endpoints of a service, with this client as its front-end, and returns it once all
        endpoints that can be reached take part.

        The client needs a loop of its own: connect with `direct=True`, or take the `client()` of a node.

        `up_filter` names the filter that folds waves on their way up, and `down_filter` that of packets on
        their way down; `filter_params` are their parameters. `params` are those of the endpoints.

        `sync` says when a wave is complete: "wait-for-all" (when each endpoint has contributed or is away), a
        number of seconds after its first packet, or "do-not-wait". `endpoints` are the ones that take part; by
        default all, and those that come later. `shape`, `window_bytes` and `lag_bytes_max` are as in
        docs/streams.md. `decode` says how packets are read, as in `call`.

        Raises `InvalidCall` if no node has the service, or a node does not know the filter or refuses its
        parameters.
        """
        options = stream_options(
            up_filter, down_filter, filter_params, params, sync, endpoints, shape, window_bytes, lag_bytes_max
        )
        pending = self._open().stream(text("service", service), options)
        return Stream(pending.wait(), decode)

    def reader(
        self,
        feed: str,
        *,
        keys: Iterable[str] = (),
        prefixes: Iterable[str] = (),
        types: Iterable[str] = (),
        after: Optional[str] = None,
        patience: Optional[Time] = None,
        window_bytes: Optional[int] = None,
    ) -> Reader:
        """Starts a reader of a feed at one of its mirrors.

        The client needs a loop of its own: connect with `direct=True`, or take the `client()` of a node.

        `keys` and `prefixes` select keys, and `types` events; by default all. `after` is the `time` of an
        earlier reader, after which this one goes on; without it, there is a snapshot first. `patience` is how
        long a mirror is looked for, in seconds (30 by default). `window_bytes` are the bytes that a mirror may
        have sent that were not taken (256 KiB by default).

        Raises `Unreachable` if no mirror serves it.
        """
        options = reader_options(keys, prefixes, types, after, patience, window_bytes)
        pending = self._open().reader(text("feed", feed), options)
        return Reader(pending.wait(), feed)

    def members(self) -> list[tuple[str, dict[str, list[int]]]]:
        """The members that the node has in sight, itself first: each one's address, and its partitions by
        service."""
        found: list[tuple[str, dict[str, list[int]]]] = self._open().members().wait()
        return found

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def connect(
    addr: str,
    *more: str,
    direct: bool = False,
    cluster: Optional[str] = None,
    token: Optional[str] = None,
    keys: Optional[Path] = None,
) -> Client:
    """Connects to the first of these nodes that answers, `host:port`, and returns a client.

    `cluster` is the cluster's name. `token` is its token, and `keys` a file of `treefold keys issue`; by
    default, those of the environment variables TREEFOLD_TOKEN, TREEFOLD_TOKEN_FILE and TREEFOLD_KEYS. With
    `direct`, the client forms the trees itself, which saves a hop, and which streams and readers need.

    Raises `Unreachable` if none answers or accepts.
    """
    pending = _native.connect(addresses(addr, more), direct, secrets(cluster, token, keys))
    return Client(pending.wait())
