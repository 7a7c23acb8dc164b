"""The same clients, streams, readers and workers for asyncio.

    client = await treefold.aio.connect("127.0.0.1:7820")
    reply = await client.call("logs/matching", "error", deadline=0.5)

    async with await client.stream("thermometers", up_filter="max") as stream:
        await stream.send("read")
        async for wave in stream:
            print(wave.value)

Cancelling the task cancels the call throughout its tree. A wave or an update is never lost by a cancellation: the
next iteration gives it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, AsyncIterator, Iterable, Mapping, Optional, Union

from . import _native
from ._client import ClientBase
from ._options import Path, Time, addresses, aggregation_of, call_options, ids_of, own_params, secrets, seconds, text, whole
from ._pending import settled
from ._reply import Reply, reply_of
from ._slices import SlicesBase
from ._streams import Event, StreamBase, Wave, stream_options
from .errors import Closed, TreefoldError
from .mirrors import ReaderBase, Update, reader_options, update_of
from .push import TIMEOUT, WorkerBase, worker_spec

__all__ = ["Client", "Reader", "Slices", "Stream", "Worker", "attach", "connect"]


class Client(ClientBase):
    """Makes calls from asyncio. `treefold.aio.connect` makes one."""

    async def call(
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
        """Calls `service/aggregation`, with the parameters of `treefold.Client.call`."""
        options = call_options(deadline, min_coverage, partitions, shape, policy, waiting, hedge, slices, explain)
        pending = self._open().call(aggregation_of(aggregation), params, own_params(params_for), reduce_params, options)
        return reply_of(aggregation, await settled(pending), decode)

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
        """An asynchronous iterator over the slices of a call, with the parameters of `treefold.Client.each_slice`."""
        options = call_options(deadline, min_coverage, partitions, shape, policy, waiting, hedge, slices, False)
        held = None if window is None else whole("window", window, 32)
        native = self._open().each_slice(
            aggregation_of(aggregation), params, own_params(params_for), reduce_params, held, options
        )
        return Slices(native, aggregation, decode)

    async def announce(
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
        """Announces a request, with the parameters of `treefold.Client.announce`."""
        options = call_options(deadline, min_coverage, None, shape, policy, waiting, hedge, slices, explain)
        asked, number = ids_of("workers", workers), whole("request", request, 64)
        pending = self._open().announce(
            aggregation_of(aggregation), params, number, asked, seconds("patience", patience), options
        )
        return reply_of(aggregation, await settled(pending), decode)

    async def stream(
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
        """Opens a stream, with the parameters of `treefold.Client.stream`."""
        options = stream_options(
            up_filter, down_filter, filter_params, params, sync, endpoints, shape, window_bytes, lag_bytes_max
        )
        pending = self._open().stream(text("service", service), options)
        return Stream(await settled(pending), decode)

    async def reader(
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
        """Starts a reader of a feed, with the parameters of `treefold.Client.reader`."""
        options = reader_options(keys, prefixes, types, after, patience, window_bytes)
        pending = self._open().reader(text("feed", feed), options)
        return Reader(await settled(pending), feed)

    async def members(self) -> list[tuple[str, dict[str, list[int]]]]:
        """The members that the node has in sight, itself first: each one's address, and its partitions by
        service."""
        found: list[tuple[str, dict[str, list[int]]]] = await settled(self._open().members())
        return found

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


async def connect(
    addr: str,
    *more: str,
    direct: bool = False,
    cluster: Optional[str] = None,
    token: Optional[str] = None,
    keys: Optional[Path] = None,
) -> Client:
    """Connects as `treefold.connect` does."""
    return Client(await settled(_native.connect(addresses(addr, more), direct, secrets(cluster, token, keys))))


class Slices(SlicesBase):
    """The slices of a call, in order. `Client.each_slice` makes it; `treefold.Slices` is the same, blocking."""

    def __aiter__(self) -> "Slices":
        return self

    async def __anext__(self) -> Any:
        try:
            taken = self._slice(await self._taking.take_async())
        except TreefoldError:
            self.close()
            raise
        if taken is None:
            raise StopAsyncIteration
        return taken[0]

    async def __aenter__(self) -> "Slices":
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Stream(StreamBase):
    """The front-end of a stream. `Client.stream` opens one; `treefold.Stream` is the same, blocking."""

    async def send(
        self,
        packet: Any = None,
        *,
        to: Optional[Iterable[int]] = None,
        tag: Optional[int] = None,
        timeout: Optional[Time] = None,
    ) -> int:
        """Sends a packet down and returns its tag, as `treefold.Stream.send` does."""
        await self._taking.turn()
        sent: int = await settled(self._sending(packet, to, tag, timeout))
        return sent

    async def wave(self, timeout: Optional[Time] = None) -> Wave:
        """Waits for the next wave, for at most `timeout` seconds. Raises `TimedOut` or `Closed`."""
        while True:
            event = self._event(await self._taking.take_async(timeout))
            if event is None:
                raise Closed("the stream is closed")
            if isinstance(event, Wave):
                return event

    async def events(self) -> AsyncIterator[Event]:
        """Iterates over waves and changes of the tree, in their order."""
        while (event := self._event(await self._taking.take_async())) is not None:
            yield event

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Wave:
        while (event := self._event(await self._taking.take_async())) is not None:
            if isinstance(event, Wave):
                return event
        raise StopAsyncIteration

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Reader(ReaderBase):
    """A reader of a feed. `Client.reader` starts one; `treefold.mirrors.Reader` is the same, blocking."""

    async def update(self, timeout: Optional[Time] = None) -> Update:
        """Waits for the next update, for at most `timeout` seconds. Raises `TimedOut`, `Unreachable` or
        `Closed`."""
        item = await self._taking.take_async(timeout)
        if item is None:
            raise Closed("the reader is closed")
        return update_of(item)

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> Update:
        item = await self._taking.take_async()
        if item is None:
            raise StopAsyncIteration
        return update_of(item)

    async def __aenter__(self) -> "Reader":
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Worker(WorkerBase):
    """A worker that is attached to a node. `attach` makes one; `treefold.push.Worker` is the same, blocking."""

    async def push(self, request: int, piece: Any) -> None:
        """Pushes a piece of the result of a request, as `treefold.push.Worker.push` does."""
        await settled(self._pushing(request, piece, False))

    async def push_last(self, request: int, piece: Any = None) -> None:
        """Pushes the last piece of the result, or all of it."""
        await settled(self._pushing(request, piece, True))

    async def fail(self, request: int, why: str) -> None:
        """Reports that the result of a request will not come, with the reason."""
        await settled(self._failing(request, why))

    async def idle(self, timeout: Optional[Time] = None) -> None:
        """Waits until every request with pushes or a failure has ended, for at most `timeout` seconds."""
        await settled(self._native.idle(seconds("timeout", timeout)))

    async def __aenter__(self) -> "Worker":
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


async def attach(
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
    """Attaches a worker, as `treefold.push.attach` does."""
    spec = worker_spec(
        name, number, addresses(addr, more), reduce_params, spread, timeout, kept_bytes_max,
        secrets(cluster, token, keys),
    )
    return Worker(await settled(_native.attach(spec)), name, number)
