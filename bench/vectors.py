"""Measures nearest neighbours: recall, latency and throughput for 1 to 16 partitions, each in a node process of its own.

    TREEFOLD=target/lean/treefold python bench/vectors.py [ROWS [DIMENSIONS [REPEATS]]]

Prints a line of JSON for each number of partitions and each index, the median of interleaved repeats. If usearch and numpy are installed, also the
figures of one usearch index in this process over the same vectors, and whether numpy's exact neighbours are Treefold's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TREEFOLD = os.environ.get("TREEFOLD", "treefold")
PARTITIONS = [1, 2, 4, 8, 16]
QUERIES = 200
K = 10


def run(*words: str) -> str:
    return subprocess.run([TREEFOLD, *words], check=True, capture_output=True, text=True).stdout


class Cluster:
    """A node process for each partition of a service."""

    def __init__(self, service: str, partitions: int) -> None:
        self.nodes: list[subprocess.Popen[str]] = []
        self.addr = ""
        for number in range(partitions):
            words = [TREEFOLD, "node", "--listen", "127.0.0.1:0", "--workers", "1"]
            words += ["--serve", f"{service}:partitions={number}/{partitions}"]
            words += ["--join", self.addr] if self.addr else []
            node = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            self.nodes.append(node)
            line = node.stdout.readline()
            self.addr = self.addr or line.split()[-1]
        while len(json.loads(run("status", "--at", self.addr, "-o", "json"))["members"]) + 1 < partitions:
            time.sleep(0.05)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: Any) -> None:
        for node in self.nodes:
            node.kill()
            node.wait()


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure."""
    numbers = [key for key, value in runs[0].items() if isinstance(value, (int, float))]
    return {key: round(statistics.median(run[key] for run in runs), 4) for key in numbers}


def treefold(folder: Path, repeats: int) -> None:
    stored, queries = folder / "stored.npy", folder / "queries.npy"
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for _ in range(repeats):
        for partitions in PARTITIONS:
            for index in ["exact", f"hnsw:data={folder}/graphs"]:
                with Cluster(f"vectors={stored}:metric=cosine:index={index}", partitions) as cluster:
                    words = ["--queries", str(queries), "--rows", str(QUERIES), "-k", str(K), "--deadline", "20s"]
                    measured = run("vectors", "recall", "--at", cluster.addr, *words, "--in-flight", "16", "-o", "json")
                    runs.setdefault((index.split(":")[0], partitions), []).append(json.loads(measured))
    for (index, partitions), measured in sorted(runs.items()):
        print(json.dumps({"index": index, "partitions": partitions, **median(measured)}), flush=True)


def others(folder: Path, repeats: int) -> None:
    """usearch and numpy over the same vectors, in this process."""
    try:
        import numpy
        from usearch.index import Index
    except ImportError as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return
    stored, queries = numpy.load(folder / "stored.npy"), numpy.load(folder / "queries.npy")[:QUERIES]
    unit = lambda rows: rows / numpy.linalg.norm(rows, axis=1, keepdims=True)  # noqa: E731
    exact = numpy.argsort(1 - unit(queries) @ unit(stored).T, axis=1, kind="stable")[:, :K]
    index = Index(ndim=stored.shape[1], metric="cos", dtype="f32", connectivity=16, expansion_add=128, expansion_search=64)
    begun = time.perf_counter()
    index.add(numpy.arange(len(stored)), stored)
    build_s = time.perf_counter() - begun
    figures = []
    for _ in range(repeats):
        took, hits = [], 0
        for query, expected in zip(queries, exact):
            begun = time.perf_counter()
            found = index.search(query, K)
            took.append(time.perf_counter() - begun)
            hits += len(set(found.keys.tolist()) & set(expected.tolist()))
        figures.append({"recall": hits / exact.size, "ms_p50": statistics.median(took) * 1e3, "build_s": build_s})
    print(json.dumps({"index": "usearch", **median(figures)}), flush=True)
    with Cluster(f"vectors={folder / 'stored.npy'}:metric=cosine", 4) as cluster:
        equal = 0
        for row, expected in enumerate(exact[:50]):
            words = ["--file", str(folder / "queries.npy"), "--row", str(row), "-k", str(K), "-o", "json"]
            answer = json.loads(run("vectors", "nearest", "--at", cluster.addr, "--deadline", "20s", *words))
            equal += [near["row"] for near in answer["value"]["neighbours"]] == expected.tolist()
    print(json.dumps({"exact_answers_equal_to_numpy": equal, "of": 50}), flush=True)


def main() -> None:
    rows, dimensions, repeats = [int(word) for word in sys.argv[1:]] + [100_000, 128, 3][len(sys.argv) - 1 :]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = ["--dimensions", str(dimensions), "--groups", "200"]
        run("vectors", "generate", str(folder / "stored.npy"), "--rows", str(rows), *shape)
        run("vectors", "generate", str(folder / "queries.npy"), "--rows", str(QUERIES), "--skip", str(rows), *shape)
        treefold(folder, repeats)
        others(folder, repeats)


if __name__ == "__main__":
    main()
