"""Where parts meet: calls, results slice by slice and streams in three modes from Python, in clusters, over relays, with
certificates and in networks, while processes are slow, stopped and killed. The table of seams names this test.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import treefold
from conftest import TREEFOLD, needs_command
from test_network import TREE, pid_of

HOLDERS = [0, 1, 2, 3]
ROWS = 25
SLICES = 4
DEADLINE = 8
SYNC = {"all": "wait-for-all", "timed": 0.2, "single": "do-not-wait"}
# Each partition has the same numbers, with its own behind them.
NUMBERS = (
    "exec=numbers:reduce=merge-sorted:command=sh -c "
    f"'seq -f \"%06.0f {{partition}}\" $(($0 * {ROWS})) $(($0 * {ROWS} + {ROWS - 1}))' {{slice}} {{slices}}"
)


class Bed:
    """Real processes with one partition each, and what is between them. The last of both are the victims."""

    def __init__(self, at: str, holders: list[int], between: list[int], **trust: Any) -> None:
        self.client = treefold.connect(at, direct=True, **trust)
        self.all = holders + between
        self.victims = holders[-1:] + between[-1:]
        self.until(lambda: self.call("whole") == HOLDERS)

    def until(self, holds: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < give_up_at
            time.sleep(0.05)

    def signal(self, number: int, processes: list[int]) -> None:
        for process in processes:
            os.kill(process, number)
            if number == signal.SIGSTOP:
                self.until(lambda: Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0] == "T")

    def call(self, use: str) -> list[int]:
        """Makes a call, compares its value with its account, and returns the contributors."""
        slices = 1 if use == "whole" else SLICES
        options: dict[str, Any] = {"deadline": DEADLINE, "min_coverage": 0}
        try:
            if use == "each":
                each = self.client.each_slice("numbers/run", slices=slices, **options)
                value, reply = "".join(each), each.reply
            else:
                reply = self.client.call("numbers/run", **options)
                value = reply.value or ""
        except treefold.InsufficientCoverage as without:
            value, reply = "", without.reply
        assert reply is not None
        missing = [partition for lost in reply.missing for partition in lost.partitions]
        there = [partition for partition in HOLDERS if partition not in missing]
        assert value == "".join(f"{row:06} {id}\n" for row in range(ROWS * slices) for id in there)
        assert reply.coverage == len(there) / len(HOLDERS)
        return there


class Waves:
    """A stream that is read on a thread of its own."""

    def __init__(self, client: treefold.Client, mode: str) -> None:
        self.mode = mode
        self.stream = client.stream("echo", up_filter="count", sync=SYNC[mode])
        self.last: list[tuple[float, list[int], list[int]]] = []
        self.error: BaseException | None = None
        threading.Thread(target=self.send, daemon=True).start()
        threading.Thread(target=self.read, daemon=True).start()

    def send(self) -> None:
        try:
            while not self.stream.is_closed:
                self.stream.send("x")
                time.sleep(0.05)
        except treefold.Closed:
            pass

    def read(self) -> None:
        try:
            for wave in self.stream:
                contributors = list(wave.contributors)
                assert wave.value == len(contributors)
                self.last.append((time.monotonic(), contributors, sorted(endpoint for lost in wave.missing for endpoint in lost.partitions)))
        except BaseException as error:
            self.error = error

    def reach(self, there: list[int]) -> None:
        """Waits until waves have exactly these contributors."""
        missing = [endpoint for endpoint in HOLDERS if endpoint not in there]
        give_up_at = time.monotonic() + 30
        while True:
            assert self.error is None, self.error
            now = time.monotonic()
            recent = [wave for wave in list(self.last) if wave[0] > now - 1]
            if self.mode == "single":
                seen = {endpoint for _, contributors, _ in recent for endpoint in contributors}
                if recent and self.last[0][0] < now - 1 and sorted(seen) == there:
                    return
            elif any(wave[1:] == (there, missing) for wave in recent[-3:]):
                return
            assert now < give_up_at, (self.mode, there, recent[-3:])
            time.sleep(0.05)


def cluster(start: Any, relays: int, keys: Path | None) -> Bed:
    trust = ["--keys", str(keys / "node.pem")] if keys else []
    front = start("node", "--listen", "127.0.0.1:0", *trust)
    at = front.line.rsplit(" ", 1)[1]

    def process(*words: str) -> int:
        return start("node", "--listen", "127.0.0.1:0", "--join", at, *trust, *words).process.pid

    def holder(partition: int) -> int:
        place = f":partitions={partition}/{len(HOLDERS)}"
        return process("--serve", NUMBERS + place, "--serve", "echo" + place)

    holders = [holder(partition) for partition in HOLDERS]
    between = [process("--relay") for _ in range(relays)]
    return Bed(at, holders, between, **({"keys": keys / "client.pem"} if keys else {}))


def keys_in(folder: Path) -> Path:
    for words in (
        ["init", "--cluster", "seams"],
        ["issue", "node", "node", "--at", "127.0.0.1"],
        ["issue", "client", "client", "--may", "call,stream,read"],
    ):
        subprocess.run([TREEFOLD, "keys", *words, "--dir", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(params=["cluster", "relays", "certificates", "network"])
def bed(request: pytest.FixtureRequest, start: Any, tmp_path: Path) -> Iterator[Bed]:
    if request.param == "network":
        host = f"py{os.getpid()}"
        tree = tmp_path / "tree.top"
        tree.write_text(TREE.replace("HOST", host))
        up = start("up", str(tree), "--local", "--token", "a secret", "--serve", NUMBERS, "--serve", "echo")
        line = up.line
        while not line.startswith("TREEFOLD_AT="):
            line = up.process.stdout.readline().strip()
        inner, back_ends = [[pid_of(f"{host}:{place}") for place in places] for places in ([1, 2], [3, 4, 5, 6])]
        yield Bed(line.split("=", 1)[1], back_ends, inner, token="a secret")
    else:
        keys = keys_in(tmp_path) if request.param == "certificates" else None
        yield cluster(start, 2 if request.param == "relays" else 0, keys)


@needs_command
def test_every_use_under_every_fault(bed: Bed) -> None:
    streams = [Waves(bed.client, mode) for mode in SYNC]

    def hold(there: list[int]) -> None:
        assert (bed.call("whole"), bed.call("each")) == (there, there)
        for stream in streams:
            stream.reach(there)

    hold(HOLDERS)
    is_over = threading.Event()

    def hardly_run() -> None:
        while not is_over.is_set():
            bed.signal(signal.SIGSTOP, bed.victims)
            time.sleep(0.18)
            bed.signal(signal.SIGCONT, bed.victims)
            time.sleep(0.02)

    slowing = threading.Thread(target=hardly_run)
    slowing.start()
    try:
        hold(HOLDERS)
    finally:
        is_over.set()
        slowing.join()
    bed.signal(signal.SIGSTOP, bed.victims)
    hold(HOLDERS[:-1])
    bed.signal(signal.SIGCONT, bed.victims)
    bed.until(lambda: bed.call("whole") == HOLDERS)
    hold(HOLDERS)
    bed.signal(signal.SIGKILL, bed.victims)
    hold(HOLDERS[:-1])
    bed.signal(signal.SIGKILL, [process for process in bed.all if process not in bed.victims])
    assert (bed.call("whole"), bed.call("each")) == ([], [])
    for stream in streams:
        bed.until(lambda: not stream.last or stream.last[-1][0] < time.monotonic() - 2 or stream.last[-1][1] == [])
        assert stream.error is None and not stream.stream.is_closed
        stream.stream.close()
