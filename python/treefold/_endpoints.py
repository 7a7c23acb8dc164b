"""Endpoints of streams whose packets come from Python functions.

A thread of the node accepts streams. A function that is declared with `def` gets a thread for each endpoint of
each stream, and one that is declared with `async def` a task in one event loop for all of them. If the function
returns or fails, its endpoint leaves the stream, so that no wave waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from dataclasses import dataclass
from typing import Any, AsyncIterator, Callable, Iterator, Mapping, Optional

from . import _native
from ._options import Time, seconds, text, whole
from ._pending import Taking, settled
from ._reply import error_text
from .errors import Closed, TreefoldError

#: Threads of a node that run endpoints. In any further stream, the endpoint is missing.
THREADS_MAX = 1024


@dataclass(frozen=True)
class Packet:
    """A packet from the front-end: its `tag`, and its `value`."""

    tag: int
    value: Any


class EndpointBase:
    """What an endpoint of a thread and one of asyncio have in common."""

    def __init__(self, native: _native.Endpoint, partition: _native.Partition, decode: str) -> None:
        self._native = native
        self._taking = Taking(native)
        self._decode = decode
        self._is_over = False
        self.partition = partition
        self.params = native.params(decode)

    @property
    def id(self) -> str:
        """The stream's id, as in logs."""
        return self._native.stream

    @property
    def up_filter(self) -> str:
        """The name of the filter that folds the packets; empty if none does."""
        return self._native.up_filter

    @property
    def missed(self) -> int:
        """The number of packets that this endpoint missed because it lagged; above 0 only in a stream with
        `lag_bytes_max`."""
        return self._native.missed()

    @property
    def is_over(self) -> bool:
        """True once the end of the stream was seen."""
        return self._is_over or self._native.is_closed()

    def leave(self, why: str) -> None:
        """Takes this endpoint out of the stream. Waves list it as missing, with `why` as the reason."""
        self._native.leave(text("why", why))

    def _sending(self, value: Any, tag: Optional[int], timeout: Optional[Time]) -> _native.Pending:
        chosen = None if tag is None else whole("tag", tag, 64)
        return self._native.send(value, chosen, seconds("timeout", timeout))

    def _packet(self, item: Any) -> Optional[Packet]:
        if item is None or item is False:
            self._is_over = True
            return None
        tag, payload = item
        return Packet(tag, _native.unpack(payload, self._decode))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.partition!r})"


class EndpointStream(EndpointBase):
    """One endpoint's part in one stream, as a function declared with `def` gets it.

    `partition` has `id`, `total`, `service` and `data`, as in a local. `params` are the parameters that the
    front-end opened the stream with. Iterating gives the front-end's packets, and ends with the stream.
    """

    def recv(self, timeout: Optional[Time] = None) -> Packet:
        """Blocks until a packet is there, for at most `timeout` seconds, and returns it.

        Raises `TimedOut`, or `Closed` if the stream is over.
        """
        packet = self._packet(self._taking.take(timeout))
        if packet is None:
            raise Closed("the stream is over")
        return packet

    def send(self, value: Any, *, tag: Optional[int] = None, timeout: Optional[Time] = None) -> None:
        """Sends a packet up: into the wave `tag`, or into the wave after this endpoint's last one.

        If the stream's filter is one of those that every node has, `value` is what a local gives to the ready
        reduce of that name. Blocks while the window is full, for at most `timeout` seconds.

        Raises `TimedOut`, `Closed` if the stream is over, or `InvalidValue`.
        """
        try:
            self._sending(value, tag, timeout).wait()
        except Closed:
            self._is_over = True
            raise

    def __iter__(self) -> Iterator[Packet]:
        while (packet := self._packet(self._taking.take())) is not None:
            yield packet


class AsyncEndpointStream(EndpointBase):
    """As `EndpointStream`, for a function declared with `async def`."""

    async def recv(self, timeout: Optional[Time] = None) -> Packet:
        """Waits for a packet, for at most `timeout` seconds. Raises `TimedOut` or `Closed`."""
        packet = self._packet(await self._taking.take_async(timeout))
        if packet is None:
            raise Closed("the stream is over")
        return packet

    async def send(self, value: Any, *, tag: Optional[int] = None, timeout: Optional[Time] = None) -> None:
        """Sends a packet up, as `EndpointStream.send` does."""
        await self._taking.turn()
        try:
            await settled(self._sending(value, tag, timeout))
        except Closed:
            self._is_over = True
            raise

    async def __aiter__(self) -> AsyncIterator[Packet]:
        while (packet := self._packet(await self._taking.take_async())) is not None:
            yield packet


class Endpoints:
    """Runs a service's endpoint function for each stream that is opened to a node. `name` and `total` are the
    service's, and `data` is that of the partitions."""

    def __init__(
        self,
        acceptor: _native.Acceptor,
        function: Callable[..., Any],
        decode: str,
        total: Optional[int],
        data: Mapping[int, Any],
    ) -> None:
        self._acceptor = acceptor
        self._function = function
        self._decode = decode
        self._total = total if total is not None else max(data, default=-1) + 1
        self._data = data
        self._threads = threading.Semaphore(THREADS_MAX)
        run = self._accept_in_loop if inspect.iscoroutinefunction(function) else self._accept
        threading.Thread(target=run, name="treefold-endpoints", daemon=True).start()

    def _partition(self, native: _native.Endpoint) -> _native.Partition:
        return _native.Partition(native.service, native.number, self._total, self._data.get(native.number))

    def _accept(self) -> None:
        while (native := self._acceptor.accept().wait()) is not None:
            if not self._threads.acquire(blocking=False):
                native.leave(f"the node runs {THREADS_MAX} endpoints on threads, as many as it may; use `async def`")
                continue
            name = f"treefold-endpoint-{native.number}"
            try:
                threading.Thread(target=self._run, args=(native,), name=name, daemon=True).start()
            except RuntimeError as error:
                self._threads.release()
                native.leave(f"the node can't start a thread for it: {error}; use `async def`")

    def _run(self, native: _native.Endpoint) -> None:
        stream: Optional[EndpointStream] = None
        try:
            stream = EndpointStream(native, self._partition(native), self._decode)
            self._function(stream)
            native.leave("its function has returned")
        except BaseException as error:
            _leave(native, stream, error)
        finally:
            self._threads.release()

    def _accept_in_loop(self) -> None:
        asyncio.run(self._accept_tasks())

    async def _accept_tasks(self) -> None:
        tasks: set[asyncio.Task[None]] = set()
        while (native := await settled(self._acceptor.accept())) is not None:
            task = asyncio.create_task(self._run_task(native))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _run_task(self, native: _native.Endpoint) -> None:
        stream: Optional[AsyncEndpointStream] = None
        try:
            stream = AsyncEndpointStream(native, self._partition(native), self._decode)
            await self._function(stream)
            native.leave("its function has returned")
        except asyncio.CancelledError:
            native.leave("its task was cancelled")
            raise
        except BaseException as error:
            _leave(native, stream, error)


def _leave(native: _native.Endpoint, stream: Optional[EndpointBase], error: BaseException) -> None:
    """Leaves the stream, with the error as the reason; not if it is the news that the stream is over."""
    is_the_end = isinstance(error, Closed) and stream is not None and stream.is_over
    if not is_the_end:
        native.leave(str(error) if isinstance(error, TreefoldError) else error_text(error))
