#!/usr/bin/env python3
"""A worker of an application without Treefold's library: it uses docs/protocol.md and Python's standard modules.

    worker.py APPLICATION WORKER REQUEST ADDR[,ADDR...] PIECE...

It attaches to the first address that accepts it, pushes the pieces, and ends when the request has ended. If it loses
the connection, it attaches to the next address and sends the pieces that it is asked for. With PUSH_WHEN=FILE in its
environment it pushes nothing before that file exists.
"""

import os
import select
import socket
import struct
import sys
import time

HELLO, FAULT, CHUNK = 1, 2, 3
ATTACH, ATTACHED, PUSH, FAILED, WANTED, TAKEN, ENDED = range(80, 87)
PAYLOAD = 1
PUSH_BYTES = 256  # bytes of the window that a push uses beside its payload
HOLD_SECONDS = float(os.environ.get("PUSH_HOLD", 30))  # pieces that are not requested again within this time have reached the master


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def fields(*values):
    """Encodes a protobuf message of numbers and byte strings, numbered from 1; zeros are left out."""
    out = b""
    for at, value in enumerate(values, 1):
        if isinstance(value, bytes):
            out += varint(at << 3 | 2) + varint(len(value)) + value
        elif value:
            out += varint(at << 3) + varint(int(value))
    return out


def read_fields(header):
    """Returns the numbers and byte strings of a protobuf message, by field."""
    at, found = 0, {}

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = header[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(header):
        key = number()
        if key & 7 == 0:
            found[key >> 3] = number()
        else:
            length = number()
            found[key >> 3] = header[at : at + length]
            at += length
    return found


def frame(kind, header, payload=None):
    body = header + (payload or b"")
    flags = 0 if payload is None else PAYLOAD
    return struct.pack("<IBBIQQI", 26 + len(body), kind, flags, len(header), 0, 0, 0) + body


class Connection:
    def __init__(self, addr, application, worker):
        host, port = addr.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        node = bytes(4) + struct.pack("<HQ", 0, struct.unpack("<Q", os.urandom(8))[0])
        self.socket.sendall(frame(HELLO, fields(3, 3, b"treefold", node)))
        if self.read()[0] != HELLO:
            raise ConnectionError("the node sent no Hello")
        self.socket.sendall(frame(ATTACH, fields(application.encode(), worker)))
        while True:
            kind, found = self.read()
            if kind == ATTACHED:
                if 2 in found:
                    raise ConnectionError(found[2].decode())
                self.window = found.get(1, 0)
                return

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    def read(self):
        length, kind, _, header_length = struct.unpack("<IBBI", self.exactly(10))
        rest = self.exactly(length - 6)
        return kind, read_fields(rest[20 : 20 + header_length])

    def push(self, request, pieces, sequence):
        last = sequence == len(pieces)
        header = fields(request, sequence, last)
        self.socket.sendall(frame(PUSH, header, pieces[sequence - 1]))


def gate_is_open():
    return os.path.exists(os.environ.get("PUSH_WHEN", "/"))


def serve(connection, request, pieces, is_first):
    """Pushes until the request has ended."""
    # Pieces pushed over an earlier connection are sent again only if they are requested.
    sent, taken, may_send, attached_at = 0, 0, is_first, time.monotonic()
    while True:
        while may_send and gate_is_open() and sent < len(pieces):
            in_flight = sum(len(piece) + PUSH_BYTES for piece in pieces[taken:sent])
            if in_flight and in_flight + len(pieces[sent]) + PUSH_BYTES > connection.window:
                break
            sent += 1
            connection.push(request, pieces, sent)
        if not may_send and time.monotonic() - attached_at > HOLD_SECONDS:
            return
        if not select.select([connection.socket], [], [], 0.05)[0]:
            continue
        kind, found = connection.read()
        if kind == FAULT or found.get(1, 0) != request:
            continue
        if kind == WANTED:
            if found.get(3) or not may_send:
                sent = taken = found.get(2, 0)
            may_send = True
        elif kind == TAKEN:
            taken = max(taken, found.get(2, 0))
        elif kind == ENDED:
            return


def main():
    application, worker, request, addrs, *pieces = sys.argv[1:]
    worker, request, addrs = int(worker), int(request), addrs.split(",")
    pieces = [piece.encode() for piece in pieces]
    is_first, give_up_at = True, time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for addr in addrs:
            try:
                connection = Connection(addr, application, worker)
                print(f"attached to {addr}", flush=True)
                was_first, is_first = is_first, False
                serve(connection, request, pieces, was_first)
                print("ended", flush=True)
                return
            except OSError as error:
                print(f"{addr}: {error}", file=sys.stderr)
        time.sleep(0.05)
    sys.exit("no node accepts the worker")


main()
