"""The native module: emulated drives, real devices, profiles, served drives, loops of the inference. numpy
columns in and out."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BufferedDrive",
    "DriveServer",
    "HostDevice",
    "HostError",
    "HostSwitch",
    "ProfileError",
    "ServeError",
    "SimDrive",
    "agreed_pieces",
    "buffer_cuts",
    "conditions_check",
    "conditions_toml",
    "cut_pieces",
    "host_ask",
    "host_survey",
    "host_unfinished",
    "image_check",
    "image_compact",
    "image_info",
    "image_repair",
    "image_scrub",
    "profile_check",
    "profile_reference",
    "profile_schema",
    "profile_truth",
    "random_conditions",
    "random_profile",
    "serve_control",
    "serve_status",
    "serve_zone_action",
    "serve_zones",
]

class ProfileError(ValueError):
    """A drive profile that cannot be used; str() is one line: FILE:LINE: what is wrong; what would do."""

def profile_check(toml: str, origin: str) -> str:
    """The whole profile as JSON, defaults filled in. Raises ProfileError."""

def profile_schema() -> str:
    """The JSON schema (draft 7) of a profile."""

def profile_reference() -> str:
    """The reference page of profiles, as Markdown."""

def profile_truth(toml: str, origin: str, conditions: str | None = None) -> str:
    """The expected findings of a profile as JSON, under the conditions of that text (TOML or JSON), or under
    those of the profile. Raises ProfileError."""

def random_conditions(seed: int) -> str:
    """The conditions of a seed, as TOML."""

def conditions_toml(text: str) -> str:
    """The conditions of a text (TOML or JSON) as TOML, which may end a profile. Raises ProfileError."""

def conditions_check(text: str, origin: str) -> str:
    """All conditions of a file (TOML or JSON) as JSON, defaults filled in. Raises ProfileError."""

def random_profile(seed: int, kind: str | None = None) -> str:
    """The profile of a random drive as TOML; without a kind, one is drawn. Raises ValueError."""

def cut_pieces(
    cosines: NDArray[np.float64], sines: NDArray[np.float64], firsts: NDArray[np.uint64], penalty: float
) -> NDArray[np.uint64]:
    """First rows of the pieces whose phases agree most, less a penalty for each. Phases are given by their
    cosines and sines; `firsts` says for each row the first at which a piece that ends with it may begin.
    Raises ValueError."""

def agreed_pieces(
    cosines: NDArray[np.float64], sines: NDArray[np.float64], firsts: NDArray[np.uint64], penalty: float
) -> NDArray[np.float64]:
    """For each row of a table of phases, how far those of its best pieces agree, less the penalties. Raises
    ValueError."""

@final
class BufferedDrive:
    """A host with an H-Buffer before an emulated drive with zones, in virtual time."""

    POLICIES: list[str]
    """The names of all policies, the static ones first."""
    def __new__(
        cls, profile_toml: str, origin: str, policy: str, buffer_zones: int, memory_bytes: int
    ) -> BufferedDrive: ...
    @property
    def size_bytes(self) -> int:
        """Bytes of the host's address space."""
    @property
    def zone_bytes(self) -> int:
        """Bytes of a home zone."""
    def start_over(self, policy: str) -> None:
        """Another policy from now on, with fresh accounts; data stays where it is. Raises ValueError."""
    def run(
        self,
        op: NDArray[np.uint8],
        offset: NDArray[np.uint64],
        size: NDArray[np.uint32],
        arrive_ns: NDArray[np.uint64],
    ) -> NDArray[np.uint64]:
        """Runs reads and writes one after the other, none before its `arrive_ns` after the first; gives how
        long each took, ns. Raises ValueError."""
    def finish(self) -> int:
        """Cleans until nothing is in the buffer nor in the drive's persistent cache; gives the time, ns.
        Raises ValueError."""
    def counters(self) -> dict[str, int]:
        """The accounts since the last start: bytes by path, of the log's headers, of checkpoints and of what
        cleaning wrote; times; zones cleaned. And bytes that were written to the media since the drive was
        made."""

