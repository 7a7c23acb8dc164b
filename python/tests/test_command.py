"""The console script."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import TREEFOLD, needs_command

pytestmark = needs_command


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([TREEFOLD, *words], capture_output=True, text=True, timeout=30)


def test_command_calls_a_service_of_python(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    done = run("call", "logs/matching", "--at", provider.line, "--params", '"error"')
    assert done.returncode == 0 and done.stdout.startswith("4\nfull: coverage 1.000")


def test_exit_codes_and_help_are_those_of_the_command(start: Any) -> None:
    assert run("call", "logs/matching", "--at", "127.0.0.1:1").returncode == 5
    wrong = run("call", "-o", "json", "--deadlin")
    assert wrong.returncode == 2 and '"kind":"usage"' in wrong.stdout.replace(" ", "")
    assert "Usage: treefold" in run("--help").stdout
    provider = start("provider.py", "127.0.0.1:0", "", "0")
    partial = run("call", "logs/matching", "--at", provider.line, "--params", '"error"', "--min-coverage", "0.5")
    assert partial.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_node_of_the_command_obeys_signals(number: int) -> None:
    node = subprocess.Popen([TREEFOLD, "node", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    assert node.stdout is not None and node.stdout.readline().startswith("listening on")
    node.send_signal(number)
    assert node.wait(10) == 0


def test_interrupt_ends_a_call(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    call = [TREEFOLD, "call", "logs/slow", "--at", provider.line, "--params", "30", "--deadline", "40s"]
    caller = subprocess.Popen(call)
    time.sleep(1)
    caller.send_signal(signal.SIGINT)
    assert caller.wait(5) == -signal.SIGINT


def test_command_starts_itself_again(tmp_path: Path) -> None:
    (tmp_path / "two").write_text("localhost:0 => localhost:1 localhost:2 ;\n")
    done = run("up", str(tmp_path / "two"), "--local", "--", "echo", "they are up")
    assert done.returncode == 0 and "they are up" in done.stdout


def test_control_characters_of_an_answer_are_shown() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    from treefold.sql._command import printable

    assert printable("a\x1b[2Jb\x9b\r\tc\n") == "a\\u{1b}[2Jb\\u{9b}\\u{d}\tc\n"
