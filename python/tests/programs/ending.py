"""Ends while nodes run, locals compute, and threads wait for calls."""

import threading
import time

import treefold

service = treefold.Service("x", total=4)
service.aggregation("slow", local=lambda partition, seconds: time.sleep(seconds) or 1, reduce="sum")
service.aggregation("busy", local=lambda partition, _: sum(range(200_000)), reduce=lambda a, b, _: a + b)

cluster = treefold.Cluster.embedded(4, service)
node = service.start(join=cluster.addrs, partitions=[0])
client = treefold.connect(cluster.addrs[0])


def call_for_ever():
    while True:
        try:
            client.call("x/busy")
        except treefold.TreefoldError:
            return


for _ in range(3):
    threading.Thread(target=call_for_ever, daemon=True).start()
threading.Thread(target=lambda: client.call("x/slow", 1.0, deadline=3), daemon=True).start()
time.sleep(0.3)
print("ending", flush=True)
