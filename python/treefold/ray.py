"""Nodes on a Ray cluster.

    ray.init()
    with treefold.ray.serve(service, {0: "shard-0.parquet", 1: "shard-1.parquet"}, nodes=2) as deployment:
        print(deployment.call("requests/by_host", 100.0).value)

Each node is an actor, so Ray chooses the machines, and ends the nodes with the program that started them. Calls go
to the nodes directly and not through Ray.
"""

from __future__ import annotations

from typing import Any, Optional

import ray as _ray  # type: ignore[import-not-found, unused-ignore]

from ._deployed import Deployment, deal, start, token_or_new
from ._service import Partitions, Service
from .errors import InvalidOption

__all__ = ["serve"]

#: Ray decorates classes in ways that its types do not tell.
ray: Any = _ray

#: Time in which a node stops in order, in seconds; afterwards its actor is ended.
STOP_TIMEOUT = 10.0


class _Holder:
    """An actor that holds a node."""

    def __init__(self, service: Service, join: list[str], held: dict[int, Any], options: dict[str, Any]) -> None:
        self._node = start(service, ray.util.get_node_ip_address(), join, held, options)

    def addr(self) -> str:
        """The node's address."""
        return self._node.addr

    def stop(self) -> None:
        """Stops the node in order."""
        self._node.stop()


def serve(
    service: Service,
    partitions: Optional[Partitions] = None,
    *,
    nodes: int,
    token: Optional[str] = None,
    cluster: Optional[str] = None,
    workers: Optional[int] = None,
    actor_options: Optional[dict[str, Any]] = None,
) -> Deployment:
    """Starts `nodes` nodes of a service as actors of the Ray cluster that this program is connected to.

    `partitions` are dealt out to the nodes in turn; by default, they are all of the service's total. If they are
    a dict, each node gets the data of its own partitions: give paths, and let the locals read them.

    The nodes listen at the addresses that Ray has for their machines, with `token`, or else with a new one.
    `cluster` and `workers` are as in `Service.start`. `actor_options` are those of Ray's actors, such as
    `{"num_cpus": 2}`; by default, an actor takes one processor, and Ray spreads them.

    Raises `InvalidOption`, or Ray's `RayActorError` if a node cannot start.
    """
    if not isinstance(nodes, int) or nodes < 1:
        raise InvalidOption(f"nodes is {nodes!r}; allowed: from 1")
    secret = token_or_new(token)
    options = {"token": secret, "cluster": cluster, "workers": workers}
    actor = ray.remote(_Holder).options(**{"num_cpus": 1, "scheduling_strategy": "SPREAD", **(actor_options or {})})
    actors: list[Any] = []

    def stop() -> None:
        # An actor that is gone has no node to stop.
        ray.wait([actor.stop.remote() for actor in actors], num_returns=len(actors), timeout=STOP_TIMEOUT)
        for actor in actors:
            ray.kill(actor)

    try:
        addrs: list[str] = []
        first, *others = deal(service, partitions, nodes)
        for shares in ([first], others):
            # The first node is there before the others join it.
            join = list(addrs)
            begun = [actor.remote(service, join, held, options) for held in shares]
            actors += begun
            addrs += ray.get([one.addr.remote() for one in begun])
    except BaseException:
        for one in actors:
            ray.kill(one)
        raise
    return Deployment(addrs, secret, stop)
