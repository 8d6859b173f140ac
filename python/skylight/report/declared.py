"""Declared against measured: what a drive says of itself, or a profile of its emulated drive, beside what was
found.

What for: the table of that name in the report. A drive-managed shingled disk declares that it is not zoned; a
converter may declare a disk where there is none; an emulated drive has a profile, which is its truth.

Invariants:
- The profile of an emulated drive is read here, for the page and after inference is over; findings are those
  of the recording, whatever the profile says. Only the very profile that was measured counts: its digest is
  in the recording.
- Nothing agrees that was not measured. *Differs* is said only where both sides say something.

Source: docs/report.md, "What stands where"; `skylight.probe.scoring` for when a finding is right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skylight.byte_range import ByteRange
from skylight.engines.declared import zones_of
from skylight.engines.product_models import listed
from skylight.engines.sim import read_profile
from skylight.errors import UsageError
from skylight.evidence import Evidence, JsonScalar, Op, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe.drive_type.findings import DRIVE_TYPE
from skylight.probe.scoring import score
from skylight.probe.suite import IN_THE_RANGE, SuiteResult
from skylight.report.values import DASH, finding_row
from skylight.truth import true_findings
from skylight.units import format_capacity, format_count, format_size

__all__ = ["AGREES", "DIFFERS", "NOT_MEASURED", "Claim", "Claims", "claims_of", "is_raw_shingled"]

AGREES, DIFFERS, NOT_MEASURED = "agrees", "differs", "not measured"
_OUTCOMES = {"right": AGREES, "wrong": DIFFERS, "unknown": NOT_MEASURED}

SAME_RPM = 0.02
"""Disks are sold by classes of speed: one sold as 5,900 rpm rotates at 5,977 rpm (docs/calibration.md)."""

SAME_END = 0.01
"""The last requests of a test lie this near to the end of the drive, as a share of it."""

EFFECT = 1.5
"""A write cache whose switch changes the pace by less has no effect to speak of."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of the table: what is declared, what was measured, and whether they agree."""

    title: str
    declared: str
    measured: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Claims:
    """The table: who declares, the lines, and why there is none, if so."""

    lead: str
    rows: tuple[Claim, ...]

    @property
    def counted(self) -> str:
        """How many lines agree, differ and were not measured, in words."""
        verdicts = [row.verdict for row in self.rows]
        parts = [
            f"{format_count(verdicts.count(name))} {words}"
            for name, words in ((AGREES, "agree"), (DIFFERS, "differ"), (NOT_MEASURED, "not measured"))
            if name in verdicts
        ]
        return ", ".join(parts)

    @property
    def contradiction(self) -> str:
        """What is declared and measured otherwise, for the head of a report; empty where nothing is."""
        return "; ".join(
            f"{row.title}: declared {row.declared}, measured {row.measured}"
            for row in self.rows
            if row.verdict == DIFFERS
        )


def claims_of(result: SuiteResult) -> Claims:
    """The table of a target; without lines where it declares nothing."""
    if result.target.kind == "fio-log":
        return Claims("", ())
    if result.target.kind == "sim":
        return _of_profile(result)
    lead = "What the target says of itself through the kernel, beside what was measured."
    return Claims(lead, tuple(_of_device(result)))


# --- a device or a file


def _of_device(result: SuiteResult) -> list[Claim]:
    """What a device or the disk below a file declares."""
    declared, known = result.target.declared, Known(result.findings)
    rows = [_capacity(result)]
    for name, title in (("model", "Model"), ("firmware", "Firmware")):
        if declared.get(name):
            rows.append(Claim(title, str(declared[name]), DASH, NOT_MEASURED))
    rows += _listed(str(declared.get("model") or ""), known)
    rotational = declared.get("rotational")
    if isinstance(rotational, bool):
        rows.append(_rotational(rotational, known))
    rate = declared.get("rotation_rpm")
    if isinstance(rate, int | float) and not isinstance(rate, bool):
        rows.append(_rate(float(rate), known))
    zoned = zones_of(declared)
    if zoned is not None:
        rows.append(_zoned(zoned, known))
    cache = _setting(declared.get("write_cache"))
    if cache is not None:
        rows.append(_write_cache(cache, known))
    return rows


