"""``skylight serve DRIVE --image PATH``: a drive for any program, over NBD.

What for: opens or makes the image, listens, says how to attach, and waits. The work is done by the native
module; this verb joins options to it and ends it in order.

Invariants:
- SIGTERM, SIGHUP and Ctrl-C end a server with everything durable and exit code 0, whether anybody reads
  what it says or not; with --run the exit code is then 130, unless the command had ended.
- With --attach or --run (`cli/server_lifetime.py`) standard output is the block device's name, or the
  command's.
- Beside the image lie a control socket and a note that says where it is served, while it is;
  ``skylight status IMAGE`` reads the note (``cli/endpoint_note.py``).
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skylight.cli.completion import drive_names
from skylight.cli.console import Speaker
from skylight.cli.endpoint_note import control_of, noted
from skylight.cli.number import Delay
from skylight.cli.server_lifetime import Use, Used, signals_wait
from skylight.cli.status_words import Rates, cache_words, lateness_words
from skylight.engines.sim import read_profile
from skylight.errors import INTERRUPTED, UsageError, serve_error
from skylight.units import format_capacity, format_count, format_counted, format_size

if TYPE_CHECKING:
    from skylight._native import DriveServer, _Answers, _FrontDoors, _ServedDrive, _ServeOptions, _TlsFiles

READ_MODES = ("data", "performance", "development", "development-performance")
HBUFFER_POLICIES = ("direct", "drive-cache", "buffer", "open-zones", "non-sequential", "adaptive")
_STATUS_EVERY_S = 1.0
_LOOK_UP_S = 0.2
# How long the last words may take.
_LAST_WORDS_S = 1.0

_EPILOG = """\b
DRIVE is a name (skylight drives list) or a profile of your own (FILE.toml);
"-" is the drive in the image.

A unix: socket is its owner's alone. Any user of this machine can reach a drive at tcp:, and write it, unless
--tls-required and --tls-clients let in only clients with a certificate.

\b
Timing:
  none      as fast as it goes
  model     each command is answered when the model of the drive says so
  native    as none, on a raw conventional disk (--on DEVICE), at its pace

\b
Read modes of a raw shingled disk (kind = "swd"), for sectors that a write to
another track has overwritten:
  data                     the data there now; one read becomes several
  performance              a pattern; the read is as if nothing had happened
  development              an error, and a line on which write did it and when
  development-performance  the same, with the read as in performance

\b
Policies of a host buffer, for writes to a drive with zones:
  direct          to their zones in order, to the buffer otherwise
  drive-cache     to their zones; the drive caches what is out of order
  buffer          to the buffer
  open-zones      as drive-cache; more streams than open zones to the buffer
  non-sequential  as drive-cache for a few zones, the others to the buffer
  adaptive        where it costs least, now and when it is cleaned

\b
Examples:
  skylight serve st5000as0011 --image smr.img --nbd unix:smr.sock
  skylight serve emulated-smr-1 --image e.img --nbd unix:e.sock --timing model
  skylight serve st5000as0011 --image a.img --nbd unix:a.sock --checksums on
  skylight serve - --image smr.img --nbd tcp:localhost:10809
  skylight serve st4000nc001 --image d.img --nbd unix:d.sock --delay-read 8 \\
      --fail rate=0.01,op=read
  skylight serve swd-160gb --image swd.img --nbd unix:swd.sock \\
      --read-mode development --shingle-width 4
  skylight serve st8000as0022 --image ha.img --nbd unix:ha.sock \\
      --timing model --hbuffer adaptive
  skylight serve st5000as0011 --image smr.img --attach
  skylight serve st5000as0011 --image smr.img --run 'nbdinfo "$uri"'
  skylight status smr.img

