"""From the bands that were seen to `band_bytes`.

A band is not always as large as its neighbours: the last one before a stretch of smaller bands may be cut
off. So three are measured near each address. That of the middle address counts if one of its neighbours is as
large; if neither is, it is the cut-off end of the stretch before it, whose bands are larger.

Confidence: for a drive whose cleaned blocks were read, one minus the chance that an edge lies a block off, as
the likelihoods at the edges give it, for the bands that decide; for cache parts, how often such answers were
right (`skylight.infer.priors`), with or without an edge; among older data, that it is one band, a prior.

Source: Skylight (FAST '15), section 4.7: bands are iso-capacity within a zone, and shrink towards the ID.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skylight.findings import Finding
from skylight.infer.priors import CHOSEN
from skylight.probe.band_size import random_order
from skylight.probe.band_size.cache_parts import PLACES, ZONE_BYTES, PartBand
from skylight.probe.band_size.declared_zones import Declared
from skylight.probe.band_size.findings import BAND_SIZE
from skylight.probe.band_size.journaled import MIB, Band, firsts
from skylight.probe.band_size.random_order import Fit
from skylight.units import format_size

SURE = 2.0  # weight at its edges from which a band counts without another of its size
WEAK = 0.5
EDGES, EVENLY = "cache parts, edges", "cache parts, evenly"
"""Ways: whether the address was seen behind which another cache part begins, or stalls come evenly alone."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size at a place (bytes), and the chance that it is not."""

    size: int
    doubt: float


def _doubt(band: Band) -> float:
    return min(1.0, 4 * math.exp(-max(band.margin, 0.0)) / (1 + math.exp(-max(band.margin, 0.0))))


def _is_whole_behind_start(band: Band) -> bool:
    """Whether as many whole bands of its size lie before a band near the first address: they are alike from
    there on, so an edge that was misread shows."""
    count = round(band.low / band.size)
    return abs(band.low - count * band.size) <= (count + 1) * MIB  # each edge is known to a step of the grid


def _agreeing(bands: Sequence[Band]) -> Size | None:
    """The size that two of the bands have; or that of the surest, if no other is plainly another, and if its
    edges, near the first address, are whole bands behind that."""
    best: Size | None = None
    for band in bands:
        same = [other for other in bands if other.size == band.size]
        doubt = math.prod(_doubt(other) for other in same)
        others = [other for other in bands if other.margin >= SURE and abs(other.size - band.size) > 2 * MIB]
        alone = band.margin >= SURE and not others  # an edge of each may be a block off
        alone = alone and (band.place != "od" or _is_whole_behind_start(band))
        if (len(same) > 1 or alone) and (best is None or doubt < best.doubt):
            best = Size(band.size, doubt)
    return best


def at_place(place: str, bands: Sequence[Band], size: int) -> Size | None:
    """The size at a place, from what was seen there; None if that does not tell."""
    here = [band for band in bands if band.place == place]
    if place != "md":
        return _agreeing(here)
    middle = size // 2 // MIB * MIB
    own = next((band for band in here if band.low <= middle < band.high), None)
    before = [band for band in here if band.high <= middle]
    others = [band for band in here if band is not own]
    same = [band for band in others if own is not None and band.size == own.size]
    if own is not None and same:
        return Size(own.size, math.prod(_doubt(band) for band in [own, *same]))
    if own is None or own.margin < WEAK:
        return _agreeing(here) if len({band.size for band in others}) == 1 and len(others) > 1 else None
    if not any(band.low >= own.high for band in here):
        return None  # the one behind may be as large as its own
    near = [band for band in others if abs(band.size - own.size) == MIB]
    if own.margin < SURE and before and len(near) == len(others) and len({band.size for band in near}) == 1:
        return _agreeing(near)  # alike before it and behind: of its own an edge was misread
    if own.margin < SURE and before and _is_last_of(before[-1], own, others):
        return Size(before[-1].size, _doubt(before[-1]))
    if len({band.size for band in others}) > 1 and own.size > max(band.size for band in others):
        return None  # bands only become smaller: it holds pieces of both stretches that meet there
    if near or not before:
        return Size(own.size, _doubt(own)) if own.margin >= SURE else None
    last = before[-1]
    if last.size > own.size and last.margin >= SURE:
        return Size(last.size, _doubt(last))
    return None


