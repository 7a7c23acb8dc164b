"""Measures SQL over partitions: TPC-H queries over one table, from 1 to 16 partitions, beside DuckDB over the whole.

    pip install './python[sql]' tpchgen-cli
    python bench/sql.py [--scale 1] [--nodes 4] [--rounds 15] [--callers 4] [-o json]

The table `lineitem` is generated in 16 files, which are dealt out to the partitions. Partitions are spread over nodes
in processes of their own, each with one thread of DuckDB; with fewer partitions than nodes, there are as many nodes as
partitions. All clusters run from the beginning to the end. In each round, every contender answers every query once, in
a random order, so that other work on the machine meets all of them. Then `--callers` clients ask as fast as they can
for a second each time, again in turns.

- `DuckDB`: one process that has all files, with as many threads as the machine has processors.
- `1 partition` … `16 partitions`: latency of a query, with the schema kept by the client, the processor time of the
  client and all nodes for it, and queries per second of all callers.

The answers are compared with DuckDB's: equal, floating-point numbers up to 1e-9 of their size.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import duckdb
import treefold
import treefold.sql

FILES = 16
PARTITIONS = (1, 2, 4, 8, 16)
SCRIPTS = Path(sysconfig.get_path("scripts"))

QUERIES = {
    "Q1": """select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
        sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
        avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
        from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    "Q6": """select sum(l_extendedprice * l_discount) as revenue from lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
        and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24""",
    "Q15, its view": """select l_suppkey, sum(l_extendedprice * (1 - l_discount)) as total_revenue from lineitem
        where l_shipdate >= date '1996-01-01' and l_shipdate < date '1996-01-01' + interval '3' month
        group by l_suppkey order by total_revenue desc, l_suppkey limit 10""",
}

Ask = Callable[[str], Any]


def generate(folder: str, scale: float) -> None:
    """Writes the table."""
    command = [
        SCRIPTS / "tpchgen-cli",
        "parquet",
        "-s",
        f"{scale:g}",
        f"--parts={FILES}",
        "--tables=lineitem",
        f"--output-dir={folder}",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def whole(folder: str) -> Ask:
    """DuckDB over all files."""
    database = duckdb.connect()
    database.execute(f"create view lineitem as select * from read_parquet('{folder}/lineitem/*.parquet')")
    return lambda sql: rows(database.cursor().sql(sql).to_arrow_table())


@dataclass
class Contender:
    """A system that answers queries: a client, a way to make further ones, and its processes besides this one."""

    name: str
    ask: Ask
    make: Callable[[], Ask]
    processes: list[int]


def start(folder: str, partitions: int, nodes: int, stack: ExitStack) -> Contender:
    """Starts the nodes of a cluster."""
    addrs: list[str] = []
    processes: list[int] = []
    nodes = min(nodes, partitions)
    for node in range(nodes):
        ids = ",".join(str(id) for id in range(partitions) if id % nodes == node)
        serve = f"sql={folder}:partitions={ids}/{partitions}:threads=1"
        command = [SCRIPTS / "treefold", "node", "--listen", "127.0.0.1:0", "--serve", serve]
        joining = ["--join", addrs[0]] if addrs else []
        process = subprocess.Popen([*command, *joining], stdout=subprocess.PIPE, text=True)
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stdout is not None
        addrs.append(process.stdout.readline().rsplit(" ", 1)[1].strip())
        processes.append(process.pid)
    name = f"{partitions} partition{'s' if partitions > 1 else ''}"
    return Contender(name, asking(addrs), lambda: asking(addrs), processes)


def processor_ms(processes: list[int]) -> float:
    """The processor time that this process and others have used, in ms."""
    ticks = 0
    for process in ["self", *processes]:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


def asking(addrs: list[str]) -> Ask:
    """A client of a cluster."""
    client = treefold.connect(*addrs)

    def ask(sql: str) -> Any:
        answer = treefold.sql.query(client, sql)
        assert answer.reply.coverage == 1.0, answer.reply
        return rows(answer.table)

    return ask


def rows(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns)))


def equal(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    def same(a: Any, b: Any) -> bool:
        return abs(a - b) <= 1e-9 * abs(b) if isinstance(b, float) else a == b

    return len(one) == len(other) and all(all(map(same, *pair)) for pair in zip(one, other))


def throughput(make: Callable[[], Ask], sql: str, callers: int, seconds: float) -> float:
    """Queries per second of several callers."""
    counts, until = [0] * callers, time.monotonic() + seconds

    def call(caller: int) -> None:
        ask = make()
        while time.monotonic() < until:
            ask(sql)
            counts[caller] += 1

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("-o", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        generate(folder, options.scale)
        one = whole(folder)
        contenders = [Contender("DuckDB", one, lambda: one, [])]
        contenders += [start(folder, partitions, options.nodes, stack) for partitions in PARTITIONS]
        time.sleep(2)
        wanted = {query: one(sql) for query, sql in QUERIES.items()}
        for contender in contenders:
            for query, sql in QUERIES.items():
                assert equal(contender.ask(sql), wanted[query]), f"{contender.name} answers {query} otherwise than DuckDB"
        figures = measured(contenders, options.rounds, options.callers)
    if options.o == "json":
        json.dump(figures, sys.stdout, indent=1)
        return
    print(f"scale factor {options.scale:g}, {os.cpu_count()} processors; medians in ms (10th–90th percentile)")
    for figure in figures:
        cells = []
        for query in QUERIES:
            low, high = figure[f"{query}, deciles"]
            cells.append(f"{query} {figure[query]:.0f} ({low:.0f}–{high:.0f}), {figure[f'{query}, processor']:.0f} of processor")
        print(f"{figure['contender']:14} {'; '.join(cells)}; {figure['Q6 per second']:.1f} Q6/s")


def measured(contenders: list[Contender], rounds: int, callers: int) -> list[dict[str, Any]]:
    """The figures of each contender."""
    turns = [(contender, query) for contender in contenders for query in QUERIES]
    took: dict[tuple[str, str], list[float]] = {(contender.name, query): [] for contender, query in turns}
    used: dict[tuple[str, str], float] = {key: 0.0 for key in took}
    for _ in range(rounds):
        for contender, query in random.sample(turns, len(turns)):
            before, began = processor_ms(contender.processes), time.perf_counter()
            contender.ask(QUERIES[query])
            took[contender.name, query].append(1000 * (time.perf_counter() - began))
            used[contender.name, query] += processor_ms(contender.processes) - before
    rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(5):
        for contender in random.sample(contenders, len(contenders)):
            rates[contender.name].append(throughput(contender.make, QUERIES["Q6"], callers, 1.0))
    return [
        {
            "contender": name,
            **{query: statistics.median(took[name, query]) for query in QUERIES},
            **{f"{query}, deciles": statistics.quantiles(took[name, query], n=10)[::8] for query in QUERIES},
            **{f"{query}, processor": used[name, query] / rounds for query in QUERIES},
            "Q6 per second": statistics.median(rates[name]),
        }
        for name in rates
    ]


if __name__ == "__main__":
    main()
