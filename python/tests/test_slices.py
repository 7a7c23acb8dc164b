"""Results that are read slice by slice."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, Iterator, Optional

import pytest
import treefold

TOTAL = 4
ROWS = 10_000


def rows(partition: treefold.Partition, params: Any) -> list[int]:
    """The rows of a partition, each as its number."""
    if partition.id == 2 and partition.slice == params:
        raise ValueError("disk gone")
    first = ROWS * partition.slice // partition.slices
    end = ROWS * (partition.slice + 1) // partition.slices
    return [TOTAL * at + partition.id for at in range(first, end)]


def merged(a: list[int], b: list[int], params: Any) -> list[int]:
    return sorted(a + b)


def bulk() -> treefold.Service:
    service = treefold.Service("bulk", total=TOTAL)
    service.local("rows", slices=True)(rows)
    service.reduce("rows")(merged)

    def lines(partition: treefold.Partition, params: Any) -> bytes:
        return "".join(f"{row:06}\n" for row in rows(partition, None)).encode()

    service.aggregation("lines", local=lines, reduce="merge-lines", slices=True)
    service.aggregation("whole", local=rows, reduce=merged)
    return service


@pytest.fixture
def cluster() -> Iterator[treefold.Cluster]:
    with treefold.Cluster.embedded(4, bulk()) as cluster:
        yield cluster


@pytest.mark.parametrize("slices", [1, 7, 100])
def test_slices_are_the_whole_in_order(cluster: treefold.Cluster, slices: int) -> None:
    client = cluster.client()
    each = client.each_slice("bulk/rows", slices=slices, deadline=60)
    assert each.reply is None
    assert [row for some in each for row in some] == list(range(TOTAL * ROWS))
    assert each.taken == slices
    assert each.reply is not None and (each.reply.status, each.reply.coverage) == ("full", 1.0)
    assert list(each) == []
    lines = client.each_slice("bulk/lines", slices=slices, deadline=60, window=2, decode="raw")
    assert b"".join(lines) == b"".join(b"%06d\n" % row for row in range(TOTAL * ROWS))
    assert client.call("bulk/rows", deadline=60).value == list(range(TOTAL * ROWS))


def test_failure_ends_the_slices_or_is_in_the_reply(cluster: treefold.Cluster) -> None:
    each = cluster.client().each_slice("bulk/rows", 5, slices=20, deadline=60)
    with pytest.raises(treefold.InsufficientCoverage, match="disk gone") as raised:
        for _ in each:
            pass
    assert each.taken == 5 and each.reply is None
    assert any(2 in missing.partitions for missing in raised.value.reply.missing)
    each = cluster.client().each_slice("bulk/rows", 5, slices=20, deadline=60, min_coverage=0.5)
    counts = [len(some) for some in each]
    assert counts[4:7] == [2000, 1500, 2000]
    assert each.reply is not None and each.reply.contributed == [0, 1, 3]


def test_wrong_slices_are_refused(cluster: treefold.Cluster) -> None:
    for name, slices, window, says in [
        ("whole", 2, None, "does not make its partials in slices"),
        ("rows", 0, None, "slices is 0"),
        ("rows", 2, 0, "window is 0"),
    ]:
        with pytest.raises(treefold.InvalidCall, match=says):
            next(iter(cluster.client().each_slice(f"bulk/{name}", slices=slices, window=window)))


def test_killed_node_is_missing_from_the_whole(cluster: treefold.Cluster) -> None:
    each = cluster.client().each_slice("bulk/rows", slices=50, deadline=20, min_coverage=0.5)
    first = next(each)
    assert first == list(range(len(first)))
    cluster.kill(3)
    assert sum(len(some) for some in each) > 0
    assert each.reply is not None and each.reply.contributed == [0, 1, 2]


def test_reader_that_stops_leaves_the_rest_unmade() -> None:
    made: list[int] = []
    service = treefold.Service("slow", total=1)

    @service.local("numbers", slices=True)
    def numbers(partition: treefold.Partition, params: Any) -> int:
        made.append(partition.slice)
        return partition.slice

    @service.reduce("numbers")
    def larger(a: int, b: int, params: Any) -> int:
        return max(a, b)

    with treefold.Cluster.embedded(1, service) as cluster:
        with cluster.client().each_slice("slow/numbers", slices=1000, window=3) as each:
            assert [next(each), next(each)] == [0, 1]
            end = time.monotonic() + 20
            while len(made) < 5 and time.monotonic() < end:
                time.sleep(0.01)
            assert cluster.call("slow/numbers").value == 0
            assert sorted(made) == [0, 0, 1, 2, 3, 4]
        assert list(each) == []


def test_slices_are_read_in_asyncio(cluster: treefold.Cluster) -> None:
    async def read() -> tuple[list[int], Optional[treefold.Reply[None]]]:
        client = await treefold.aio.connect(cluster.addrs[1])
        async with client.each_slice("bulk/rows", slices=30, deadline=60) as each:
            return [row async for some in each for row in some], each.reply

    found, reply = asyncio.run(read())
    assert found == list(range(TOTAL * ROWS))
    assert reply is not None and reply.status == "full"


def test_worker_processes_make_slices() -> None:
    with bulk_of_processes().start(partitions=range(TOTAL), workers=2) as node:
        each = node.client().each_slice("bulk/rows", slices=10, deadline=60)
        assert [row for some in each for row in some] == list(range(TOTAL * ROWS))


def bulk_of_processes() -> treefold.Service:
    service = treefold.Service("bulk", total=TOTAL)
    service.aggregation("rows", local=rows, reduce=merged, slices=True)
    return service


def test_many_threads_read_side_by_side(cluster: treefold.Cluster) -> None:
    client, found = treefold.connect(cluster.addrs[0]), []

    def read() -> None:
        found.append(sum(len(some) for some in client.each_slice("bulk/rows", slices=10, deadline=60)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [TOTAL * ROWS] * 4
