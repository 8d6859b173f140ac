"""Access times from the first track to others; plotted, they show the skew.

Each measurement reads the first sector of the first track, then the first sector of another track. The time
grows from track to track by the skew until the arm misses the sector and waits one more revolution: a
saw-tooth with a period of 1 / skew tracks.

Invariant: reads only; one access per track, not repeated and not filtered.

Source: DIG's skew measurement; Pitchumani, UCSC-SSRC-12-05, section 6.2 and Figure 12, which shows all tracks
and 100 of them.
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import I64
from skylight.geometry.clock import Platter
from skylight.geometry.layout import tracks_of
from skylight.geometry.recording_zones import ZoneRun

WIDE, CLOSE = 160, 100

Access = tuple[tuple[int, float], ...]
"""Track numbers in address order, and the time (ns) from the completion of the first track's first sector to
the completion of each track's first sector."""


def first_sectors(zones: list[ZoneRun], number: I64) -> I64:
    """First sectors of tracks by their number in address order."""
    before = np.concatenate([[0], np.cumsum([tracks_of(zone) for zone in zones])])
    zone = np.clip(np.searchsorted(before, number, side="right") - 1, 0, len(zones) - 1)
    begin = np.array([each.begin for each in zones])[zone]
    size = np.array([each.grid.track for each in zones])[zone]
    return np.asarray(begin + (number - before[zone]) * size, np.int64)


def access_times(platter: Platter, zones: list[ZoneRun], start: int) -> tuple[Access, Access]:
    """Access times of tracks spread over the disk, and of successive tracks from `start` on."""
    tracks = sum(map(tracks_of, zones))
    wide = np.unique(np.linspace(1, tracks - 2, WIDE).astype(np.int64))
    begin = min(max(start, 1), max(tracks - CLOSE - 2, 1))
    close = np.arange(begin, min(begin + CLOSE, tracks - 1))
    return _timed(platter, zones, "access", wide), _timed(platter, zones, "access_close", close)


def _timed(platter: Platter, zones: list[ZoneRun], name: str, number: I64) -> Access:
    to = first_sectors(zones, number)
    x = np.stack([np.full(len(to), zones[0].begin), to], axis=1).ravel()
    log = platter.log(name, x)
    done = log.complete_ns.astype(np.int64)
    took = done[1::2] - done[0::2]
    return tuple((int(track), float(ns)) for track, ns in zip(number, took, strict=True))