def _is_last_of(before: Band, own: Band, others: Sequence[Band]) -> bool:
    """Whether the band at the middle, of which an edge was misread, is as large as the one before it, which
    is sure, and those behind are plainly smaller: a stretch of bands ends between."""
    behind = [band for band in others if band.low >= own.high]
    off_by_an_edge = before.margin >= SURE and abs(before.size - own.size) == MIB
    return off_by_an_edge and all(band.size < min(own.size, before.size) - 2 * MIB for band in behind)


def of_bands(bands: Sequence[Band], size: int, rows: Sequence[str]) -> Finding:
    """The finding from bands whose blocks were read."""
    sizes = {place: at_place(place, bands, size) for place in PLACES}
    missing = [place for place, found in sizes.items() if found is None]
    if missing:
        return BAND_SIZE.unknown(
            f"{len(bands)} of {len(firsts(size))} bands were seen to be cleaned, but at the"
            f" {' and '.join(missing).upper()} no two agree; leave the drive idle for an hour and probe"
            " again.",
            rows,
        )
    whole = {place: found for place, found in sizes.items() if found is not None}
    first, middle, last = (whole[place].size for place in PLACES)
    if not last <= middle + MIB <= first + 2 * MIB:  # each edge is known to a step of the grid
        return BAND_SIZE.unknown(
            f"{len(bands)} bands were seen to be cleaned, of {format_size(first)} at the OD,"
            f" {format_size(middle)} at the MD and {format_size(last)} at the ID, which do not shrink towards"
            " the ID: several may have been cleaned together.",
            rows,
        )
    confidence = math.prod(1 - found.doubt for found in whole.values())
    listed = ", ".join(f"{format_size(found.size)} at the {place.upper()}" for place, found in whole.items())
    why = (
        f"Of a grid of written blocks those within {listed} went back to their native place together with the"
        f" block that was written first ({len(bands)} bands, edges to 1 MiB)."
    )
    return BAND_SIZE.found({place: found.size for place, found in whole.items()}, confidence, why, rows)


def _confirmed(bands: Sequence[Band], zone_bytes: int) -> float | None:
    """The chance that the edges of these bands lie at those of zones by misreading; None if they do not. Each
    edge is known to a step of the grid, so one may be a step off where others are not."""
    off = [max(abs(edge - round(edge / zone_bytes) * zone_bytes) for edge in (b.low, b.high)) for b in bands]
    exact = [b for b, most in zip(bands, off, strict=True) if most == 0 and b.size == zone_bytes]
    if max(off, default=0) > MIB or not (len(exact) > 1 or any(b.margin >= SURE for b in exact)):
        return None
    return math.prod(_doubt(b) for b in exact)


def of_zones(seen: Declared, rows: Sequence[str]) -> Finding:
    """The finding from blocks in zones that a drive declares: the bands are the zones, or it is unknown."""
    here = {place: [band for band in seen.bands if band.place == place] for place in PLACES}
    doubts = {place: _confirmed(bands, seen.zone_bytes) for place, bands in here.items()}
    zone = format_size(seen.zone_bytes)
    missing = [place.upper() for place, doubt in doubts.items() if doubt is None]
    if missing:
        why = (
            f"The drive declares zones of {zone}, but at the {' and '.join(missing)} what was cleaned"
            f" together with a block was not seen to be one ({len(seen.bands)} stretches of cleaned blocks)."
        )
        return BAND_SIZE.unknown(why, rows)
    why = (
        f"Of a grid of written blocks those in a zone of {zone} that the drive declares, and none beside it,"
        f" went back to their native place together with the block that was written first ({len(seen.bands)}"
        " zones, edges to 1 MiB)."
    )
    confidence = math.prod(1 - doubt for doubt in doubts.values() if doubt is not None)
    return BAND_SIZE.found(
        dict.fromkeys(PLACES, seen.zone_bytes), confidence, why, rows, way="declared zones"
    )


