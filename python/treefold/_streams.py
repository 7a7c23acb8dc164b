"""Streams: packets go down to the endpoints of a service, and what they send comes up in waves, folded on the
way."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Iterable, Iterator, Optional, Union

from . import _native
from ._options import Time, ids_of, optional_text, seconds, text, whole
from ._pending import Taking
from ._reply import Missing, losses_of
from .errors import Closed, InvalidOption, InvalidReply


@dataclass(frozen=True)
class Wave:
    """One wave: what the endpoints sent under one tag, after the filter.

    `tag` is its number. `packets` are the values that the filter made of the wave: usually one; without a
    filter, one for each endpoint, in no particular order. `contributors` are the endpoints whose packets are
    in it, and `missing` the others with reasons; together they are all endpoints of the stream.
    """

    tag: int
    packets: list[Any]
    contributors: list[int]
    missing: list[Missing]

    @property
    def value(self) -> Any:
        """The packet of a wave that has one; `None` if it has none. Raises `InvalidReply` if it has several."""
        if len(self.packets) > 1:
            raise InvalidReply(f"the wave has {len(self.packets)} packets; use `packets`, or a filter that folds them")
        return self.packets[0] if self.packets else None

    @property
    def coverage(self) -> float:
        """The share of endpoints in the wave, from 0 to 1."""
        absent = sum(len(loss.partitions) for loss in self.missing)
        return len(self.contributors) / (len(self.contributors) + absent) if self.contributors else 0.0


@dataclass(frozen=True)
class Changed:
    """The stream's tree has changed: `endpoints` take part now, and `missing` are away, with reasons."""

    endpoints: list[int]
    missing: list[Missing]


Event = Union[Wave, Changed]


class StreamBase:
    """What the blocking stream and that of asyncio have in common."""

    def __init__(self, native: _native.Stream, decode: str) -> None:
        self._native = native
        self._taking = Taking(native)
        self._decode = text("decode", decode)
        self._endpoints = list(native.endpoints)
        self._missing = losses_of(native.missing)

    @property
    def id(self) -> str:
        """The stream's id, as in logs."""
        return self._native.id

    @property
    def endpoints(self) -> list[int]:
        """The endpoints that take part, as last reported."""
        return list(self._endpoints)

    @property
    def missing(self) -> list[Missing]:
        """The endpoints that do not take part, with reasons, as last reported."""
        return list(self._missing)

    @property
    def is_closed(self) -> bool:
        """True once the stream was closed here."""
        return self._native.is_closed()

    def close(self) -> None:
        """Ends the stream at all nodes. Iterations end. Does not block."""
        self._native.close()

    def _event(self, item: Any) -> Optional[Event]:
        if item is None:
            return None
        if item[0] == "wave":
            _, tag, packets, contributors, missing = item
            values = [_native.unpack(packet, self._decode) for packet in packets]
            return Wave(tag, values, contributors, losses_of(missing))
        _, self._endpoints, missing = item
        self._missing = losses_of(missing)
        return Changed(self.endpoints, self.missing)

    def _sending(
        self, packet: Any, to: Optional[Iterable[int]], tag: Optional[int], timeout: Optional[Time]
    ) -> _native.Pending:
        if self.is_closed:
            raise Closed("the stream is closed")
        if to is not None and tag is None:
            raise InvalidOption("a packet to some endpoints needs a tag of your choice")
        chosen = None if tag is None else whole("tag", tag, 64)
        return self._native.send(packet, None if to is None else ids_of("to", to), chosen, seconds("timeout", timeout))

    def __repr__(self) -> str:
        return f"Stream({self.id!r}, {len(self._endpoints)} endpoints{', closed' if self.is_closed else ''})"


class Stream(StreamBase):
    """The front-end of a stream. `Client.stream` opens one.

        with client.stream("thermometers", up_filter="max") as stream:
            stream.send("read")
            for wave in stream:
                print(wave.value, wave.coverage)

    Iterating gives one wave after the other, and blocks until each is there; Ctrl-C interrupts it. It ends if
    the stream is closed here, and raises `Closed` if the stream ends for another reason.

    A stream that is not read holds up its endpoints once its window is full: no packet is lost. Waves may be
    taken on one thread while another one sends.
    """

    def send(
        self,
        packet: Any = None,
        *,
        to: Optional[Iterable[int]] = None,
        tag: Optional[int] = None,
        timeout: Optional[Time] = None,
    ) -> int:
        """Sends a packet down to all endpoints, and returns its tag.

        Without `tag` it is the next one. `to` names the endpoints that get it; give it a `tag` then. A tag that an
        endpoint has got before gives no second wave. Blocks while the window is full, for at most `timeout` seconds.

        Raises `TimedOut`, `Closed` if the stream is over, or `InvalidValue` if the packet cannot travel.
        """
        sent: int = self._sending(packet, to, tag, timeout).wait()
        return sent

    def wave(self, timeout: Optional[Time] = None) -> Wave:
        """Blocks until the next wave is there, for at most `timeout` seconds, and returns it.

        Raises `TimedOut`, or `Closed` if the stream is over.
        """
        while True:
            event = self._event(self._taking.take(timeout))
            if event is None:
                raise Closed("the stream is closed")
            if isinstance(event, Wave):
                return event

    def events(self) -> Iterator[Event]:
        """Iterates over waves and changes of the tree, in their order."""
        while (event := self._event(self._taking.take())) is not None:
            yield event

    def __iter__(self) -> Iterator[Wave]:
        return self

    def __next__(self) -> Wave:
        while (event := self._event(self._taking.take())) is not None:
            if isinstance(event, Wave):
                return event
        raise StopIteration

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def stream_options(
    up_filter: Optional[str],
    down_filter: Optional[str],
    filter_params: Any,
    params: Any,
    sync: Union[str, Time],
    endpoints: Optional[Iterable[int]],
    shape: Optional[str],
    window_bytes: Optional[int],
    lag_bytes_max: Optional[int],
) -> dict[str, Any]:
    """The options of a stream, as the extension takes them."""
    return {
        "up_filter": optional_text("up_filter", up_filter),
        "down_filter": optional_text("down_filter", down_filter),
        "filter_params": filter_params,
        "params": params,
        "sync": text("sync", sync) if isinstance(sync, str) else seconds("sync", sync),
        "endpoints": None if endpoints is None else ids_of("endpoints", endpoints),
        "shape": optional_text("shape", shape),
        "window_bytes": None if window_bytes is None else whole("window_bytes", window_bytes, 63),
        "lag_bytes_max": None if lag_bytes_max is None else whole("lag_bytes_max", lag_bytes_max, 63),
    }
