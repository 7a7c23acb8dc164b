"""The console script `treefold`: the command line, run by the extension."""

from __future__ import annotations

import os
import signal
import sys

from . import _native


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    run = getattr(_native, "run_command", None)
    if run is None:
        print("treefold: this package was built without the command (the cargo feature `command`)", file=sys.stderr)
        return 1
    # Python would only note the signal until the command returns. The command ends, or handles the signal itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code: int = run(os.path.abspath(sys.argv[0]), ["treefold", *sys.argv[1:]])
    return code
