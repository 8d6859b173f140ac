"""``skylight image check|info|repair|compact PATH``: an image that is not being served.

The native module does the work; this verb prints the result.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import click
from click.decorators import FC

from skylight.cli.console import ByteProgress, headline, line, table
from skylight.cli.drives import line_json
from skylight.errors import serve_error
from skylight.units import format_capacity, format_count, format_counted, format_size

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(
    epilog="\b\nExamples:\n  skylight image info smr.img\n  skylight image check smr.img\n"
    "  skylight image repair smr.img\n  skylight image compact smr.img\n"
)
def image() -> None:
    """Images of drives: show, check, repair or compact one."""


def _arguments(command: FC) -> FC:
    """The arguments that all verbs on an image share."""
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="Print as JSON."),
        click.option(
            "--cache-on", type=_FILE, help="File or device of the drive's flash cache, if it is separate."
        ),
        click.argument("path", type=_FILE),
    ):
        command = decorate(command)
    return command


def _asked(ask: Callable[[], Any]) -> Any:
    """Calls the native module and converts its errors to those of the command line."""
    from skylight import _native

    try:
        return ask()
    except _native.ServeError as error:
        raise serve_error(error) from error


def _show(info: dict[str, Any]) -> None:
    """Prints the properties of an image as a table."""
    stored = f"{format_size(info['stored_bytes'])} of {format_size(info['len_bytes'])}"
    rows = [
        ("Drive", f"{info['drive']}, {format_capacity(info['capacity_bytes'])}"),
        ("Format", str(info["format"])),
        ("Stored", stored),
        ("Shut down", "cleanly" if info["clean"] else "not cleanly; the next start recovers it"),
        (
            "In the cache",
            f"{format_size(info['cached_bytes'])}, {format_counted(info['cached_extents'], 'extent')}",
        ),
        ("Bands moved", format_count(info["moved_bands"])),
        ("Checksums", "of all data" if info["checksums"] else "no data checksums"),
        ("Checkpoint", f"{info['generation']}, {format_count(info['tags'])} tags after it"),
    ]
    if info["refused_tags"]:
        rows.append(("Lost in a power cut", f"{format_count(info['refused_tags'])} tags, as permitted"))
    if shingled := info.get("shingled"):
        rows += _shingled_rows(shingled)
    table(("", ""), rows)


def _shingled_rows(disk: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows of a raw shingled disk."""
    zones = disk["zones"]
    sizes = f"{zones[0]['sectors_per_track']} to {zones[-1]['sectors_per_track']} sectors"
    tracks = f"{format_count(disk['tracks'])} on each of {disk['surfaces']} surfaces, {disk['layout']}"
    overwritten = [
        format_counted(disk["overwritten_sectors"], "sector"),
        format_counted(disk["overwritten_fragments"], "fragment"),
        f"{format_counted(disk['writes'], 'write')} so far",
    ]
    rows = [
        ("A write covers", format_counted(disk["width_tracks"], "track")),
        ("Tracks", f"{tracks}, {sizes} in {len(zones)} recording zones"),
        ("Overwritten", ", ".join(overwritten)),
    ]
    if disk["band_tracks"] is not None:
        rows.append(
            (
                "Bands",
                f"{disk['band_tracks']} tracks, {100 * disk['efficiency']:.2f} % of the tracks hold data",
            )
        )
    return rows


@image.command(epilog="\b\nExamples:\n  skylight image info smr.img\n  skylight image info smr.img --json\n")
@_arguments
def info(path: Path, cache_on: Path | None, as_json: bool) -> None:
    """Print which drive an image contains, and how it is stored."""
    from skylight import _native

    found = _asked(lambda: _native.image_info(path, cache_on))
    if as_json:
        line_json({"schema": 1, **found})
    else:
        _show(found)


def _scrubbed(path: Path, cache_on: Path | None) -> dict[str, Any]:
    """Compares all data with its checksums, with a progress bar on standard error."""
    from skylight import _native

    progress = ByteProgress(f"{path}: comparing data with checksums")
    with progress:
        return cast("dict[str, Any]", _asked(lambda: _native.image_scrub(path, cache_on, progress.advance)))


