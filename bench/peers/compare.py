"""Runs the peers by turns and prints medians. `bench/peers/run.sh` builds what this needs and calls it.

Each contender is a program that starts its servers, measures, and prints a line of JSON for each kind of partial. In each of
the repeats, all contenders run one after the other, in an order that is drawn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Iterator, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
#: Limit on the time of one run, in seconds.
RUN_SECONDS_MAX = 600.0
#: Figures, and the names that `treefold bench call` has for them.
FIGURES = {
    "roundtrip_us_p50": "roundtrip_us_p50",
    "roundtrip_us_p99": "roundtrip_us_p99",
    "roundtrip_cpu_us": "roundtrip_cpu_us",
    "client_roundtrip_cpu_us": "client_roundtrip_cpu_us",
    "calls_per_s": "waves_per_s",
    "cpu_us_per_call": "cpu_us_per_wave",
    "client_cpu_us_per_call": "client_cpu_us_per_wave",
}
SYSTEMS = ["go", "tonic", "ray", "dask", "treefold", "treefold-python"]


class Contender(NamedTuple):
    """One way of one system. `command` takes the number of nodes."""

    system: str
    label: str
    kinds: list[str]
    command: Callable[[int], list[str]]


def contenders(asked: argparse.Namespace) -> Iterator[Contender]:
    """All contenders whose programs are there, each for the kinds of partials that were asked for."""
    plan = ["--rounds", str(asked.rounds), "--in-flight", str(asked.in_flight), "--seconds", str(asked.seconds)]
    kinds = asked.partials.split(",")

    def run(program: list[str], *more: str, only: list[str] = kinds) -> Callable[[int], list[str]]:
        return lambda nodes: [*program, "--nodes", str(nodes), *plan, "--partials", ",".join(only), *more]

    def of_python(system: str, modes: list[str]) -> Iterator[Contender]:
        script = os.path.join(HERE, "python", f"{system.replace('treefold-python', 'treefold')}_peer.py")
        for mode in modes:
            yield Contender(system, f"{system} {mode}", kinds, run([asked.python, script], "--mode", mode))

    if asked.go:
        yield Contender("go", "go", kinds, run([asked.go]))
    if asked.rust:
        for runtime in ("current", "multi"):
            yield Contender(
                "tonic", f"tonic {runtime}-thread", kinds, run([asked.rust, "tonic"], "--runtime", runtime)
            )
    for shape in asked.shapes.split(","):
        if asked.treefold and "int" in kinds:
            call = [asked.treefold, "-o", "json", "bench", "call", "--shape", shape, *plan]
            yield Contender("treefold", f"treefold {shape}", ["int"], lambda nodes, call=call: [*call, "--nodes", str(nodes)])
        others = [kind for kind in kinds if kind != "int"]
        if asked.rust and others:
            program = run([asked.rust, "treefold"], "--shape", shape, only=others)
            yield Contender("treefold", f"treefold {shape}", others, program)
    if asked.python:
        yield from of_python("ray", asked.ray_modes.split(","))
        yield from of_python("dask", asked.dask_modes.split(","))
        yield from of_python("treefold-python", asked.python_shapes.split(","))


def measured(contender: Contender, nodes: int) -> list[dict[str, Any]]:
    """Runs a contender once. A run that fails has no rows: the others go on, and the result counts it."""
    command = contender.command(nodes)
    try:
        ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=RUN_SECONDS_MAX, check=True, text=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"compare: {error}", file=sys.stderr)
        return []
    rows = []
    for line in ended.stdout.splitlines():
        if not line.startswith("{"):
            continue
        printed = json.loads(line)
        figures = {name: printed.get(name, printed.get(alias)) for name, alias in FIGURES.items()}
        rows.append({"partial": printed.get("partial", "int"), **figures})
    if sorted(row["partial"] for row in rows) != sorted(contender.kinds):
        sys.exit(f"compare: {' '.join(command)} did not print a line for each kind of partial")
    return rows


def medians(nodes: int, kind: str, label: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of one contender, with the spread of the two main figures."""
    middle = {name: statistics.median(row[name] for row in rows) for name in FIGURES}
    server = [row["cpu_us_per_call"] - row["client_cpu_us_per_call"] for row in rows]
    single = [row["roundtrip_cpu_us"] - row["client_roundtrip_cpu_us"] for row in rows]
    spread = {
        f"{name}_range": [min(row[name] for row in rows), max(row[name] for row in rows)]
        for name in ("roundtrip_us_p50", "calls_per_s")
    }
    servers = {
        "servers_cpu_us_per_call": statistics.median(server),
        "servers_roundtrip_cpu_us": statistics.median(single),
    }
    return {"nodes": nodes, "partial": kind, "contender": label, "runs": len(rows), **middle, **servers, **spread}


