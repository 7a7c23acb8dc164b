"""Round trips with one call in flight, then calls per second with many in flight, as in bench/peers/rust/src/measure.rs."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import time
from collections import deque
from typing import Any, Awaitable, Callable

#: Seconds for which calls are made before the first one is measured.
STEADY_FOR = 1.0
#: Seconds that the pipeline runs before it is measured.
WARM_UP = 0.5
#: Seconds after which no further round trip is begun: some peers take tens of milliseconds for one.
ROUNDS_SECONDS_MAX = 3.0


def arguments(what: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--nodes", type=int, default=16, help="number of workers; each is a process (16)")
    parser.add_argument("--partials", default="int,topk", help="kinds of partials that workers return (int,topk)")
    parser.add_argument("--rounds", type=int, default=1000, help="calls made one after another, at most (1000)")
    parser.add_argument("--in-flight", type=int, default=64, help="calls in flight while throughput is measured (64)")
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of the throughput measurement (3)")
    parser.add_argument("--mode", default="", help="a way of calling that this peer has")
    return parser.parse_args()


def descendants() -> list[int]:
    """The processes that this one started, directly or not."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    found, open_ = [], [os.getpid()]
    while open_:
        open_ += (below := children.get(open_.pop(), []))
        found += below
    return found


def cpu_seconds(process: int) -> float:
    """Processor time of a process. The clock's number is that of clock_getcpuclockid."""
    return time.clock_gettime(~process << 3 | 2)


class Moment:
    """Calls and processor time up to now."""

    def __init__(self, processes: list[int], calls: int) -> None:
        self.own, self.calls = cpu_seconds(os.getpid()), calls
        self.others = {process: cpu_seconds(process) for process in processes if os.path.exists(f"/proc/{process}")}
        self.at = time.perf_counter()

    def until(self, later: "Moment") -> tuple[float, float, float]:
        """Calls per second, and the processor time of a call in microseconds: of all processes, and of this one."""
        calls = later.calls - self.calls
        own = later.own - self.own
        # A process that ended meanwhile, as idle workers of Ray do, does not count.
        others = sum(spent - self.others[process] for process, spent in later.others.items() if process in self.others)
        return calls / (later.at - self.at), 1e6 * (own + others) / calls, 1e6 * own / calls


class Figures:
    """The figures of one kind of partial, in the words of `treefold bench call`."""

    def __init__(self, peer: str, mode: str, kind: str, asked: argparse.Namespace) -> None:
        self.row: dict[str, Any] = {"peer": peer, "mode": mode, "partial": kind, "nodes": asked.nodes}

    def round_trips(self, took: list[float], before: Moment, after: Moment) -> None:
        took.sort()

        def quantile(share: float) -> float:
            return 1e6 * took[max(1, math.ceil(share * len(took))) - 1]

        _, cpu, client = before.until(after)
        self.row.update(rounds=len(took), roundtrip_us_p50=quantile(0.5), roundtrip_us_p99=quantile(0.99))
        self.row.update(roundtrip_cpu_us=cpu, client_roundtrip_cpu_us=client)

    def pipelined(self, in_flight: int, before: Moment, after: Moment) -> None:
        per_s, cpu, client = before.until(after)
        self.row.update(in_flight=in_flight, calls_per_s=per_s, cpu_us_per_call=cpu, client_cpu_us_per_call=client)

    def print(self) -> None:
        print(json.dumps(self.row), flush=True)


def measure(
    names: tuple[str, str, str], asked: argparse.Namespace, begin: Callable[[], Any], end: Callable[[Any], None]
) -> None:
    """Measures a peer whose calls are begun by `begin`; `end` waits for what it returned, and folds. `names` are the peer's,
    its mode's and that of the partials."""
    figures, took, processes = Figures(*names, asked), [], descendants()
    until = time.perf_counter() + STEADY_FOR
    while time.perf_counter() < until:
        end(begin())
    processes = descendants()
    before, until = Moment(processes, 0), time.perf_counter() + ROUNDS_SECONDS_MAX
    while len(took) < asked.rounds and time.perf_counter() < until:
        asked_at = time.perf_counter()
        end(begin())
        took.append(time.perf_counter() - asked_at)
    figures.round_trips(took, before, Moment(processes, len(took)))
    open_, calls = deque(begin() for _ in range(asked.in_flight)), 0

    def run(seconds: float) -> None:
        nonlocal calls
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            end(open_.popleft())
            open_.append(begin())
            calls += 1

    run(WARM_UP)
    before, calls = Moment(processes, 0), 0
    run(asked.seconds)
    figures.pipelined(asked.in_flight, before, Moment(processes, calls))
    while open_:
        end(open_.popleft())
    figures.print()


async def measure_async(
    names: tuple[str, str, str], asked: argparse.Namespace, call: Callable[[], Awaitable[None]]
) -> None:
    """Measures a peer whose calls are coroutines."""
    figures, took = Figures(*names, asked), []
    until = time.perf_counter() + STEADY_FOR
    while time.perf_counter() < until:
        await call()
    processes = descendants()
    before, until = Moment(processes, 0), time.perf_counter() + ROUNDS_SECONDS_MAX
    while len(took) < asked.rounds and time.perf_counter() < until:
        asked_at = time.perf_counter()
        await call()
        took.append(time.perf_counter() - asked_at)
    figures.round_trips(took, before, Moment(processes, len(took)))
    calls, running = 0, True

    async def call_on() -> None:
        nonlocal calls
        while running:
            await call()
            calls += 1

    tasks = [asyncio.create_task(call_on()) for _ in range(asked.in_flight)]
    await asyncio.sleep(WARM_UP)
    before = Moment(processes, calls)
    await asyncio.sleep(asked.seconds)
    after = Moment(processes, calls)
    running = False
    await asyncio.gather(*tasks)
    figures.pipelined(asked.in_flight, before, after)
    figures.print()
