"""Starts programs as real processes, and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Iterator

import pytest
import treefold
from treefold import _native

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[1] / "examples"
TREEFOLD = Path(sysconfig.get_path("scripts")) / "treefold"

# A shell starts jobs in the background with interrupts ignored, and programs inherit that. The programs of tests are to
# be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)

needs_command = pytest.mark.skipif(not hasattr(_native, "run_command"), reason="built without the command")


class Program:
    """A process of a test, whose first line on standard output says that it is ready: a program of the tests,
    an example, or a command of `treefold`."""

    def __init__(self, name: str, *arguments: str, **environment: str) -> None:
        files = [directory / name for directory in (PROGRAMS, EXAMPLES) if (directory / name).exists()]
        program = [sys.executable, str(files[0])] if files else [str(TREEFOLD), name]
        command = [*program, *arguments]
        env = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().strip()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            # A running process stops a little later.
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def end(self, timeout: float = 20) -> tuple[int, str]:
        """Waits for its end and returns its exit code and its standard error."""
        _, errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, errors


@pytest.fixture
def start() -> Iterator[Any]:
    started: list[Program] = []

    def run(name: str, *arguments: str, **environment: str) -> Program:
        program = Program(name, *arguments, **environment)
        started.append(program)
        return program

    yield run
    for program in started:
        if program.process.poll() is None:
            program.process.send_signal(signal.SIGCONT)
            program.process.kill()
            program.process.communicate()


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TREEFOLD_TOKEN", "TREEFOLD_TOKEN_FILE", "TREEFOLD_KEYS"):
        monkeypatch.delenv(name, raising=False)


def logs(total: int = 4) -> treefold.Service:
    """A service whose partition i has i + 1 lines with the word "error"."""
    service = treefold.Service("logs", total=total)

    def matching(partition: treefold.Partition, word: str) -> int:
        return sum(word in line for line in partition.data)

    service.aggregation("matching", local=matching, reduce=lambda a, b, word: a + b)
    service.aggregation("ready", local=matching, reduce="sum")
    return service


def lines(total: int = 4) -> dict[int, list[str]]:
    return {id: ["an error"] * (id + 1) + ["fine"] for id in range(total)}
