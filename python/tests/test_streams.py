"""Streams: front-ends and endpoints of Python."""

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

BASE = {"base": 20.0}


def both(start: Any, *kind: str) -> tuple[Any, Any, treefold.Client]:
    """Two processes with two endpoints each, and a client that sees both."""
    first = start("thermometers.py", "127.0.0.1:0", "", "0,1", *kind)
    second = start("thermometers.py", "127.0.0.1:0", first.line, "2,3", *kind)
    client = treefold.connect(first.line, second.line, direct=True)
    until = time.monotonic() + 10
    while len(client.members()) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    return first, second, client


@pytest.mark.parametrize("kind", ["threads", "async"])
def test_front_end_reads_endpoints_of_two_processes(start: Any, kind: str) -> None:
    first, second, client = both(start, kind)
    with client.stream("thermometers", up_filter="max", params=BASE) as stream:
        assert (stream.endpoints, stream.missing) == ([0, 1, 2, 3], [])
        tags = [stream.send("read") for _ in range(3)]
        waves = [next(stream) for _ in tags]
        assert [wave.tag for wave in waves] == tags == [1, 2, 3]
        assert all((wave.value, wave.contributors, wave.coverage) == (21.5, [0, 1, 2, 3], 1.0) for wave in waves)
        stream.send("read", to=[1], tag=9)
    assert list(stream) == [] and stream.is_closed
    assert [second.process.stdout.readline().strip() for _ in range(2)] == ["over", "over"]
    first.signal(signal.SIGTERM)
    assert first.end() == (0, "")


def test_packet_without_a_tag_follows_the_highest_tag_that_was_chosen(start: Any) -> None:
    provider = start("thermometers.py", "127.0.0.1:0", "", "0,1")
    client = treefold.connect(provider.line, direct=True)
    with client.stream("thermometers", up_filter="max", params=BASE) as stream:
        assert [stream.send("read", tag=1), stream.send("read"), stream.send("read", tag=7), stream.send("read")] == [1, 2, 7, 8]
        assert stream.send("read", tag=5) == 5 and stream.send("read", to=[0, 1], tag=20) == 20 and stream.send("read") == 21
        waves = {wave.tag: wave.value for wave in (stream.wave(timeout=20) for _ in range(7))}
        assert waves == dict.fromkeys([1, 2, 5, 7, 8, 20, 21], 20.5)
        with pytest.raises(treefold.InvalidCall, match="tag is 18446744073709551615; allowed: at most 18446744073709551614"):
            stream.send("read", tag=2**64 - 1)
        assert stream.send("read") == 22


def test_tag_has_one_wave(start: Any) -> None:
    provider = start("thermometers.py", "127.0.0.1:0", "", "0,1")
    client = treefold.connect(provider.line, direct=True)
    with client.stream("thermometers", up_filter="max", params=BASE) as stream:
        for endpoint in (0, 1):
            stream.send("read", to=[endpoint], tag=3)
        shared = stream.wave(timeout=20)
        assert (shared.tag, shared.value, shared.contributors) == (3, 20.5, [0, 1])
        assert [stream.send("read", tag=3), stream.send("read"), stream.send("read")] == [3, 4, 5]
        assert [stream.wave(timeout=20).tag for _ in range(2)] == [4, 5]


def test_stream_outlives_the_names_of_its_client(start: Any) -> None:
    provider = start("thermometers.py", "127.0.0.1:0", "", "0,1")
    stream = treefold.connect(provider.line, direct=True).stream("thermometers", up_filter="max", params=BASE)
    with stream:
        stream.send("read")
        assert stream.wave(timeout=10).value == 20.5


def test_killed_process_is_missing_from_waves_and_the_others_go_on(start: Any) -> None:
    _, second, client = both(start)
    with client.stream("thermometers", up_filter="sum", params=BASE) as stream:
        stream.send("read")
        assert stream.wave().value == 83.0
        second.process.kill()
        stream.send("read")
        wave = stream.wave(timeout=10)
        assert (wave.value, wave.contributors, wave.coverage) == (40.5, [0, 1], 0.5)
        assert wave.missing[0].partitions == (2, 3) and wave.missing[0].reason == "lost"
        assert stream.endpoints == [0, 1] and stream.missing[0].partitions == (2, 3)


