"""Numbers on the command line."""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["Delay", "Number"]


class Number(click.FloatRange):
    """A finite number of a range: `click.FloatRange` takes NaN for one of every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; refuses what is none, not finite or out of range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class Delay(Number):
    """An added latency, ms: up to an hour, longer than any client waits."""

    def __init__(self) -> None:
        """Of an hour."""
        super().__init__(min=0, max=3_600_000)
