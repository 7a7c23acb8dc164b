"""Readers of feeds: a snapshot of the keys' values, and then every event.

    client = treefold.connect("127.0.0.1:7700", direct=True)
    for update in client.reader("flights", prefixes=["DL"]):
        match update:
            case treefold.mirrors.Row():
                print(update.key, update.fields)
            case treefold.mirrors.Event():
                print(update.key, update.type, update.fields)

A reader follows one of the feed's mirrors. If that one dies, stands still or leaves, it goes on at another one
after the last update, without gap and without repetition. docs/mirrors.md describes what is promised.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Iterable, Iterator, Optional, Union

from . import _native
from ._options import Time, optional_text, seconds, texts, whole
from ._pending import Taking
from .errors import Closed

__all__ = ["Begins", "Complete", "Event", "Lagging", "Moved", "Reached", "Reader", "Row", "Update"]


@dataclass(frozen=True)
class Begins:
    """The state begins anew: rows follow, and then `Complete`. Drop the state that you have.

    `epoch` and `position` are the place of the snapshot. `because` is the reason if a snapshot was not asked
    for.
    """

    epoch: int
    position: int
    because: Optional[str]


@dataclass(frozen=True)
class Row:
    """A key with its values in the snapshot.

    `fields` are its values by name, and `body` is the last body that was not empty. `position` and `sent_ms`
    (the origin's clock, in ms since the Unix epoch) are those of the last event that changed it.
    """

    key: str
    fields: dict[str, Any]
    body: bytes
    position: int
    sent_ms: int


@dataclass(frozen=True)
class Complete:
    """All rows have been given. Every event after `time` follows."""

    time: str


@dataclass(frozen=True)
class Event:
    """An event: `key`, its `type`, the `fields` that it sets (`None` removes a field), and its `body`.

    `stream` and `number` are those of its source. `epoch` and `position` are its place in the feed, and
    `sent_ms` is the origin's clock when it sent it, in ms since the Unix epoch.
    """

    key: str
    type: str
    fields: dict[str, Any]
    body: bytes
    stream: str
    number: int
    epoch: int
    position: int
    sent_ms: int


@dataclass(frozen=True)
class Reached:
    """There is nothing for this reader up to `time`."""

    time: str


@dataclass(frozen=True)
class Lagging:
    """The reader was too far behind to get every event, for this reason; `Begins` follows."""

    because: str


@dataclass(frozen=True)
class Moved:
    """The reader follows another `mirror` now. No event was lost or repeated."""

    mirror: int
    because: str


Update = Union[Begins, Row, Complete, Event, Reached, Lagging, Moved]


class ReaderBase:
    """What the blocking reader and that of asyncio have in common."""

    def __init__(self, native: _native.Reader, feed: str) -> None:
        self._native = native
        self._taking = Taking(native)
        #: The feed's name.
        self.feed = feed

    @property
    def time(self) -> Optional[str]:
        """The vector time of the last update that was taken, from which a later reader can go on (`after`).

        `None` while the reader has no complete state.
        """
        return self._native.time()

    @property
    def mirror(self) -> Optional[int]:
        """The mirror that the reader follows; `None` while it looks for one, or waits for an update."""
        return self._native.mirror()

    @property
    def is_closed(self) -> bool:
        """True once the reader was closed."""
        return self._native.is_closed()

    def close(self) -> None:
        """Ends the reader. Iterations end. Its `time` stays. Does not block."""
        self._native.close()

    def __repr__(self) -> str:
        return f"Reader({self.feed!r}, time={self.time!r}{', closed' if self.is_closed else ''})"


class Reader(ReaderBase):
    """A reader of a feed. `Client.reader` starts one.

    Iterating gives one update after the other: `Begins`, each `Row` and `Complete` for the snapshot, then each
    `Event`; now and then `Reached`, `Moved` or `Lagging`. It blocks until each is there; Ctrl-C interrupts it,
    and the next iteration goes on where it was.

    It raises `Unreachable` if no mirror serves it for `patience` seconds. It keeps its place then: iterate
    again, or start another reader with `after=reader.time`.
    """

    def update(self, timeout: Optional[Time] = None) -> Update:
        """Blocks until the next update is there, for at most `timeout` seconds, and returns it.

        Raises `TimedOut`, `Unreachable`, or `Closed` if the reader was closed.
        """
        item = self._taking.take(timeout)
        if item is None:
            raise Closed("the reader is closed")
        return update_of(item)

    def __iter__(self) -> Iterator[Update]:
        return self

    def __next__(self) -> Update:
        item = self._taking.take()
        if item is None:
            raise StopIteration
        return update_of(item)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


_KINDS: dict[str, Any] = {
    "begins": Begins,
    "row": Row,
    "complete": Complete,
    "reached": Reached,
    "lagging": Lagging,
    "moved": Moved,
}


def update_of(item: tuple[Any, ...]) -> Update:
    """The extension's update."""
    name, *fields = item
    if name == "event":
        *fields, place = fields
        return Event(*fields, *place)
    update: Update = _KINDS[name](*fields)
    return update


def reader_options(
    keys: Iterable[str],
    prefixes: Iterable[str],
    types: Iterable[str],
    after: Optional[str],
    patience: Optional[Time],
    window_bytes: Optional[int],
) -> dict[str, Any]:
    """The options of a reader, as the extension takes them."""
    return {
        "keys": texts("keys", keys),
        "prefixes": texts("prefixes", prefixes),
        "types": texts("types", types),
        "after": optional_text("after", after),
        "patience": seconds("patience", patience),
        "window_bytes": None if window_bytes is None else whole("window_bytes", window_bytes, 63),
    }
