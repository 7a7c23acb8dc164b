"""Imports the package in a subinterpreter, and then in the main one."""

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

PROGRAM = """
try:
    import treefold
    print("imported", flush=True)
except ImportError as error:
    print("ImportError:", error, flush=True)
"""
other = interpreters.create()
interpreters.run_string(other, PROGRAM)
interpreters.destroy(other)

import treefold  # noqa: E402

service = treefold.Service("one", total=1)
service.aggregation("one", local=lambda partition, params: 1, reduce="sum")
with service.start(partitions=[0]) as node:
    print("main", node.call("one/one").value, flush=True)