def _highest(evidence: Sequence[Evidence]) -> int:
    """The end of the highest request that was answered, in bytes."""
    ends = [0]
    for kept in evidence:
        for step in kept.steps:
            moved = step.rows.op <= int(Op.WRITE)
            if moved.any():
                ends.append(int((step.rows.offset[moved] + step.rows.size[moved]).max()))
    return max(ends)


def _capacity(result: SuiteResult) -> Claim:
    """The capacity, of which the highest request that was answered is what is seen."""
    size, highest = result.target.size_bytes, _highest(result.evidence)
    part = ByteRange.declared_by(result.target.declared)
    if part is not None:
        size, highest = part.whole, highest and part.start + highest
    near = size - highest <= SAME_END * size
    return Claim(
        "Capacity",
        f"{format_capacity(size)} ({format_count(size)} B)",
        f"requests are answered up to {format_size(highest)} of {format_size(size)}" if highest else DASH,
        AGREES if highest and near else NOT_MEASURED,
    )


def _turns(known: Known) -> bool | None:
    """Whether something rotates, as far as it was found."""
    kind = known.word("drive_type")
    if kind == "not-rotating":
        return False
    return True if kind in ("cmr", "smr") or known.number("rotation_ns") is not None else None


def _listed(model: str, known: Known) -> list[Claim]:
    """What a public list says of the model."""
    found = listed(model)
    if found is None:
        return []
    words = DRIVE_TYPE.words
    kind = known.word("drive_type")
    if kind is None or kind not in words:
        return [Claim("Recording", f"{words[found.recording]}, by {found.source}", DASH, NOT_MEASURED)]
    verdict = AGREES if kind == found.recording else DIFFERS
    return [Claim("Recording", f"{words[found.recording]}, by {found.source}", words[kind], verdict)]


def _rotational(rotational: bool, known: Known) -> Claim:
    turns = _turns(known)
    words = {True: "a rotating disk", False: "not a rotating disk", None: DASH}
    verdict = NOT_MEASURED if turns is None else AGREES if turns is rotational else DIFFERS
    return Claim("Rotating disk", "yes" if rotational else "no", words[turns], verdict)


def _rate(rpm: float, known: Known) -> Claim:
    """The rotation rate, rpm."""
    rotation_ns = known.number("rotation_ns")
    declared = f"{rpm:,.0f} a minute"
    if rotation_ns is None:
        return Claim("Rotation rate", declared, DASH, NOT_MEASURED)
    found = 60e9 / rotation_ns
    off = found / rpm - 1
    by = f" ({abs(100 * off):.2g} % {'more' if off > 0 else 'fewer'})" if abs(off) >= 1e-3 else ""
    verdict = AGREES if abs(off) <= SAME_RPM else DIFFERS
    return Claim("Rotation rate", declared, f"{found:,.0f} a minute{by}", verdict)


def _zoned(zoned: str, known: Known) -> Claim:
    """What the kernel knows of zones: none for a drive-managed disk, which hides them."""
    kind = known.word("drive_type")
    said = "no zones" if zoned == "none" else zoned
    if kind == "smr":
        measured = DRIVE_TYPE.words[kind] + (
            ": the drive manages it and does not say so" if zoned == "none" else ""
        )
        return Claim("Shingled zones", said, measured, DIFFERS if zoned == "none" else AGREES)
    if kind in ("cmr", "not-rotating"):
        return Claim("Shingled zones", said, DRIVE_TYPE.words[kind], AGREES if zoned == "none" else DIFFERS)
    return Claim("Shingled zones", said, DASH, NOT_MEASURED)


def _setting(value: JsonScalar) -> str | None:
    """The state of the write cache when the probe began; the kernel's words are "write back" and
    "write through"."""
    words = {"write back": "on", "write through": "off", True: "on", False: "off", "on": "on", "off": "off"}
    return words.get(value) if isinstance(value, str | bool) else None


