"""What the verbs print: lines, tables and the progress bar.

Invariants:
- Text from outside (paths, model strings, profile names) is shown with its control characters escaped: it
  can neither break a line nor drive the terminal, and it is never read as markup.
- The progress bar appears on standard error, only on a terminal, and only once a run has taken two seconds.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import click
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from skylight.errors import one_line
from skylight.probe.session import ProgressReport
from skylight.units import format_seconds

__all__ = ["DeviceProgress", "headline", "line", "table"]

_PATIENCE_S = 2.0
_PLAIN_WIDTH = 100
_WIDEST = 120


def _print(renderable: RenderableType) -> None:
    """Something laid out, on standard output; no blanks are left at the ends of lines."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PLAIN_WIDTH
    console = Console(file=sys.stdout, width=min(width, _WIDEST), highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(renderable)
    click.echo("\n".join(text.rstrip() for text in capture.get().splitlines()).strip("\n"))


def line(text: str = "") -> None:
    """One line on standard output."""
    click.echo(one_line(text) if text else "")


def headline(text: str) -> None:
    """The sentence that answers the question, in bold where there is a terminal."""
    _print(Text(one_line(text), style="bold"))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> None:
    """A small table without a frame; the columns named in ``right`` are set to the right."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, name in enumerate(header):
        last = number == len(header) - 1
        grid.add_column(
            Text(name),
            justify="right" if number in right else "left",
            overflow="fold",
            ratio=1 if last else None,
        )
    for row in rows:
        grid.add_row(*(Text(one_line(cell)) for cell in row))
    _print(Padding(grid, (0, 0, 0, 1)))


class _DeviceTimeLeft(ProgressColumn):
    """Device time left, as far as it is known."""

    def render(self, task: Task) -> Text:
        """The column's text."""
        if task.total is None:
            return Text("")
        return Text(f"{format_seconds((task.total - task.completed) / 1e9)} of device time left")


class DeviceProgress:
    """A progress bar in device time; used as a context manager around a run."""

    def __init__(self, quiet: bool = False) -> None:
        """``quiet`` keeps it from ever appearing."""
        self._bar: Progress | None = None
        self._lock = threading.Lock()
        self._over = False
        if not quiet and sys.stderr.isatty():
            console = Console(stderr=True, highlight=False, markup=False, emoji=False)
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=None),
                _DeviceTimeLeft(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=None)
            self._timer = threading.Timer(_PATIENCE_S, self._appear)
            self._timer.daemon = True

    def _appear(self) -> None:
        with self._lock:
            if self._bar is not None and not self._over:
                self._bar.start()

    def advance(self, report: ProgressReport) -> None:
        """Takes a session's report."""
        if self._bar is not None:
            self._bar.update(
                self._task,
                description=one_line(f"{report.test}: {report.step}"),
                completed=report.device_ns,
                total=report.device_ns + report.device_left_ns,
            )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._timer.cancel()
            with self._lock:
                self._over = True
                self._bar.stop()
