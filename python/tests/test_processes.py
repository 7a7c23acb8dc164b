"""Providers and clients in processes of their own."""

from __future__ import annotations

import signal
import socket
import time
from typing import Any

import pytest
import treefold


def free_addr() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def both(start: Any) -> tuple[Any, Any, treefold.Client]:
    first = start("provider.py", "127.0.0.1:0", "", "0")
    second = start("provider.py", "127.0.0.1:0", first.line, "1")
    return first, second, treefold.connect(first.line, second.line)


def test_provider_and_client_in_two_processes(start: Any) -> None:
    _, second, client = both(start)
    reply = client.call("logs/matching", "error")
    assert (reply.value, reply.coverage, reply.status) == (4, 1.0, "full")
    assert reply.contributed == [0, 1] and reply.missing == [] and 0 < reply.elapsed < 2
    assert second.line in dict(client.members())


def test_stopped_provider_gives_a_partial_answer(start: Any) -> None:
    _, second, client = both(start)
    assert client.call("logs/matching", "error").value == 4
    second.signal(signal.SIGSTOP)
    reply = client.call("logs/matching", "error", deadline=0.5, min_coverage=0.5)
    assert (reply.value, reply.coverage, reply.status) == (2, 0.5, "partial")
    (loss,) = reply.missing
    assert loss.partitions == (1,) and loss.reason in ("late", "no_replica", "lost")
    with pytest.raises(treefold.InsufficientCoverage) as raised:
        client.call("logs/matching", "error", deadline=0.5)
    assert raised.value.coverage <= 0.5 and (1,) in {loss.partitions for loss in raised.value.missing}
    second.signal(signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_serve_in_order(start: Any, number: int) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    provider.signal(number)
    code, errors = provider.end()
    assert (code, errors) == (0, "")


def test_second_signal_ends_serve_at_once(start: Any) -> None:
    program = start("stuck.py", "serve", "busy")
    assert program.process.stdout.readline().strip() == "runs"
    program.signal(signal.SIGTERM)
    assert program.process.stdout.readline().strip() == "stops"
    program.signal(signal.SIGINT)
    assert program.end() == (128 + signal.SIGINT, "")


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "first, gap", [(signal.SIGINT, 0.1), (signal.SIGINT, 0.4), (signal.SIGINT, 1.0), (signal.SIGTERM, 0.4)]
)
def test_signal_while_locals_are_ended_ends_the_process_at_once(start: Any, first: int, second: int, gap: float) -> None:
    program = start("stuck.py", "serve", "late")
    assert program.process.stdout.readline().strip() == "runs"
    program.signal(first)
    assert [program.process.stdout.readline().strip() for _ in range(2)] == ["stops", "ends"]
    time.sleep(gap)  # The locals have two seconds.
    program.signal(second)
    assert program.end() == (128 + second, "")


def test_interrupt_while_locals_of_a_background_node_are_ended(start: Any) -> None:
    program = start("stuck.py", "with", "late")
    assert [program.process.stdout.readline().strip() for _ in range(3)] == ["runs", "stops", "ends"]
    time.sleep(0.4)
    program.signal(signal.SIGINT)
    assert program.end() == (128 + signal.SIGINT, "")


@pytest.mark.parametrize("how", ["with", "serve"])
@pytest.mark.parametrize("kind", ["busy", "stubborn", "asleep", "in a call"])
def test_process_leaves_locals_that_run_for_ever(start: Any, how: str, kind: str) -> None:
    program = start("stuck.py", how, kind)
    assert program.process.stdout.readline().strip() == "runs"
    if how == "serve":
        program.signal(signal.SIGTERM)
    assert program.end() == (7, "")


def test_subinterpreters_are_refused(start: Any) -> None:
    program = start("subinterpreter.py")
    assert program.line.startswith("ImportError: treefold can't be used in a subinterpreter"), program.line
    assert program.process.stdout.readline().strip() == "main 1"
    assert program.end() == (0, "")


def test_signal_during_the_start_ends_serve_in_order(start: Any) -> None:
    # A seed that takes connections and says nothing holds up the start for a second.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        program = start("starting.py", f"127.0.0.1:{silent.getsockname()[1]}")
        assert program.line == "starting"
        silent.settimeout(10)
        connection, _ = silent.accept()
        program.signal(signal.SIGTERM)
        code, errors = program.end()
        connection.close()
    assert (code, errors) == (0, "")


def test_own_address_in_join_is_ignored(start: Any) -> None:
    addr = free_addr()
    provider = start("provider.py", addr, addr, "0,1")
    assert provider.line == addr
    assert treefold.connect(addr).call("logs/matching", "error").value == 4


def test_interrupt_ends_a_blocking_call_and_cancels_it(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    caller = start("caller.py", provider.line)
    assert caller.line == "ready"
    time.sleep(0.5)  # until the call is under way; a call that is not is interrupted as well
    caller.signal(signal.SIGINT)
    assert caller.process.stdout.readline().strip() == "interrupted"
    assert caller.end()[0] == 0
    assert provider.process.stdout.readline().strip() == "cancelled"


def test_provider_that_is_gone_is_unreachable(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    client = treefold.connect(provider.line)
    provider.process.kill()
    provider.end()
    with pytest.raises(treefold.Unreachable):
        client.call("logs/matching", "error")
    with pytest.raises(ConnectionError):
        treefold.connect(provider.line)


def test_second_address_is_used_if_the_first_is_dead(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    assert treefold.connect(free_addr(), provider.line).call("logs/matching", "error").value == 4


def test_taken_address_fails_to_start(start: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    again = start("provider.py", provider.line, "", "0,1")
    code, errors = again.end()
    assert code == 1 and "StartFailed: can't listen at" in errors


def test_token_is_taken_from_the_environment_as_in_the_command(start: Any, monkeypatch: Any, tmp_path: Any) -> None:
    provider = start("provider.py", "127.0.0.1:0", "", "0,1", TREEFOLD_TOKEN="a secret")
    with pytest.raises(treefold.Unreachable):
        treefold.connect(provider.line)
    assert treefold.connect(provider.line, token="a secret").call("logs/matching", "error").value == 4
    (tmp_path / "token").write_text("a secret\n")
    monkeypatch.setenv("TREEFOLD_TOKEN_FILE", str(tmp_path / "token"))
    assert treefold.connect(provider.line).call("logs/matching", "error").value == 4
    monkeypatch.setenv("TREEFOLD_KEYS", str(tmp_path / "keys"))
    with pytest.raises(treefold.InvalidOption, match="set only one of them"):
        treefold.connect(provider.line)
    with pytest.raises(treefold.InvalidOption, match="not both"):
        treefold.connect(provider.line, token="a", keys="b")
    with pytest.raises(treefold.InvalidOption, match="keys"):
        treefold.connect(provider.line, keys=tmp_path / "keys")


def test_interpreter_ends_in_order_while_nodes_and_calls_run(start: Any) -> None:
    for _ in range(3):
        program = start("ending.py")
        assert program.line == "ending"
        assert program.end()[0] == 0


def test_forked_child_makes_calls_of_its_own(start: Any) -> None:
    import os

    provider = start("provider.py", "127.0.0.1:0", "", "0,1")
    assert treefold.connect(provider.line).call("logs/matching", "error").value == 4
    child = os.fork()
    if child == 0:
        value = treefold.connect(provider.line).call("logs/matching", "error").value
        os._exit(0 if value == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0
