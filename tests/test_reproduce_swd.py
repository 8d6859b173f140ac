"""`skylight reproduce swd`: rows and bands, the oracle on disks one can check by hand, and what noise does.

The whole run needs cargo, valgrind and minutes of direct I/O: `make test-all` has it.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from loop_mount import need_fuse
from serving import need_native
from skylight.reproduce.rows import NotMeasured, judge, number_text
from skylight.reproduce.swd import oracle, read_modes, shingling_cost, table
from skylight.reproduce.swd.layer_benchmark import Tool


def test_every_row_has_bands_and_every_band_a_row() -> None:
    ids = [spec.id for spec in table.ROWS]
    assert len(ids) == len(set(ids))
    assert set(ids) == {band.row for band in table.BANDS}
    names = [(band.row, band.name) for band in table.BANDS]
    assert len(names) == len(set(names))


def test_without_the_program_a_row_is_unknown_and_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Tool(tmp_path)
    # Set where the property keeps it: `setattr` would look at the old value first, which builds the program.
    monkeypatch.setitem(vars(tool), "_program", None)
    with pytest.raises(NotMeasured, match="unknown: the example program is not built"):
        tool.run(["states"])
    row = next(spec for spec in table.ROWS if spec.id == "W1")
    judged = judge(row, row.measure(tool), table.BANDS)
    assert not judged.passed
    assert judged.measured.notes[0].startswith("unknown: ")


def two_tracks(outer: int, inner: int, skew: Fraction, k: int = 2) -> oracle.RandomDisk:
    """A track of `outer` sectors and one of `inner` behind it, `skew` turns later."""
    tracks = (oracle.Track(0, outer, Fraction(0)), oracle.Track(outer, inner, skew))
    return oracle.RandomDisk(tracks, k, "")


@pytest.mark.parametrize(
    ("outer", "inner", "skew", "written", "destroyed"),
    [
        (10, 10, Fraction(0), 3, [3]),
        # The paper's formulas fail where a position equals the skew, or the track's size.
        (10, 10, Fraction(3, 10), 3, [0]),
        (10, 10, Fraction(3, 10), 2, [9]),
        (10, 10, Fraction(1, 20), 3, [2, 3]),
        (10, 10, Fraction(1, 20), 0, [0, 9]),
        # Across the edge of a recording zone.
        (10, 5, Fraction(0), 3, [1]),
        (5, 10, Fraction(0), 1, [2, 3]),
        (4, 3, Fraction(0), 1, [0, 1]),
    ],
)
def test_the_oracle_by_hand(
    outer: int, inner: int, skew: Fraction, written: int, destroyed: list[int]
) -> None:
    source, by = oracle.surface_after(two_tracks(outer, inner, skew), [(written, 1)])
    torn = [int(at) - outer for at in np.flatnonzero(source != np.arange(outer + inner))]
    assert torn == destroyed
    assert [int(by[outer + at]) for at in destroyed] == [1] * len(destroyed)


def test_a_chain_keeps_what_the_head_left() -> None:
    tracks = tuple(oracle.Track(10 * n, 10, Fraction(0)) for n in range(4))
    source, _ = oracle.surface_after(oracle.RandomDisk(tracks, 2, ""), [(15, 1), (5, 1), (25, 1)])
    # Sector 15 holds 5's data; what 15 left on 25 was 15's, until 25 was written.
    assert [int(source[at]) for at in (5, 15, 25, 35)] == [5, 5, 25, 25]


ROUNDS = 120


def compared(shingled: float, spread: float) -> dict[str, object]:
    """Rounds of a comparison in which the shingled disk takes so many times as long."""
    draw = np.random.default_rng(7)
    rounds = {key: 1e5 * (1 + spread * draw.standard_normal(ROUNDS)) for key in ("conventional", "again")}
    times = {f"{key}_ns": list(value) for key, value in rounds.items()}
    return times | {
        "shingled_ns": list(shingled * 1e5 * (1 + spread * draw.standard_normal(ROUNDS))),
        "direct": True,
    }


def test_noise_that_hides_two_percent_makes_a_row_unknown() -> None:
    quiet, loud, slow = (
        shingling_cost.cost(compared(*how)) for how in ((1.005, 0.01), (1.0, 0.3), (1.05, 0.01))
    )
    assert quiet.ratio == pytest.approx(1.005, abs=0.005)
    assert shingling_cost._within(quiet) == quiet.ratio
    assert shingling_cost._within(loud) is None
    assert slow.ratio > 1 + shingling_cost.PART
    assert shingling_cost._within(slow) == slow.ratio


def test_who_comes_first_in_a_round_makes_no_difference() -> None:
    draw = np.random.default_rng(7)
    rounds = 1e5 * (1 + 0.002 * draw.standard_normal((3, ROUNDS)))
    for round_ in range(ROUNDS):
        rounds[round_ % 3, round_] *= 0.9
    times = {f"{side}_ns": list(of) for side, of in zip(shingling_cost.SIDES, rounds, strict=True)}
    one = shingling_cost.cost(times | {"direct": True})
    assert one.ratio == pytest.approx(1.0, abs=0.002) and one.noise < 0.002


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.539e-06, "nearly 0"), (-9.2e-07, "nearly 0"), (0.0, "0"), (0.00012345, "0.0001"),
        (0.1734, "0.1734"), (-0.0132, "-0.0132"), (1.00351, "1.004"), (12.3456, "12.35"), (1234.5, "1,234"),
    ],
)  # fmt: skip
def test_numbers_are_as_people_read_them(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_random_writes_batches_count_though_no_median_sees_them() -> None:
    free, dear = (shingling_cost.Cost(ratio, 0.01, 20_000, True) for ratio in (1.001, 1.1))
    median = shingling_cost.Cost(1.0, 0.005, 50_000, True)
    # 20 ns and 2 us of 50 us, with a noise of 0.5 and 0.4 per cent together.
    for worked, by_noise in ((free, 0.0625), (dear, 6.25)):
        assert shingling_cost._by_noise(*shingling_cost._worked(median, worked)) == pytest.approx(
            by_noise, rel=0.01
        )
    assert (
        shingling_cost._by_noise(*shingling_cost._worked(shingling_cost.Cost(1.0, 0.2, 50_000, True), free))
        is None
    )


@pytest.mark.parametrize(("spread", "runs"), [(0.01, 1), (0.06, 4)])
def test_a_comparison_goes_on_until_it_is_quiet(spread: float, runs: int) -> None:
    class Again:
        ran = 0

        def compare(self, *_: object) -> dict[str, object]:
            self.ran += 1
            worked = compared(1.3, spread)
            return compared(1.3, spread) | {
                f"{side}_processor_ns": worked[f"{side}_ns"] for side in shingling_cost.SIDES
            }

    tool = Again()
    found = shingling_cost.compare(cast(Tool, tool), "write-random", 4096, 1, (60, ROUNDS))
    assert tool.ran == runs
    assert len(found["shingled_ns"]) == len(found["again_processor_ns"]) == ROUNDS * runs


def test_what_every_read_mode_gives_follows_from_the_oracle() -> None:
    disk = two_tracks(16, 16, Fraction(0))
    # The second write destroys sectors 16 to 23 of the other track, which was written first.
    source, by = oracle.surface_after(disk, [(16, 16), (0, 8)])

    def given(mode: str, block: int) -> bytes | None:
        return read_modes.expected(mode, block, source, by)

    second = b"".join(read_modes.content(2, sector) for sector in range(8))
    assert given("data", 0) == given("development", 0) == given("data", 2) == second
    assert given("performance", 2) == bytes(read_modes.BLOCK)
    assert given("development", 2) is given("development-performance", 2) is None
    whole = b"".join(read_modes.content(1, sector) for sector in range(24, 32))
    assert {given(mode, 3) for mode in read_modes.NAMES} == {whole}
    assert given("data", 1) == bytes(read_modes.BLOCK)


def test_read_modes_through_a_block_device(
    tmp_path: Path, need_root: None, need_tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    need_native()
    need_fuse()
    for name in ("nbdfuse", "losetup"):
        need_tool(name)
    measured = read_modes.w2(Tool(tmp_path))
    assert measured.figures == dict.fromkeys(read_modes.NAMES.values(), 0.0)
    # A layer that took one track too few would not pass.
    draw = oracle.random_disk
    monkeypatch.setattr(oracle, "random_disk", lambda seed: replace(draw(seed), k=draw(seed).k + 1))
    assert all(cast(float, differ) > 0 for differ in read_modes.w2(Tool(tmp_path)).figures.values())
