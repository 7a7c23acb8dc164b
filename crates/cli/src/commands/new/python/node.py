"""A node of the service NAME: it serves one partition, the lines of a file."""

import argparse

import treefold


def matching(partition, word):
    """The local: counts the lines of this partition that contain the word."""
    return sum(word in line for line in partition.data)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("partition", type=int, help="number of the partition, from 0")
parser.add_argument("file", help="file of the partition")
parser.add_argument("--total", type=int, default=1, help="number of partitions")
parser.add_argument("--listen", default="127.0.0.1:7860", help="address to listen at")
parser.add_argument("--join", action="append", default=[], help="node to join; may be repeated")
args = parser.parse_args()

service = treefold.Service("NAME", total=args.total)
service.aggregation("matching", local=matching, reduce="sum")

with open(args.file, encoding="utf-8") as file:
    lines = file.read().splitlines()
service.serve(listen=args.listen, join=args.join, partitions={args.partition: lines})
