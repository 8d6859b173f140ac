"""Findings: what a test concludes, with its confidence and the reason in a sentence.

What can be found is a `Property`: its name, title, unit, the words for its values, and how near an answer
must come to count as right. Each property is declared once, in the package of the test that finds it
(`skylight.probe.*.findings`); the report, the JSON, the documentation, the scoring and the verdicts
themselves take all of that from the declaration.

A value may be `UNKNOWN`: evidence that does not carry a verdict is a right answer, a wrong verdict with
confidence is the worst one. `confidence` is computed from the evidence (each test's page says how), and is no
more than how often answers found in the same `way` were right (docs/tests/confidence.md).

Source: docs/report.md, "JSON"; docs/random-drives.md, "The truth" (the table of findings).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from skylight.evidence import TargetFacts
from skylight.units import format_size

UNKNOWN = "unknown"
SCHEMA = 1

Value = str | int | float | dict[str, int | float | bool | str]


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of a target.

    `value` is in `unit` (None for a word), `interval` what the evidence allows (same unit), `confidence` 0 to
    1, `why` one sentence with the measured numbers, `rows` the names of the evidence steps it rests on, `way`
    in which of several ways it was found, as `skylight.infer.priors` counts them."""

    name: str
    value: Value
    unit: str | None
    interval: tuple[float, float] | None
    confidence: float
    why: str
    rows: tuple[str, ...] = ()
    way: str = ""

    @property
    def known(self) -> bool:
        """False when the value is unknown."""
        return self.value != UNKNOWN

    def to_json(self) -> dict[str, object]:
        """As the JSON of a probe holds it."""
        return {
            "value": self.value,
            "unit": self.unit,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": round(self.confidence, 4),
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Right:
    """How near an answer must come to the truth to count as right.

    The error allowed is `part` of the true value, or of the true value of the property `of`, and `units`
    besides. The parts of a table named in `equal` must be equal. Words must always be equal.

    >>> Right(part=0.1).interval(200)
    (180, 220)
    >>> Right(part=0.05, of="rotation_ns").interval(7_000, 10_000)
    (6500, 7500)
    >>> Right(part=0.1, equal=("count",)).words("bytes")
    'equal; 10 %'
    """

    part: float = 0.0
    units: int = 0
    of: str = ""
    equal: tuple[str, ...] = ()

    def interval(self, true: int, of: int | None = None, *, key: str = "") -> tuple[int, int]:
        """The answers that count as right where `true` is; `of` is the true value of the property `of`, `key`
        names a part of a table. None is below 0."""
        off = 0 if key in self.equal else int((true if of is None else of) * self.part) + self.units
        return max(true - off, 0), true + off

    def words(self, unit: str | None) -> str:
        """In words, for a table of the documentation."""
        error = f"{100 * self.part:g} %" if self.part else ""
        if self.of:
            error += " of a revolution" if self.of == "rotation_ns" else f" of {self.of}"
        if self.units:
            error = format_size(self.units) if unit == "bytes" else f"{self.units:,}"
        return "; ".join(word for word in ("equal" if self.equal or not error else "", error) if word)


EXACTLY = Right()
"""Only an equal answer is right."""


class Scope(Enum):
    """Which part of a drive shows a property: what is said of it where only a range of the drive was looked
    at (`--range`), or a file on it (`--scratch`)."""

    ANYWHERE = "any part shows it of the whole drive"
    LOCAL = "a part shows it of itself; elsewhere on the drive it may be another number"
    WHOLE = "no range shows it"
    """How large a cache is of which the range may have a share; how fast random writes are, for which the arm
    moves over the range alone and which leave in each band more to clean at once."""

    PLACES = "neither a range nor a file shows it: it holds of places of the whole drive"

    @property
    def is_shown_by_range(self) -> bool:
        """Whether a range of the drive shows it."""
        return self in (Scope.ANYWHERE, Scope.LOCAL)


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a target that a test can find, declared once.

    `title` heads it in the report; `unit` is that of its numbers, None for words; `right` is how near the
    truth an answer must come, None for what is not scored, because the truth of a profile does not hold it;
    `words` says in the report what a value means that does not speak for itself; `values` are those of a
    property whose words do. Either lists all that it can be, alone or in a table. `scope` is which part of a
    drive shows it, which each must say."""

    name: str
    title: str
    unit: str | None = None
    right: Right | None = None
    words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    values: tuple[str, ...] = field(default=(), kw_only=True)
    scope: Scope = field(kw_only=True)

    def found(
        self,
        value: Value,
        confidence: float,
        why: str,
        rows: Sequence[str] = (),
        interval: tuple[float, float] | None = None,
        *,
        way: str = "",
    ) -> Finding:
        """The finding that it has this value, which must be one of those declared, where words are."""
        allowed = self.values or tuple(self.words)
        for each in value.values() if isinstance(value, dict) else (value,):
            if allowed and isinstance(each, str) and each not in (*allowed, UNKNOWN):
                raise ValueError(f"{self.name}: {each!r} is not declared (one of {', '.join(allowed)})")
        return Finding(self.name, value, self.unit, interval, confidence, why, tuple(rows), way)

    def unknown(
        self,
        why: str,
        rows: Sequence[str] = (),
        interval: tuple[float, float] | None = None,
        *,
        way: str = "",
    ) -> Finding:
        """The finding that its value is unknown; `interval` is what the evidence still allows, `way` what was
        found out instead, where later tests rest on that."""
        return Finding(self.name, UNKNOWN, self.unit, interval, 0.0, why, tuple(rows), way)


class Known:
    """What is known of a target so far: the findings of the tests that ran before, by name; whether writes
    were allowed; whether a quick answer is asked for.

    >>> rotation = Finding("rotation_ns", 10_170_000, "ns", None, 1.0, "as measured")
    >>> Known([rotation]).number("rotation_ns")
    10170000.0
    >>> Known([rotation]).word("drive_type") is None
    True
    """

    def __init__(self, findings: Iterable[Finding] = (), *, writes: bool = True, quick: bool = False) -> None:
        """Takes findings in any order; a later one of the same name replaces an earlier one."""
        self._by_name = {finding.name: finding for finding in findings}
        self.writes = writes
        self.quick = quick

    def __iter__(self) -> Iterator[Finding]:
        """The findings, in the order they came."""
        return iter(self._by_name.values())

    def get(self, name: str) -> Finding | None:
        """The finding of that name, unknown or not; None where no test has said anything."""
        return self._by_name.get(name)

    def word(self, name: str) -> str | None:
        """A value that is a word; None where it is unknown or absent."""
        value = self._value(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> float | None:
        """A value that is a number, in the finding's unit; None where it is unknown or absent."""
        value = self._value(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def part(self, name: str, key: str) -> float | None:
        """One number of a value that is a table (`band_bytes`, `od`); None where it is unknown or absent."""
        value = self._value(name)
        number = value.get(key) if isinstance(value, dict) else None
        return float(number) if isinstance(number, int | float) and not isinstance(number, bool) else None

    def with_more(self, findings: Iterable[Finding]) -> Known:
        """This and more."""
        return Known([*self, *findings], writes=self.writes, quick=self.quick)

    def _value(self, name: str) -> Value | None:
        finding = self._by_name.get(name)
        return finding.value if finding is not None and finding.known else None


def findings_json(target: TargetFacts, findings: Iterable[Finding]) -> dict[str, object]:
    """The JSON object of a probe: schema, target, findings by name."""
    return {
        "schema": SCHEMA,
        "target": target.to_json(),
        "findings": {finding.name: finding.to_json() for finding in findings},
    }
