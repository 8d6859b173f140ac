"""Findings of test 2 from what its logs say.

Confidence is computed: of a number with a standard error, the chance that a normal error of twice that size
stays within the width of the finding (0.1 %, 2 %, 10 %), so that an error model off by a factor of two is
still covered; of several, the product. Reads that contradict an estimate take their share away.

Source: docs/tests/rotation.md; the widths are those that are declared (`findings`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import erf, hypot, sqrt

import numpy as np

from skylight.findings import Finding, Known
from skylight.infer.adjacent_tracks import OPEN
from skylight.infer.minimum_access_time import Reach
from skylight.infer.track_phases import Tracks
from skylight.probe.rotation.analysis import Analysis
from skylight.probe.rotation.findings import (
    ROTATION,
    SEEK,
    SEEK_RIGHT,
    STRIPED,
    TRACK,
    TRACK_RIGHT,
    TURN_RIGHT,
)
from skylight.probe.rotation.plan_steps import AROUND, IN_TURNS
from skylight.probe.rotation.seeks import Curve
from skylight.probe.rotation.track_consistency import (
    SAFETY,
    is_mostly_whole,
    is_out_of_order,
    led_to,
    stroke_between,
)
from skylight.units import format_duration, format_rotation, format_size

TURN_WIDTH, TRACK_WIDTH, SEEK_WIDTH = TURN_RIGHT.part, TRACK_RIGHT.part, SEEK_RIGHT.part
LEAST_CONFIDENCE = 0.5  # three times of which one is likelier to be off than not are no answer
TWO_SIDED_95 = 1.96  # standard errors
MOST_TRACK_ERROR = 0.01
LEAST_FALL = 1.05
"""Times the track size at the end, that at the start. Chosen: of zoned recording it is 1.4 or more, as the
outer diameter is of the inner."""
END_BY_LINE = "end by line"
"""The way of tracks at the last address that follow from those before, for blocks there lie in a cache."""
LEAST_STROKE = 0.85
"""Of the stroke, by sizes of tracks. Chosen: the arm takes at most a sixth longer over all of it, and by the
curve that is known to a third of that."""
MOST_THIRD = 0.08  # half the range of fits, of the third itself
ROWS = ("turn", "first")
STEP_ROWS, FAR_ROWS = ("same", "next-fine", "apart-fine", IN_TURNS), ("from-first", "from-far", "full")
SEEK_ROWS = (*STEP_ROWS, *FAR_ROWS)

_START_ELSEWHERE = (
    "Tracks behind the first addresses are larger: the start was moved,"
    " or lies on a surface with other tracks"
)


def within(error: float, width: float) -> float:
    """The chance that a normal error of `SAFETY` times the standard one stays within a width (relative)."""
    return erf(width / (sqrt(2.0) * SAFETY * error)) if error > 0 else 1.0


def judge(found: Analysis, known: Known, *, without: str, in_range: bool = False) -> list[Finding]:
    """Rotation, tracks and seeks; none for what does not rotate. `without` is why there is no rotation;
    `in_range` whether it is known that the addresses are a part of a drive's."""
    if known.word("drive_type") == "not-rotating":
        return []
    shingled = known.word("drive_type") == "smr"
    return [_rotation(found, without), _tracks(found, in_range, shingled), _seeks(found, in_range, shingled)]


def _rotation(found: Analysis, without: str) -> Finding:
    turn = found.turn
    if turn is None:
        return ROTATION.unknown(without)
    error = max(turn.error, 1e-6)
    if within(error, TURN_WIDTH) < 0.9:
        why = f"Two halves of the reads disagree by {100 * error:.2g} % of a revolution."
        return ROTATION.unknown(why)
    if found.turns_otherwise:
        why = (
            f"Some blocks follow a revolution of {format_duration(turn.period_ns)} and others, which wait as"
            " on a disk, do not: no one rotation is that of all disks behind these addresses."
        )
        return ROTATION.unknown(why, found.turns_otherwise)
    why = (
        f"Completions of 1,024 reads in 8 MiB follow a revolution of {format_rotation(turn.period_ns, 5)};"
        f" its two halves agree to {1e6 * error:.1f} parts in a million."
    )
    likely = TWO_SIDED_95 * turn.standard_error
    interval = (turn.period_ns * (1 - likely), turn.period_ns * (1 + likely))
    confidence = turn.seen.confidence * within(error, TURN_WIDTH)
    return ROTATION.found(round(turn.period_ns), confidence, why, ROWS, interval)


def _led_to_end(found: Analysis, *, shingled: bool) -> Tracks | None:
    """Tracks of the size that places from the middle on lead to at the last address, where what was written
    last of a shingled drive lies in its cache; None where there is no such line."""
    part, size = found.from_middle
    if found.last is None or not shingled or not len(size):
        return None
    end_bytes, error_bytes = led_to(part, size)
    return replace(found.last, slope=1.0 / end_bytes, slope_error=error_bytes / end_bytes**2)


