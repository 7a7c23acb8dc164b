"""Aggregations over nodes in this process."""

from __future__ import annotations

import asyncio
import datetime
import functools
import threading
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Iterator

import pytest
import treefold
from conftest import lines, logs


@pytest.fixture
def cluster() -> Iterator[treefold.Cluster]:
    service = logs()

    def failing(partition: treefold.Partition, params: Any) -> int:
        if partition.id == 2:
            raise ValueError("<b>disk</b> gone")
        return 1

    service.aggregation("failing", local=failing, reduce="sum")
    with treefold.Cluster.embedded(4, service, lines()) as cluster:
        yield cluster


def test_ready_reduce_and_python_reduce_give_the_same(cluster: treefold.Cluster) -> None:
    assert cluster.call("logs/matching", "error").value == cluster.call("logs/ready", "error").value == 1 + 2 + 3 + 4


def test_relays_fold_ready_reduces_that_they_learn_of() -> None:
    service = logs()

    def last(partition: treefold.Partition, _: Any) -> Any:
        numbers = range(len(partition.data))
        return [partition.id * 10.0 + n for n in numbers], [f"{partition.id}-{n}" for n in numbers]

    service.aggregation("last", local=last, reduce="top-k", reduce_params={"k": 2})
    service.aggregation("last-k", local=last, reduce="top-k", reduce_params_field="top")
    nodes = [service.start(partitions={0: lines()[0]})]
    nodes += [service.start(join=[nodes[0].addr], partitions={id: lines()[id]}) for id in range(1, 4)]
    relay = treefold.push.application("words").start(relay=True, join=[nodes[0].addr])
    try:
        client = nodes[3].client()
        calls: list[tuple[str, Any, Any]] = [
            ("ready", "error", 10),
            ("last", None, ([34.0, 33.0], ["3-4", "3-3"])),
            ("last-k", {"top": {"k": 1}}, ([34.0], ["3-4"])),
        ]
        for name, params, value in calls:
            end = time.monotonic() + 20
            while True:
                reply = client.call(f"logs/{name}", params, explain=True, min_coverage=0.0)
                assert reply.tree is not None
                inner = {node.node for _, node in reply.tree.walk() if node.children}
                if relay.addr in inner and reply.coverage == 1:
                    break
                assert time.monotonic() < end, (name, reply)
            assert reply.value == value
        reply = client.call("logs/matching", "error", explain=True)
        assert reply.tree is not None and reply.value == 10
        assert relay.addr not in {node.node for _, node in reply.tree.walk() if node.children}
    finally:
        for node in [relay, *nodes]:
            node.stop()


def test_exception_costs_its_partition_with_its_text(cluster: treefold.Cluster) -> None:
    reply = cluster.call("logs/failing", min_coverage=0.5)
    assert (reply.value, reply.coverage) == (3, 0.75)
    (loss,) = reply.missing
    assert (loss.partitions, loss.reason) == ((2,), "local_failed")
    assert loss.detail is not None and "ValueError: <b>disk</b> gone" in loss.detail and "in failing" in loss.detail


def test_exception_in_a_reduce_is_the_reason() -> None:
    service = treefold.Service("s", total=2)

    def refuse(a: int, b: int, params: Any) -> int:
        raise RuntimeError("no")

    service.aggregation("sum", local=lambda partition, params: 1, reduce=refuse)
    with treefold.Cluster.embedded(1, service) as cluster, pytest.raises(treefold.InsufficientCoverage) as raised:
        cluster.call("s/sum")
    assert {loss.reason for loss in raised.value.missing} == {"reduce_failed"}


