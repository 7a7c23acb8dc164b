"""Values as bytes that travel, and back."""

from __future__ import annotations

import collections
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import treefold
from treefold import _native


def through(value: Any, form: str = "value", decode: str = "auto") -> Any:
    return _native.unpack(_native.pack(value, form), decode)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -1, 127, 128, -(2**63), 2**64 - 1, 1.5, math.inf, "", "text", "ä€", b"\xff\x00", b"x" * 10_000,
        [], {}, [1, "a", None, [2.5]], {"a": {"b": [1]}, 7: True}, [b"nested", b""], "x" * 70_000,
    ],
)
def test_values_survive_the_way(value: Any) -> None:
    back = through(value)
    assert back == value and type(back) is type(value)


def test_tuples_become_lists_and_nan_stays() -> None:
    assert through((1, (2,))) == [1, [2]]
    assert math.isnan(through(math.nan))


@pytest.mark.parametrize(
    "value",
    [{("web", "200"): 1, ("web", "404"): 2}, {(1, (2, b"x")): {(): [1]}}, {None: 1, True: 2, 1.5: 3, b"": 4}],
)
def test_keys_survive_the_way_also_tuples(value: Any) -> None:
    back = through(value)
    assert back == value and [type(key) for key in back] == [type(key) for key in value]


def test_counters_with_tuples_as_keys_are_added() -> None:
    service = treefold.Service("s", total=3)
    add: Any = lambda a, b, _: dict(collections.Counter(a) + collections.Counter(b))  # noqa: E731
    service.aggregation("codes", local=lambda partition, _: collections.Counter(partition.data), reduce=add)
    data = [[("web", "200")] * 2, [("web", "200"), ("web", "404")], [("db", "200")]]
    with treefold.Cluster.embedded(2, service, dict(enumerate(data))) as cluster:
        assert cluster.call("s/codes").value == {("web", "200"): 3, ("web", "404"): 1, ("db", "200"): 1}


#: Bytes that are another value too: nothing, and whole values of MessagePack.
MISTAKEN = [b"", b"a", b"7", b"\xc0", b"\x80", b"\x90", b"\xa1x", b"\xc4\x00", b"\xc4\x01a", b"\x81\xa1a\x01", b"\xcb" + bytes(8)]


@pytest.mark.parametrize("value", [*MISTAKEN, b"ab", b"\xc1", b"\xff", b"\x81", bytes(range(256))])
def test_bytes_come_back_as_bytes_whatever_is_in_them(value: bytes) -> None:
    for like in (value, bytearray(value), memoryview(value)):
        for decode in ("auto", "raw", "numpy"):
            back = through(like, decode=decode)
            assert back == value and type(back) is bytes
        assert through([like]) == [value] and through({value: like}) == {value: value}


def test_bytes_of_locals_and_callers_are_never_another_value() -> None:
    service = treefold.Service("s", total=2)
    both: Any = lambda a, b, params: max(a, b)  # noqa: E731
    for name, decode in [("auto", "auto"), ("raw", "raw")]:
        service.aggregation(name, local=lambda partition, params: params, reduce=both, decode=decode)
    with treefold.Cluster.embedded(2, service) as cluster:
        for value in MISTAKEN:
            for name, decode in [("auto", "auto"), ("raw", "auto"), ("auto", "raw"), ("raw", "raw")]:
                assert cluster.call(f"s/{name}", value, decode=decode).value == value


def test_texts_with_lone_surrogates_are_refused() -> None:
    for value, form in [("\ud800", "value"), (["a\udcff"], "value"), ({"\ud800": 1}, "value"), ("\ud800", "sum-lines"),
                        ("\ud800", "distinct"), (["\ud800"], "distinct"), (([1], ["\ud800"]), "top-k")]:
        with pytest.raises(treefold.InvalidValue, match="lone surrogate"):
            _native.pack(value, form)
    with pytest.raises(treefold.InvalidOption, match="a service's name"):
        treefold.Service("\ud800")
    with pytest.raises(treefold.InvalidOption, match="an aggregation's name"):
        treefold.Service("s").local("\udfff")


def test_bytes_travel_as_they_are() -> None:
    for value in (b"ab", bytearray(b"ab"), memoryview(b"ab")):
        assert _native.pack(value, "value") == b"ab"
    assert _native.unpack(b"a", "auto") == ord("a") and _native.unpack(b"a", "raw") == b"a"
    assert _native.unpack(b"", "auto") is None
    assert _native.unpack(b"a\xd9", "auto") == b"a\xd9"


def test_what_cannot_travel_is_named() -> None:
    for value, text in [(object(), "a object can't travel"), ([{1}], "a set"), (2**64, "64 bits"), (1 + 2j, "complex")]:
        with pytest.raises(treefold.InvalidValue, match=text):
            _native.pack(value, "value")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(treefold.InvalidValue, match="nested deeper than 128"):
        _native.pack(deep, "value")
    assert _native.unpack(b"\x91" * 100_000, "auto") == b"\x91" * 100_000


