"""Makes a call that takes long and reports how it ended: caller.py ADDR [aio]."""

import asyncio
import sys

import treefold

client = treefold.connect(sys.argv[1])
print("ready", flush=True)
try:
    client.call("logs/slow", 30, deadline=40, partitions=[0])
except KeyboardInterrupt:
    print("interrupted", flush=True)
