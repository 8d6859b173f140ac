"""Makes the picture of the README: one probe of an emulated drive, drawn by the tool itself.

Run it as `.venv/bin/python docs/images/make_readme_figure.py`; it writes `random-writes.png` beside itself.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from skylight.engines import open_target
from skylight.probe.suite import SuiteOptions, draw_suite, run_suite


def main() -> None:
    """Probes `sim:emulated-smr-1` and keeps the first figure of its report."""
    with TemporaryDirectory() as folder:
        result = run_suite(open_target("sim:emulated-smr-1"), Path(folder) / "recording", SuiteOptions())
    figure = draw_suite(result)[0].figure
    figure.set_facecolor("white")
    figure.savefig(
        Path(__file__).with_name("random-writes.png"),
        dpi=110,
        bbox_inches="tight",
        metadata={"Software": None},
    )


if __name__ == "__main__":
    main()
