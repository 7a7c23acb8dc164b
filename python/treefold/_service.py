"""Services: Python functions as the locals and reduces of a node."""

from __future__ import annotations

import atexit
import inspect
import signal
import threading
import weakref
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Callable, Iterable, Mapping, Optional, TypeVar, Union, overload

from . import _native
from ._client import Client
from ._ending import SIGNALLED, end_at_signals, end_functions
from ._endpoints import Endpoints
from ._options import (
    Path,
    Time,
    ids_of,
    is_unicode,
    optional_text,
    seconds,
    secrets,
    shown,
    text,
    texts,
)
from ._reply import Reply
from ._workers import Pool, Task
from .errors import InvalidOption

F = TypeVar("F", bound=Callable[..., Any])
Partitions = Union[int, Iterable[int], Mapping[int, Any]]

#: Time between two looks at whether a node that serves still runs, in seconds.
LOOK_EVERY = 0.5

#: Most partitions of a service, most that nodes share among themselves, and most copies of one of these, as in treefold-core.
PARTITIONS_MAX = 2**20
PLACED_PARTITIONS_MAX = 2**14
REPLICAS_MAX = 16
#: The largest number of workers, processors or nodes that can be given.
COUNT_MAX = 2**32 - 1

#: The arguments of a service's functions.
ARGUMENTS = {"local": "partition, params", "reduce": "a, b, params"}

#: What still runs, to be ended before the interpreter is.
_running: "weakref.WeakSet[Any]" = weakref.WeakSet()

#: Time that locals and reduces have to finish when the interpreter ends, in seconds. A second signal leaves them none.
_grace = 2.0


@dataclass
class Aggregation:
    """A pair of a local and a reduce. One of `reduce` and `ready` is set."""

    local: Optional[Callable[..., Any]] = None
    reduce: Optional[Callable[..., Any]] = None
    ready: Optional[str] = None
    ready_params: Any = None
    ready_field: Optional[str] = None
    decode: str = "auto"
    slices: bool = False


