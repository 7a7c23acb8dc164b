"""Readers of feeds, whose mirrors and origins are processes of the command."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterable, Iterator

import pytest
import treefold
from conftest import TREEFOLD, needs_command
from test_docs import programs
from treefold.mirrors import Begins, Complete, Event, Moved, Row

pytestmark = needs_command


class Feed:
    """Two mirrors, and an origin that takes events over TCP. Event i concerns key i modulo 20."""

    def __init__(self, start: Any) -> None:
        self.mirrors: list[Any] = []
        for number in range(2):
            join = [word for mirror in self.addrs for word in ("--join", mirror)]
            serve = f"mirror=flights:partitions={number}/2"
            self.mirrors.append(start("node", "--listen", "127.0.0.1:0", "--serve", serve, *join))
        feed = [TREEFOLD, "mirror", "feed", "flights", "tcp:127.0.0.1:0", "--at", ",".join(self.addrs), "-o", "json"]
        self.origin = subprocess.Popen(feed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self.origin.stderr is not None
        self.source = self.origin.stderr.readline().rpartition("tcp:")[2].strip()
        self.events = 0
        self.feed(100)

    @property
    def addrs(self) -> list[str]:
        return [mirror.line.rsplit(" ", 1)[1] for mirror in self.mirrors]

    def feed(self, events: int) -> None:
        """Sends events, and waits until they are acknowledged."""
        host, port = self.source.split(":")
        last = self.events + events
        with socket.create_connection((host, int(port)), timeout=20) as source, source.makefile("rw") as lines:
            for number in range(self.events + 1, last + 1):
                fields = {"altitude": number, "gate": None if number % 3 else "A1"}
                event = {"stream": "radar", "number": number, "key": f"DL{number % 20}", "type": "position"}
                lines.write(json.dumps({**event, "fields": fields, "body": f"body {number}"}) + "\n")
            lines.flush()
            while json.loads(lines.readline())["acknowledged"]["radar"] < last:
                pass
        self.events = last


@pytest.fixture
def feed(start: Any) -> Iterator[Feed]:
    made = Feed(start)
    yield made
    made.origin.kill()
    made.origin.communicate()


def until_event(updates: Iterable[Any], number: int) -> list[Any]:
    """The updates up to an event."""
    seen = []
    for update in updates:
        seen.append(update)
        if isinstance(update, Event) and update.number == number:
            break
    return seen


def test_reader_gets_a_snapshot_and_then_every_event_over_a_dead_mirror(feed: Feed) -> None:
    client = treefold.connect(*feed.addrs, direct=True)
    with client.reader("flights") as reader:
        begins, *rows = [next(reader) for _ in range(21)]
        assert isinstance(begins, Begins) and (begins.position, begins.because) == (100, None)
        assert reader.time is None
        assert {row.key: row.fields for row in rows} == {
            f"DL{number % 20}": {"altitude": number} if number % 3 else {"altitude": number, "gate": "A1"}
            for number in range(81, 101)
        }
        assert all(isinstance(row, Row) and row.body == b"body %d" % row.position for row in rows)
        complete = next(reader)
        assert isinstance(complete, Complete) and complete.time == reader.time == "flights=1.100;radar=100"

        feed.feed(100)
        for number in range(101, 151):
            event = next(e for e in reader if isinstance(e, Event))
            assert (event.number, event.position, event.key) == (number, number, f"DL{number % 20}")
            assert event.fields["altitude"] == number and event.body == b"body %d" % number
            assert (event.type, event.stream, event.epoch) == ("position", "radar", 1) and event.sent_ms > 1e12
            assert reader.time is not None and reader.time.startswith(f"flights=1.{number};")

        # The mirror that the reader follows dies. The reader goes on at the other one.
        assert reader.mirror is not None
        feed.mirrors[reader.mirror].process.kill()
        feed.feed(50)
        seen = until_event(reader, 250)
        assert [update.number for update in seen if isinstance(update, Event)] == list(range(151, 251))
        assert any(isinstance(update, Moved) for update in seen)
        time = reader.time
    assert list(reader) == [] and reader.time == time


def test_later_reader_goes_on_after_an_earlier_one(feed: Feed) -> None:
    client = treefold.connect(*feed.addrs, direct=True)
    with client.reader("flights") as reader:
        next(update for update in reader if isinstance(update, Complete))
        feed.feed(10)
        assert until_event(reader, 105)[-1].number == 105
        time = reader.time
    again = client.reader("flights", after=time)
    assert [update.number for update in until_event(again, 110)] == [106, 107, 108, 109, 110]


def test_reader_without_mirrors_is_unreachable_and_keeps_its_place(feed: Feed) -> None:
    client = treefold.connect(*feed.addrs, direct=True)
    reader = client.reader("flights", patience=0.5)
    complete = next(update for update in reader if isinstance(update, Complete))
    for mirror in feed.mirrors:
        mirror.process.kill()
    for _ in range(2):  # asking again continues the search
        with pytest.raises(treefold.Unreachable, match="no mirror of flights"):
            while True:
                next(reader)
    assert reader.time == complete.time


def test_asyncio_reader_loses_nothing_by_cancellations(feed: Feed) -> None:
    async def main() -> None:
        async with await treefold.aio.connect(*feed.addrs, direct=True) as client:
            reader = await client.reader("flights", prefixes=["DL1"], types=["position"])
            async for update in reader:
                if isinstance(update, Complete):
                    break

            def feed_slowly() -> None:
                for _ in range(20):
                    feed.feed(20)
                    time.sleep(0.01)

            fed = asyncio.create_task(asyncio.to_thread(feed_slowly))
            seen: list[int] = []
            cancelled = 0
            while not seen or seen[-1] != 499:
                try:
                    update = await asyncio.wait_for(reader.__anext__(), 0.002)
                except asyncio.TimeoutError:
                    cancelled += 1
                    continue
                if isinstance(update, Event):
                    seen.append(update.number)
            assert seen == [n for n in range(101, 501) if f"DL{n % 20}".startswith("DL1")] and cancelled
            await fed
            with pytest.raises(treefold.TimedOut):
                while True:
                    await reader.update(timeout=0.05)
            reader.close()
            with pytest.raises(treefold.Closed):
                await reader.update()

    asyncio.run(main())


def test_wrong_readers_are_named(feed: Feed) -> None:
    client = treefold.connect(*feed.addrs, direct=True)
    front = treefold.connect(*feed.addrs)
    for make, error, text in [
        (lambda: front.reader("flights"), treefold.InvalidCall, "direct=True"),
        (lambda: client.reader("no feed"), treefold.InvalidOption, "`no feed` is not a name"),
        (lambda: client.reader("flights", after="x"), treefold.InvalidOption, "after: "),
        (lambda: client.reader("flights", after="other=1.1"), treefold.InvalidOption, "no component of the feed"),
        (lambda: client.reader("flights", keys="DL1"), treefold.InvalidOption, "keys must be a list"),
        (lambda: client.reader("flights", keys=[""]), treefold.InvalidOption, "key has 0 bytes"),
        (lambda: client.reader("other", patience=0.2), treefold.Unreachable, "no mirror of other"),
    ]:
        with pytest.raises(error) as raised:
            make()
        assert text in str(raised.value)


def test_interrupt_ends_an_iteration(start: Any, feed: Feed) -> None:
    watcher = start("watcher.py", "reader", feed.addrs[0])
    assert watcher.line == "ready"
    time.sleep(0.2)
    watcher.signal(signal.SIGINT)
    assert watcher.process.stdout.readline().strip() == "interrupted"
    assert watcher.end()[0] == 0


def test_program_of_the_page_goes_on_after_an_interrupt(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "watch.py").write_text(programs("docs/python.md")["watch.py"])

    def watch(*after: str) -> Any:
        command = [sys.executable, tmp_path / "watch.py", ",".join(feed.addrs), *after]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    first = watch()
    lines = [first.stdout.readline() for _ in range(21)]
    assert lines[-1] == "complete at flights=1.100;radar=100\n" and all(line.startswith("DL") for line in lines[:-1])
    first.send_signal(signal.SIGINT)
    rest = first.communicate(timeout=10)[0].splitlines()
    assert rest[-1].startswith("go on with flights=1.100") and first.returncode == 0
    feed.feed(1)
    second = watch(rest[-1].split()[-1])
    assert second.stdout.readline().startswith("DL1 {'altitude': 101")
    second.send_signal(signal.SIGINT)
    assert second.communicate(timeout=10)[0].startswith("go on with flights=1.101")
