"""Rows W1 and W7: which sectors writes destroy on random disks; the capacity that bands cost.

The oracle knows a disk only from the text of its profile: zones, sectors per track, skew as a share of a
revolution. It copies each written sector to all sectors of the next tracks that share an angle with it, and
records the origin of the data on each. It shares neither code nor language with the layer. (The default tests
do the same in Rust on 1,000 disks, with every read mode.)

Invariant: angles are exact fractions of a revolution; sectors overlap if they share any angle.

Source: UCSC-SSRC-12-05, section 3.2.2.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from skylight.evidence import I64
from skylight.reproduce.rows import Measured
from skylight.reproduce.swd.layer_benchmark import Tool

DISKS = 6
WRITES = 24
ROTATION_NS = 8_000_000
"""7,500 revolutions per minute: a whole number of nanoseconds."""
LEAST_SECTORS = 131_072 + 8 * 4096
"""Slightly more than the smallest drive that a profile allows."""
BANDS = ((4, 3), (16, 4), (64, 8), (1, 16))
"""Tracks in a band, and under the head."""


@dataclass(frozen=True, slots=True)
class Track:
    """One track: first sector, number of sectors, and the angle where it begins, in revolutions."""

    start: int
    sectors: int
    angle: Fraction


@dataclass(frozen=True, slots=True)
class RandomDisk:
    """A disk of one surface."""

    tracks: tuple[Track, ...]
    k: int
    text: str


def _profile(zones: list[tuple[int, int]], skew_ns: int, k: int, capacity: int, band_tracks: int = 0) -> str:
    zone = ", ".join(f"{{ tracks = {tracks}, sectors_per_track = {sectors} }}" for tracks, sectors in zones)
    banded = f"band_tracks = {band_tracks}\n" if band_tracks else ""
    return (
        f'schema = 1\nname = "random"\ncapacity = {capacity * 512}\n'
        f'[mechanics]\nrotation = "{ROTATION_NS} ns"\nhead_switch = "0 ms"\n'
        'seek.fitted = { constant = "0.1 ms", root = "0.001 ms", linear = "0 ns" }\n'
        f'[geometry]\nsurfaces = 1\nlayout = "cylinder"\ntrack_skew = "{skew_ns} ns"\n'
        f'head_skew = "{skew_ns} ns"\nzone = [{zone}]\n'
        '[interface]\nqueue_depth = 1\ncommand_overhead = "0 ms"\n'
        f'[layer]\nkind = "swd"\nwidth_tracks = {k}\n{banded}'
    )


def random_disk(seed: int) -> RandomDisk:
    """A disk with a few zones; more than half of the skews are whole sectors of the first zone."""
    draw = random.Random(seed)
    zones = [(draw.randint(3, 60), draw.randint(40, 1_500)) for _ in range(draw.randint(2, 12))]
    while sum(tracks * sectors for tracks, sectors in zones) < LEAST_SECTORS:
        zones.append((draw.randint(3, 60), draw.randint(40, 1_500)))
    if draw.random() < 0.6:
        zones[0] = (zones[0][0], 1_000)
        skew_ns = draw.randint(100, 900) * ROTATION_NS // 1_000
    else:
        skew_ns = draw.randrange(300_000, ROTATION_NS)
    tracks, start, angle = [], 0, Fraction(0)
    for count, sectors in zones:
        for _ in range(count):
            tracks.append(Track(start, sectors, angle))
            start, angle = start + sectors, (angle + Fraction(skew_ns, ROTATION_NS)) % 1
    k = draw.randint(2, 16)
    capacity = start // 8 * 8
    return RandomDisk(tuple(tracks), k, _profile(zones, skew_ns, k, capacity))


def _covers(on: Track, sector: int, behind: Track) -> list[int]:
    """The sectors of a following track that share an angle with a sector."""
    begin = (on.angle - behind.angle + Fraction(sector, on.sectors)) % 1 * behind.sectors
    end = begin + Fraction(behind.sectors, on.sectors)
    first, last = begin.numerator // begin.denominator, -(-end.numerator // end.denominator)
    return [one % behind.sectors for one in range(first, last)]


def surface_after(disk: RandomDisk, writes: list[tuple[int, int]]) -> tuple[I64, I64]:
    """For each sector, the address that its data was written to, and the write (from 1; 0 for none)."""
    sectors = disk.tracks[-1].start + disk.tracks[-1].sectors
    source, by = np.arange(sectors), np.zeros(sectors, dtype=np.int64)
    starts = np.array([track.start for track in disk.tracks])
    for number, (start, count) in enumerate(writes, 1):
        for at in range(start, start + count):
            index = int(np.searchsorted(starts, at, side="right")) - 1
            on = disk.tracks[index]
            source[at], by[at] = at, number
            for behind in disk.tracks[index + 1 : index + disk.k]:
                for sector in _covers(on, at - on.start, behind):
                    source[behind.start + sector], by[behind.start + sector] = at, number
    return source, by


def random_writes(disk: RandomDisk, seed: int) -> list[tuple[int, int]]:
    """Extents from one block to more than a track, many of them near each other or consecutive."""
    draw = random.Random(seed)
    capacity = (disk.tracks[-1].start + disk.tracks[-1].sectors) // 8 * 8
    near = draw.randrange(capacity)
    writes: list[tuple[int, int]] = []
    for _ in range(WRITES):
        how = draw.random()
        if how < 0.3 and writes:
            start = sum(writes[-1])
        else:
            start = near + draw.randint(-6_000, 6_000) if how < 0.8 else draw.randrange(capacity)
        start = min(max(start, 0), capacity - 8)
        writes.append((start, min(draw.choice([1, 8, 64, 300, 1_700]), capacity - start)))
    return writes


def _mistaken(tool: Tool, seed: int) -> tuple[int, int]:
    """Number of sectors of a random disk that the layer gets wrong, and number of overwritten sectors."""
    disk = random_disk(seed)
    writes = random_writes(disk, seed)
    path = tool.keep_profile("oracle.toml", disk.text)
    feed = "".join(f"{start} {count}\n" for start, count in writes)
    printed, _ = tool.run(["states", str(path)], feed)
    source, by = surface_after(disk, writes)
    own = np.arange(len(source))
    capacity = len(source) // 8 * 8
    overwritten = source != own
    found, found_by, first_wrong = np.zeros(len(source), dtype=bool), by.copy(), 0
    for line in printed.splitlines():
        start, count, origin, write = map(int, line.split())
        found[start : start + count], found_by[start : start + count] = True, write
        first_wrong += int(source[start] != origin)
    wrong = (found != overwritten) | (overwritten & (found_by != by))
    return int(wrong[:capacity].sum()) + first_wrong, int(overwritten[:capacity].sum())


def w1(tool: Tool) -> Measured:
    """The sectors that random writes destroy on random disks."""
    wrong = overwritten = 0
    for seed in range(DISKS):
        mistaken, lost = _mistaken(tool, seed)
        wrong, overwritten = wrong + mistaken, overwritten + lost
    figures = {"sectors that differ from the oracle": float(wrong), "disks compared": float(DISKS)}
    note = f"{overwritten:,} sectors were overwritten on {DISKS} disks by {WRITES} writes each"
    return Measured(figures, notes=(note, "the default tests compare 1,000 disks in every read mode"))


def efficiency(tool: Tool, band_tracks: int, k: int) -> tuple[Fraction, Fraction]:
    """Smallest and largest share of a band's tracks, guard included, that hold host data."""
    zones = [(600, 2_200), (600, 1_600), (600, 1_000)]
    host_sectors = sum(tracks * sectors for tracks, sectors in zones) * band_tracks // (band_tracks + k - 1)
    text = _profile(zones, 900_000, k, host_sectors * 3 // 4 // 8 * 8, band_tracks)
    path = tool.keep_profile("banded.toml", text)
    printed, _ = tool.run(["bands", str(path)])
    bands = [tuple(map(int, line.split())) for line in printed.splitlines()]
    # From a band to the next in its zone; the last band, and the last of a zone, have no next one.
    first_zone = zones[0][0] * zones[0][1]
    starts = [(start, length) for start, length in bands if start < first_zone]
    shares = [Fraction(length, behind - start) for (start, length), (behind, _) in pairwise(starts)]
    return (min(shares), max(shares)) if shares else (Fraction(0), Fraction(0))


def w7(tool: Tool) -> Measured:
    """Bands of b tracks with k - 1 guard tracks hold b of b + k - 1."""
    figures = {}
    for band_tracks, k in BANDS:
        least, most = efficiency(tool, band_tracks, k)
        exact = least == most == Fraction(band_tracks, band_tracks + k - 1)
        figures[f"bands of {band_tracks} tracks, k = {k}"] = (
            str(least) if exact or least == most else "differ"
        )
    return Measured(figures)
