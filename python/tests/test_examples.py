"""Runs the examples as processes, as their first lines say."""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name: str, *words: str) -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_groups_of_parquet_files_with_duckdb(start: Any, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    run("parquet.py", "make", str(tmp_path), "4")
    first = start("parquet.py", "serve", "127.0.0.1:0", str(tmp_path), "0,1")
    second = start("parquet.py", "serve", "127.0.0.1:0", str(tmp_path), "2,3", first.line)
    *rows, reply = run("parquet.py", "ask", first.line, "100")
    assert reply.startswith("full: coverage 1.000 (4 of 4 partitions)")
    wanted = duckdb.sql(f"""
        SELECT host, count(*), sum(ms) / count(*), max(ms) FROM read_parquet('{tmp_path}/*.parquet')
        WHERE ms >= 100 GROUP BY host ORDER BY host
    """).fetchall()
    assert rows == [f"{host}: {count} requests, mean {mean:.1f} ms, slowest {most} ms" for host, count, mean, most in wanted]
    second.process.kill()
    *_, reply, missing = run("parquet.py", "ask", first.line, "100")
    assert reply.startswith("partial: coverage 0.500") and missing.startswith("missing partition")


def test_nearest_vectors_with_usearch(start: Any) -> None:
    pytest.importorskip("usearch")
    numpy = pytest.importorskip("numpy")
    first = start("vectors.py", "serve", "127.0.0.1:0", "4", "0,1")
    start("vectors.py", "serve", "127.0.0.1:0", "4", "2,3", first.line)
    *found, reply = run("vectors.py", "ask", first.line, "17")
    assert reply.startswith("full: coverage 1.000 (4 of 4 partitions)") and found[0] == "1.000 0/17"
    sys.path.insert(0, str(EXAMPLES))
    try:
        import vectors
    finally:
        sys.path.remove(str(EXAMPLES))
    query = vectors.vectors(0)[17]
    similar = {f"{id}/{row}": score for id in range(4) for row, score in enumerate(vectors.vectors(id) @ query)}
    exact = sorted(similar, key=similar.__getitem__, reverse=True)[:5]
    # The index is approximate: it finds nearly all of the nearest.
    names = [line.split()[1] for line in found]
    assert len(set(exact) & set(names)) >= 4 and numpy.allclose(similar[exact[0]], 1.0, atol=1e-3)


def test_captures_of_an_expression_in_log_files(start: Any, tmp_path: Path) -> None:
    texts = ["".join(f"GET /{n} status={(200, 404, 500)[n % (file + 2)]}\n" for n in range(1000)) for file in range(2)]
    for file, text in enumerate(texts):
        (tmp_path / f"{file}.log").write_text(text)
    first = start("logs.py", "serve", "127.0.0.1:0", "2", f"0={tmp_path}/0.log")
    start("logs.py", "serve", "127.0.0.1:0", "2", f"1={tmp_path}/1.log", first.line)
    *lines, reply = run("logs.py", "ask", first.line, r"status=(\d+)")
    counted = collections.Counter(line.split("=")[1] for text in texts for line in text.splitlines())
    assert lines == [f"{status}\t{count}" for status, count in sorted(counted.items())]
    assert reply.startswith("full: coverage 1.000 (2 of 2 partitions)")
