"""A range of a drive, bytes: as people write it, and as a target declares it.

Invariant: a range never becomes larger: what is written in other units than whole `ALIGNED_BYTES` is rounded
inwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from skylight.errors import UsageError
from skylight.evidence import JsonScalar, Params
from skylight.units import format_capacity, format_size, parse_size

ALIGNED_BYTES = 1 << 20
"""Both ends are multiples of it: of all block sizes, and of what partitioning tools align to."""
LEAST_BYTES = 64 << 20
"""The smallest range: that of a disk that may be probed (docs/devices.md)."""
_START, _END, _WHOLE = "range_start_bytes", "range_end_bytes", "range_of_bytes"


@dataclass(frozen=True, slots=True)
class AskedRange:
    """From `start` to before `end`, bytes, of a drive; without an end up to that of the drive. `text` is what
    was written."""

    start: int
    end: int | None
    text: str = field(default="", repr=False, compare=False)

    @classmethod
    def parsed(cls, text: str) -> Self:
        """A range as people write it. Raises `UsageError`.

        >>> AskedRange.parsed("100GiB-140GiB")
        AskedRange(start=107374182400, end=150323855360)
        >>> AskedRange.parsed("1TB-")
        AskedRange(start=1000000000000, end=None)
        """
        start, dash, end = text.partition("-")
        try:
            if not dash:
                raise ValueError(text)
            found = cls(parse_size(start), parse_size(end) if end.strip() else None, text.strip())
        except ValueError as error:
            raise UsageError(f"{text!r} is no range; write START-END, such as 100GiB-140GiB") from error
        if found.end is not None and found.end <= found.start:
            raise UsageError(f"{text!r} ends before it begins; write START-END, such as 100GiB-140GiB")
        return found

    def of(self, name: str, size_bytes: int) -> ByteRange:
        """The part of a drive of that name and size. Raises `UsageError` where it does not fit."""
        end = size_bytes if self.end is None else self.end
        if end > size_bytes or self.start >= size_bytes:
            raise UsageError(
                f"--range {self.text}: {name} ends at {format_capacity(size_bytes)} ({size_bytes:,} bytes)"
            )
        first, last = -(-self.start // ALIGNED_BYTES) * ALIGNED_BYTES, end // ALIGNED_BYTES * ALIGNED_BYTES
        if last - first < LEAST_BYTES:
            raise UsageError(
                f"--range {self.text}: holds {format_size(max(last - first, 0))}, and a probe needs"
                f" {format_size(LEAST_BYTES)} at least"
            )
        return ByteRange(first, last, size_bytes)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """From `start` to before `end` of a drive of `whole`, bytes."""

    start: int
    end: int
    whole: int

    @property
    def size(self) -> int:
        """Bytes in it."""
        return self.end - self.start

    @property
    def words(self) -> str:
        """For a sentence.

        >>> ByteRange(0, 40 << 30, 1 << 40).words
        '0 B to 40 GiB'
        """
        return f"{format_size(self.start)} to {format_size(self.end)}"

    def declared(self) -> dict[str, JsonScalar]:
        """What a target that is a part declares."""
        return {_START: self.start, _END: self.end, _WHOLE: self.whole}

    @classmethod
    def declared_by(cls, declared: Params) -> Self | None:
        """The part that a target is; None of a whole drive."""
        start, end, whole = (declared.get(name) for name in (_START, _END, _WHOLE))
        if isinstance(start, int) and isinstance(end, int) and isinstance(whole, int):
            return cls(start, end, whole)
        return None
