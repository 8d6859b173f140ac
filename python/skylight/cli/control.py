"""``skylight control PATH-OR-SOCKET``: changes how a served drive works, while it does.

The server is asked over its own socket, as ``skylight status`` asks it.
"""

from __future__ import annotations

import click

from skylight.cli.console import line
from skylight.cli.serve import READ_MODES, serve_error
from skylight.cli.status import place_of
from skylight.errors import UsageError


@click.command(
    epilog="\b\nExamples:\n  skylight control swd.img --read-mode performance\n"
    "  skylight control unix:swd.sock --read-mode development\n"
)
@click.argument("where", metavar="PATH-OR-SOCKET")
@click.option(
    "--read-mode",
    type=click.Choice(READ_MODES),
    help="What reads of overwritten sectors of a raw shingled disk give from now on.",
)
def control(where: str, read_mode: str | None) -> None:
    """Change how a served drive works."""
    from skylight import _native

    if read_mode is None:
        raise UsageError("say what to change: --read-mode data, performance or development")
    try:
        said = _native.serve_control(place_of(where), "read-mode", read_mode)
    except _native.ServeError as error:
        raise serve_error(error) from error
    line(said)
