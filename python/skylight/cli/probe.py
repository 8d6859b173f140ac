"""``skylight probe TARGET..``: what kind of drive is this?

Opens every target before touching any, prints the plan, measures, and writes the findings, the recording
and the report. ``skylight.probe.suite`` and ``skylight.report`` do the work; this module joins them.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

import click

from skylight.byte_range import AskedRange
from skylight.cli import completion
from skylight.cli.console import DeviceProgress, line
from skylight.cli.plan import print_plan, print_ranges
from skylight.cli.printed_findings import check_expected, csv_text, print_all, print_result
from skylight.cli.result_folders import Job, check_out, jobs_of
from skylight.cli.target_and_folder_checks import check_distinct, check_results_folder
from skylight.engines import Engine, eraser_of, open_target
from skylight.engines.device import DeviceEngine
from skylight.engines.erase import ERASES, Offer
from skylight.engines.fio_log import DriveLogs, read_logs
from skylight.engines.head_trace import HeadTraceFile
from skylight.engines.preserve import JOURNAL, PreservingEngine
from skylight.engines.ranged import confined
from skylight.engines.scratch import ScratchFile
from skylight.engines.sim import SimEngine
from skylight.errors import Interrupted, UsageError
from skylight.probe import LiveTest
from skylight.probe.fragmented_reads.fio_log_recording import keep_logs
from skylight.probe.known_state import MEANS, QUICK, Means
from skylight.probe.suite import (
    TESTS,
    ZONED_TESTS,
    SuiteOptions,
    SuiteResult,
    chosen,
    infer_suite,
    run_suite,
    within_journal,
)
from skylight.probe.zoned import model_of
from skylight.recording import FIO_JOBS, Recording
from skylight.report import FINDINGS_NAME
from skylight.units import format_capacity, format_size

HEAD_TRACE = "--head-trace"
OWN, FIO = "own", "fio"
# What standard output holds.
WORDS, JSON, CSV = "words", "json", "csv"

_NAMES = textwrap.fill(
    ", ".join(test.name for test in (*TESTS, *ZONED_TESTS)), 78, initial_indent="  ", subsequent_indent="  "
)
_EPILOG = f"""\b
Tests, for --only:
{_NAMES}

\b
Targets:
  sim:NAME             an emulated drive (skylight drives list)
  sim:FILE.toml        an emulated drive from your own profile
  /dev/sdX or a path   a real drive through the kernel, or a plain file
  recording:DIR        evidence of an earlier run, without the drive
  fio-log:FILE,..      latency logs of fio of one drive, or a folder of them

\b
Examples:
  skylight probe sim:emulated-smr-1
  skylight probe sim:emulated-smr-1 sim:st4000nc001 --out compared
  skylight probe sim:st5000as0011 --conditions drawn    as through some host
  skylight probe /dev/sdX                     reads only
  skylight probe /dev/sdX --destroy-data      all, in hours; its data is lost
  skylight probe /dev/sdX --destroy-data --quick        its kind, in a minute
  skylight probe /dev/sdX --destroy-data --dry-run      what it would do
  skylight probe /dev/sdX --engine fio        reads, by fio; its jobs are kept
  skylight probe /dev/sdX --preserve          writes, and puts the data back
  skylight probe /dev/sdX --destroy-data --range 100GiB-140GiB    only there
  skylight probe --scratch /mnt/data          writes to a file of its own
  skylight probe sim:emulated-smr-1 --only band_size,zones
  skylight probe recording:skylight-report/sdX --out again
  skylight probe sim:st5000as0011 --only cleaning --head-trace head.arrows
  skylight probe recording:skylight-report/sdX --why    with all reasons
  skylight probe sim:st4000nc001 --json | jq .findings.drive_type.value
  skylight probe /dev/sdX --destroy-data --quick --expect cmr && echo good

\b
Exit codes with --expect:
  0  every target is of that kind; with --range, that range is
  1  one is of another kind
  5  of one it could not be determined, and none is of another kind
