"""Nodes on the machines of another system's cluster."""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import Any, Callable, Optional

from ._client import Client, connect
from ._reply import Reply
from ._service import Node, Partitions, Service
from .errors import InvalidOption

#: Bytes of entropy of a token that is made for one deployment.
TOKEN_BYTES = 24


class Deployment:
    """Running nodes of a service. `treefold.ray.serve` and `treefold.dask.serve` start them. As a context
    manager, they are stopped at the end.

    `addrs` are the nodes' addresses, and `token` is the token of their cluster: programs elsewhere connect with
    `treefold.connect(*addrs, token=token)`.
    """

    def __init__(self, addrs: list[str], token: str, stop: Callable[[], None]) -> None:
        self.addrs = addrs
        self.token = token
        self._stop = stop
        self._client: Optional[Client] = None
        self._is_stopped = False

    def client(self, *, direct: bool = False) -> Client:
        """Connects a client to one of the nodes."""
        return connect(*self.addrs, direct=direct, token=self.token)

    def call(self, aggregation: str, params: Any = None, **options: Any) -> Reply[Any]:
        """Calls `service/aggregation`, with the parameters of `Client.call`."""
        if self._client is None:
            self._client = self.client()
        return self._client.call(aggregation, params, **options)

    def stop(self) -> None:
        """Stops all nodes in order. Nodes that are gone already count as stopped."""
        if not self._is_stopped:
            # An interrupted stop may be repeated.
            self._stop()
            self._is_stopped = True

    def __enter__(self) -> "Deployment":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Deployment({len(self.addrs)} nodes{', stopped' if self._is_stopped else ''})"


def deal(service: Service, partitions: Optional[Partitions], nodes: int) -> list[dict[int, Any]]:
    """Deals the partitions out to the nodes in turn; by default, they are all of the service's total."""
    held = service._held(partitions)
    if not held:
        raise InvalidOption("there are no partitions; give one or more")
    shares: list[dict[int, Any]] = [{} for _ in range(nodes)]
    for at, (id, data) in enumerate(held.items()):
        shares[at % nodes][id] = data
    return shares


def token_or_new(token: Optional[str]) -> str:
    """The token; without one, a new one, because the nodes listen beyond their machines."""
    return secrets.token_hex(TOKEN_BYTES) if token is None else token


def start(service: Service, host: str, join: list[str], held: dict[int, Any], options: dict[str, Any]) -> Node:
    """Starts a node at a free port of this machine's address `host`."""
    host = f"[{host}]" if ":" in host else host
    return service.start(f"{host}:0", join, held, **options)
