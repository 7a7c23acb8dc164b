"""Partitions that are added and dropped while nodes run, and partitions that nodes share among themselves."""

import subprocess
import time
from collections.abc import Callable

import pytest

import treefold
from conftest import TREEFOLD, needs_command

TOTAL = 12
WHOLE = sum(range(TOTAL))
PATIENCE = 60.0


def figures(**options: int) -> treefold.Service:
    service = treefold.Service("figures", total=TOTAL, **options)
    service.aggregation("sum", local=lambda partition, params: partition.data, reduce="sum")
    return service


def summed(node: treefold.Node) -> object:
    """The sum of the partitions that are there; None while none is."""
    try:
        return node.call("figures/sum", min_coverage=0.01).value
    except treefold.InsufficientCoverage:
        return None


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def test_partitions_are_added_and_dropped_by_hand() -> None:
    with figures().start(partitions={0: 0}) as node:
        for id in range(1, TOTAL):
            node.add_partition(id, id)
        assert node.call("figures/sum").value == WHOLE
        node.add_partition(0, 100)
        assert node.call("figures/sum").value == WHOLE + 100
        node.drop_partition(3)
        wait_for(lambda: node.call("figures/sum", min_coverage=0.5).value == WHOLE + 100 - 3)
        with pytest.raises(treefold.InvalidOption, match="does not hold partition 3"):
            node.drop_partition(3)
        with pytest.raises(treefold.InvalidOption, match="12 partitions"):
            node.add_partition(TOTAL, 1)
    with pytest.raises(treefold.Closed):
        node.add_partition(1, 1)


def test_nodes_share_the_partitions_that_a_loader_loads() -> None:
    service = figures()
    loaded: list[int] = []

    @service.loader(replicas=2)
    def load(id: int) -> int:
        loaded.append(id)
        if id == 5 and loaded.count(5) == 1:
            raise OSError("the store does not answer")
        return id

    with service.start(name="first") as first:
        wait_for(lambda: summed(first) == WHOLE)
        assert loaded.count(5) == 2, "it was tried again"
        with service.start(join=[first.addr], name="second") as second:
            wait_for(lambda: len(loaded) == 2 * TOTAL + 1)
            assert second.call("figures/sum").value == WHOLE
        assert first.call("figures/sum").value == WHOLE


@needs_command
def test_node_has_the_name_that_it_was_given() -> None:
    service = figures()
    service.loader(lambda id: id)
    with service.start(name="first", processors=1) as node:
        shown = [TREEFOLD, "placement", "show", "figures", "--at", node.addr]
        assert f"{node.addr} (first)" in subprocess.run(shown, capture_output=True, text=True).stdout


def test_loaders_with_partitions_or_without_a_total_are_refused() -> None:
    with pytest.raises(treefold.InvalidOption, match="1 to 16"):
        figures().loader(replicas=17)
    with pytest.raises(treefold.InvalidOption, match="total"):
        treefold.Service("figures").loader(lambda id: id)
    with pytest.raises(treefold.InvalidOption, match="must take"):
        figures().loader(lambda: 0)
    service = figures()
    service.loader(lambda id: id)
    with pytest.raises(treefold.InvalidOption, match="no partitions of its own"):
        service.start(partitions=[1])
