"""Words for the status of a served drive: its persistent cache, and how fast it works.

Invariant: what a status does not have (a server of an older version, a drive without such a limit) is left
out, not shown as zero.
"""

from __future__ import annotations

from typing import Any

from skylight.units import (
    format_count,
    format_counted,
    format_duration,
    format_percent,
    format_rate,
    format_size,
)

__all__ = ["Rates", "cache_words", "lateness_words"]


def cache_words(image: dict[str, Any]) -> list[str]:
    """How full the persistent cache and its map are, and whether the drive cleans."""
    words = [f"{format_size(int(image.get('cache_live_bytes') or 0))} in the cache"]
    if image.get("cache_fill") is not None:
        words.append(f"{format_percent(image['cache_fill'])} full")
    if entries := image.get("cache_map_entries"):
        limit = image.get("cache_map_limit")
        named = (
            f"{format_counted(entries, 'map entry')}"
            if entries == 1
            else f"{format_count(entries)} map entries"
        )
        words.append(named if limit is None else f"{named} of {format_count(limit)}")
    if image.get("cleaning"):
        words.append("cleaning")
    return words


def lateness_words(lateness: dict[str, Any]) -> str:
    """How much later than the drive's own time answers come: classes of powers of two, so "up to"."""
    worst_us = lateness["worst_us"]
    bounds_us = (min(lateness["p50_us"], worst_us), min(lateness["p99_us"], worst_us), worst_us)
    half, most, worst = (format_duration(1e3 * bound_us) for bound_us in bounds_us)
    return f"answers late by up to {half} (half of them), {most} (99 %), {worst} (all)"


class Rates:
    """What a drive does a second, from one status to the next."""

    def __init__(self) -> None:
        self._last: tuple[float, dict[str, dict[str, int]]] | None = None

    def words(self, status: dict[str, Any], now_s: float) -> list[str]:
        """Rates since the last call; none at the first, or where nothing was asked of the drive. ``now_s`` is
        when the status was taken."""
        counts = status.get("requests") or {}
        before, self._last = self._last, (now_s, counts)
        if before is None or now_s <= before[0]:
            return []
        passed_s, words = now_s - before[0], []
        for kind in ("read", "write"):
            done, moved = (counts[what][kind] - before[1][what][kind] for what in ("commands", "bytes"))
            if done:
                rate = f"{format_rate(done / passed_s)} {kind}s/s"
                words.append(f"{rate} with {moved / passed_s / 1e6:.3g} MB/s")
        return words
