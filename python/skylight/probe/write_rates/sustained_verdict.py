"""Findings from the writes past the cliff: what the drive keeps up, how long a write waits, and what follows
by arithmetic for idle time and for a whole drive.

Confidence: of a rate, how surely it is within a quarter, from the spread of the means of ten parts of the
writes (normal); of the waits, times the chance that one in a hundred was seen at all. What follows from
findings is as sure as the least sure of them.

Source: Skylight (FAST '15) section 6.
"""

from __future__ import annotations

import math

import numpy as np

from skylight.evidence import IoLog
from skylight.findings import Finding, Known
from skylight.infer.priors import follows
from skylight.probe.write_rates.findings import DRAIN, FILL_DRIVE, FULL_RATES, STALL
from skylight.probe.write_rates.sustained_writes import SLOW_NS, STREAM_BYTES, Cliff, counted_stream
from skylight.units import format_count, format_duration, format_rate, format_size

PARTS = 10
WITHIN = 0.25
"""How near a rate must be to count as right."""
SEEN_ONE_IN = 100
"""Of waits the finding gives the 99th percentile."""

CLIFF, STREAM = "cliff", "stream"


def sureness(log: IoLog) -> float:
    """How surely the mean time of a write is within a quarter of what it was, from the spread of ten
    parts."""
    if len(log) < PARTS:
        return 0.0
    means = np.array([part.mean() for part in np.array_split(log.latency_ns, PARTS)])
    error = means.std(ddof=1) / math.sqrt(PARTS) / means.mean()
    return math.erf(WITHIN / max(error, 1e-9) / math.sqrt(2))


def per_second(log: IoLog) -> float:
    """Writes a second."""
    return len(log) * 1e9 / max(log.span_ns, 1)


def judge(seen: Cliff, known: Known, size_bytes: int) -> list[Finding]:
    """The findings of a shingled drive past its cliff, unknown with the reason where it was not seen; of
    another, how long the whole of it takes."""
    fill = _fill_drive(seen, known, size_bytes)
    if known.word("drive_type") != "smr":
        return [fill]
    past = seen.past()
    if not len(past):
        why = _not_seen(seen)
        return [*(found.unknown(why) for found in (FULL_RATES, STALL, DRAIN)), fill]
    return [*of_past(seen, past), _drain(seen, known, size_bytes), fill]


def of_past(seen: Cliff, past: IoLog) -> tuple[Finding, Finding]:
    """The pace that is left, and how long writes wait."""
    return _rates(seen, past), _stalls(past)


def _not_seen(seen: Cliff) -> str:
    if not seen.pieces:
        return "No random writes were made that fill the cache."
    before_s, since_s = seen.device_s()
    count = sum(len(log) for log in seen.pieces)
    if seen.slow:
        return (
            f"After {format_count(seen.writes_before)} random writes they became slower, but not for long"
            f" enough to say what the drive keeps up ({format_duration(since_s * 1e9)})."
        )
    return (
        f"{format_count(count)} random writes one at a time, for {format_duration(before_s * 1e9)}, were not"
        " enough to fill the cache."
    )


def _rates(seen: Cliff, past: IoLog) -> Finding:
    random = per_second(past)
    value: dict[str, int | float | bool | str] = {"random_per_s": round(random, 2)}
    confidence, rows = sureness(past), [CLIFF]
    first = seen.pieces[0]
    size = format_size(int(np.median(past.size)))
    why = (
        f"Random writes of {size}: {per_second(first):,.1f} a second at first; after"
        f" {format_count(seen.writes_before)} of them the cache, or the part of it that they go to, is full,"
        f" and the next {format_count(len(past))} are done at {random:,.2f} a second"
    )
    if seen.stream is not None and len(seen.stream):
        stream = counted_stream(seen.stream)
        value["sequential_bytes_per_s"] = round(per_second(stream) * STREAM_BYTES)
        confidence, rows = min(confidence, sureness(stream)), [CLIFF, STREAM]
        why += (
            f", {format_size(len(stream) * STREAM_BYTES)} in order{_where(seen)}, write cache {_on(seen)}, at"
            f" {format_rate(per_second(stream) * STREAM_BYTES / 1e6)} MB/s"
        )
    return FULL_RATES.found(value, confidence, why + ".", rows)


