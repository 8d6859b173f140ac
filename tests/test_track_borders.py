"""The size of tracks by where they end."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.infer.track_borders import track_by_borders
from skylight.infer.track_phases import fit_tracks

TRACK, READS = 520_192.0, 48


def pieces(rng: np.random.Generator, tracks: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last addresses of tracks that were read at random, with parts of one at both ends."""
    at = np.sort(rng.uniform(0.6 * TRACK, (tracks + 1.4) * TRACK, READS * (tracks + 1)))
    number = at // TRACK
    cuts = np.flatnonzero(np.diff(number)) + 1
    return at[np.append(0, cuts)], at[np.append(cuts, len(at)) - 1]


@pytest.mark.parametrize("tracks", [6, 44])
def test_tracks_end_at_even_distances(rng: np.random.Generator, tracks: int) -> None:
    size = track_by_borders(*pieces(rng, tracks), 1.02 * TRACK)
    assert size is not None
    assert size[0] == pytest.approx(TRACK, rel=0.002)
    assert abs(size[0] - TRACK) < 3 * size[1] < 0.02 * TRACK


def test_what_is_not_as_long_as_a_track_ends_a_run(rng: np.random.Generator) -> None:
    begin, end = pieces(rng, 12)
    begin[6:] += 0.3 * TRACK
    end[6:] += 0.3 * TRACK
    size = track_by_borders(begin, end, TRACK)
    assert size is not None and size[0] == pytest.approx(TRACK, rel=0.005)
    assert track_by_borders(begin[4:9], end[4:9], TRACK) is None


@pytest.mark.parametrize("turn_ns", [4_000_000, 5_000_000, 5_217_391])
def test_a_clock_whose_ticks_hide_angles_shows_where_tracks_end(
    rng: np.random.Generator, turn_ns: int
) -> None:
    """Four or five ticks a revolution, the same in each; angles alone leave sizes open by 0.6 to 3 %."""
    at = rng.permutation(np.arange(0, 7.5 * TRACK, 3_200.0))
    number, within = np.divmod(at, TRACK)
    passed = number * 1.23 + within / TRACK + rng.integers(0, 1_000, len(at)).cumsum()
    late_ns = np.abs(rng.normal(0, 20_000, len(at)))
    tick = 1_000_000 / turn_ns
    angle = np.mod(np.floor((passed * turn_ns + late_ns) / 1e6) * tick, 1.0)
    tracks = fit_tracks(at, angle, 0.75 * TRACK, 1.3 * TRACK, tick)
    assert tracks is not None
    assert tracks.track_bytes == pytest.approx(TRACK, rel=0.003)
    assert tracks.slope_error < 0.005 * tracks.slope