With --attach standard output is the block device alone; Ctrl-C or SIGTERM takes it down.
The command of --run finds the drive in $uri and $NBD_URI, the socket in $unixsocket, and
with --attach the block device in $device; its exit code is that of serve. Either makes a
private socket where --nbd is not given.
"""


def _warn_of_mode(image: Path, warn: Callable[[str], None]) -> None:
    """Says so if others may read or write an image that was there before: its mode is its owner's affair."""
    try:
        found = image.stat()
    except OSError:
        return
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISREG(found.st_mode) and mode & 0o077:
        what = f"has mode {mode:04o}, so others have access to what the drive holds"
        warn(f"{image}: {what}; chmod 600 ends that")


def _say_addresses(server: DriveServer, say: Speaker, certified: bool) -> None:
    """How programs reach the drive."""
    line = say.line
    for place, uri in zip(server.endpoints, server.uris, strict=True):
        kind, _, where = place.partition(":")
        quoted = shlex.quote(uri)
        line(f"serving {server.name}, {format_capacity(server.size_bytes)}, at {place}")
        if kind == "unix":
            path = os.path.abspath(where)
            line(f"  kernel   modprobe nbd && nbd-client -unix {shlex.quote(path)} /dev/nbd0 -b 4096")
            line(f"  qemu     -drive file=nbd:unix:{path},format=raw,if=virtio,cache=none")
        else:
            if not certified:
                line(
                    "  note     any user of this machine can read and write it there: a unix: socket is "
                    "private, or give --tls-required and --tls-clients"
                )
            host, _, port = where.rpartition(":")
            line(f"  kernel   modprobe nbd && nbd-client {host} {port} /dev/nbd0 -b 4096")
            line(f"  qemu     -drive file=nbd:{where},format=raw,if=virtio,cache=none")
        line(f"  file     nbdfuse DIR/disk.img {quoted} &")
        line("           losetup -f --show --direct-io=on -b 4096 DIR/disk.img")
        line(f"  fio      fio --name=x --ioengine=nbd --uri={quoted} --rw=randread --bs=4k --iodepth=32")


def _checksum_words(sums: dict[str, Any]) -> list[str]:
    """What checksums have found, if that is anything."""
    words = []
    if sums["mismatches"]:
        words.append(
            f"{format_count(sums['mismatches'])} checksum mismatch{'es' * (sums['mismatches'] != 1)}"
        )
    if sums["unsure_regions"]:
        size = format_size(sums["unsure_regions"] * sums["region_bytes"])
        words.append(f"up to {size} unsure after a power cut")
    return words


def status_words(status: dict[str, Any]) -> str:
    """A status in one line: what a person wants to know first."""
    drive = status.get("drive") or {}
    image = drive.get("image") or {}
    words = [f"{status.get('connections', 0)} connected"]
    commands = (status.get("requests") or {}).get("commands") or {}
    words += [format_counted(commands.get(kind, 0), kind) for kind in ("read", "write")]
    words += cache_words(image)
    if image.get("write_amplification") is not None:
        words.append(f"write amplification {image['write_amplification']:.2f}")
    if drive.get("idle_units"):
        words.append(f"{format_counted(drive['idle_units'], 'step')} of idle cleaning")
    if shingled := drive.get("shingled"):
        words.append(
            f"read mode {shingled['read_mode']}, {format_counted(shingled['overwritten_sectors'], 'sector')} "
            f"overwritten, {format_counted(shingled['overwritten_reads'], 'read')} of such"
        )
    if hbuffer := drive.get("hbuffer"):
        words += _hbuffer_words(hbuffer)
    if zones := drive.get("zones"):
        words.append(_zone_words(zones))
    queue, lateness = drive.get("queue"), drive.get("lateness")
    if queue:
        words.append(f"queue {queue['now']}, at most {queue['most']}")
    if lateness and lateness.get("answers"):
        words.append(lateness_words(lateness))
    if sums := image.get("checksums"):
        words += _checksum_words(sums)
    if drive.get("last_error"):
        words.append(f"last error: {drive['last_error']}")
    return ", ".join(words)


_PATHS = {"direct_bytes": "direct", "drive_cache_bytes": "to the drive's cache", "buffer_bytes": "buffered"}
"""Paths of writes by a host buffer, in words."""


