"""``skylight status PATH-OR-SOCKET``: what a served drive is doing.

The server is asked over its control socket, whatever the data goes over; a note says where that is.
"""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import click

from skylight.cli.completion import files
from skylight.cli.console import line, paragraph
from skylight.cli.drives import line_json
from skylight.cli.endpoint_note import find_note, read_note
from skylight.cli.serve import status_words
from skylight.cli.status_words import Rates
from skylight.errors import UsageError, serve_error
from skylight.units import format_capacity, format_seconds

_RATES_OVER_S = 1.0
"""Time over which the rates are measured: long enough for the commands of a busy shingled disk, tens of
milliseconds each, to be counted."""


def control_socket(where: str) -> tuple[Path, list[int] | None]:
    """The control socket of a server, from an image, the socket of the data or itself.

    Also the users whose server it may be, where a note and not the caller named it.
    """
    if where.startswith("tcp:"):
        raise UsageError(
            f"{where}: is where the data goes; name the image or the control socket (IMAGE.serve.sock)"
        )
    path = Path(where.removeprefix("unix:"))
    try:
        if where.startswith("unix:") or stat.S_ISSOCK(path.stat().st_mode):
            found = find_note(path)
            return (path, None) if found is None else (found.control, list(found.trusted))
        note = read_note(path)
        return note.control, list(note.trusted)
    except FileNotFoundError as error:
        missing = f"{where}: {'no such file' if not path.exists() else 'is not served'}"
        raise UsageError(
            f"{missing}; name an image that skylight serve has open, or the control socket of a server"
        ) from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"{where}: cannot determine where it is served: {error}; name the control socket"
        ) from error


def _asked(control: Path, trusted: list[int] | None) -> dict[str, Any]:
    """The status of a server."""
    from skylight import _native

    try:
        found: dict[str, Any] = json.loads(_native.serve_status(control, trusted))
    except _native.ServeError as error:
        raise serve_error(error) from error
    return found


@click.command(
    epilog="\b\nExamples:\n  skylight status smr.img\n  skylight status smr.img.serve.sock --json\n",
    short_help="Show what a served drive is doing.",
)
@click.argument("where", metavar="PATH-OR-SOCKET", shell_complete=files)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def status(where: str, as_json: bool) -> None:
    """Show what a served drive is doing: rates, cache fill, map, cleaning, zones, queue, lateness, write
    amplification."""
    control, trusted = control_socket(where)
    found = _asked(control, trusted)
    if as_json:
        line_json(found)
        return
    size, up = format_capacity(int(found["size_bytes"])), format_seconds(float(found["up_s"]))
    timing = (found.get("drive") or {}).get("timing", "none")
    line(f"{found['name']}, {size}, at {control}, up {up}, timing {timing}")
    paragraph(status_words(found))
    rates = Rates()
    rates.words(found, time.monotonic())
    time.sleep(_RATES_OVER_S)
    moving = rates.words(_asked(control, trusted), time.monotonic())
    line(f"now: {', '.join(moving) or 'nothing asked of it'}")