def of_fits(fits: Sequence[Fit], rows: Sequence[str]) -> Finding:
    """The finding from which blocks went home on a drive that cleans in random order."""
    listed = ", ".join(f"{format_size(fit.size)} at the {fit.place.upper()}" for fit in fits)
    weakest = min(fit.margin for fit in fits)
    if not all(fit.is_sure for fit in fits):
        return BAND_SIZE.unknown(
            f"Blocks that went home together fit bands of {listed}, but others nearly as well"
            f" (logarithm of the likelihoods apart by {weakest:.1f}).",
            rows,
        )
    first, middle, last = (fit.size for fit in fits)
    are_zones = all(fit.are_zones for fit in fits)
    if not are_zones and not random_order.SMALLEST < last <= max(first, middle) < random_order.LARGEST:
        return BAND_SIZE.unknown(
            f"Blocks went home in pieces that bands of {listed} fit best, which is where the search ends:"
            " blocks that go home one by one, in bands of no one size, look like that too.",
            rows,
        )
    if not last <= middle <= first:
        return BAND_SIZE.unknown(
            f"Blocks that went home together fit bands of {listed}, which do not shrink towards the ID: a"
            " window may lie over bands of two sizes.",
            rows,
        )
    confidence = math.prod(1 / (1 + math.exp(-fit.margin)) for fit in fits)
    why = (
        f"While the drive cleaned in no order, blocks of a grid went home in pieces that bands of {listed}"
        f" explain best (logarithm of the likelihoods {weakest:.1f} above that of any other size)"
        f"{', the zones that it declares' if are_zones else ''}."
    )
    value: dict[str, int | float | bool | str] = {fit.place: fit.size for fit in fits}
    return BAND_SIZE.found(value, confidence, why, rows, way="random order")


def listed_of(bands: Sequence[PartBand]) -> str:
    """The sizes at the places, in words."""
    return ", ".join(f"{format_size(band.size)} at the {band.place.upper()}" for band in bands)


def of_cache_parts(bands: Sequence[PartBand], rows: Sequence[str]) -> Finding:
    """The finding from the stalls of cache parts."""
    by_place = {band.place: band for band in bands}
    if set(by_place) != set(PLACES):
        return BAND_SIZE.unknown(
            "Writes to one place never stalled at an even distance, so no band was seen to be cleaned.", rows
        )
    if any(band.older for band in bands):
        return _of_older(bands, rows)
    if any(band.edges is False for band in bands):
        return BAND_SIZE.unknown(
            "Writes stall at an even distance, but the addresses do not change cache part there.", rows
        )
    first, middle, last = (by_place[place].size for place in PLACES)
    if not last <= middle + MIB <= first + 2 * MIB:
        return BAND_SIZE.unknown(
            f"Writes stall after every {listed_of(bands)}, which do not shrink towards the ID: a stall may"
            " clean what was in the cache before.",
            rows,
        )
    listed = listed_of(bands)
    how = (
        "the first address that does not share that cache part lies so far on" if bands[0].edges else "evenly"
    )
    why = (
        f"Writes to one part of the cache stall for cleaning after every {listed}"
        f" ({sum(band.stalls for band in bands)} stalls, none missing; {how})."
    )
    value: dict[str, int | float | bool | str] = {place: by_place[place].size for place in PLACES}
    return BAND_SIZE.found(value, 1.0, why, rows, way=EDGES if all(band.edges for band in bands) else EVENLY)


def _of_older(bands: Sequence[PartBand], rows: Sequence[str]) -> Finding:
    """The finding from what came free between runs of stalls that clean older data."""
    count, sizes = sum(band.stalls for band in bands), [band.size for band in bands]
    why = (
        "Writes stall for the cleaning of older data, and what goes in from one run of stalls to the next,"
        f" {count} times, is a multiple of {listed_of(bands)}"
    )
    if max(sizes) - min(sizes) > ZONE_BYTES:
        return BAND_SIZE.unknown(f"{why}, which differ: several bands may come free at once.", rows)
    why += "; that this is one band, and not several that come free at once, is a prior."
    return BAND_SIZE.found(
        {band.place: band.size for band in bands}, CHOSEN["one band"], why, rows, way="older data"
    )
