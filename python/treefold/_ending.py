"""The end of functions that still run when the interpreter ends.

Up to Python 3.13, a thread that wants to go on with Python after that is ended by force. If the library has called the
function, this tears down native code that can't be torn down, and the process aborts. So an exception is raised in the
function whose making never returns: the thread stands still without the interpreter's lock, and no handler of the
function can go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Optional

#: The exit code of a program that a signal has ended is this much above the signal's number, as in shells.
SIGNALLED = 128

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


def end_at_signals() -> None:
    """Lets SIGINT and SIGTERM end the process at once from now on, unless the program ignores them.

    A handler that raises would leave functions running, and the process would abort.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit)


def _exit(number: int, frame: Optional[FrameType]) -> None:
    for output in (sys.stdout, sys.stderr):
        # None, closed, or in the middle of a flush already.
        with contextlib.suppress(AttributeError, OSError, ValueError, RuntimeError):
            output.flush()
    os._exit(SIGNALLED + number)


def end_functions() -> None:
    """Stops the functions that still run on threads of the library, as far as they notice it."""
    until = time.monotonic() + NOTICE_TIMEOUT
    while (running := _running()) and time.monotonic() < until:
        for thread in running:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Left))
        time.sleep(LOOK_EVERY)
