"""When seeks start and end, where a film does not show it well."""

import numpy as np
import pytest
from numpy.typing import NDArray

from skylight.camera import seek_fit
from skylight.camera.arm_motion import Motion
from skylight.camera.seek_detection import Seek, _crossed, read

F64 = NDArray[np.float64]
PLACES = (0.0, 0.9, 0.35, 0.6, 0.05, 0.75, 0.58, 1.0)


def movement(rate_hz: float, times: F64 | None = None, rest_s: float = 0.02) -> tuple[Motion, F64]:
    """Seeks of one arm, and their starts and ends in frames."""
    ways = np.abs(np.diff(PLACES))
    times = 0.002 + 0.014 * np.sqrt(ways) if times is None else times
    end_s = np.cumsum(times + rest_s)
    start_s = end_s - times
    motion = Motion(start_s, end_s, np.array(PLACES[:-1]), np.array(PLACES[1:]), np.ones(len(ways), np.bool_))
    return motion, np.stack([start_s, end_s], axis=1) * rate_hz


def positions(motion: Motion, rate_hz: float) -> F64:
    """The position in each frame, exposed for nearly all of its time."""
    count = int((motion.end_s[-1] + 0.02) * rate_hz)
    exposed = np.mean(
        [motion.at((np.arange(count) + part) / rate_hz) for part in np.linspace(-0.45, 0.45, 19)], axis=0
    )
    return np.asarray(exposed, np.float64)


def held(position: F64, lag: float) -> F64:
    """What an encoder shows that leaves changes below `lag` out: it is behind by as much."""
    seen = position.copy()
    for frame in range(1, len(seen)):
        seen[frame] = np.clip(seen[frame - 1], position[frame] - lag, position[frame] + lag)
    return seen


def off(seeks: tuple[Seek, ...], truth: F64) -> F64:
    """How far off both ends are, frames."""
    assert len(seeks) == len(truth)
    wrong = np.abs(np.array([(seek.start, seek.end) for seek in seeks]) - truth)
    return np.asarray(wrong.max(axis=1), np.float64)


def test_a_movement_held_back_takes_as_long_as_others_of_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in films 1055 and 1077 at 4,701 and 7,511 frames/s. The seek from 0.75 to 0.58 is held back by more.
    rate_hz = 5000.0
    motion, truth = movement(rate_hz)
    position = positions(motion, rate_hz)
    first, last = (round(frame) for frame in (truth[4][1] + 20, truth[5][1] + 40))
    seen = held(position, 0.001)
    seen[first:last] = held(position[first:last], 0.008)
    ones = np.ones(len(seen))
    better = read(seen, ones, rate_hz)
    monkeypatch.setattr(seek_fit, "ROUNDS", 0)
    alone = read(seen, ones, rate_hz)
    assert off(alone.seeks, truth)[5] > 1.5
    assert alone.seeks[5].doubt > 1
    assert off(better.seeks, truth).max() < 1
    # It is said to be in doubt all the same.
    assert better.seeks[5].doubt > 1


def test_a_fit_that_ends_at_its_limit_takes_as_long_as_others() -> None:
    # Two frames between two rests, as in film 1010 at 342 frames/s: the best fit is as short as a fit may be.
    done = np.array([0.001, 0, 0.009, 0.479, 0.971, 1, 1])
    short = seek_fit.Way(np.arange(83.0, 90), done, 0.155, 84.26, 87.80)
    others = [
        seek_fit.Way(
            np.arange(20.0), seek_fit.way_done(np.clip((np.arange(20) - 5.3) / time, 0, 1), 0.44), way, 5, 9
        )
        for way, time in ((0.1, 2.2), (0.2, 2.83), (0.3, 3.31), (0.4, 3.71))
    ]
    few = seek_fit.fitted([short, *others[:2]])[0]
    assert few.time == pytest.approx(seek_fit.LEAST_ROUGH * short.rough, rel=0.01)
    assert few.doubt == 1
    among = seek_fit.fitted([short, *others])[0]
    assert among.time == pytest.approx(0.69 + 4.78 * 0.155**0.5, abs=0.1)
    assert (among.start + among.end) / 2 == pytest.approx((few.start + few.end) / 2, abs=0.2)


