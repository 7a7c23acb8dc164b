"""Options that clients and nodes share."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from .errors import InvalidOption

Path = Union[str, "os.PathLike[str]"]

#: How much of a file with a token is read: a byte more than the longest token and a line end.
TOKEN_FILE_BYTES_MAX = 1027


def secrets(
    cluster: Optional[str], token: Optional[str], keys: Optional[Path], insecure: bool = False
) -> dict[str, Any]:
    """Gathers what a process is recognised by, from parameters or else from the environment, as the command
    does."""
    if token is not None and keys is not None:
        raise InvalidOption("give keys or a token, not both")
    if token is None and keys is None:
        keys = os.environ.get("TREEFOLD_KEYS") or None
        token = _token_of_environment()
        if token is not None and keys is not None:
            raise InvalidOption(
                "the environment has keys (TREEFOLD_KEYS) and a token (TREEFOLD_TOKEN or TREEFOLD_TOKEN_FILE); "
                "set only one of them"
            )
    return {
        "cluster": cluster,
        "token": token,
        "keys": None if keys is None else os.fspath(keys),
        "insecure": insecure,
    }


def _token_of_environment() -> Optional[str]:
    token = os.environ.get("TREEFOLD_TOKEN")
    path = os.environ.get("TREEFOLD_TOKEN_FILE")
    if token is not None or path is None:
        return token
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(TOKEN_FILE_BYTES_MAX).rstrip("\r\n")
    except OSError as error:
        raise InvalidOption(f"TREEFOLD_TOKEN_FILE: can't read {path}: {error}") from error


def addresses(first: Any, more: tuple[Any, ...]) -> list[str]:
    """Checks addresses that are given one by one."""
    given = [first, *more]
    for addr in given:
        if not isinstance(addr, str) or not addr.rpartition(":")[0] or not addr.rpartition(":")[2].isdigit():
            raise InvalidOption(f"an address is host:port, as in '127.0.0.1:7820', not {addr!r}")
    return given


def call_options(
    deadline: Optional[float],
    min_coverage: Optional[float],
    partitions: Any,
    shape: Optional[str],
    policy: Optional[str],
    waiting: Optional[str],
    hedge: bool,
    slices: Optional[int],
    explain: bool,
) -> dict[str, Any]:
    """The options of a call, as the extension takes them."""
    return {
        "deadline": deadline,
        "min_coverage": min_coverage,
        "partitions": None if partitions is None else list(partitions),
        "shape": shape,
        "policy": policy,
        "waiting": waiting,
        "hedge": hedge,
        "slices": slices,
        "explain": explain,
    }
