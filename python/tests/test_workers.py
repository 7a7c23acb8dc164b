"""Functions in worker processes."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator

import pytest
import treefold

service = treefold.Service("cpu", total=2)


@service.local("spin")
def spin(partition: treefold.Partition, what: Any) -> list[Any]:
    if what == "die" and partition.id == 1:
        os._exit(7)
    if what == "fail" and partition.id == 1:
        raise KeyError("shard")
    if what == "hang":
        time.sleep(60)
    return [[partition.id, partition.data, os.getpid()]]


@service.reduce("spin")
def both(a: list[Any], b: list[Any], what: Any) -> list[Any]:
    return sorted(a + b) + [[-1, "reduced", os.getpid()]]


service.aggregation("count", local=spin, reduce="count")


@pytest.fixture(scope="module")
def node() -> Iterator[treefold.Node]:
    with service.start(partitions={0: "a", 1: "b"}, workers=2) as node:
        yield node


def test_functions_run_in_other_processes(node: treefold.Node) -> None:
    value = node.call("cpu/spin", None, deadline=10).value
    assert [row[:2] for row in value] == [[0, "a"], [1, "b"], [-1, "reduced"]]
    assert os.getpid() not in {row[2] for row in value}
    assert node.call("cpu/count", None, deadline=10).value == 2


def test_worker_that_dies_costs_its_partition_only(node: treefold.Node) -> None:
    reply = node.call("cpu/spin", "die", min_coverage=0.5, deadline=10)
    assert reply.contributed == [0]
    assert reply.missing[0].detail == "the worker process died, exit code 7"
    assert node.call("cpu/spin", None, deadline=10).coverage == 1.0


def test_exception_of_a_worker_is_the_reason(node: treefold.Node) -> None:
    reply = node.call("cpu/spin", "fail", min_coverage=0.5, deadline=10)
    detail = reply.missing[0].detail
    assert detail is not None and detail.startswith("KeyError: 'shard' (File") and detail.endswith("in spin)")


def test_worker_that_hangs_is_replaced_after_the_call(node: treefold.Node) -> None:
    with pytest.raises(treefold.InsufficientCoverage):
        node.call("cpu/spin", "hang", deadline=0.5)
    assert node.call("cpu/spin", None, deadline=20).coverage == 1.0


def test_workers_end_with_their_node() -> None:
    with service.start(partitions=[0, 1], workers=2) as other:
        pids = {row[2] for row in other.call("cpu/spin", None, deadline=10).value}
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_functions_that_cannot_be_imported_are_refused() -> None:
    local = treefold.Service("s", total=1)
    local.aggregation("x", local=lambda partition, params: 1, reduce="sum")
    with pytest.raises(treefold.InvalidOption, match="importable by name"):
        local.start(partitions=[0], workers=1)
    with pytest.raises(treefold.InvalidOption, match="workers is -1; allowed: a whole number from 1 to"):
        local.start(workers=-1)


def test_workers_serve_in_a_program(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1", "2")
    assert treefold.connect(provider.line).call("logs/matching", "error", deadline=10).value == 4
    provider.signal(2)
    assert provider.end() == (0, "")
