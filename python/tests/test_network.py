"""Networks that are started from a topology file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import treefold

TREE = "HOST:0 => HOST:1 HOST:2 ; HOST:1 => HOST:[3-4] ; HOST:2 => HOST:[5-6] ;"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A topology whose processes bear a name of this test."""
    path = tmp_path / "tree.top"
    path.write_text(TREE.replace("HOST", f"py{os.getpid()}"))
    return path


def pid_of(process: str) -> int:
    """The process with this name in the topology."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if process.encode() in words:
                return int(entry.name)
    raise AssertionError(f"no process {process}")


def test_streams_follow_the_topology(tree: Path) -> None:
    with treefold.Network.up(tree, local=True) as network:
        roles = [process.role for process in network.processes]
        assert roles == ["front-end", "inner", "back-end", "back-end", "inner", "back-end", "back-end"]
        assert all(process.addr for process in network.processes) and network.failures == {}
        with network.client().stream("echo", up_filter="count") as stream:
            stream.send("x")
            wave = stream.wave(timeout=10)
            assert (list(wave.contributors), wave.coverage) == ([0, 1, 2, 3], 1.0)
            os.kill(pid_of(network.processes[1].name), signal.SIGKILL)
            for _ in range(20):
                stream.send("x")
                assert stream.wave(timeout=10).coverage == 1.0
        places = [process.name for process in network.processes[1:]]
    for place in places:
        with pytest.raises(AssertionError):
            pid_of(place)


def test_processes_that_do_not_start_are_named(tree: Path) -> None:
    command = ["sh", "-c", "echo no disk left >&2; exit 7"]
    with pytest.raises(treefold.StartFailed, match="exit status 7"):
        treefold.Network.up(tree, back_end=command, local=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"back_end": "./daemon"}, "back_end must be a list of words"),
        ({"back_end": []}, "back_end must be a list of words"),
        ({"token": ""}, "the token must be"),
        ({"timeout": -1}, "timeout must be seconds"),
    ],
)
def test_wrong_options_are_refused(tree: Path, options: dict[str, object], problem: str) -> None:
    with pytest.raises(treefold.InvalidOption, match=problem):
        treefold.Network.up(tree, local=True, **options)  # type: ignore[arg-type]


def test_wrong_topologies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(treefold.InvalidOption, match="can't read"):
        treefold.Network.up(tmp_path / "none.top")
    (tmp_path / "broken.top").write_text("a:0 => a:1")
    with pytest.raises(treefold.InvalidOption, match="topology"):
        treefold.Network.up(tmp_path / "broken.top")


def test_network_ends_with_its_process(tree: Path) -> None:
    script = (
        f"import treefold; network = treefold.Network.up({str(tree)!r}, local=True); print(network.addr, flush=True); input()"
    )
    # in another directory than the package's sources
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tree.parent
    )
    assert process.stdout is not None and process.stdout.readline().startswith("127.0.0.1:")
    name = f"py{os.getpid()}:3"
    pid = pid_of(name)
    process.kill()
    process.wait()
    while Path(f"/proc/{pid}").exists() and name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
        pass
