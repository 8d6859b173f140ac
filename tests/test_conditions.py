"""Conditions as people and engines meet them: what a target refuses, what a switch reports, the commands.

What happens inside the drive is tested where it happens (crates/drive/tests/conditions.rs)."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from skylight import _native
from skylight.cli.app import cli
from skylight.engines.sim import SimEngine
from skylight.engines.sim_under_conditions import ConditionedEngine, Conditions
from skylight.errors import TargetError, UsageError
from skylight.evidence import IoBatch, IoLog, Op, SettingsReport
from skylight.probe.suite import SuiteOptions, run_suite

DRIVE = "st4000nc001"
BLOCK = 4096


def run(*arguments: str) -> Result:
    """The command, as a person types it."""
    return CliRunner().invoke(cli, list(arguments))


def engine(tmp_path: Path, text: str, drive: str = DRIVE) -> SimEngine:
    """A drive under the conditions of that text."""
    file = tmp_path / "conditions.toml"
    file.write_text(f"[conditions]\n{text}\n", encoding="utf-8")
    return SimEngine.open(drive, conditions=str(file))


def reads(target: SimEngine) -> IoLog:
    """Some reads all over the drive."""
    return target.run(IoBatch.reads(np.arange(1, 60) * (10 << 30), BLOCK))


def reported(target: SimEngine, *, on: bool) -> SettingsReport:
    """What the target says after it was asked for both settings."""
    with target.settings(write_cache=on, look_ahead=on) as report:
        return report


def test_ideal_conditions_are_the_drive_alone(tmp_path: Path) -> None:
    plain, ideal = SimEngine.open(DRIVE), SimEngine.open(DRIVE, conditions="ideal")
    assert type(ideal) is SimEngine
    assert ideal.describe() == plain.describe()
    options = SuiteOptions(only=("drive_type",))
    for target, name in ((plain, "plain"), (ideal, "ideal")):
        run_suite(target, tmp_path / name, options)
    files = {path.name: path.read_bytes() for path in (tmp_path / "plain").glob("*.arrows")}
    assert files
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "ideal").glob("*.arrows")}


def test_drawn_conditions_are_those_of_the_seed() -> None:
    logs = [reads(SimEngine.open(DRIVE, seed=seed, conditions="drawn")) for seed in (3, 3, 4)]
    assert logs[0].equals(logs[1])
    assert not logs[0].equals(logs[2])
    assert not logs[0].equals(reads(SimEngine.open(DRIVE, seed=3)))


@pytest.mark.parametrize(("erase", "erases", "trims"), [
    ("none", False, False), ("trim", False, True), ("sanitize", True, True),
])  # fmt: skip
def test_what_a_target_erases(tmp_path: Path, erase: str, erases: bool, trims: bool) -> None:
    # Another condition besides, so that the control is under conditions too.
    target = engine(tmp_path, f'erase = "{erase}"\nclock = "1 us"', "st5000as0011")
    assert isinstance(target, ConditionedEngine)
    target.drive.set_write_cache(False)
    target.run(IoBatch.writes([1 << 30], BLOCK))
    assert target.counters()["cache_live_bytes"] == BLOCK
    trim = IoBatch.make(Op.TRIM, [1 << 30], BLOCK)
    if trims:
        target.run(trim)
        assert target.counters()["cache_live_bytes"] == 0
        target.run(IoBatch.writes([1 << 30], BLOCK))
    else:
        with pytest.raises(TargetError, match="TRIM is not supported"):
            target.run(trim)
    assert target.erase() is erases
    assert target.counters()["cache_live_bytes"] == (0 if erases else BLOCK)


@pytest.mark.parametrize(("cache", "asked_on", "asked_off"), [
    ("obeys", True, False), ("off", False, False), ("on", True, True), ("said-off", False, False),
    ("ignores-flush", True, True),
])  # fmt: skip
def test_what_a_target_says_of_its_write_cache(
    tmp_path: Path, cache: str, asked_on: bool, asked_off: bool
) -> None:
    target = engine(tmp_path, f'volatile_cache = "{cache}"\nclock = "1 us"', "st5000as0011")
    assert reported(target, on=True).write_cache is asked_on
    assert reported(target, on=False).write_cache is asked_off


def test_a_cache_that_is_said_to_be_off_is_on(tmp_path: Path) -> None:
    def write_ns(text: str) -> float:
        target = engine(tmp_path, text)
        with target.settings(write_cache=False, look_ahead=False):
            log = target.run(IoBatch.writes(np.arange(1, 60) * (10 << 30), BLOCK))
        return float(np.median(log.latency_ns))

    assert write_ns('volatile_cache = "said-off"') < 1e6
    assert write_ns('volatile_cache = "obeys"\nclock = "1 us"') > 3e6


def test_look_ahead_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert reported(engine(tmp_path, 'clock = "1 us"'), on=False).look_ahead is False
    fixed = reported(engine(tmp_path, 'look_ahead = "stays-on"'), on=False)
    assert fixed.look_ahead is None
    assert "cannot be set" in fixed.note


def test_a_recording_is_of_its_conditions(tmp_path: Path) -> None:
    one, other = engine(tmp_path, 'clock = "1 us"'), engine(tmp_path, 'clock = "1 ms"')
    assert one.describe() != other.describe()


def test_a_drive_carries_its_conditions(tmp_path: Path) -> None:
    made = run("drives", "random", "--seed", "7", "--kind", "journaled", "--conditions", "drawn")
    assert made.exit_code == 0, made.output
    file = tmp_path / "seven.toml"
    file.write_text(made.output, encoding="utf-8")
    carried = SimEngine.open(str(file), seed=5)
    assert isinstance(carried, ConditionedEngine)
    drawn = Conditions.of(_native.conditions_check(_native.random_conditions(7), "drawn"))
    assert carried.conditions == drawn
    assert type(SimEngine.open(str(file), conditions="ideal")) is SimEngine
    plain = run("drives", "random", "--seed", "7", "--kind", "journaled").output
    assert made.output.startswith(plain)
    assert (
        run("drives", "random", "--seed", "7", "--kind", "journaled", "--conditions", "ideal").output == plain
    )


def test_the_truth_knows_what_conditions_put_out_of_reach(tmp_path: Path) -> None:
    file = tmp_path / "swallows.json"
    file.write_text(json.dumps({"conditions": {"volatile_cache": "ignores-flush"}}), encoding="utf-8")
    under, ideal = (
        json.loads(run("drives", "truth", "st5000as0011", "--json", *more).output)["findings"]
        for more in (("--conditions", str(file)), ())
    )
    assert ideal["journal_quantum_bytes"]["measurable"]
    assert not under["journal_quantum_bytes"]["measurable"]
    assert "ignores FLUSH" in under["journal_quantum_bytes"]["why"]
    assert under["rotation_ns"] == ideal["rotation_ns"]


def test_refusals_name_the_file_and_the_mend(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'conditions.toml:2: .*did you mean "trim"'):
        engine(tmp_path, 'erase = "trym"')
    with pytest.raises(UsageError, match=r"cannot read the conditions: No such file.*give ideal, drawn"):
        SimEngine.open(DRIVE, conditions=str(tmp_path / "absent"))
    for words, line in (
        (("probe", "--conditions", "drawn", f"recording:{tmp_path}"), "is not emulated"),
        (("drives", "truth", DRIVE, "--conditions", "drawn"), "drives random --conditions drawn"),
    ):
        refused = run(*words).exception
        assert isinstance(refused, UsageError) and line in str(refused)
