"""``skylight zones TARGET report|reset|open|close|finish``: the zones of a drive, and what is done to them.

A target is a simulated drive, a served drive (by its image or control socket) or a real device. This verb
resolves it, prints a table, a chart and a picture of a report, and asks for actions; what zones are and how
they are drawn is in ``skylight.zoned``.

Invariants:
- A report changes nothing; a device is opened read-only for it.
- A device's zones are reset or finished only with ``--destroy-data``, and never while it is in use.
- An action names its zones: without ``--zone``, ``--from``, ``--to`` or ``--all`` it is refused.
"""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click
import numpy as np

from skylight.cli.completion import targets
from skylight.cli.console import headline, line, styled_line, table
from skylight.cli.drives import line_json
from skylight.cli.endpoint_note import is_served
from skylight.cli.status import control_socket
from skylight.errors import KeepError, TargetError, UsageError, serve_error
from skylight.units import format_capacity, format_count, format_counted, format_percent, format_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skylight.engines import Engine
    from skylight.zoned.zones import ZoneLayout, Zones

Action = Literal["open", "close", "finish", "reset"]
REPORT = "report"
ACTIONS: tuple[Action, ...] = ("reset", "open", "close", "finish")
LOSES = ("reset", "finish")
"""Actions that cannot be undone: data is lost, or what is not written yet cannot be written."""
FILTERS = (
    "conventional", "empty", "open", "implicitly-open", "explicitly-open", "closed", "full", "read-only",
    "offline", "non-sequential", "reset-recommended",
)  # fmt: skip
MOST_ROWS = 40
"""Rows of a table that people read; --every prints all."""
CHART_WIDTH = 100
"""Characters of a chart's row, its label included: what a page shows without folding."""
LABEL_WIDTH = 10

_MENDS = {
    "insufficient zone resources": "close, finish or reset another zone first",
    "invalid field in CDB": "name a zone that has a write pointer; a full one cannot be opened",
}
"""What to do about a failure."""

_EPILOG = """\b
TARGET is
  sim:NAME, sim:FILE.toml    a new simulated drive
  IMAGE or its socket        a drive that skylight serve has open
  /dev/...                   a host-managed or host-aware disk

\b
Examples:
  skylight zones sim:st8000as0022
  skylight zones smr.img report --filter open --filter non-sequential
  skylight zones /dev/sdX report --json
  skylight zones /dev/sdX --picture zones.svg
  skylight zones smr.img open --zone 70
  skylight zones smr.img finish --from 64 --to 127
  skylight zones /dev/sdX reset --all --destroy-data     all its data is lost
"""


@dataclass(frozen=True)
class _Target:
    """A drive with zones: how it is called, and how it is asked."""

    name: str
    layout: ZoneLayout
    report: Callable[[], Zones]
    act: Callable[[Action, Zones, int | None], None]
    """Performs an action on the zone of a row, or on all."""