def test_killed_node_is_missing_and_the_exception_says_so(cluster: treefold.Cluster) -> None:
    cluster.kill(3)
    reply = cluster.call("logs/matching", "error", deadline=1, min_coverage=0.5)
    assert (reply.value, reply.contributed) == (6, [0, 1, 2])
    with pytest.raises(treefold.TreefoldError) as raised:
        cluster.call("logs/matching", "error", deadline=1)
    # Once the coverage is out of reach, the rest of the call is cancelled.
    lost = {loss.partitions: loss.reason for loss in raised.value.missing}
    assert raised.value.coverage <= 0.75 and lost[(3,)] in ("lost", "no_replica")
    assert isinstance(raised.value, treefold.InsufficientCoverage) and raised.value.reply.value is None


def test_explain_gives_the_tree(cluster: treefold.Cluster) -> None:
    reply = cluster.call("logs/matching", "error", explain=True, shape="chain")
    assert reply.tree is not None and reply.report is reply.tree
    nodes = list(reply.tree.walk())
    assert sorted(id for _, node in nodes for id in node.partitions) == [0, 1, 2, 3]
    assert [depth for depth, _ in nodes] == [0, 1, 2, 3] and all(node.total > 0 for _, node in nodes)
    assert cluster.call("logs/matching", "error").tree is None


def test_partitions_get_their_own_parameters(cluster: treefold.Cluster) -> None:
    own = {1: "fine", 3: "nothing has this"}
    for shape in ("flat", "chain"):
        reply = cluster.call("logs/matching", "error", params_for=own, shape=shape)
        assert reply.value == 1 + 1 + 3 + 0
    # The reduce gets the call's parameters.
    service = treefold.Service("words", total=2)
    service.aggregation("told", local=lambda partition, word: word, reduce=lambda a, b, word: f"{word}: {'-'.join(sorted([a, b]))}")
    with treefold.Cluster.embedded(1, service) as words:
        assert words.call("words/told", "all", params_for={1: "one"}).value == "all: all-one"


def test_reduce_gets_its_own_parameters(cluster: treefold.Cluster) -> None:
    service = treefold.Service("words", total=4)
    service.aggregation("told", local=lambda partition, word: f"{word}{partition.id}", reduce=lambda a, b, between: between.join(sorted(a.split(between) + b.split(between))))
    service.aggregation("best", local=lambda partition, top: (list(range(5)), ["a"] * 5), reduce="top-k", reduce_params_field="top")
    with treefold.Cluster.embedded(2, service) as words:
        for shape in ("flat", "chain"):
            assert words.call("words/told", "w", reduce_params="-", shape=shape).value == "w0-w1-w2-w3"
            best = words.call("words/best", None, reduce_params={"top": {"k": 3}}, shape=shape).value
            assert best == ([4.0, 4.0, 4.0], ["a"] * 3)
        with pytest.raises(treefold.InvalidCall, match=r"reduce_params is \d+ bytes.*own_params_bytes_max"):
            words.call("words/told", "w", reduce_params="x" * 2**20)


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_notebook_draws_coverage_and_tree_escaped(cluster: treefold.Cluster) -> None:
    reply = cluster.call("logs/failing", min_coverage=0.5, explain=True)
    tags = Tags(reply._repr_html_())
    assert tags.open == [] and tags.seen == {"div", "pre", "table", "tr", "th", "td"}
    assert "ValueError: <b>disk</b> gone" in tags.text and "coverage 0.750" in tags.text
    assert all(addr in tags.text for addr in cluster.addrs)


