"""`python -m burn_in`: the burn-in of served drives. Needs root, Debian's packages and about 5 GiB."""

import argparse
import logging
import shlex
import shutil
import signal
import sys
from pathlib import Path

from burn_in.disk import leftovers
from burn_in.processes import LOG, BurnInError
from burn_in.progress import Progress, expected_steps
from burn_in.steps import Plan, burn_in

PAPER = ["emulated-smr-1", "emulated-smr-2", "emulated-smr-3"]
SERVE = "skylight serve {drive} --image {{image}} --nbd unix:{{socket}} --timing none"
LOG_NAME = "burn-in.log"
WRONG_USE, INTERRUPTED = 2, 130


def main() -> int:
    """Exit code 0 when all held, 1 when something did not, 2 for wrong use, 130 when it was interrupted."""
    options = parsed()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for one in signals:
        signal.signal(one, interrupted)
    expected = expected_steps(options.short, options.kills)
    progress = Progress(options.drive, expected)
    for drive in options.drive:
        folder = options.folder.absolute() / Path(drive).name
        if not options.resume and not emptied(folder):
            print(f"burn-in: {folder}: is not empty and not of a burn-in; name another with --folder")
            return WRONG_USE
        folder.mkdir(parents=True, exist_ok=True)
        show(folder / LOG_NAME)
        progress.drive(drive)
        plan = Plan(
            shlex.split(options.server.format(drive=drive)), folder, options.packages.absolute(),
            options.short, options.kills, options.seed, progress,
        )  # fmt: skip
        LOG.info("%s: log in %s", drive, folder / LOG_NAME)
        try:
            burn_in(plan, options.resume)
        except BurnInError as error:
            LOG.error("%s: %s", drive, error)
            LOG.error("go on from this step with --resume; the log: %s", folder / LOG_NAME)
            return 1
        except KeyboardInterrupt:
            leftovers(folder)
            LOG.error("interrupted; all is taken down; go on with --resume")
            return INTERRUPTED
        finally:
            for one in signals:
                signal.signal(one, interrupted)
        if not options.keep:
            plan.image.unlink(missing_ok=True)
    LOG.info("took, in seconds:\n%s", progress.table())
    LOG.info("all held")
    return 0


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="burn_in", description=__doc__)
    parser.add_argument("drive", nargs="*", default=PAPER)
    parser.add_argument("--server", default=SERVE, help="command with {drive}, {{image}} and {{socket}}")
    parser.add_argument("--short", action="store_true", help="small files and Debian's kernel; no compiler")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run ended")
    parser.add_argument("--keep", action="store_true", help="keep the image of a drive that held")
    parser.add_argument("--folder", type=Path, default=Path("build/burn-in/runs"), help="images and logs")
    parser.add_argument("--packages", type=Path, default=Path("build/burn-in"), help="unpacked packages")
    return parser.parse_args()


def emptied(folder: Path) -> bool:
    """Removes what an earlier run left in its folder; false where there is something else."""
    leftovers(folder)
    if not folder.exists() or not any(folder.iterdir()):
        return True
    if not (folder / LOG_NAME).exists():
        return False
    shutil.rmtree(folder)
    return True


def interrupted(number: int, _frame: object) -> None:
    """The first signal ends the run; while all is taken down, more of them are not heard."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    print(f"burn-in: {signal.Signals(number).name}: taking down mounts, servers and guests ..", flush=True)
    raise KeyboardInterrupt


def show(log: Path) -> None:
    """Progress goes to standard output; that and all that the tools say to the log of the drive."""
    LOG.handlers.clear()
    # Nobody reads the screen any more (`| head`): the log still does.
    logging.raiseExceptions = False
    LOG.setLevel(logging.DEBUG)
    screen = logging.StreamHandler(sys.stdout)
    screen.setLevel(logging.INFO)
    screen.setFormatter(logging.Formatter("burn-in: %(message)s"))
    file = logging.FileHandler(log)
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    LOG.addHandler(screen)
    LOG.addHandler(file)


if __name__ == "__main__":
    sys.exit(main())