@pytest.mark.parametrize(
    "value, back",
    [
        (3, 3), (2.5, 2.5), ("a", "a"), (b"a", b"a"), ([1, 2], [1, 2]), ([1, 2.5], [1.0, 2.5]), (["a"], ["a"]),
        ((1, [2.0], "x"), (1, [2.0], "x")), ([], []), (None, None), (np.float32(1.5), 1.5), (np.int16(-3), -3),
        (np.arange(3), [0, 1, 2]), (np.array([1.5, 2], dtype=">f8"), [1.5, 2.0]), (np.arange(3, dtype=np.uint8), [0, 1, 2]),
    ],
)
def test_rows_for_ready_reduces(value: Any, back: Any) -> None:
    assert through(value, "sum") == back


def test_arrays_of_numbers_as_numpy() -> None:
    vector = through(np.linspace(0, 1, 1000), "sum", "numpy")
    assert isinstance(vector, np.ndarray) and np.array_equal(vector, np.linspace(0, 1, 1000))
    assert through(np.arange(4)[::2], "sum") == [0, 2]
    assert through(np.arange(3)) == [0, 1, 2]
    with pytest.raises(treefold.InvalidValue, match="complex128"):
        _native.pack(np.array([1j]), "sum")


def test_scores_of_top_k_become_floats() -> None:
    assert through(([2, 1], ["a", "b"]), "top-k") == ([2.0, 1.0], ["a", "b"])
    assert _native.pack(([], []), "top-k") == _native.pack((np.array([]), []), "top-k")
    with pytest.raises(treefold.InvalidValue, match="expected \\(scores, payloads\\), found list"):
        _native.pack([(1, "a")], "top-k")


def test_tables_travel_as_arrow() -> None:
    table = pa.table({"host": ["a", "b"], "ms": [1.0, 2.0]})
    assert through(table).to_pydict() == table.to_pydict()
    assert through(table.to_batches()[0]).equals(table.to_batches()[0])
    assert through(table.slice(0, 0)).num_rows == 0
    with pytest.raises(treefold.InvalidValue, match="give a RecordBatch or a Table"):
        _native.pack(pa.array([1]), "value")
    assert _native.unpack(b"\xff\xff\xff\xffrest", "auto") == b"\xff\xff\xff\xffrest"


def test_none_adds_nothing_in_ready_reduces() -> None:
    service = treefold.Service("s", total=3)
    samples: dict[str, Any] = {
        "sum": 5, "min": [1.5], "average": 4, "top-k": ([1.0], ["a"]), "quantiles": [1.0], "distinct": "x",
        "sum-lines": "a\t1\n", "append": "ab", "group": pa.table({"k": ["a"]}), "concat-batches": pa.table({"k": ["a"]}),
        "merge-sorted": (["a"], [1]),
    }
    params = {"top-k": {"k": 2}, "group": {"keys": ["k"], "aggregates": []}}

    def sometimes(sample: Any) -> Any:
        return lambda partition, all: sample if partition.id == 1 and all is not False else None

    for name, sample in samples.items():
        service.aggregation(name, local=sometimes(sample), reduce=name, reduce_params=params.get(name))
    service.aggregation("count", local=lambda partition, _: None, reduce="count")
    with treefold.Cluster.embedded(3, service) as cluster:
        values = {name: cluster.call(f"s/{name}").value for name in samples}
        assert all(cluster.call(f"s/{name}", False).value is None for name in samples)
        assert cluster.call("s/count").value == 3
    assert values["sum"] == 5 and values["min"] == [1.5] and values["average"] == (4, 1)
    assert values["top-k"] == ([1.0], ["a"]) and values["quantiles"]["count"] == 1
    assert values["sum-lines"] == b"a\t1\n" and values["append"] == b"ab"
    assert values["group"].num_rows == values["concat-batches"].num_rows == 1 and values["merge-sorted"] == (["a"], [1])


def test_ready_reduces_fold_samples_of_python() -> None:
    service = treefold.Service("s", total=3)
    samples: dict[str, Any] = {
        "sum": lambda p, _: np.full(4, p.id, dtype=float),
        "min": lambda p, _: (p.id, -1.5),
        "average": lambda p, _: p.id,
        "count": lambda p, _: "anything",
        "top-k": lambda p, _: ([p.id], [f"p{p.id}"]),
        "sum-lines": lambda p, _: f"all\t1\np{p.id}\t2\n",
        "quantiles": lambda p, _: [float(p.id)] * 3,
        "distinct": lambda p, _: ["same", f"p{p.id}"],
        "group": lambda p, _: pa.table({"k": ["a", f"p{p.id}"], "n": [p.id, 1]}),
    }
    params = {"top-k": {"k": 2}, "group": {"keys": ["k"], "aggregates": [{"column": "n", "function": "sum"}]}}
    for name, local in samples.items():
        service.aggregation(name, local=local, reduce=name, reduce_params=params.get(name))
    assert set(samples) <= set(treefold.ready_reduces())
    with treefold.Cluster.embedded(3, service) as cluster:
        values = {name: cluster.call(f"s/{name}").value for name in samples}
    assert values["sum"] == [3.0] * 4 and values["min"] == (0, -1.5) and values["average"] == (3.0, 3)
    assert values["count"] == 3 and values["top-k"] == ([2.0, 1.0], ["p2", "p1"])
    assert values["sum-lines"] == b"all\t3\np0\t2\np1\t2\np2\t2\n"
    assert values["quantiles"]["count"] == 9 and round(values["distinct"]["estimate"]) == 4
    assert values["group"].to_pydict()["k"] == ["a", "p0", "p1", "p2"]
    assert [int(n) for n in values["group"].to_pydict()["sum(n)"]] == [3, 1, 1, 1]