@click.command(epilog=_EPILOG, short_help="Report, reset, open, close or finish the zones of a drive.")
@click.argument("target", shell_complete=targets)
@click.argument("action", type=click.Choice((REPORT, *ACTIONS)), default=REPORT)
@click.option("--zone", type=click.IntRange(0), metavar="N", help="This zone alone; the first is 0.")
@click.option("--from", "first", type=click.IntRange(0), metavar="N", help="From this zone on.")
@click.option("--to", "last", type=click.IntRange(0), metavar="N", help="Up to and with this zone.")
@click.option("--all", "everything", is_flag=True, help="All zones.")
@click.option(
    "--filter", "filters", type=click.Choice(FILTERS), multiple=True, metavar="WHICH",
    help=f"Report zones that are {', '.join(FILTERS[:-1])} or {FILTERS[-1]}; several add up.",
)  # fmt: skip
@click.option("--every", is_flag=True, help="A row for each zone, not for each run of equal zones.")
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE.svg", help="Draw the report, too.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--destroy-data", is_flag=True, help="Allow reset and finish on a device. Data may be lost.")
def zones(
    target: str, action: str, zone: int | None, first: int | None, last: int | None, everything: bool,
    filters: tuple[str, ...], every: bool, picture: Path | None, as_json: bool, destroy_data: bool,
) -> None:  # fmt: skip
    """Report the zones of a drive, or reset, open, close or finish them."""
    from skylight.zoned.zone_symbols import chosen

    if picture is not None and picture.suffix != ".svg":
        raise UsageError(f"--picture {picture}: draws SVG; name a file that ends in .svg")
    if action != REPORT and zone is None and first is None and last is None and not everything:
        raise UsageError(f"say which zones to {action}: --zone N, --from N --to N, or --all")
    with _opened(target, action, destroy_data) as drive:
        found = drive.report()
        rows = _rows(len(found), zone, first, last, everything)
        if action != REPORT:
            _act(drive, cast(Action, action), found, rows, everything)
            found = drive.report()
        shown = np.zeros(len(found), np.bool_)
        shown[rows.start : rows.stop] = True
        shown &= chosen(found, filters)
        if picture is not None:
            _draw(drive, found, picture)
        if as_json:
            line_json(_document(drive, found, np.flatnonzero(shown).tolist()))
            return
        _print(drive, found, shown, every, whole=len(rows) == len(found) and not filters)
        if picture is not None:
            line(f"Picture: {picture}")


def _rows(count: int, zone: int | None, first: int | None, last: int | None, everything: bool) -> range:
    """The zones that the options name."""
    given = [zone is not None, first is not None or last is not None, everything]
    if sum(given) > 1:
        raise UsageError("name zones once: --zone N, --from N --to N, or --all")
    begin = zone if zone is not None else first or 0
    end = zone if zone is not None else count - 1 if last is None else last
    if not begin <= end < count:
        raise UsageError(f"zones {begin} to {end} are not on this drive, which has 0 to {count - 1}")
    return range(begin, end + 1)


def _act(drive: _Target, action: Action, found: Zones, rows: range, everything: bool) -> None:
    """Performs the action on all zones in one go, or on one after the other."""
    if everything:
        drive.act(action, found, None)
        return
    for row in rows:
        try:
            drive.act(action, found, row)
        except TargetError as error:
            done = row - rows.start
            more = (
                f"; {format_counted(done, 'zone')} before it {'is' if done == 1 else 'are'} done"
                if done
                else ""
            )
            raise TargetError(f"{error}{more}") from error


@contextmanager
def _opened(target: str, action: str, destroy_data: bool) -> Iterator[_Target]:
    """Finds what the target is, and asks it for its layout."""
    served = _served(target)
    if served is not None:
        yield served
        return
    from skylight.engines import ZonedEngine, open_target, parse_target

    parsed = parse_target(target)
    is_device = parsed.kind == "device"
    if is_device and action in LOSES and not destroy_data:
        what = "their data is lost" if action == "reset" else "what is not written of them yet cannot be"
        raise UsageError(f"{target}: to {action} zones of a device, give --destroy-data: {what}")
    writes = is_device and action != REPORT
    with closing(open_target(target, destroy_data=writes)) as engine:
        layout = engine.zone_layout() if isinstance(engine, ZonedEngine) else None
        if layout is None or not isinstance(engine, ZonedEngine):
            raise UsageError(f"{target}: has no zones; name a host-managed or host-aware drive, whole")
        yield _Target(target, layout, engine.report_zones, _by_engine(target, engine))


def _served(target: str) -> _Target | None:
    """A served drive, by its image or a socket; None for any other target."""
    path = Path(target.removeprefix("unix:"))
    try:
        kind = path.stat().st_mode
    except OSError:
        return None
    if not stat.S_ISSOCK(kind) and not _is_served(path):
        if stat.S_ISREG(kind):
            raise UsageError(
                f"{target}: a file has no zones; if it is an image, serve it first (skylight serve)"
            )
        return None
    from skylight import _native
    from skylight.zoned.served import served_layout, served_zones, zone_action

    control, trusted = control_socket(target)

    def act(action: Action, found: Zones, row: int | None) -> None:
        try:
            zone_action(control, action, None if row is None else int(found.start_bytes[row]), trusted)
        except _native.ServeError as error:
            raise _failed(target, action, row, str(error).rpartition(": ")[2]) from error

    try:
        layout = served_layout(control, trusted)
    except _native.ServeError as error:
        raise serve_error(error) from error
    if layout is None:
        raise UsageError(f"{target}: the drive that is served there has no zones")
    return _Target(target, layout, lambda: served_zones(control, trusted), act)


