"""How Python waits for the extension: blocking, or in asyncio."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Optional, Protocol

from . import _native
from ._options import Time, seconds

#: Items that an asynchronous iterator gives before other tasks get a turn.
ITEMS_PER_TURN = 64


class Inbox(Protocol):
    """What streams, endpoints and readers of the extension have in common."""

    def take(self) -> Any: ...
    def fill(self, timeout: Optional[float]) -> _native.Pending: ...
    def is_closed(self) -> bool: ...


async def settled(pending: _native.Pending) -> Any:
    """Waits for the extension's result. If the task is cancelled, so is the extension's work."""
    if pending.is_settled():
        return pending.result()
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


class Taking:
    """Takes items of an inbox, blocking or in asyncio. An item that has not been returned stays in the inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._in_turn = 0

    def take(self, timeout: Optional[Time] = None) -> Any:
        """Blocks until an item is there, and returns it; `None` if the inbox is closed. Raises `TimedOut`."""
        left = _Left(timeout)
        while not self._inbox.is_closed():
            item = self._inbox.take()
            if item is not None:
                return item
            self._inbox.fill(left.seconds()).wait()
        return None

    async def take_async(self, timeout: Optional[Time] = None) -> Any:
        """As `take`, for asyncio."""
        left = _Left(timeout)
        await self.turn()
        while not self._inbox.is_closed():
            item = self._inbox.take()
            if item is not None:
                return item
            await settled(self._inbox.fill(left.seconds()))
        return None

    async def turn(self) -> None:
        """Lets other tasks run now and then, between items that need no wait."""
        self._in_turn += 1
        if self._in_turn == ITEMS_PER_TURN:
            self._in_turn = 0
            await asyncio.sleep(0)


class _Left:
    """The time that is left of a timeout."""

    def __init__(self, timeout: Optional[Time]) -> None:
        given = seconds("timeout", timeout)
        self._until = None if given is None else time.monotonic() + given

    def seconds(self) -> Optional[float]:
        return None if self._until is None else max(0.0, self._until - time.monotonic())
