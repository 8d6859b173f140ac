"""A shingled disk whose first addresses are written in place: conventional zones of a drive that hides them.

Test 1 knows such a disk by other parts of its addresses. The tests of a persistent cache write to the first
ones, where nothing is cached, so what they see there says nothing of the rest.

Source: docs/tests/drive-type.md, "What is done to the drive".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skylight.findings import UNKNOWN, Finding, Known

IN_PLACE, ELSEWHERE, ALL_OVER = "home", "writes-elsewhere", "writes-all-over"
"""The way in which test 1 finds a type where the first addresses are written in place; its steps of writes to
other parts of the addresses, and of those by which a mapper of zones is known."""


def are_in_place(known: Known) -> bool:
    """Whether a disk was found to be shingled by other parts of its addresses than the first ones, and these
    are written in place."""
    kind = known.get("drive_type")
    if kind is None or kind.value != "smr":
        return False
    return kind.way == IN_PLACE and ELSEWHERE in kind.rows and ALL_OVER not in kind.rows


def left_unknown(findings: Sequence[Finding], known: Known) -> list[Finding]:
    """What a test found by writes to the first addresses: unknown where these are written in place."""
    if not are_in_place(known):
        return list(findings)
    why = "The first addresses, where this test writes, are written in place; other parts are not."
    return [
        replace(each, value=UNKNOWN, interval=None, confidence=0.0, why=why) if each.known else each
        for each in findings
    ]
