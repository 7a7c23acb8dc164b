"""The peer: Dask. Each partition is on a worker in a process of its own, and the caller folds the results.

`--mode actors` calls a method of an actor on every worker. The client talks to the workers directly.
`--mode tasks` submits a task for each partition, whose data was scattered to the workers before.
"""

from __future__ import annotations

import asyncio
from typing import Any

import dask
import distributed
from measure import arguments, measure_async
from work import Expected, Partition


#: Dask keeps at most so many connections open, and a call of an actor needs one. With more calls in flight, it opens and closes
#: connections all the time, and with 64 of them over 64 workers calls fail.
CONNECTIONS_MAX = 512


def answer(partition: Partition, kind: str) -> Any:
    return getattr(partition, kind)()


async def main() -> None:
    asked = arguments(__doc__)
    mode = asked.mode or "actors"
    asked.in_flight = max(1, min(asked.in_flight, CONNECTIONS_MAX // asked.nodes))
    dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"})
    expected = Expected(asked.nodes)
    cluster = distributed.LocalCluster(
        n_workers=asked.nodes,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        asynchronous=True,
        silence_logs=50,
    )
    async with cluster, distributed.Client(cluster, asynchronous=True, direct_to_workers=True) as client:
        await client.wait_for_workers(asked.nodes)
        workers = list(cluster.scheduler.workers)
        if mode == "actors":
            begun = [
                client.submit(Partition, number, actor=True, workers=[worker], pure=False)
                for number, worker in enumerate(workers)
            ]
            actors = await asyncio.gather(*begun)

            async def call(kind: str) -> None:
                expected.fold(kind, await asyncio.gather(*(getattr(actor, kind)() for actor in actors)))

        else:
            held = []
            for number, worker in enumerate(workers):
                held += await client.scatter([Partition(number)], workers=[worker], hash=False)

            async def call(kind: str) -> None:
                tasks = client.map(answer, held, kind=kind, pure=False)
                expected.fold(kind, await client.gather(tasks, direct=True))

        for kind in asked.partials.split(","):
            await measure_async(("dask", mode, kind), asked, lambda: call(kind))


if __name__ == "__main__":
    asyncio.run(main())
