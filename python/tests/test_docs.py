"""Runs the examples of the documentation as they are pasted, with free ports."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
import treefold
from test_processes import free_addr

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def programs(page: str) -> dict[str, str]:
    named = [(re.match(r"# (\w+\.py)\n", code), code) for language, code in blocks(page) if language == "python"]
    return {name.group(1): code for name, code in named if name}


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_provider_and_client_as_pasted(page: str, tmp_path: Path) -> None:
    addrs = {"127.0.0.1:7820": free_addr(), "127.0.0.1:7821": free_addr()}
    for name, code in programs(page).items():
        for written, free in addrs.items():
            code = code.replace(written, free)
        (tmp_path / name).write_text(code)
    providers = [subprocess.Popen([sys.executable, tmp_path / "logs.py", str(number)]) for number in (0, 1)]

    def ask() -> str:
        run = [sys.executable, tmp_path / "ask.py"]
        return subprocess.run(run, capture_output=True, text=True, timeout=20).stdout

    try:
        until = time.monotonic() + 20
        while "1.0" not in ask() and time.monotonic() < until:
            time.sleep(0.1)
        if page == "README.md":
            assert ask() == "3 1.0 []\n"
        else:
            assert ask() == next(code for language, code in blocks(page) if language == "text")
        providers[1].send_signal(signal.SIGSTOP)
        partial = ask()
        assert " 0.5" in partial and "partition 1" in partial
        providers[1].send_signal(signal.SIGCONT)
        for provider in providers:
            provider.send_signal(signal.SIGTERM)
        assert [provider.wait(20) for provider in providers] == [0, 0]
    finally:
        for provider in providers:
            provider.kill()
            provider.wait()


def snippets() -> list[str]:
    pasted = [code for language, code in blocks("docs/python.md") if language == "python"]
    return [code for code in pasted if not re.match(r"# \w+\.py\n", code)]


@pytest.mark.parametrize("code", snippets())
def test_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert treefold.__doc__
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/python.md", "exec"), {"__name__": "example"})


def test_example_with_workers_runs(tmp_path: Path) -> None:
    (tmp_path / "primes.py").write_text(programs("docs/python.md")["primes.py"])
    run = subprocess.run([sys.executable, tmp_path / "primes.py"], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("168\n", "")


def test_page_of_sql_as_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("sqlglot")
    if not hasattr(treefold._native, "run_command"):
        pytest.skip("built without the command")
    page = blocks("docs/sql.md")
    script = "".join(code for language, code in page if language == "sh")
    for written in ("127.0.0.1:7765", "127.0.0.1:7766"):
        script = script.replace(written, free_addr())
    # What the nodes print belongs to no example.
    script = script.replace("/4' &", "/4' >/dev/null 2>&1 &")
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, cwd=tmp_path,
        env={**os.environ, "PATH": path},
    )
    wanted = "".join(code for language, code in page[1:] if language == "text")
    pattern = re.escape(wanted).replace("…", ".*")
    assert re.fullmatch(pattern, run.stdout), run.stdout
    (code,) = (code for language, code in page if language == "python")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/sql.md", "exec"), {"__name__": "example"})


def test_everything_public_is_documented() -> None:
    modules = [treefold, treefold.aio, treefold.mirrors, treefold.push]
    if importlib.util.find_spec("duckdb") and importlib.util.find_spec("sqlglot"):
        modules.append(importlib.import_module("treefold.sql"))
    for module, name in ((module, name) for module in modules for name in module.__all__):
        thing: Any = getattr(module, name)
        assert thing.__doc__ or name == "Update", name
        members = [member for each in thing.__mro__ for member in vars(each).items()] if isinstance(thing, type) else []
        for member, value in members:
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{member}"


def test_clients_of_asyncio_take_the_same_parameters() -> None:
    for name in ("Client", "Stream", "Worker", "Reader", "attach", "connect"):
        blocking = getattr(treefold, name, None) or getattr(treefold.push, name, None) or getattr(treefold.mirrors, name)
        pairs = [(blocking, getattr(treefold.aio, name))]
        if isinstance(blocking, type):
            methods = [member for member in vars(blocking) if not member.startswith("_")]
            pairs = [(getattr(blocking, member), getattr(pairs[0][1], member)) for member in methods]
        for one, other in pairs:
            assert inspect.signature(one).parameters == inspect.signature(other).parameters, one


def test_types_are_complete() -> None:
    pytest.importorskip("mypy")
    user = "import treefold\nreply = treefold.connect('127.0.0.1:1').call('a/b')\nshare: float = reply.coverage\n"
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull]
    run = subprocess.run([*check, "treefold"], capture_output=True, text=True, timeout=110, cwd=ROOT / "python")
    assert run.returncode == 0, run.stdout + run.stderr
    run = subprocess.run([*check, "-c", user], capture_output=True, text=True, timeout=110, cwd="/")
    assert run.returncode == 0, run.stdout + run.stderr


def test_lock_file_has_the_versions_of_the_workspace() -> None:
    def versions(path: str) -> set[tuple[str, str]]:
        pattern = r'^name = "(.+)"\nversion = "(.+)"'
        return set(re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE))

    others = {name for name, _ in versions("python/Cargo.lock") - versions("Cargo.lock")}
    own = {name for name in others if name.startswith("pyo3") or name == "treefold-python"}
    assert others == own, "run `make fix`, so that python/Cargo.lock follows Cargo.lock"
