"""Serves partitions of `logs`: provider.py LISTEN JOIN PARTITIONS [WORKERS]."""

import sys
import time

import treefold

service = treefold.Service("logs", total=2)


@service.local("matching")
def matching(partition, word):
    return sum(word in line for line in partition.data)


@service.reduce("matching")
def add(a, b, word):
    return a + b


@service.local("slow")
def slow(partition, seconds):
    """Ends early if nobody waits for it any longer, and leaves a note of it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if treefold.cancelled():
            print("cancelled", flush=True)
            raise RuntimeError("nobody waits")
        time.sleep(0.01)
    return 1


@service.reduce("slow")
def slow_add(a, b, seconds):
    return a + b


if __name__ == "__main__":
    listen, join, partitions = sys.argv[1:4]
    data = {int(id): ["an error", "fine", "another error"] for id in partitions.split(",")}
    service.serve(
        listen=listen,
        join=[addr for addr in join.split(",") if addr],
        partitions=data,
        workers=int(sys.argv[4]) if len(sys.argv) > 4 else None,
        ready=lambda node: print(node.addr, flush=True),
    )
    print("ended", flush=True)
