"""The command line: ``skylight VERB``.

What for: the entry point, and what signals do. Everything else is in ``app.py`` and the verbs; both are
imported only once a signal can no longer end in a traceback, and the verb before it counts as Ctrl-C.

Invariants:
- Ctrl-C, SIGTERM and SIGHUP end a run with exit code 130 and one line, at any moment.
- Descriptors 0 to 2 are open before anything else is opened: what takes the number of a closed one (an image,
  a socket) would be written to by every message.
- Once a run is ending, further signals do not keep it from putting settings back; after ``PATIENCE_S`` they
  count again, for when that hangs.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

__all__ = ["main"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 10.0
_INTERRUPTED = 130
Handler = Callable[[int, FrameType | None], None]


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Ends the process at once: nothing is begun while modules are imported, and an exception there may come
    out as any other."""
    # Nobody may be reading; a write that waits for that would keep the process.
    if select.select([], [2], [], 0)[1]:
        with suppress(OSError):
            os.write(2, b"skylight: interrupted\n")
    os._exit(_INTERRUPTED)


def _open_standard() -> None:
    """Points closed standard streams at nothing; Python has no stream where the descriptor was closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


class _Ending:
    """Ends a run as Ctrl-C does: settings go back, the recording stays whole."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._since is not None and now - self._since < PATIENCE_S:
            return
        self._since = now
        raise KeyboardInterrupt


def _on(names: Sequence[signal.Signals], handler: Handler | signal.Handlers) -> None:
    """Sets what these signals do."""
    for name in names:
        signal.signal(name, handler)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``skylight`` command."""
    _open_standard()
    # One that was ignored from the start (nohup, a job in the background) stays so.
    names = [name for name in SIGNALS if signal.getsignal(name) is not signal.SIG_IGN]
    _on(names, _leave)
    import warnings

    from skylight.cli.app import import_verb, run

    arguments = sys.argv[1:] if arguments is None else arguments
    import_verb(arguments)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # for developers, not for people
    _on(names, _Ending())
    code = run(arguments)
    _on(names, signal.SIG_IGN)  # the end is decided
    sys.exit(code)
