"""Findings are declared once: what repeats them follows from the declarations, or is held against them
here."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from skylight import _native
from skylight.engines.sim import profile_names, read_profile
from skylight.findings import UNKNOWN, Finding, Property, Value
from skylight.probe import film_findings
from skylight.probe.scoring import SCORED, holds, score
from skylight.probe.suite import ALL_TESTS, PROPERTIES
from skylight.report.findings_page import findings_page
from skylight.truth import true_findings

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/tests/findings.md"
DRAWN = range(2000, 2040)
SPOKEN = {"number", "word", "part", "get"}  # how `Known` is asked for a finding


def truths() -> list[tuple[str, dict[str, dict[str, object]]]]:
    """The truth of each profile that comes with Skylight and of some random drives."""
    texts = [(name, read_profile(name)[0]) for name in profile_names()]
    texts += [(str(seed), _native.random_profile(seed, None)) for seed in DRAWN]
    return [(name, true_findings(text, "x")) for name, text in texts]


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


def test_a_property_says_which_part_of_a_drive_shows_it() -> None:
    with pytest.raises(TypeError, match="scope"):
        Property("speed", "Speed")  # type: ignore[call-arg]  # what is tested


WORDS = [found for found in PROPERTIES.values() if found.words or found.values]


@pytest.mark.parametrize("found", WORDS, ids=lambda found: found.name)
def test_a_word_that_is_not_declared_is_refused(found: Property) -> None:
    for value in (*(found.values or found.words), UNKNOWN):
        assert found.found(value, 1.0, "seen").value == value
        assert found.found({"od": value}, 1.0, "seen").value == {"od": value}
    wrongs: tuple[Value, ...] = ("slow", {"od": "slow"})
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"{found.name}: 'slow' is not declared"):
            found.found(wrong, 1.0, "seen")


def test_what_a_value_may_be_is_declared_once() -> None:
    assert all(bool(found.words) != bool(found.values) for found in WORDS)
    scored = {found.name for found in SCORED if found.unit is None}
    assert scored <= {found.name for found in WORDS}, "words that must be equal are known beforehand"


def test_a_package_judges_only_what_its_tests_declare() -> None:
    """Also of properties that belong to another test, which a run may meet seldom."""
    declared: dict[str, set[str]] = {}
    for test in ALL_TESTS:
        package = ".".join(type(test).__module__.split(".")[:3])
        declared.setdefault(package, set()).update(found.name for found in test.findings)
    judged = 0
    for package, names in declared.items():
        folder = ROOT / "python" / package.replace(".", "/")
        for path in sorted(folder.glob("*.py")):
            module = import_module(package if path.stem == "__init__" else f"{package}.{path.stem}")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not (isinstance(node, ast.Attribute) and node.attr in ("found", "unknown")):
                    continue
                found = vars(module).get(node.value.id) if isinstance(node.value, ast.Name) else None
                if isinstance(found, Property):
                    judged += 1
                    assert found.name in names, f"{path.relative_to(ROOT)}:{node.lineno}: {found.name}"
    assert judged > len(PROPERTIES)


def test_all_that_is_true_of_a_profile_is_declared() -> None:
    seen = set()
    for drive, truth in truths():
        assert set(truth) <= {found.name for found in SCORED}, drive
        for name, row in truth.items():
            if isinstance(row["value"], str):
                declared = PROPERTIES[name].values or PROPERTIES[name].words
                assert row["value"] in declared, f"{drive} {name}"
            seen.add(name)
    assert seen == {found.name for found in SCORED}, "each is true of some drive"


def test_an_answer_is_right_as_near_as_its_declaration_says() -> None:
    truth = dict(truths())["st5000as0011"]
    rotation_ns = truth["rotation_ns"]["value"]
    assert isinstance(rotation_ns, int)
    assert truth["rotation_ns"]["unit"] == "ns"
    assert truth["rotation_ns"]["interval"] == [rotation_ns * 999 // 1000 + 1, rotation_ns * 1001 // 1000]
    assert (truth["drive_type"]["unit"], truth["drive_type"]["interval"]) == (None, None)
    out_of_band, off = truth["out_of_band_ns"]["value"], rotation_ns // 20
    assert isinstance(out_of_band, int)
    assert truth["out_of_band_ns"]["interval"] == [out_of_band - off, out_of_band + off]
    plateaus, near = truth["plateaus"]["value"], truth["plateaus"]["interval"]
    assert isinstance(plateaus, dict) and isinstance(near, dict)
    assert near.keys() == {"count", "first_bytes", "last_bytes"}
    assert near["count"] == [plateaus["count"]] * 2 and near["first_bytes"][0] < plateaus["first_bytes"]


def test_a_log_that_no_erase_puts_back_has_a_range() -> None:
    """Right is what is as near as declared to some place of it; an interval holds it that holds one."""
    text, origin = read_profile("st5000as0011")
    erased = true_findings(text, origin)["out_of_band_ns"]
    kept = true_findings(text, origin, '[conditions]\nerase = "trim"\n')
    row, off = kept["out_of_band_ns"], kept["rotation_ns"]["value"] // 20
    least, most = row["range"]
    assert "range" not in erased and least < row["value"] < most
    assert row["interval"] == [least - off, most + off]
    far = Finding("out_of_band_ns", most + off, "ns", (most, most + off), 0.9, "measured")
    assert score([far], {far.name: row})[0].outcome == "right" and holds([far], {far.name: row})[far.name]
    farther = Finding("out_of_band_ns", most + off + 1, "ns", (most + 1, most + off), 0.9, "measured")
    assert score([farther], {far.name: row})[0].outcome == "wrong"
    assert not holds([farther], {far.name: row})[far.name]


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
