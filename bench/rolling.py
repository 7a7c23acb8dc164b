"""Restarts eight node processes one after the other, again and again, while callers make 10,000 calls through a gateway on a ninth
node. Each answer must be full and right.

    TREEFOLD=target/release/treefold python3 bench/rolling.py [CALLS]
    TREEFOLD=old/treefold TREEFOLD_NEW=new/treefold python3 bench/rolling.py [CALLS]

Partitions are placed automatically, and each node is drained before it is stopped. With TREEFOLD_NEW, all eight nodes change to the
new program one after the other, then all change back; the gateway's node stays as it is. With BY_HAND=1 each node holds two fixed
eighths of the partitions: this also runs with programs that do not place partitions. A program without the command `drain` is
stopped without it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

OLD = os.environ.get("TREEFOLD", "treefold")
NEW = os.environ.get("TREEFOLD_NEW", "")
BY_HAND = os.environ.get("BY_HAND", "") == "1"
PARTITIONS, REPLICAS, NODES = 64, 2, 8
WHOLE = PARTITIONS * (PARTITIONS - 1) // 2
GATEWAY, FIRST_PORT = 7_860, 7_861
CALLERS = 4
REST_MAX = 120


class Nodes:
    """Node processes on this machine. Node 0 has the gateway and no partitions; the others are 1 to 8."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.program: dict[int, str] = {}

    def addr(self, number: int) -> str:
        return f"127.0.0.1:{FIRST_PORT + number}"

    def start(self, number: int, program: str) -> None:
        words = [program, "node", "--listen", self.addr(number), "--grace", "10s"]
        words += ["--join", ",".join(self.addr(other) for other in range(NODES + 1) if other != number)]
        words += ["--gateway", f"127.0.0.1:{GATEWAY}"] if number == 0 else ["--serve", self.served(number)]
        words += [] if BY_HAND or number == 0 else ["--name", f"node-{number}"]
        log = (self.folder / f"{number}.log").open("ab")
        self.running[number] = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log)
        self.program[number] = program

    def served(self, number: int) -> str:
        if not BY_HAND:
            return f"micro:partitions=auto/{PARTITIONS}:replicas={REPLICAS}"
        eighth = PARTITIONS // NODES
        firsts = [eighth * ((number + offset) % NODES) for offset in range(REPLICAS)]
        return f"micro:partitions={','.join(f'{first}-{first + eighth - 1}' for first in sorted(firsts))}/{PARTITIONS}"

    def restart(self, number: int, program: str) -> None:
        if drains(self.program[number]):
            drained = subprocess.run([self.program[number], "drain", self.addr(number)], capture_output=True, text=True, check=False)
            if drained.returncode != 0:
                raise SystemExit(f"node {number} could not be drained: {drained.stderr}")
        process = self.running.pop(number)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        self.start(number, program)

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(30)


def drains(program: str) -> bool:
    """Tests whether a program has the command `drain`."""
    return subprocess.run([program, "drain", "--help"], capture_output=True, check=False).returncode == 0


def is_whole(nodes: Nodes) -> bool:
    """Tests whether every node sees every node and two copies of every partition. A tree may retry at any node that it runs over."""
    for number in nodes.running:
        asked = [nodes.program[number], "status", "--at", nodes.addr(number), "-o", "json"]
        done = subprocess.run(asked, capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            return False
        status: dict[str, Any] = json.loads(done.stdout)
        held = [member["services"].get("micro", {}).get("partitions", []) for member in [status["node"], *status["members"]]]
        held = [partitions for partitions in held if partitions]
        copies = [sum(partition in partitions for partitions in held) for partition in range(PARTITIONS)]
        if len(status["members"]) != NODES or len(held) != NODES or min(copies) < REPLICAS:
            return False
    return True


def rest(nodes: Nodes) -> None:
    """Waits until the cluster is whole twice in a row, half a second apart."""
    end, before = time.monotonic() + REST_MAX, False
    while time.monotonic() < end:
        time.sleep(0.5)
        now = is_whole(nodes)
        if now and before:
            return
        before = now
    raise SystemExit(f"the cluster was not whole within {REST_MAX} s")


class Callers:
    """Threads that call through the gateway, one call after the other each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.count = {"calls": 0, "full": 0, "partial": 0, "lost": 0, "wrong": 0}
        self.slowest = 0.0
        self.problems: list[str] = []
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def run(self) -> None:
        while not self.stop.is_set():
            began = time.monotonic()
            kind, problem = ask()
            with self.lock:
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.count["calls"] += 1
                self.count[kind] += 1
                if kind != "full" and len(self.problems) < 10:
                    self.problems.append(problem)

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(15)


def ask() -> tuple[str, str]:
    """Makes a call. Returns what became of it, and the answer if it is not full and right."""
    url = f"http://127.0.0.1:{GATEWAY}/v1/call/micro/sum?deadline=2s"
    request = urllib.request.Request(url, b"null", {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            reply = json.load(answer)
    except urllib.error.HTTPError as error:
        return "lost", f"{error}: {error.read(400).decode(errors='replace')}"
    except OSError as error:
        return "lost", f"{error}"
    if reply["status"] != "full":
        return "partial", json.dumps(reply)[:400]
    return ("full", "") if reply["value"] == WHOLE else ("wrong", json.dumps(reply)[:400])


def plan() -> list[tuple[int, str]]:
    """One round: the nodes to restart, and their programs afterwards. It ends with the programs with which it began."""
    every = range(1, NODES + 1)
    if not NEW:
        return [(number, OLD) for number in every]
    half = NODES // 2
    return [(number, NEW) for number in every] + [(number, OLD) for number in every if number > half] + [
        (number, OLD) for number in every if number <= half
    ]


def run(nodes: Nodes, wanted: int) -> dict[str, int]:
    for number in range(NODES + 1):
        nodes.start(number, OLD)
    rest(nodes)
    callers, restarts, began = Callers(), 0, time.monotonic()
    try:
        while callers.count["calls"] < wanted or restarts < len(plan()):
            number, program = plan()[restarts % len(plan())]
            nodes.restart(number, program)
            rest(nodes)
            restarts += 1
            mixed = sum(nodes.program[other] != OLD for other in nodes.running)
            line = {"restart": restarts, "node": number, "of_the_new_program": mixed, **callers.count}
            print(json.dumps(line), flush=True)
    finally:
        callers.end()
    for problem in callers.problems:
        print(problem, file=sys.stderr)
    seconds = round(time.monotonic() - began)
    slowest = round(1_000 * callers.slowest)
    print(json.dumps({"restarts": restarts, "seconds": seconds, "slowest_ms": slowest, **callers.count}))
    return callers.count


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    # The nodes end with this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder))
        try:
            count = run(nodes, wanted)
        finally:
            nodes.end()
    if count["full"] != count["calls"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