"""


def _check_head_trace(trace: Path | None, jobs: Sequence[Job], resume: bool) -> None:
    """Refuses a head trace of a target that has none, or of part of a run."""
    if trace is None:
        return
    if len(jobs) > 1 or jobs[0].target.kind != "sim":
        raise UsageError(f"{HEAD_TRACE}: only an emulated drive has a head trace; give a single sim:NAME")
    if resume:
        raise UsageError(f"{HEAD_TRACE}: traces a run from its start; omit --resume")


def _opened(
    jobs: Sequence[Job],
    seed: int,
    destroy_data: bool,
    preserve: bool,
    fio: bool,
    conditions: str | None,
    wanted: AskedRange | None,
    stack: ExitStack,
) -> list[Engine | DriveLogs | None]:
    """An engine for each live target, closed by ``stack``; the logs of a log; None for a recording."""
    engines: list[Engine | DriveLogs | None] = []
    for job in jobs:
        if conditions is not None and job.target.kind != "sim":
            raise UsageError(f"--conditions: {job.target.spec} is not emulated; they are for sim:NAME")
        if job.target.kind == "recording":
            engines.append(None)
        elif job.target.kind == "fio-log":
            engines.append(read_logs(job.target.name))
        else:
            engine: Engine
            if preserve:
                engine = PreservingEngine.keeping(job.target.name, job.folder / JOURNAL)
            else:
                engine = open_target(
                    job.target.spec,
                    seed=seed,
                    destroy_data=destroy_data,
                    conditions=conditions,
                    fio_jobs=job.recording / FIO_JOBS if fio else None,
                )
            stack.enter_context(closing(engine))
            if isinstance(engine, DeviceEngine) and engine.left is not None:
                line(f"{job.target.name}: an earlier run was cut short; {engine.left.words}")
            engines.append(engine if wanted is None else confined(engine, wanted))
    return engines


def _for_scratch(targets: Sequence[str], names: tuple[str, ...], more: bool) -> tuple[str, ...]:
    """The tests that a scratch file can answer; refuses what needs a whole drive."""
    if targets:
        raise UsageError(f"--scratch makes its own target; omit {targets[0]}")
    if more:
        raise UsageError(
            "--scratch makes a file and removes it: it goes without --resume, --destroy-data, --quick and"
            " --engine fio"
        )
    fit = tuple(test.name for test in TESTS if test.runs_in_a_file)
    for name in names:
        if name not in fit:
            raise UsageError(f"--only {name} needs a whole drive; with --scratch: {', '.join(fit)}")
    return names or fit


def _opened_scratch(folder: Path, stack: ExitStack, *, quiet: bool) -> Engine:
    """An engine for a scratch file in a folder; ``stack`` closes it and removes the file."""
    file = ScratchFile(folder)
    if not quiet:
        line(f"{folder}: writing a scratch file of {format_size(file.size())}; it is removed afterwards")
    stack.enter_context(file)
    engine = DeviceEngine.open(str(file.path), destroy_data=True, declared=file.declared())
    if not quiet:
        pieces = "one piece" if len(file.runs) == 1 else f"{len(file.runs)} pieces"
        first, last = file.runs[0], file.runs[-1]
        where = f"{format_capacity(first.physical)} to {format_capacity(last.physical + last.length)}"
        line(f"{folder}: it lies in {pieces} at {where} of the device below")
        line("  what needs the whole drive is not looked for: " + ", ".join(_not_in_a_file()))
    return stack.enter_context(closing(engine))


def _not_in_a_file() -> list[str]:
    return [test.title for test in TESTS if not test.runs_in_a_file]


def _forget(job: Job, made: Sequence[Path]) -> None:
    """Removes the results of a run that was refused before its first step was complete: its recording, and
    the folders it created."""
    Recording.forget_unused(job.recording)
    for folder in made:
        with suppress(OSError):  # not empty: it stays
            folder.rmdir()


def _offer(engine: Engine, reset: Means) -> Offer | None:
    """What an erase that was chosen would be; refuses it where it cannot be done. None where none was."""
    erase = next((one for one in ERASES if one == reset), None)
    return None if erase is None else eraser_of(engine).erase_offer(erase)


def _dry_run(
    jobs: Sequence[Job],
    options: SuiteOptions,
    destroy_data: bool,
    fio: bool,
    conditions: str | None,
    wanted: AskedRange | None,
) -> None:
    """Prints the plan of each target and the ranges that its tests may read and write."""
    with ExitStack() as stack:
        opened = _opened(jobs, options.seed, destroy_data, False, fio, conditions, wanted, stack)
        for engine in opened:
            if engine is None or isinstance(engine, DriveLogs):
                continue  # refused before
            facts, model = engine.describe(), model_of(engine)
            tests = chosen(options.only, quick=options.quick, model=model)
            offer = _offer(engine, options.reset)
            print_plan(facts, engine.can_write, tests, options, model, offer)
            print_ranges(facts, engine.can_write, tests, options)


def _check_dry_run(jobs: Sequence[Job], others: bool) -> None:
    """Refuses a dry run of what is measured already, or beside options that make files."""
    if others or any(job.target.kind in ("recording", "fio-log") for job in jobs):
        raise UsageError(
            "--dry-run is for drives that are not measured yet, without --preserve, --scratch, --resume,"
            " --head-trace, --expect, --json and --csv; omit one"
        )


def _measure(job: Job, engine: Engine, options: SuiteOptions, quiet: bool) -> SuiteResult:
    """Measures one live target: plan, progress, findings."""
    facts, model = engine.describe(), model_of(engine)
    tests = chosen(options.only, quick=options.quick, model=model)
    unkept: tuple[LiveTest, ...] = ()
    if facts.declared.get("preserved") is True:
        tests, unkept = within_journal(tests, facts, quick=options.quick)
        options = replace(options, only=tuple(test.name for test in tests)) if unkept else options
    if not tests:
        others = ", ".join(test.name for test in chosen((), model=model))
        raise UsageError(
            f"{facts.name}: a {model} drive refuses the writes of the tests that were asked for; ask for"
            f" others with --only (tests: {others})"
        )
    done = False
    if options.resume:
        kept = Recording.open(job.recording)
        kept.check_same_run(facts, options.to_json(engine.can_write), options.seed)
        done = all(kept.is_complete(test.name) for test in tests)
    offer = None if done else _offer(engine, options.reset)
    if done and not quiet:
        line(f"{facts.name}: the run in {job.folder} is already complete; nothing is measured again")
    elif not quiet:
        print_plan(facts, engine.can_write, tests, options, model, offer, unkept)
    new = not Recording.is_begun(job.recording)
    made = [path for path in (job.folder, job.folder.parent) if not path.exists()]
    try:
        with DeviceProgress() as progress:
            return run_suite(engine, job.recording, options, progress.advance, progress.found)
    except UsageError:
        if new:
            _forget(job, made)
        raise


def _result_of(
    job: Job, engine: Engine | DriveLogs | None, options: SuiteOptions, quiet: bool
) -> SuiteResult:
    """The result of one target: measured, or inferred from what was recorded or logged."""
    if engine is None or isinstance(engine, DriveLogs):
        if engine is not None and not options.resume:
            keep_logs(engine, job.recording)
        return infer_suite(job.recording)
    return _measure(job, engine, options, quiet)


def _interrupted(stop: KeyboardInterrupt, page: Path, out: Path | None) -> Interrupted:
    """What Ctrl-C is to a person, with the notes of what it cut short."""
    interrupted = Interrupted(_resume_line(page, out))
    for note in getattr(stop, "__notes__", ()):
        interrupted.add_note(note)
    return interrupted


def _resume_line(page: Path, out: Path | None) -> str:
    """How to resume this run: the same command with --resume."""
    arguments = [str(part) for part in click.get_current_context().find_root().obj or ()]
    if not arguments:
        return f"interrupted; the measurements so far are kept in {page}: rerun with --resume"
    if HEAD_TRACE in arguments:  # a resumed run has no head trace
        at = arguments.index(HEAD_TRACE)
        del arguments[at : at + 2]
    arguments = [each for each in arguments if not each.startswith(HEAD_TRACE + "=")]
    more = [] if "--resume" in arguments else ["--resume"]
    if out is None:
        more += ["--out", str(page)]  # a later run may have a newer default
    again = shlex.join(["skylight", *arguments, *more])
    return f"interrupted; the measurements so far are kept, resume with: {again}"


def _reasons(jobs: Sequence[Job], page: Path) -> str:
    """The command that prints all findings with their reasons, without the drives; it writes the same report
    again, not another one."""
    kept = [f"recording:{job.folder if job.target.kind != 'recording' else job.target.name}" for job in jobs]
    return shlex.join(["skylight", "probe", *kept, "--why", "--out", str(page)])


def _print_end(
    found: Sequence[SuiteResult],
    jobs: Sequence[Job],
    written: Path,
    trace: HeadTraceFile | None,
    *,
    why: bool,
) -> None:
    """Prints the verdicts of several targets once more, and where everything is."""
    if len(found) > 1:
        print_all(found)
    line()
    if not why:
        line(f"Reasons: {_reasons(jobs, written.parent)}")
    line(f"Report: {written}")
    if trace is not None:
        line(f"Head trace: {trace.summary()}")


def _conclude(
    found: Sequence[SuiteResult],
    jobs: Sequence[Job],
    written: tuple[str, Path],
    trace: HeadTraceFile | None,
    form: str,
    *,
    why: bool,
) -> None:
    """Prints the results in their form: JSON or CSV alone, or where they are; ``written`` is the JSON and the
    report's path."""
    if form == WORDS:
        _print_end(found, jobs, written[1], trace, why=why)
    else:
        click.echo(written[0] if form == JSON else csv_text(found), nl=False)


