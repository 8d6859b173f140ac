"""Bounds of the H-Buffer's policies: which commands cost what, and what idle time can take."""

import numpy as np
import pytest

import hbuffer_bounds
from hbuffer import Host, Work
from hbuffer_bounds import cleaning_s, one_stream, reads_of_fresh_data
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import Op

SECTOR = 512
READ, WRITE = int(Op.READ), int(Op.WRITE)


@pytest.fixture(scope="module")
def host() -> Host:
    """The address space of the host-managed drive."""
    text, origin = read_profile("wsh722020al")
    return Host(_native.BufferedDrive(text, origin, "direct", 100, 1 << 30))


def commands(host: Host, *rows: tuple[int, int, int, int]) -> Work:
    """Commands by operation, first sector, sectors and time, s, on zones that were written before."""
    op, start, count, at_s = np.array(rows).T
    return host.work(op, start * SECTOR, count * SECTOR, at_s * 10**9, full=True)


def sectors(work: Work) -> list[tuple[int, int, int]]:
    """Operations with the first sector and how many."""
    columns = zip(work.op, work.offset // SECTOR, work.size // SECTOR, strict=True)
    return [(int(op), int(start), int(count)) for op, start, count in columns]


def test_writes_become_one_stream_in_zones_that_no_command_touches(host: Host) -> None:
    zone = host.zone_bytes // SECTOR
    work = commands(host, (WRITE, 5, 8, 0), (READ, 2 * zone, 8, 0), (WRITE, 2 * zone + 99, 16, 0))
    assert sectors(one_stream(host, work)) == [
        (WRITE, zone, 8), (READ, 2 * zone, 8), (WRITE, zone + 8, 16),
    ]  # fmt: skip


def test_fresh_data_is_read_from_the_stream_and_other_data_from_home(host: Host) -> None:
    zone = host.zone_bytes // SECTOR
    work = commands(host, (WRITE, 104, 8, 0), (READ, 100, 16, 1), (READ, 100, 16, 9))
    stream = one_stream(host, work)
    idle_s = np.array([0.0, 1.0, 9.0])
    assert sectors(reads_of_fresh_data(work, stream, idle_s, 3.0)) == [
        # What lies on both sides of the write is one read with what was there before.
        (WRITE, zone, 8), (READ, 100, 16), (READ, zone, 8), (READ, 100, 16),
    ]  # fmt: skip


def test_idle_time_takes_what_was_written_last_before_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = host.zone_bytes // SECTOR
    monkeypatch.setattr(
        hbuffer_bounds, "zone_costs_s", lambda _profile, _host, zones, _parts: np.full(len(zones), 4.0)
    )
    early = [(WRITE, number * zone, 8, 0) for number in range(5)]
    assert cleaning_s("", host, commands(host, *early)) == pytest.approx(20.0)
    late = [(WRITE, 2 * zone, 8, 10), (WRITE, 3 * zone, 8, 10)]
    # Of the three others 12 s of work, for which there were 10 s.
    assert cleaning_s("", host, commands(host, *early, *late)) == pytest.approx(10.0)
    late = [(WRITE, 2 * zone, 8, 100), (WRITE, 3 * zone, 8, 100)]
    assert cleaning_s("", host, commands(host, *early, *late)) == pytest.approx(8.0)
