"""Worker processes, which run functions that occupy a processor.

A node's thread takes an idle worker, sends it one run as bytes, and waits for the answer without the
interpreter's lock. If the worker dies, that run fails and so costs its partition; the next run starts another
worker. If nobody waits for a run any longer, its worker has `CANCEL_GRACE` seconds to end it, and is killed
then.
"""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Callable, Optional

from . import _native
from ._reply import error_text
from .errors import InvalidOption, StartFailed, TreefoldError

#: Time that a worker has to start, with the imports of the functions' modules, in seconds.
START_TIMEOUT = 60.0
#: Time that a worker has to end a run for which nobody waits, in seconds.
CANCEL_GRACE = 1.0
#: Time between two looks at whether somebody still waits, in seconds.
LOOK_EVERY = 0.05

HINT = (
    "the functions must be importable by name, and the program must start its node below "
    "`if __name__ == \"__main__\":`"
)


class RunFailed(TreefoldError):
    """A run in a worker process has failed. The text says everything, so the node adds nothing to it."""

    is_complete = True


@dataclass
class Task:
    """A worker's view of an aggregation. `form` is "value", or the ready reduce whose samples the local
    gives."""

    name: str
    local: Optional[Callable[..., Any]]
    reduce: Optional[Callable[..., Any]]
    form: str
    decode: str


class Pool:
    """The worker processes of a node. `local` and `reduce` return functions of bytes that run in them."""

    def __init__(self, workers: int, service: str, tasks: list[Task], partitions: dict[int, Any]) -> None:
        try:
            self._setup = pickle.dumps((service, tasks, partitions))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidOption(f"worker processes can't get the service: {error}; {HINT}") from error
        self._closed = False
        # As many entries as workers: a worker, or None for one that is yet to be started.
        self._idle: "queue.LifoQueue[Optional[_Worker]]" = queue.LifoQueue()
        started: list[_Worker] = []
        try:
            for _ in range(workers):
                started.append(_Worker(self._setup))
            for worker in started:
                worker.await_ready()
                self._idle.put(worker)
        except BaseException:
            for worker in started:
                worker.kill()
            raise

    def local(self, name: str) -> Callable[..., bytes]:
        """The local of an aggregation."""
        return lambda partition, params: self._run(
            (name, (partition.id, partition.total, partition.slice, partition.slices), params)
        )

    def reduce(self, name: str) -> Callable[..., bytes]:
        """The reduce of an aggregation."""
        return lambda a, b, params: self._run((name, a, b, params))

    def close(self) -> None:
        """Ends all workers; one that is busy ends after its run."""
        self._closed = True
        while True:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                return
            if worker is not None:
                worker.kill()

    def _run(self, run: tuple[Any, ...]) -> bytes:
        worker = self._take()
        alive: Optional[_Worker] = None
        try:
            if worker is None:
                worker = _Worker(self._setup)
                worker.await_ready()
            answer = worker.run(run)
            alive = worker
        finally:
            if alive is None and worker is not None:
                worker.kill()
            if self._closed and alive is not None:
                alive.kill()
            self._idle.put(alive)
        is_done, result = answer
        if not is_done:
            raise RunFailed(result)
        return bytes(result)

    def _take(self) -> Optional["_Worker"]:
        while True:
            if self._closed:
                raise RunFailed("the node has ended")
            try:
                return self._idle.get(timeout=LOOK_EVERY)
            except queue.Empty:
                if _native.cancelled():
                    raise RunFailed("nobody waits for the result any longer") from None


class _Worker:
    """One process, and this side of its pipe."""

    def __init__(self, setup: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True, name="treefold-worker")
        try:
            self.process.start()
            theirs.close()
            self.pipe.send_bytes(setup)
        except (OSError, RuntimeError) as error:
            self.pipe.close()
            raise StartFailed(f"a worker process can't start: {error}; {HINT}") from error

    def await_ready(self) -> None:
        """Waits until the worker has the functions."""
        problem = f"it has not started within {START_TIMEOUT:.0f} s"
        try:
            if self.pipe.poll(START_TIMEOUT):
                problem = self.pipe.recv()
        except (EOFError, OSError):
            problem = f"it ended, exit code {self._exit_code()}"
        if problem:
            self.kill()
            raise StartFailed(f"a worker process can't start: {problem}; {HINT}")

    def run(self, run: tuple[Any, ...]) -> tuple[bool, Any]:
        """Sends one run and waits for its result, or for its error's text."""
        kill_at: Optional[float] = None
        try:
            self.pipe.send(run)
            while not self.pipe.poll(LOOK_EVERY):
                if kill_at is None and _native.cancelled():
                    kill_at = time.monotonic() + CANCEL_GRACE
                if kill_at is not None and time.monotonic() > kill_at:
                    raise RunFailed("nobody waits for the result any longer")
            answer: tuple[bool, Any] = self.pipe.recv()
            return answer
        except (EOFError, OSError):
            raise RunFailed(f"the worker process died, exit code {self._exit_code()}") from None

    def kill(self) -> None:
        """Ends the process at once."""
        self.pipe.close()
        self.process.kill()
        self.process.join()

    def _exit_code(self) -> Optional[int]:
        self.process.join(CANCEL_GRACE)
        return self.process.exitcode


def _work(pipe: Connection) -> None:
    """The worker's side: gets the functions, then runs until its parent closes the pipe."""
    # The terminal sends Ctrl-C to all processes; the node tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        service, tasks, partitions = pickle.loads(pipe.recv_bytes())
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("")
    known = {task.name: task for task in tasks}
    while True:
        try:
            run = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[bool, Any] = (True, _result(service, known[run[0]], partitions, run))
        except Exception as error:
            answer = (False, error_text(error))
        try:
            pipe.send(answer)
        except OSError:
            return


def _result(service: str, task: Task, partitions: dict[int, Any], run: tuple[Any, ...]) -> bytes:
    if len(run) == 3:
        _, (id, total, slice, slices), params = run
        assert task.local is not None, "invariant: a task has a local"
        partition = _native.Partition(service, id, total, partitions.get(id), slice, slices)
        value = task.local(partition, _native.unpack(params, task.decode))
        return _native.pack(value, task.form)
    _, a, b, params = run
    assert task.reduce is not None, "invariant: only a reduce that is a function runs here"
    merged = task.reduce(*(_native.unpack(payload, task.decode) for payload in (a, b, params)))
    return _native.pack(merged, "value")
