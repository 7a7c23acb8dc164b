"""Calls whose slices are read one after another."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterator, Optional

from . import _native
from ._options import text
from ._pending import Taking
from ._reply import Reply, reply_of
from .errors import TreefoldError


class SlicesBase:
    """What the blocking slices and those of asyncio have in common."""

    def __init__(self, native: _native.Slices, kind: str, decode: str) -> None:
        self._native, self._kind, self._decode = native, kind, text("decode", decode)
        self._taking = Taking(native)
        self._taken = 0
        self._reply: Optional[Reply[None]] = None

    @property
    def taken(self) -> int:
        """The number of slices that have been taken."""
        return self._taken

    @property
    def reply(self) -> Optional[Reply[None]]:
        """The reply over all slices, without a value; `None` until the last one has been taken.

        A partition has contributed if it is in every slice.
        """
        return self._reply

    def close(self) -> None:
        """Cancels the slices that are in flight."""
        self._native.close()

    def _slice(self, item: Any) -> Optional[tuple[Any]]:
        """A slice's value, alone in a tuple, or `None` at the end."""
        if item is None:
            return None
        payload, fields = item
        if payload is not None:
            self._taken += 1
            return (_native.unpack(payload, self._decode),)
        self.close()
        self._reply = reply_of(self._kind, fields, self._decode)
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._kind!r}, {self._taken} taken)"


class Slices(SlicesBase):
    """The slices of a call, in order. `Client.each_slice` makes it.

    Iterate over it, once. Each value is the folded value of a slice. As a context manager, it cancels at its end what is in
    flight.
    """

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            taken = self._slice(self._taking.take())
        except TreefoldError:
            self.close()
            raise
        if taken is None:
            raise StopIteration
        return taken[0]

    def __enter__(self) -> "Slices":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
