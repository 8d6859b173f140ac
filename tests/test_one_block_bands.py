"""How long a band with one written block takes: which marks a look can say something about."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog
from skylight.probe.cleaning import band_time
from skylight.probe.cleaning.trials import Ground

TURN_NS = 4_000_000
MARKS = band_time.places(1 << 40, 4, 64 << 20)


def ground(late: np.ndarray[tuple[int], np.dtype[np.bool_]], delayed: float, noisy: bool) -> Ground:
    """A drive on which looks at some marks are always late, and others now and then."""
    rng = np.random.default_rng(1)

    def run(name: str, io: IoBatch, **_: object) -> IoLog:
        del name
        mark = np.searchsorted(np.sort(MARKS), io.offset + np.uint64(8192), side="right") - 1
        is_late = late[np.argsort(MARKS)[mark]] | (rng.random(len(io)) < delayed)
        took = np.where(is_late, 2 * TURN_NS, TURN_NS).astype(np.uint64)
        done = np.cumsum(took)
        return IoLog.of(io, done - took, done)

    steps = SimpleNamespace(run=run, size=1 << 40, block_bytes=4096)
    return Ground(cast(Any, steps), False, False, float(TURN_NS), noisy=noisy)


def test_marks_at_the_end_of_a_track_are_not_asked() -> None:
    """103557 drawn: a skew of more than half a revolution made 5 of 36 bands look cached for ever, so that a
    band seemed to take 556 ms for 432."""
    at_end = np.isin(np.arange(36), (3, 9, 12, 13, 34))
    kept = band_time._clear_marks(ground(at_end, 0.0, noisy=False), 1, MARKS)
    assert kept.tolist() == MARKS[~at_end].tolist()
    many = np.arange(36) < 20
    assert len(band_time._clear_marks(ground(many, 0.0, noisy=False), 1, MARKS)) == 36, "these are cached"


@pytest.mark.parametrize("cached", [0, 4])
def test_few_marks_that_look_cached_are_looked_at_until_it_is_no_chance(cached: int) -> None:
    """103341 drawn: of 36 marks three were late three times by chance."""
    late = np.arange(36) < cached
    drive = ground(late, 0.35, noisy=True)
    first = drive.lone.home(drive.steps.run("bands-1-look", drive.lone.looks(MARKS)))
    home = band_time._home(drive, "bands-1-look", MARKS, first)
    assert np.flatnonzero(~home).tolist() == list(range(cached))
