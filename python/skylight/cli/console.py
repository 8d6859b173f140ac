"""The output of the verbs: lines, tables and progress.

Invariants: - Text from outside (paths, model strings, profile names) is shown with its control characters
escaped: it can neither break a line nor control the terminal, and it is never parsed as markup. - Progress
goes to standard error. On a terminal it is one line that fits the width, shown once a run has taken two
seconds. Elsewhere it is a line at the start of each test, then at most one per tenth and per ten seconds, and
one after thirty seconds of silence. - The output of a server (`Speaker`) never blocks: if a terminal is
stopped or a pipe is full or closed, lines are lost, but the server neither ends nor hangs at its end.
"""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click
from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.progress import Progress, ProgressColumn, Task
from rich.table import Table
from rich.text import Text

from skylight.errors import one_line
from skylight.units import format_percent, format_seconds, join_units

if TYPE_CHECKING:
    from skylight.findings import Finding
    from skylight.probe import Test
    from skylight.probe.progress import ProgressReport

# Texts of a server that standard output does not take yet: chosen, some screens.
MOST_WAITING = 256

__all__ = [
    "ByteProgress",
    "DeviceProgress",
    "ProgressLines",
    "Speaker",
    "headline",
    "line",
    "output_width",
    "pairs",
    "paragraph",
    "progress_bar",
    "styled_line",
    "table",
]

_PATIENCE_S = 2.0
_SILENCE_S = 30.0
_LINES_APART_S = 10.0
_LINE_EVERY_S = 0.2
_BAR_WIDTH = 20
_LEAST_NAME = 20
_PLAIN_WIDTH = 100
_WIDEST = 120
_GAPS_FROM = 72  # columns of a terminal with room for two blanks between those of a table


# Stands for the space between a number and its unit while lines are broken: rich breaks at every other space,
# and text from outside holds none, because `one_line` escapes it.
_JOINT = "\ue000"


def output_width() -> int:
    """Columns of the terminal; without one, those of $COLUMNS, or else of a page."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size((_PLAIN_WIDTH, 0)).columns
    return _PLAIN_WIDTH


def _joined(text: str, style: str = "") -> Text:
    """Text from anywhere, in which no line ends between a number and its unit."""
    return Text(join_units(one_line(text), _JOINT), style)


def _print(renderable: RenderableType, widest: int = _WIDEST) -> None:
    """Prints a renderable on standard output, without trailing blanks."""
    width = min(output_width(), widest)
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(renderable)
    lines = capture.get().replace(_JOINT, " ").splitlines()
    click.echo("\n".join(text.rstrip() for text in lines).strip("\n"))


def line(text: str = "") -> None:
    """Prints one line on standard output."""
    click.echo(one_line(text) if text else "")


def styled_line(parts: Iterable[tuple[str, str]]) -> None:
    """Prints one line of texts, each in its style of rich; plain where there is no terminal."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
    with console.capture() as capture:
        console.print(Text.assemble(*((one_line(text), style) for text, style in parts)))
    click.echo(capture.get().rstrip("\n"))


def headline(text: str) -> None:
    """Prints the answer as a sentence, in bold on a terminal."""
    _print(_joined(text, "bold"))


