"""The group of verbs, and the exit of a command.

The verbs live one per file (``probe.py``, ``drives.py``) and contain no logic; this module defines the group,
which imports a verb once it is asked for, and turns every failure into one line on standard error with a
documented exit code.

Invariants:
- Users never see a traceback, unless SKYLIGHT_DEBUG=1 requests it.
- An error is one line, whatever a file name or a drive's model string contains.
- Standard output carries results only; errors and progress go to standard error.

Exit codes are listed in ``EXIT_CODES`` and printed by ``skylight --help``.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from skylight import __version__
from skylight.cli import completion
from skylight.errors import INTERNAL, INTERRUPTED, PIPE, UNDETERMINED, SkylightError, one_line

__all__ = ["EXIT_CODES", "VERBS", "cli", "import_verb", "run"]

USAGE, KEEP = 2, 4
# How long the final message waits for a blocked reader of standard error.
_PATIENCE_S = 1.0

EXIT_CODES = {
    0: "done",
    1: "a finding or a check failed",
    USAGE: "wrong use: arguments, a profile, a refused device, a foreign recording",
    3: "the target failed: I/O error, or it vanished",
    KEEP: "results could not be stored: disk full, no permission",
    UNDETERMINED: "what --expect or geometry extract asks could not be determined",
    INTERNAL: "an internal error of skylight",
    INTERRUPTED: "interrupted by Ctrl-C",
    PIPE: "the reader closed standard output",
}

_EPILOG = (
    "\b\nExamples:\n"
    "  skylight devices\n"
    "  skylight drives list\n"
    "  skylight probe sim:emulated-smr-1\n"
    "  skylight probe /dev/sdX                   reads only\n"
    "  skylight probe /dev/sdX --destroy-data    the full result; its data is lost\n"
    "  skylight serve emulated-smr-1 --image smr.img --nbd unix:smr.sock\n"
    "\n\n\b\nExit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items())
)


VERBS = {
    "probe": "Measure what a drive is, and write a report.",
    "drives": "List, show, check or draw emulated drives, and their truth.",
    "devices": "List the disks here, and which of them may be probed.",
    "reproduce": "Repeat a paper's measurements on emulated drives.",
    "restore": "Put back what an interrupted probe --preserve overwrote.",
    "serve": "Serve a drive that keeps its data, over NBD.",
    "status": "Show what a served drive is doing.",
    "control": "Change how a served drive works.",
    "image": "Images of drives: show, check, repair or compact one.",
    "geometry": "Find a disk's tracks by reads alone; make a profile of it.",
    "camera": "Follow a drive's head on film, or film an emulated one.",
    "zones": "Report, reset, open, close or finish the zones of a drive.",
    "completion": "Print a script that makes a shell complete skylight's words.",
}
"""The verbs and the first sentence of each one's help: the list of them needs no more, and what they all
import takes a second of a processor."""


class _Verbs(click.Group):
    """The verbs, each imported when it is asked for: the command ``NAME`` of the module of that name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, sorted."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of that name; None for an option, and for an unknown word that is completed."""
        if cmd_name not in VERBS:
            if cmd_name.startswith("-") or ctx.resilient_parsing:
                return None
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=VERBS, ctx=ctx)
        verb = getattr(import_module(f"skylight.cli.{cmd_name}"), cmd_name)
        assert isinstance(verb, click.Command)
        return verb

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes them by the table, without importing any: click would cut their help at 45 characters."""
        verbs = [
            CompletionItem(name, help=VERBS[name]) for name in sorted(VERBS) if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists them by the table, without importing any."""
        listed = [click.Command(name, help=words) for name, words in VERBS.items()]
        click.Group(commands=listed).format_commands(ctx, formatter)


def import_verb(arguments: Sequence[str]) -> None:
    """Imports the verb of a command line, if it names one: while it may still end at any moment."""
    if arguments and arguments[0] in VERBS:
        import_module(f"skylight.cli.{arguments[0]}")


@click.group(
    cls=_Verbs,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="skylight", message="%(prog)s %(version)s")
def cli() -> None:
    """A window on shingled disks: is this drive shingled, and how does it behave?"""


def _say(text: str) -> None:
    """Prints one line on standard error; does nothing if standard error is closed or blocked."""
    with contextlib.suppress(OSError, ValueError):
        # A captured stream, as in a test, has no descriptor and never blocks.
        with contextlib.suppress(io.UnsupportedOperation):
            if not select.select([], [sys.stderr.fileno()], [], _PATIENCE_S)[1]:
                return
        print(f"skylight: {one_line(text.strip())}", file=sys.stderr, flush=True)


def _usage(error: click.ClickException) -> str:
    """A click error as one line that names the help page."""
    text = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "skylight"
    return f"{text} (see {path} --help)" if isinstance(error, click.UsageError) else text


def _internal(error: BaseException) -> str:
    """An unexpected exception as one line with its origin and the request to report it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return (
        f"internal error{place}: {type(error).__name__}: {error}; this is a bug in skylight, "
        "please report it with the output of the same command under SKYLIGHT_DEBUG=1"
    )


def _with_notes(error: BaseException, line: str | None = None) -> str:
    """The line of an error, and the notes that were added while it propagated."""
    return "; also: ".join([str(error) if line is None else line, *getattr(error, "__notes__", ())])


def _os_error(error: OSError) -> tuple[int, str]:
    """Exit code and line for an operating system error that no verb handled."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO) and error.filename is None:
        return KEEP, f"output could not be written: {error.strerror}; free some space or write elsewhere"
    return INTERNAL, _internal(error)


def _drop_stdout() -> None:
    """Redirects standard output to /dev/null, so that the flush at exit cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def run(arguments: Sequence[str]) -> int:
    """Runs the command line, prints errors, and returns the exit code."""
    try:
        answered = completion.answer_shell(cli)
        if answered is not None:
            return answered
        with cli.make_context("skylight", list(arguments), obj=tuple(arguments)) as context:
            cli.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return USAGE
    except click.ClickException as error:
        _say(_usage(error))
        return error.exit_code if not isinstance(error, click.UsageError) else USAGE
    except SkylightError as error:
        _debug()
        _say(_with_notes(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:
        _debug()
        _say(_with_notes(error, "interrupted"))
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout()
        return PIPE
    except OSError as error:
        _debug()
        code, text = _os_error(error)
        _say(text)
        if code == KEEP:
            _drop_stdout()
        return code
    except BaseException as error:  # the last handler: every failure becomes one line
        # A panic of the native module is not an Exception, and its class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        _debug()
        _say(_internal(error))
        return INTERNAL


def _debug() -> None:
    """Prints the traceback of the current error if SKYLIGHT_DEBUG=1."""
    if os.environ.get("SKYLIGHT_DEBUG") == "1":
        traceback.print_exc()
