"""``skylight drives random`` and ``drives truth``: what people type and what they get.

The drives themselves are tested where they are made (crates/drive/tests/random.rs and truth.rs).
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from skylight import _native
from skylight.cli.app import cli
from skylight.engines.sim import SimEngine, profile_names
from skylight.evidence import IoBatch

KINDS = ("conventional", "ssd", "set-associative", "fully-associative", "journaled")
KEYS = {"value", "unit", "interval", "confidence", "why", "measurable"}


def run(*arguments: str) -> Result:
    """The command, as a person types it."""
    return CliRunner().invoke(cli, list(arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_drive_is_a_profile_that_runs(kind: str, tmp_path: Path) -> None:
    made = run("drives", "random", "--seed", "11", "--kind", kind)
    assert made.exit_code == 0, made.output
    assert made.output.startswith(f"# skylight drives random --seed 11 --kind {kind}\n")
    file = tmp_path / "random.toml"
    file.write_text(made.output, encoding="utf-8")
    assert run("drives", "check", str(file)).exit_code == 0
    log = SimEngine.open(str(file)).run(IoBatch.writes([0, 1 << 20, 1 << 30], 4096))
    assert (log.complete_ns > log.submit_ns).all()


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    first, again, other = (run("drives", "random", "--seed", seed).output for seed in ("5", "5", "6"))
    assert first == again != other
    kind = first.splitlines()[0].rpartition(" ")[2]
    assert kind in KINDS
    assert first == run("drives", "random", "--seed", "5", "--kind", kind).output


@pytest.mark.parametrize("seed", ["-1", "x", str(1 << 64)])
def test_a_seed_that_is_none_is_refused(seed: str) -> None:
    assert run("drives", "random", "--seed", seed).exit_code == 2


def test_a_kind_that_is_none_is_refused() -> None:
    assert run("drives", "random", "--seed", "1", "--kind", "shingled").exit_code == 2
    with pytest.raises(ValueError, match='"shingled" is not a kind of drive; use conventional'):
        _native.random_profile(1, "shingled")


def _findings(target: str) -> dict[str, dict[str, object]]:
    result = run("drives", "truth", target, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["schema"] == 1
    findings = document["findings"]
    assert all(set(finding) - {"range"} == KEYS for finding in findings.values())
    assert isinstance(findings, dict)
    return findings


@pytest.mark.parametrize("name", profile_names())
def test_truth_of_a_shipped_drive(name: str) -> None:
    findings = _findings(name)
    # How a raw disk is shingled does not show in its times: to a probe it is conventional.
    conventional = name in ("st4000nc001", "swd-160gb")
    assert findings["drive_type"]["value"] == ("cmr" if conventional else "smr")
    table = run("drives", "truth", name)
    assert table.exit_code == 0
    assert all(finding in table.output for finding in findings)


def test_truth_of_a_file_and_of_none(tmp_path: Path) -> None:
    file = tmp_path / "random.toml"
    file.write_text(_native.random_profile(3, "ssd"), encoding="utf-8")
    assert _findings(str(file))["drive_type"]["value"] == "not-rotating"
    assert run("drives", "truth", str(tmp_path / "none.toml")).exit_code != 0