def write_results(results: Sequence[tuple[SuiteResult, Path]], page: Path) -> tuple[str, Path]:
    """Writes findings.json and the report; returns the JSON text and the path of the page."""
    from skylight.report.html import write_file, write_report
    from skylight.report.json import document_text, probe_document

    text = document_text(probe_document([result for result, _ in results]))
    write_file(page / FINDINGS_NAME, text)
    return text, write_report(results, page)


def _only(only: str | None) -> tuple[str, ...]:
    """The tests in `--only`; empty without the option."""
    if only is None:
        return ()
    names = tuple(name.strip() for name in only.split(",") if name.strip())
    if not names:
        raise UsageError("--only names no test; name one, or omit --only to run them all")
    chosen(names)
    return names


def _form(as_json: bool, as_csv: bool) -> str:
    """What standard output holds."""
    if as_json and as_csv:
        raise UsageError(
            "--json and --csv both say what standard output holds; give one (--out has the JSON)"
        )
    return JSON if as_json else CSV if as_csv else WORDS


def _check_choice(jobs: Sequence[Job], only: bool, quick: bool, destroy_data: bool) -> None:
    """Refuses two selections of tests, and any selection for a target that is already measured."""
    if only and quick:
        raise UsageError("--quick and --only both select tests; give only one of them")
    if any(job.target.kind not in ("recording", "fio-log") for job in jobs):
        return
    for option, given in (("--only", only), ("--quick", quick), ("--destroy-data", destroy_data)):
        if given:
            raise UsageError(
                f"{option}: {jobs[0].target.spec} is already measured and reported whole; omit {option}"
            )