def test_a_seek_that_one_frame_shows_takes_as_long_as_others(rng: np.random.Generator) -> None:
    # As in film 1132 at 320 frames/s, where it is 2.4 frames long. Taken for one frame long, ends are up to
    # 0.76 off.
    rate_hz = 320.0
    ways = np.abs(np.diff(PLACES))
    wrong = []
    for phase in rng.uniform(0, 1, 10):
        motion, truth = movement(rate_hz, 0.001 + 0.012 * np.sqrt(ways), (6 + phase) / rate_hz)
        seen = positions(motion, rate_hz)
        seeks = read(seen + rng.normal(0, 0.001, len(seen)), np.ones(len(seen)), rate_hz).seeks
        wrong.append(off(seeks, truth))
    assert np.max(wrong) < 0.4


def test_seeks_that_are_seen_well_keep_their_own_times(rng: np.random.Generator) -> None:
    # An arm whose times scatter, as where some seeks wait for a write to settle.
    rate_hz = 5000.0
    ways = np.abs(np.diff(PLACES))
    motion, truth = movement(rate_hz, (0.002 + 0.014 * np.sqrt(ways)) * rng.uniform(0.8, 1.25, len(ways)))
    seen = read(positions(motion, rate_hz), np.ones(int((motion.end_s[-1] + 0.02) * rate_hz)), rate_hz)
    assert off(seen.seeks, truth).max() < 0.5
    assert max(seek.doubt for seek in seen.seeks) < 1


@pytest.mark.parametrize("rest", [1.4, 3.1])
def test_two_seeks_one_way_with_a_short_rest(rest: float, rng: np.random.Generator) -> None:
    # As when a drive cleans, at 480 frames/s: the arm goes from 0.65 over 0.39 to 0.27.
    ways, times = np.array([0.26, 0.12]), np.array([3.3, 2.3])
    for phase in rng.uniform(0, 1, 10):
        start = 20 + phase + np.array([0, times[0] + rest])
        motion = Motion(
            start, start + times, np.array([0.65, 0.39]), np.array([0.39, 0.27]), np.ones(2, np.bool_)
        )
        exposed = [motion.at(np.arange(60.0) + part) for part in np.linspace(-0.45, 0.45, 19)]
        position = np.mean(exposed, axis=0) + rng.normal(0, 0.001, 60)
        seeks = read(position, np.ones(60), 480.0).seeks
        assert off(seeks, np.stack([start, start + times], axis=1)).max() < 1
        assert np.allclose([seek.way for seek in seeks], -ways, atol=0.04)


@pytest.mark.parametrize(("takes", "behind", "noise"), [(7.6, 0.0, 0.001), (114.0, 0.3, 0.0001)])
def test_a_frame_that_is_shown_twice_is_no_rest(
    takes: float, behind: float, noise: float, rng: np.random.Generator
) -> None:
    count = int(takes) + 60
    motion = Motion(
        np.array([20.3]), np.array([20.3 + takes]), np.array([0.0]), np.array([1.0]), np.ones(1, np.bool_)
    )
    position = motion.at(np.arange(float(count)))
    for frame in range(22, int(20 + takes), max(1, int(takes) // 20)):
        seen = position.copy()
        seen[frame - 1] -= behind * (position[frame - 1] - position[frame - 2])
        seen[frame] = seen[frame - 1]
        assert len(read(seen + rng.normal(0, noise, count), np.ones(count), 480.0).seeks) == 1


def test_a_share_of_the_way_that_is_not_passed_is_at_the_last_frame_before() -> None:
    assert _crossed(np.array([0.0, 0.1, 0.1, 0.2]), 0.25, 1) == 1.0
    assert _crossed(np.array([0.0, 0.2, 0.3, 0.6]), 0.25, 3) == pytest.approx(1.5)


def test_a_seek_that_takes_another_time_than_the_others_is_doubted_and_asks_them(
    rng: np.random.Generator,
) -> None:
    motion, truth = movement(480.0)
    position = positions(motion, 480.0) + rng.normal(0, 0.002, len(positions(motion, 480.0)))
    short = int(np.argmin(np.abs(np.diff(PLACES))))
    # A film of few pixels: the arm seems to creep.
    start, end = truth[short] + (-1.0, 1.0)
    frames = np.arange(int(start), int(end) + 2)
    position[frames] = np.interp(frames, (start, end), PLACES[short : short + 2])
    seeks = read(position, np.ones(len(position)), 480.0).seeks
    assert off(seeks, truth).max() < 1
    assert [seek.doubt > seek_fit.NEAR_FRAMES for seek in seeks] == [n == short for n in range(len(truth))]
