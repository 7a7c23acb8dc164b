"""Serves endpoints that are read when a packet asks for it: thermometers.py LISTEN JOIN PARTITIONS [async]."""

import sys

import treefold

service = treefold.Service("thermometers", total=4)


def degrees(stream):
    return stream.params["base"] + stream.partition.id * stream.partition.data


def sync_endpoint(stream):
    for packet in stream:
        if packet.value == "fail":
            raise ValueError("broken")
        stream.send(degrees(stream), tag=packet.tag)
    print("over\n", end="", flush=True)  # one write, so that threads do not mix their lines


async def async_endpoint(stream):
    async for packet in stream:
        if packet.value == "fail":
            raise ValueError("broken")
        await stream.send(degrees(stream), tag=packet.tag)
    print("over\n", end="", flush=True)  # one write, so that threads do not mix their lines


service.endpoint(async_endpoint if "async" in sys.argv else sync_endpoint)

if __name__ == "__main__":
    listen, join, partitions = sys.argv[1:4]
    service.serve(
        listen=listen,
        join=[addr for addr in join.split(",") if addr],
        partitions={int(id): 0.5 for id in partitions.split(",")},
        ready=lambda node: print(node.addr, flush=True),
    )
    print("ended", flush=True)
