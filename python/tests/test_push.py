"""Push waves: relays, workers and masters of Python, beside those of the command."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import time
from typing import Any, Iterator

import pytest
import treefold
from conftest import TREEFOLD, needs_command


@pytest.fixture
def relay() -> Iterator[treefold.Node]:
    with treefold.push.application("words").start(relay=True) as node:
        yield node


def test_results_of_workers_are_folded(relay: treefold.Node) -> None:
    client = treefold.connect(relay.addr)
    with treefold.push.attach("words/sum-lines", 0, relay.addr) as first:
        with treefold.push.attach("words/sum-lines", 1, relay.addr) as second:
            first.push(7, "a\t2\n")
            first.push_last(7, "c\t1\n")
            second.push_last(7, b"a\t1\nb\t5\n")
            reply = client.announce("words/sum-lines", 7, range(2), deadline=5)
            assert (reply.value, reply.coverage) == (b"a\t3\nb\t5\nc\t1\n", 1.0)
            first.idle(timeout=5)
            with pytest.raises(treefold.RequestOver):
                first.push(7, "d\t1\n")
            second.fail(8, "disk full")
            first.push_last(8)
            reply = client.announce("words/sum-lines", 8, [0, 1], min_coverage=0.5, deadline=5)
            assert reply.value is None and reply.contributed == [0]
            assert reply.missing[0].detail == "disk full"


@pytest.mark.parametrize(
    "reduce, params, pieces, value",
    [
        ("sum", None, [(1, [2.5]), (2, [1.0])], (3, [3.5])),
        ("average", None, [4, 8], (12, 2)),
        ("count", None, ["x", "y"], 2),
        ("top-k", {"k": 1}, [([1], ["a"]), ([2], ["b"])], ([2.0], ["b"])),
        ("append", None, [b"ab", None], b"ab"),
    ],
)
def test_pieces_are_what_locals_give(
    relay: treefold.Node, reduce: str, params: Any, pieces: list[Any], value: Any
) -> None:
    name = f"words/{reduce}"
    workers = [treefold.push.attach(name, n, relay.addr, reduce_params=params) for n in range(2)]
    for worker, piece in zip(workers, pieces):
        worker.push_last(1, piece)
    assert relay.client().announce(name, 1, range(2), params, deadline=5).value == value


def test_application_with_a_reduce_of_its_own() -> None:
    service = treefold.Service("hits", pushed=True)

    @service.reduce("best")
    def best(a: Any, b: Any, params: Any) -> Any:
        return max(a, b)

    with service.start() as node:
        workers = [treefold.push.attach("hits/best", number, node.addr) for number in range(3)]
        for number, worker in enumerate(workers):
            worker.push_last(5, [number, "x"])
        reply = node.client().announce("hits/best", 5, range(3), deadline=5)
        assert (reply.value, reply.coverage) == ([2, "x"], 1.0)


def test_close_ends_what_waits_for_the_worker(relay: treefold.Node) -> None:
    worker = treefold.push.attach("words/sum-lines", 0, relay.addr)
    worker.push(1, "a\t1\n")
    ended: list[BaseException] = []

    def wait() -> None:
        with pytest.raises(treefold.Closed) as raised:
            worker.idle(timeout=30)
        ended.append(raised.value)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    worker.close()
    thread.join(5)
    assert not thread.is_alive() and len(ended) == 1


def test_asyncio_workers(relay: treefold.Node) -> None:
    async def main() -> None:
        client = await treefold.aio.connect(relay.addr)
        workers = [await treefold.aio.attach("words/sum", n, relay.addr) for n in range(3)]
        announced = asyncio.ensure_future(client.announce("words/sum", 1, range(3), deadline=5))
        await asyncio.gather(*(worker.push_last(1, n) for n, worker in enumerate(workers)))
        assert (await announced).value == 3
        await asyncio.gather(*(worker.idle(timeout=5) for worker in workers))
        for worker in workers:
            worker.close()
        with pytest.raises(treefold.Closed):
            await workers[0].push(2, 1)

    asyncio.run(main())


def test_worker_survives_the_death_of_its_relay(start: Any) -> None:
    first = start("relay.py", "")
    second = start("relay.py", first.line)
    with treefold.push.attach("words/sum-lines", 0, first.line, second.line) as worker:
        worker.push(1, "a\t1\n")
        first.process.kill()
        worker.push_last(1, "b\t1\n")
        client = treefold.connect(second.line)
        reply = client.announce("words/sum-lines", 1, [0], deadline=20, patience=15)
        assert reply.value == b"a\t1\nb\t1\n"


def test_wrong_pushes_are_named(relay: treefold.Node) -> None:
    worker = treefold.push.attach("words/top-k", 0, relay.addr, reduce_params={"k": 2})
    for make, error, text in [
        (lambda: worker.push(1, [1]), treefold.InvalidValue, "expected (scores, payloads)"),
        (lambda: worker.idle(timeout=-1), treefold.InvalidOption, "timeout must be seconds from 0, not -1"),
        (lambda: worker.push(-1, ([1], ["a"])), treefold.InvalidOption, "request must be a whole number from 0 below 2^64"),
        (lambda: worker.fail(2**64, "x"), treefold.InvalidOption, "request must be a whole number"),
        (lambda: relay.client().announce("words/sum", -1, [0]), treefold.InvalidOption, "request must be a whole number"),
        (lambda: relay.client().announce("words/sum", 1, [0], patience="2"), treefold.InvalidOption, "patience must be seconds"),
        (lambda: treefold.push.attach("words", 0, relay.addr, timeout="1"), treefold.InvalidOption, "timeout must be seconds"),
        (lambda: treefold.push.attach("words", 0, relay.addr, kept_bytes_max=-1), treefold.InvalidOption, "kept_bytes_max"),
        (lambda: treefold.push.attach("a/b/c", 0, relay.addr), treefold.InvalidOption, "application/reduce"),
        (lambda: treefold.push.attach("words", -1, relay.addr), treefold.InvalidOption, "worker's number"),
        (lambda: treefold.push.attach("words", 0, "x"), treefold.InvalidOption, "host:port"),
        (lambda: treefold.push.attach("words/top-k", 1, relay.addr, reduce_params={"k": 0}), treefold.InvalidOption, "not within"),
        (lambda: treefold.push.attach("nope", 1, relay.addr, timeout=2), treefold.Unreachable, "nope"),
        (lambda: treefold.push.attach("words", 1, "127.0.0.1:1", timeout=0.2), treefold.Unreachable, "127.0.0.1:1"),
        (lambda: treefold.push.application("words").start(partitions=[0]), treefold.StartFailed, "workers that attach"),
    ]:
        with pytest.raises(error) as raised:
            make()
        assert text in str(raised.value)
    worker.push(1, ([1], ["a"]))
    with pytest.raises(treefold.TimedOut):
        worker.idle(timeout=0.05)
    again = treefold.push.attach("words", 0, relay.addr)
    with pytest.raises(treefold.Closed, match="attached again"):
        worker.idle(timeout=5)
    again.close()


@needs_command
def test_workers_and_masters_of_the_command(start: Any) -> None:
    relay = start("relay.py", "")
    master = [TREEFOLD, "push", "master", "words/sum-lines", "--at", relay.line, "--request", "7", "--expect", "0-1"]
    asked = subprocess.Popen([*master, "--patience", "20s"], stdout=subprocess.PIPE, text=True)
    worker = [TREEFOLD, "push", "worker", "words", "--at", relay.line, "--worker", "0", "--request", "7"]
    other = subprocess.Popen(worker, stdin=subprocess.PIPE, text=True)
    with treefold.push.attach("words/sum-lines", 1, relay.line) as mine:
        mine.push_last(7, "a\t2\nc\t1\n")
        assert other.stdin is not None
        other.communicate("a\t1\nb\t5\n", timeout=20)
        assert asked.communicate(timeout=20)[0] == "a\t3\nb\t5\nc\t1\n"
        mine.idle(timeout=10)


def test_interrupt_ends_a_wait(start: Any) -> None:
    relay = start("relay.py", "")
    watcher = start("watcher.py", "worker", relay.line)
    assert watcher.line == "ready"
    time.sleep(0.2)
    watcher.signal(signal.SIGINT)
    assert watcher.process.stdout.readline().strip() == "interrupted"
    assert watcher.end()[0] == 0
