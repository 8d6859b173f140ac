"""How far the burn-in is: a line as each step begins and ends, and about how long the rest will take.

The guess: what a step took on an earlier drive of this run; before that, what it took where we measured,
stretched by how much slower this machine has been so far. `table` prints what every step took.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from burn_in.processes import LOG, BurnInError, cpu_seconds

# Seconds of each step, in their order, on two quiet cores: from the CPU time that it takes (docs/burn-in.md).
LONG_S = {
    "packages": 5.0,
    "mkfs.ext4": 2.0,
    "a system is installed": 1.0,
    "the kernel's source is unpacked": 16.0,
    "a kernel is compiled": 140.0,
    "sums of all files": 18.0,
    "the server stops": 1.0,
    "the drive after a clean stop": 20.0,
    "a guest boots": 7.0,
    "the server killed under a guest": 26.0,
}
KILL = "the server killed under the host"
KILL_S = 24.0
SHORT_S = dict.fromkeys(
    ("packages", "mkfs.ext4", "a system is installed", "sums of all files", "the server stops"), 2.0
) | {"the drive after a clean stop": 3.0, "a guest boots": 20.0}
SHORT_KILL_S = 10.0
SECONDS_OF_SILENCE = 30.0
# Of a step: before that, its beginning says little of the rest.
SHARE_TO_TRUST = 0.05


def expected_steps(short: bool, kills: int) -> dict[str, float]:
    """The steps of a drive, in their order, and the seconds each should take."""
    each_kill_s = SHORT_KILL_S if short else KILL_S
    return (SHORT_S if short else LONG_S) | {kill_name(number): each_kill_s for number in range(kills)}


def kill_name(number: int) -> str:
    """The name of a kill's step."""
    return f"{KILL} ({number + 1})"


@dataclass(frozen=True)
class Took:
    """What a step took: by the clock, and of the CPUs by all that we started."""

    drive: str
    name: str
    wall_s: float
    cpu_s: float


@dataclass
class Progress:
    """The steps of all drives of a run."""

    drives: Sequence[str] = ("the drive",)
    expected: dict[str, float] = field(default_factory=dict)
    took: list[Took] = field(default_factory=list)
    _drive: str = "the drive"
    _spoke: float = 0.0
    _began: float = 0.0

    def drive(self, name: str) -> None:
        """From now on it is this drive."""
        self._drive = name

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Names the step in its failure, and says how long it took and what is left."""
        self._began = self._spoke = time.monotonic()
        cpu_s = cpu_seconds()
        LOG.info("%s: %s ..%s", self._drive, name, self._left(self.left_s(name)))
        try:
            yield
        except (BurnInError, OSError) as error:
            raise BurnInError(f"{name}: {error}") from error
        took = Took(self._drive, name, time.monotonic() - self._began, cpu_seconds() - cpu_s)
        self.took.append(took)
        LOG.info("%s: %s: %.1f s (CPU %.1f s)", self._drive, name, took.wall_s, took.cpu_s)

    def part(self, name: str, done: int, of_about: int) -> None:
        """How far a long step is; it speaks after half a minute of silence."""
        now = time.monotonic()
        if now - self._spoke < SECONDS_OF_SILENCE or not done:
            return
        self._spoke = now
        share = min(1.0, done / of_about)
        whole_s = (now - self._began) / share if share > SHARE_TO_TRUST else self._guess_s(name)
        left = self._left((1 - share) * whole_s + self.left_s(name) - self._guess_s(name))
        LOG.info("%s: %s: %d of about %d%s", self._drive, name, done, max(done, of_about), left)

    def left_s(self, now: str) -> float:
        """About how many seconds are left, the step that begins now included."""
        past = {(one.drive, one.name) for one in self.took}
        return sum(
            self._guess_s(name)
            for drive in self.drives
            for name in self.expected
            if (drive, name) not in past or (drive, name) == (self._drive, now)
        )

    def _guess_s(self, name: str) -> float:
        measured = [one.wall_s for one in self.took if one.name == name]
        if measured:
            return measured[-1]
        known = [one for one in self.took if one.name in self.expected]
        should_s = sum(self.expected[one.name] for one in known)
        pace = max(1.0, sum(one.wall_s for one in known) / should_s) if should_s else 1.0
        return pace * self.expected.get(name, 0.0)

    def _left(self, seconds: float) -> str:
        if not self.expected:
            return ""
        return f" (about {seconds / 60:.0f} min left)" if seconds >= 90 else f" (about {seconds:.0f} s left)"

    def table(self) -> str:
        """What every step took, drive by drive: seconds by the clock, and of CPU."""
        lines = [f"{'step':40}" + "".join(f"{drive:>22}" for drive in self.drives)]
        names = list(dict.fromkeys(one.name for one in self.took))
        times = {(one.drive, one.name): one for one in self.took}
        for name in names:
            cells = [times.get((drive, name)) for drive in self.drives]
            lines.append(f"{name:40}" + "".join(f"{_cell(one):>22}" for one in cells))
        sums = [[one for one in self.took if one.drive == drive] for drive in self.drives]
        total = [Took("", "", sum(o.wall_s for o in one), sum(o.cpu_s for o in one)) for one in sums]
        lines.append(f"{'all':40}" + "".join(f"{_cell(one):>22}" for one in total))
        return "\n".join(lines)

    def keep(self, file: Path) -> None:
        """Writes the steps of this drive that are done, for `recall`."""
        done = [vars(one) for one in self.took if one.drive == self._drive]
        file.write_text(json.dumps(done, indent=1) + "\n")

    def recall(self, file: Path) -> set[str]:
        """The names of the steps of this drive that an earlier run has done."""
        done = [Took(**one) for one in json.loads(file.read_text())]
        self.took.extend(done)
        return {one.name for one in done}


def _cell(took: Took | None) -> str:
    return "-" if took is None else f"{took.wall_s:.1f} ({took.cpu_s:.1f} CPU)"
