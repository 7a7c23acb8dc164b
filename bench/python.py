"""Measures a reduce over 16 leaves from Python: Treefold beside Ray and Dask, interleaved in one run.

    pip install ./python ray dask distributed numpy
    python bench/python.py [--processes 4] [--rounds 30] [-o json]

Each leaf sums a vector of 1,000 numbers that it holds, and the sums are added up. All systems get the same number
of processes on this machine, and are ready before the first round. In each round every contender makes five calls
one after the other (`--burst`), and the contenders take turns in a random order. The figures are medians over all
calls, with the 10th and the 90th percentile, in milliseconds. With `--burst 1`, each call finds processes that have
slept, and caches that others have filled.

- `treefold`: 16 partitions on nodes in that many processes; locals are Python, the reduce is the ready `sum`.
- `treefold, Python reduce`: the same with a reduce in Python.
- `treefold, embedded`: the nodes in this process, as in a notebook.
- `ray, tree` and `dask, tree`: a task for each leaf, and tasks that add two results each.
- `ray, gather`: actors hold the vectors, and this process adds the 16 results.

A contender whose package is missing is left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Any, Callable, Iterator

import numpy
import treefold

LEAVES = 16
VECTOR = 1_000


def vector(leaf: int) -> Any:
    return numpy.arange(VECTOR, dtype=float) * leaf


EXPECTED = float(sum(vector(leaf).sum() for leaf in range(LEAVES)))

service = treefold.Service("vectors", total=LEAVES)
service.aggregation("ready", local=lambda partition, params: float(partition.data.sum()), reduce="sum")
service.aggregation("python", local=lambda partition, params: float(partition.data.sum()), reduce=lambda a, b, _: a + b)


def provide(addrs: Any, join: list[str], leaves: list[int]) -> None:
    """A process with a node."""
    service.serve(
        "127.0.0.1:0", join, {leaf: vector(leaf) for leaf in leaves}, ready=lambda node: addrs.put(node.addr)
    )


def of_treefold(processes: int, stack: ExitStack) -> Iterator[tuple[str, Callable[[], float]]]:
    context = multiprocessing.get_context("spawn")
    addrs: list[str] = []
    for number in range(processes):
        ready = context.Queue()
        held = list(range(number, LEAVES, processes))
        provider = context.Process(target=provide, args=(ready, addrs[:1], held))
        provider.start()
        stack.callback(provider.join)
        stack.callback(provider.terminate)
        addrs.append(ready.get(timeout=60))
    client = stack.enter_context(treefold.connect(*addrs))
    cluster = stack.enter_context(
        treefold.Cluster.embedded(processes, service, {leaf: vector(leaf) for leaf in range(LEAVES)})
    )
    embedded = cluster.client()
    yield "treefold", lambda: client.call("vectors/ready").value
    yield "treefold, Python reduce", lambda: client.call("vectors/python").value
    yield "treefold, embedded", lambda: embedded.call("vectors/ready").value


def of_ray(processes: int, stack: ExitStack) -> Iterator[tuple[str, Callable[[], float]]]:
    import ray

    ray.init(num_cpus=processes, include_dashboard=False, log_to_driver=False, logging_level="error")
    stack.callback(ray.shutdown)
    held = [ray.put(vector(leaf)) for leaf in range(LEAVES)]
    leaf_sum = ray.remote(lambda data: float(data.sum()))
    add = ray.remote(lambda a, b: a + b)

    class Leaves:
        def __init__(self, leaves: list[int]) -> None:
            self.vectors = {leaf: vector(leaf) for leaf in leaves}

        def sum(self, leaf: int) -> float:
            return float(self.vectors[leaf].sum())

    # Actors take no processor, so that the tasks have all of them.
    made = [
        ray.remote(Leaves).options(num_cpus=0).remote(list(range(number, LEAVES, processes)))
        for number in range(processes)
    ]

    def tree() -> float:
        level = [leaf_sum.remote(data) for data in held]
        while len(level) > 1:
            level = [add.remote(*level[at : at + 2]) for at in range(0, len(level), 2)]
        result: float = ray.get(level[0])
        return result

    yield "ray, tree", tree
    yield "ray, gather", lambda: sum(ray.get([made[leaf % processes].sum.remote(leaf) for leaf in range(LEAVES)]))


def of_dask(processes: int, stack: ExitStack) -> Iterator[tuple[str, Callable[[], float]]]:
    import distributed
    from dask import delayed

    cluster = stack.enter_context(
        distributed.LocalCluster(n_workers=processes, threads_per_worker=1, dashboard_address=None)
    )
    client = stack.enter_context(distributed.Client(cluster))
    held = client.scatter([vector(leaf) for leaf in range(LEAVES)])

    def tree() -> float:
        level = [delayed(lambda data: float(data.sum()), pure=False)(data) for data in held]
        while len(level) > 1:
            level = [delayed(lambda a, b: a + b, pure=False)(*level[at : at + 2]) for at in range(0, len(level), 2)]
        result: float = client.compute(level[0]).result()
        return result

    yield "dask, tree", tree


def measure(contenders: dict[str, Callable[[], float]], rounds: int, burst: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(-max(3, rounds // 10), rounds):
        for name in (name for name in random.sample(list(contenders), len(contenders)) for _ in range(burst)):
            began = time.perf_counter()
            result = contenders[name]()
            took = time.perf_counter() - began
            if result != EXPECTED:
                sys.exit(f"{name}: {result}, expected {EXPECTED}")
            if number >= 0:  # the first rounds warm up
                times[name].append(1000 * took)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4, help="processes of each system (4)")
    parser.add_argument("--rounds", type=int, default=30, help="measured rounds (30)")
    parser.add_argument("--burst", type=int, default=5, help="calls that each makes in a round (5)")
    parser.add_argument("--only", default="", help="systems, separated by commas: treefold,ray,dask")
    parser.add_argument("-o", choices=["text", "json"], default="text", help="output (text)")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else ["treefold", "ray", "dask"]
    with ExitStack() as stack:
        contenders: dict[str, Callable[[], float]] = {}
        for name, of in (("treefold", of_treefold), ("ray", of_ray), ("dask", of_dask)):
            try:
                contenders.update(of(options.processes, stack) if name in chosen else ())
            except ImportError as error:
                print(f"left out: {error}", file=sys.stderr)
        times = measure(contenders, options.rounds, options.burst)
    figures = {
        name: {"median_ms": statistics.median(each), "p10_ms": quantiles[0], "p90_ms": quantiles[8]}
        for name, each in times.items()
        for quantiles in [statistics.quantiles(each, n=10)]
    }
    if options.o == "json":
        settings = {"processes": options.processes, "rounds": options.rounds, "burst": options.burst}
        print(json.dumps({"leaves": LEAVES, **settings, "contenders": figures}))
        return
    calls = options.rounds * options.burst
    print(f"{LEAVES} leaves, {options.processes} processes, {options.rounds} rounds, {calls} calls of each, ms")
    for name, row in sorted(figures.items(), key=lambda item: item[1]["median_ms"]):
        print(f"  {name:24} median {row['median_ms']:8.2f}   p10 {row['p10_ms']:8.2f}   p90 {row['p90_ms']:8.2f}")


if __name__ == "__main__":
    main()
