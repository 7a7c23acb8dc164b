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

`treefold.aio` has the client for asyncio, `Cluster.embedded` starts nodes in this process, and every
exception is a `TreefoldError`.
"""

from . import aio
from ._client import Client, connect
from ._native import Partition, __version__, cancelled
from ._reply import Missing, Reply, TreeNode
from ._service import Cluster, Node, Service, ready_reduces
from .errors import (
    Busy,
    Closed,
    Denied,
    InsufficientCoverage,
    InvalidCall,
    InvalidOption,
    InvalidReply,
    InvalidValue,
    StartFailed,
    TreefoldError,
    Unreachable,
)

__all__ = [
    "Busy",
    "Client",
    "Closed",
    "Cluster",
    "Denied",
    "InsufficientCoverage",
    "InvalidCall",
    "InvalidOption",
    "InvalidReply",
    "InvalidValue",
    "Missing",
    "Node",
    "Partition",
    "Reply",
    "Service",
    "StartFailed",
    "TreeNode",
    "TreefoldError",
    "Unreachable",
    "aio",
    "cancelled",
    "connect",
    "ready_reduces",
]