def _check_preserve(preserve: bool, jobs: Sequence[Job], reset: Means, more: bool) -> None:
    """Refuses --preserve beside what cannot be put back, and where nothing has to be."""
    if not preserve:
        return
    if more:
        raise UsageError(
            "--preserve goes without --destroy-data, --scratch and --engine fio; give one of them"
        )
    if reset in QUICK:
        raise UsageError(f"--preserve: what --reset {reset} discards cannot be put back; omit one of them")
    for job in jobs:
        if job.target.kind != "device":
            raise UsageError(f"--preserve: {job.target.spec} is no device or file; omit it")


class _RangeType(click.ParamType[AskedRange]):
    """START-END, bytes."""

    name = "range"

    def convert(
        self, value: str | AskedRange, param: click.Parameter | None, ctx: click.Context | None
    ) -> AskedRange:
        """Of the text; a range stays."""
        del param, ctx
        return value if isinstance(value, AskedRange) else AskedRange.parsed(value)


def _check_range(wanted: AskedRange | None, jobs: Sequence[Job], reset: Means, more: bool) -> None:
    """Refuses --range beside what concerns the whole drive, and of what is already measured."""
    if wanted is None:
        return
    if more:
        raise UsageError(f"--range goes without --scratch and {HEAD_TRACE}; give one of them")
    if reset in QUICK or reset in ERASES:
        raise UsageError(f"--range: --reset {reset} is of the whole drive; omit one of them")
    for job in jobs:
        if job.target.kind in ("recording", "fio-log"):
            raise UsageError(f"--range: {job.target.spec} is already measured; omit it")