@pytest.mark.parametrize("kind", ["threads", "async"])
def test_endpoint_that_fails_is_missing_with_its_exception(start: Any, kind: str) -> None:
    _, _, client = both(start, kind)
    with client.stream("thermometers", up_filter="count", params=BASE, endpoints=[0, 2]) as stream:
        stream.send("fail", to=[2], tag=1)
        changes = (event for event in stream.events() if isinstance(event, treefold.Changed))
        change = next(changes)
        assert change.endpoints == [0]
        (loss,) = change.missing
        assert loss.partitions == (2,) and loss.reason == "local_failed"
        assert loss.detail is not None and loss.detail.startswith("ValueError: broken (File")
        stream.send("read")
        wave = stream.wave()
        while wave.contributors == []:  # the wave of the packet to endpoint 2
            wave = stream.wave()
        assert wave.contributors == [0]


def test_asyncio_front_end(start: Any) -> None:
    first, second, _ = both(start)

    async def main() -> None:
        async with await treefold.aio.connect(first.line, second.line, direct=True) as client:
            while len(await client.members()) < 3:
                await asyncio.sleep(0.02)
            async with await client.stream("thermometers", params=BASE) as stream:
                with pytest.raises(treefold.TimedOut):
                    await stream.wave(timeout=0.05)
                for _ in range(200):  # more than an iterator gives in one turn
                    await stream.send("read")
                tags = []
                async for wave in stream:
                    assert sorted(wave.packets) == [20.0, 20.5, 21.0, 21.5]
                    with pytest.raises(treefold.InvalidReply, match="4 packets"):
                        wave.value
                    tags.append(wave.tag)
                    if len(tags) == 200:
                        stream.close()
                assert tags == list(range(1, 201))
                with pytest.raises(treefold.Closed):
                    await stream.send("read")
                with pytest.raises(treefold.Closed):
                    await stream.wave()

    asyncio.run(main())


@pytest.fixture
def clock() -> Iterator[treefold.Cluster]:
    """Endpoints that send a number every ten milliseconds, as often as the parameters say."""
    service = treefold.Service("clock", total=3)

    @service.endpoint
    def tick(stream: treefold.EndpointStream) -> None:
        for number in range(stream.params):
            stream.send(number)
            time.sleep(0.01)
        stream.recv()

    with treefold.Cluster.embedded(3, service) as cluster:
        yield cluster


def test_cancelled_waits_lose_no_wave(clock: treefold.Cluster) -> None:
    async def main() -> list[int]:
        client = await treefold.aio.connect(*clock.addrs, direct=True)
        seen: list[int] = []
        async with await client.stream("clock", up_filter="max", params=40) as stream:
            while len(seen) < 40:
                try:
                    seen.append((await asyncio.wait_for(stream.__anext__(), 0.003)).value)
                except asyncio.TimeoutError:
                    pass
        return seen

    assert asyncio.run(main()) == list(range(40))
    with clock.client().stream("clock", up_filter="max", params=20) as stream:
        seen: list[int] = []
        while len(seen) < 20:
            try:
                seen.append(stream.wave(timeout=0.003).value)
            except treefold.TimedOut:
                pass
    assert seen == list(range(20))


def test_close_ends_an_iteration_on_another_thread(clock: treefold.Cluster) -> None:
    stream = clock.client().stream("clock", params=0)
    ended = threading.Event()
    reader = threading.Thread(target=lambda: (list(stream), ended.set()), daemon=True)
    reader.start()
    time.sleep(0.1)
    stream.close()
    stream.close()
    assert ended.wait(5)


def test_iteration_ends_with_an_exception_if_the_node_ends() -> None:
    service = treefold.Service("s", total=1)
    service.endpoint(lambda stream: list(stream) and None)
    node = service.start(partitions=[0])
    stream = node.client().stream("s")
    node.stop()
    with pytest.raises(treefold.Closed):
        next(stream)


