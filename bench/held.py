"""Compares shapes of trees of a stream whose front-end has only a share of a processor.

    TREEFOLD=target/release/treefold python3 bench/held.py [BACKENDS] [ROUNDS]

A front-end that other work keeps busy is where trees were first used for tools: it reads and folds what its children send, and in a flat
tree all back-ends are its children. Here it is held to a share of a processor by a control group; its back-ends, one process each, are
not. Each run is one `treefold bench stream`, and the shapes alternate. It needs root's rights, and prints a table of medians as Markdown:
waves and round trips per second, the time of a round trip one at a time, and the front-end's processor time for each wave.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from group import Group

TREEFOLD = os.environ.get("TREEFOLD", "treefold")
SHAPES = ["flat", "kary:16", "kary:8", "kary:4"]
SHARES = [1.0, 0.5, 0.2, 0.1, 0.05]
SECONDS = 3
UP_MAX = 120


def children(process: int) -> int:
    """The number of a process's children."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return sum(len(task.read_text().split()) for task in tasks)


def measure(group: Group, shape: str, backends: int) -> dict[str, float]:
    """Runs one stream, whose front-end is held once all back-ends run."""
    words = [TREEFOLD, "bench", "stream", "--backends", str(backends), "--shape", shape, "-o", "json"]
    words += ["--rounds", "500", "--seconds", str(SECONDS)]
    front = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + UP_MAX
    while children(front.pid) < backends and front.poll() is None:
        if time.monotonic() > until:
            front.terminate()
            front.wait()
            sys.exit(f"error: {backends} back-ends were not up within {UP_MAX} s")
        time.sleep(0.01)
    group.take(front.pid)
    printed, _ = front.communicate()
    if front.returncode != 0:
        sys.exit(f"error: treefold bench stream ended with code {front.returncode}")
    figures: dict[str, float] = json.loads(printed)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("backends", nargs="?", type=int, default=64, help="number of back-ends [64]")
    parser.add_argument("rounds", nargs="?", type=int, default=3, help="runs of each cell [3]")
    wanted = parser.parse_args()
    backends, rounds = wanted.backends, wanted.rounds
    if backends < 1 or rounds < 1:
        parser.error("backends and rounds are at least 1")
    try:
        group = Group(f"treefold-held-{os.getpid()}")
    except OSError as error:
        sys.exit(f"error: can't make a control group, which needs root's rights: {error}")
    runs: dict[tuple[float, str], list[dict[str, float]]] = {}
    try:
        for _ in range(rounds):
            for share in SHARES:
                group.share(share)
                for shape in SHAPES:
                    runs.setdefault((share, shape), []).append(measure(group, shape, backends))
                    print(f"{share:.0%} {shape}: {runs[share, shape][-1]['waves_per_s']:,.0f} waves/s", file=sys.stderr)
    finally:
        group.remove()

    def median(share: float, shape: str, figure: str) -> float:
        return statistics.median(run[figure] for run in runs[share, shape])

    tables = [
        ("waves per second", "waves_per_s", 0),
        ("broadcasts and their folded answers per second, 16 in flight", "roundtrips_per_s", 0),
        ("one round trip at a time, median in ms", "roundtrip_us_p50", 2),
        ("the front-end's processor time for each wave, µs", "front_cpu_us_per_wave", 1),
    ]
    for title, figure, digits in tables:
        print(f"\n{title}, {backends} back-ends:\n")
        print("| | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |")
        print("|---" * (len(SHARES) + 1) + "|")
        for shape in SHAPES:
            scale = 1_000 if figure == "roundtrip_us_p50" else 1
            cells = [f"{median(share, shape, figure) / scale:,.{digits}f}" for share in SHARES]
            print(f"| {shape} | " + " | ".join(cells) + " |")
    incomplete = sum(run["incomplete_waves"] for all_runs in runs.values() for run in all_runs)
    print(f"\n{incomplete:.0f} waves lacked a back-end.")


if __name__ == "__main__":
    main()