class Service:
    """A named service: its aggregations, and how many partitions it has over all nodes.

        service = treefold.Service("logs", total=2)

        @service.local("matching")
        def matching(partition, word):
            return sum(word in line for line in partition.data)

        @service.reduce("matching")
        def add(a, b, word):
            return a + b

        service.serve(listen="127.0.0.1:7820", partitions={0: ["an error", "fine"]})

    `total` is the number of partitions over all nodes; all nodes declare the same. Without it, the cluster
    guesses it.

    With `pushed`, the service is an application whose workers attach to the node and push the partials
    (`treefold.push`). It has reduces, and neither locals nor partitions.
    """

    def __init__(self, name: str, *, total: Optional[int] = None, pushed: bool = False) -> None:
        if not isinstance(name, str) or not name or "/" in name or not is_unicode(name):
            raise InvalidOption(f"a service's name must be a text, not empty and without '/', not {shown(name)}")
        if total is not None:
            _check_count("total", total, PARTITIONS_MAX)
        self.name = name
        self.total = total
        self.pushed = pushed
        self._endpoint: Optional[Callable[..., Any]] = None
        self._endpoint_decode = "auto"
        self._loader: Optional[Callable[[int], Any]] = None
        self._replicas = 1
        self.aggregations: dict[str, Aggregation] = {}

    def local(self, aggregation: str, *, decode: str = "auto", slices: bool = False) -> Callable[[F], F]:
        """Makes the decorated function the local of an aggregation: `f(partition, params)` returns a partial.

        `partition` has `id`, `total`, `service`, and `data`, the value given for it. The function runs on a
        thread of the node, or in a worker process. An exception makes the partition missing, with the
        exception as the reason. `decode` says how parameters and partials are read, as in `Client.call`.

        With `slices`, callers may read the result slice by slice (`Client.each_slice`): the function then returns part
        `partition.slice` of the `partition.slices` parts of its partial, which are 0 and 1 if all of it is asked for. Equal
        keys of all partitions must be in the same part.
        """

        self._check_name(aggregation, "local")
        text("decode", decode)

        def register(function: F) -> F:
            self._check(aggregation, "local", function)
            entry = self.aggregations.setdefault(aggregation, Aggregation())
            _check_new(f"the local of {aggregation!r}", entry.local or entry.ready)
            entry.local, entry.decode, entry.slices = function, decode, slices
            return function

        return register

    def reduce(self, aggregation: str) -> Callable[[F], F]:
        """Makes the decorated function the reduce of an aggregation: `f(a, b, params)` returns one partial of
        two.

        It must be associative and commutative, because the tree differs from call to call.
        """

        self._check_name(aggregation, "reduce")

        def register(function: F) -> F:
            self._check(aggregation, "reduce", function)
            entry = self.aggregations.setdefault(aggregation, Aggregation())
            _check_new(f"the reduce of {aggregation!r}", entry.reduce or entry.ready)
            entry.reduce = function
            return function

        return register

    def aggregation(
        self,
        name: str,
        *,
        local: Optional[Callable[..., Any]] = None,
        reduce: Union[str, Callable[..., Any]],
        reduce_params: Any = None,
        reduce_params_field: Optional[str] = None,
        decode: str = "auto",
        slices: bool = False,
    ) -> None:
        """Adds an aggregation. `reduce` is a function, or the name of a ready reduce, which folds without
        Python.

        `treefold.ready_reduces()` lists the names, and docs/filters.md their parameters, which are given as
        `reduce_params`:

            service.aggregation("best", local=best, reduce="top-k", reduce_params={"k": 10})

        If each call has parameters of its own for the ready reduce, `reduce_params_field` is the field of the call's
        parameters, a dict, that has them. The fold reads it without Python:

            service.aggregation("best", local=best, reduce="top-k", reduce_params_field="top")
            client.call("vectors/best", {"query": query, "top": {"k": 10}})

        `slices` is that of `local`.

        Only an application whose workers push has no `local`; its master announces the parameters.
        """
        self._check_name(name, "aggregation")
        _check_new(f"the aggregation {name!r}", self.aggregations.get(name))
        if local is not None or not self.pushed:
            self._check(name, "local", local)
        elif reduce_params is not None or reduce_params_field is not None:
            raise InvalidOption("the master announces the parameters of an application's reduces")
        if reduce_params is not None and reduce_params_field is not None:
            raise InvalidOption("give reduce_params, or the field of each call's parameters that has them, not both")
        optional_text("reduce_params_field", reduce_params_field)
        text("decode", decode)
        if isinstance(reduce, str):
            if reduce not in _native.reduces():
                known = ", ".join(_native.reduces())
                raise InvalidOption(f"no ready reduce is named {shown(reduce)}; there are {known}")
            self.aggregations[name] = Aggregation(
                local, None, reduce, reduce_params, reduce_params_field, decode, slices
            )
            return
        if reduce_params is not None or reduce_params_field is not None:
            raise InvalidOption("reduce_params are for ready reduces; a function gets the call's parameters")
        self._check(name, "reduce", reduce)
        self.aggregations[name] = Aggregation(local, reduce, decode=decode, slices=slices)

    @overload
    def endpoint(self, function: F) -> F: ...
    @overload
    def endpoint(self, *, decode: str = "auto") -> Callable[[F], F]: ...
    def endpoint(self, function: Optional[F] = None, *, decode: str = "auto") -> Any:
        """Makes the decorated function the endpoint of streams: `f(stream)` runs once for each partition of each
        stream that is opened to the service.

            @service.endpoint
            def thermometer(stream):
                for packet in stream:
                    stream.send(read(stream.partition.data), tag=packet.tag)

        `stream` is a `treefold.EndpointStream`. The function runs on a thread of its own. One that is declared
        with `async def` gets a `treefold.AsyncEndpointStream` and runs in one event loop with all others.

        If it returns or fails, its endpoint leaves the stream, and waves list it as missing with the reason.
        `decode` says how packets and parameters are read, as in `Client.call`.
        """

        text("decode", decode)

        def register(function: F) -> F:
            _check_takes("the endpoint", function, "stream", may_wait=True)
            _check_new("the endpoint", self._endpoint)
            self._endpoint, self._endpoint_decode = function, decode
            return function

        return register if function is None else register(function)

    @overload
    def loader(self, function: F) -> F: ...
    @overload
    def loader(self, *, replicas: int = 1) -> Callable[[F], F]: ...
    def loader(self, function: Optional[F] = None, *, replicas: int = 1) -> Any:
        """Makes the decorated function the loader of the service's partitions: `f(id)` returns the data of a partition.

            @service.loader(replicas=2)
            def load(id):
                return open(f"/shared/logs/{id}.txt").read().splitlines()

        The nodes of the cluster then share the partitions among themselves, with `replicas` copies of each, and move
        them while nodes join, leave and fail (docs/placement.md). The service must declare its total. A partition that
        can't be loaded is tried again, and later left to other nodes.
        """
        if not isinstance(replicas, int) or not 1 <= replicas <= REPLICAS_MAX:
            raise InvalidOption(f"replicas is {replicas!r}; allowed: 1 to {REPLICAS_MAX}")

        def register(function: F) -> F:
            _check_takes("the loader", function, "id")
            _check_new("the loader", self._loader)
            if self.total is None:
                raise InvalidOption("a service with a loader must declare its total")
            _check_count("total of a service with a loader", self.total, PLACED_PARTITIONS_MAX)
            self._loader, self._replicas = function, replicas
            return function

        return register if function is None else register(function)

    def serve(
        self,
        listen: str = "127.0.0.1:7820",
        join: Iterable[str] = (),
        partitions: Partitions = (),
        *,
        ready: "Optional[Callable[[Node], Any]]" = None,
        grace: Time = 5.0,
        workers: Optional[int] = None,
        processors: Optional[int] = None,
        advertise: Optional[str] = None,
        rack: str = "",
        zone: str = "",
        name: str = "",
        cluster: Optional[str] = None,
        token: Optional[str] = None,
        keys: Optional[Path] = None,
        insecure: bool = False,
        relay: bool = False,
        record: Optional[Path] = None,
    ) -> None:
        """Starts a node with this service and blocks until SIGINT or SIGTERM, or until the node is stopped.

        At the first signal the node leaves the cluster and finishes open work within `grace` seconds; a
        second one ends the program at once, by `SystemExit` with 128 plus the number of the signal. On another
        thread than the main one, signals are not handled. `ready` is
        called with the node once it listens. The other parameters are those of `start`.
        """
        _native.log_to_stderr()
        node: Optional[Node] = None
        try:
            with _Signals() as signals:
                try:
                    node = self.start(
                        listen, join, partitions, workers=workers, processors=processors, advertise=advertise,
                        rack=rack, zone=zone, name=name, cluster=cluster, token=token, keys=keys, insecure=insecure,
                        relay=relay, record=record,
                    )
                    signals.is_starting = False
                    if ready is not None:
                        ready(node)
                    while node.is_running and not signals.stop.wait(LOOK_EVERY):
                        pass
                    node.stop(grace)
                finally:
                    if node is not None:
                        node.abort()
        except _Stopped:
            pass  # The node had not started yet.
        except _StoppedAgain as again:
            global _grace
            _grace = 0.0
            raise SystemExit(SIGNALLED + again.number) from None

    def start(
        self,
        listen: str = "127.0.0.1:0",
        join: Iterable[str] = (),
        partitions: Partitions = (),
        *,
        workers: Optional[int] = None,
        processors: Optional[int] = None,
        advertise: Optional[str] = None,
        rack: str = "",
        zone: str = "",
        name: str = "",
        cluster: Optional[str] = None,
        token: Optional[str] = None,
        keys: Optional[Path] = None,
        insecure: bool = False,
        relay: bool = False,
        record: Optional[Path] = None,
    ) -> "Node":
        """Starts a node with this service in the background and returns it once it listens.

        `listen` is its address, `host:port`; port 0 takes a free one. `join` are addresses of nodes of the
        cluster; its own may be among them. `partitions` are the numbers that it holds, or a dict from numbers
        to their data.

        With `workers`, that many processes run the functions, for work that occupies a processor. The
        functions must then be importable by name, and data must be picklable. A worker that dies costs the
        partition it works on. `processors` is the number of jobs at a time; by default, the number of workers
        or else of the machine's processors.

        `advertise` is the address at which others reach the node, if it differs. `rack` and `zone` are its
        place. `name` is one that it keeps when it restarts; a service with a loader knows the node by it.
        `cluster`, `token` and `keys` are as in `treefold.connect`; `insecure` lets it listen beyond this machine
        without them. A `relay` holds no partitions and only folds. `record` is a file to record all its inputs to.

        Raises `StartFailed` if the node cannot start.
        """
        held = held_of(partitions)
        for what, number in (("workers", workers), ("processors", processors)):
            if number is not None:
                _check_count(what, number, COUNT_MAX)
        if self._loader is not None and (held or workers or self._endpoint is not None):
            raise InvalidOption("a service with a loader has no partitions of its own, no worker processes and no endpoint")
        pool = self._pool(workers, held) if workers else None
        try:
            spec = {
                "listen": text("listen", listen),
                "advertise": optional_text("advertise", advertise),
                "join": texts("join", join),
                "rack": text("rack", rack),
                "zone": text("zone", zone),
                "name": text("name", name),
                "processors": processors or workers,
                "relay": relay,
                "record": record,
                "secrets": secrets(cluster, token, keys, insecure),
                "service": self._spec(held, pool),
            }
            node = Node(_native.start_node(spec).wait(), pool, self.name)
            self._accept(node._native.acceptor, held)
            return node
        except BaseException:
            if pool is not None:
                pool.close()
            raise

    def _check_name(self, aggregation: Any, role: str) -> None:
        if callable(aggregation):
            raise InvalidOption(f"give the aggregation's name, as in @service.{role}('matching')")
        if not isinstance(aggregation, str) or not aggregation or "/" in aggregation or not is_unicode(aggregation):
            raise InvalidOption(f"an aggregation's name must be a text, not empty and without '/', not {shown(aggregation)}")

    def _check(self, aggregation: str, role: str, function: Any) -> None:
        self._check_name(aggregation, role)
        _check_takes(f"the {role} of {aggregation!r}", function, ARGUMENTS[role])

    def _accept(self, acceptor: Optional[_native.Acceptor], held: Mapping[int, Any]) -> None:
        """Runs the endpoint function for the streams that are opened."""
        if acceptor is not None and self._endpoint is not None:
            Endpoints(acceptor, self._endpoint, self._endpoint_decode, self.total, held)

    def _complete(self) -> dict[str, Aggregation]:
        if not self.aggregations and self._endpoint is None:
            raise InvalidOption(f"service {self.name!r} has no aggregation and no endpoint")
        for name, entry in self.aggregations.items():
            if entry.local is None and not self.pushed:
                raise InvalidOption(f"aggregation {name!r} has no local")
            if entry.reduce is None and entry.ready is None:
                raise InvalidOption(f"aggregation {name!r} has no reduce")
        return self.aggregations

    def _held(self, partitions: Optional[Partitions]) -> dict[int, Any]:
        """The data of the given partitions; by default, of all of the service's total."""
        if self._loader is not None:
            if partitions is not None:
                raise InvalidOption("a service with a loader has no partitions of its own")
            return {}
        if partitions is None:
            if self.total is None:
                raise InvalidOption("give the partitions, or declare the service's total")
            partitions = range(self.total)
        return held_of(partitions)

    def _pool(self, workers: int, held: dict[int, Any]) -> Pool:
        aggregations = self._complete()
        if not aggregations:
            raise InvalidOption("worker processes run locals and reduces, and the service has neither")
        tasks = [Task(name, a.local, a.reduce, a.ready or "value", a.decode) for name, a in aggregations.items()]
        return Pool(workers, self.name, tasks, held)

    def _spec(self, held: dict[int, Any], pool: Optional[Pool] = None) -> dict[str, Any]:
        specs = []
        for name, entry in self._complete().items():
            local, reduce = entry.local, entry.reduce
            if pool is not None:
                local = pool.local(name)
                reduce = pool.reduce(name) if reduce is not None else None
            specs.append({
                "name": name,
                "local": local,
                "reduce": reduce,
                "ready": entry.ready,
                "ready_params": entry.ready_params,
                "ready_field": entry.ready_field,
                "raw": pool is not None,
                "slices": entry.slices,
                "decode": entry.decode,
            })
        return {
            "name": self.name,
            "total": self.total,
            "aggregations": specs,
            "endpoints": self._endpoint is not None,
            "pushed": self.pushed,
            "partitions": held,
            "loader": self._loader,
            "replicas": self._replicas,
        }

    def __repr__(self) -> str:
        return f"Service({self.name!r}, total={self.total!r})"


