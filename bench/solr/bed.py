"""The testbed: a relay in each rack, shards with agents, a coordinator with a stand, and the experiments with them."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

import load
from network import Network

SOLR_PORT, STAND_PORT, RELAY_PORT = 8983, 8970, 7700
START_SECONDS = 600
CLIENT_EDGES = 5
# Waits for the end of this process, however it ends, and removes its directory. Programs that are dying may still write.
GUARD = "trap '' INT TERM HUP; cat >/dev/null; for try in $(seq 100); do rm -rf -- \"$1\" && break; sleep 0.2; done"


def seconds_of(process):
    """Processor time of a process."""
    with open(f"/proc/{process}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Program:
    """A program that has said that it is ready."""

    def __init__(self, host, arguments, log):
        self.host = host
        with open(log, "w", encoding="utf-8") as errors:
            self.process = host.space.start(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.log = log
        self.said = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.said.put(line)
        self.said.put("")

    def wait(self, beginning):
        """Reads lines until one begins so. Returns the rest of it."""
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                line = self.said.get(timeout=max(0, until - time.monotonic()))
            except queue.Empty:
                line = ""
            if line.startswith(beginning):
                return line[len(beginning):].strip()
            if not line:
                with open(self.log, encoding="utf-8") as errors:
                    raise SystemExit(f"{self.process.args[:4]} did not say {beginning!r}:\n{errors.read()[-2000:]}")

    def seconds(self):
        """Processor time."""
        return seconds_of(self.process.pid)

    def signal(self, number):
        self.process.send_signal(number)


class Bed:
    def __init__(self, options, racks, bridge=None, relays=()):
        """Racks with a relay in each; or one rack at a bridge, behind which there are relays already."""
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="treefold-solr-bed-")
        self.guard = subprocess.Popen(["sh", "-c", GUARD, "guard", self.directory], stdin=subprocess.PIPE, process_group=0)
        self.network = Network(racks, options.relay_mbit)
        self.programs = {}
        if bridge:
            self.network.join(bridge)
        self._plan(racks, has_relays=bool(relays))
        self._start(racks, relays or self._start_relays(racks))

    def _plan(self, racks, has_relays):
        for rack in range(0 if has_relays else racks):
            self.network.plug_in(f"relay{rack}", rack, self.options.relay_mbit)
        for shard in range(self.options.shards):
            self.network.plug_in(f"shard{shard}", shard * racks // self.options.shards, self.options.edge_mbit)
        self.network.plug_in("front", 0, self.options.edge_mbit)
        self.network.plug_in("clients", 0, self.options.edge_mbit * CLIENT_EDGES)

    def _run(self, name, arguments):
        program = Program(self.network.hosts[name], arguments, os.path.join(self.directory, name + ".log"))
        self.programs[name] = program
        return program

    def _java(self, name, heap, *arguments):
        home = os.path.join(self.directory, name)
        host = self.network.hosts[name]
        return self._run(name, [
            "java", f"-Xmx{heap}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-Dsolr.disable.allowUrls=true",
            f"-Dlog4j2.configurationFile={self.options.log4j}", "-cp", self.options.classes, "treefold.solr.BedHost",
            arguments[0], host.address, home, *arguments[1:]])

    def _start_relays(self, racks):
        relays = [self.network.hosts[f"relay{rack}"].address + f":{RELAY_PORT}" for rack in range(racks)]
        for rack, address in enumerate(relays):
            join = ["--join", relays[0]] if rack > 0 else []
            relay = self._run(f"relay{rack}", [
                self.options.treefold, "node", "--listen", address, "--relay", "--rack", f"r{rack}", "--accept", "solr", "--insecure",
                *join])
            relay.wait("listening on ")
        return relays

    def _start(self, racks, relays):
        shards = [self.network.hosts[f"shard{number}"] for number in range(self.options.shards)]
        for number, shard in enumerate(shards):
            own = relays[shard.rack:] + relays[:shard.rack]
            self._java(shard.name, 192, "shard", ",".join(own), str(number), str(self.options.documents),
                       str(self.options.document_bytes))
        for shard in shards:
            self.programs[shard.name].wait("ready")
        front = self._java("front", 1024, "front", ",".join(relays), ",".join(shard.address for shard in shards),
                           str(self.options.deadline))
        each = front.wait("shards=")
        front.wait("ready")
        stand = self.network.hosts["front"].address
        one = f"{stand}:{STAND_PORT}/solr/docs"
        self.shards = {
            "plain": ",".join(f"{shard.address}:{SOLR_PORT}/solr/docs" for shard in shards),
            "folded": each if self.options.addresses == "each" else one,
        }

    def load(self, clients, questions, seed):
        front = self.network.hosts["front"]
        return load.Load(self.network.hosts["clients"].space, front.address, SOLR_PORT, clients, questions, seed)

    def warm(self, seconds, **more):
        """Lets the virtual machines compile what they run: small results, so that no link binds."""
        for shards in self.shards.values():
            running = self.load(8, [load.question(shards, 1, **more)], 0)
            time.sleep(seconds)
            print(f"# warm: {len(running.end()) / seconds:.1f} answers/s with one row", file=sys.stderr, flush=True)

    def measure(self, series, clients, rows, category, seed):
        """One run of closed-loop clients. The first round of answers is not measured, nor those after the window."""
        question = load.question(self.shards[series], rows, category)
        running = self.load(clients, [question], seed)
        running.wait(clients, time.monotonic() + load.PATIENCE_SECONDS)
        skipped, began = len(running.answers), time.monotonic()
        used, carried = self._used(), self.network.carried()
        time.sleep(self.options.seconds)
        running.wait(skipped + self.options.answers + clients, began + self.options.seconds_max)
        ended = time.monotonic()
        seconds, after = ended - began, self.network.carried()
        used = self._used() - used
        given = [answer for answer in running.end() if began <= answer.ended <= ended]
        answers = [answer for answer in given if answer.kind == "whole"]
        latencies = [1000 * (answer.ended - answer.began) for answer in answers]
        wrong = [answer.kind for answer in given if answer.kind != "whole"]
        mbit = {name: max(self._mbit(carried, after, name, way, seconds) / link[2] for way in (0, 1))
                for name, link in after.items() if name != "clients"}
        fullest = max(mbit, key=mbit.get)
        way = max((0, 1), key=lambda way: self._mbit(carried, after, fullest, way, seconds))
        inward = sum(self._mbit(carried, after, f"shard{at}", 1, seconds) for at in range(self.options.shards))
        return {
            "series": series, "clients": clients, "rows": rows, "answers": len(answers), "errors": len(wrong), "error": max(wrong, key=wrong.count, default=""),
            "per_second": round(len(answers) / seconds, 2), "p50_ms": round(load.percentile(latencies, 0.5)),
            "p99_ms": round(load.percentile(latencies, 0.99)), "from_shards_mbit": round(inward, 2),
            "to_front_mbit": round(self._mbit(carried, after, "front", 0, seconds), 2),
            "fullest": f"{fullest} {'in' if way == 0 else 'out'}", "fullest_percent": round(100 * mbit[fullest]),
            "processors": round(used / seconds, 2), "seconds": round(seconds, 1),
        }

    @staticmethod
    def _mbit(before, after, name, way, seconds):
        return (after[name][way] - before[name][way]) * 8 / seconds / 1e6

    def _used(self):
        return sum(program.seconds() for program in self.programs.values() if program.process.poll() is None)

    def close(self):
        for program in self.programs.values():
            program.process.kill()
        for program in self.programs.values():
            program.process.wait()
        self.guard.stdin.close()
        self.guard.wait()


def report(point, **more):
    print(json.dumps({**more, **point}), flush=True)