def _is_served(image: Path) -> bool:
    """Whether the zones of an image or device are to be asked of its server.

    True where that cannot be known: `control_socket` says why, and nothing is done behind a server's back.
    """
    try:
        return is_served(image)
    except (OSError, ValueError, LookupError):
        return True


def _failed(target: str, action: Action, row: int | None, why: str) -> TargetError:
    """The line of an action that was refused, with the mend."""
    where = "all zones" if row is None else f"zone {row}"
    mend = _MENDS.get(why, f"see the zones with skylight zones {target}")
    return TargetError(f"{target}: {action} of {where} failed: {why}; {mend}")


def _by_engine(target: str, engine: Engine) -> Callable[[Action, Zones, int | None], None]:
    """Actions as commands of a batch."""
    from skylight.evidence import FAILURES, IoBatch, Op

    ops = {"open": Op.OPEN_ZONE, "close": Op.CLOSE_ZONE, "finish": Op.FINISH_ZONE, "reset": Op.RESET_ZONE}

    def act(action: Action, found: Zones, row: int | None) -> None:
        start, size = (0, 0) if row is None else (int(found.start_bytes[row]), int(found.size_bytes[row]))
        log = engine.run(IoBatch.make(ops[action], [start], size))
        if np.any(log.failed):
            raise _failed(target, action, row, FAILURES[int(log.result[0])])

    return act


def _document(drive: _Target, found: Zones, rows: list[int]) -> dict[str, object]:
    """The report as JSON."""
    from skylight.zoned.zone_symbols import condition_name, type_name

    layout = drive.layout
    return {
        "schema": 1,
        "target": drive.name,
        "layout": {
            "model": layout.model,
            "zone_bytes": layout.zone_bytes,
            "zones": layout.zones,
            "conventional_zones": layout.conventional_zones,
            "max_open": layout.max_open,
            "max_active": layout.max_active,
            "recommended_non_sequential": layout.recommended_non_sequential,
        },
        "zones": [
            {
                "zone": row,
                "start_bytes": int(found.start_bytes[row]),
                "size_bytes": int(found.size_bytes[row]),
                "capacity_bytes": int(found.capacity_bytes[row]),
                "write_pointer_bytes": _pointer(found, row),
                "type": type_name(int(found.kind[row])),
                "type_code": int(found.kind[row]),
                "condition": condition_name(int(found.condition[row])),
                "condition_code": int(found.condition[row]),
                "reset_recommended": bool(found.reset_recommended[row]),
                "non_sequential": bool(found.non_sequential[row]),
            }
            for row in rows
        ],
    }


def _pointer(found: Zones, row: int) -> int | None:
    """The write pointer of a zone; None where it has none."""
    from skylight.zoned.zones import NO_POINTER

    pointer = found.write_pointer_bytes[row]
    return None if pointer == NO_POINTER else int(pointer)


def _print(drive: _Target, found: Zones, shown: NDArray[np.bool_], every: bool, whole: bool) -> None:
    """The report for people: what the drive is, the chart of all zones, and a table of those asked for."""
    layout = drive.layout
    headline(
        f"{drive.name}: {format_counted(len(found), 'zone')} of {format_size(layout.zone_bytes)},"
        f" {layout.model}"
    )
    for words in _limits(layout, found):
        line(f"  {words}")
    line()
    _print_chart(found)
    line()
    _print_table(found, shown, every)
    if not whole and not np.any(shown):
        line("No zone is of that kind.")


