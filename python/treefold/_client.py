"""Blocking clients."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterable, Optional

from . import _native
from ._options import Path, addresses, call_options, secrets
from ._reply import Reply, reply_of
from .errors import Closed


class Client:
    """Makes calls. `treefold.connect` makes one.

    A client may be used by many threads at a time. If its connection breaks, the next call makes a new one. A
    process that was forked needs a client of its own.
    """

    def __init__(self, native: _native.Client) -> None:
        self._native: Optional[_native.Client] = native

    def call(
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
        """Calls `service/aggregation` and blocks until the reply is there. Ctrl-C cancels the call.

        `params` is passed to every local and reduce. Dicts, lists, texts and numbers travel as MessagePack,
        bytes as they are, tables of pyarrow as Arrow.

        `deadline` is in seconds (2 by default). `min_coverage` is the least share of partitions that makes a
        reply, from 0 to 1 (1 by default); with less, `InsufficientCoverage` is raised. `partitions` are the
        ones to ask; by default, all.

        `explain` asks for the tree with times. `hedge` asks a second replica if the first takes unusually
        long. `shape`, `policy`, `waiting` and `slices` are those of `treefold call`.

        `decode` says how the value is read: "auto", "raw" for bytes as they are, "numpy" for arrays of
        numbers as numpy's.
        """
        options = call_options(deadline, min_coverage, partitions, shape, policy, waiting, hedge, slices, explain)
        return reply_of(aggregation, self._open().call(aggregation, params, options).wait(), decode)

    def members(self) -> list[tuple[str, dict[str, list[int]]]]:
        """The members that the node has in sight, itself first: each one's address, and its partitions by
        service."""
        found: list[tuple[str, dict[str, list[int]]]] = self._open().members().wait()
        return found

    def close(self) -> None:
        """Closes the client. Calls that are open go on."""
        self._native = None

    def _open(self) -> _native.Client:
        if self._native is None:
            raise Closed("the client is closed")
        return self._native

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
    `direct`, the client forms the trees itself, which saves a hop.

    Raises `Unreachable` if none answers or accepts.
    """
    pending = _native.connect(addresses(addr, more), direct, secrets(cluster, token, keys))
    return Client(pending.wait())
