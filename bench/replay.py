"""Records the inputs of eight node processes under calls and faults, and replays the recordings: each must decide the same again.

    TREEFOLD=target/release/treefold python3 bench/replay.py [SECONDS]

Eight callers call `micro/sum` over 16 partitions through one gateway, each with a tree of another shape. Meanwhile nodes are killed and
started again, and stopped for 1.5 s, by turns. A node that ended by itself has the hash of all its decisions in its recording; that of a
killed one is read to its last input. A full answer must be the sum of all partitions. The exit code is 1 if a replay differs or an answer
is wrong.
"""

from __future__ import annotations

import collections
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

TREEFOLD = os.environ.get("TREEFOLD", "treefold")
NODES, PARTITIONS = 8, 16
WHOLE = PARTITIONS * (PARTITIONS - 1) // 2
GATEWAY, FIRST_PORT = 7_899, 7_890
SHAPES = ["adaptive", "kary:2", "kary:8", "binomial", "flat", "base", "adaptive", "kary:2"]
START_MAX = 60


class Nodes:
    """Node processes on this machine. Node 0 has the gateway, and no fault befalls it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.starts = 0

    def start(self, number: int) -> None:
        self.starts += 1
        recording = self.folder / f"{self.starts:03}-node{number}.rec"
        words = [TREEFOLD, "node", "--listen", f"127.0.0.1:{FIRST_PORT + number}", "--record", str(recording)]
        words += ["--serve", f"micro:partitions={number},{number + NODES}/{PARTITIONS}"]
        words += ["--join", f"127.0.0.1:{FIRST_PORT}"] if number else ["--gateway", f"127.0.0.1:{GATEWAY}"]
        log = recording.with_suffix(".log").open("wb")
        self.running[number] = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log)

    def kill(self, number: int) -> None:
        self.running[number].kill()
        self.running[number].wait()

    def end(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(60)


class Callers:
    """Threads that call through the gateway, one call after the other each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.count: collections.Counter[str] = collections.Counter()
        self.threads = [threading.Thread(target=self.run, args=(shape,), daemon=True) for shape in SHAPES]
        for thread in self.threads:
            thread.start()

    def run(self, shape: str) -> None:
        while not self.stop.is_set():
            status = ask(shape)
            with self.lock:
                self.count[status] += 1

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(15)


def ask(shape: str) -> str:
    """Makes a call, and returns what became of it."""
    url = f"http://127.0.0.1:{GATEWAY}/v1/call/micro/sum?deadline=400ms&min_coverage=0&shape={shape}"
    request = urllib.request.Request(url, b"null", {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            reply = json.load(answer)
    except urllib.error.HTTPError as error:
        return f"refused with {error.code}"
    except OSError:
        return "no answer"
    return "wrong" if reply["status"] == "full" and reply["value"] != WHOLE else str(reply["status"])


def faults(nodes: Nodes, seconds: float) -> dict[str, int]:
    """Kills and stops nodes by turns until time is up, and returns how often."""
    done = {"kills": 0, "stops": 0}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        killed = 1 + 3 * done["kills"] % (NODES - 1)
        time.sleep(2)
        nodes.kill(killed)
        time.sleep(1)
        nodes.start(killed)
        done["kills"] += 1
        time.sleep(2)
        stopped = 1 + (killed + 2) % (NODES - 1)
        nodes.running[stopped].send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        nodes.running[stopped].send_signal(signal.SIGCONT)
        done["stops"] += 1
    time.sleep(2)
    return done


def replayed(recording: Path) -> bool:
    """Replays a recording, prints what `treefold replay` says of it, and returns whether all decisions are the same."""
    done = subprocess.run([TREEFOLD, "replay", str(recording)], capture_output=True, text=True, check=False)
    said = (done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["nothing"])[-1]
    print(f"{recording.stem}: {said}", flush=True)
    return done.returncode == 0


def run(nodes: Nodes, seconds: float) -> bool:
    for number in range(NODES):
        nodes.start(number)
    end = time.monotonic() + START_MAX
    while ask("adaptive") != "full":
        if time.monotonic() > end:
            raise SystemExit(f"no call was full within {START_MAX} s")
        time.sleep(0.1)
    callers = Callers()
    try:
        done = faults(nodes, seconds)
    finally:
        callers.end()
        nodes.end()
    print(json.dumps({**done, "calls": sum(callers.count.values()), **callers.count}))
    same = [replayed(recording) for recording in sorted(nodes.folder.glob("*.rec"))]
    return all(same) and callers.count["wrong"] == 0


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    # The nodes end with this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder))
        try:
            sys.exit(0 if run(nodes, seconds) else 1)
        finally:
            for process in nodes.running.values():
                process.kill()
                process.wait(30)


if __name__ == "__main__":
    main()
