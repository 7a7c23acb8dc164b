"""A regular expression over log files on many machines, counted by what it captures.

    python logs.py serve 127.0.0.1:7820 2 0=/var/log/a.log          serves one of two files
    python logs.py serve 127.0.0.1:7821 2 1=/var/log/b.log 127.0.0.1:7820
    python logs.py ask 127.0.0.1:7820 'status=(\\d+)'                how often each status occurs in all files

The expression occupies the interpreter, so the files are searched in worker processes.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

import treefold


def counts(partition: treefold.Partition, pattern: str) -> str:
    """Counts what the first group of the pattern captures, as sorted lines `text TAB count`."""
    expression = re.compile(pattern)
    found: Counter[str] = Counter()
    with open(partition.data, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            found.update(match[1].replace("\t", " ") for match in expression.finditer(line))
            if number % 10_000 == 0 and treefold.cancelled():
                raise TimeoutError("nobody waits for the result any longer")
    return "".join(f"{text}\t{count}\n" for text, count in sorted(found.items()))


service = treefold.Service("logs")
service.aggregation("counts", local=counts, reduce="sum-lines")


def serve(addr: str, total: str, *rest: str) -> None:
    held = [word.split("=", 1) for word in rest if "=" in word]
    join = [word for word in rest if "=" not in word]
    service.total = int(total)
    files = {int(id): path for id, path in held}
    service.serve(addr, join, files, workers=2, ready=lambda node: print(node.addr, flush=True))


def ask(addr: str, pattern: str) -> None:
    reply = treefold.connect(addr).call("logs/counts", pattern, deadline=10, min_coverage=0.5)
    print(reply.value.decode(), end="")
    print(reply)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"serve": serve, "ask": ask}[command](*arguments)