def test_full_window_holds_up_the_sender_and_loses_nothing() -> None:
    service = treefold.Service("flood", total=1)
    held_up = threading.Event()

    @service.endpoint
    def flood(stream: treefold.EndpointStream) -> None:
        for number in range(50):
            while True:
                try:
                    stream.send([number, b"x" * 1000], timeout=0.05)
                    break
                except treefold.TimedOut:
                    held_up.set()
        stream.recv()

    with treefold.Cluster.embedded(1, service) as cluster, cluster.client().stream("flood", window_bytes=8192) as stream:
        assert held_up.wait(5)
        assert [next(stream).value[0] for _ in range(50)] == list(range(50))


def test_rows_are_typed_packets_for_filters() -> None:
    service = treefold.Service("s", total=3)

    @service.endpoint
    def once(stream: treefold.EndpointStream) -> None:
        id = stream.partition.id
        samples: dict[str, Any] = {"sum": (id, [1.5, id]), "top-k": ([id], [f"p{id}"]), "sum-lines": f"k\t{id}\n"}
        stream.send(samples.get(stream.up_filter, treefold.row(id, "a")))
        stream.recv()

    with treefold.Cluster.embedded(2, service) as cluster:
        client = cluster.client()
        values = {
            name: client.stream("s", up_filter=name, filter_params=params).wave(5).value
            for name, params in [("sum", None), ("top-k", {"k": 2}), ("sum-lines", None)]
        }
        assert values == {"sum": (3, [4.5, 3.0]), "top-k": ([2.0, 1.0], ["p2", "p1"]), "sum-lines": b"k\t3\n"}
        assert sorted(client.stream("s").wave(5).packets) == [(0, "a"), (1, "a"), (2, "a")]


def test_endpoints_beyond_the_limit_of_threads_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treefold._endpoints.THREADS_MAX", 1)
    service = treefold.Service("s", total=2)
    service.endpoint(lambda stream: [stream.send(1, tag=packet.tag) for packet in stream])
    with treefold.Cluster.embedded(1, service) as cluster:
        for _ in range(2):  # a stream that is over frees its thread
            with cluster.client().stream("s", up_filter="count") as stream:
                stream.send()
                wave = stream.wave(5)
                assert wave.value == 1 and "endpoints on threads" in str(wave.missing[0].detail)
            time.sleep(0.2)


def test_service_answers_calls_and_streams() -> None:
    service = treefold.Service("s", total=2)
    service.aggregation("data", local=lambda partition, params: partition.data, reduce="sum")

    @service.endpoint(decode="raw")
    async def echo(stream: treefold.AsyncEndpointStream) -> None:
        async for packet in stream:
            await stream.send([stream.partition.data, packet.value], tag=packet.tag)

    with treefold.Cluster.embedded(2, service, {0: 5, 1: 7}) as cluster:
        assert cluster.call("s/data").value == 12
        with cluster.client().stream("s") as stream:
            stream.send(b"7")
            assert sorted(stream.wave(5).packets) == [[5, b"7"], [7, b"7"]]


def test_endpoint_without_a_thread_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    service = treefold.Service("s", total=2)

    @service.endpoint
    def echo(stream: treefold.EndpointStream) -> None:
        for packet in stream:
            stream.send(packet.value)

    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == "treefold-endpoint-1":
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with treefold.Cluster.embedded(1, service) as cluster:
        for _ in range(2):
            with cluster.client().stream("s", sync=0.2) as stream:
                until = time.monotonic() + 10
                while stream.endpoints != [0] and time.monotonic() < until:
                    stream.send(7)
                    stream.wave(timeout=10)
                (loss,) = stream.missing
                assert loss.partitions == (1,) and "can't start new thread; use `async def`" in str(loss.detail)


def test_missed_packets_are_counted_while_the_endpoint_waits() -> None:
    slow: list[treefold.EndpointStream] = []
    behind, go_on = threading.Event(), threading.Event()
    service = treefold.Service("s", total=2)

    @service.endpoint
    def reading(stream: treefold.EndpointStream) -> None:
        stream.recv()
        if stream.partition.id == 0:
            slow.append(stream)
            behind.set()
            go_on.wait(20)
        for _ in stream:
            pass

    with treefold.Cluster.embedded(2, service) as cluster:
        with cluster.client().stream("s", lag_bytes_max=16384, window_bytes=65536) as stream:
            stream.send(b"x" * 1000)
            assert behind.wait(10)
            until = time.monotonic() + 10
            began = time.monotonic()
            while time.monotonic() < began + 0.5:  # it lags after 50 ms
                stream.send(b"x" * 1000, timeout=10)
                time.sleep(0.001)
            go_on.set()
            while slow[0].missed == 0 and time.monotonic() < until:
                stream.send(b"x" * 1000, timeout=10)
                time.sleep(0.01)
            # By now the endpoint waits for its next packet.
            time.sleep(0.3)
            assert slow[0].missed > 0


