"""How soon after a command's arrival the head can be over a block: overhead and arm time from whether blocks
were caught.

A read has to wait until its block comes round. If that is too soon for the drive (command overhead, then the
arm), the block is missed and comes one revolution later. So ideal latencies (from submission until the
block's end passes, by its angle, without what the command took longer) fill exactly one revolution from the
*reach* on: the soonest that can be caught. The reach is the lower edge of that revolution; the soonest caught
and the latest missed enclose it. Reaches of the same drive differ only by arm time, so that overhead and
transfer cancel in differences.

The edge is never quite sharp, and other clients make a drive miss blocks that it had time for. Both are
nuisances that are estimated from the reads themselves (`Edges`), and with them each edge is the likeliest
one: the chance to catch a block rises from none to one less the share that is missed anyway, as a logistic
curve.

Invariant: an estimate tolerates a share of wrong rows (outliers, blocks that a cache answered) and says how
many there were.

Source: the minimum time between reads of Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI
disk drive parameters" (SIGMETRICS '95), section 4; the curve with a share of lapses is that of psychometric
functions (Wichmann and Hill, Perception & Psychophysics 63, 2001, section "Lapses").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from skylight.evidence import F64

FEWEST_ROWS = 6
MOST_WRONG = 0.1
MOST_MISSED = 0.35  # other clients that delay every fourth access, and what chance adds in a few dozen
LATE_TURNS = 0.85  # a command takes less longer than its mechanics than this, or is an outlier
WIDTHS_NS = (8e3, 25e3, 75e3, 220e3)
"""Widths of the logistic curve that are tried: from what angles of blocks are known to, to a host whose gaps
between commands differ by half a millisecond."""
MISSED = (0.003, 0.05, 0.12, 0.25)
"""Shares of blocks that are missed although there was time: outliers alone, to other clients all the time."""
STRAY = 0.01  # the chance of a row that nothing explains: an outlier, or a block that a cache answered
LATER_TURNS = 2  # passes before the one that was caught that are looked at
TRIED_EDGES = 64
PILOTS = 5  # groups of rows that tell the width and the share for all of a step
ONE_ERROR = 0.5  # of the log of the likelihood: an edge so much less likely is one standard error away
FAR_WIDTHS = 4.0  # widths from the edge from where on a row contradicts it
NO_CHANCE_WIDTHS = 12.0  # before the edge, so that a block is not caught but by a stray


@dataclass(frozen=True, slots=True)
class Reach:
    """The edge lies between `low_ns` and `high_ns`, give or take a standard error; `wrong` of `count` rows
    contradict it."""

    low_ns: float
    high_ns: float
    count: int
    wrong: int

    @property
    def ns(self) -> float:
        """The middle."""
        return (self.low_ns + self.high_ns) / 2

    @property
    def half_ns(self) -> float:
        """Half of the width."""
        return (self.high_ns - self.low_ns) / 2


@dataclass(frozen=True, slots=True)
class Edges:
    """How sharp the edges of a step are (the width of a logistic curve, ns), and which share of blocks is
    missed although there was time."""

    width_ns: float
    missed: float


SHARP = Edges(WIDTHS_NS[0], MISSED[0])


def ideal_ns(
    latency_ns: F64, submit_phase: F64, block_phase: F64, period_ns: float, late_turns: float = LATE_TURNS
) -> F64:
    """Latencies as the mechanics alone would have had them.

    The block's end passes a known part of a revolution after submission, and again every revolution; the pass
    that was caught is the last one before the completion. `late_turns` is how late a completion may seem; by
    the rest of a revolution it may seem early, where a clock is coarse."""
    first = np.mod(block_phase - submit_phase, 1.0)
    turns = np.floor(latency_ns / period_ns - first + (1.0 - late_turns))
    return np.asarray((first + np.maximum(turns, 0.0)) * period_ns, np.float64)


def edges_of(groups: Sequence[F64], period_ns: float) -> Edges:
    """The width and the share of missed blocks with which some groups of ideal latencies, each with an edge
    of its own, are likeliest."""
    kept = [group[np.isfinite(group)] for group in groups]
    kept = [group for group in kept if len(group) >= FEWEST_ROWS]
    pilots = kept[:: max(1, len(kept) // PILOTS)]
    tried = [Edges(width_ns, missed) for width_ns, missed in product(WIDTHS_NS, MISSED)]
    likely = np.zeros(len(tried))
    for group in pilots:
        middle = _candidates(group, period_ns)[1]
        curves = [_curves(group, middle, period_ns, width_ns) for width_ns in WIDTHS_NS]
        of_width = (_likelihood(each, missed).max() for each, missed in product(curves, MISSED))
        likely += np.fromiter(of_width, np.float64, len(tried))
    return tried[int(np.argmax(likely))] if pilots else SHARP


def reach_of(ideal: F64, period_ns: float, edges: Edges = SHARP) -> Reach | None:
    """The edge below which hardly any latency lies, and hardly any a revolution above it; None where that
    cannot be said."""
    ideal = ideal[np.isfinite(ideal)]
    if len(ideal) < FEWEST_ROWS:
        return None
    bounds, middle = _candidates(ideal, period_ns)
    if len(middle) == 0:
        return None
    likely = _likelihood(_curves(ideal, middle, period_ns, edges.width_ns), edges.missed)
    best = float(middle[int(np.argmax(likely))])
    far_ns = FAR_WIDTHS * edges.width_ns
    early = int(np.count_nonzero(ideal < best - far_ns))
    missed = int(np.count_nonzero(ideal > best + period_ns + far_ns))
    if early > MOST_WRONG * len(ideal) or missed > MOST_MISSED * len(ideal):
        return None
    near = np.flatnonzero(likely >= likely.max() - ONE_ERROR)
    return Reach(float(bounds[near].min()), float(bounds[near, 1].max()), len(ideal), early)


def _candidates(ideal: F64, period_ns: float) -> tuple[F64, F64]:
    """Intervals that may hold the edge, between rows that were caught or missed, and their middles: those
    that contradict the fewest rows."""
    caught, missed = np.sort(ideal), np.sort(ideal - period_ns)
    # An edge at e contradicts latencies below e, and latencies of a revolution more than e.
    edges = np.unique(np.concatenate([caught, missed]))
    middle = (edges[1:] + edges[:-1]) / 2
    wrong = np.searchsorted(caught, middle) + len(missed) - np.searchsorted(missed, middle)
    kept = np.sort(np.argsort(wrong, kind="stable")[:TRIED_EDGES])
    return np.stack([edges[kept], edges[kept + 1]], axis=1), middle[kept]


def _curves(ideal: F64, edge_ns: F64, period_ns: float, width_ns: float) -> list[F64]:
    """How far each block's chance has risen for each edge (a column): when it was caught, and at its passes
    before. Passes so early that none is caught but by a stray are left out."""
    curves = [_curve(ideal, edge_ns, width_ns)]
    for turns in range(1, LATER_TURNS + 1):
        before = ideal - turns * period_ns
        before = before[before > edge_ns.min() - NO_CHANCE_WIDTHS * width_ns]
        curves.append(_curve(before, edge_ns, width_ns))
    return curves


def _curve(pass_ns: F64, edge_ns: F64, width_ns: float) -> F64:
    """The logistic curve from 0 to 1 of passes (rows) over each edge (columns)."""
    return np.asarray(0.5 * (1.0 + np.tanh((pass_ns[:, None] - edge_ns) / (2 * width_ns))), np.float64)


def _likelihood(curves: list[F64], missed: float) -> F64:
    """The log of the likelihood of ideal latencies for each edge: each block was caught when it was, and at
    none of its passes before."""
    caught, *before = (STRAY + (1.0 - STRAY - missed) * curve for curve in curves)
    total = np.log(caught).sum(axis=0)
    for each in before:
        total += np.log1p(-each).sum(axis=0)
    return np.asarray(total, np.float64)