def _wrong_lines(path: Path, scrubbed: dict[str, Any]) -> list[str]:
    """A line for each of the first wrong extents, and one for the rest."""
    wrong = scrubbed["wrong"]
    lines = [
        f"{path}: checksum mismatch: sectors {first} to {first + sectors - 1}; rewrite them, or restore "
        "them from a copy"
        for first, sectors in wrong
    ]
    if (more := scrubbed["wrong_extents"] - len(wrong)) > 0:
        total = format_count(scrubbed["wrong_sectors"])
        lines.append(f"{path}: and {format_count(more)} more extents, {total} wrong sectors in total")
    return lines


@image.command(
    short_help="Check an image without changing it.",
    epilog="\b\nExamples:\n  skylight image check smr.img\n  skylight image check smr.img --data\n"
    "  skylight image check smr.img --data --json\n",
)
@_arguments
@click.option("--data", is_flag=True, help="Also read all data and compare it with its checksums.")
def check(path: Path, cache_on: Path | None, as_json: bool, data: bool) -> None:
    """Check an image without changing it; exit code 1 if something is wrong.

    The check covers the image's own structures and, with --data, the data that the host wrote, if the image
    was created with checksums (skylight serve --checksums). Without checksums a change on the medium cannot
    be detected."""
    from skylight import _native

    found, problems = _asked(lambda: _native.image_check(path, cache_on))
    scrubbed = _scrubbed(path, cache_on) if data and found is not None else None
    wrong = _wrong_lines(path, scrubbed) if scrubbed is not None else []
    good = not problems and not wrong
    if as_json:
        words = {"schema": 1, "good": good, "problems": problems, "info": found}
        line_json(words if not data else {**words, "data": scrubbed})
    else:
        for problem in [*problems, *wrong]:
            line(problem)
        if scrubbed is not None:
            line(_scrub_words(scrubbed))
        headline(f"{path}: {'good' if good else 'damaged'}")
    if not good:
        raise click.exceptions.Exit(1)


@image.command(
    short_help="Rewrite what is damaged from its intact copy.",
    epilog="\b\nExamples:\n  skylight image repair smr.img\n  skylight image repair smr.img --accept-loss\n",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Accept the loss of durable data, so that the rest can be used. The image's structures are first "
    "copied to PATH.damaged-1, -2, ...",
)
@_arguments
def repair(path: Path, cache_on: Path | None, as_json: bool, accept_loss: bool) -> None:
    """Rewrite structures of which one of two copies is damaged; anything more only with --accept-loss.

    An image that has lost durable data is not served. Restore it from a copy. Without a copy, --accept-loss
    continues with the rest: data written since the last checkpoint may then read as older data."""
    from skylight import _native

    mended, lost, kept = _asked(lambda: _native.image_repair(path, cache_on, accept_loss))
    if as_json:
        kept_path = None if kept is None else str(kept)
        line_json({"schema": 1, "mended": mended, "lost": lost, "kept": kept_path})
        return
    for what in mended:
        line(f"{path}: {what}; rewritten from the intact copy")
    for what in lost:
        line(f"{path}: lost: {what}")
    if kept is not None:
        line(f"{path}: its former structures are kept in {kept}")
    headline(f"{path}: {'usable, without the lost data' if lost else 'good'}")


def _scrub_words(scrubbed: dict[str, Any]) -> str:
    """The result of the comparison as text."""
    wrong = format_count(scrubbed["wrong_sectors"])
    words = f"{format_size(scrubbed['data_bytes'])} compared, {wrong} sectors wrong"
    if scrubbed["unsure_sectors"]:
        unsure = format_count(scrubbed["unsure_sectors"])
        words += f"; {unsure} more sectors differ where a power cut may be the cause, and are accepted"
    return words


@image.command(
    short_help="Clean an image and free unused space.",
    epilog="\b\nExamples:\n  skylight image compact smr.img\n",
)
@_arguments
def compact(path: Path, cache_on: Path | None, as_json: bool) -> None:
    """Clean an image as the drive does when idle, and free the space that nothing refers to."""
    from skylight import _native

    before, after = _asked(lambda: _native.image_compact(path, cache_on))
    if as_json:
        line_json({"schema": 1, "before_bytes": before, "after_bytes": after})
    else:
        line(f"{path}: {format_size(before)} before, {format_size(after)} now")
