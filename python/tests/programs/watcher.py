"""Iterates over something without end and reports how that ended: watcher.py stream|reader|worker ADDR."""

import sys

import treefold

what, addr = sys.argv[1:]
try:
    if what == "worker":
        worker = treefold.push.attach("words/sum-lines", 0, addr)
        worker.push_last(1, "a\t1\n")
        print("ready", flush=True)
        worker.idle()
    client = treefold.connect(addr, direct=True)
    endless = client.reader("flights") if what == "reader" else client.stream("thermometers", params={"base": 1})
    print("ready", flush=True)
    for item in endless:
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
