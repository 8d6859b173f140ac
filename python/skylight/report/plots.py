"""Zoomable plots: every request of a test as a mark that can be looked at closely.

What for: the figures show what a test concluded from; these show all that it measured, in the page itself
and without a network. The page's script (``templates/plots.js``) draws them with uPlot; without scripts they
are not there, and the page says all else.

Invariants:
- Up to ``MOST_MARKS`` requests of a test are all there. Of more, each step keeps its share: of every run of
  neighbours the fastest and the slowest, and the slowest of the whole step, so that no outlier is lost and
  a zoom into it shows it where it was.
- Columns are whole numbers in a unit that goes with them, 32 bits each: latencies and times are exact to
  2.4e-10 of the longest, addresses of the highest.
- The same evidence gives the same bytes. Names of steps are text from outside: the page escapes them.

Source: docs/report.md, "Zoomable plots"; the columns are those of ``skylight.evidence``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import I64, U64, Evidence, IoLog, Step
from skylight.probe import Axis
from skylight.units import format_count

__all__ = ["MOST_MARKS", "Plot", "plot_of", "series_of", "shares", "thinned"]

MOST_MARKS = 3000
"""Marks of a plot. At most 23 bytes each in the page: those of fourteen tests stay below 1 MB."""

SLOWEST_PART = 8
"""Of the marks of a step that is thinned out, one in so many is for the slowest of the whole step."""

_MOST_GROUPS = 40  # choices in the list of steps
_UINT32 = np.iinfo(np.uint32).max
_ALONG: Mapping[Axis, str] = {
    "number": "in the order of the requests",
    "time": "along the time of the test",
    "address": "along the addresses",
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A zoomable plot: its words, and the columns as the page's script reads them."""

    title: str
    caption: str
    alt: str
    data: Mapping[str, object]


def shares(lengths: Sequence[int], most: int) -> list[int]:
    """How many rows each step may show so that all show at most ``most``, and at least two each: short steps
    whole, and the long ones alike.

    >>> shares([10, 500, 900], 600)
    [10, 295, 295]
    >>> shares([10, 20], 600)
    [10, 20]
    """
    given = [0] * len(lengths)
    left = most
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    for done, i in enumerate(order):
        even = max(2, left // (len(order) - done))
        given[i] = min(lengths[i], even)
        left -= given[i]
    return given


def thinned(latency_ns: I64, most: int) -> NDArray[np.intp]:
    """The rows of a step to show, in order: all of them where there is room, else those that the module's
    page tells."""
    rows = len(latency_ns)
    if rows <= most:
        return np.arange(rows)
    slowest = most // SLOWEST_PART
    runs = max(1, (most - slowest) // 2)
    run = np.arange(rows) * runs // rows
    by_run = np.lexsort((latency_ns, run))
    first = np.searchsorted(run[by_run], np.arange(runs))
    last = np.append(first[1:], rows) - 1
    top = np.argsort(latency_ns, kind="stable")[rows - slowest :]
    return np.unique(np.concatenate([by_run[first], by_run[last], top]))


def _column(values: U64, base: int) -> dict[str, object]:
    """Whole numbers as text: in 32 bits, in the smallest power of ``base`` in which the largest has room."""
    unit = 1
    while len(values) and int(values.max()) // unit > _UINT32:
        unit *= base
    packed = (values // np.uint64(unit)).astype("<u4").tobytes()
    return {"unit": unit, "data": base64.b64encode(packed).decode("ascii")}


def series_of(steps: Sequence[Step]) -> list[str]:
    """A name for each step to choose it by: its own, or, of many, that of its series (``tracks-012``)."""
    names = [step.name for step in steps]
    while len(set(names)) > _MOST_GROUPS:
        shorter = [re.sub(r"-?\d+$|-[^-]*$", "", name) or name for name in names]
        if shorter == names:
            return ["all steps"] * len(names)
        names = shorter
    return names


def _chosen(steps: Sequence[Step]) -> tuple[list[NDArray[np.intp]], IoLog]:
    """The rows of each step that are shown, and all of them as one log."""
    given = shares([len(step.rows) for step in steps], MOST_MARKS)
    rows = [thinned(step.rows.latency_ns, most) for step, most in zip(steps, given, strict=True)]
    logs = [step.rows for step in steps]
    columns = ("op", "offset", "size", "submit_ns", "complete_ns")
    shown = IoLog(
        *(
            np.concatenate([getattr(log, name)[keep] for log, keep in zip(logs, rows, strict=True)])
            for name in columns
        )
    )
    return rows, shown


def _caption(total: int, shown: int) -> str:
    """How to read the plot, and what of the requests it holds."""
    if shown == total:
        which = f"Each mark is one of all {format_count(total)} requests"
    else:
        which = (
            f"Each mark is one request; {format_count(shown)} of {format_count(total)} are shown, the fastest"
            " and the slowest of every run of neighbours, and the slowest of each step, so no outlier is"
            " missing"
        )
    which += ". Its height is how long it took, from submission to completion."
    return (
        f"{which} Drag over an area to look closer; point at a mark to read its values. The buttons, two"
        " fingers, or the keys + and \N{MINUS SIGN} with the arrows do the same; 0 shows the whole again."
    )


def plot_of(evidence: Evidence, axis: Axis = "number") -> Plot | None:
    """The plot of a test along an axis; None where no request was kept."""
    steps = [step for step in evidence.steps if len(step.rows)]
    if not steps:
        return None
    rows, shown = _chosen(steps)
    total = sum(len(step.rows) for step in steps)
    begins = np.cumsum([0, *(len(step.rows) for step in steps[:-1])])
    number = np.concatenate([keep + begin + 1 for keep, begin in zip(rows, begins, strict=True)])
    names = series_of(steps)
    groups = list(dict.fromkeys(names))
    latency_ns = np.maximum(shown.latency_ns, 0).astype(np.uint64)
    data: dict[str, object] = {
        "axis": axis,
        "groups": groups,
        "runs": [[groups.index(name), len(keep)] for name, keep in zip(names, rows, strict=True)],
        "ops": base64.b64encode(shown.op.tobytes()).decode("ascii"),
        "latency_ns": _column(latency_ns, 10),
        "time_ns": _column(shown.submit_ns - shown.submit_ns.min(), 10),
        "address": _column(shown.offset, 2),
    }
    if len(shown) < total:
        data["number"] = _column(number.astype(np.uint64), 10)
    longest = float(latency_ns.max()) / 1e6
    alt = (
        f"Latency of {format_count(len(shown))} requests {_ALONG[axis]}; the longest took {longest:,.3g} ms."
    )
    return Plot(
        "Every request, zoomable" if len(shown) == total else "The requests, zoomable",
        _caption(total, len(shown)),
        alt,
        data,
    )
