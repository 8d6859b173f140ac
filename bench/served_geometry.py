"""Accuracy of `skylight geometry extract` on a served disk, through a real kernel.

Small disks, one of each layout, are served with --timing model, made block devices by nbdfuse and a loop
device, and extracted with reads alone, in real time. Each result is compared with its profile: track sizes
exact, zone edges within 1 %, skew within 2 %, the layout. A loop device has sectors of 4 KiB, and all tracks
here are whole numbers of them. The error of the head switch is printed without a target: it rests on commands
that just miss their sector, and a busy host shifts those.

A busy machine does not invalidate results, but costs reads and time. Needs root.

``bench/served_geometry.py [--layouts A,B]``; exit code 1 when a disk is not right.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skylight import _native
from skylight.geometry.result import read_geometry
from skylight.geometry.scoring import score, truth_of
from skylight.reproduce.rows import NotMeasured
from skylight.reproduce.swd.attached_drive import SKYLIGHT, disk

LAYOUTS = ("single", "cylinder", "surface-serpentine", "hybrid-serpentine", "horizontal-zones")
HEAD_SWITCH_MS = 0.8
# Tracks of a surface and their sectors, zone by zone: whole blocks of 4 KiB.
ZONES = ((611, 2400), (503, 2240), (557, 2080), (467, 1904), (593, 1760))
# A step takes 0.56 ms, a full stroke 6.2 ms.
SEEK_MS = [(2**n, 0.45 + 0.11 * 2 ** (n / 2)) for n in range(13)]
PROFILE = """
schema = 1
name = "small"
capacity = {capacity}

[mechanics]
rpm = 7200
head_switch = "{switch} ms"
seek.points = [{seek}]

[geometry]
surfaces = {surfaces}
layout = "{layout}"
{group}
track_skew = "0.9 ms"
head_skew = "1.1 ms"
zone = [{zones}]

[interface]
queue_depth = 31
schedule = "shortest-positioning-first"
command_overhead = "0.15 ms"

[layer]
kind = "conventional"
"""


def text_of(layout: str) -> str:
    """The profile of a small disk."""
    surfaces = 1 if layout == "single" else 2
    return PROFILE.format(
        capacity=surfaces * sum(tracks * sectors for tracks, sectors in ZONES) * 512,
        seek=", ".join(f'[{tracks}, "{ms:.4f} ms"]' for tracks, ms in SEEK_MS),
        zones=", ".join(
            f"{{ tracks = {tracks}, sectors_per_track = {sectors} }}" for tracks, sectors in ZONES
        ),
        switch=HEAD_SWITCH_MS,
        surfaces=surfaces,
        layout="surface-serpentine" if layout == "single" else layout,
        group="group_tracks = 100" if layout == "hybrid-serpentine" else "",
    )


def right(layout: str) -> bool:
    """Extracts one disk and prints the result."""
    text = text_of(layout)
    truth = truth_of(json.loads(_native.profile_check(text, "disk.toml")))
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.monotonic()
        profile = folder / "disk.toml"
        profile.write_text(text, encoding="utf-8")
        with disk(str(profile), folder, "--timing", "model") as device:
            command = [*SKYLIGHT, "geometry", "extract", str(device), "--out", str(folder / "found")]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{layout}: not extracted: {done.stderr.strip().splitlines()[-1]}")
        found = read_geometry(folder / "found/geometry.json")
    mark = score(found, truth)
    switch = "not seen apart"
    if found.head_switch_ns is not None:
        switch = f"{found.head_switch_ns / 1e6:.2f} ms of {HEAD_SWITCH_MS}"
    print(
        f"{'WRONG: ' + ', '.join(mark.wrong) if mark.wrong else 'right':7} {layout:18} found {found.layout},"
        f" {found.surfaces} heads, {len(found.zones)} zones, skew off"
        f" {'none' if mark.skew_off is None else f'{100 * mark.skew_off:+.2f} %'}, head switch {switch},"
        f" {found.reads:,} reads, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return not mark.wrong


def main() -> int:
    """Extracts the disks that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="layouts, separated by commas")
    layouts = parser.parse_args().layouts.split(",")
    if unknown := sorted(set(layouts) - set(LAYOUTS)):
        parser.error(f"{unknown[0]} is no layout; give some of {', '.join(LAYOUTS)}")
    try:
        results = [right(layout) for layout in layouts]  # each is printed, whatever the others are
    except NotMeasured as why:
        sys.exit(str(why))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
