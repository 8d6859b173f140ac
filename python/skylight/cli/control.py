"""``skylight control PATH-OR-SOCKET``: changes how a served drive works, while it does.

The server is asked over its control socket, as ``skylight status`` asks it.
"""

from __future__ import annotations

import click

from skylight.cli.completion import files
from skylight.cli.console import line
from skylight.cli.number import Delay
from skylight.cli.serve import READ_MODES
from skylight.cli.status import control_socket
from skylight.errors import UsageError, serve_error


@click.command(
    epilog="\b\nExamples:\n  skylight control swd.img --read-mode performance\n"
    "  skylight control smr.img --delay-read 8 --fail rate=0.01,op=read\n"
    "  skylight control smr.img.serve.sock --fail off\n"
)
@click.argument("where", metavar="PATH-OR-SOCKET", shell_complete=files)
@click.option(
    "--read-mode",
    type=click.Choice(READ_MODES),
    help="What reads of overwritten sectors of a raw shingled disk give from now on.",
)
@click.option("--delay-read", type=Delay(), help="Added latency of reads, ms.")
@click.option("--delay-write", type=Delay(), help="Added latency of all other commands, ms.")
@click.option("--fail", help="Which commands fail, as with skylight serve; off for none.")
def control(
    where: str, read_mode: str | None, delay_read: float | None, delay_write: float | None, fail: str | None
) -> None:
    """Change how a served drive works."""
    from skylight import _native

    given = {"read-mode": read_mode, "delay-read": delay_read, "delay-write": delay_write, "fail": fail}
    changes = {setting: str(value) for setting, value in given.items() if value is not None}
    if not changes:
        raise UsageError("say what to change: --read-mode, --delay-read, --delay-write or --fail")
    socket, trusted = control_socket(where)
    try:
        for setting, value in changes.items():
            line(_native.serve_control(socket, setting, value, trusted))
    except _native.ServeError as error:
        raise serve_error(error) from error
