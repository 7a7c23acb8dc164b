"""Options that clients and nodes share."""

from __future__ import annotations

import datetime
import numbers
import operator
import os
import reprlib
from typing import Any, Mapping, Optional, Union

from .errors import InvalidOption

Path = Union[str, "os.PathLike[str]"]
#: A time: seconds, or a `timedelta`.
Time = Union[float, datetime.timedelta]

#: The longest time, in seconds.
SECONDS_MAX = 2.0**32
#: The times that must not be 0.
ABOVE_ZERO = ("deadline", "sync")

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
        token = token_of_environment()
        if token is not None and keys is not None:
            raise InvalidOption(
                "the environment has keys (TREEFOLD_KEYS) and a token (TREEFOLD_TOKEN or TREEFOLD_TOKEN_FILE); "
                "set only one of them"
            )
    return {
        "cluster": optional_text("cluster", cluster),
        "token": optional_text("token", token),
        "keys": None if keys is None else os.fspath(keys),
        "insecure": insecure,
    }


def token_of_environment() -> Optional[str]:
    """The token in the environment, or in the file that it names."""
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
        if not isinstance(addr, str) or not is_unicode(addr) or not addr.rpartition(":")[0] or not addr.rpartition(":")[2].isdigit():
            hint = "; give several one by one, as in connect(*addrs)" if isinstance(addr, (list, tuple)) else ""
            raise InvalidOption(f"an address is host:port, as in '127.0.0.1:7820', not {addr!r}{hint}")
    return given


def seconds(name: str, time: Any) -> Optional[float]:
    """Checks a time, seconds or a `timedelta`, and returns it in seconds."""
    if time is None:
        return None
    given: Any = time.total_seconds() if isinstance(time, datetime.timedelta) else time
    # A NaN is neither at least 0 nor above it.
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)
    if not is_number or not (given > 0 if name in ABOVE_ZERO else given >= 0):
        raise InvalidOption(f"{name} must be seconds {'above' if name in ABOVE_ZERO else 'from'} 0, not {shown(time)}")
    if given > SECONDS_MAX:
        raise InvalidOption(f"{name} must be at most 2^32 seconds, not {shown(time)}")
    return float(given)


def shown(value: Any) -> str:
    """A value in a message, not longer than a line."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "a whole number of thousands of digits"


def whole(name: str, number: Any, bits: int) -> int:
    """Checks a whole number from 0 with at most that many bits."""
    try:
        found = operator.index(number)
    except TypeError:
        found = -1
    if isinstance(number, bool) or not 0 <= found < 2**bits:
        raise InvalidOption(f"{name} must be a whole number from 0 below 2^{bits}, not {shown(number)}")
    return found


def text(name: str, given: Any) -> str:
    """Checks a text."""
    # A token is a secret.
    found = f"a {type(given).__name__}" if name == "token" else shown(given)
    if not isinstance(given, str):
        raise InvalidOption(f"{name} must be a text, not {found}")
    if not is_unicode(given):
        raise InvalidOption(f"{name} must be Unicode, and {found} has a lone surrogate")
    return given


def optional_text(name: str, given: Any) -> Optional[str]:
    """Checks a text that may be `None`."""
    return None if given is None else text(name, given)


def texts(name: str, given: Any) -> list[str]:
    """Checks a list of texts."""
    if isinstance(given, str):
        raise InvalidOption(f"{name} must be a list of texts, as in [{shown(given)}]")
    return [text(f"each of {name}", one) for one in given]


def aggregation_of(name: Any) -> str:
    """Checks that the name of an aggregation is a text."""
    if not isinstance(name, str) or not is_unicode(name):
        raise InvalidOption(f"an aggregation is a text, 'service/aggregation', not {shown(name)}")
    return name


def is_unicode(text: str) -> bool:
    """False for a text with a lone surrogate, which is in no Unicode text and can't travel."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def ids_of(name: str, ids: Any) -> list[int]:
    """Checks numbers of partitions, endpoints or workers."""
    return [whole(f"each of {name}", id, 32) for id in ([ids] if isinstance(ids, int) else ids)]


def own_params(params_for: Any) -> list[tuple[int, Any]]:
    """Checks the parameters of single partitions, a dict by partition."""
    if params_for is None:
        return []
    if not isinstance(params_for, Mapping):
        raise InvalidOption(f"params_for must be a dict from partitions to parameters, as in {{3: ...}}, not {params_for!r}")
    return [(whole("each partition of params_for", id, 32), params) for id, params in params_for.items()]


def call_options(
    deadline: Optional[Time],
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
    if min_coverage is not None and not isinstance(min_coverage, numbers.Real):
        raise InvalidOption(f"min_coverage must be a share from 0 to 1, not {shown(min_coverage)}")
    if min_coverage is not None and not 0 <= min_coverage <= 1:
        raise InvalidOption(f"min_coverage is {shown(min_coverage)}; allowed: 0 to 1")
    return {
        "deadline": seconds("deadline", deadline),
        "min_coverage": min_coverage,
        "partitions": None if partitions is None else ids_of("partitions", partitions),
        "shape": optional_text("shape", shape),
        "policy": optional_text("policy", policy),
        "waiting": optional_text("waiting", waiting),
        "hedge": bool(hedge),
        "slices": None if slices is None else whole("slices", slices, 32),
        "explain": bool(explain),
    }
