#!/usr/bin/env python3
"""Compares full-text search over partitions with plain Solr over the same documents.

Both index the same files, cut into words in the same way, and rank them by BM25. The contenders are one Solr node with one
core, and treefold with one, two, four and eight partitions, each asked over HTTP for the best ten documents, with scores.
treefold is asked in two ways: with each partition's own statistics, and with those of all partitions, which takes two calls
and ranks as one index does. The contenders take turns, with the same queries, after some rounds to warm up. Solr has no cache
of answers, as treefold has none. Needs Maven, a JDK 17 or later, and the command
`treefold` with its gateway.

    python3 bench/search.py --treefold target/release/treefold FOLDER
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHIM = ROOT / "shims/solr"
ENDINGS = {".c", ".h", ".html", ".json", ".md", ".py", ".rs", ".rst", ".sh", ".toml", ".txt"}
FILE_BYTES_MAX = 1 << 20
WORD = re.compile(r"[^\W_]+")
BEST = 10
WARM_UPS = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="a folder with texts; those that end in " + " ".join(sorted(ENDINGS)))
    parser.add_argument("--treefold", default=shutil.which("treefold"), help="the command")
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 2, 4, 8], help="numbers of partitions to compare")
    parser.add_argument("--queries", type=int, default=300, help="queries of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--callers", type=int, default=8, help="callers at a time when throughput is measured")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not options.treefold:
        parser.error("there is no command treefold on PATH; give --treefold")
    with tempfile.TemporaryDirectory(prefix="treefold-search-") as work:
        compare(options, pathlib.Path(work))


def compare(options, work):
    corpus, counts = gather(options.folder, work / "corpus")
    queries = draw(counts, options.queries, random.Random(options.seed))
    contenders = []
    try:
        contenders.append(Solr(work, corpus))
        contenders += [Partitions(work, corpus, count, options.treefold) for count in options.partitions]
        asks = [(f"{it.name}{way}", it, how) for it in contenders for way, how in it.ways()]
        agreement(asks, queries)
        for name, it, how in asks:
            # compiled code and warm files, for all of them
            for _ in range(WARM_UPS):
                throughput(it, how, queries, options.callers)
        figures = collections.defaultdict(lambda: collections.defaultdict(list))
        for _ in range(options.rounds):
            for name, it, how in asks:
                times, processor = one_by_one(it, how, queries)
                figures[name]["times"] += times
                figures[name]["processor"].append(processor / len(queries))
                figures[name]["per_s"].append(throughput(it, how, queries, options.callers))
                figures[name]["memory"].append(it.memory())
        print("| | p50, ms | p99, ms | processor per query, ms | queries per second, "
              f"{options.callers} callers | resident memory, MiB |\n|---|---|---|---|---|---|")
        for name, _, _ in asks:
            of = figures[name]
            times = sorted(of["times"])
            print(f"| {name} | {1e3 * statistics.median(times):.1f} | {1e3 * times[int(0.99 * len(times))]:.1f} | "
                  f"{1e3 * statistics.median(of['processor']):.1f} | {statistics.median(of['per_s']):.0f} | "
                  f"{statistics.median(of['memory']) / 2**20:.0f} |", flush=True)
    finally:
        for contender in contenders:
            contender.end()


def gather(folder, corpus):
    """Links the texts into one folder, so that both index the same files. Returns it, and how often each word occurs."""
    counts, files, size = collections.Counter(), 0, 0
    for path in sorted(folder.rglob("*")):
        if path.suffix not in ENDINGS or path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
            continue
        try:
            text = path.read_text()
        except (UnicodeDecodeError, OSError):
            continue
        if not text.strip() or "\0" in text:
            continue
        copy = corpus / path.relative_to(folder)
        if any(part.startswith(".") for part in copy.relative_to(corpus).parts):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        counts.update({word.lower() for word in WORD.findall(text)})
        files, size = files + 1, size + len(text.encode())
    print(f"{files:,} files, {size / 1e6:.0f} MB", flush=True)
    return corpus, counts


def draw(counts, number, chance):
    """Queries of one to three words, which are drawn by how many documents have them, but for the most frequent ones."""
    words = [(word, count) for word, count in counts.most_common()[50:] if count > 3 and word.isascii() and len(word) > 2]
    weights = [count for _, count in words]
    words = [word for word, _ in words]
    return [chance.choices(words, weights, k=chance.choice([1, 2, 2, 3])) for _ in range(number)]


class Solr:
    name = "Solr"

    def __init__(self, work, corpus):
        subprocess.run(["mvn", "-o", "-q", "-f", ROOT / "shims/pom.xml", "-pl", "push,solr", "test-compile",
                        "dependency:build-classpath", "-Dmdep.outputFile=target/bed.classpath", "-Dmdep.includeScope=test"],
                       check=True)
        target = SHIM / "target"
        classes = f"{target}/classes:{target}/test-classes:{(target / 'bed.classpath').read_text()}"
        home = work / "solr"
        home.mkdir()
        self.process = subprocess.Popen(
            ["java", "-Xmx2g", f"-Dlog4j2.configurationFile={SHIM}/src/test/resources/log4j2.xml", "-cp", classes,
             "treefold.solr.PlainSolr", home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        address = self.process.stdout.readline().strip()
        self.host, path = address.split("/", 1)
        self.path = "/" + path
        began = time.monotonic()
        batch = []
        for path in sorted(corpus.rglob("*")):
            if path.is_file():
                batch.append({"id": str(path.relative_to(corpus)), "body": path.read_text()})
            if len(batch) == 500:
                self._add(batch, False)
                batch = []
        self._add(batch, True)
        print(f"Solr indexed in {time.monotonic() - began:.1f} s", flush=True)

    def _add(self, batch, is_last):
        connection = http.client.HTTPConnection(self.host)
        # one segment, as an index that is read and never written has
        end = "?commit=true&optimize=true" if is_last else ""
        connection.request("POST", f"{self.path}/update{end}", json.dumps(batch), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise SystemExit(f"Solr refuses documents: {reply.read()}")
        reply.read()

    def ways(self):
        return [("", None)]

    def connect(self):
        return http.client.HTTPConnection(self.host)

    def ask(self, connection, words, _):
        connection.request("POST", f"{self.path}/select", json.dumps({
            "query": " ".join(f"body:{word}" for word in words), "limit": BEST, "fields": "id,score",
        }), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        return answer["response"]["numFound"], [(hit["id"], hit["score"]) for hit in answer["response"]["docs"]]

    def pids(self):
        return [self.process.pid]

    def memory(self):
        return sum(resident(pid) for pid in self.pids())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Partitions:
    """One node for one partition, two nodes for more, with a gateway on the first."""

    def __init__(self, work, corpus, count, treefold):
        self.name = f"{count} partition{'s' if count > 1 else ''}"
        self.nodes = []
        half = max(1, count // 2)
        parts = [range(0, half)] + ([range(half, count)] if count > 1 else [])
        ports = [free_port() for _ in range(len(parts) + 1)]
        self.host = f"127.0.0.1:{ports[-1]}"
        for at, ids in enumerate(parts):
            command = [treefold, "node", "--listen", f"127.0.0.1:{ports[at]}", "--cluster", f"search-{count}", "--serve",
                       f"search={corpus}:partitions={ids[0]}-{ids[-1]}/{count}"]
            command += ["--gateway", self.host] if at == 0 else ["--join", f"127.0.0.1:{ports[0]}"]
            self.nodes.append(subprocess.Popen(command, env={**os.environ, "XDG_DATA_HOME": str(work / "data")},
                                               stdout=subprocess.DEVNULL, stderr=open(work / f"node-{count}-{at}.log", "w")))
        until = time.monotonic() + 600
        while time.monotonic() < until:
            try:
                if len(self.ask(self.connect(), ["the"], "own")[1]) > 0 and self._is_whole():
                    return
            except (OSError, KeyError, ValueError, http.client.HTTPException):
                pass
            time.sleep(0.2)
        raise SystemExit(f"{self.name}: no answer; see {work}/node-{count}-0.log")

    def _is_whole(self):
        reply = self._post(self.connect(), "topk?min_coverage=1.0", {"query": "body:the"})
        return reply["coverage"]["contributed"] == reply["coverage"]["asked"]

    def ways(self):
        return [(", own statistics", "own"), (", all statistics", "all")]

    def connect(self):
        return http.client.HTTPConnection(self.host)

    def _post(self, connection, aggregation, params):
        connection.request("POST", f"/v1/call/search/{aggregation}", json.dumps(params), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        body = json.loads(reply.read())
        if reply.status != 200:
            raise ValueError(body)
        return body

    def ask(self, connection, words, how):
        params = {"query": " ".join(f"body:{word}" for word in words)}
        if how == "all":
            params["statistics"] = self._post(connection, "terms", params)["value"]
        params |= {"k": BEST, "snippet_chars": 0}
        answer = self._post(connection, "topk", params)["value"]
        return answer["matched"], [(hit["path"], hit["score"]) for hit in answer["hits"]]

    def pids(self):
        return [node.pid for node in self.nodes]

    def memory(self):
        return sum(resident(pid) for pid in self.pids())

    def end(self):
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.wait()


def agreement(asks, queries):
    """Says how many answers have Solr's ten documents, and its number of matches."""
    (_, solr, how), *others = asks
    connection = solr.connect()
    expected = [solr.ask(connection, words, how) for words in queries]
    for name, it, how in others:
        same = order = matches = 0
        worst = None
        connection = it.connect()
        for words, (found, hits) in zip(queries, expected):
            count, given = it.ask(connection, words, how)
            # BM25 of the two differs by the constant factor k1 + 1
            scores = [score / 2.2 for _, score in given]
            is_equal = all(abs(a - b) <= 1e-4 * b for a, b in zip(scores, [score for _, score in hits]))
            matches += count == found
            same += is_equal and len(given) == len(hits)
            order += [path for path, _ in given] == [path for path, _ in hits]
            if not is_equal and worst is None:
                worst = (words, given[:3], hits[:3])
        print(f"{name}: of {len(queries)} queries, {matches} have Solr's number of matches, {same} its ten scores, "
              f"{order} its ten documents in its order" + (f"; first difference: {worst}" if worst else ""), flush=True)


def one_by_one(it, how, queries):
    connection, times, before = it.connect(), [], processor_s(it.pids())
    for words in queries:
        began = time.monotonic()
        it.ask(connection, words, how)
        times.append(time.monotonic() - began)
    return times, processor_s(it.pids()) - before


def throughput(it, how, queries, callers):
    waiting, lock = list(queries), threading.Lock()

    def call():
        connection = it.connect()
        while True:
            with lock:
                if not waiting:
                    return
                words = waiting.pop()
            it.ask(connection, words, how)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(queries) / (time.monotonic() - began)


def processor_s(pids):
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident(pid):
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


if __name__ == "__main__":
    main()
