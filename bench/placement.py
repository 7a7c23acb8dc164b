"""Moves 64 partitions with two replicas among node processes for ten minutes, while nodes join, are drained, leave, die and restart
under calls. Each answer must be full and right, and no more partitions may be loaded than must be. (A node that has just handed a
partition over keeps it for some seconds, and need not load it again if it gets it back.)

    TREEFOLD=target/release/treefold python3 bench/placement.py [MINUTES [SEED]]

The first node has the gateway and is never stopped. An event comes when the partitions have come to rest after the one before.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

TREEFOLD = os.environ.get("TREEFOLD", "treefold")
PARTITIONS, REPLICAS = 64, 2
NODES, NODES_MIN, NODES_MAX = 6, 4, 8
WHOLE = PARTITIONS * (PARTITIONS - 1) // 2
FIRST_PORT, GATEWAY = 7_841, 7_840
#: How long a node that is gone keeps its share (`tuning.placement.replace_after`), in seconds.
REPLACE_AFTER = 5
REST_MAX = 120


class Nodes:
    """Node processes on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.config = folder / "node.toml"
        nanos = REPLACE_AFTER * 1_000_000_000
        self.config.write_text(f"[tuning.placement]\nreplace_after = {nanos}\n")

    def start(self, number: int) -> None:
        addr = f"127.0.0.1:{FIRST_PORT + number}"
        words = [TREEFOLD, "node", "--config", str(self.config), "--listen", addr, "--name", f"node-{number}"]
        words += ["--serve", f"micro:partitions=auto/{PARTITIONS}:replicas={REPLICAS}"]
        words += ["--gateway", f"127.0.0.1:{GATEWAY}"] if number == 0 else ["--join", f"127.0.0.1:{FIRST_PORT}"]
        log = (self.folder / f"{number}.log").open("ab")
        env = {**os.environ, "TREEFOLD_LOG": "warn,treefold=info"}
        self.running[number] = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log, env=env)

    def end(self, number: int, how: signal.Signals) -> None:
        process = self.running.pop(number)
        process.send_signal(how)
        process.wait(30)

    def loads(self) -> int:
        """Loads of partitions so far, over all nodes."""
        return sum(path.read_bytes().count(b"a partition is loaded") for path in self.folder.glob("*.log"))


def treefold(*words: str) -> Any:
    """Runs a command and returns its answer; None if it failed."""
    done = subprocess.run([TREEFOLD, *words, "-o", "json"], capture_output=True, timeout=300, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def holders(nodes: Nodes) -> dict[str, set[str]] | None:
    """The partitions of each running node, by its name, once every partition has its replicas and no more."""
    shown = treefold("placement", "show", "micro", "--at", f"127.0.0.1:{FIRST_PORT}")
    if not shown or len(shown[0]["nodes"]) != len(nodes.running):
        return None
    held = {node["name"]: expanded(node["partitions"]) for node in shown[0]["nodes"]}
    wanted = min(REPLICAS, len(nodes.running)) * PARTITIONS
    whole = not shown[0]["missing"] and not shown[0]["under_replicated"]
    return held if whole and sum(map(len, held.values())) == wanted else None


def expanded(text: str) -> set[str]:
    runs = [run.split("-") for run in text.split(",") if run]
    return {str(number) for run in runs for number in range(int(run[0]), int(run[-1]) + 1)}


def rest(nodes: Nodes) -> dict[str, set[str]]:
    """Waits until the same placement is seen twice."""
    end, before = time.monotonic() + REST_MAX, None
    while time.monotonic() < end:
        time.sleep(2)
        now = holders(nodes)
        if now is not None and now == before:
            return now
        before = now
    raise SystemExit(f"the partitions did not come to rest within {REST_MAX} s")


class Caller(threading.Thread):
    """Calls through the gateway, one call after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.calls = self.partial = self.wrong = self.failed = 0
        self.problems: list[str] = []

    def run(self) -> None:
        url = f"http://127.0.0.1:{GATEWAY}/v1/call/micro/sum?deadline=2s"
        while not self.stop.is_set():
            request = urllib.request.Request(url, b"null", {"Content-Type": "application/json"})
            self.calls += 1
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    reply = json.load(answer)
            except OSError as error:
                self.failed += 1
                self.note(f"{error}")
                continue
            if reply["status"] != "full":
                self.partial += 1
                self.note(json.dumps(reply)[:400])
            elif reply["value"] != WHOLE:
                self.wrong += 1
                self.note(json.dumps(reply)[:400])

    def note(self, problem: str) -> None:
        if len(self.problems) < 10:
            self.problems.append(problem)


def event(nodes: Nodes, chance: random.Random, after: int) -> tuple[str, int]:
    """Lets a node join, be drained, leave, die or restart. Returns the event and the node."""
    others = [number for number in nodes.running if number != 0]
    kinds = ["join"] if len(nodes.running) < NODES_MAX else []
    kinds += ["drain", "leave", "die", "restart"] if len(nodes.running) > NODES_MIN else []
    kind = chance.choice(kinds)
    number = after if kind == "join" else chance.choice(others)
    if kind == "join":
        nodes.start(number)
    elif kind == "drain":
        if treefold("drain", f"127.0.0.1:{FIRST_PORT + number}") is None:
            raise SystemExit(f"node {number} could not be drained")
        nodes.end(number, signal.SIGTERM)
    elif kind == "leave":
        nodes.end(number, signal.SIGTERM)
    else:
        nodes.end(number, signal.SIGKILL)
    if kind == "restart":
        nodes.start(number)
    return kind, number


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder))
        try:
            run(nodes, chance, minutes)
        finally:
            for number in list(nodes.running):
                nodes.end(number, signal.SIGKILL)


def run(nodes: Nodes, chance: random.Random, minutes: float) -> None:
    for number in range(NODES):
        nodes.start(number)
    time.sleep(2)
    before = rest(nodes)
    counted, least, events = nodes.loads(), 0, 0
    print(json.dumps({"event": "start", "nodes": NODES, "loads": counted, "least": REPLICAS * PARTITIONS}), flush=True)
    caller = Caller()
    caller.start()
    end, started = time.monotonic() + 60 * minutes, nodes.loads()
    while time.monotonic() < end:
        kind, number = event(nodes, chance, NODES + events)
        after = rest(nodes)
        # A restarted process has to load its own share again.
        kept = {name: held for name, held in before.items() if not (kind == "restart" and name == f"node-{number}")}
        must = sum(len(held - kept.get(name, set())) for name, held in after.items())
        loads = nodes.loads() - counted
        line = {"event": kind, "node": number, "nodes": len(nodes.running), "loads": loads, "least": must, "calls": caller.calls}
        print(json.dumps(line), flush=True)
        before, counted, least, events = after, counted + loads, least + must, events + 1
    caller.stop.set()
    caller.join(15)
    loads = counted - started
    result = {"events": events, "calls": caller.calls, "not_full": caller.partial, "failed": caller.failed, "wrong": caller.wrong}
    print(json.dumps({**result, "loads": loads, "least": least, "ratio": round(loads / max(least, 1), 3)}))
    for problem in caller.problems:
        print(problem, file=sys.stderr)
    if caller.partial or caller.failed or caller.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