def _hbuffer_words(hbuffer: dict[str, Any]) -> list[str]:
    """Which way writes went, how full the log is, and what was cleaned."""
    paths, fill, cleaning = hbuffer["paths"], hbuffer["fill"], hbuffer["cleaning"]
    written = sum(paths[key] for key in _PATHS)
    shares = [f"{100 * paths[key] / written:.0f} % {words}" for key, words in _PATHS.items() if paths[key]]
    buffered = f"{format_size(fill['live_bytes'])} of {format_counted(fill['dirty_zones'], 'zone')}"
    used, cleaned = (
        fill["zones"] - fill["free_zones"],
        cleaning["appended_zones"] + cleaning["rewritten_zones"],
    )
    error = hbuffer.get("last_error")
    return [
        f"host buffer ({hbuffer['policy']}) with {', '.join(shares) or 'no writes'}",
        f"{buffered} in its log",
        f"{used} of its {format_counted(fill['zones'], 'zone')} used",
        f"{format_counted(cleaned, 'zone')} cleaned" + " and one being cleaned" * cleaning["now"],
        *([f"last error of the host buffer: {error}"] if error else []),
    ]


_CONDITIONS = {
    "not_write_pointer": "conventional",
    "empty": "empty",
    "implicit_open": "implicitly open",
    "explicit_open": "explicitly open",
    "closed": "closed",
    "full": "full",
    "read_only": "read-only",
    "offline": "offline",
    "non_sequential": "written out of order",
}
"""Counts of zones in a status, in words."""


def _zone_words(zones: dict[str, Any]) -> str:
    """How many zones are in each condition that any is in."""
    counts = [f"{format_count(zones[key])} {words}" for key, words in _CONDITIONS.items() if zones.get(key)]
    return f"{format_counted(zones['zones'], 'zone')}: {', '.join(counts)}"


def _wait(server: DriveServer, say: Speaker, used: Used, *, quiet: bool) -> int:
    """Waits for a signal or the end of the command, whose exit code it gives, with a line of status where
    there is a terminal."""
    shows, told_at, rates = sys.stderr.isatty() and not quiet, 0.0, Rates()
    while True:
        if (code := used.ended()) is not None:
            return code
        time.sleep(_LOOK_UP_S)
        now = time.monotonic()
        if shows and now - told_at >= _STATUS_EVERY_S:
            told_at = now
            status = json.loads(server.status())
            say.status(", ".join([status_words(status), *rates.words(status, now)]))


def _tls(cert: Path | None, key: Path | None, clients: Path | None, required: bool) -> _TlsFiles | None:
    if cert is None and key is None and clients is None and not required:
        return None
    if cert is None or key is None:
        raise UsageError("TLS needs both --tls-cert and --tls-key")
    return {"cert": cert, "key": key, "clients": clients, "required": required}


def _delays(read_ms: float | None, write_ms: float | None) -> tuple[int, int] | None:
    """Delays of reads and of the rest; None if neither was asked for."""
    if read_ms is None and write_ms is None:
        return None
    return round((read_ms or 0.0) * 1e6), round((write_ms or 0.0) * 1e6)


def _log_zones(policy: str | None, zones: int | None) -> int | None:
    """The zones of the log of a host buffer, where there is one."""
    if zones is not None and policy is None:
        raise UsageError("--hbuffer-zones needs a host buffer: give --hbuffer POLICY")
    return zones


def _control(path: Path, given: Path | None, on_device: bool) -> tuple[Path, bool]:
    """Where the control socket is to be, and whether somebody chose that."""
    if given is not None:
        return given, True
    control = control_of(path)
    if on_device:
        # Where that is not possible the server says so of the socket.
        with suppress(OSError):
            control.parent.mkdir(parents=True, exist_ok=True)
    return control, False


