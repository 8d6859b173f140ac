"""`python -m burn_in`: the burn-in of a served drive. Needs root, Debian's packages and about 10 GiB."""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from burn_in.disk import BurnInError
from burn_in.steps import Plan, burn_in

SERVE = "skylight serve {drive} --image {{image}} --nbd unix:{{socket}} --timing none"


def main() -> int:
    """Exit code 0 when all held, 1 when something did not."""
    parser = argparse.ArgumentParser(prog="burn_in", description=__doc__)
    parser.add_argument("drive", nargs="*", default=["emulated-smr-1", "emulated-smr-2", "emulated-smr-3"])
    parser.add_argument("--server", default=SERVE, help="command with {drive}, {{image}} and {{socket}}")
    parser.add_argument("--short", action="store_true", help="small files and Debian's kernel; no compiler")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the images go (default: a temporary folder)")
    parser.add_argument("--packages", type=Path, default=Path("build/burn-in"), help="unpacked packages")
    options = parser.parse_args()
    for drive in options.drive:
        with tempfile.TemporaryDirectory(dir=options.folder, prefix=f"burn-in-{drive}-") as folder:
            command = shlex.split(options.server.format(drive=drive))
            plan = Plan(
                command, Path(folder), options.packages.absolute(), options.short, options.kills,
                seed=options.seed,
            )  # fmt: skip
            try:
                print(f"burn-in: {drive}", flush=True)
                burn_in(plan)
            except BurnInError as error:
                print(f"burn-in: {drive}: {error}", file=sys.stderr)
                return 1
    print("burn-in: all held", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
