"""Folds for the application `words`: relay.py JOIN."""

import sys

import treefold

treefold.push.application("words").serve(
    listen="127.0.0.1:0",
    join=[addr for addr in sys.argv[1].split(",") if addr],
    relay=True,
    ready=lambda node: print(node.addr, flush=True),
)
