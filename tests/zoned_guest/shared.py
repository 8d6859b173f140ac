"""One guest for all test modules of a run that want one: the boot takes as long as their steps.

A module says what it wants as its `GUEST`; its steps leave the guest without the disks that they made. The
first process of the run that asks boots the guest, the others wait for it and read what it found.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from burn_in.processes import BurnInError
from zoned_guest.boot import LONG_SECONDS, SECONDS, Said, Step, boot, said_in

PACKAGES = Path(__file__).parent.parent.parent / "build/burn-in"
TOOLS = ("qemu-system-x86_64", "cpio", "depmod", "dpkg-deb")


@contextmanager
def no_hardware(folder: Path, is_long: bool) -> Iterator[Sequence[str]]:
    """No words for QEMU, and nothing in the folder."""
    del folder, is_long
    yield ()


@dataclass(frozen=True)
class Guest:
    """The steps of a module, by whether long tests are run too, asked for when the hardware is there; the
    tools of the host that they need besides `TOOLS`; and QEMU's words for their hardware, with its files in a
    folder, for as long as the guest has it."""

    name: str
    steps: Callable[[bool], Sequence[Step]]
    tools: tuple[str, ...]
    hardware: Callable[[Path, bool], AbstractContextManager[Sequence[str]]] = no_hardware


def booted_once(guests: Iterable[Guest], folder: Path, *, is_long: bool) -> dict[str, dict[str, Said]]:
    """What each step said, by the names of guest and step; boots in the folder unless that has been done."""
    # Steps with hardware come last: they load its drivers, and from then on it has the first names of disks.
    ordered = sorted(guests, key=lambda guest: (guest.hardware is not no_hardware, guest.name))
    run = folder / "run"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not run.exists():
            run.mkdir()
            with ExitStack() as hardware:
                words = [w for guest in ordered for w in hardware.enter_context(guest.hardware(run, is_long))]
                steps = [
                    {**step, "name": f"{guest.name}/{step['name']}"}
                    for guest in ordered
                    for step in guest.steps(is_long)
                ]
                boot(run, PACKAGES, steps, words, LONG_SECONDS if is_long else SECONDS)
    try:
        said = said_in(run)
    except FileNotFoundError as error:
        raise BurnInError(f"the guest failed for another process of this run: {run}") from error
    return {
        guest.name: {
            name.removeprefix(f"{guest.name}/"): one
            for name, one in said.items()
            if name.startswith(f"{guest.name}/")
        }
        for guest in ordered
    }