def table(results: list[dict[str, Any]]) -> str:
    """The medians as Markdown, the quickest round trip first."""
    lines = []
    for nodes, kind in dict.fromkeys((row["nodes"], row["partial"]) for row in results):
        lines += [
            f"\n{nodes} servers, {kind}\n",
            "| | round trip p50, µs | p99, µs | CPU of one call: servers, µs | caller, µs | calls/s | CPU per call: servers, µs | caller, µs |",
            "|---|---|---|---|---|---|---|---|",
        ]
        these = [row for row in results if (row["nodes"], row["partial"]) == (nodes, kind)]
        for row in sorted(these, key=lambda row: row["roundtrip_us_p50"]):
            names = [
                "roundtrip_us_p50", "roundtrip_us_p99", "servers_roundtrip_cpu_us", "client_roundtrip_cpu_us",
                "calls_per_s", "servers_cpu_us_per_call", "client_cpu_us_per_call",
            ]
            lines.append(f"| {row['contender']} | " + " | ".join(f"{row[name]:,.0f}" for name in names) + " |")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/peers/run.sh", description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(SYSTEMS), help="systems, separated by commas (all)")
    parser.add_argument("--nodes", default="16,64", help="numbers of server processes (16,64)")
    parser.add_argument("--partials", default="int,topk", help="kinds of partials (int,topk)")
    parser.add_argument("--shapes", default="kary:8,flat,base", help="shapes of Treefold's trees (kary:8,flat,base)")
    parser.add_argument("--python-shapes", default="kary:8", help="the same for its Python package (kary:8)")
    parser.add_argument("--ray-modes", default="actors,compiled", help="ways of calling with Ray (actors,compiled)")
    parser.add_argument("--dask-modes", default="actors", help="ways of calling with Dask: actors, tasks (actors)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contender (3)")
    parser.add_argument("--rounds", type=int, default=1000, help="calls one after another in a run (1000)")
    parser.add_argument("--in-flight", type=int, default=64, help="calls in flight for the throughput (64)")
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of the throughput measurement (3)")
    parser.add_argument("-o", choices=["text", "json"], default="text", help="output (text)")
    for program in ("go", "rust", "treefold", "python"):
        parser.add_argument(f"--{program}", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if unknown := set(asked.only.split(",")) - set(SYSTEMS):
        parser.error(f"--only: expected {', '.join(SYSTEMS)}, found {', '.join(sorted(unknown))}")
    return asked


def main() -> None:
    asked = arguments()
    chosen = [one for one in contenders(asked) if one.system in asked.only.split(",")]
    if not chosen:
        sys.exit("compare: no contender is left")
    seen: dict[tuple[int, str, str], list[dict[str, Any]]] = {}
    loads: list[float] = []
    failed: list[str] = []
    for repeat in range(asked.repeats):
        for nodes in map(int, asked.nodes.split(",")):
            for contender in random.sample(chosen, len(chosen)):
                loads.append(os.getloadavg()[0])
                began = time.monotonic()
                rows = measured(contender, nodes)
                failed += [f"{contender.label}, {nodes} servers"] * (not rows)
                for row in rows:
                    seen.setdefault((nodes, row["partial"], contender.label), []).append(row)
                    print(json.dumps({"contender": contender.label, "nodes": nodes, **row}), file=sys.stderr)
                took = time.monotonic() - began
                print(
                    f"repeat {repeat + 1}: {contender.label}, {nodes} servers: {took:.0f} s, "
                    f"load average before {loads[-1]:.1f}",
                    file=sys.stderr,
                )
    results = [medians(*key, rows) for key, rows in sorted(seen.items())]
    load = {"median": statistics.median(loads), "min": min(loads), "max": max(loads)}
    if asked.o == "json":
        settings = {name: getattr(asked, name) for name in ("repeats", "rounds", "in_flight", "seconds")}
        print(json.dumps({**settings, "load_average": load, "failed": failed, "results": results}))
        return
    print(f"medians of {asked.repeats} runs; load average before a run: {load['min']:.1f} to {load['max']:.1f}")
    if failed:
        print(f"failed runs: {'; '.join(failed)}")
    print(table(results))


if __name__ == "__main__":
    main()
