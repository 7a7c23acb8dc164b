"""The end of functions that still run when the interpreter ends.

Up to Python 3.13, a thread that wants to go on with Python after that is ended by force. If the library has called the
function, this tears down native code that can't be torn down, and the process aborts. So an exception is raised in the
function whose making never returns: the thread stands still without the interpreter's lock, and no handler of the
function can go on.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time

#: Time in which functions notice the exception, in seconds. One that sleeps or computes outside of the interpreter does
#: not notice it, and is not torn down as long as it stays there.
NOTICE_TIMEOUT = 0.5
#: Time between two looks, in seconds.
LOOK_EVERY = 0.005

#: The threads that stand still.
_left: set[int] = set()


class _Left(BaseException):
    def __init__(self) -> None:
        _left.add(threading.get_ident())
        while True:
            time.sleep(3600)


def _running() -> set[int]:
    """The threads of the library that run Python; threads of Python are ended in order."""
    python = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    return set(sys._current_frames()) - python - _left


def end_functions() -> None:
    """Stops the functions that still run on threads of the library, as far as they notice it."""
    until = time.monotonic() + NOTICE_TIMEOUT
    while (running := _running()) and time.monotonic() < until:
        for thread in running:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Left))
        time.sleep(LOOK_EVERY)