def buffer_cuts(
    profile_toml: str, origin: str, buffer_zones: int, write_bytes: int, cuts: int, seed: int
) -> dict[str, int]:
    """Cuts the power of an emulated drive with a buffer of so many zones, at so many random commands, while a
    host writes `write_bytes` at a time, and recovers. The bytes of the log, the number of recoveries, the
    extents that were looked up after them and those that were wrong, the home zones that were cleaned; of the
    recovery that took longest the drive's time, the bytes that it read, and the entries in the log. Raises
    ProfileError, and ValueError for a drive that cannot have the buffer, or a recovery that finds none."""

@final
class SimDrive:
    """An emulated drive in virtual time."""

    def __new__(
        cls, profile_toml: str, origin: str, seed: int, conditions: str | None = None
    ) -> SimDrive: ...
    @property
    def conditions(self) -> str:
        """The conditions under which the drive is used, as JSON."""
    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
    @property
    def block_bytes(self) -> int:
        """Logical block in bytes."""
    @property
    def now_ns(self) -> int:
        """Virtual time, ns."""
    def run(
        self,
        op: NDArray[np.uint8],
        offset: NDArray[np.uint64],
        size: NDArray[np.uint32],
        depth: int,
        stop: tuple[int, int, int, int | None] | None = None,
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Runs a batch; answers when each command was submitted and completed, ns. Raises ValueError.

        With a stop (latency_ns, count, within, alone_ns) it ends early: the columns are then as long as
        what was done."""
    def results(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The rows of the last batch that failed or were appends, and the result of each: a number below 512
        is a failure (`skylight.evidence.FAILURES`), any other the byte at which an append's data begins."""
    def zone_layout(self) -> dict[str, Any] | None:
        """What is fixed about the zones of the drive, by name; None for a drive without zones."""
    def report_zones(self) -> dict[str, Any]:
        """The state of all zones, as columns by name. Raises ValueError for a drive without zones."""
    def non_sequential_zones(self) -> int:
        """How many zones have non-sequential data. Raises ValueError for a drive without zones."""
    def pause(self, duration_ns: int) -> None:
        """Lets virtual time pass, in which the drive may clean."""
    @property
    def write_cache(self) -> bool:
        """Whether the volatile write cache is on."""
    def set_write_cache(self, on: bool) -> bool:
        """Switches the volatile write cache; answers its state then (a drive without one stays off)."""
    @property
    def look_ahead(self) -> bool:
        """Whether reads go on into the drive's buffer."""
    def set_look_ahead(self, on: bool) -> bool:
        """Switches look-ahead; answers its state then (a drive without a read buffer stays off)."""
    def erase(self) -> None:
        """Secure erase: the drive is as new."""
    def counters(self) -> dict[str, int]:
        """Host and media bytes, accesses and time by purpose, the cache's use."""
    def start_trace(self, rows: int) -> None:
        """Keeps the next platter accesses, up to `rows`."""
    def take_trace(self) -> dict[str, Any]:
        """Ends the trace: columns by name, empty when none was started."""

class HostError(Exception):
    """A device was refused, failed, or was interrupted; str() is the one line."""

    kind: Literal["refused", "failed", "unkept", "interrupted"]
    times: tuple[NDArray[np.uint64], NDArray[np.uint64]] | None
    """(submit_ns, complete_ns) of the batch so far, 0 where a row did not complete."""

def host_ask(path: str, command: bytes, length: int) -> bytes:
    """What a disk returns to a SCSI command that only asks (the SG_IO ioctl), at most so many bytes. Raises
    OSError where it refuses, or nobody passes the command on."""

def host_survey(root: str | None = None) -> list[dict[str, str | int | bool | None]]:
    """All disks of this machine: what each is and declares, its bus, and what a probe may do to it. Raises
    HostError."""

def host_unfinished(path: str, notes: str, root: str | None = None) -> tuple[str, float | None] | None:
    """What an earlier erase left on a device: "released" (its password, by a note in that folder, is off),
    "running" with the share that is done, or None."""

@final
class HostSwitch:
    """A setting that was switched, until it is restored."""

    @property
    def achieved(self) -> str:
        """The state now: "on", "off" or "unknown"."""
    @property
    def why(self) -> str | None:
        """Why the state is not what was asked for, or None."""
    def restore(self) -> None:
        """Puts back what the drive had. Does nothing the second time."""

@final
class HostDevice:
    """A block device or regular file, opened for a test."""

    def __new__(
        cls, path: str, destroy_data: bool, root: str | None = None, preserve: bool = False
    ) -> HostDevice: ...
    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
    @property
    def block_bytes(self) -> int:
        """Logical block in bytes."""
    @property
    def key(self) -> str | None:
        """A name for the drive that can be part of a file name; None for a plain file."""
    @property
    def now_ns(self) -> int:
        """The clock of the log, ns."""
    def identity(self) -> dict[str, str | int | bool | None]:
        """What the target is and declares of itself."""
    def counters(self) -> dict[str, int]:
        """What was submitted so far."""
    def run(
        self, op: NDArray[np.uint8], offset: NDArray[np.uint64], size: NDArray[np.uint32], depth: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Runs a batch; answers when each I/O was submitted and completed, ns."""
    def results(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The rows of the last batch that the device refused or that were appends, and the result of each, as
        `SimDrive.results` has them."""
    def zone_layout(self) -> dict[str, Any] | None:
        """The layout of its zones, by name; None where there are none."""
    def report_zones(self, from_bytes: int, most: int) -> dict[str, Any]:
        """At most `most` zones from the one that contains a byte on, as columns by name."""
    def non_sequential_zones(self) -> int:
        """How many zones have non-sequential data."""
    def state(self, setting: Literal["write cache", "look-ahead", "scheduler", "queue depth"]) -> str:
        """The state of a setting, as reported: "on", "off" or "unknown". A scheduler `none` is off."""
    def value(self, setting: Literal["write cache", "look-ahead", "scheduler", "queue depth"]) -> str | None:
        """The value of a setting in the words of the place where it is switched; None without one."""
    def discard(self, start_bytes: int, length_bytes: int) -> None:
        """Discards a part of a block device, bytes. An OSError says why not."""
    def erase_offer(
        self, erase: Literal["sanitize", "secure-erase", "format"]
    ) -> dict[str, str | int | bool | None]:
        """What an erase would be: `command`, `seconds`, `key_change`, `writes_all`."""
    def erase(
        self, erase: Literal["sanitize", "secure-erase", "format"], note: str
    ) -> dict[str, str | int | bool | None]:
        """Erases the drive, or begins it; `note` is where a password is noted meanwhile."""
    def erase_progress(
        self, erase: Literal["sanitize", "secure-erase", "format"]
    ) -> tuple[bool, float | None]:
        """Whether the erase that was begun is complete, and the share that is done."""
    def switch(
        self,
        setting: Literal["write cache", "look-ahead", "scheduler", "queue depth"],
        on: bool,
        note: str | None = None,
    ) -> HostSwitch:
        """Switches a setting; `note` is where the restore note is kept meanwhile."""
    def put_back(self, note: str) -> list[str]:
        """Puts back what a killed run left switched; answers the values, none without a note."""
    def close(self) -> None:
        """Lets the device go."""

class ServeError(Exception):
    """Nothing can be served, or not any more; str() is the one line."""

    kind: Literal["refused", "failed", "unkept"]

def serve_control(
    control: str | PathLike[str], setting: str, value: str, trusted: Sequence[int] | None = None
) -> str:
    """Changes a setting of the server with this control socket: "read-mode", "delay-read" and "delay-write"
    (ms), or "fail" (as --fail, or "off"); what it is then. `trusted` are the users whose server it may be.
    Raises ServeError."""

def serve_status(control: str | PathLike[str], trusted: Sequence[int] | None = None) -> str:
    """The status of the server with this control socket, as JSON. Raises ServeError."""

def serve_zones(
    control: str | PathLike[str], first: int, count: int, trusted: Sequence[int] | None = None
) -> str:
    """The layout of the zones of the server with this control socket, and its zones from a number on, as
    JSON. Raises ServeError."""

def serve_zone_action(
    control: str | PathLike[str], action: str, zone: int | None, trusted: Sequence[int] | None = None
) -> str:
    """Opens, closes, finishes or resets the zone that begins at a byte, or all zones; what was done, in
    words. Raises ServeError."""

def image_info(path: str | PathLike[str], cache_on: str | PathLike[str] | None = None) -> dict[str, Any]:
    """Version, drive, sizes, what is in the cache, how it was switched off. Raises ServeError."""

def image_check(
    path: str | PathLike[str], cache_on: str | PathLike[str] | None = None
) -> tuple[dict[str, Any] | None, list[str]]:
    """What `image_info` gives, or None, and a line for each thing that is wrong. Raises ServeError."""

def image_scrub(
    path: str | PathLike[str],
    cache_on: str | PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Compares all data with its checksums: bytes, the first wrong extents (sector, sectors), how many.

    `progress` is called with bytes that were compared and in all; what it raises ends this. Raises
    ServeError."""

def image_compact(path: str | PathLike[str], cache_on: str | PathLike[str] | None = None) -> tuple[int, int]:
    """Bytes that the image took before and takes now. Raises ServeError."""

def image_repair(
    path: str | PathLike[str], cache_on: str | PathLike[str] | None = None, accept_loss: bool = False
) -> tuple[list[str], list[str], Path | None]:
    """Lines of what was mended, lines of what is lost, and the file that keeps the image's own structures
    as they were. Raises ServeError."""

class _ServedDrive(TypedDict):
    profile_toml: str | None
    """The drive; None for the one in the image."""
    origin: str
    """What errors call the profile."""
    image: str | PathLike[str]
    cache_on: str | PathLike[str] | None
    """Where the flash lies, if not with the rest."""
    overwrite: bool
    """What is on a device may be lost."""
    write_cache: bool | None
    """Whether writes are answered before they are durable; None as the profile says."""
    look_ahead: bool | None
    """Whether reads go on into the drive's buffer, in model time; None as the profile says."""
    checksums: bool | None
    """Whether a new image has checksums of its data; None where they cost little."""
    read_mode: str | None
    shingle_width: int | None
    hbuffer: str | None
    """The policy of a host buffer before a drive with zones; None for no such buffer."""
    hbuffer_zones: int | None
    """Zones of its log; None for those that it has, or the default."""

class _Answers(TypedDict):
    timing: str
    """ "none", "model" or "native"."""
    seed: int
    """Of the drive's jitter."""
    delays_ns: tuple[int, int] | None
    """Added latency of reads and of all other commands; None for a server whose delays cannot be changed."""
    fail: str | None
    """Which commands fail; None for a server whose faults cannot be changed."""
    log: str | PathLike[str] | None
    """Takes a line for each command."""

class _TlsFiles(TypedDict):
    cert: str | PathLike[str]
    key: str | PathLike[str]
    clients: str | PathLike[str] | None
    """The authority of client certificates."""
    required: bool

class _FrontDoors(TypedDict):
    nbd: list[str]
    """unix:PATH, tcp:HOST:PORT."""
    tls: _TlsFiles | None
    remote: bool
    """Listen on addresses that are not loopback."""
    verbose: bool
    control: str | PathLike[str]
    """The control socket."""
    control_required: bool
    """Without it a drive is served also where the system does not let the control socket be made."""

class _ServeOptions(TypedDict):
    drive: _ServedDrive
    answers: _Answers
    doors: _FrontDoors

@final
class DriveServer:
    """A served drive, until it is stopped."""

    def __new__(cls, options: _ServeOptions) -> DriveServer: ...
    @property
    def endpoints(self) -> list[str]:
        """Where it listens: unix:PATH, tcp:HOST:PORT."""
    @property
    def uris(self) -> list[str]:
        """The URIs by which NBD clients know it."""
    @property
    def control(self) -> Path | None:
        """The control socket; None where there is none."""
    @property
    def control_error(self) -> str | None:
        """Why there is no control socket, in one line; None if there is one."""
    @property
    def name(self) -> str:
        """The name of the drive."""
    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
    @property
    def created(self) -> bool:
        """Whether the image was made just now."""
    @property
    def clean(self) -> bool:
        """Whether the image had been closed in order."""
    @property
    def mended(self) -> list[str]:
        """What of the image was damaged, was there twice, and was mended: a line each."""
    @property
    def write_cache(self) -> bool:
        """Whether writes are answered before they are durable."""
    def status(self) -> str:
        """How it does, as JSON; empty once it was stopped."""
    def stop(self) -> None:
        """Answers what was asked and makes everything durable. Raises ServeError. The second time nothing."""
    def abandon(self) -> None:
        """Stops, and removes the image if this server made it: for a start that fails later."""
