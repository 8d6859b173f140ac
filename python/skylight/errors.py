"""Errors shown to people, and the exit codes of commands.

Every error message is one line that names the thing, the place and the remedy. A `SkylightError` carries that
line as its text and the exit code of the command as `exit_code`; the command line prints the line and returns
the code. Any other exception that escapes is a bug of Skylight, not a message.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a finding or a check failed |
| 2 | wrong use: arguments, profile, refused device, unusable recording |
| 3 | the target failed: I/O error, vanished |
| 4 | results could not be stored: disk full, no permission for evidence or report |
| 5 | what was asked for could not be determined |
| 70 | an internal error of Skylight |
| 130 | interrupted by Ctrl-C |
| 141 | standard output was closed by its reader; nothing is printed |
"""

from __future__ import annotations

import os
import re

UNDETERMINED, INTERNAL, INTERRUPTED, PIPE = 5, 70, 130, 141


def one_line(text: str) -> str:
    """`text` on one line that any terminal and file accepts: characters that are not printable, or bytes of a
    name that are not UTF-8, become escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def reason_of(error: Exception) -> str:
    """Why the system refused, in its words; those of the error where it has no number, as pyarrow's."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


# What Rust adds to the words of an error of the system; they say the same.
_NUMBER = re.compile(r" \(os error \d+\)")


class SkylightError(Exception):
    """One line for the user; `exit_code` is the exit code of the command."""

    exit_code = 1

    def __init__(self, line: str) -> None:
        """Keeps `line` as the text, folded to a single line, without the numbers of system errors."""
        super().__init__(_NUMBER.sub("", one_line(" ".join(line.split()))))


class UsageError(SkylightError):
    """Wrong use: bad arguments, a bad profile, a refused device, an unusable recording."""

    exit_code = 2


class TargetError(SkylightError):
    """The target failed during a measurement: an I/O error, or it vanished."""

    exit_code = 3


class KeepError(SkylightError):
    """Evidence or report could not be stored: disk full, no permission."""

    exit_code = 4


class Undetermined(SkylightError):
    """What was asked for could not be determined."""

    exit_code = UNDETERMINED


class Interrupted(SkylightError):
    """Ctrl-C; the line says how to resume."""

    exit_code = INTERRUPTED


def serve_error(error: Exception) -> SkylightError:
    """An error of the native module's server as one with a line for people and an exit code."""
    kinds: dict[str, type[SkylightError]] = {"failed": TargetError, "unkept": KeepError}
    return kinds.get(getattr(error, "kind", "refused"), UsageError)(str(error))