def pairs(rows: Iterable[tuple[str, str]], indent: int = 2) -> None:
    """Prints titles with words beside them; what does not fit the width goes on below the words."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for title, words in rows:
        grid.add_row(_joined(title), _joined(words))
    _print(Padding(grid, (0, 0, 0, indent)))


def paragraph(text: str, indent: int = 0) -> None:
    """Prints text as lines that fit the width."""
    _print(Padding(_joined(text), (0, 0, 0, indent)))


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[int] = (),
    *,
    widest: int = _WIDEST,
    most: int | None = None,
) -> None:
    """Prints a table without a frame, ``widest`` characters at most, and ``most`` in a column that is not the
    last; the columns named in ``right`` are right-aligned."""
    cells = [[Text(name) for name in header], *([_joined(cell) for cell in row] for row in rows)]
    width = min(output_width(), widest)
    gap = 2 if width >= _GAPS_FROM else 1
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim", padding=(0, gap, 0, 0))
    around = 2 + (gap + 1) * len(header) - 1  # the indent, a gap behind each column, a blank between them
    columns = [[text.plain for text in column] for column in zip(*cells, strict=True)]
    for number, each in enumerate(_widths(columns, width - around, most)):
        justify: JustifyMethod = "right" if number in right else "left"
        grid.add_column(cells[0][number], justify=justify, overflow="fold", width=each)
    for row in cells[1:]:
        grid.add_row(*row)
    _print(Padding(grid, (0, 0, 0, 2)), widest)


def _widths(columns: Sequence[Sequence[str]], room: int, most: int | None) -> list[int]:
    """Characters of each column: as wide as its cells where there is room for all, else what is widest gives
    way, but no column that is wider than its longest word as long as another one is."""
    widths = [max(map(len, column)) for column in columns]
    if most is not None:
        widths[:-1] = [min(width, most) for width in widths[:-1]]
    words = [max((len(word) for cell in column for word in cell.split()), default=1) for column in columns]
    for least in (words, [1] * len(columns)):
        while sum(widths) > room:
            slack = [width if width > floor else 0 for width, floor in zip(widths, least, strict=True)]
            if not any(slack):
                break
            widths[slack.index(max(slack))] -= 1
    return widths


class Speaker:
    """Output of a long-running verb, written by a daemon thread."""

    def __init__(self) -> None:
        """Queues up to MOST_WAITING texts; drops further ones."""
        self._waiting: queue.Queue[tuple[int, bytes]] = queue.Queue(MOST_WAITING)
        self._idle = threading.Event()
        self._idle.set()
        self._lock = threading.Lock()
        threading.Thread(target=self._write_all, name="speaker", daemon=True).start()

    def line(self, text: str) -> None:
        """Queues one line for standard output."""
        self._say(1, f"{one_line(text)}\n")

    def warning(self, text: str) -> None:
        """Queues one line for standard error."""
        self._say(2, f"{one_line(text)}\n")

    def status(self, text: str) -> None:
        """Replaces the status line of the terminal, on standard error."""
        self._say(2, f"\r\x1b[K{one_line(text)}")

    def drain(self, most_s: float) -> None:
        """Waits until everything is written, at most `most_s` seconds."""
        self._idle.wait(most_s)

    def _say(self, descriptor: int, text: str) -> None:
        with suppress(queue.Full), self._lock:
            self._waiting.put_nowait((descriptor, text.encode("utf-8", "backslashreplace")))
            self._idle.clear()

    def _write_all(self) -> None:
        while True:
            descriptor, text = self._waiting.get()
            # A closed stream must not end a server.
            with suppress(OSError):
                while text:
                    text = text[os.write(descriptor, text) :]
            with self._lock:
                if self._waiting.empty():
                    self._idle.set()


class _OneLine(ProgressColumn):
    """The progress line: test and step, share done, and the estimated device time left.

    It fits the width of the terminal, so nothing wraps: first the step's name is cut, then the bar is
    dropped."""

    def __init__(self, console: Console) -> None:
        """Takes the width from the console."""
        super().__init__()
        self._console = console

    def render(self, task: Task) -> Text:
        """The column's text."""
        width = self._console.width - 1  # terminals may wrap after their last column
        end, bar = "", ""
        if task.total is not None:
            most = "at most " if task.fields.get("at_most") else ""
            end = f"  {most}{format_seconds((task.total - task.completed) / 1e9)} device time left"
            full, empty = ("#", ".") if self._console.options.ascii_only else ("━", "╌")
            done = int(_BAR_WIDTH * task.percentage / 100)
            bar = f"  {full * done}{empty * (_BAR_WIDTH - done)}"
        if width - len(bar) - len(end) < _LEAST_NAME:
            bar = ""
        name = Text(task.description)
        name.truncate(max(width - len(bar) - len(end), 1), overflow="ellipsis")
        line = Text.assemble(name, (bar, "cyan"), end)
        line.truncate(max(width, 1), overflow="crop")
        return line


def progress_bar(console: Console) -> Progress:
    """The progress line."""
    return Progress(_OneLine(console), console=console, transient=True)


class ProgressLines:
    """Progress without a terminal: a few whole lines."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` returns the time, s."""
        self._now = now
        self._shown_at = now()
        self._test = ""
        self._tenths = 0
        self._last: ProgressReport | None = None

    def advance(self, report: ProgressReport) -> None:
        """Prints the share done, if enough has changed."""
        tenths = int(10 * report.share)
        begins = report.test != self._test
        self._last = report
        if begins or (tenths > self._tenths and self._now() - self._shown_at >= _LINES_APART_S):
            self._test, self._tenths = report.test, tenths
            self._show(report)

    def alive(self) -> None:
        """Repeats the last report after a long silence."""
        if self._last is not None and self._now() - self._shown_at >= _SILENCE_S:
            self._show(self._last)

    def _show(self, report: ProgressReport) -> None:
        self._shown_at = self._now()
        left = f"{'at most ' * report.at_most}{format_seconds(report.device_left_ns / 1e9)}"
        where = f"{report.place}{report.test}: {report.step}"
        text = f"progress: {where}, {format_percent(report.share)}, {left} of device time left"
        with suppress(OSError):  # a closed stream must not end a run
            print(one_line(text), file=sys.stderr, flush=True)