def ready_reduces() -> list[str]:
    """The names of the ready reduces, which every node has; docs/filters.md describes them."""
    return _native.reduces()


def _check_count(name: str, number: Any, most: int) -> None:
    """Checks a whole number from 1."""
    if not isinstance(number, int) or not 1 <= number <= most:
        raise InvalidOption(f"{name} is {shown(number)}; allowed: a whole number from 1 to {most}")


def _check_new(what: str, known: Any) -> None:
    """Checks that something is declared once: of two functions, one would never run."""
    if known is not None:
        raise InvalidOption(f"{what} is declared twice")


def _check_takes(what: str, function: Any, arguments: str, may_wait: bool = False) -> None:
    """Checks that a function takes these arguments and returns a value; with `may_wait`, it may be `async def`."""
    if not callable(function):
        raise InvalidOption(f"{what} must be a function, not {function!r}")
    generator = "a generator, with `yield`"
    kinds: list[tuple[str, Callable[[Any], bool]]] = [
        ("`async def`", inspect.iscoroutinefunction),
        (generator, inspect.isgeneratorfunction),
        (generator, inspect.isasyncgenfunction),
    ]
    for kind, is_kind in kinds[int(may_wait) :]:
        if is_kind(function) or is_kind(getattr(function, "__call__", None)):
            raise InvalidOption(f"{what} must be a function that returns its value, and {function!r} is {kind}")
    try:
        inspect.signature(function).bind(*[None] * len(arguments.split(",")))
    except TypeError:
        raise InvalidOption(f"{what} must take ({arguments})") from None
    except ValueError:
        pass  # A function of C has no signature to check.


