"""Treefold: one call reaches every partition, and a tree of nodes folds the partial answers on their way up.

A client:

    client = treefold.connect("127.0.0.1:7820")
    reply = client.call("logs/matching", "error", deadline=0.5, min_coverage=0.5)
    print(reply.value, reply.coverage, reply.missing)

A provider:

    service = treefold.Service("logs", total=2)

    @service.local("matching")
    def matching(partition, word):
        return sum(word in line for line in partition.data)

    @service.reduce("matching")
    def add(a, b, word):
        return a + b

    service.serve(listen="127.0.0.1:7820", partitions={0: ["an error", "fine"]})

`Client.stream` opens streams, `treefold.mirrors` has readers of feeds, and `treefold.push` the workers of
applications. `treefold.aio` has all of these for asyncio. `Cluster.embedded` starts nodes in this process, and
`treefold.ray` and `treefold.dask` on the machines of a cluster that is there. Every exception is a
`TreefoldError`. docs/python.md has an example of each.
"""

from . import aio, mirrors, push
from ._client import Client, connect
from ._endpoints import AsyncEndpointStream, EndpointStream, Packet
from ._native import Partition, __version__, cancelled
from ._network import Network, Process
from ._reply import Missing, Reply, TreeNode
from ._row import row
from ._service import Cluster, Node, Service, ready_reduces
from ._slices import Slices
from ._streams import Changed, Stream, Wave
from .errors import (
    Busy,
    Closed,
    Denied,
    InsufficientCoverage,
    InvalidCall,
    InvalidOption,
    InvalidReply,
    InvalidValue,
    RequestOver,
    StartFailed,
    TimedOut,
    TreefoldError,
    Unreachable,
)

__all__ = [
    "AsyncEndpointStream",
    "Busy",
    "Changed",
    "Client",
    "Closed",
    "Cluster",
    "EndpointStream",
    "Denied",
    "InsufficientCoverage",
    "InvalidCall",
    "InvalidOption",
    "InvalidReply",
    "InvalidValue",
    "Missing",
    "Network",
    "Node",
    "Packet",
    "Partition",
    "Process",
    "Reply",
    "RequestOver",
    "Service",
    "Slices",
    "StartFailed",
    "Stream",
    "TimedOut",
    "TreeNode",
    "TreefoldError",
    "Unreachable",
    "Wave",
    "aio",
    "cancelled",
    "connect",
    "mirrors",
    "push",
    "ready_reduces",
    "row",
]