def _limits(layout: ZoneLayout, found: Zones) -> Iterator[str]:
    """Open, active and non-sequential zones, and the limits on them."""
    from skylight.zoned.zone_symbols import ACTIVE, OPEN

    is_open, is_active = np.isin(found.condition, OPEN), np.isin(found.condition, ACTIVE)
    soft = layout.model == "host-aware"
    for what, count, limit in (
        ("open", is_open, layout.max_open),
        ("active (open or closed)", is_active, layout.max_active),
        ("non-sequential", found.non_sequential, layout.recommended_non_sequential),
    ):
        number = format_count(int(np.count_nonzero(count)))
        if limit is not None:
            recommended = " recommended" if soft else ""
            yield f"{what}: {number} of at most {format_count(limit)}{recommended}"
        elif what == "open":
            yield f"{what}: {number}; the drive reports no limit"


def _print_chart(found: Zones) -> None:
    """A character for a zone or a group of them, and the legend."""
    from skylight.zoned.text_chart import chart_of
    from skylight.zoned.zone_symbols import LOOKS

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else CHART_WIDTH
    chart = chart_of(found, max(min(width, CHART_WIDTH) - LABEL_WIDTH, 10))
    for first, looks in chart.rows:
        places = [(LOOKS[look].symbol, LOOKS[look].style) for look in looks]
        styled_line([(f"{format_count(first):>{LABEL_WIDTH - 2}}  ", "dim"), *places])
    line()
    line(f"{'':{LABEL_WIDTH}}{chart.words}")
    for look, words in chart.legend:
        styled_line([(" " * LABEL_WIDTH, ""), (LOOKS[look].symbol, LOOKS[look].style), (f"  {words}", "")])


def _print_table(found: Zones, shown: NDArray[np.bool_], every: bool) -> None:
    """A row for each run of equal zones among those asked for, or for each zone."""
    from skylight.zoned.zone_symbols import runs

    chosen_rows = np.flatnonzero(shown)
    if not len(chosen_rows):
        return
    part = found.rows(chosen_rows)
    spans = [(row, row + 1) for row in range(len(part))] if every else list(runs(part))
    most = len(spans) if every else MOST_ROWS
    table(
        ("Zones", "Begins at", "Capacity", "Written", "Share", "Condition"),
        [_row(part, chosen_rows, first, last) for first, last in spans[:most]],
        right=(0, 1, 2, 3, 4),
    )
    if len(spans) > most:
        left = int(chosen_rows[spans[most][0] :].size)
        line(f"{format_count(left)} more zones: --every prints all, --filter and --from choose")


def _row(part: Zones, numbers: NDArray[np.intp], first: int, last: int) -> tuple[str, ...]:
    """The cells of a run of equal zones."""
    from skylight.zoned.zone_symbols import LOOKS, fill_of, plain_looks, written_bytes
    from skylight.zoned.zones import NO_POINTER

    one = part.rows(np.array([first]))
    name = format_count(int(numbers[first]))
    if last - first > 1:
        name += f" to {format_count(int(numbers[last - 1]))}"
    has_pointer = one.write_pointer_bytes[0] != NO_POINTER
    marks = [
        word
        for word, marked in (
            ("non-sequential", one.non_sequential[0]),
            ("reset recommended", one.reset_recommended[0]),
        )
        if marked
    ]
    return (
        name,
        format_capacity(int(one.start_bytes[0])),
        format_size(int(one.capacity_bytes[0])),
        format_size(int(written_bytes(one)[0])) if has_pointer else "",
        format_percent(float(fill_of(one)[0])) if has_pointer else "",
        ", ".join([LOOKS[plain_looks(one)[0]].name, *marks]),
    )


def _draw(drive: _Target, found: Zones, path: Path) -> None:
    """Draws the report in the style of the figures."""
    from skylight.report.svg_figures import save_figure
    from skylight.zoned.picture import draw

    try:
        save_figure(lambda: draw(drive.layout, found, drive.name), path)
    except OSError as error:
        raise KeepError(
            f"{path}: the picture cannot be written: {error.strerror}; name another file"
        ) from error