@pytest.mark.parametrize(
    "kind, params, options, error, text",
    [
        ("nope/x", None, {}, treefold.InvalidCall, 'provides the service "nope"'),
        ("logs/nope", None, {}, treefold.InvalidCall, 'the aggregation "logs/nope"'),
        ("logs/ready", "e", {"min_coverage": 3}, ValueError, "min_coverage is 3; allowed: 0 to 1"),
        ("logs/ready", "e", {"deadline": 0}, treefold.InvalidOption, "deadline must be seconds above 0, not 0"),
        ("logs/ready", "e", {"deadline": float("nan")}, treefold.InvalidOption, "deadline must be seconds above 0, not nan"),
        ("logs/ready", "e", {"deadline": -1}, treefold.InvalidOption, "deadline must be seconds above 0, not -1"),
        ("logs/ready", "e", {"deadline": 1e300}, treefold.InvalidOption, "deadline must be at most 2^32 seconds, not 1e+300"),
        ("logs/ready", "e", {"deadline": 10**400}, treefold.InvalidOption, "deadline must be at most 2^32 seconds, not 1000"),
        ("logs/ready", "e", {"deadline": 10**5000}, treefold.InvalidOption, "not a whole number of thousands of digits"),
        ("logs/ready", "e", {"min_coverage": 1e300}, ValueError, "min_coverage is 1e+300; allowed: 0 to 1"),
        ("logs/ready", "e", {"partitions": [10**300]}, treefold.InvalidOption, "below 2^32, not 1000"),
        ("logs/ready", "\ud800", {}, treefold.InvalidValue, "a lone surrogate"),
        ("logs/\ud800", "e", {}, treefold.InvalidOption, "an aggregation is a text"),
        *(
            ("logs/ready", "e", {name: "\ud800"}, treefold.InvalidOption, rf"{name} must be Unicode, and '\ud800' has a lone surrogate")
            for name in ("shape", "policy", "waiting", "decode")
        ),
        ("logs/ready", "e", {"shape": 3}, treefold.InvalidOption, "shape must be a text, not 3"),
        ("logs/ready", "e", {"slices": "all"}, treefold.InvalidOption, "slices must be a whole number from 0 below 2^32, not 'all'"),
        ("logs/ready", "e", {"shape": "round"}, treefold.InvalidCall, "shape is round; allowed: auto"),
        ("logs/ready", "e", {"deadline": "0.5"}, treefold.InvalidOption, "deadline must be seconds above 0, not '0.5'"),
        ("logs/ready", "e", {"min_coverage": "all"}, ValueError, "a share from 0 to 1, not 'all'"),
        ("logs/ready", "e", {"partitions": ["a"]}, treefold.InvalidOption, "partitions must be a whole number from 0 below 2^32, not 'a'"),
        ("logs/ready", "e", {"partitions": [9]}, treefold.InvalidCall, "allowed: 0-3"),
        ("logs/ready", "e", {"params_for": {9: "e"}}, treefold.InvalidCall, "params_for is 9; allowed: 0-3"),
        ("logs/ready", "e", {"params_for": {1: "e"}, "partitions": [0, 3]}, treefold.InvalidCall, "params_for is 1; allowed: 0,3"),
        ("logs/ready", "e", {"params_for": {1: "e" * 2**20}}, treefold.InvalidCall, "(own_params_bytes_max)"),
        ("logs/ready", "e", {"params_for": {"a": "e"}}, treefold.InvalidOption, "each partition of params_for must be a whole number"),
        ("logs/ready", "e", {"params_for": ["e"]}, treefold.InvalidOption, "params_for must be a dict from partitions"),
        ("logs/ready", "e", {"params_for": {1: {1, 2}}}, TypeError, "a set can't travel"),
        ("logs", "e", {}, treefold.InvalidCall, "allowed: service/aggregation"),
        (None, "e", {}, treefold.InvalidOption, "an aggregation is a text"),
        ("logs/ready", "e", {"decode": "json"}, treefold.InvalidOption, "decode is \"json\"; allowed: auto, raw, numpy"),
        ("logs/ready", {1, 2}, {}, TypeError, "a set can't travel"),
    ],
)
def test_wrong_parameters_are_named(
    cluster: treefold.Cluster, kind: str, params: Any, options: Any, error: Any, text: str
) -> None:
    with pytest.raises(error) as raised:
        cluster.call(kind, params, **options)
    assert text in str(raised.value) and isinstance(raised.value, treefold.TreefoldError)
    assert len(str(raised.value)) < 200


