"""The I/O of the run that was filmed: the commands that may have caused a seek, and where each is found.

Invariant: a command is named as its evidence names it, by test, step and row of the step, so that a reader
finds it in the files of a recording (docs/recordings.md) or in a log of fio.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skylight.errors import UsageError
from skylight.evidence import IoLog, Op


@dataclass(frozen=True)
class Commands:
    """All I/O of some evidence, in order; `steps` are the test (None for a log of fio), the name and the
    first row of each step."""

    log: IoLog
    steps: tuple[tuple[str | None, str, int], ...]

    @staticmethod
    def joined(parts: list[tuple[str | None, str, IoLog]]) -> Commands:
        """The commands of steps: their test, name and log."""
        steps, first = [], 0
        for test, step, log in parts:
            steps.append((test, step, first))
            first += len(log)
        return Commands(IoLog.joined([log for _, _, log in parts]), tuple(steps))

    def described(self, row: int | None) -> dict[str, Any] | None:
        """A command as JSON has it; times in s, on the recording's clock."""
        if row is None:
            return None
        log = self.log
        # A step without I/O begins where the next one does: the last that begins here has the row.
        test, step, first = self.steps[bisect_right(self.steps, row, key=lambda one: one[2]) - 1]
        return {
            "test": test, "step": step, "row": row - first, "op": Op(int(log.op[row])).name.lower(),
            "offset": int(log.offset[row]), "size": int(log.size[row]),
            "submit_s": int(log.submit_ns[row]) / 1e9, "complete_s": int(log.complete_ns[row]) / 1e9,
        }  # fmt: skip


def read_commands(source: str) -> Commands:
    """All I/O of a recording or of fio's logs, as --io names them."""
    from skylight.engines import parse_target
    from skylight.engines.fio_log import read_logs
    from skylight.probe.suite import ALL_TESTS
    from skylight.recording import Recording, recording_dir

    target = parse_target(source)
    if target.kind == "fio-log":
        found = Commands.joined([(None, one.name, one.rows) for one in read_logs(target.name).logs])
    elif target.kind == "recording":
        kept = Recording.open(recording_dir(Path(target.name)))
        tests = [(test.name, kept.evidence(test.name)) for test in ALL_TESTS]
        found = Commands.joined(
            [(name, step.name, step.rows) for name, one in tests if one is not None for step in one.done]
        )
    else:
        raise UsageError(f"--io {source}: give evidence that is kept, recording:DIR or fio-log:FILE")
    if len(found.log) == 0:
        raise UsageError(f"--io {source}: contains no I/O; give the recording of the run that was filmed")
    return found
