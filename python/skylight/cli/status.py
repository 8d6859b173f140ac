"""``skylight status PATH-OR-SOCKET``: how a served drive does.

The server is asked over its own socket; an image's note says where that is.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import click

from skylight.cli.console import line
from skylight.cli.drives import line_json
from skylight.cli.note import read_note
from skylight.cli.serve import serve_error, status_words
from skylight.errors import UsageError
from skylight.units import format_capacity, format_seconds


def place_of(where: str) -> str:
    """The place of a server, from a place, a socket or an image."""
    if where.startswith(("unix:", "tcp:")):
        return where
    path = Path(where)
    try:
        if stat.S_ISSOCK(path.stat().st_mode):
            return f"unix:{where}"
        return read_note(path)[0]
    except FileNotFoundError as error:
        missing = where if not path.exists() else f"{where}: is not served"
        raise UsageError(
            f"{missing}; name a socket (unix:PATH, tcp:HOST:PORT), or an image that skylight serve has open"
        ) from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{where}: cannot tell where it is served: {error}; name the socket") from error


@click.command(epilog="\b\nExamples:\n  skylight status smr.img\n  skylight status unix:smr.sock --json\n")
@click.argument("where", metavar="PATH-OR-SOCKET")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def status(where: str, as_json: bool) -> None:
    """Say how a served drive does: cache fill, cleaning, queue, lateness, write amplification."""
    from skylight import _native

    place = place_of(where)
    try:
        found: dict[str, Any] = json.loads(_native.serve_status(place))
    except _native.ServeError as error:
        raise serve_error(error) from error
    if as_json:
        line_json(found)
        return
    size, up = format_capacity(int(found["size_bytes"])), format_seconds(float(found["up_s"]))
    timing = (found.get("drive") or {}).get("timing", "none")
    line(f"{found['name']}, {size}, at {place}, up {up}, timing {timing}")
    line(status_words(found))
