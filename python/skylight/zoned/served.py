"""Zones of a served drive, over its control socket: the layout, a report, and actions on zones.

The server has the zones (docs/serve.md, "Zones"); a report comes in pages, each of which is as the zones were
at one moment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np

from skylight import _native
from skylight.zoned.zones import ZoneLayout, Zones

Control = str | PathLike[str]
"""The path of a control socket."""

ZoneAction = Literal["open", "close", "finish", "reset"]


def served_layout(control: Control, trusted: Sequence[int] | None = None) -> ZoneLayout | None:
    """The layout of the zones of the server with this control socket; None if the drive has no zones.

    `trusted` are the users whose server it may be. Raises ServeError.
    """
    layout = _page(control, 0, 0, trusted)["layout"]
    return None if layout is None else ZoneLayout(**layout)


def served_zones(control: Control, trusted: Sequence[int] | None = None) -> Zones:
    """All zones of the server with this control socket; none if the drive has no zones. Raises ServeError."""
    columns: dict[str, list[int]] = {name: [] for name in _TYPES}
    first = 0
    while True:
        page = _page(control, first, _PAGE_ZONES, trusted)
        for name, column in columns.items():
            column.extend(page["columns"][name])
        here = len(page["columns"]["start_bytes"])
        first += here
        if here == 0 or first >= page["layout"]["zones"]:
            break
    return Zones.of({name: np.array(column, dtype=_TYPES[name]) for name, column in columns.items()})


def zone_action(
    control: Control, action: ZoneAction, zone: int | None, trusted: Sequence[int] | None = None
) -> None:
    """Opens, closes, finishes or resets the zone that starts at byte `zone`, or all zones if it is None.

    Raises ServeError with the standard's reason if the drive refuses.
    """
    _native.serve_zone_action(control, action, zone, trusted)


_PAGE_ZONES = 4096
"""Zones that a page asks for: some hundred KiB, of the MiB that an answer may have."""

_TYPES: dict[str, type[np.generic]] = {
    "start_bytes": np.uint64,
    "size_bytes": np.uint64,
    "capacity_bytes": np.uint64,
    "write_pointer_bytes": np.uint64,
    "kind": np.uint8,
    "condition": np.uint8,
    "reset_recommended": np.bool_,
    "non_sequential": np.bool_,
}


def _page(control: Control, first: int, count: int, trusted: Sequence[int] | None) -> dict[str, Any]:
    page: dict[str, Any] = json.loads(_native.serve_zones(control, first, count, trusted))
    return page
