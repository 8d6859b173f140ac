"""What the device engine asks of an open target, as protocols: the native module has it, tests have others.

Source: `skylight._native.HostDevice` (crates/py/src/host.rs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from skylight.engines.erase import ErasableHost
from skylight.evidence import U8, U32, U64, JsonScalar

Setting = Literal["write cache", "look-ahead", "scheduler", "queue depth"]
"""What can be switched; the scheduler is off if it is `none`, the queue depth on if it is that of the tests
or more."""


class Switch(Protocol):
    """A switched setting; `skylight._native.HostSwitch` is one."""

    @property
    def achieved(self) -> str:
        """The state now: "on", "off" or "unknown"."""
        ...

    @property
    def why(self) -> str | None:
        """Why the state is not the requested one."""
        ...

    def restore(self) -> None:
        """Restores the former state; does nothing the second time."""
        ...


class Host(ErasableHost, Protocol):
    """The interface of an open target; `skylight._native.HostDevice` is one."""

    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
        ...

    @property
    def block_bytes(self) -> int:
        """Logical block size in bytes."""
        ...

    @property
    def key(self) -> str | None:
        """A name for the drive that can be part of a file name; None for a plain file."""
        ...

    def identity(self) -> Mapping[str, JsonScalar]:
        """The identity of the target and the properties that it declares."""
        ...

    def counters(self) -> dict[str, int]:
        """Commands and bytes submitted so far."""
        ...

    def run(self, op: U8, offset: U64, size: U32, depth: int) -> tuple[U64, U64]:
        """Runs a batch; submit and completion times, ns."""
        ...

    def results(self) -> tuple[U64, U64]:
        """Rows of the last batch that were refused or were appends, and the result of each."""
        ...

    def zone_layout(self) -> dict[str, Any] | None:
        """The layout of its zones; None without zones."""
        ...

    def report_zones(self, from_bytes: int, most: int) -> dict[str, Any]:
        """At most `most` zones from the one that contains a byte on, as columns."""
        ...

    def non_sequential_zones(self) -> int:
        """How many zones have non-sequential data."""
        ...

    def state(self, setting: Setting) -> str:
        """The state of a setting: "on", "off" or "unknown"."""
        ...

    def value(self, setting: Setting) -> str | None:
        """The value of a setting where it is switched; None without one."""
        ...

    def discard(self, start_bytes: int, length_bytes: int) -> None:
        """Discards a part of a block device; raises `OSError`."""
        ...

    def switch(self, setting: Setting, on: bool, note: str | None = None) -> Switch:
        """Switches a setting."""
        ...

    def put_back(self, note: str) -> list[str]:
        """Restores the settings in the note; returns their values, none without a note."""
        ...

    def close(self) -> None:
        """Releases the target."""
        ...
