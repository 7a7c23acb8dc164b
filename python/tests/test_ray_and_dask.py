"""Nodes on real, local clusters of Ray and of Dask."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator

import pytest
import treefold
from conftest import lines, logs


def check(deployment: Any) -> None:
    """All partitions answer, and only programs with the token may ask."""
    reply = deployment.call("logs/ready", "error", deadline=10)
    assert (reply.value, reply.coverage) == (10, 1.0)
    assert len(deployment.addrs) == len(set(deployment.addrs)) == 2
    with pytest.raises(treefold.Unreachable):
        treefold.connect(*deployment.addrs)
    with treefold.connect(deployment.addrs[1], token=deployment.token) as client:
        assert client.call("logs/matching", "error", deadline=10).value == 10


def stopped(deployment: Any) -> bool:
    try:
        treefold.connect(*deployment.addrs, token=deployment.token)
    except treefold.Unreachable:
        return True
    return False


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    # Ray's workers import from the directory in which Ray was started, and here are the package's sources.
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("ray"))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    os.chdir(before)
    yield ray
    ray.shutdown()


def test_ray_holds_the_nodes(ray: Any) -> None:
    from treefold.ray import serve

    with serve(logs(), lines(), nodes=2) as deployment:
        check(deployment)
    assert stopped(deployment)
    deployment.stop()
    with pytest.raises(treefold.InvalidOption, match="nodes is 0"):
        serve(logs(), nodes=0)
    with pytest.raises(ray.exceptions.RayActorError, match="a set can't travel|no ready reduce|has no reduce"):
        service = treefold.Service("bad", total=1)
        service.local("x")(lambda partition, params: 1)
        serve(service, nodes=1)


def test_dead_actor_of_ray_costs_its_partitions(ray: Any) -> None:
    from treefold.ray import serve

    service = logs()
    service.aggregation("die", local=lambda partition, id: partition.id == id and __import__("os")._exit(1), reduce="count")
    with serve(service, lines(), nodes=2) as deployment:
        with pytest.raises(treefold.TreefoldError):
            deployment.call("logs/die", 1, deadline=2, partitions=[1])
        reply = treefold.connect(*deployment.addrs, token=deployment.token).call(
            "logs/ready", "error", deadline=2, min_coverage=0.5
        )
        assert (reply.value, reply.contributed) == (4, [0, 2])


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def test_dask_workers_hold_the_nodes(dask: Any) -> None:
    from treefold.dask import serve

    with serve(dask, logs(), lines()) as deployment:
        check(deployment)
        # A worker that is started again gets its node and its partitions back.
        dask.restart_workers([next(iter(dask.scheduler_info(n_workers=-1)["workers"]))])
        client, until = treefold.connect(*deployment.addrs, token=deployment.token), time.monotonic() + 30
        while client.call("logs/ready", "error", deadline=2, min_coverage=0).coverage < 1 and time.monotonic() < until:
            time.sleep(0.1)
        assert client.call("logs/ready", "error").value == 10
    assert stopped(deployment)
    service = treefold.Service("bad", total=1)
    service.local("x")(lambda partition, params: 1)
    with pytest.raises(treefold.StartFailed, match="has no reduce"):
        serve(dask, service)
