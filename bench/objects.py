"""Serves a search whose index lies in an object store, and cuts the store off for a minute.

    cargo build -p treefold-bench-store
    TREEFOLD=target/release/treefold SERVER=target/debug/s3-server python3 bench/objects.py [FOLDER]

It indexes and uploads FOLDER (this directory if none is given), starts three nodes with 16 partitions and two copies of each, first without
copies on their disks (cold), then with them (warm), and then cuts the store off. During that minute callers ask on, one node is killed and
started again with its copies, and another one without them. At last a node that has the only copy of everything starts while the store is off.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable, Optional

TREEFOLD = os.environ.get("TREEFOLD", "treefold")
SERVER = os.environ.get("SERVER", "s3-server")
PARTITIONS, NODES = 16, 3
GATEWAY, STORE, FIRST_PORT = 7_880, 7_881, 7_882
OUTAGE = float(os.environ.get("OUTAGE", "60"))
PATIENCE = 120


class Store:
    """The store's process."""

    def __init__(self, folder: Path) -> None:
        words = [SERVER, str(folder), f"127.0.0.1:{STORE}"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.environment = dict(self.line().removeprefix("export ").split("=", 1) for _ in range(4))

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def sent(self) -> int:
        self.say("sent")
        return int(self.line())


class Nodes:
    """Node processes. Node 0 has the gateway and no partitions."""

    def __init__(self, folder: Path, store: Store, replicas: int) -> None:
        self.folder, self.replicas = folder, replicas
        self.environment = {**os.environ, **store.environment}
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        words = [TREEFOLD, "node", "--listen", f"127.0.0.1:{FIRST_PORT + number}", "--name", f"node-{number}"]
        if number == 0:
            words += ["--gateway", f"127.0.0.1:{GATEWAY}"]
        else:
            words += ["--join", f"127.0.0.1:{FIRST_PORT}"]
            words += ["--serve", f"search=s3://corpus/docs:partitions=auto/{PARTITIONS}:replicas={self.replicas}:data={self.copies(number)}"]
        log = (self.folder / f"{number}.log").open("ab")
        self.running[number] = subprocess.Popen(words, env=self.environment, stdout=subprocess.DEVNULL, stderr=log)

    def copies(self, number: int) -> Path:
        return self.folder / f"copies-{number}"

    def kill(self, number: int, forget: bool = False) -> None:
        process = self.running.pop(number)
        process.kill()
        process.wait()
        if forget:
            shutil.rmtree(self.copies(number), ignore_errors=True)

    def end(self) -> None:
        for number in list(self.running):
            self.kill(number)

    def held(self) -> Optional[int]:
        """Copies of partitions that are served, by a node's placement."""
        shown = output(["placement", "show", "search", "--at", f"127.0.0.1:{FIRST_PORT + 1}"])
        return shown and sum(node["held"] for node in shown[0]["nodes"])

    def reasons(self, number: int) -> list[str]:
        report = output(["placement", "node", f"127.0.0.1:{FIRST_PORT + number}"])
        return sorted({failure["reason"] for failure in report["services"][0]["failures"]}) if report else []


def output(words: list[str], environment: Optional[dict[str, str]] = None) -> Any:
    done = subprocess.run([TREEFOLD, *words, "-o", "json"], capture_output=True, env=environment, timeout=600, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def until(what: str, holds: Callable[[], bool]) -> float:
    """Waits, and returns the seconds that it took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > PATIENCE:
            raise SystemExit(f"not within {PATIENCE} s: {what}")
        time.sleep(0.1)
    return round(time.monotonic() - began, 2)


def ask() -> tuple[str, Any]:
    """Makes a call. Returns its status, and the answer."""
    url = f"http://127.0.0.1:{GATEWAY}/v1/call/search/topk?deadline=2s&min_coverage=0.01"
    request = urllib.request.Request(url, b'{"query": "partition deadline", "k": 10}', {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            reply = json.load(answer)
            return reply["status"], reply
    except urllib.error.HTTPError as error:
        return "failed", error.read(600).decode(errors="replace")
    except OSError as error:
        return "failed", str(error)


class Caller:
    """A thread that calls on, and counts the statuses."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.stop.is_set():
            status, _ = ask()
            self.count[status] = self.count.get(status, 0) + 1

    def end(self) -> dict[str, int]:
        self.stop.set()
        self.thread.join(15)
        return self.count


def say(step: str, **figures: Any) -> None:
    print(json.dumps({"step": step, **figures}), flush=True)


def start_all(nodes: Nodes, store: Store, step: str) -> None:
    sent = store.sent()
    for number in range(NODES + 1):
        nodes.start(number)
    seconds = until("all copies are served", lambda: nodes.held() == PARTITIONS * nodes.replicas)
    say(step, seconds=seconds, bytes_of_the_store=store.sent() - sent)


def outage(nodes: Nodes, store: Store) -> None:
    caller, began = Caller(), time.monotonic()
    time.sleep(2)
    store.say("off")
    nodes.kill(1)
    time.sleep(3)
    nodes.start(1)
    warm = until("the node with copies serves again", lambda: ask()[0] == "full" and nodes.held() == PARTITIONS * nodes.replicas)
    nodes.kill(2, forget=True)
    time.sleep(3)
    nodes.start(2)
    until("the node without copies says why", lambda: bool(nodes.reasons(2)))
    reasons = nodes.reasons(2)
    time.sleep(max(0.0, OUTAGE - (time.monotonic() - began)))
    alive = all(process.poll() is None for process in nodes.running.values())
    held = nodes.held()
    store.say("on")
    back = until("all copies are served again", lambda: nodes.held() == PARTITIONS * nodes.replicas)
    count = caller.end()
    say("outage", all_alive=alive, restart_with_copies_s=warm, copies_at_its_end=held, reasons=reasons, whole_again_s=back, calls=count)


def alone(folder: Path, store: Store) -> None:
    nodes = Nodes(folder, store, 1)
    store.say("off")
    try:
        nodes.start(0)
        nodes.start(1)
        until("the loads fail", lambda: bool(nodes.reasons(1)))
        status, reply = ask()
        lost = {"status": status, "reply": reply if isinstance(reply, str) else reply.get("missing")}
        ready = nodes.running[1].poll() is None
        store.say("on")
        back = until("it answers in full", lambda: ask()[0] == "full")
        say("no copy anywhere", alive=ready, answer=lost, reasons=nodes.reasons(1), whole_again_s=back)
    finally:
        nodes.end()


def main() -> None:
    corpus = sys.argv[1] if len(sys.argv) > 1 else "."
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "buckets" / "corpus").mkdir(parents=True)
        store = Store(folder / "buckets")
        nodes = Nodes(folder, store, 2)
        try:
            words = ["index", corpus, "--partitions", str(PARTITIONS), "--data", str(folder / "index"), "--to", "s3://corpus/docs"]
            indexed = output(words, nodes.environment)
            say("uploaded", documents=indexed["documents"], **indexed["uploaded"])
            start_all(nodes, store, "cold start")
            nodes.end()
            start_all(nodes, store, "warm start")
            outage(nodes, store)
            nodes.end()
            (folder / "alone").mkdir()
            alone(folder / "alone", store)
        finally:
            nodes.end()
            store.process.kill()


if __name__ == "__main__":
    main()
