"""Ends while nodes run, locals compute, endpoints send, and threads wait for calls and waves."""

import asyncio
import threading
import time

import treefold

service = treefold.Service("x", total=4)
service.aggregation("slow", local=lambda partition, seconds: time.sleep(seconds) or 1, reduce="sum")
service.aggregation("busy", local=lambda partition, _: sum(range(200_000)), reduce=lambda a, b, _: a + b)



@service.endpoint
def chatter(stream):
    while True:
        stream.send(1)


ticking = treefold.Service("ticking", total=2)


@ticking.endpoint
async def tick(stream):
    while True:
        await stream.send(1)
        await asyncio.sleep(0.001)


cluster = treefold.Cluster.embedded(4, service)
node = service.start(join=cluster.addrs, partitions=[0])
client = treefold.connect(cluster.addrs[0])


def call_for_ever():
    while True:
        try:
            client.call("x/busy")
        except treefold.TreefoldError:
            return


def watch(service, addrs):
    with treefold.connect(*addrs, direct=True).stream(service, up_filter="sum") as stream:
        for wave in stream:
            assert wave.value > 0


ticker = treefold.Cluster.embedded(2, ticking)
threading.Thread(target=watch, args=("x", cluster.addrs), daemon=True).start()
threading.Thread(target=watch, args=("ticking", ticker.addrs), daemon=True).start()
for _ in range(3):
    threading.Thread(target=call_for_ever, daemon=True).start()
threading.Thread(target=lambda: client.call("x/slow", 1.0, deadline=3), daemon=True).start()
time.sleep(0.3)
print("ending", flush=True)