def test_functions_that_return_no_value_are_refused_when_they_are_declared() -> None:
    service = treefold.Service("s", total=1)

    async def later(partition: Any, params: Any) -> int:
        return 1

    def one_by_one(partition: Any, params: Any) -> Iterator[int]:
        yield 1

    class Later:
        async def __call__(self, partition: Any, params: Any) -> int:
            return 1

    for function, kind in [(later, "`async def`"), (functools.partial(later), "`async def`"), (Later(), "`async def`"),
                           (one_by_one, "a generator")]:
        with pytest.raises(treefold.InvalidOption, match=f"the local of 'x' must be a function that returns .* {kind}"):
            service.local("x")(function)
        with pytest.raises(treefold.InvalidOption, match=kind):
            service.aggregation("x", local=function, reduce="sum")
    with pytest.raises(treefold.InvalidOption, match="the reduce of 'x'"):

        @service.reduce("x")
        async def both(a: Any, b: Any, params: Any) -> int:
            return 1

    with pytest.raises(treefold.InvalidOption, match="the loader"):

        @service.loader
        async def load(id: int) -> int:
            return 1

    with pytest.raises(treefold.InvalidOption, match="the endpoint"):

        @service.endpoint
        def packets(stream: Any) -> Iterator[int]:
            yield 1

    assert service.aggregations == {}


def test_names_are_declared_once() -> None:
    service = treefold.Service("s", total=1)
    local: Any = lambda partition, params: 1  # noqa: E731
    reduce: Any = lambda a, b, params: 1  # noqa: E731
    service.local("x")(local)
    service.reduce("x")(reduce)
    service.aggregation("y", local=local, reduce="sum")
    service.endpoint(lambda stream: None)
    service.loader(lambda id: None)
    for declare, text in [
        (lambda: service.local("x")(local), "the local of 'x'"),
        (lambda: service.reduce("x")(reduce), "the reduce of 'x'"),
        (lambda: service.aggregation("x", local=local, reduce="sum"), "the aggregation 'x'"),
        (lambda: service.aggregation("y", local=local, reduce=reduce), "the aggregation 'y'"),
        (lambda: service.local("y")(local), "the local of 'y'"),
        (lambda: service.reduce("y")(reduce), "the reduce of 'y'"),
        (lambda: service.endpoint(lambda stream: None), "the endpoint"),
        (lambda: service.loader(lambda id: None), "the loader"),
    ]:
        with pytest.raises(treefold.InvalidOption, match=f"{text} is declared twice"):
            declare()


