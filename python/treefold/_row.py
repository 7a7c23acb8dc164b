"""Typed packets, for filters and endpoints that read them."""

from __future__ import annotations

from typing import Any

from . import _native


def row(*fields: Any) -> bytes:
    """A typed packet with these fields, as bytes: `int`, `float`, `str`, `bytes`, and lists or numpy arrays of them.

    `stream.send(treefold.row(3, "a"))` sends one to endpoints that read typed packets. Locals, endpoints and
    workers of ready reduces need it not: their values become packets by themselves.
    """
    return _native.pack(fields, "sum")
