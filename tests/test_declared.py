"""Declared against measured: what agrees, what differs, and that the truth is looked at by the page alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from skylight.engines.sim import read_profile
from skylight.evidence import Evidence, IoBatch, IoLog, Op, Params, Step, TargetFacts
from skylight.findings import UNKNOWN, Finding, Value
from skylight.probe.suite import SuiteResult
from skylight.report.declared import AGREES, DIFFERS, NOT_MEASURED, Claim, claims_of

SIZE = 8_000_000_000_000


def result(
    kind: str, declared: Params, end: int = SIZE, name: str = "/dev/sdx", **found: Value
) -> SuiteResult:
    """A result with one read that ends at `end`."""
    facts = TargetFacts(kind, name, SIZE, 512, declared)
    batch = IoBatch.make(Op.READ, [end - 4096], 4096)
    log = IoLog.of(batch, batch.offset, batch.offset + batch.size)
    kept = Evidence("drive_type", facts, [Step("reads", "run", {"depth": 1}, log)], complete=True)
    findings = [Finding(name, value, None, None, 0.9, "given") for name, value in found.items()]
    return SuiteResult(facts, [kept], findings, 1)


def rows(one: SuiteResult) -> dict[str, Claim]:
    return {row.title: row for row in claims_of(one).rows}


DECLARED: Params = {
    "model": "ST8000AS0002", "firmware": "AR13", "rotational": True, "zoned": "none",
    "write_cache": "write back", "rotation_rpm": 5900,
}  # fmt: skip


def test_a_drive_managed_disk_says_no_zones_and_that_differs() -> None:
    seen = rows(result("device", DECLARED, drive_type="smr", rotation_ns=10_038_000))
    assert (seen["Shingled zones"].declared, seen["Shingled zones"].verdict) == ("no zones", DIFFERS)
    assert "does not say so" in seen["Shingled zones"].measured
    assert seen["Rotating disk"].verdict == AGREES
    assert seen["Rotation rate"].verdict == AGREES and "5,977" in seen["Rotation rate"].measured
    assert seen["Capacity"].verdict == AGREES
    assert {seen[name].verdict for name in ("Model", "Firmware", "Volatile write cache")} == {NOT_MEASURED}


@pytest.mark.parametrize(
    ("rotational", "kind", "verdict"),
    [
        (True, "not-rotating", DIFFERS),
        (False, "not-rotating", AGREES),
        (False, "cmr", DIFFERS),
        (True, UNKNOWN, NOT_MEASURED),
    ],
)
def test_what_turns_is_compared(rotational: bool, kind: str, verdict: str) -> None:
    assert (
        rows(result("file", {"rotational": rotational}, drive_type=kind))["Rotating disk"].verdict == verdict
    )


def test_zones_and_speed_are_compared() -> None:
    assert rows(result("device", {"zoned": "none"}, drive_type="cmr"))["Shingled zones"].verdict == AGREES
    host_aware = rows(result("device", {"zoned": "host-aware"}, drive_type="smr"))["Shingled zones"]
    assert host_aware.verdict == AGREES
    slow = rows(result("device", {"rotation_rpm": 7200}, rotation_ns=10_169_000))["Rotation rate"]
    assert slow.verdict == DIFFERS and slow.measured == "5,900 a minute (18 % fewer)"


def test_a_write_cache_is_seen_by_its_effect() -> None:
    worth: Value = {"one_at_a_time": 40.0, "write_cache_on": 1200.0}
    little: Value = {"one_at_a_time": 40.0, "write_cache_on": 41.0}
    declared: Params = {"write_cache": "write through"}
    assert rows(result("device", declared, random_write_rate=worth))["Volatile write cache"].verdict == AGREES
    seen = rows(result("device", declared, random_write_rate=little))["Volatile write cache"]
    assert seen.verdict == NOT_MEASURED and "off when the probe began" in seen.declared


def test_what_lists_say_of_a_model_is_compared() -> None:
    shingled: Params = {"model": "ST4000DM004-2CV104"}
    seen = rows(result("device", shingled, drive_type="smr"))["Recording"]
    assert (seen.declared, seen.verdict) == ("shingled (SMR), by Seagate, CMR and SMR Hard Drives", AGREES)
    assert rows(result("device", shingled, drive_type="cmr"))["Recording"].verdict == DIFFERS
    assert rows(result("device", shingled, drive_type=UNKNOWN))["Recording"].verdict == NOT_MEASURED
    assert "Recording" not in rows(result("device", {"model": "QEMU HARDDISK"}, drive_type="cmr"))


def test_what_differs_heads_the_report() -> None:
    agreed: Params = {"rotational": True, "zoned": "none"}
    assert claims_of(result("device", agreed, drive_type="cmr")).contradiction == ""
    seen = result("device", {"model": "WDC WD40EFRX-68WT0N0", "zoned": "none"}, drive_type="smr")
    assert claims_of(seen).contradiction == (
        "Recording: declared conventional (CMR), by heise online, after Western Digital's list of WD Red Plus"
        " (June 2020), measured shingled (SMR); Shingled zones: declared no zones, measured shingled (SMR):"
        " the drive manages it and does not say so"
    )


def test_capacity_that_nothing_reached_is_not_measured() -> None:
    assert rows(result("device", {}, end=SIZE // 2))["Capacity"].verdict == NOT_MEASURED


def test_logs_of_another_tool_declare_nothing() -> None:
    assert claims_of(result("fio-log", {"format": "v3"})).rows == ()


def of_profile(digest: str | None = None, name: str = "sim:st5000as0011", **found: Value) -> SuiteResult:
    text, _ = read_profile("st5000as0011")
    sha = hashlib.sha256(text.encode()).hexdigest() if digest is None else digest
    return result("sim", {"profile_sha256": sha}, SIZE, name, **found)


def test_an_emulated_drive_is_compared_with_what_is_true_of_it() -> None:
    seen = rows(
        of_profile(drive_type="smr", map_merge_every=250, cache_map_entries=UNKNOWN, mapping="static")
    )
    assert (seen["Drive type"].verdict, seen["Mapping"].verdict) == (AGREES, AGREES)
    merge = seen["Writes from map merge to map merge"]
    assert (merge.declared, merge.measured, merge.verdict) == ("240 writes", "250", DIFFERS)
    assert seen["Cache map entries"].verdict == seen["Band size"].verdict == NOT_MEASURED
    assert "2 agree" not in claims_of(of_profile()).counted


def test_what_is_declared_has_the_digits_of_what_was_found() -> None:
    text, _ = read_profile("st5000as0011")
    profile = {"profile_sha256": hashlib.sha256(text.encode()).hexdigest()}
    one = result("sim", profile, name="sim:st5000as0011")
    near = Finding("rotation_ns", 10_037_600, "ns", (10_037_594, 10_037_606), 0.99, "given")
    row = rows(replace(one, findings=[near]))["Rotation time"]
    assert (row.declared, row.measured) == ("10.038 ms", "10.038 ms")


def test_only_the_profile_that_was_measured_counts(tmp_path: Path) -> None:
    changed = claims_of(of_profile(digest="0" * 64, drive_type="smr"))
    assert [row.title for row in changed.rows] == ["Capacity"] and "no longer" in changed.lead
    gone = claims_of(of_profile(name=f"sim:{tmp_path}/gone.toml", drive_type="smr"))
    assert [row.title for row in gone.rows] == ["Capacity"] and "not at hand" in gone.lead


def test_a_profile_of_its_own_name_that_is_no_profile_does_not_break_the_page(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text("not a profile")
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    assert [row.title for row in claims_of(of_profile(digest=sha, name=f"sim:{path}")).rows] == ["Capacity"]
