"""Ends while a local runs for ever: stuck.py HOW KIND. Its exit code is 7."""

import atexit
import hashlib
import sys
import threading
import time

import treefold

how, kind = sys.argv[1:]
service = treefold.Service("stuck", total=1)
runs = threading.Event()
over = threading.Event()


@service.local("run")
def run(partition, params):
    runs.set()
    while True:
        try:
            while True:
                if kind == "asleep":
                    time.sleep(1000)
                elif kind == "in a call":
                    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10_000)
        except BaseException:
            if kind != "stubborn":
                raise


@service.reduce("run")
def add(a, b, params):
    return a


def ask(client):
    try:
        client.call("stuck/run", deadline=0.3 if kind == "late" else 30)
    except treefold.TreefoldError:
        over.set()  # It is late, or the node has ended.


def call(node):
    threading.Thread(target=ask, args=(node.client(),), daemon=True).start()
    runs.wait()
    if kind == "late":
        over.wait()
    stop = node.stop

    def tell_and_stop(grace=0.1):
        print("stops", flush=True)
        stop(grace)

    node.stop = tell_and_stop
    print("runs", flush=True)


if kind == "late":
    # after the import of treefold, so it runs before the package ends the locals
    atexit.register(print, "ends", flush=True)
print("starting", flush=True)
if how == "serve":
    service.serve("127.0.0.1:0", partitions=[0], ready=call, grace=3 if kind == "busy" else 0.1)
else:
    with service.start(partitions=[0]) as node:
        call(node)
sys.exit(7)
