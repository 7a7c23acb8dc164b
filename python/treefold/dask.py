"""Nodes on a Dask cluster, one on each worker.

    client = distributed.Client(...)
    with treefold.dask.serve(client, service, {0: "shard-0.parquet", 1: "shard-1.parquet"}) as deployment:
        print(deployment.call("requests/by_host", 100.0).value)

Calls go to the nodes directly and not through Dask.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Mapping, Optional

import distributed  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ._deployed import Deployment, deal, start, token_or_new
from ._service import Node, Partitions, Service
from .errors import InvalidOption, StartFailed

__all__ = ["NodePlugin", "serve"]

#: The nodes of this worker's process, by the plug-in's name and the worker's address.
_nodes: dict[tuple[str, str], Node] = {}


class NodePlugin(distributed.WorkerPlugin):  # type: ignore[misc, unused-ignore]
    """A plug-in of Dask's workers that starts a node on each.

    `shares` are the partitions of each worker, by the worker's name: a worker that is started again under its
    name gets its partitions back. A worker without a share gets no node. `join` are addresses of nodes, `name` is the
    plug-in's, by default that of the service, and `options` are those of `Service.start`.

    `serve` registers it. To do so yourself: `client.register_plugin(NodePlugin(...))`.
    """

    def __init__(
        self,
        service: Service,
        shares: Mapping[Any, Mapping[int, Any]],
        *,
        join: Any = (),
        name: Optional[str] = None,
        **options: Any,
    ) -> None:
        self.name = name or f"treefold-{service.name}"
        self.idempotent = False
        self._service = service
        self._shares = {name: dict(held) for name, held in shares.items()}
        self._join = list(join)
        self._options = options

    async def setup(self, worker: Any) -> None:
        """Starts the worker's node, unless it runs already."""
        key = (self.name, worker.address)
        held = self._shares.get(worker.name)
        if held and key not in _nodes:
            host = worker.address.rpartition("/")[2].rpartition(":")[0].strip("[]")
            _nodes[key] = await asyncio.to_thread(start, self._service, host, self._join, held, self._options)

    async def teardown(self, worker: Any) -> None:
        """Stops the worker's node in order."""
        await _end(self.name, worker)


async def _begin(plugin: NodePlugin, dask_worker: Any) -> str:
    """Runs on a worker: starts its node, and returns the address."""
    await plugin.setup(dask_worker)
    return _nodes[(plugin.name, dask_worker.address)].addr


async def _end(name: str, dask_worker: Any) -> None:
    """Runs on a worker: stops the node of a plug-in in order."""
    node = _nodes.pop((name, dask_worker.address), None)
    if node is not None:
        await asyncio.to_thread(node.stop)


def serve(
    client: Any,
    service: Service,
    partitions: Optional[Partitions] = None,
    *,
    token: Optional[str] = None,
    cluster: Optional[str] = None,
    workers: Optional[int] = None,
) -> Deployment:
    """Starts a node of a service on each worker of a Dask cluster. `client` is a `distributed.Client`.

    `partitions` are dealt out to the workers in turn; by default, they are all of the service's total. If they
    are a dict, each node serves the data of its own partitions. All of the data travels to every worker: give paths, and let
    the locals read them. A worker
    that Dask starts again under its name gets its node and its partitions back; workers that come later get
    none.

    The nodes listen at the workers' addresses, with `token`, or else with a new one. `cluster` and `workers`
    (processes of each node) are as in `Service.start`.

    Raises `InvalidOption`, also if there is no worker or no partition, or `StartFailed` if a node cannot start.
    """
    running = client.scheduler_info(n_workers=-1)["workers"]
    if not running:
        raise InvalidOption("the Dask cluster has no worker; wait for them with client.wait_for_workers(...)")
    secret = token_or_new(token)
    options = {"token": secret, "cluster": cluster, "workers": workers}
    # Two deployments of one service are two plug-ins.
    name = f"treefold-{service.name}-{secrets.token_hex(4)}"
    dealt = zip(running.items(), deal(service, partitions, len(running)))
    shares = {addr: (about["name"], held) for (addr, about), held in dealt if held}

    def plugin(join: list[str]) -> NodePlugin:
        return NodePlugin(service, dict(shares.values()), join=join, name=name, **options)

    def stop() -> None:
        client.unregister_worker_plugin(name)
        client.run(_end, name, on_error="ignore")

    addrs: list[str] = []
    first, *others = shares
    try:
        for these in ([first], others):
            # The first node is there before the others join it.
            if these:
                addrs += client.run(_begin, plugin(addrs), workers=these).values()
        client.register_plugin(plugin(addrs))
    except BaseException as error:
        client.run(_end, name, on_error="ignore")
        if not isinstance(error, Exception):
            raise
        raise StartFailed(f"a node can't start on a worker: {error}") from error
    return Deployment(addrs, secret, stop)
