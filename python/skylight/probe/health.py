"""A disk is watched while it is probed: before and after each test its temperature and error counters are
recorded, and a disk that is too warm, or counts new errors, is not asked for more.

During a test it is not asked, because the question is a command too: it would end the idle time that a test
measures.

Source: docs/devices.md, "Temperature and errors".
"""

from __future__ import annotations

import json
from pathlib import Path

from skylight.engines import health
from skylight.engines.health import Health
from skylight.errors import TargetError
from skylight.evidence import TargetFacts
from skylight.recording import HEALTH
from skylight.recording.parts import not_kept
from skylight.units import format_count

MOST_C = 60.0
"""Limit of a disk that states none, °C. Chosen: what data sheets of disks state as the most when in use."""


class HealthWatch:
    """What a disk's temperature and counters were when the run began, and the looks since."""

    def __init__(self, target: TargetFacts, recording: Path) -> None:
        """Looks for the first time when it is asked to."""
        self._target = target
        self._file = recording / HEALTH
        self._first: Health | None = None
        self._is_watched = target.kind == "device"

    def look(self, test: str, when: str) -> None:
        """Records how the disk is; raises `TargetError` where it is too warm or has counted new errors."""
        if not self._is_watched:
            return
        found = health.health_of(self._target.name)
        if not found.known:
            self._is_watched = False
            return
        row = {"test": test, "when": when, "temperature_c": found.temperature_c, "limit_c": found.limit_c}
        try:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**row, **found.counters}) + "\n")
        except OSError as error:
            raise not_kept(error, self._file.parent) from error
        self._first = self._first or found
        self._judge(found, self._first)

    def _judge(self, now: Health, first: Health) -> None:
        """Raises `TargetError` where the disk should not be asked for more."""
        name = self._target.name
        limit = MOST_C if now.limit_c is None else now.limit_c
        if now.temperature_c is not None and now.temperature_c > limit:
            whose = "of a disk that states none" if now.limit_c is None else "that it states"
            raise TargetError(
                f"{name}: is at {now.temperature_c:.0f} °C, above the limit {whose} ({limit:.0f} °C); let it"
                " cool, and go on with --resume"
            )
        for counter, count in now.counters.items():
            before = first.counters.get(counter, count)
            if count > before:
                raise TargetError(
                    f"{name}: counts {format_count(count - before)} new {counter.replace('_', ' ')} since"
                    f" this run began ({format_count(count)} in all); look at its health and its cable"
                    " (smartctl -a) before you go on with --resume"
                )
