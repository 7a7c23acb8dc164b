"""The console script `treefold`: the command line, run by the extension."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from . import _native
from .errors import TreefoldError

#: The modules that SQL needs, and what installs them.
SQL_MISSING = "{}; `pip install 'treefold[sql]'` installs what SQL needs"


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    run = getattr(_native, "run_command", None)
    if run is None:
        print("treefold: this package was built without the command (the cargo feature `command`)", file=sys.stderr)
        return 1
    # Python would only note the signal until the command returns. The command ends, or handles the signal itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code: int = run(os.path.abspath(sys.argv[0]), ["treefold", *sys.argv[1:]], _serve_sql, _ask_sql)
    return code


def _serve_sql(*given: Any, **options: Any) -> dict[str, Any]:
    """Makes the service of `--serve sql=…`. The modules are imported only by commands that need them."""
    try:
        from .sql._serve import spec_of
    except ImportError as error:
        raise TreefoldError(SQL_MISSING.format(error)) from None
    return spec_of(*given, **options)


def _ask_sql(*given: Any, **options: Any) -> tuple[int, str]:
    """Asks the query of `treefold sql`."""
    try:
        from .sql._command import ask
    except ImportError as error:
        return 1, SQL_MISSING.format(error)
    return ask(*given, **options)
