"""Where parts meet: calls whole, in slices and slice by slice, streams in three modes, push waves and readers of a feed
from Python, in clusters, over relays, with certificates, in networks and at a node of this process, while processes are
slow, stopped and killed. The table of seams names this test.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import pytest
import treefold
from conftest import TREEFOLD, needs_command
from test_network import TREE, pid_of
from treefold.mirrors import Begins, Complete, Event, Reader, Row

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


USES = ["whole", "sliced", "each"]
KEYS = 20
EVENTS = 200
REQUESTS = itertools.count(1)


def services(folder: Path) -> list[str]:
    """The services of a process with a partition, without it."""
    documents = folder / "documents"
    documents.mkdir()
    for number in range(40):
        (documents / f"{number}.txt").write_text(f"a word of all, and word{number} of this one")
    return [NUMBERS, "echo", "mirror=flights", f"search={documents}:data={folder / 'index'}"]


class Bed:
    """Real processes with one partition each, and what is between them. The last of both are the victims.

    `doors` are nodes that take in workers: the victim, and one that lives; none in a network.
    """

    def __init__(self, at: str, holders: list[int], between: list[int], doors: list[str], **trust: Any) -> None:
        self.client = treefold.connect(at, direct=True, **trust)
        self.front = treefold.connect(at, **trust)
        self.at, self.doors, self.trust = at, doors, trust
        self.all = holders + between
        self.victims = holders[-1:] + between[-1:]
        self.until(lambda: self.call("whole") == HOLDERS)
        self.words = [self.front.call("search/words", {}, partitions=[id], deadline=DEADLINE).value for id in HOLDERS]

    def command(self, *words: str) -> list[str]:
        return [TREEFOLD, *words, "--at", self.at]

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to be an origin of a feed."""
        keys, token = self.trust.get("keys"), self.trust.get("token")
        more = {"TREEFOLD_KEYS": str(keys.parent / "origin.pem")} if keys else {}
        return {**os.environ, **more, **({"TREEFOLD_TOKEN": token} if token else {})}

    def until(self, holds: Callable[[], bool], seen: Callable[[], object] = lambda: None) -> None:
        give_up_at = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < give_up_at, seen()
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
            elif use == "sliced":
                reply = self.front.call("search/words", {}, slices=slices, **options)
                return self.check_words(reply.value or {}, reply)
            else:
                reply = self.client.call("numbers/run", **options)
                value = reply.value or ""
        except treefold.InsufficientCoverage as without:
            value, reply = "", without.reply
        assert reply is not None
        if use == "sliced":
            return self.check_words({}, reply)
        missing = [partition for lost in reply.missing for partition in lost.partitions]
        there = [partition for partition in HOLDERS if partition not in missing]
        assert value == "".join(f"{row:06} {id}\n" for row in range(ROWS * slices) for id in there)
        assert reply.coverage == len(there) / len(HOLDERS)
        return there

    def check_words(self, words: dict[str, int], reply: Any) -> list[int]:
        """Holds counted words against the account. A slice may have a partition that is missing from a slice beside it."""
        missing = [partition for lost in reply.missing for partition in lost.partitions]
        there = [partition for partition in HOLDERS if partition not in missing]
        counts = lambda word, partitions: sum(self.words[id].get(word, 0) for id in partitions)
        assert all(word in words for id in there for word in self.words[id])
        assert all(counts(word, there) <= count <= counts(word, HOLDERS) for word, count in words.items())
        return there

    def push(self, numbers: tuple[int, int], workers: Optional[list[treefold.push.Worker]] = None) -> None:
        """Completes a request. Without workers, they attach to the victim first, and elsewhere if that has faults."""
        request, results = next(REQUESTS), ["a\t2\nc\t1\n", "a\t1\nb\t5\n"]
        pushing = workers or [self.worker(number) for number in numbers]
        for worker, result in zip(pushing, results):
            worker.push_last(request, result)
        reply = self.front.announce("words/sum-lines", request, numbers, patience=10, deadline=20)
        assert (reply.value, reply.coverage) == (b"a\t3\nb\t5\nc\t1\n", 1.0)
        for worker in pushing:
            worker.idle(timeout=20)
            if workers is None:
                worker.close()

    def worker(self, number: int, timeout: float = 10) -> treefold.push.Worker:
        return treefold.push.attach("words/sum-lines", number, *self.doors, timeout=timeout, **self.trust)

    def push_without_nodes(self) -> None:
        """Nobody takes in a worker."""
        with pytest.raises(treefold.Unreachable):
            self.worker(0, timeout=2)
        with pytest.raises(treefold.InsufficientCoverage) as without:
            self.front.announce("words/sum-lines", next(REQUESTS), [0, 1], patience=1, deadline=20)
        assert without.value.reply is not None and without.value.reply.contributed == []


