"""Errors that people meet, and the exit codes they end with.

Every error that reaches a person is one line that names the thing, the place and the mend. A `SkylightError`
carries that line as its text and the exit code of the command as `exit_code`; the command line prints the one
and returns the other. Anything else that escapes is a bug of Skylight, not a message.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a finding or a check failed |
| 2 | wrong use: arguments, profile, refused device, a recording that cannot be used |
| 3 | the target failed: I/O error, vanished |
| 4 | results could not be kept: disk full, no permission for evidence or report |
| 70 | a fault of Skylight itself |
| 130 | interrupted by Ctrl-C |
| 141 | nobody reads standard output any more; nothing is said |
"""

from __future__ import annotations

INTERNAL, INTERRUPTED, PIPE = 70, 130, 141


def one_line(text: str) -> str:
    """`text` on one line that any terminal and any file takes: what is not printable, or no text at all
    (bytes of a name that are not UTF-8), is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class SkylightError(Exception):
    """One line for a person; `exit_code` is what the command ends with."""

    exit_code = 1

    def __init__(self, line: str) -> None:
        """Keeps `line` as the text, folded to a single line whatever it was made from."""
        super().__init__(one_line(" ".join(line.split())))


class UsageError(SkylightError):
    """Wrong use: bad arguments, a bad profile, a refused device, a recording that cannot be used."""

    exit_code = 2


class TargetError(SkylightError):
    """The target failed while it was measured: an I/O error, or it vanished."""

    exit_code = 3


class KeepError(SkylightError):
    """Evidence or report could not be kept: disk full, no permission."""

    exit_code = 4
