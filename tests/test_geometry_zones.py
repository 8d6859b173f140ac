"""The zone tables of `skylight.geometry` on made-up disks: zones of surfaces that differ in density, whose
grids of tracks come again, and reads that come late where an edge is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.evidence import TargetFacts
from skylight.geometry import holds as holding
from skylight.geometry import strokes, walk
from skylight.geometry.clock import F64, Platter
from skylight.geometry.holds import Skews, holds
from skylight.geometry.run import measure
from skylight.geometry.scoring import Marks, marks, truth_of
from skylight.geometry.survey import Grid
from skylight.geometry.table import Geometry

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
    """A disk of horizontal zones of some tracks and sectors a track, on surfaces of some densities."""
    rows = ", ".join(
        f"{{ tracks = {number}, sectors_per_track = {size} }}"
        for number, size in zip(tracks, sectors, strict=True)
    )
    whole = sum(number * size for number, size in zip(tracks, sectors, strict=True)) * len(density) * 512
    return MECHANICS.format(
        capacity=int(0.985 * whole) // 10**6, heads=len(density), density=density, zones=rows
    )


def resonant(rng: np.random.Generator) -> str:
    """A disk whose zones have so round numbers of tracks that grids often come again at the same sectors."""
    heads, zones = int(rng.integers(2, 9)), int(rng.integers(3, 7))
    density = rng.uniform(0.95, 1.05, heads)
    if rng.random() < 0.5:
        density[::2] = 1.0
    tracks = int(rng.choice([720, 960, 1000, 1200])) + (rng.random(zones) < 0.25)
    base = int(rng.choice([1000, 1200, 1440, 1600]))
    sizes = [round(base * (1 - 0.06 * zone)) for zone in range(zones)]
    return text_of((density / density.mean()).round(3).tolist(), tracks.tolist(), sizes)


def extracted(text: str, seed: int, out: Path) -> tuple[Geometry, Marks]:
    """The geometry of a disk through a recording, and how right it is."""
    drive = _native.SimDrive(text, "made.toml", seed)
    facts = TargetFacts("sim", "sim:made.toml", drive.size_bytes, drive.block_bytes)
    found = measure(SimEngine(drive, facts), out / "recording")
    return found, marks(found, truth_of(json.loads(_native.profile_check(text, "made.toml"))))


@pytest.mark.parametrize("number", range(4))
def test_zones_are_exact_where_grids_come_again(
    number: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    text = [resonant(rng) for _ in range(number + 1)][-1]
    found, mark = extracted(text, number, tmp_path)
    assert mark.tracks and mark.exact_edges == len(found.zones), (text, found.zones)
    # What the sizes do not tell is not told.
    assert found.layout in (None, walk.HORIZONTAL), (text, found.layout)


def test_zones_between_two_of_one_grid_are_seen_though_all_nodes_lie_in_it(tmp_path: Path) -> None:
    density = [1.002, 0.984, 1.002, 1.014, 1.002, 0.992, 1.002]
    sizes = [round(1440 * (1 - 0.06 * zone)) for zone in range(6)]
    found, mark = extracted(text_of(density, [1200, 1200, 1200, 1201, 1200, 1200], sizes), 351, tmp_path)
    assert mark.tracks and mark.exact_edges == len(found.zones) and found.surfaces == 7


def test_surfaces_that_hardly_differ_are_no_single_surface(tmp_path: Path) -> None:
    sizes = [1000 - 60 * zone for zone in range(6)]
    text = text_of([1.003, 0.997], [1200, 1201, 1200, 1200, 1201, 1201], sizes)
    found, mark = extracted(text, 86, tmp_path)
    assert mark.tracks and mark.exact_edges == len(found.zones) and mark.skew
    assert found.layout != walk.SINGLE, found.notes
    assert found.layout is not None or "number of heads" in found.notes[-1]


@pytest.mark.parametrize(("tracks", "told"), [(11, True), (6, True), (2, False)])
def test_a_last_zone_of_few_tracks_is_seen(tracks: int, told: bool, tmp_path: Path) -> None:
    whole = text_of([1.0, 1.0], [1000, 1000, 1000], [1000, 940, 880])
    end = (2000 * 1000 + 2000 * 940 + tracks * 880) * 512
    text = "\n".join(
        f"capacity = {end}" if line.startswith("capacity") else line for line in whole.split("\n")
    )
    found, mark = extracted(text.replace("surface_density = [1.0, 1.0]\n", ""), tracks, tmp_path)
    assert mark.tracks is told and mark.edges is told, found.zones
    assert any("too few" in note for note in found.notes) is not told


class TestStrokes:
    def test_sizes_rounded_to_blocks_still_tell_the_heads_on_short_tracks(self) -> None:
        density = [1.01, 0.974, 0.961, 1.04, 0.977, 1.03, 0.987, 0.962, 0.993, 1.02, 1.03]
        runs = []
        for zone, size in enumerate([1344, 1187, 1030, 874, 717, 560]):
            order = density if zone % 2 == 0 else density[::-1]
            runs += [(67_066, round(size * part / 8) * 8) for part in order]
        found = strokes.pattern(runs[:-1])
        assert found is not None and found.heads == 11

    def test_two_strokes_of_one_size_are_two_though_most_runs_are_such(self) -> None:
        runs = [(1441, 1208), (2882, 1216), (2882, 1184), (2882, 1144), (1441, 1136)]
        usual, sizes = strokes.expanded(runs)
        assert usual == 1441 and sizes == [1208, 1216, 1216, 1184, 1184, 1144, 1144, 1136]

    def test_the_strokes_of_a_zone_have_the_tracks_of_the_one_before(self) -> None:
        assert strokes.stroke_tracks([(1000, 900), (1000, 890), (2002, 880)]) == 1001
        assert strokes.stroke_tracks([(1000, 900), (1000, 890), (730, 880)]) == 1000


class TestHolds:
    """Against made-up jumps: no disk is read."""

    platter = cast(Platter, SimpleNamespace(sectors=10**9, clock=SimpleNamespace(sigma=0.005)))
    skews = Skews.of(np.array([0.1]))
    grid = Grid(1000, 0)

    def test_one_late_read_of_four_asks_for_more_and_denies_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = 0

        def jumps(platter: Platter, name: str, firsts: list[int], track: float) -> F64:
            nonlocal calls
            calls += 1
            return np.array([0.1, -0.01]) if calls == 1 else np.full(len(firsts), 0.1)

        monkeypatch.setattr(holding, "jumps", jumps)
        assert holds(self.platter, self.grid, 500_000, -1, self.skews)
        assert calls > 2

    @pytest.mark.parametrize(("past", "there"), [(0, True), (500, True), (1500, False), (20_000, False)])
    def test_a_grid_that_ended_a_track_ago_holds_no_more(
        self, past: int, there: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        edge = 500_000

        def jumps(platter: Platter, name: str, firsts: list[int], track: float) -> F64:
            return np.array([0.1 if first <= edge else 0.0 for first in firsts])

        monkeypatch.setattr(holding, "jumps", jumps)
        assert bool(holds(self.platter, self.grid, edge + past, -1, self.skews)) is there


def test_groups_of_whole_zones_are_a_surface_serpentine() -> None:
    text = text_of([1.0, 1.0], [1000, 1001], [1000, 900]).replace("horizontal-zones", "hybrid-serpentine")
    for group, layout in ((1000, walk.HYBRID), (1001, walk.SURFACE), (2000, walk.SURFACE)):
        given = text.replace("surface_density = [1.0, 1.0]", f"group_tracks = {group}")
        assert truth_of(json.loads(_native.profile_check(given, "made.toml"))).layout == layout
