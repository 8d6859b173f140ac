"""``skylight devices``: the disks of this machine, what each declares, and what a probe may do to it.

Invariant: nothing is written, no setting is changed, and nothing is sent to a drive but reads in search of
signatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skylight.cli.console import line
from skylight.cli.drives import line_json
from skylight.engines.declared import hints_of, zones_of
from skylight.engines.product_models import listed
from skylight.errors import UsageError
from skylight.units import format_capacity, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

_EPILOG = """\b
A probe of a disk may do
  all            every test, with --destroy-data; its data is lost
  reads only     tests that write nothing, for the reason beside it
  nothing        for the reason beside it

What is declared is not measured. What a public list says of a model is a hint:
models are sold in several versions under one name.

\b
Examples:
  skylight devices
  skylight devices --json
"""

_PROBES = {"writes": "all", "reads": "reads only", "no": "nothing"}
_INDENT = "    "
_CACHES = {"write back": "cache on", "write through": "cache off"}


@click.command(epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def devices(as_json: bool) -> None:
    """List the disks here, and which of them may be probed."""
    found = survey()
    if as_json:
        line_json({"schema": 1, "devices": found})
        return
    if not found:
        line("No disks here.")
        return
    widths = [
        max(len(words[column]) for words in map(_columns, found)) for column in range(len(_columns(found[0])))
    ]
    for disk in found:
        columns = (words.ljust(width) for words, width in zip(_columns(disk), widths, strict=True))
        line("  ".join(columns).rstrip())
        declared = ", ".join(_declares(disk))
        if declared:
            line(f"{_INDENT}declares {declared}")
        known = disk["listed"]
        if known is not None:
            line(f"{_INDENT}listed as {_recording_words(known['recording'])} by {known['source']}")
        line(f"{_INDENT}probe: {_PROBES[disk['probe']]}" + (f", {disk['why']}" if disk["why"] else ""))


def _recording_words(recording: str) -> str:
    """What a report calls a kind of recording; only a listed disk needs that part of the suite."""
    from skylight.probe.drive_type.findings import DRIVE_TYPE

    return DRIVE_TYPE.words[recording]


def _columns(disk: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a disk's first line."""
    size = format_capacity(disk["size_bytes"])
    serial = f"serial {disk['serial']}" if disk["serial"] else ""
    return (str(disk["path"]), size, str(disk["bus"] or "-"), str(disk["model"] or "-"), serial)


def survey(root: str | None = None) -> list[dict[str, Any]]:
    """The disks of this machine, as JSON has them; `root` is the parent of `sys` and `proc`, for tests."""
    from skylight import _native

    try:
        disks = _native.host_survey(root)
    except _native.HostError as error:
        raise UsageError(str(error)) from error
    return [_document(disk) for disk in disks]


def _document(disk: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a disk: what the kernel says, what hints at shingling, what lists say of its model."""
    known = listed(str(disk["model"])) if disk["model"] else None
    kept = {name: value for name, value in disk.items() if name not in ("kind", "inode")}
    hints = {"trim": None, "zoned_drive": None, **hints_of(str(disk["path"]))}
    return {**kept, **hints, "listed": None if known is None else known.to_json()}


def _declares(disk: Mapping[str, Any]) -> list[str]:
    """What a disk declares, in words that fit a table."""
    said: list[str] = []
    if disk["rotation_rpm"]:
        said.append(f"{format_count(disk['rotation_rpm'])} rpm")
    elif disk["rotational"] is not None:
        said.append("rotating" if disk["rotational"] else "not rotating")
    zoned = zones_of(disk)
    if zoned not in (None, "none"):
        said.append(str(zoned))
    if disk["trim"]:
        said.append("TRIM")
    cache = _CACHES.get(str(disk["cache_type"] or disk["write_cache"]))
    if cache is not None:
        said.append(cache)
    return said