class Feed:
    """A feed whose mirrors are the holders, and a reader. Event n sets the field of key n modulo 20 to n."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        command = bed.command("mirror", "feed", "flights", "-", "--timeout", "10s")
        self.origin = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=bed.environment)
        self.written = 0
        self.write()
        bed.until(lambda: self.current() == len(HOLDERS))
        self.reader: Reader = bed.client.reader("flights")
        self.state: dict[str, int] = {}
        self.position = 0

    def write(self) -> None:
        assert self.origin.stdin is not None
        for number in range(self.written + 1, self.written + EVENTS + 1):
            event = {"stream": "s", "number": number, "key": f"k{number % KEYS}", "type": "t", "fields": {"at": number}}
            self.origin.stdin.write(json.dumps(event) + "\n")
        self.origin.stdin.flush()
        self.written += EVENTS

    def status(self) -> list[dict[str, Any]]:
        try:
            return self.bed.front.call("flights/status", deadline=DEADLINE, min_coverage=0).value or []
        except treefold.InsufficientCoverage:
            return []

    def current(self) -> int:
        """The mirrors that have all events."""
        return sum(mirror["is_current"] and mirror["position"] == self.written for mirror in self.status())

    def go_on(self, mirrors: int) -> None:
        """Feeds events to so many mirrors. The reader gets every event."""
        self.write()
        begun = self.position
        while self.position < self.written:
            update = self.reader.update(timeout=30)
            if isinstance(update, Begins):
                self.state, begun = {}, update.position
            elif isinstance(update, Complete):
                self.position = begun
            elif isinstance(update, Row):
                self.state[update.key] = update.fields["at"]
            elif isinstance(update, Event):
                assert update.position == self.position + 1
                self.position = update.position
                self.state[update.key] = update.fields["at"]
        last = range(self.written - KEYS + 1, self.written + 1)
        assert self.state == {f"k{number % KEYS}": number for number in last}
        self.bed.until(lambda: self.current() == mirrors, self.status)

    def end(self) -> None:
        """No mirror is left."""
        assert self.origin.stdin is not None
        self.write()
        self.origin.stdin.close()
        assert self.origin.wait(timeout=60) == 4
        give_up_at = time.monotonic() + 1
        with pytest.raises(treefold.TimedOut):
            while True:
                update = self.reader.update(timeout=max(0, give_up_at - time.monotonic()))
                assert not isinstance(update, Event)


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


def cluster(start: Any, folder: Path, relays: int, keys: Optional[Path]) -> Bed:
    trust = ["--keys", str(keys / "node.pem")] if keys else []

    def process(*words: str) -> Any:
        return start("node", "--listen", "127.0.0.1:0", "--accept", "words", *trust, *words)

    front = process()
    at = front.line.rsplit(" ", 1)[1]
    served = services(folder)

    def holder(partition: int) -> Any:
        place = f":partitions={partition}/{len(HOLDERS)}"
        return process("--join", at, *(word for service in served for word in ("--serve", service + place)))

    holders = [holder(partition) for partition in HOLDERS]
    between = [process("--join", at, "--relay") for _ in range(relays)]
    doors = [(between or holders)[place].line.rsplit(" ", 1)[1] for place in (-1, 0)]
    pids = [[program.process.pid for program in programs] for programs in (holders, between)]
    return Bed(at, *pids, doors, **({"keys": keys / "client.pem"} if keys else {}))


def keys_in(folder: Path) -> Path:
    for words in (
        ["init", "--cluster", "seams"],
        ["issue", "node", "node", "--at", "127.0.0.1"],
        ["issue", "node", "origin", "--at", "127.0.0.1", "--may", "join,feed"],
        ["issue", "client", "client", "--may", "call,stream,push,read"],
    ):
        subprocess.run([TREEFOLD, "keys", *words, "--dir", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(params=["cluster", "relays", "certificates", "network", "embedded"])
def bed(request: pytest.FixtureRequest, start: Any, tmp_path: Path) -> Iterator[Bed]:
    if request.param == "network":
        host = f"py{os.getpid()}"
        tree = tmp_path / "tree.top"
        tree.write_text(TREE.replace("HOST", host))
        served = [word for service in services(tmp_path) for word in ("--serve", service)]
        up = start("up", str(tree), "--local", "--token", "a secret", *served)
        line = up.line
        while not line.startswith("TREEFOLD_AT="):
            line = up.process.stdout.readline().strip()
        inner, back_ends = [[pid_of(f"{host}:{place}") for place in places] for places in ([1, 2], [3, 4, 5, 6])]
        yield Bed(line.split("=", 1)[1], back_ends, inner, [], token="a secret")
        return
    keys = keys_in(tmp_path) if request.param == "certificates" else None
    made = cluster(start, tmp_path, 2 if request.param == "relays" else 0, keys)
    if request.param == "embedded":
        with treefold.push.application("words").start(join=[made.at]) as node:
            made.client = node.client()
            yield made
    else:
        yield made


@needs_command
def test_every_use_under_every_fault(bed: Bed) -> None:
    streams = [Waves(bed.client, mode) for mode in SYNC]
    feed = Feed(bed)
    attached = [bed.worker(number) for number in (2, 3)] if bed.doors else []

    def hold(there: list[int]) -> None:
        assert [bed.call(use) for use in USES] == [there] * len(USES)
        if attached:
            bed.push((0, 1))
            bed.push((2, 3), attached)
        for stream in streams:
            stream.reach(there)
        feed.go_on(len(there))

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
    assert [bed.call(use) for use in USES] == [[]] * len(USES)
    if attached:
        bed.push_without_nodes()
    for stream in streams:
        bed.until(lambda: not stream.last or stream.last[-1][0] < time.monotonic() - 2 or stream.last[-1][1] == [])
        assert stream.error is None and not stream.stream.is_closed
        stream.stream.close()
    feed.end()