def _data_path(image: Path | None, device: Path | None, timing: str) -> Path:
    """Where the data is kept: a file or a device."""
    if (image is None) == (device is None):
        raise UsageError("give one of --image PATH and --on DEVICE: where the data is kept")
    if timing == "native" and device is None:
        raise UsageError("--timing native needs a disk that sets the time: --on DEVICE")
    if device is not None and not device.is_block_device():
        raise UsageError(f"{device}: is no block device; name one (lsblk lists them), or a file with --image")
    path = image if image is not None else device
    assert path is not None
    return path


_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=_EPILOG)
@click.argument("drive", shell_complete=drive_names)
@click.option("--image", type=_FILE, help="The file that keeps the data; made if it does not exist.")
@click.option("--on", "device", type=_FILE, help="A raw block device that keeps the data instead of a file.")
@click.option(
    "--cache-on", type=_FILE, help="Where the flash of the drive lies: a file or device of its own."
)
@click.option("--nbd", "places", multiple=True, help="unix:PATH or tcp:HOST:PORT; may be repeated.")
@click.option(
    "--timing",
    type=click.Choice(["none", "model", "native"]),
    default="none",
    show_default=True,
    help="When a command completes: as fast as possible, when the model of the drive completes it, or as the "
    "disk of --on does.",
)
@click.option(
    "--write-cache", type=click.Choice(["on", "off"]), help="Answer writes before they are durable."
)
@click.option(
    "--look-ahead",
    type=click.Choice(["on", "off"]),
    help="Whether reads go on into the drive's buffer, with --timing model; as its profile says without.",
)
@click.option(
    "--checksums",
    type=click.Choice(["on", "off"]),
    help="Checksums of the data: a byte that changed by itself is an error; fixed when an image is made. "
    "On with --timing model on a file if not given.",
)
@click.option("--destroy-data", is_flag=True, help="What is on the device may be lost.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the drive's jitter."
)
@click.option(
    "--control",
    "control_path",
    type=_FILE,
    help="The control socket, for skylight status and control; IMAGE.serve.sock if not given.",
)
@click.option("--delay-read", type=Delay(), help="Added latency of reads, ms.")
@click.option("--delay-write", type=Delay(), help="Added latency of all other commands, ms.")
@click.option(
    "--read-mode",
    type=click.Choice(READ_MODES),
    help="What reads of overwritten sectors of a raw shingled disk give; as its profile says without.",
)
@click.option(
    "--shingle-width",
    type=click.IntRange(1, 16),
    help="Tracks that a write of a raw shingled disk covers; fixed when its image is made.",
)
@click.option(
    "--hbuffer",
    type=click.Choice(HBUFFER_POLICIES),
    help="Make an ordinary disk of a drive with zones, by a host buffer with this policy.",
)
@click.option(
    "--hbuffer-zones",
    type=click.IntRange(3),
    help="Zones of its log, fixed when it is made; 100, or an eighth of a small drive, if not given.",
)
@click.option("--fail", help="Fail commands: rate=0.01,op=read+write,range=A-B,error=EIO,seed=1.")
@click.option("--log", "log_file", type=_FILE, help="Append a line for each command to a file.")
@click.option("--tls-cert", type=_FILE, help="Offer TLS with this certificate (PEM).")
@click.option("--tls-key", type=_FILE, help="Its private key (PEM).")
@click.option(
    "--tls-clients", type=_FILE, help="Let in only clients with a certificate of this authority (PEM)."
)
@click.option("--tls-required", is_flag=True, help="Turn away clients that do not start TLS.")
@click.option("--allow-remote", is_flag=True, help="Listen on addresses that other machines reach.")
@click.option("--attach", is_flag=True, help="Make it a block device here, and print which; needs root.")
@click.option(
    "--run",
    "command",
    metavar="CMD",
    help="Run a shell command with the drive's address in $uri, and stop when it ends.",
)
@click.option("--pidfile", type=_FILE, help="Write the process ID there once clients can connect.")
@click.option("--verbose", is_flag=True, help="Log connections and disconnections.")
@click.option("--quiet", is_flag=True, help="No status line.")
def serve(
    drive: str,
    image: Path | None,
    device: Path | None,
    cache_on: Path | None,
    places: tuple[str, ...],
    timing: str,
    write_cache: str | None,
    look_ahead: str | None,
    checksums: str | None,
    destroy_data: bool,
    seed: int,
    control_path: Path | None,
    delay_read: float | None,
    delay_write: float | None,
    read_mode: str | None,
    shingle_width: int | None,
    hbuffer: str | None,
    hbuffer_zones: int | None,
    fail: str | None,
    log_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_clients: Path | None,
    tls_required: bool,
    allow_remote: bool,
    attach: bool,
    command: str | None,
    pidfile: Path | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Serve a drive that keeps its data, over NBD."""
    path = _data_path(image, device, timing)
    profile, origin = (None, drive) if drive == "-" else read_profile(drive)
    served: _ServedDrive = {
        "profile_toml": profile,
        "origin": origin,
        "image": path,
        "cache_on": cache_on,
        "overwrite": destroy_data,
        "write_cache": None if write_cache is None else write_cache == "on",
        "look_ahead": None if look_ahead is None else look_ahead == "on",
        "checksums": None if checksums is None else checksums == "on",
        "read_mode": read_mode,
        "shingle_width": shingle_width,
        "hbuffer": hbuffer,
        "hbuffer_zones": _log_zones(hbuffer, hbuffer_zones),
    }
    answers: _Answers = {
        "timing": timing,
        "seed": seed,
        "delays_ns": _delays(delay_read, delay_write),
        "fail": fail,
        "log": log_file,
    }
    control, control_required = _control(path, control_path, device is not None)
    doors: _FrontDoors = {
        "nbd": list(places),
        "tls": _tls(tls_cert, tls_key, tls_clients, tls_required),
        "remote": allow_remote,
        "verbose": verbose,
        "control": control,
        "control_required": control_required,
    }
    use = Use(attach, command, pidfile)
    certified = tls_clients is not None and tls_required
    with use.places(places, tls=doors["tls"] is not None) as doors["nbd"], signals_wait() as come:
        server = _started({"drive": served, "answers": answers, "doors": doors})
        click.get_current_context().exit(_run(server, path, use, come, certified=certified, quiet=quiet))


def _started(options: _ServeOptions) -> DriveServer:
    from skylight import _native

    try:
        return _native.DriveServer(options)
    except (_native.ServeError, _native.ProfileError) as error:
        raise serve_error(error) from error


def _run(
    server: DriveServer,
    path: Path,
    use: Use,
    signals_come: Callable[[], None],
    *,
    certified: bool,
    quiet: bool,
) -> int:
    """From the first word to the last; `certified` clients alone are let in, or not. The exit code."""
    from skylight import _native

    say, code = Speaker(), 0 if use.command is None else INTERRUPTED
    # Standard output is the command's, or the block device alone.
    warn = say.warning if use.has_own_client else say.line
    try:
        with noted(path, server.endpoints, server.control), suppress(KeyboardInterrupt):
            signals_come()
            _warn_of_mode(path, warn)
            if server.control_error is not None:
                warn(f"{server.control_error}; served without a control socket: give --control PATH")
            if not server.clean:
                warn(f"{path}: was not switched off in order; what it holds was recovered")
            for mended in server.mended:
                warn(f"{path}: {mended}; what is whole was used, and it was written again")
            with use.begun(server, path, say) as used:
                if not use.has_own_client:
                    _say_addresses(server, say, certified)
                elif used.attached is not None and use.command is None:
                    say.line(used.attached.device)
                code = _wait(server, say, used, quiet=quiet or use.command is not None)
    finally:
        try:
            server.stop()
        except _native.ServeError as error:
            raise serve_error(error) from error
    if use.command is None:
        warn("stopped; everything is durable")
    say.drain(_LAST_WORDS_S)
    return code