def _stalls(past: IoLog) -> Finding:
    latency_ns = past.latency_ns
    middle, most = (round(float(each)) for each in np.percentile(latency_ns, (50, 99)))
    longest = int(latency_ns.max())
    slow = int(np.count_nonzero(latency_ns >= SLOW_NS))
    why = (
        f"Of {format_count(len(past))} random writes past the cliff {format_count(slow)} waited"
        f" {format_duration(SLOW_NS)} or longer: half of all at least {format_duration(middle)}, one in a"
        f" hundred {format_duration(most)}, the longest {format_duration(longest)}."
    )
    seen_at_all = 1 - (1 - 1 / SEEN_ONE_IN) ** len(past)
    value: dict[str, int | float | bool | str] = {"p50": middle, "p99": most, "longest": longest}
    return STALL.found(value, sureness(past) * seen_at_all, why, [CLIFF])


def _drain(seen: Cliff, known: Known, size_bytes: int) -> Finding:
    """Idle time for all bands that have blocks in the full cache."""
    if known.word("cleaning_type") == "lazy":
        return DRAIN.unknown("It does not clean when left alone, so no idle time empties its cache.")
    names = ("cleaning_start_ns", "cleaning_band_ns", "band_bytes")
    start, one, band = (
        known.number(names[0]), known.part(names[1], "one_block"), known.part(names[2], "md")
    )  # fmt: skip
    whole = seen.region is not None and seen.region.length == size_bytes
    if start is None or one is None or band is None or not whole:
        return DRAIN.unknown(
            "How many bands it cleans, and how long one takes, is not known for the whole of its cache."
        )
    bands = size_bytes / band
    dirty = bands * (1 - math.exp(-seen.writes_before / bands))
    sure = min(found.confidence for found in map(known.get, names) if found is not None)
    why = (
        f"{format_count(seen.writes_before)} random writes filled it and lie in"
        f" {format_count(round(dirty))} of {format_count(round(bands))} bands; cleaning begins after"
        f" {format_duration(start)} and takes {format_duration(one)} for a band with one block."
    )
    return DRAIN.found(round(start + dirty * one), sure, why, [CLIFF], way=follows(*names))


def _fill_drive(seen: Cliff, known: Known, size_bytes: int) -> Finding:
    """Time to write the whole drive in order; slower towards the inner diameter as reads are, where that was
    found."""
    if seen.stream is None or not len(seen.stream):
        return FILL_DRIVE.unknown("No pace of writes in order was measured.")
    stream = counted_stream(seen.stream)
    if len(stream) < PARTS:
        few = f"{format_count(len(seen.stream))} in {format_duration(seen.stream.span_ns)}"
        return FILL_DRIVE.unknown(f"Too few writes in order were done to name their pace: {few}.")
    pace = per_second(stream) * STREAM_BYTES
    ends = [known.part("throughput_bytes_per_s", key) for key in ("od", "md", "id")]
    speeds = [each for each in ends if each]
    slower, words = 1.0, ""
    if len(speeds) == len(ends):
        slower = float(np.mean([speeds[0] / each for each in speeds]))
        words = f", as much slower towards the inner diameter as reads are ({slower:.2f} times on average)"
    rate = f"{format_rate(pace / 1e6)} MB/s"
    why = f"{format_size(size_bytes)} in order{_where(seen)} at {rate}, write cache {_on(seen)}{words}."
    return FILL_DRIVE.found(round(size_bytes / pace * slower * 1e9), sureness(stream), why, [STREAM])


def _where(seen: Cliff) -> str:
    return ", in zones that are reset first" if seen.in_zones else ""


def _on(seen: Cliff) -> str:
    return "on" if seen.stream_cached else "off"
