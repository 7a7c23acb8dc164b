"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import treefold
from conftest import lines, logs


def test_calls_run_side_by_side() -> None:
    service = logs()
    service.aggregation("hold", local=lambda p, s: time.sleep(s) or 1, reduce="sum")  # type: ignore[func-returns-value]

    async def main(addrs: list[str]) -> None:
        async with await treefold.aio.connect(*addrs) as client:
            replies = await asyncio.gather(*(client.call("logs/ready", "error") for _ in range(100)))
            assert [reply.value for reply in replies] == [10] * 100
            slow = asyncio.ensure_future(client.call("logs/hold", 0.5))
            assert (await client.call("logs/ready", "error")).value == 10
            assert not slow.done() and (await slow).value == 4
            own = await client.call("logs/ready", "error", params_for={1: "fine", 3: "nothing has this"})
            assert own.value == 1 + 1 + 3 + 0
            with pytest.raises(treefold.InvalidCall):
                await client.call("nope/x")
            assert len(await client.members()) == 4
        with pytest.raises(treefold.Closed):
            await client.call("logs/ready", "error")
        with pytest.raises(treefold.Unreachable):
            await treefold.aio.connect("127.0.0.1:1")

    with treefold.Cluster.embedded(4, service, lines(), processors=2) as cluster:
        asyncio.run(main(cluster.addrs))


def test_cancelled_task_cancels_the_call(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")

    async def main() -> None:
        client = await treefold.aio.connect(provider.line)
        call = asyncio.ensure_future(client.call("logs/slow", 30, deadline=40, partitions=[0]))
        await asyncio.sleep(0.5)  # until the local runs
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert provider.process.stdout.readline().strip() == "cancelled"


def test_loop_that_ends_before_its_call_harms_nothing(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")

    async def main() -> None:
        client = await treefold.aio.connect(provider.line)
        asyncio.ensure_future(client.call("logs/slow", 0.2, partitions=[0]))
        await asyncio.sleep(0.05)

    asyncio.run(main())
    assert treefold.connect(provider.line).call("logs/matching", "error").value == 4
