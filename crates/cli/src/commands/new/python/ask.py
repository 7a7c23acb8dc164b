"""Asks all partitions of the service NAME for the number of lines that contain a word."""

import sys

import treefold

if len(sys.argv) < 2:
    sys.exit("usage: python ask.py WORD [HOST:PORT ...]")
client = treefold.connect(*(sys.argv[2:] or ["127.0.0.1:7860"]))
reply = client.call("NAME/matching", sys.argv[1], deadline=0.5, min_coverage=0.5)
print(reply.value, "lines, coverage", reply.coverage)
for loss in reply.missing:
    print("missing:", loss, file=sys.stderr)
