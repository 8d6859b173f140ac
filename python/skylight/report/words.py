"""Findings in words that the owner of a NAS understands.

What for: the top of the report and the first line on the terminal. A verdict here is a *reading* of
findings: it never looks at evidence, never decides anything, and never says more than the findings carry.

Invariants:
- A finding's title and the words for its values are those that it is declared with; a value without words is
  shown as found, not guessed at.
- Nothing is claimed of the drive at hand that was not measured. What holds of its kind is said of its kind.

Source: what each kind of drive is good and bad for: Skylight (FAST '15) sections 2 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from skylight.byte_range import ByteRange
from skylight.evidence import Params
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe.drive_type.findings import DRIVE_TYPE
from skylight.probe.suite import PROPERTIES
from skylight.probe.zoned import HOST_AWARE, HOST_MANAGED
from skylight.report.declared_hints import hints
from skylight.report.what_to_expect import felt

__all__ = ["Verdict", "confidence_words", "finding_title", "sentence", "value_words", "verdict"]

_CMR, _SMR, _STILL = (DRIVE_TYPE.words[kind] for kind in ("cmr", "smr", "not-rotating"))


@dataclass(frozen=True)
class Verdict:
    """The top of a report: one sentence, what it means, and how sure we are.

    ``kind`` picks the pictogram and the accent: cmr, smr-disk, smr-flash, smr, not-rotating or unknown.
    """

    kind: str
    headline: str
    lead: str
    points: tuple[tuple[str, str], ...]
    short: str
    confidence: float | None
    why: str

    @property
    def drive_type(self) -> str | None:
        """The verdict as a value of ``drive_type``, for a program: shingled where zones are declared or
        tracks are known to overlap, whatever the timing; None where there is no verdict."""
        if self.kind == UNKNOWN:
            return None
        return self.kind if self.kind in ("cmr", "not-rotating") else "smr"


_CMR_LEAD = """
It writes in place, without a persistent cache. It keeps its pace under random writes for as long
as they last.
"""
_CMR_POINTS = """
How it will feel: As any hard disk does: a random read or write costs a seek and part of a revolution, every \
time alike.
Good for: RAID, ZFS and Btrfs pools with their rebuilds, virtual machines, databases, backup.
What to avoid: Nothing beyond what is slow on every hard disk: many small random requests at once.
"""
_RAW_LEAD = """
It writes in place, without a persistent cache, so its timing is that of a conventional disk. But
its tracks overlap and no layer manages them: a write destroys what lies on the tracks beside it.
"""
_RAW_POINTS = """
How it will feel: As any hard disk does, until what was overwritten is read.
Good for: Software that knows the tracks and writes each band in order.
What to avoid: RAID, file systems, all that rewrites in place: it loses data.
"""
_SMR_LEAD = """
Its tracks overlap like roof shingles, so it cannot rewrite one in place. Small writes first go to a
persistent cache {where} and are sorted into place later.
"""
_SMR_WHERE = {
    "smr-disk": "on the disk itself",
    "smr-flash": "in flash memory",
    "smr": "in a place that was not found,",
}
_SMR_POINTS = """
How it will feel: In short bursts, fast. Under small random writes that do not stop, drives of this kind \
slow down sharply once the cache is full.
Good for: Backup, archives, media libraries, cameras: large files, written in order, read often, with \
idle time in between.
What to avoid: RAID and ZFS pools that must rebuild in time, virtual machines, databases, a file system \
that is kept busy day and night.
"""
_STILL_LEAD = """
Reads take about equally long wherever they go, as they do on a solid-state drive, a memory stick, a
file or a virtual disk. Nothing rotates, so shingled tracks are not a question here.
"""
_STILL_POINTS = """
How it will feel: On targets of this kind a random read costs little more than one in order.
What this says: How the target stores its data below the surface was not looked at.
If this is a surprise: A RAID controller, a caching layer or a virtual machine may stand between this \
computer and a disk. Probe the disk itself.
"""
_UNKNOWN_POINTS = """
Why there is no verdict: A wrong verdict is worse than none. The measurements below are kept and can be \
read again.
"""
_HOST_MANAGED_LEAD = """
The drive declares zones that have to be written in order, and refuses other writes. That its tracks overlap
follows from what it declares; timing does not show it, because types are distinguished by writes out of
order.
"""
_HOST_MANAGED_POINTS = """
How it will feel: Programs and file systems that know zones (zonefs, F2FS, Btrfs, dm-zoned) write at full \
speed, and everything else cannot write to it at all.
If this is a surprise: Drives of this kind are made for data centres, and do not work behind most RAID \
controllers and USB adapters.
"""
_HOST_AWARE_LEAD = """
The drive declares zones that are best written in order. That its tracks overlap follows from what it
declares; what was measured of its timing does not show it.
"""
_ZONED_LEAD = """
It declares zones: what is written at their write pointers, in order, goes straight to its place.
"""
_HOST_AWARE_POINTS = """
How it will feel: Written in order within its zones, fast. Writes out of order go to a persistent cache, \
and drives of this kind slow down sharply once it is full.
Good for: Programs and file systems that know zones (F2FS, Btrfs, dm-zoned), backup, archives.
What to avoid: RAID and ZFS pools that must rebuild in time, virtual machines, databases.
"""
_UNMEASURED_POINTS = """
What to do: Run the probe without --only, or with --only drive_type.
"""


def _words(text: str) -> str:
    """A text of several lines as one."""
    return " ".join(text.split())


def _points(text: str) -> tuple[tuple[str, str], ...]:
    """Lines of ``title: words`` as pairs."""
    pairs = (line.split(": ", 1) for line in text.strip().splitlines())
    return tuple((title, words) for title, words in pairs)


def sentence(text: str) -> str:
    """``text`` as a sentence: a capital first, a full stop last."""
    text = text.strip()
    return f"{text[0].upper()}{text[1:]}{'' if text[-1] in '.!?' else '.'}" if text else ""


def _shingled(drive: Finding, medium: str, measured: str) -> Verdict:
    """The verdict on a shingled disk whose persistent cache is on ``medium``; ``measured`` is how this one
    feels past its cliff, if that was found."""
    kind = {"disk": "smr-disk", "flash": "smr-flash"}.get(medium, "smr")
    place = {"smr-disk": " with its cache on the disk", "smr-flash": " with a flash cache"}.get(kind, "")
    return Verdict(
        kind,
        f"This is a {_SMR} disk{place}.",
        _words(_SMR_LEAD.format(where=_SMR_WHERE[kind])),
        _felt(_points(_SMR_POINTS), measured),
        f"{_SMR}{place}",
        drive.confidence,
        drive.why,
    )


def _with_zones(seen: Verdict) -> Verdict:
    """The verdict on a shingled disk that declares zones that are best written in order."""
    return replace(
        seen,
        headline=seen.headline.replace(f"a {_SMR}", f"a host-aware {_SMR}"),
        lead=f"{seen.lead} {_words(_ZONED_LEAD)}",
        short=f"host-aware {seen.short}",
    )


def _host_managed(zones: Finding) -> Verdict:
    """The verdict on a drive that refuses the writes by which types are told apart."""
    headline, short = f"This is a host-managed {_SMR} disk.", f"{_SMR}, host-managed"
    points = _points(_HOST_MANAGED_POINTS)
    return Verdict("smr", headline, _words(_HOST_MANAGED_LEAD), points, short, zones.confidence, zones.why)


def _host_aware(zones: Finding) -> Verdict:
    """The verdict on a drive that declares zones but takes any write, where timing shows no cache."""
    headline, short = f"This is a host-aware {_SMR} disk.", f"{_SMR}, host-aware"
    points = _points(_HOST_AWARE_POINTS)
    return Verdict("smr", headline, _words(_HOST_AWARE_LEAD), points, short, zones.confidence, zones.why)


def _raw(drive: Finding | None) -> Verdict:
    """The verdict on a disk that its profile says to be shingled, whatever was found of its timing."""
    headline, short = "This is a raw shingled disk: it writes in place.", "raw shingled, writes in place"
    why = "its profile says so" if drive is None or drive.value == UNKNOWN else drive.why
    return Verdict("smr", headline, _words(_RAW_LEAD), _points(_RAW_POINTS), short, 1.0, why)


def _felt(points: tuple[tuple[str, str], ...], measured: str) -> tuple[tuple[str, str], ...]:
    """Points of which the first says how this drive feels, where that was measured."""
    return ((points[0][0], measured), *points[1:]) if measured else points


def _without_type(findings: Mapping[str, Finding], declared: Params, why: str) -> Verdict:
    """The verdict where the drive type is unknown: first what was found, then what is declared."""
    headline = "What kind of drive this is could not be determined."
    rotation_ns = Known(findings.values()).number("rotation_ns")
    if rotation_ns is not None:
        headline = f"A rotating disk, {60e9 / rotation_ns:,.0f} rpm; whether it is shingled is not known."
    lead = sentence(why) or "The measurements do not carry a verdict."
    said = hints(declared) if rotation_ns is not None else ()
    points = (*_points(_UNKNOWN_POINTS), *((("Declared, not measured", " ".join(said)),) if said else ()))
    return Verdict("unknown", headline, lead, points, "not known", None, why)


def verdict(findings: Mapping[str, Finding], declared: Params | None = None, *, raw: bool = False) -> Verdict:
    """The verdict that the findings of one target carry. ``declared`` are its declared properties; ``raw``
    says that it is known to be shingled without a translation layer, which no timing shows."""
    seen = _verdict(findings, declared or {}, raw=raw)
    part = ByteRange.declared_by(declared or {})
    return seen if part is None else _of_a_part(seen, part)


def _of_a_part(seen: Verdict, part: ByteRange) -> Verdict:
    """The verdict on a range of a drive, which says nothing of the rest."""
    return replace(
        seen,
        headline=f"From {part.words}: {seen.headline[0].lower()}{seen.headline[1:]}",
        points=(
            *seen.points,
            ("What lies outside", f"Only {part.words} was read or written; the rest may be of another kind."),
        ),
        short=f"{seen.short}, from {part.words}",
    )


def _verdict(findings: Mapping[str, Finding], declared: Params, *, raw: bool) -> Verdict:
    """The verdict, as on a whole drive."""
    drive = findings.get("drive_type")
    zones = findings.get("zone_model")
    if drive is None and zones is not None and zones.value == HOST_MANAGED:
        return _host_managed(zones)
    if zones is not None and zones.value == HOST_AWARE and (drive is None or drive.value in ("cmr", UNKNOWN)):
        return _host_aware(zones)
    if raw and (drive is None or drive.value in ("cmr", UNKNOWN)):
        return _raw(drive)
    if drive is None:
        lead = "The tests that ran do not say what kind of drive this is."
        points = _points(_UNMEASURED_POINTS)
        return Verdict("unknown", "The drive type was not measured.", lead, points, "not measured", None, "")
    if drive.value == "smr":
        medium = findings.get("cache_medium")
        seen = _shingled(drive, str(medium.value) if medium else UNKNOWN, felt(Known(findings.values())))
        return _with_zones(seen) if zones is not None and zones.value == HOST_AWARE else seen
    sure, why = drive.confidence, drive.why
    if drive.value == "cmr":
        headline, lead, points = f"This is a {_CMR} disk.", _words(_CMR_LEAD), _points(_CMR_POINTS)
        return Verdict("cmr", headline, lead, points, _CMR, sure, why)
    if drive.value == "not-rotating":
        headline, lead, points = f"This is {_STILL}.", _words(_STILL_LEAD), _points(_STILL_POINTS)
        return Verdict("not-rotating", headline, lead, points, _STILL, sure, why)
    return _without_type(findings, declared, why)


def confidence_words(confidence: float | None) -> str:
    """How sure, in words; the number stands beside it."""
    if confidence is None:
        return "no verdict"
    steps = ((0.99, "very sure"), (0.95, "sure"), (0.8, "fairly sure"), (0.5, "leaning this way"))
    return next((words for least, words in steps if confidence >= least), "not sure")


def finding_title(name: str) -> str:
    """A finding's name as a heading: ``drive_type`` is ``Drive type``."""
    declared = PROPERTIES.get(name)
    if declared is not None:
        return declared.title
    plain = re.sub(r"_(ns|bytes)$", "", name).replace("_", " ")
    return plain[:1].upper() + plain[1:]


def value_words(name: str, value: object) -> str | None:
    """Words for a finding's value, or None when the value speaks for itself."""
    if value == UNKNOWN:
        return UNKNOWN
    declared = PROPERTIES.get(name)
    return None if declared is None else declared.words.get(str(value))
