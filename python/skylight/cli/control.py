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

ZONE_STATES = ("writable", "read-only", "offline", "reset-recommended", "reset-not-recommended")
"""What a drive makes of a zone by itself, and a served one when it is asked to."""


@click.command(
    epilog="\b\nExamples:\n  skylight control swd.img --read-mode performance\n"
    "  skylight control smr.img --delay-read 8 --fail rate=0.01,op=read\n"
    "  skylight control smr.img.serve.sock --fail off\n"
    "  skylight control zoned.img --zone 7:read-only --zone 9:offline\n"
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
@click.option(
    "--zone", "zones", multiple=True, metavar="N:STATE",
    help=f"What becomes of zone N; STATE is {', '.join(ZONE_STATES[:-1])} or {ZONE_STATES[-1]}.",
)  # fmt: skip
def control(
    where: str, read_mode: str | None, delay_read: float | None, delay_write: float | None, fail: str | None,
    zones: tuple[str, ...],
) -> None:  # fmt: skip
    """Change how a served drive works."""
    from skylight import _native

    given = {"read-mode": read_mode, "delay-read": delay_read, "delay-write": delay_write, "fail": fail}
    changes = [(setting, str(value)) for setting, value in given.items() if value is not None]
    changes += [("zone", each) for each in zones]
    if not changes:
        raise UsageError("say what to change: --read-mode, --delay-read, --delay-write, --fail or --zone")
    socket, trusted = control_socket(where)
    try:
        for setting, value in changes:
            line(_native.serve_control(socket, setting, value, trusted))
    except _native.ServeError as error:
        raise serve_error(error) from error
