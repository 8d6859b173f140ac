"""Zone tables of `skylight.geometry` on synthetic disks: surfaces that differ in density, recurring track
grids, and late reads at an edge."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from one_test import few
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.evidence import F64, TargetFacts
from skylight.geometry import density_pattern, layout_models, verify
from skylight.geometry.clock import Platter
from skylight.geometry.result import Geometry
from skylight.geometry.run import measure
from skylight.geometry.scoring import Score, score, truth_of
from skylight.geometry.track_size import Grid
from skylight.geometry.verify import Skews, verify_grid

MECHANICS = """
schema = 1
name = "made"
capacity = "{capacity} MB"
[mechanics]
rpm = 7200
head_switch = "0.8 ms"
[mechanics.seek.fitted]
constant = "0.7 ms"
root = "0.0185 ms"
linear = "0.00004 ms"
[geometry]
surfaces = {heads}
layout = "horizontal-zones"
track_skew = "0.9 ms"
head_skew = "1.2 ms"
surface_density = {density}
zone = [{zones}]
[interface]
queue_depth = 1
command_overhead = "0.15 ms"
[jitter]
relative = 0.01
absolute = "0.1 ms"
outlier_rate = 0.003
outlier = "30 ms"
[layer]
kind = "conventional"
"""


def text_of(density: list[float], tracks: list[int], sectors: list[int]) -> str:
    """A disk with horizontal zones of the given tracks and sectors per track, and the surfaces' densities."""
    rows = ", ".join(
        f"{{ tracks = {number}, sectors_per_track = {size} }}"
        for number, size in zip(tracks, sectors, strict=True)
    )
    whole = sum(number * size for number, size in zip(tracks, sectors, strict=True)) * len(density) * 512
    return MECHANICS.format(
        capacity=int(0.985 * whole) // 10**6, heads=len(density), density=density, zones=rows
    )


def resonant(rng: np.random.Generator) -> str:
    """A disk whose zones have such round numbers of tracks that grids often recur at the same sectors."""
    heads, zones = int(rng.integers(2, 9)), int(rng.integers(3, 7))
    density = rng.uniform(0.95, 1.05, heads)
    if rng.random() < 0.5:
        density[::2] = 1.0
    tracks = int(rng.choice([720, 960, 1000, 1200])) + (rng.random(zones) < 0.25)
    base = int(rng.choice([1000, 1200, 1440, 1600]))
    sizes = [round(base * (1 - 0.06 * zone)) for zone in range(zones)]
    return text_of((density / density.mean()).round(3).tolist(), tracks.tolist(), sizes)


def extracted(text: str, seed: int, out: Path) -> tuple[Geometry, Score]:
    """The geometry of a disk through a recording, and its score."""
    drive = _native.SimDrive(text, "made.toml", seed)
    facts = TargetFacts("sim", "sim:made.toml", drive.size_bytes, drive.block_bytes)
    found = measure(SimEngine(drive, facts), out / "recording")
    return found, score(found, truth_of(json.loads(_native.profile_check(text, "made.toml"))))


@pytest.mark.parametrize("number", few([0, 1], of=range(4)))
def test_zones_are_exact_where_grids_recur(number: int, rng: np.random.Generator, tmp_path: Path) -> None:
    text = [resonant(rng) for _ in range(number + 1)][-1]
    found, graded = extracted(text, number, tmp_path)
    assert graded.tracks and graded.exact_edges == len(found.zones), (text, found.zones)
    # The layout stays unknown where the sizes do not determine it.
    assert found.layout in (None, layout_models.HORIZONTAL), (text, found.layout)


def test_zones_between_two_of_one_grid_are_found_though_all_nodes_lie_in_it(tmp_path: Path) -> None:
    density = [1.002, 0.984, 1.002, 1.014, 1.002, 0.992, 1.002]
    sizes = [round(1440 * (1 - 0.06 * zone)) for zone in range(6)]
    found, graded = extracted(text_of(density, [1200, 1200, 1200, 1201, 1200, 1200], sizes), 351, tmp_path)
    assert graded.tracks and graded.exact_edges == len(found.zones) and found.surfaces == 7


