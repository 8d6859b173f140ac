"""Have blocks moved? A block passes under the head at one angle as long as it lies where it lies.

Blocks are read, something happens (a pause), and blocks beside them are read, in the same order. Phases of a
block that stayed differ between the two by what all differ by, the angle at which the second reading began;
those of a block that moved differ by anything. Blocks that nobody wrote are the *controls*: they give that
common difference and how far phases scatter about it. Where nearly all blocks are read far quicker than the
controls, they lie where no platter is, and have moved once they are not. Other clients delay some of these
reads: as many as before, when nothing had had time to move.

So no seek curve, layout or address of a cache enters, and neither delays of the host nor other clients do:
they make a read later by whole revolutions, or by none.

Invariant: without controls that agree among themselves nothing is said.

Source: as `skylight.infer.phase`; the share is that of a mixture of blocks that stayed, which scatter as the
controls do, and of blocks that moved, which are even over the revolution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, IoLog
from skylight.infer.track_phases import centred, phase_of, phasors

Bools = NDArray[np.bool_]

FEWEST_CONTROLS = 12  # of which a quantile of nine in ten means something
LEAST_AGREEMENT = 0.5  # mean phase vector of controls: even ones have one of 1 / sqrt(their number)
LEAST_WIDTH, MOST_WIDTH = 0.04, 0.25  # revolutions; wider, half of what moved would look as if it had stayed
WITHIN = 0.9  # share of the controls by which the width is set
QUICK_SHARE = 0.5  # of the time of the quickest tenth of the controls: such a read needs no platter
QUICKEST_PART = 0.1
ALL_QUICK = 0.75
"""In a log on a platter, where no seek is needed, half are; of flash other clients delay some."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The share of the blocks that moved, of how many, and its standard error; whether they lay where no
    platter is; and which of them, in the order of the reading, look as if they had."""

    share: float
    error: float
    count: int
    flash: bool
    away: tuple[bool, ...] = ()


def moved_between(before: IoLog, after: IoLog, control: Bools, period_ns: float) -> Moved | None:
    """What moved between two readings of the same blocks in the same order; None where controls disagree."""
    if len(before) != len(after) or int(control.sum()) < FEWEST_CONTROLS or bool(control.all()):
        return None
    was_quick, is_quick = (_quick(log.latency_ns, control) for log in (before, after))
    flash = float(was_quick[~control].mean()) >= ALL_QUICK
    turned = _phase(after, period_ns) - _phase(before, period_ns)
    mean = complex(phasors(turned[control]).mean())
    if abs(mean) < LEAST_AGREEMENT:
        return None
    off = np.abs(centred(turned - np.angle(mean) / (2 * np.pi)))
    width = max(LEAST_WIDTH, float(np.quantile(off[control], WITHIN)))
    if width > MOST_WIDTH:
        return None
    away = ~is_quick if flash else off > width
    # Of blocks in flash some seem to have moved as they did before, of others as those do that stay.
    stayed_away = 1.0 - float(was_quick[~control].mean()) if flash else float(away[control].mean())
    scale = (1.0 if flash else 1.0 - 2.0 * width) - stayed_away
    asked = away[~control]
    share = min(max((float(asked.mean()) - stayed_away) / scale, 0.0), 1.0)
    # Of how many seem to have moved that did not no more is known than they are.
    unmoved = ~was_quick[~control] if flash else away[control]
    error = float(np.hypot(_error(asked), _error(unmoved))) / scale
    return Moved(share, error, len(asked), flash, tuple(asked.tolist()))


def _error(away: Bools) -> float:
    """The standard error of a share, with one more of either kind: none or all is not taken for certain."""
    smoothed = (away.sum() + 1) / (len(away) + 2)
    return float(np.sqrt(smoothed * (1 - smoothed) / len(away)))


def _quick(latency_ns: NDArray[np.int64], control: Bools) -> Bools:
    """Reads too quick for a platter, given those of the controls."""
    return np.asarray(latency_ns < QUICK_SHARE * float(np.quantile(latency_ns[control], QUICKEST_PART)))


def _phase(log: IoLog, period_ns: float) -> F64:
    return phase_of(log.complete_ns, int(log.complete_ns[0]), period_ns)
