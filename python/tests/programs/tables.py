"""Serves tables: the node to join, the folder, the partitions, and their total. Prints the address."""

import sys

import treefold.sql

seed, folder, partitions, total = sys.argv[1:]
ids = [int(id) for id in partitions.split(",")]
service = treefold.sql.service(folder, ids, int(total))
service.serve("127.0.0.1:0", [seed] if seed else [], ids, ready=lambda node: print(node.addr, flush=True))
