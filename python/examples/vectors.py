"""Nearest vectors: each partition has an index of usearch, and the nodes keep the best k on the way up.

    python vectors.py serve 127.0.0.1:7820 4 0,1                    serves two of four partitions
    python vectors.py serve 127.0.0.1:7821 4 2,3 127.0.0.1:7820
    python vectors.py ask 127.0.0.1:7820 17                         the five vectors nearest to vector 17 of partition 0

Needs usearch and numpy.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy
import treefold
from usearch.index import Index

VECTORS, DIMENSIONS = 2_000, 32
K = 5


def vectors(partition: int) -> Any:
    """The vectors of one partition: drawn, in place of your embeddings."""
    drawn = numpy.random.default_rng(partition).standard_normal((VECTORS, DIMENSIONS))
    return (drawn / numpy.linalg.norm(drawn, axis=1, keepdims=True)).astype(numpy.float32)


def index_of(partition: int) -> Index:
    index = Index(ndim=DIMENSIONS, metric="cos")
    index.add(numpy.arange(VECTORS), vectors(partition))
    return index


def nearest(partition: treefold.Partition, query: list[float]) -> Any:
    """The best of one partition: scores (1 is the same direction), and names."""
    found = partition.data.search(numpy.array(query, dtype=numpy.float32), K)
    return 1.0 - found.distances.astype(float), [f"{partition.id}/{key}" for key in found.keys]


def serve(addr: str, total: str, held: str, *join: str) -> None:
    service = treefold.Service("vectors", total=int(total))
    service.aggregation("nearest", local=nearest, reduce="top-k", reduce_params={"k": K})
    indexes = {int(id): index_of(int(id)) for id in held.split(",")}
    service.serve(addr, join, indexes, ready=lambda node: print(node.addr, flush=True))


def ask(addr: str, number: str) -> None:
    query = vectors(0)[int(number)]
    reply = treefold.connect(addr).call("vectors/nearest", query, deadline=1, min_coverage=0.5)
    scores, names = reply.value
    for score, name in zip(scores, names):
        print(f"{score:.3f} {name}")
    print(reply)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"serve": serve, "ask": ask}[command](*arguments)
