"""Tables of pyarrow as Arrow IPC streams, and back."""

from __future__ import annotations

from typing import Any

from .errors import InvalidValue


def to_stream(value: Any) -> bytes:
    """The stream of a record batch or of a table, whose batches are joined, because a payload is one
    batch."""
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

    if isinstance(value, pyarrow.Table):
        batches = value.combine_chunks().to_batches()
        value = batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=value.schema)
    if not isinstance(value, pyarrow.RecordBatch):
        raise InvalidValue(f"a {type(value).__name__} of pyarrow can't travel; give a RecordBatch or a Table")
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, value.schema) as writer:
        writer.write_batch(value)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def of_stream(stream: bytes) -> Any:
    """The record batch in a stream, whose columns share its memory; the bytes if pyarrow is not there or it
    is no stream."""
    try:
        import pyarrow
    except ImportError:
        return stream
    try:
        with pyarrow.ipc.open_stream(stream) as reader:
            batches = list(reader)
            schema = reader.schema
    except (pyarrow.ArrowInvalid, OSError):
        return stream
    if len(batches) == 1:
        return batches[0]
    return pyarrow.Table.from_batches(batches, schema)