def _tracks(found: Analysis, in_range: bool = False, shingled: bool = False) -> Finding:
    if found.turn is None:
        return TRACK.unknown("Without a rotation no tracks can be detected.")
    if found.stripe is not None:
        return TRACK.unknown(_striped_words(found.stripe), way=STRIPED)
    parts = found.sizes()
    if not found.start_at_home:
        why = f"{_START_ELSEWHERE}."
        return TRACK.unknown(why, ("od", "od-behind"))
    if found.start_moved:
        why = f"{_START_ELSEWHERE}; so may others be, at which sizes are looked at."
        return TRACK.unknown(why, ("od", "od-behind"))
    end_at_home, way = found.end_at_home, found.end_way
    if found.last is not None and (end_at_home == 0.0 or found.ends_in_log):
        end_at_home, way, parts["id"] = 1.0, END_BY_LINE, _led_to_end(found, shingled=shingled)
    if way == END_BY_LINE and parts["id"] is None:
        why = "Tracks under the last addresses are not those of the end of a drive: they may lie in a cache."
        return TRACK.unknown(why, ("md", *found.end_rows))
    if not found.start_in_line:
        why = (
            "Tracks at the start are not of the size that other places lead to: it was moved, or lies on"
            " another surface than the first address."
        )
        return TRACK.unknown(why, ("od", "places"))
    middle = found.middle_home
    is_there = middle is None or parts["md"] is None or middle.slope == parts["md"].slope
    if parts["md"] is not None and middle is None:
        why = "Tracks in the middle are of no size that those around it share: it was moved."
        return TRACK.unknown(why, ("md", "places"))
    if is_out_of_order(found.places) if way == END_BY_LINE else found.is_moved_about:
        why = (
            "Tracks at some addresses are larger or smaller than those around by more than from one recording"
            " zone to the next: blocks there lie elsewhere, and may where sizes are looked at."
        )
        return TRACK.unknown(why, ("places", *found.end_rows))
    parts["md"] = middle
    sizes, confidence = dict[str, int | float | bool | str](), end_at_home
    for name, tracks in parts.items():
        if tracks is None or tracks.slope_error / tracks.slope > MOST_TRACK_ERROR:
            where = {"od": "first", "md": "middle", "id": "last"}[name]
            why = f"Angles of the blocks around the {where} address follow no one track size."
            return TRACK.unknown(why)
        sizes[name] = round(tracks.track_bytes / 512) * 512
        confidence *= within(tracks.slope_error / tracks.slope, TRACK_WIDTH)
    if (why_not := _not_one_disk(found, in_range, is_cut_up=found.is_cut_up)) is not None:
        return TRACK.unknown(why_not, ("od", "md", found.end_rows[0]))
    shown = ", ".join(_size_words(tracks) for tracks in parts.values() if tracks is not None)
    why = f"The angle of blocks rises by one revolution every {shown} at the {_where_words(found)}."
    rows = ("od", "md" if is_there else AROUND, found.end_rows[0])
    return TRACK.found(sizes, confidence, why, rows, way=way)


def _not_one_disk(found: Analysis, in_range: bool, *, is_cut_up: bool) -> str | None:
    """Why addresses do not follow the tracks of one disk; None where nothing says so."""
    if is_cut_up:
        return (
            "Angles begin anew within tracks: addresses go to several disks in turn, or to pieces of one, and"
            " what passes in a revolution is no track of any."
        )
    if found.is_shuffled:
        return (
            f"Track sizes at {len(found.places)} places rise and fall with the address as on no disk: places"
            " near in address are not near in fact."
        )
    if (
        not in_range
        and found.near
        and found.last
        and not found.near.track_bytes > LEAST_FALL * found.last.track_bytes
    ):
        return (
            "Tracks are as large at the last addresses as at the first, as on no disk: these blocks do not"
            " lie from one diameter to the other."
        )
    return None


def _where_words(found: Analysis) -> str:
    """Where track sizes were measured."""
    if not found.end_bytes:
        return "first, middle and last address"
    return (
        f"first, middle and last address, as what lies {format_size(found.end_bytes)} before it leads there"
    )


def _striped_words(stripe: int) -> str:
    return (
        f"Angles begin anew about every {format_size(stripe)}: addresses go to several disks in turn, and"
        " what passes in a revolution is no track of any."
    )


def _size_words(tracks: Tracks) -> str:
    return f"{format_size(round(tracks.track_bytes))} (± {100 * tracks.slope_error / tracks.slope:.2g} %)"


def _shows_step(found: Analysis) -> Analysis:
    """What shows the arm's step: the start, or the place further on where it was looked for."""
    return found if found.behind is None else found.behind[1]


def track_seek(found: Analysis) -> tuple[float, float] | None:
    """Arm time to the next track and its error, ns."""
    at = _shows_step(found)
    near = at.neighbours
    if near is None or at.same is None:
        return None
    if near.pairs and at.in_turns is not None:
        same, other = at.in_turns
        # What ways leave open there is a range about times that scatter about one.
        ns, error = other.ns - same.ns, hypot(other.half_ns, same.half_ns, near.open_ns / sqrt(3.0))
        if near.walk == OPEN:
            # Pairs near a mean may be none of it: they show by how much all times were off.
            ns += at.off_pairs_ns
            if (each := at.by_stretches) is not None:
                # Of pairs of more than one time all reads together show the edge of the later ones.
                ns, error = each.ns + at.off_pairs_ns, hypot(error, each.spread_ns)
    else:
        ns, error = near.ns, near.open_ns
    return (ns, error + 0.01 * ns) if ns > 0 else None


