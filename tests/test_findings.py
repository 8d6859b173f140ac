"""Findings are declared once: what repeats them follows from the declarations, or is held against them
here."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from skylight import _native
from skylight.engines.sim import profile_names, read_profile
from skylight.findings import Property
from skylight.probe import film_findings
from skylight.probe.scoring import SCORED
from skylight.probe.suite import ALL_TESTS, PROPERTIES
from skylight.report.findings_page import findings_page

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/tests/findings.md"
DRAWN = range(2000, 2040)
OFF_BY_ONE = 1  # units: half a turn's nanosecond is rounded on either side
SPOKEN = {"number", "word", "part", "get"}  # how `Known` is asked for a finding


def truths() -> list[tuple[str, dict[str, dict[str, object]]]]:
    """The truth of each profile that comes with Skylight and of some random drives."""
    texts = [(name, read_profile(name)[0]) for name in profile_names()]
    texts += [(str(seed), _native.random_profile(seed, None)) for seed in DRAWN]
    return [(name, json.loads(_native.profile_truth(text, "x"))["findings"]) for name, text in texts]


def test_the_page_of_findings_is_the_declarations() -> None:
    page = findings_page()
    assert PAGE.read_text(encoding="utf-8") == page, (
        "write docs/tests/findings.md anew: python -m skylight.report.findings_page > docs/tests/findings.md"
    )


def test_each_property_is_declared_by_one_package() -> None:
    by_name: dict[str, Property] = {}
    for found in [*(one for test in ALL_TESTS for one in test.findings), *film_findings.FINDINGS]:
        assert by_name.setdefault(found.name, found) is found, f"{found.name} is declared twice"
    assert list(by_name) == list(PROPERTIES)


def intervals(found: Property, row: dict[str, object], of: int | None) -> object:
    """The interval of a true finding as its declaration has it, in the form of the truth."""
    assert found.right is not None
    value = row["value"]
    if isinstance(value, str):
        return None
    if isinstance(value, dict):
        numbers = {key: part for key, part in value.items() if not isinstance(part, bool)}
        return {key: list(found.right.interval(part, of, key=key)) for key, part in numbers.items()}
    assert isinstance(value, int)
    return list(found.right.interval(value, of))


def apart(one: object, other: object) -> float:
    """How far two intervals, or tables of them, differ at most; infinite where their forms differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((apart(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other) == 2:
        return float(max(abs(mine - theirs) for mine, theirs in zip(one, other, strict=True)))
    return 0.0 if one is None and other is None else float("inf")


def test_the_truth_of_a_profile_is_as_wide_as_declared() -> None:
    seen = set()
    for drive, truth in truths():
        assert set(truth) <= {found.name for found in SCORED}, drive
        for name, row in truth.items():
            found = PROPERTIES[name]
            assert found.right is not None
            of = truth[found.right.of]["value"] if found.right.of else None
            assert of is None or isinstance(of, int)
            declared = intervals(found, row, of)
            assert apart(declared, row["interval"]) <= OFF_BY_ONE, f"{drive} {name}: {declared}, {row}"
            assert row["unit"] == found.unit, f"{drive} {name}"
            if isinstance(row["value"], str) and found.words:
                assert row["value"] in found.words, f"{drive} {name}"
            seen.add(name)
    assert seen == {found.name for found in SCORED}, "each was held against a truth"


def test_the_table_of_random_drives_says_the_same() -> None:
    """Of `docs/random-drives.md`: a row names findings and how near is right, in their order or once for
    all."""
    text = (ROOT / "docs/random-drives.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    named: list[str] = []
    for cells in rows:
        names = re.findall(r"`(\w+)`", cells[0])
        found = [PROPERTIES[name] for name in names]
        words = [each.right.words(each.unit) for each in found if each.right is not None]
        assert cells[-1].removesuffix(" |") == ", ".join(dict.fromkeys(words)), names
        named += names
    assert sorted(named) == sorted(found.name for found in SCORED)


@pytest.mark.parametrize("folder", ["probe", "report", "reproduce", "geometry", "cli"])
def test_what_is_asked_of_findings_is_declared(folder: str) -> None:
    """A name that no test finds would be unknown for ever."""
    for path in sorted((ROOT / "python/skylight" / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            owner, first = node.func.value, node.args[0]
            asked = isinstance(owner, ast.Name) and owner.id == "known"
            asked = asked or (isinstance(owner, ast.Attribute) and owner.attr == "known")
            if asked and node.func.attr in SPOKEN and isinstance(first, ast.Constant):
                assert first.value in PROPERTIES, f"{path.name}:{node.lineno}: {first.value!r}"