def test_wrong_streams_are_named(clock: treefold.Cluster) -> None:
    client = clock.client()
    front = treefold.connect(*clock.addrs)
    for make, error, text in [
        (lambda: front.stream("clock"), treefold.InvalidCall, "direct=True"),
        (lambda: client.stream("nope"), treefold.InvalidCall, "nope"),
        (lambda: client.stream("clock", up_filter="nope"), treefold.InvalidCall, "nope"),
        (lambda: client.stream("clock", up_filter="top-k", filter_params={"k": 0}), treefold.InvalidCall, "not within"),
        (lambda: client.stream("clock", sync="later"), treefold.InvalidCall, "wait-for-all"),
        (lambda: client.stream("clock", sync=0), treefold.InvalidOption, "sync must be seconds above 0, not 0"),
        (lambda: client.stream("clock", sync=-1), treefold.InvalidOption, "sync must be seconds above 0, not -1"),
        (lambda: client.stream("clock", window_bytes=-1), treefold.InvalidOption, "window_bytes must be a whole number"),
        (lambda: client.stream("clock", params=0).send(1, tag=-1), treefold.InvalidOption, "tag must be a whole number"),
        (lambda: client.stream("clock", params=0).send(1, timeout="1"), treefold.InvalidOption, "timeout must be seconds"),
        (lambda: client.stream("clock", params=0).wave(timeout="1"), treefold.InvalidOption, "timeout must be seconds"),
        (lambda: client.stream("clock", shape="round"), treefold.InvalidCall, "shape is round; allowed: auto"),
        (lambda: client.stream("clock", endpoints=[-1]), treefold.InvalidOption, "each of endpoints must be a whole number"),
        (lambda: client.stream("clock", params={1}), treefold.InvalidValue, "a set can't travel"),
        (lambda: client.stream("clock", params=0).send(1, to=[0]), treefold.InvalidOption, "needs a tag"),
        (lambda: treefold.Service("s").endpoint(3), treefold.InvalidOption, "must be a function"),  # type: ignore[call-overload]
        (lambda: treefold.Service("s").endpoint(lambda: 1), treefold.InvalidOption, "must take (stream)"),
    ]:
        with pytest.raises(error) as raised:
            make()  # type: ignore[no-untyped-call]
        assert text in str(raised.value)


@needs_command
def test_command_and_python_are_each_others_front_ends_and_endpoints(start: Any) -> None:
    provider = start("thermometers.py", "127.0.0.1:0", "", "0,1,2,3")
    stream = [TREEFOLD, "stream", "thermometers", "--at", provider.line, "--filter", "max", "--params", '{"base": 20}']
    done = subprocess.run([*stream, "--send", '"read"'], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "wave 1  4 of 4 endpoints\n  f64 21.5\n"), done.stderr

    node = start("node", "--listen", "127.0.0.1:0", "--serve", "micro:partitions=0-2/3")
    client = treefold.connect(node.line.rsplit(" ", 1)[1], direct=True)
    with client.stream("micro", params="echo") as echo:
        echo.send()
        assert sorted(echo.wave(5).packets) == [0, 1, 2]


def test_interrupt_ends_an_iteration(start: Any) -> None:
    provider = start("thermometers.py", "127.0.0.1:0", "", "0,1")
    watcher = start("watcher.py", "stream", provider.line)
    assert watcher.line == "ready"
    time.sleep(0.2)
    watcher.signal(signal.SIGINT)
    assert watcher.process.stdout.readline().strip() == "interrupted"
    assert watcher.end()[0] == 0
    assert provider.process.stdout.readline().strip() == "over"
