"""The tables in a folder, and the files of each partition.

    DIR/requests.parquet          a table of one file
    DIR/requests/2026-01.parquet  a table of several
    DIR/schema.sql                optional: `create table` statements with the types of tables in CSV

The files of a table are sorted by their paths and dealt out to the partitions in turn. With `{partition}` in the
folder's name, each partition has a folder of its own.

Files and folders whose names begin with `.` or `_` are no tables: systems and other programs put their own files there,
such as `._t.csv`, `_SUCCESS`, and the unfinished files in `_temporary`.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from ..errors import InvalidOption

#: Most files of a folder.
FILES_MAX = 100_000
#: The name of the file that declares tables.
SCHEMA = "schema.sql"
#: What stands for a partition's number in a folder's name.
PARTITION = "{partition}"

#: How files with these endings are read.
_READERS = {".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv", ".csv.zst": "csv", ".tsv": "csv", ".tsv.gz": "csv"}


@dataclass
class TableFiles:
    """The files of one table in one folder: how they are read, their paths, and a fingerprint of all paths."""

    reader: str
    paths: list[str] = field(default_factory=list)
    fingerprint: str = ""

    def dealt(self, partition: int, total: int) -> list[str]:
        """The files of a partition."""
        return self.paths[partition::total]


def is_hidden(name: str) -> bool:
    """True for files and folders that are no data. Nodes that copy tables from an object store have the same rule."""
    return name.startswith((".", "_"))


def folder_of(folder: str, partition: int) -> Path:
    """The folder of a partition."""
    return Path(folder.replace(PARTITION, str(partition)))


def open_quote(path: str, delimiters: str, quote: str) -> Optional[int]:
    """The line, from 1, of a quote in a file of CSV that has no end; `None` if all have one, or the file is compressed.

    A quote opens at the start of a cell, and two quotes within it are one character. DuckDB reads a short file with an open quote
    as one without quotes, or refuses it without a line.
    """
    if path.lower().endswith((".gz", ".zst")) or not os.path.getsize(path):
        return None
    mark = quote.encode()
    starts = re.compile(rb"(?:(?<![^%s\r\n])|(?<=\A\xef\xbb\xbf))%s" % (re.escape(delimiters.encode()), re.escape(mark)))
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        at = 0
        while start := starts.search(text, at):
            at = start.end()
            while (end := text.find(mark, at)) >= 0 and text[end + 1 : end + 2] == mark:
                at = end + 2
            if end < 0:
                return text[: start.start()].count(b"\n") + 1
            at = end + 1
    return None


def row_among(path: str, lines: int, delimiter: str) -> Optional[int]:
    """The first of a file's first `lines`, from 1, that has a delimiter; `None` if all are text above the rows, or the file is
    compressed."""
    if not delimiter or path.lower().endswith((".gz", ".zst")):
        return None
    with open(path, "rb") as file:
        for number, line in enumerate(itertools.islice(file, lines), 1):
            if delimiter.encode() in line:
                return number
    return None


def tables_in(folder: Path) -> dict[str, TableFiles]:
    """The tables of a folder, by their names in small letters. Raises `InvalidOption`."""
    if not folder.is_dir():
        raise InvalidOption(f"{folder} is no folder")
    tables: dict[str, TableFiles] = {}
    count = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        for file in sorted(files):
            if is_hidden(file):
                continue
            reader = next((kind for ending, kind in _READERS.items() if file.lower().endswith(ending)), None)
            if reader is None:
                continue
            count += 1
            if count > FILES_MAX:
                raise InvalidOption(f"{folder} has more than {FILES_MAX} files of tables")
            path = Path(root, file)
            first = path.relative_to(folder).parts[0]
            name = first.partition(".")[0].lower() if first == file else first.lower()
            table = tables.setdefault(name, TableFiles(reader))
            if table.reader != reader:
                raise InvalidOption(f"table {name} in {folder} has files of {table.reader} and of {reader}")
            table.paths.append(str(path.resolve()))
    for table in tables.values():
        # Nodes may have the folder at different places.
        listed = "\n".join(os.path.basename(path) for path in table.paths)
        table.fingerprint = hashlib.sha256(listed.encode()).hexdigest()[:16]
    return tables
