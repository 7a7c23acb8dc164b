"""The same clients for asyncio.

    client = await treefold.aio.connect("127.0.0.1:7820")
    reply = await client.call("logs/matching", "error", deadline=0.5)

Cancelling the task cancels the call throughout its tree.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Iterable, Optional

from . import _native
from ._options import Path, addresses, call_options, secrets
from ._reply import Reply, reply_of
from .errors import Closed

__all__ = ["Client", "connect"]


class Client:
    """Makes calls from asyncio. `treefold.aio.connect` makes one."""

    def __init__(self, native: _native.Client) -> None:
        self._native: Optional[_native.Client] = native

    async def call(
        self,
        aggregation: str,
        params: Any = None,
        *,
        deadline: Optional[float] = None,
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
        fields = await settled(self._open().call(aggregation, params, options))
        return reply_of(aggregation, fields, decode)

    async def members(self) -> list[tuple[str, dict[str, list[int]]]]:
        """The members that the node has in sight, itself first: each one's address, and its partitions by
        service."""
        found: list[tuple[str, dict[str, list[int]]]] = await settled(self._open().members())
        return found

    def close(self) -> None:
        """Closes the client. Calls that are open go on."""
        self._native = None

    def _open(self) -> _native.Client:
        if self._native is None:
            raise Closed("the client is closed")
        return self._native

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


async def settled(pending: _native.Pending) -> Any:
    """Waits for the extension's result. If the task is cancelled, so is the extension's work."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(finish)
        except RuntimeError:
            pass  # The loop is closed, so nobody waits.

    pending.then(wake)
    try:
        await waiter
    except asyncio.CancelledError:
        pending.cancel()
        raise
    return pending.result()
