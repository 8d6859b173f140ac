"""A disk is watched while it is probed: before and after each test its temperature and error counters are
recorded, and a disk that is too warm, or counts new errors, is not asked for more.

During a test it is not asked, because the question is a command too: it would end the idle time that a test
measures.

Source: docs/devices.md, "Temperature and errors".
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from skylight.engines import health
from skylight.engines.health import Health
from skylight.errors import TargetError
from skylight.evidence import TargetFacts
from skylight.recording import HEALTH
from skylight.recording.arrow_parts import not_kept
from skylight.units import format_count

MOST_C = 60.0
"""Limit of a disk that states none, °C. Chosen: what data sheets of disks state as the most when in use."""


class HealthWatch:
    """The looks at a disk's temperature and counters. A run that is resumed goes on from the looks that were
    recorded: what a counter grew by meanwhile stops it, once."""

    def __init__(self, target: TargetFacts, recording: Path) -> None:
        """Looks for the first time when it is asked to."""
        self._target = target
        self._file = recording / HEALTH
        self._most: dict[str, int] = {}
        self._has_shown = False
        self._is_watched = target.kind == "device"
        if self._is_watched:
            self._read()

    def _read(self) -> None:
        """Goes on from what was recorded; a line that was cut short counts for nothing."""
        try:
            kept = self._file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            raise not_kept(error, self._file.parent) from error
        for line in kept.splitlines():
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict):
                    self._has_shown = True
                    self._add({name: row[name] for name in health.COUNTERS if isinstance(row.get(name), int)})

    def _add(self, counters: dict[str, int]) -> None:
        for name, count in counters.items():
            self._most[name] = max(count, self._most.get(name, count))

    def _record(self, row: dict[str, object]) -> None:
        try:
            with self._file.open("ab+") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - 1, 0))
                cut = file.read() not in (b"", b"\n")
                file.write((("\n" if cut else "") + json.dumps(row) + "\n").encode())
        except OSError as error:
            raise not_kept(error, self._file.parent) from error

    def look(self, test: str, when: str) -> None:
        """Records how the disk is; raises `TargetError` where it is too warm or has counted new errors."""
        if not self._is_watched:
            return
        found = health.health_of(self._target.name)
        if not found.known and not self._has_shown:
            self._is_watched = False
            return
        self._has_shown = True  # from now on a look that shows nothing is recorded, and is not the last
        row = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"), "test": test, "when": when,
            "temperature_c": found.temperature_c,
        }  # fmt: skip
        self._record({**row, "limit_c": found.limit_c, **found.counters})
        before = dict(self._most)
        self._add(found.counters)
        self._judge(found, before)

    def _judge(self, now: Health, most: dict[str, int]) -> None:
        """Raises `TargetError` where the disk should not be asked for more: new errors first, once."""
        name = self._target.name
        for counter, count in now.counters.items():
            before = most.get(counter, count)
            if count > before:
                raise TargetError(
                    f"{name}: counts {format_count(count - before)} new {counter.replace('_', ' ')} since"
                    f" it was last asked ({format_count(count)} in all); look at its health and cable"
                    " (smartctl -a) before you go on with --resume"
                )
        limit = MOST_C if now.limit_c is None else now.limit_c
        if now.temperature_c is not None and now.temperature_c > limit:
            whose = "of a disk that states none" if now.limit_c is None else "that it states"
            raise TargetError(
                f"{name}: is at {now.temperature_c:.0f} °C, above the limit {whose} ({limit:.0f} °C); let it"
                " cool, and go on with --resume"
            )