def test_surfaces_of_similar_density_are_not_a_single_surface(tmp_path: Path) -> None:
    sizes = [1000 - 60 * zone for zone in range(6)]
    text = text_of([1.003, 0.997], [1200, 1201, 1200, 1200, 1201, 1201], sizes)
    found, graded = extracted(text, 86, tmp_path)
    assert graded.tracks and graded.exact_edges == len(found.zones) and graded.skew
    assert found.layout != layout_models.SINGLE, found.notes
    assert found.layout is not None or "number of heads" in found.notes[-1]


@pytest.mark.parametrize(
    ("tracks", "is_found"), few([(6, True), (2, False)], of=[(11, True), (6, True), (2, False)])
)
def test_a_last_zone_of_few_tracks_is_found(tracks: int, is_found: bool, tmp_path: Path) -> None:
    whole = text_of([1.0, 1.0], [1000, 1000, 1000], [1000, 940, 880])
    end = (2000 * 1000 + 2000 * 940 + tracks * 880) * 512
    text = "\n".join(
        f"capacity = {end}" if line.startswith("capacity") else line for line in whole.split("\n")
    )
    found, graded = extracted(text.replace("surface_density = [1.0, 1.0]\n", ""), tracks, tmp_path)
    assert graded.tracks is is_found and graded.edges is is_found, found.zones
    assert any("too few" in note for note in found.notes) is not is_found


class TestDensityPattern:
    def test_sizes_rounded_to_blocks_still_determine_the_heads_on_short_tracks(self) -> None:
        density = [1.01, 0.974, 0.961, 1.04, 0.977, 1.03, 0.987, 0.962, 0.993, 1.02, 1.03]
        runs = []
        for zone, size in enumerate([1344, 1187, 1030, 874, 717, 560]):
            order = density if zone % 2 == 0 else density[::-1]
            runs += [(67_066, round(size * part / 8) * 8) for part in order]
        found = density_pattern.pattern(runs[:-1])
        assert found is not None and found.heads == 11

    def test_a_run_of_two_passes_counts_as_two_though_most_runs_are_such(self) -> None:
        runs = [(1441, 1208), (2882, 1216), (2882, 1184), (2882, 1144), (1441, 1136)]
        usual, sizes = density_pattern.expanded(runs)
        assert usual == 1441 and sizes == [1208, 1216, 1216, 1184, 1184, 1144, 1144, 1136]

    def test_the_next_pass_has_the_tracks_of_the_last_run(self) -> None:
        assert density_pattern.pass_tracks([(1000, 900), (1000, 890), (2002, 880)]) == 1001
        assert density_pattern.pass_tracks([(1000, 900), (1000, 890), (730, 880)]) == 1000


class TestVerifyGrid:
    """With synthetic phase jumps: no disk is read."""

    platter = cast(Platter, SimpleNamespace(sectors=10**9, clock=SimpleNamespace(sigma=0.005)))
    skews = Skews.of(np.array([0.1]))
    grid = Grid(1000, 0)

    def test_one_late_read_of_four_causes_more_reads_and_no_rejection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = 0

        def jumps(platter: Platter, name: str, firsts: list[int], track: float) -> F64:
            nonlocal calls
            calls += 1
            return np.array([0.1, -0.01]) if calls == 1 else np.full(len(firsts), 0.1)

        monkeypatch.setattr(verify, "phase_jumps", jumps)
        assert verify_grid(self.platter, self.grid, 500_000, -1, self.skews)
        assert calls > 2

    @pytest.mark.parametrize(("past", "there"), [(0, True), (500, True), (1500, False), (20_000, False)])
    def test_a_grid_that_ended_a_track_ago_is_rejected(
        self, past: int, there: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        edge = 500_000

        def jumps(platter: Platter, name: str, firsts: list[int], track: float) -> F64:
            return np.array([0.1 if first <= edge else 0.0 for first in firsts])

        monkeypatch.setattr(verify, "phase_jumps", jumps)
        assert bool(verify_grid(self.platter, self.grid, edge + past, -1, self.skews)) is there


def test_groups_of_whole_zones_are_a_surface_serpentine() -> None:
    text = text_of([1.0, 1.0], [1000, 1001], [1000, 900]).replace("horizontal-zones", "hybrid-serpentine")
    for group, layout in (
        (1000, layout_models.HYBRID),
        (1001, layout_models.SURFACE),
        (2000, layout_models.SURFACE),
    ):
        given = text.replace("surface_density = [1.0, 1.0]", f"group_tracks = {group}")
        assert truth_of(json.loads(_native.profile_check(given, "made.toml"))).layout == layout
