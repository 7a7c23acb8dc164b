"""Measures streams over networks that are started from topologies, with inner processes of their own, as in MRNet's figure 7:
start, round trip of one broadcast and one sum, and waves per second, each layout by turns. Prints medians as a table.

    TREEFOLD=target/lean/treefold python3 bench/topologies.py [--backends 16,64] [--topology flat,kary:8] [--repeats 3]

A run that fails is reported on standard error and has no figures. All processes share this machine's processors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

TREEFOLD = os.environ.get("TREEFOLD", "treefold")
RUN_TIMEOUT = 300
#: Figures of a run, each with its heading and its decimals.
FIGURES = [
    ("up_ms", "up, ms", 0),
    ("instantiate_ms", "first exact sum, ms", 0),
    ("roundtrip_us_p50", "round trip p50, µs", 0),
    ("waves_per_s", "waves/s, up only", 0),
    ("front_cpu_us_per_roundtrip", "front-end's CPU, µs: round trip, 16 in flight", 1),
    ("front_cpu_us_per_wave", "wave", 1),
    ("cpu_us_per_roundtrip", "CPU of all, µs: round trip, 16 in flight", 0),
    ("cpu_us_per_wave", "wave", 0),
]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="16,64,128,256", help="numbers of back-ends, separated by commas")
    parser.add_argument("--topology", default="flat,kary:4,kary:8,kary:16", help="layouts, separated by commas")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each network")
    parser.add_argument("--rounds", type=int, default=1000, help="round trips of a run, one at a time")
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each of the two other phases")
    return parser.parse_args()


def measured(backends: str, topology: str, given: argparse.Namespace) -> dict[str, Any] | None:
    """The figures of one run; None if it failed, with the reason on standard error."""
    words = [TREEFOLD, "bench", "stream", "--backends", backends, "--topology", topology, "-o", "json"]
    words += ["--rounds", str(given.rounds), "--seconds", str(given.seconds)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_TIMEOUT, check=False)
    if done.returncode != 0:
        print(f"failed: {backends} back-ends, {topology}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def line(runs: list[dict[str, Any]]) -> str:
    def all_of(name: str) -> str:
        """The figures of all runs: one, unless inner processes were lost and their children went to the front-end."""
        return ", ".join(str(figure) for figure in sorted({run[name] for run in runs}))

    medians = [f"{statistics.median(run[name] for run in runs):,.{digits}f}" for name, _, digits in FIGURES]
    incomplete = sum(run["incomplete_waves"] for run in runs)
    tree = [all_of(name) for name in ("backends", "topology", "inner_processes", "front_children")]
    return "| " + " | ".join([*tree, *medians, str(incomplete), str(len(runs))]) + " |"


def main() -> None:
    given = options()
    networks = [(n, layout) for n in given.backends.split(",") for layout in given.topology.split(",")]
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {network: [] for network in networks}
    for repeat in range(given.repeats):
        for network in networks:
            load = os.getloadavg()[0]
            print(f"run {repeat + 1}/{given.repeats}: {network}, load {load:.1f}", file=sys.stderr)
            if figures := measured(*network, given):
                runs[network].append(figures)
    headings = ["back-ends", "topology", "inner processes", "children of the front-end"]
    headings += [*(heading for _, heading, _ in FIGURES), "incomplete waves", "runs"]
    print("| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|")
    for done in filter(None, runs.values()):
        print(line(done))
    sys.exit(any(len(done) < given.repeats for done in runs.values()))


if __name__ == "__main__":
    main()
