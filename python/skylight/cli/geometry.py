"""``skylight geometry extract|fit``: the tracks of a disk, from the timing of reads alone.

``skylight.geometry`` does the work; this verb opens the target, prints the result and writes it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skylight.cli.completion import targets
from skylight.cli.console import DeviceProgress, headline, line, table
from skylight.cli.target_and_folder_checks import check_results_folder
from skylight.engines import Engine, open_target, parse_target
from skylight.errors import Interrupted, KeepError, SkylightError, Undetermined, UsageError
from skylight.recording import RECORDING_DIR, Recording, write_whole
from skylight.units import format_capacity, format_count, format_duration, format_seconds, format_size

if TYPE_CHECKING:
    from skylight.geometry.fit import Fitted, FittedZone
    from skylight.geometry.result import Geometry

GEOMETRY_NAME = "geometry.json"
# Chosen: a fit that follows sizes of several hundred sectors, rounded to whole ones, is ten times nearer.
SAME_CAPACITY = 0.01
SHOWN_ZONES = 12

_EPILOG = """\b
Examples:
  skylight geometry extract sim:st4000nc001 --out found
  skylight geometry extract /dev/sdX --out sdX        reads only, in minutes
  skylight geometry extract recording:found           again from its evidence
  skylight geometry extract fio-log:logs/ --json
  skylight geometry fit found/geometry.json --zones 18 --degree 13
"""


@click.group(epilog=_EPILOG, short_help="Find a disk's tracks by reads alone; make a profile of it.")
def geometry() -> None:
    """Find a disk's tracks, zones, skews, layout and seek curve from the timing of reads; make a profile."""


