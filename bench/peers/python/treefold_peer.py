"""Treefold's Python package with the same work: each partition is on a node in a process of its own, and the ready reduces fold.

`--mode` is the shape of the tree.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from typing import Any

import treefold
import treefold.aio
from measure import arguments, measure_async
from work import K, Expected, Partition

#: Limit on the time of a call, in seconds. No call is to exceed it.
DEADLINE = 30.0


def topk(partition: treefold.Partition, _: Any) -> Any:
    rows = partition.data.topk()
    return [score for score, _ in rows], [text for _, text in rows]


def service(total: int) -> treefold.Service:
    made = treefold.Service("peers", total=total)
    made.aggregation("int", local=lambda partition, _: partition.data.int(), reduce="sum")
    made.aggregation("topk", local=topk, reduce="top-k", reduce_params={"k": K})
    return made


def provide(addrs: Any, cluster: str, total: int, join: list[str], number: int) -> None:
    """A process with a node."""
    service(total).serve(
        "127.0.0.1:0", join, {number: Partition(number)}, cluster=cluster, ready=lambda node: addrs.put(node.addr)
    )


async def main() -> None:
    asked = arguments(__doc__)
    shape, cluster = asked.mode or "kary:8", f"peers-{os.getpid()}"
    expected, context = Expected(asked.nodes), multiprocessing.get_context("spawn")
    addrs: list[str] = []
    ready = context.Queue()
    nodes = []
    for number in range(asked.nodes):
        node = context.Process(target=provide, args=(ready, cluster, asked.nodes, addrs[:1], number), daemon=True)
        node.start()
        nodes.append(node)
        if not addrs:
            addrs.append(ready.get(timeout=60))
    for _ in nodes[1:]:
        ready.get(timeout=60)
    client = await treefold.aio.connect(addrs[0], direct=True, cluster=cluster)

    async def call(kind: str) -> None:
        reply = await client.call(f"peers/{kind}", shape=shape, deadline=DEADLINE)
        expected.check(kind, reply.value if kind == "int" else list(zip(*reply.value)))

    for _ in range(1000):
        try:
            await call("int")
            break
        except treefold.TreefoldError:
            await asyncio.sleep(0.02)
    for kind in asked.partials.split(","):
        await measure_async(("treefold-python", shape, kind), asked, lambda: call(kind))
    client.close()
    for node in nodes:
        node.terminate()
    for node in nodes:
        node.join()


if __name__ == "__main__":
    asyncio.run(main())
