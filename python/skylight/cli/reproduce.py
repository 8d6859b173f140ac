"""``skylight reproduce PAPER``: does an emulated drive behave as the paper measured?

Runs the rows of ``skylight.reproduce`` and prints them; exit code 1 if a row misses its band. This module
only connects it to the terminal.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.status import Status

from skylight.cli.console import headline, line, table
from skylight.cli.target_and_folder_checks import check_results_folder
from skylight.errors import KeepError, UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from skylight.reproduce.rows import OnRow, Row, RowSpec

    Run = Callable[[Sequence[RowSpec], Path, OnRow], tuple[list[Row], list[str]]]

MISSED = 1

_EPILOG = """\b
Examples:
  skylight reproduce fast15
  skylight reproduce fast15 --out reproduced        a page with the figures
  skylight reproduce fast15 --only S1a,S3b
  skylight reproduce fast15 --json | jq '.rows[] | select(.pass | not) | .id'
  skylight reproduce swd                            the raw shingled disk
  skylight reproduce hasmr                          the host-aware zoned drive
"""


def _paper(name: str) -> tuple[tuple[RowSpec, ...], Run]:
    """The rows of a paper, and the function that runs them."""
    from skylight.reproduce import fast15
    from skylight.reproduce.hasmr import table as hasmr
    from skylight.reproduce.swd import table as swd

    if name == "hasmr":
        return hasmr.ROWS, hasmr.run
    return (swd.ROWS, swd.run) if name == "swd" else (fast15.ROWS, fast15.run)


def _only(only: str | None, rows: tuple[RowSpec, ...]) -> tuple[RowSpec, ...]:
    """The rows in `--only`; all without the option."""
    from skylight.reproduce import fast15

    if only is None:
        return rows
    names = tuple(name.strip() for name in only.split(",") if name.strip())
    if not names:
        raise UsageError("--only names no row; name one, or omit --only to run them all")
    return fast15.chosen(names, rows)


def _check_out(out: Path) -> None:
    """Refuses a folder that cannot store the results, or that contains other files than an earlier run's."""
    from skylight.reproduce.page import JSON_NAME, PAGE_NAME

    check_results_folder(out)
    try:
        there = {file.name for file in out.iterdir()} if out.is_dir() else set()
    except OSError as error:
        raise UsageError(f"{out}: cannot be read: {error.strerror}; choose another --out DIR") from error
    if there - {PAGE_NAME, JSON_NAME}:
        raise UsageError(f"{out}: already there and not empty; choose another with --out DIR")


@contextmanager
def _progress(quiet: bool) -> Iterator[OnRow]:
    """Shows on standard error which row is measured: a status line on a terminal, whole lines elsewhere."""

    def words(spec: RowSpec, done: int, count: int) -> str:
        return one_line(f"{spec.id} ({done + 1} of {count}): {spec.title}")

    def say(spec: RowSpec, done: int, count: int) -> None:
        with suppress(OSError):  # a closed stream must not end a run
            print(f"progress: {words(spec, done, count)}", file=sys.stderr, flush=True)

    if quiet:
        yield lambda spec, done, count: None
    elif not sys.stderr.isatty():
        yield say
    else:
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        with Status("", console=console) as status:
            yield lambda spec, done, count: status.update(words(spec, done, count))


def _keep(rows: list[Row], notes: list[str], out: Path) -> Path:
    """Writes the page and the JSON."""
    from skylight.reproduce.page import keep

    return keep(rows, notes, out)


def _print_rows(rows: list[Row]) -> None:
    """Prints a line for each check, the notes, and the result as a sentence."""
    from skylight.reproduce.rows import headline as result

    table(
        ("Row", "Check", "Paper", "Ours", "Band", "Pass"),
        [
            (
                row.spec.id,
                check.band.name,
                check.band.paper,
                check.ours_text,
                check.band.text,
                row.words(check.passed).replace("miss", "MISS"),
            )
            for row in rows
            for check in row.checks
        ],
        right=(2, 3, 4),
    )
    for row in rows:
        for note in row.measured.notes:
            line(f"{row.spec.id}: {note}")
    line()
    headline(result(rows))


@click.command(epilog=_EPILOG, short_help="Repeat a paper's measurements on emulated drives.")
@click.argument("paper", type=click.Choice(["fast15", "swd", "hasmr"]), metavar="fast15|swd|hasmr")
@click.option("--only", metavar="ROW,..", help="Run only these rows, for example S1a,S3b.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a page with the figures, and reproduce.json, into this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON, and nothing else.")
def reproduce(paper: str, only: str | None, out: Path | None, as_json: bool) -> None:
    """Repeat a paper's measurements on the emulated drives, and compare.

    fast15 is Skylight (FAST '15); swd is the shingled write disk emulator (UCSC-SSRC-12-05), whose times are
    measured on a file in TMPDIR, compared with the conventional layer; hasmr is the evaluation of a
    host-aware drive (HotStorage '16), with recordings of that drive. Each row is printed with the paper's
    value, ours, and the band that ours must lie in; the exit code is 1 if one does not. Rows that need
    recordings of real drives are skipped where there are none."""
    from skylight.report.json import document_text
    from skylight.reproduce.rows import document

    whole, measure = _paper(paper)
    specs = _only(only, whole)
    if out is not None:
        _check_out(out)
    try:
        scratch = tempfile.TemporaryDirectory(prefix="skylight-reproduce-", ignore_cleanup_errors=True)
    except OSError as error:
        raise KeepError(
            f"no space for recordings: {error.strerror}; set TMPDIR to a folder with free space"
        ) from error
    with scratch as folder:
        with _progress(quiet=as_json) as on_row:
            rows, notes = measure(specs, Path(folder), on_row)
        written = None if out is None else _keep(rows, notes, out)
    if as_json:
        click.echo(document_text(document(rows)), nl=False)
    else:
        _print_rows(rows)
        for note in notes:
            line(note)
        if written is not None:
            line(f"Page: {written}")
    if any(row.missed for row in rows):
        raise click.exceptions.Exit(MISSED)
