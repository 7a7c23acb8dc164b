"""Serves and joins by a seed: starting.py SEED."""

import sys

import treefold

service = treefold.Service("x", total=1)
service.aggregation("one", local=lambda partition, params: 1, reduce="sum")
print("starting", flush=True)
service.serve("127.0.0.1:0", [sys.argv[1]], [0])
