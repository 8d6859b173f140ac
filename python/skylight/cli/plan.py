"""The plan of a probe: what will be done to a target, printed before it is done.

Invariants: every test that will send a request has a line with its likely device time and its bounds; the
last line says what becomes of the data on the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from skylight.byte_range import ByteRange
from skylight.cli.console import line, paragraph, table
from skylight.engines.erase import Offer
from skylight.engines.preserve import MOST_BYTES
from skylight.evidence import TargetFacts
from skylight.probe import Cost, LiveTest
from skylight.probe.known_state import words
from skylight.probe.quiet_drive import MOST_WAIT_S
from skylight.probe.suite import SuiteOptions, cost_of, left_out, resets
from skylight.probe.zoned import MOST_FILLED_BY_TEST_BYTES, MOST_FILLING_S
from skylight.units import format_capacity, format_count, format_seconds, format_size

__all__ = ["print_plan", "print_ranges"]

_LEFT_OUT = "a host-managed drive refuses writes that are not at a write pointer"

_WAITS = (
    "a test that begins while the drive still cleans for earlier writes leaves it alone until reads are"
    f" quick, at most {format_seconds(MOST_WAIT_S)} each time, beside this"
)

_FILLED = (
    "a test may fill those that it reads or writes to, and reset all of them before, whatever --reset"
    f" says; at most {format_size(MOST_FILLED_BY_TEST_BYTES)} and {format_seconds(MOST_FILLING_S)} each test,"
    " beside this"
)


def print_plan(
    facts: TargetFacts,
    can_write: bool,
    tests: Sequence[LiveTest],
    options: SuiteOptions,
    model: str | None,
    offer: Offer | None = None,
    unkept: Sequence[LiveTest] = (),
) -> None:
    """Prints what will be done to a live target; ``model`` is its zone model, None where it has no zones,
    ``offer`` the command that erases it, if one was chosen, ``unkept`` tests that --preserve leaves out."""
    costs = {test: cost_of(test, facts, writes=can_write, quick=options.quick) for test in tests}
    planned = {test: cost for test, cost in costs.items() if cost.ios}
    idle = [test.title for test in tests if test not in planned]
    part = ByteRange.declared_by(facts.declared)
    size = format_capacity(facts.size_bytes)
    where = size if part is None else f"{part.words} of {format_capacity(part.whole)}"
    line(f"{facts.name}: {where}, seed {options.seed}")
    whole = Cost(*(sum(getattr(cost, part.name) for cost in planned.values()) for part in fields(Cost)))
    rows = [_row(test.title, cost) for test, cost in planned.items()]
    if len(planned) > 1:
        rows.append(_row("in total", whole))
    if planned:
        header = ("Plan", "Requests at most", "Likely if shingled", "if not", "At most", "Written at most")
        table(header, rows, right=(1, 2, 3, 4, 5))
    if idle:
        reason = "the target is too small for them" if can_write else "they need --destroy-data"
        paragraph(f"skipped, since {reason}: {', '.join(idle)}", indent=2)
    if left_out(model):
        titles = ", ".join(test.title for test in left_out(model))
        paragraph(f"left out, since {_LEFT_OUT}: {titles}", indent=2)
    if unkept:
        titles = ", ".join(test.title for test in unkept)
        paragraph(f"left out, since they write more than {format_size(MOST_BYTES)}: {titles}", indent=2)
    if can_write:
        zoned = model is not None
        kept = part is not None or _keeps(facts)
        how = words(options.reset, virtual=facts.kind == "sim", zoned=zoned, offer=offer, kept=kept)
        if resets(tests, quick=options.quick):
            paragraph(f"reset: {how}", indent=2)
        if zoned:
            paragraph(f"zones: {_FILLED}", indent=2)
    if planned and model is None and not options.quick:
        paragraph(f"waits: {_WAITS}", indent=2)
    beside = ", zones beside this" if model is not None else ""
    paragraph(f"risk: {_risk(facts, can_write, whole.bytes_written, beside)}", indent=2)


def print_ranges(
    facts: TargetFacts, can_write: bool, tests: Sequence[LiveTest], options: SuiteOptions
) -> None:
    """Prints, for each test of the plan, the bytes that it may read and write. A test chooses addresses by
    what it measures, so this is the bound that the engine keeps, not a forecast."""
    part = ByteRange.declared_by(facts.declared)
    start = 0 if part is None else part.start
    where = f"{start:,} to {start + facts.size_bytes - 1:,}"
    rows = []
    for test in tests:
        cost = cost_of(test, facts, writes=can_write, quick=options.quick)
        if cost.ios:
            rows.append((test.title, where, where if cost.bytes_written else "none"))
    if can_write and options.reset != "none" and resets(tests, quick=options.quick):
        rows.append(("Reset", where, where))
    table(("Bytes", "Read, at most", "Written, at most"), rows)
    paragraph(
        "a test goes anywhere within its bytes: the seed draws its places, and what it finds decides where it"
        " looks next; nothing outside is read or written",
        indent=2,
    )
    paragraph("dry run: no test ran, and no results were made", indent=2)


def _keeps(facts: TargetFacts) -> bool:
    """Whether what is overwritten is put back."""
    return facts.declared.get("preserved") is True


def _row(title: str, cost: Cost) -> tuple[str, ...]:
    """A test's line: requests at most; device time, likely and at most; the bound of what is written."""

    def likely(seconds: float) -> str:
        return format_seconds(seconds) if seconds else "nothing"

    return (
        title,
        format_count(cost.ios),
        likely(cost.likely_seconds),
        likely(cost.unshingled_seconds),
        format_seconds(cost.device_seconds),
        format_size(cost.bytes_written) if cost.bytes_written else "reads only",
    )


def _risk(facts: TargetFacts, can_write: bool, bytes_written: int, beside: str) -> str:
    """What becomes of the data on the target; `beside` says what else is written."""
    if facts.kind == "sim":
        return "none; the drive is emulated"
    if facts.declared.get("scratch") is True:
        return f"none to your files; up to {format_size(bytes_written)} are written to the scratch file"
    if not can_write:
        return "none; nothing is written, so findings may be unknown (--destroy-data allows writes)"
    most = format_size(bytes_written)
    if _keeps(facts):
        return f"up to {most} are overwritten, kept in the results meanwhile, and put back (--preserve)"
    part = ByteRange.declared_by(facts.declared)
    where = facts.name if part is None else f"{part.words} of {facts.name}, and nowhere else"
    return f"DATA IS LOST: up to {most} are written all over {where}{beside} (--destroy-data)"