@dataclass(frozen=True, slots=True)
class _Stroke:
    """All of the stroke in parts of that between the two ends of the hops, how many times as long the arm
    takes over it, and how far that may be off."""

    whole: float = 1.0
    longer: float = 1.0
    error: float = 0.0


def _stroke(found: Analysis, curve: Curve) -> _Stroke | None:
    """The stroke. Where blocks up to the last address lie elsewhere, those before may be nearly as far in, as
    sizes of tracks show; what is left is by the curve. None where too much is left, or sizes do not tell."""
    if found.end_at_home > 0.0:
        return _Stroke()
    part, size = found.towards_end
    if found.ends is None or found.near is None or not len(size):
        return None
    one, other = (found.places[end] for end in found.ends)
    seen = stroke_between(part, size, found.near, (one, other))
    if seen is None or seen[0] - seen[1] < LEAST_STROKE:
        return None
    whole, most = (max(1.0, 1.0 / (seen[0] - off)) for off in (0.0, seen[1]))
    longer, longest = (float(curve.ns(each) / curve.ns(1.0)) for each in (whole, most))
    return _Stroke(whole, longer, max(longest / longer - 1.0, seen[1] / 2))


def _trust(reach: Reach) -> float:
    return 1.0 - reach.wrong / reach.count


def _seeks(found: Analysis, in_range: bool = False, shingled: bool = False) -> Finding:
    track, curve, full, same = track_seek(found), found.curve, found.full, found.same
    if found.stripe is not None:
        return SEEK.unknown(_striped_words(found.stripe))
    if not (found.start_at_home or (found.near is not None and is_mostly_whole(found.near))):
        why = f"{_START_ELSEWHERE}; so which tracks are neighbours is not known."
        return SEEK.unknown(why, ("od", "od-behind"))
    is_cut_up = found.is_cut_up_at_start if shingled else found.is_cut_up
    if (why_not := _not_one_disk(found, in_range, is_cut_up=is_cut_up)) is not None:
        return SEEK.unknown(why_not, ("od", "places"))
    if track is None:
        why = "Arm times between neighbouring tracks do not distinguish a step of the arm from a head switch."
        if found.same is None:
            why = "The angles of blocks are not known well enough to determine when the arm is there."
        return SEEK.unknown(why)
    if curve is None or full is None or same is None:
        return SEEK.unknown("At too few places all over the drive can angles be determined.")
    stroke = _stroke(found, curve)
    if stroke is None:
        why = "The last addresses are not at the end of the drive, so how far the arm goes was not seen."
        return SEEK.unknown(why, ("md", *found.end_rows))
    low, high = curve.third_ns
    third_ns, full_ns = float(curve.ns(stroke.whole / 3)), stroke.longer * (full.ns - same.ns)
    if (high - low) / 2 > MOST_THIRD * third_ns or full.half_ns > SEEK_WIDTH / 3 * full_ns:
        why = (
            f"Seek curves that fit differ by {format_duration(high - low)} over a third of the stroke,"
            f" and its full length is known to {format_duration(full.half_ns)}."
        )
        return SEEK.unknown(why)
    third_error = hypot(max(high - low, curve.residual_ns) / 2 / third_ns, stroke.error)
    errors = (track[1] / track[0], third_error, hypot(full.half_ns / full_ns, stroke.error))
    confidence = float(np.prod([within(error, SEEK_WIDTH) for error in errors])) * _trust(full) * _trust(same)
    confidence *= found.end_at_home or 1.0
    if confidence < LEAST_CONFIDENCE:
        why = f"Each of the arm times is off by too much for all three to be right (chance {confidence:.2f})."
        return SEEK.unknown(why, SEEK_ROWS)
    value: dict[str, int | float | bool | str] = {
        "track": round(track[0]), "third": round(third_ns), "full": round(full_ns)
    }  # fmt: skip
    way = found.end_way if found.end_at_home else ""
    rows = SEEK_ROWS if found.behind is None else (*(found.behind[0] + row for row in STEP_ROWS), *FAR_ROWS)
    return SEEK.found(value, confidence, _seek_words(found, value), rows, way=way)


def _seek_words(found: Analysis, value: dict[str, int | float | bool | str]) -> str:
    near, same = _shows_step(found).neighbours, found.same
    walk = "" if near is None else f"; addresses fill the platters in {near.walk}"
    if near is not None and near.switch_ns is not None:
        walk += f" with a head switch of {format_duration(near.switch_ns)}"
    overhead = 0.0 if same is None else same.ns
    track, third, full = (format_duration(float(value[name])) for name in ("track", "third", "full"))
    return (
        f"After a read the head catches a block on the same track {format_duration(overhead)} later at the"
        f" earliest. On the next track of the surface that takes {track} more, over a third of the arm's"
        f" travel {third} more, over all of it {full} more{walk}."
    )