def test_wrong_services_are_refused_when_they_are_made() -> None:
    service = treefold.Service("s", total=1)
    for make, text in [
        (lambda: treefold.Service("a/b"), "a service's name"),
        (lambda: service.local("x/y"), "an aggregation's name"),
        (lambda: service.local(lambda partition, params: 1), "as in @service.local('matching')"),  # type: ignore[arg-type]
        (lambda: treefold.Service("s", total="4"), "total is '4'"),  # type: ignore[arg-type]
        (lambda: service.local("x")(lambda partition: 1), "must take (partition, params)"),
        (lambda: service.reduce("x")(lambda a, b: 1), "must take (a, b, params)"),
        (lambda: service.aggregation("x", local=3, reduce="sum"), "must be a function"),  # type: ignore[arg-type]
        (lambda: service.aggregation("x", local=lambda p, q: 1, reduce="som"), "no ready reduce is named 'som'; there are"),
        (
            lambda: service.aggregation(
                "x", local=lambda p, q: 1, reduce="top-k", reduce_params={"k": 1}, reduce_params_field="top"
            ),
            "not both",
        ),
        (lambda: service.aggregation("x", local=lambda p, q: 1, reduce="top-k", reduce_params_field=3), "reduce_params_field must be a text, not 3"),  # type: ignore[arg-type]
        (lambda: service.start(), "has no aggregation"),
        (lambda: service.start(join="127.0.0.1:1"), "join must be a list"),
        (lambda: service.start(partitions=[-1]), "each of partitions must be a whole number from 0"),
        (lambda: service.start(partitions=[0], processors=-1), "processors is -1; allowed: a whole number from 1 to"),
        (lambda: treefold.Service("s", total=2**70), "allowed: a whole number from 1 to 1048576"),
        (lambda: treefold.Service("s", total=2**14 + 1).loader(lambda id: id), "allowed: a whole number from 1 to 16384"),
        (lambda: treefold.Cluster.embedded(0, service), "nodes is 0; allowed: a whole number from 1 to"),
        (lambda: treefold.Cluster.embedded(1, service, processors=0), "processors is 0; allowed: a whole number from 1 to"),
        (lambda: treefold.Cluster.embedded(1, [service, service]), "service must be a treefold.Service, not ["),  # type: ignore[arg-type]
        (lambda: treefold.connect("127.0.0.1"), "host:port"),
        (lambda: treefold.connect(["127.0.0.1:1"]), "one by one"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(treefold.InvalidOption) as raised:
            make()
        assert text in str(raised.value)
    service.local("x")(lambda partition, params: 1)
    with pytest.raises(treefold.InvalidOption, match="aggregation 'x' has no reduce"):
        service.start()
    service = treefold.Service("s", total=1)
    service.aggregation("x", local=lambda p, q: 1, reduce="top-k", reduce_params={"k": 0})
    with pytest.raises(treefold.InvalidOption, match="parameter `k`: 0 is not within"):
        service.start()


def test_texts_that_are_no_unicode_are_refused_wherever_they_are_given(tmp_path: Path) -> None:
    broken, service = "\ud800", logs()
    service.endpoint(lambda stream: None)
    (tmp_path / "tree.top").write_text("a:0 => a:1 ;")

    def given(name: str, value: Any = broken) -> dict[str, Any]:
        return {name: value}

    async def connect() -> None:
        await treefold.aio.connect("127.0.0.1:1", token=broken)

    with service.start(partitions=range(4)) as node:
        client = node.client()
        refused: list[Any] = [
            lambda: treefold.connect(f"{broken}:1"),
            lambda: asyncio.run(connect()),
            lambda: treefold.Service(broken),
            lambda: service.local(broken),
            lambda: service.local("x", decode=broken)(lambda partition, params: 1),
            lambda: service.aggregation("x", local=lambda p, q: 1, reduce=broken),
            lambda: service.aggregation("x", local=lambda p, q: 1, reduce="sum", reduce_params_field=broken),
            lambda: service.start(join=[broken]),
            lambda: client.stream(broken),
            lambda: client.reader(broken),
            lambda: client.announce(f"{broken}/x", 1, [0]),
            lambda: client.each_slice("logs/ready", slices=1, shape=broken),
            lambda: treefold.push.attach(broken, 0, node.addr),
            lambda: treefold.push.attach("words", 0, f"{broken}:1"),
            lambda: treefold.Network.up(tmp_path / "tree.top", program=broken),
        ]
        for name in ("cluster", "token"):
            refused.append(lambda name=name: treefold.connect("127.0.0.1:1", **given(name)))
        for name in ("listen", "advertise", "rack", "zone", "name", "cluster", "token"):
            refused.append(lambda name=name: service.start(**given(name)))
        for name in ("shape", "up_filter", "down_filter", "sync", "decode"):
            refused.append(lambda name=name: client.stream("logs", **given(name)))
        for name in ("keys", "prefixes", "types"):
            refused.append(lambda name=name: client.reader("feed", **given(name, [broken])))
        refused.append(lambda: client.reader("feed", after=broken))
        for name in ("token", "listen", "advertise"):
            refused.append(lambda name=name: treefold.Network.up(tmp_path / "tree.top", **given(name)))
        for make in refused:
            with pytest.raises(treefold.InvalidOption) as raised:
                make()
            text = str(raised.value)
            assert ("\\ud800" in text or text == "token must be Unicode, and a str has a lone surrogate") and text.isprintable()


def test_node_beyond_this_machine_needs_a_token() -> None:
    with pytest.raises(treefold.StartFailed, match="can be reached from other machines"):
        logs().start("0.0.0.0:0")
    with logs().start("0.0.0.0:0", token="a secret", partitions=lines()) as node:
        assert node.call("logs/ready", "error").value == 10


def test_closed_things_say_so() -> None:
    node = logs(1).start(partitions=lines(1))
    assert node.is_running
    client = treefold.connect(node.addr)
    node.stop()
    assert not node.is_running
    with pytest.raises(treefold.TreefoldError):
        client.call("logs/ready", "error")
    client.close()
    with pytest.raises(treefold.Closed, match="the client is closed"):
        client.call("logs/ready", "error")


def test_times_can_be_timedeltas(cluster: treefold.Cluster) -> None:
    assert cluster.call("logs/ready", "error", deadline=datetime.timedelta(seconds=2)).value == 10
    with logs(1).start(partitions=lines(1)) as node:
        with pytest.raises(treefold.InvalidOption, match="grace must be seconds from 0, not -1"):
            node.stop(-1)
        assert node.is_running
        node.stop(datetime.timedelta(milliseconds=100))
        assert not node.is_running


def test_parameters_of_a_ready_reduce_come_from_each_call() -> None:
    service = treefold.Service("best", total=3)
    service.aggregation(
        "best",
        local=lambda partition, params: ([float(partition.id), params["add"]], [f"id {partition.id}", "added"]),
        reduce="top-k",
        reduce_params_field="top",
    )
    with treefold.Cluster.embedded(3, service) as cluster:
        params = {3: "a key that is no text", "add": -1.0, "top": {"k": 1}, "more": [1, {"top": {"k": 9}}]}
        assert cluster.call("best/best", params).value == ([2.0], ["id 2"])
        assert cluster.call("best/best", {**params, "top": {"k": 2}}).value == ([2.0, 1.0], ["id 2", "id 1"])
        for given, text in [
            ({"add": 1.0}, 'expected a map with the field "top", found a map without it'),
            ({"add": 1.0, "top": {"k": 0}}, "parameter `k`: 0 is not within"),
            ({"add": 1.0, "top": {"q": 1}}, "unknown field `q`"),
        ]:
            with pytest.raises(treefold.InsufficientCoverage) as raised:
                cluster.call("best/best", given)
            assert text in str(raised.value)


def test_clients_and_nodes_that_are_dropped_do_not_hold_up_other_threads() -> None:
    turns, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            turns[0] += 1
            time.sleep(0.0005)

    counter = threading.Thread(target=count)
    counter.start()
    held_up: list[str] = []
    for _ in range(10):  # on a busy machine, the other thread may not get a processor
        cluster = treefold.Cluster.embedded(20, logs(20))
        clients = [treefold.connect(cluster.addrs[0], direct=True) for _ in range(60)]
        # Each has a thread that is waited for, meanwhile other threads get their turns.
        before = turns[0]
        del clients
        between = turns[0]
        del cluster
        after = turns[0]
        held_up = [what for what, n in (("clients", between - before), ("nodes", after - between)) if n < 3]
        if not held_up:
            break
    over.set()
    counter.join()
    assert held_up == []


def test_calls_from_many_threads(cluster: treefold.Cluster) -> None:
    from concurrent.futures import ThreadPoolExecutor

    client = treefold.connect(*cluster.addrs)
    with ThreadPoolExecutor(16) as threads:
        replies = list(threads.map(lambda _: client.call("logs/matching", "error").value, range(200)))
    assert replies == [10] * 200