class DeviceProgress:
    """Progress in device time; used as a context manager around a run."""

    def __init__(self) -> None:
        """On a terminal a bar, elsewhere lines."""
        self._bar: Progress | None = None
        self._lines: ProgressLines | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        if not sys.stderr.isatty():
            self._lines = ProgressLines()
        else:
            self._bar = progress_bar(Console(stderr=True, highlight=False, markup=False, emoji=False))
            self._task = self._bar.add_task("", total=None)

    def _watch(self) -> None:
        """Runs in a thread: shows the bar after a delay, or prints a sign of life during a silent run."""
        pause_s = _PATIENCE_S if self._bar is not None else _SILENCE_S / 10
        while not self._over.wait(pause_s):
            with self._lock:
                if self._over.is_set():
                    return
                if self._bar is not None:
                    self._bar.start()
                    return
                if self._lines is not None:
                    self._lines.alive()

    def advance(self, report: ProgressReport) -> None:
        """Shows a session's report."""
        if self._bar is not None:
            self._bar.update(
                self._task,
                description=one_line(f"{report.place}{report.test}: {report.step}"),
                completed=report.device_ns,
                total=report.device_ns + report.device_left_ns,
                at_most=report.at_most,
            )
        elif self._lines is not None:
            with self._lock:
                self._lines.advance(report)

    def found(self, test: Test, findings: Sequence[Finding]) -> None:
        """Shows what a test found, in one line above the bar, when it has ended."""
        from skylight.report.values import finding_rows

        rows = [row for row in finding_rows(findings) if row.known]
        unknown = len(findings) - len(rows)
        words = [f"{row.title} {row.value}" for row in rows] + [f"{unknown} unknown"] * (unknown > 0)
        text = one_line(f"{test.title}: {'; '.join(words) or 'nothing to find on such a drive'}")
        with self._lock, suppress(OSError):  # a closed stream must not end a run
            if self._bar is not None:
                self._bar.console.print(Text(text))
            else:
                print(f"progress: {text}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        if self._bar is not None or self._lines is not None:
            threading.Thread(target=self._watch, name="progress", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over.set()
            if self._bar is not None:
                self._bar.stop()


class ByteProgress:
    """Progress in bytes with the time left; used as a context manager around the work.

    On a terminal it is one line, shown after two seconds; elsewhere one line per tenth, at least two seconds
    apart."""

    def __init__(self, text: str, now: Callable[[], float] = time.monotonic) -> None:
        """``text`` describes the work; ``now`` returns the time, s."""
        self._text, self._now = one_line(text), now
        self._began = self._shown_at = now()
        self._tenths = 0
        self._terminal = sys.stderr.isatty()

    def advance(self, done: int, total: int) -> None:
        """Shows the progress if enough time has passed since the last output."""
        now = self._now()
        passed, tenths = now - self._began, 10 * done // max(total, 1)
        pause = _LINE_EVERY_S if self._terminal else _PATIENCE_S
        is_news = self._terminal or tenths > self._tenths
        if passed < _PATIENCE_S or now - self._shown_at < pause or not is_news:
            return
        self._shown_at, self._tenths = now, tenths
        share = done / max(total, 1)
        left = f", {format_seconds(passed / share * (1 - share))} left" if share > 0 else ""
        self._show(f"{self._text}, {format_percent(share)}{left}", share)

    def _show(self, text: str, share: float) -> None:
        with suppress(OSError):  # a closed stream must not end the work
            if self._terminal:
                done = int(_BAR_WIDTH * share)
                bar = f"{'#' * done}{'.' * (_BAR_WIDTH - done)}"
                width = shutil.get_terminal_size().columns - 1
                print(f"\r\x1b[K{f'{bar} {text}'[:width]}", end="", file=sys.stderr, flush=True)
            else:
                print(f"progress: {text}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal and self._shown_at != self._began:
            with suppress(OSError):
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