@geometry.command(epilog=_EPILOG, short_help="Find the geometry of a disk with reads alone.")
@click.argument("target", shell_complete=targets)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the recording and geometry.json go. Default: skylight-geometry.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the geometry as JSON, and nothing else.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=1, metavar="N", show_default=True,
    help="Seed of the offsets of the first reads, and of an emulated drive's jitter.",
)  # fmt: skip
@click.option(
    "--access-from", type=click.IntRange(0, 2**40), default=79_000, metavar="TRACK", show_default=True,
    help="First of the 100 successive tracks whose access times show the skew (Figure 12).",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Resume an interrupted run in the same DIR.")
def extract(target: str, out: Path | None, as_json: bool, seed: int, access_from: int, resume: bool) -> None:
    """Find the geometry of TARGET with reads alone; nothing is ever written to it.

    TARGET is sim:NAME, a device or file, recording:DIR of an earlier extraction, or fio-log:FILE."""
    from skylight.geometry import run
    from skylight.geometry.result import text_of

    parsed = parse_target(target)
    folder = Path("skylight-geometry") if out is None else out
    kept = parsed.kind in ("recording", "fio-log")
    if kept and resume:
        raise UsageError(f"--resume: {target} is already measured; omit --resume")
    if parsed.kind == "recording":
        found = run.of_recording(Path(parsed.name))
    elif parsed.kind == "fio-log":
        from skylight.engines.fio_log import read_logs
        from skylight.geometry.from_logs import of_logs

        found = of_logs(read_logs(parsed.name))
    else:
        found = _measured(target, folder, seed, access_from, resume, as_json)
    text = text_of(found)
    if not kept or out is not None:
        check_results_folder(folder)
        _write(folder, text)
    if as_json:
        click.echo(text, nl=False)
    else:
        _print(found)
        if not kept or out is not None:
            line()
            line(f"Geometry: {folder / GEOMETRY_NAME}")
    if found.is_empty:
        raise Undetermined(f"{found.target}: no tracks were found by its reads; the notes say why")


def _write(folder: Path, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / GEOMETRY_NAME, text)
    except OSError as error:
        raise KeepError(
            f"{folder}: the geometry cannot be written: {error.strerror}; choose another --out DIR"
        ) from error


def _measured(target: str, folder: Path, seed: int, access_from: int, resume: bool, quiet: bool) -> Geometry:
    """A live target: prints the plan, runs with progress, and after Ctrl-C prints how to resume."""
    from skylight.geometry import run

    where = folder / RECORDING_DIR
    begun = Recording.is_begun(where)
    if begun and not resume:
        raise UsageError(f"{where}: already contains a recording; use --resume or choose another --out")
    if resume and not begun:
        raise UsageError(f"{folder}: holds no run to resume; name its folder with --out, or omit --resume")
    check_results_folder(folder)
    with closing(open_target(target, seed=seed)) as engine:
        if not quiet:
            _print_plan(engine)
        try:
            with DeviceProgress() as progress:
                return run.measure(
                    engine, where, seed=seed, access_from=access_from, resume=begun, progress=progress.advance
                )
        except KeyboardInterrupt as stop:
            raise Interrupted(_resume_line()) from stop


def _print_plan(engine: Engine) -> None:
    from skylight.geometry.run import estimate

    facts = engine.describe()
    cost = estimate(facts)
    line(f"{facts.name}: {format_capacity(facts.size_bytes)}")
    line(
        f"  plan: about {format_count(cost.ios)} reads of one sector, {format_seconds(cost.device_seconds)}"
        " of device time; more on a disk with many zones"
    )
    line("  risk: none; nothing is written")


def _resume_line() -> str:
    arguments = [str(part) for part in click.get_current_context().find_root().obj or ()]
    more = [] if "--resume" in arguments else ["--resume"]
    again = shlex.join(["skylight", *(arguments or ["geometry", "extract"]), *more])
    return f"interrupted; the measurements so far are kept, resume with: {again}"


def _print(found: Geometry) -> None:
    """Prints the result as a table of properties and one of zones."""
    rows = [
        ("Rotation", _turn_words(found.rotation_ns)),
        ("Layout", "unknown" if found.layout is None else _layout_words(found)),
        ("Surfaces", "unknown" if found.surfaces is None else format_count(found.surfaces)),
        ("Track skew", _skew_words(found, "track_skew")),
        ("Head skew", _skew_words(found, "head_skew")),
        (
            "Head switch",
            "same as a step"
            if found.layout and found.head_switch_ns is None
            else _duration(found.head_switch_ns),
        ),
        ("Zones", format_count(len(found.zones)) if found.zones else "unknown"),
    ]
    if found.reads:  # none for logs of other tools
        for_zones = f"{format_count(found.zone_reads)} of them for the zones"
        rows.append(("Reads", f"{format_count(found.reads)}, {for_zones}"))
    if found.seek is not None and found.seek.points:
        longest = found.seek.points[-1]
        rows.insert(
            6, ("Longest seek", f"{_duration(longest[1])} over {format_count(round(longest[0]))} tracks")
        )
    for place in found.places:
        where = f"Tracks at {format_capacity(place.first_byte)}"
        skew = "" if place.skew_ns is None else f", skew {_duration(place.skew_ns)}"
        rows.append((where, f"{format_size(round(place.track_bytes))}{skew}"))
    headline(f"{found.target}: {_found_words(found)}")
    table(("Property", "Found"), rows)
    shown = found.zones if len(found.zones) <= SHOWN_ZONES else found.zones[:SHOWN_ZONES]
    if shown:
        table(
            ("Zone", "First sector", "Sectors/track", "Tracks", "Edge within"),
            [
                (str(number), f"{zone.first_sector:,}", f"{zone.sectors_per_track:,}", f"{zone.tracks:,}",
                 "exact" if zone.doubt_sectors == 0 else f"{zone.doubt_sectors:,} sectors")
                for number, zone in enumerate(shown)
            ],
            right=(0, 1, 2, 3),
        )  # fmt: skip
    if len(shown) < len(found.zones):
        line(f"{len(found.zones) - len(shown)} more zones are in {GEOMETRY_NAME}")
    for note in found.notes:
        line(f"note: {note}")


def _found_words(found: Geometry) -> str:
    """The result in a few words."""
    if found.places and not found.zones:
        return f"rotation and tracks of {format_count(len(found.places))} regions, from logs"
    return f"{_layout_words(found)}, {len(found.zones)} recording zones"


def _turn_words(ns: float | None) -> str:
    return "unknown" if ns is None else f"{ns / 1e6:.4f} ms, {60e9 / ns:,.1f} rpm"


def _duration(ns: float | None) -> str:
    return "unknown" if ns is None else format_duration(ns)


def _skew_words(found: Geometry, name: str) -> str:
    skew = getattr(found, name)
    if skew is None:
        return "unknown"
    share = "" if not found.rotation_ns else f", {skew.ns / found.rotation_ns:.4f} revolutions"
    return f"{format_duration(skew.ns)} (+- {100 * skew.error_ns / skew.ns:.1f} %){share}"


def _layout_words(found: Geometry) -> str:
    if found.layout is None:
        return "layout unknown"
    words = found.layout
    if found.serpentine is not None:
        words += ", alternating direction" if found.serpentine else ", one direction"
    return words if found.group_tracks is None else f"{words} of {found.group_tracks:,} tracks"


@geometry.command(epilog=_EPILOG, short_help="Fit zones to a geometry, and write a profile.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-d", "--degree", type=click.IntRange(0, 60), default=13, metavar="D", show_default=True,
    help="Degree of the polynomial fitted to the track sizes.",
)  # fmt: skip
@click.option(
    "-n", "--zones", type=click.IntRange(1, 100_000), default=18, metavar="N", show_default=True,
    help="Number of zones derived from the polynomial.",
)  # fmt: skip
@click.option(
    "--min-outlier", type=click.IntRange(1), metavar="SECTORS",
    help="Exclude tracks with fewer sectors from the fit. Default: none.",
)  # fmt: skip
@click.option(
    "--max-outlier", type=click.IntRange(1), metavar="SECTORS",
    help="Exclude tracks with more sectors from the fit. Default: none.",
)  # fmt: skip
@click.option(
    "--measured", is_flag=True, help="Write the measured zones to the profile, not the fitted ones."
)
@click.option("--no-graphs", is_flag=True, help="Draw no figures.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR",
    help="Where the profile and the figures go. Default: the folder of FILE.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Name of the profile. Default: the name of the file's folder.")
def fit(
    file: Path, degree: int, zones: int, min_outlier: int | None, max_outlier: int | None, measured: bool,
    no_graphs: bool, out: Path | None, name: str | None,
) -> None:  # fmt: skip
    """Fit zones to the geometry in FILE with a polynomial, write a profile, and draw both.

    The options are those of the emulator's paper (UCSC-SSRC-12-05, Table 1). The exit code is 1 if the
    profile's capacity is not that of the disk."""
    from skylight.geometry.fit import FitOptions
    from skylight.geometry.fit import fit as fitted_to
    from skylight.geometry.profile import measured_zones, profile_text, safe_name
    from skylight.geometry.result import read_geometry

    found = read_geometry(file)
    fitted = fitted_to(found, FitOptions(degree, zones, min_outlier, max_outlier))
    folder = file.parent if out is None else out
    check_results_folder(folder)
    called = safe_name(name if name is not None else file.absolute().parent.name)
    taken = measured_zones(found) if measured else fitted.zones
    profile = folder / f"{called}.toml"
    _keep_profile(profile, profile_text(found, taken, called))
    _print_fit(fitted)
    if not no_graphs:
        from skylight.geometry.figures import draw, save

        for path in save(draw(found, fitted), folder):
            line(f"Figure: {path}")
    line(f"Profile: {profile}")
    _check_capacity(found, taken, fitted, profile)


class Unlike(SkylightError):
    """A profile that does not represent the disk it was fitted to."""


def _check_capacity(found: Geometry, zones: Sequence[FittedZone], fitted: Fitted, profile: Path) -> None:
    """Raises if the zones of a profile hold more or less than the disk by over `SAME_CAPACITY`."""
    holds = sum(zone.tracks * zone.sectors_per_track for zone in zones) * found.sector_bytes
    if abs(holds / found.size_bytes - 1) <= SAME_CAPACITY:
        return
    total = sum(zone.tracks for zone in fitted.zones)
    excluded = ""
    if fitted.outliers:
        excluded = f"{100 * fitted.outliers / total:.0f} % of its tracks were excluded as outliers; "
    raise Unlike(
        f"{profile}: holds {format_capacity(holds)} of the disk's {format_capacity(found.size_bytes)};"
        f" {excluded}widen --min-outlier and --max-outlier, raise --zones, or give --measured"
    )


def _keep_profile(path: Path, text: str) -> None:
    """Writes a profile, after checking it."""
    from skylight import _native

    try:
        _native.profile_check(text, str(path))
    except _native.ProfileError as error:
        raise UsageError(f"the geometry is not a valid drive: {error}") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise KeepError(f"{path}: cannot be written: {error.strerror}; choose another --out DIR") from error


def _print_fit(fitted: Fitted) -> None:
    """Prints the zones of the fit, and the skew."""
    table(
        ("Zone", "Tracks", "Sectors/track"),
        [(str(n), f"{zone.tracks:,}", f"{zone.sectors_per_track:,}") for n, zone in enumerate(fitted.zones)],
        right=(0, 1, 2),
    )
    line(f"The polynomial deviates from the measured sizes by {fitted.rms_sectors:.1f} sectors (RMS).")
    if fitted.outliers:
        line(f"{fitted.outliers:,} tracks were excluded as outliers.")
    if fitted.skew_tracks is not None:
        line(f"Skew: 2 pi / {fitted.skew_tracks:.2f}, or one revolution per {fitted.skew_tracks:.2f} tracks.")
