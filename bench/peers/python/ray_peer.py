"""The peer: Ray. Each partition is an actor in a process of its own, and the caller folds what `ray.get` returns.

`--mode actors` calls a method of every actor and gets the list of results, as Ray's documentation recommends for a fan-out.
`--mode compiled` compiles the same fan-out once (`ray.dag`), so that arguments and results travel in shared memory.
"""

from __future__ import annotations

import os
import sys
from typing import Any

# Ray's workers are other programs, and import these modules from here.
os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), *sys.path])
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from measure import arguments, measure
from work import Expected, Partition

#: Limit on the time of a call, in seconds. No call is to exceed it.
DEADLINE = 30.0


class Actor(Partition):
    def int_of(self, _: Any) -> int:
        return self.number

    def topk_of(self, _: Any) -> Any:
        return self.rows


def compiled(actors: list[Any], kind: str, in_flight: int) -> Any:
    from ray.dag import InputNode, MultiOutputNode

    with InputNode() as asked:
        graph = MultiOutputNode([getattr(actor, f"{kind}_of").bind(asked) for actor in actors])
    return graph.experimental_compile(_max_inflight_executions=in_flight + 1)


def main() -> None:
    asked = arguments(__doc__)
    mode = asked.mode or "actors"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    actors = [ray.remote(Actor).options(num_cpus=0).remote(number) for number in range(asked.nodes)]
    # All actors are there before the first call, whose time is limited.
    ray.get([actor.int.remote() for actor in actors])
    expected = Expected(asked.nodes)
    for kind in asked.partials.split(","):
        if mode == "compiled":
            graph = compiled(actors, kind, asked.in_flight)
            begin = lambda: graph.execute(0)
        else:
            begin = lambda: [getattr(actor, kind).remote() for actor in actors]
        end = lambda open_: expected.fold(kind, ray.get(open_, timeout=DEADLINE))
        end(begin())
        measure(("ray", mode, kind), asked, begin, end)
        if mode == "compiled":
            graph.teardown()
    ray.shutdown()


if __name__ == "__main__":
    main()
