"""Networks that are started from a topology file, with this process as their front-end."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional, Sequence

from . import _native
from ._client import Client
from ._options import Path, Time, is_unicode, optional_text, seconds, text, token_of_environment
from .errors import InvalidOption


@dataclass(frozen=True)
class Process:
    """A process of a network: its name in the topology, as in `node1:0`, its role ("front-end", "inner", "back-end"), and its
    address, which is None if it did not attach."""

    name: str
    role: str
    addr: Optional[str]


class Network:
    """A network of processes that this process has started from a topology file, and whose front-end it is.

        with treefold.Network.up("tree.top", back_end=["./daemon", "{attach}", "hosts", "{number}", "{total}"]) as network:
            with network.client().stream("hosts", up_filter="sum") as stream:
                stream.send("load")
                print(stream.wave().value)

    Streams follow the topology, and its inner processes fold. The network ends with the `with` block, or with this process.
    """

    def __init__(self, native: _native.Network) -> None:
        self._native = native

    @classmethod
    def up(
        cls,
        topology: Path,
        *,
        back_end: Optional[Sequence[str]] = None,
        local: bool = False,
        program: Optional[Path] = None,
        token: Optional[str] = None,
        timeout: Time = 30.0,
        allow_failures: bool = False,
        listen: Optional[str] = None,
        advertise: Optional[str] = None,
    ) -> "Network":
        """Starts the processes of a topology file, and returns when all have attached.

        `back_end` is the command of each back-end, a list of words. In them, `{attach}` is replaced by the address to
        attach to, `{number}` by the back-end's number, `{total}` by the number of back-ends, and `{place}` by its name.
        Without it, back-ends serve `echo`, endpoints that send each packet back. `program` is the command `treefold`, which
        inner processes run, on each host; by default, the one beside this Python or on the PATH. `local` starts all processes
        on this host, whatever the topology says.

        The other parameters are those of `treefold up`. `StartFailed` names the processes that did not attach.
        """
        try:
            with open(topology, encoding="utf-8-sig") as file:
                layout = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(f"topology: can't read {os.fspath(topology)!r}: {error}") from error
        spec = {
            "topology": layout,
            "program": [_program() if program is None else text("program", os.fspath(program))],
            "back_end": _words(back_end),
            "local": bool(local),
            "token": optional_text("token", token_of_environment() if token is None else token),
            "timeout": seconds("timeout", timeout),
            "allow_failures": bool(allow_failures),
            "listen": optional_text("listen", listen),
            "advertise": optional_text("advertise", advertise),
        }
        return cls(_native.raise_network(spec).wait())

    @property
    def addr(self) -> str:
        """The front-end's address."""
        return self._native.addr

    @property
    def processes(self) -> list[Process]:
        """All processes of the topology, the front-end first, as they were when the network was up."""
        return [Process(*process) for process in self._native.processes]

    @property
    def failures(self) -> dict[str, str]:
        """The processes that did not attach, with the reason."""
        return dict(self._native.failures)

    def client(self) -> Client:
        """The front-end's client, which opens streams."""
        return Client(self._native.client())

    def down(self, grace: Time = 2.0) -> None:
        """Ends all processes, and kills those that have not ended after `grace` seconds."""
        self._native.down(seconds("grace", grace)).wait()

    def __repr__(self) -> str:
        return f"Network({self.addr!r}, {len(self._native.processes)} processes)"

    def __enter__(self) -> "Network":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.down()


def _words(back_end: Any) -> list[str]:
    words = [] if back_end is None else back_end
    is_list = not isinstance(words, (str, bytes)) and all(isinstance(word, str) and is_unicode(word) for word in words)
    if not is_list or (back_end is not None and not words):
        raise InvalidOption(f"back_end must be a list of words, the program first, not {back_end!r}")
    return list(words)


def _program() -> str:
    """The command `treefold` of this installation, or else that on the PATH."""
    here = os.path.dirname(sys.executable)
    found = shutil.which("treefold", path=os.pathsep.join([here, os.environ.get("PATH", os.defpath)]))
    if found is None:
        raise InvalidOption("program: there is no command `treefold` beside this Python or on the PATH")
    return found