def held_of(partitions: Partitions) -> dict[int, Any]:
    if isinstance(partitions, Mapping):
        return dict(zip(ids_of("partitions", partitions), partitions.values()))
    return {id: None for id in ids_of("partitions", partitions)}


class Node:
    """A running node. `Service.start` makes one. As a context manager, it is stopped at the end."""

    def __init__(self, native: _native.Node, pool: Optional[Pool], service: str) -> None:
        self._native = native
        self._pool = pool
        self._service = service
        _running.add(self)

    @property
    def addr(self) -> str:
        """The address at which others reach it, `host:port`."""
        return self._native.addr

    @property
    def is_running(self) -> bool:
        """True until the node has ended, for any reason."""
        return self._native.is_running()

    def client(self) -> Client:
        """A client of this node, without a connection."""
        return Client(self._native.client())

    def call(self, aggregation: str, params: Any = None, **options: Any) -> Reply[Any]:
        """Calls `service/aggregation` by this node, with the parameters of `Client.call`."""
        return self.client().call(aggregation, params, **options)

    def add_partition(self, id: int, data: Any = None) -> None:
        """Adds a partition of the node's service while it runs, or replaces its data. Calls find it when this returns.

        Raises `InvalidOption` if the service has no such partition, or has a loader.
        """
        self._check_held(id)
        self._native.add_partition(self._service, id, data).wait()

    def drop_partition(self, id: int) -> None:
        """Stops to announce a partition. The node still answers for it for some seconds, while others hear of that.

        It does not check whether another node holds the partition. Raises `InvalidOption` if the node does not hold it.
        """
        self._check_held(id)
        self._native.drop_partition(self._service, id).wait()

    def _check_held(self, id: int) -> None:
        if self._pool is not None:
            raise InvalidOption("the worker processes of this node have their partitions from the start")
        ids_of("id", [id])

    def stop(self, grace: Time = 5.0) -> None:
        """Leaves the cluster, finishes open work within `grace` seconds, and ends."""
        within = seconds("grace", grace)
        try:
            self._native.stop(0.0 if within is None else within).wait()
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends at once, as `kill -9` would, and with it the worker processes."""
        self._native.abort()
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> "Node":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Node({self.addr!r}, {'running' if self.is_running else 'ended'})"


class Cluster:
    """Nodes in this process that form a cluster, for notebooks and tests.

        with treefold.Cluster.embedded(4, service) as cluster:
            reply = cluster.call("logs/matching", "error")
    """

    def __init__(self, native: _native.Cluster) -> None:
        self._native = native
        _running.add(self)

    @classmethod
    def embedded(
        cls,
        nodes: int,
        service: Service,
        partitions: Optional[Partitions] = None,
        *,
        processors: Optional[int] = None,
    ) -> "Cluster":
        """Starts `nodes` nodes with this service, and returns when they know each other.

        `partitions` are dealt out to the nodes in turn; by default, they are all of the service's total.
        `processors` is the number of jobs that each node runs at a time.
        """
        if not isinstance(service, Service):
            raise InvalidOption(f"service must be a treefold.Service, not {shown(service)}")
        _check_count("nodes", nodes, COUNT_MAX)
        if processors is not None:
            _check_count("processors", processors, COUNT_MAX)
        held = service._held(partitions)
        cluster = cls(_native.start_cluster(nodes, service._spec(held), processors).wait())
        service._accept(cluster._native.acceptor, held)
        return cluster

    @property
    def addrs(self) -> list[str]:
        """The nodes' addresses."""
        return list(self._native.addrs)

    def client(self) -> Client:
        """A client of the first node, without a connection."""
        return Client(self._native.client())

    def call(self, aggregation: str, params: Any = None, **options: Any) -> Reply[Any]:
        """Calls `service/aggregation` by the first node, with the parameters of `Client.call`."""
        return self.client().call(aggregation, params, **options)

    def kill(self, node: int) -> None:
        """Ends a node, by its index, as `kill -9` would."""
        self._native.kill(node)

    def stall(self, node: int, stalled: bool = True) -> None:
        """Makes a node stand still, as SIGSTOP would, or go on."""
        self._native.stall(node, stalled)

    def __repr__(self) -> str:
        return f"Cluster({len(self.addrs)} nodes)"

    def close(self) -> None:
        """Ends all nodes in order."""
        self._native.stop().wait()

    def abort(self) -> None:
        """Ends all nodes at once."""
        self._native.abort()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class _Stopped(BaseException):
    """A signal came while the node was starting."""


class _StoppedAgain(BaseException):
    """A second signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """SIGINT and SIGTERM set `stop`; a second signal raises `_StoppedAgain`. While the node is starting, the
    first one raises `_Stopped`. Former handlers are restored."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.is_starting = True
        self.former: dict[int, Any] = {}

    def __enter__(self) -> "_Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.former[number] = signal.signal(number, self.handle)
        return self

    def handle(self, number: int, frame: Optional[FrameType]) -> None:
        if self.stop.is_set():
            raise _StoppedAgain(number)
        self.stop.set()
        if self.is_starting:
            raise _Stopped

    def __exit__(self, *error: Any) -> None:
        for number, handler in self.former.items():
            signal.signal(number, handler)


@atexit.register
def _end_all() -> None:
    """Ends all nodes, because their threads must not call functions of an interpreter that ends."""
    end_at_signals()
    for running in list(_running):
        running.abort()
    _native.begin_ending(_grace)
    end_functions()