def _write_cache(setting: str, known: Known) -> Claim:
    """The volatile write cache, seen by what its switch changes."""
    declared = f"there, and {setting} when the probe began"
    off, on = (known.part("random_write_rate", way) for way in ("one_at_a_time", "write_cache_on"))
    if not off or not on:
        return Claim("Volatile write cache", declared, DASH, NOT_MEASURED)
    measured = f"on: {on:,.0f} random writes a second, off: {off:,.0f}"
    return Claim("Volatile write cache", declared, measured, AGREES if on / off > EFFECT else NOT_MEASURED)


# --- an emulated drive


def is_raw_shingled(target: TargetFacts) -> bool:
    """Whether a target is the emulated disk without a translation layer, as its profile says: timing does not
    tell it from a conventional one."""
    if target.kind != "sim":
        return False
    try:
        text, origin = read_profile(target.name)
    except UsageError:
        return False
    same = hashlib.sha256(text.encode()).hexdigest() == target.declared.get("profile_sha256")
    return same and _layer_kind(text, origin) == "swd"


def _layer_kind(text: str, origin: str) -> str:
    from skylight import _native

    try:
        return str(json.loads(_native.profile_check(text, origin))["layer"]["kind"])
    except _native.ProfileError:
        return ""


def _of_profile(result: SuiteResult) -> Claims:
    """What the profile of an emulated drive declares, and what is true of the drive that it makes."""
    name = result.target.name.removeprefix("sim:")
    try:
        text, origin = read_profile(name)
    except UsageError as error:
        return Claims(f"The profile of this emulated drive is not at hand: {error}", (_capacity(result),))
    if hashlib.sha256(text.encode()).hexdigest() != result.target.declared.get("profile_sha256"):
        lead = f"{origin} is no longer the profile that was measured, so nothing is compared with it."
        return Claims(lead, (_capacity(result),))
    lead = (
        "What the profile of this emulated drive declares, beside what was found without looking at it. They"
        " agree where the finding is as near as docs/random-drives.md asks."
    )
    from skylight import _native

    try:
        return Claims(lead, (_capacity(result), *_of_text(text, origin, result.findings)))
    except _native.ProfileError as error:
        return Claims(f"The profile makes no drive any more: {error}", (_capacity(result),))


def _of_text(text: str, origin: str, findings: Sequence[Finding]) -> list[Claim]:
    """The lines of a profile: its settings, then each property of its truth."""
    from skylight import _native

    whole = json.loads(_native.profile_check(text, origin))
    known = Known(findings)
    interface, rows = whole["interface"], [Claim("Model", str(whole["summary"]), DASH, NOT_MEASURED)]
    if whole["layer"]["kind"] != "ssd":
        rows.append(_rate(float(whole["mechanics"]["rpm"]), known))
    if interface["write_cache"]:
        rows.append(_write_cache("on" if interface["write_cache_on"] else "off", known))
    truth = true_findings(text, origin)
    by_name = {finding.name: finding for finding in findings}
    for mark in score(findings, truth):
        found = by_name.get(mark.name)
        row = truth.get(mark.name)
        shown = None if found is None or not found.known else finding_row(found).value
        rows.append(
            Claim(
                _title(mark.name),
                "nothing of the kind" if row is None else _true(mark.name, row, found),
                DASH if shown is None else shown,
                NOT_MEASURED if found is None or not _is_comparable(found) else _OUTCOMES[mark.outcome],
            )
        )
    return rows


def _is_comparable(found: Finding) -> bool:
    """Whether a finding is of the places that its truth is of: those in a range are others."""
    in_a_range = isinstance(found.value, dict) and not found.value.keys().isdisjoint(IN_THE_RANGE.values())
    return found.known and not in_a_range


def _title(name: str) -> str:
    return finding_row(Finding(name, UNKNOWN, None, None, 0.0, "")).title


def _true(name: str, row: Mapping[str, Any], found: Finding | None) -> str:
    """A property of the truth as text, with the digits of what was found."""
    value = finding_row(Finding(name, row["value"], row["unit"], None, 1.0, row["why"]), found).value
    return value if row["measurable"] else f"{value} (out of reach: {row['why']})"