@click.command(epilog=_EPILOG)
@click.argument("targets", nargs=-1, metavar="TARGET..", shell_complete=completion.targets)
@click.option(
    "--only",
    metavar="TEST,..",
    shell_complete=completion.suite_tests,
    help="Run only these tests, and those they depend on.",
)
@click.option("--quick", is_flag=True, help="Only determine whether the drive is shingled, and of what kind.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for recording and report. Default: skylight-report/ and the target's name, with -2, -3 .."
    " if it exists.",
)
@click.option("--why", is_flag=True, help="Print every finding with its confidence and its reason.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON, and nothing else.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the findings as CSV, and nothing else.")
@click.option(
    "--expect",
    type=click.Choice(["cmr", "smr", "not-rotating"]),
    help="Exit with 1 if a target is of another kind, with 5 if that could not be determined.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=1,
    metavar="N",
    show_default=True,
    help="Seed of the offsets that are read and written, and of an emulated drive's jitter.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the plan and every range that would be read or written, and stop."
)
@click.option("--resume", is_flag=True, help="Resume an interrupted run in the same DIR.")
@click.option(
    "--conditions",
    metavar="ideal|drawn|FILE",
    help="What the host meets besides an emulated drive: nothing, a draw from the seed, or a file. Default:"
    " as the profile says, or nothing.",
)
@click.option(
    "--reset",
    type=click.Choice(MEANS),
    default="auto",
    show_default=True,
    help="How writes begin in a known state. auto: erase of an emulated drive, else TRIM, else idle time,"
    " else rewriting. sanitize, secure-erase, format: the whole drive by its own command; not in auto.",
)
@click.option(
    "--engine",
    type=click.Choice([OWN, FIO]),
    default=OWN,
    show_default=True,
    help="What does the I/O of a device or file: Skylight itself, or fio, whose job files are kept.",
)
@click.option("--destroy-data", is_flag=True, help="Allow writes to a device or file. Its data is lost.")
@click.option(
    "--preserve",
    is_flag=True,
    help="Allow writes and put the data back: what is overwritten is read first and kept in the results."
    " Tests that write more than 4 GiB are left out.",
)
@click.option(
    "--range",
    "wanted",
    type=_RangeType(),
    metavar="START-END",
    help="Tests read and write only there, such as 100GiB-140GiB, or 1TB- up to the end. Rounded inwards"
    " to whole MiB. What a part of a drive cannot show stays unknown.",
)
@click.option(
    "--scratch",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="In place of TARGET: probe the drive below a mounted file system by a file in DIR, made for it and"
    " removed afterwards. What needs the whole drive stays unknown.",
)
@click.option(
    HEAD_TRACE,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the position and purpose of every head movement of an emulated drive (Arrow columns).",
)
def probe(
    targets: tuple[str, ...],
    only: str | None,
    quick: bool,
    out: Path | None,
    why: bool,
    as_json: bool,
    as_csv: bool,
    expect: str | None,
    seed: int,
    dry_run: bool,
    resume: bool,
    conditions: str | None,
    engine: str,
    destroy_data: bool,
    preserve: bool,
    wanted: AskedRange | None,
    scratch: Path | None,
    head_trace: Path | None,
    reset: Means,
) -> None:
    """Measure what a drive is, and write a report.

    Nothing is ever written to a device or a file without --destroy-data or --preserve; with --scratch, only
    to the file that it makes. Two or more targets give one report that compares them.
    """
    names, form = _only(only), _form(as_json, as_csv)
    if scratch is not None:
        names = _for_scratch(targets, names, resume or destroy_data or quick or engine == FIO)
        targets = (str(scratch),)
    elif not targets:
        raise click.MissingParameter(param_hint="'TARGET..'", param_type="argument")
    jobs, page = jobs_of(targets, out, resume)
    _check_choice(jobs, only is not None, quick, destroy_data)
    _check_preserve(preserve, jobs, reset, destroy_data or scratch is not None or engine == FIO)
    _check_range(wanted, jobs, reset, scratch is not None or head_trace is not None)
    check_distinct([job.target for job in jobs])
    _check_head_trace(head_trace, jobs, resume)
    options = SuiteOptions(seed=seed, only=names, quick=quick, reset=reset)
    if dry_run:
        _check_dry_run(jobs, any((preserve, scratch, resume, head_trace, expect, form != WORDS)))
        _dry_run(jobs, options, destroy_data, engine == FIO, conditions, wanted)
        return
    check_out(page, jobs, resume)
    check_results_folder(page)
    quiet = form != WORDS
    results: list[tuple[SuiteResult, Path]] = []
    trace: HeadTraceFile | None = None
    try:
        with ExitStack() as stack:
            engines: list[Engine | DriveLogs | None] = (
                _opened(jobs, seed, destroy_data, preserve, engine == FIO, conditions, wanted, stack)
                if scratch is None
                else [_opened_scratch(scratch, stack, quiet=quiet)]
            )
            if head_trace is not None and isinstance(engines[0], SimEngine):
                trace = stack.enter_context(HeadTraceFile(head_trace, engines[0]))
            for job, opened in zip(jobs, engines, strict=True):
                begun = resume and Recording.is_begun(job.recording)
                result = _result_of(job, opened, replace(options, resume=begun), quiet=quiet)
                results.append((result, job.recording))
                if not quiet:
                    print_result(result, why=why)
        written = write_results(results, page)
    except KeyboardInterrupt as stop:
        raise _interrupted(stop, page, out) from stop
    found = [result for result, _ in results]
    _conclude(found, jobs, written, trace, form, why=why)
    if expect is not None:
        check_expected(found, expect)
