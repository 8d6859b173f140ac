"""The house rules, held by a test: each rule of tests/tidy/rules.py over every file of the tree.

A failure names file:line and the mend. Each rule is shown to be able to fail by samples that break it, so a
rule that stopped looking would be noticed. The files are those that git tracks or would track; in a tree
without git, all but the folders that .gitignore names.
"""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tidy import citations, hosts, modules, python, rust
from tidy.rules import RULES, SAID, WHY_WIDE, Rule, too_wide
from tidy.samples import SAMPLES

ROOT = Path(__file__).parent.parent
# These cite what is not there on purpose; the log of changes cites what was there.
NOT_READ = ("tests/tidy/samples.py", "tests/test_tidy.py", "CHANGELOG.md")
_RULES = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@cache
def tree() -> dict[str, str]:
    """Path from the root to text, of every file; bytes that are no UTF-8 are kept as escapes."""
    return {
        path: (ROOT / path).read_text(encoding="utf-8", errors="surrogateescape")
        for path in _paths()
        if (ROOT / path).is_file()
    }


def _paths() -> list[str]:
    # A clone made by another user (CI in a container) is safe to list: nothing of it is run by git here.
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
        return sorted(set(listed.stdout.split("\0")) - {""})
    ignored = {line.strip("/\n") for line in (ROOT / ".gitignore").read_text().splitlines()} | {".git"}
    files = (file.relative_to(ROOT) for file in ROOT.rglob("*") if file.is_file())
    return sorted(str(file) for file in files if ignored.isdisjoint(file.parts) and file.suffix != ".so")


@_RULES
def test_rule_holds(rule: Rule) -> None:
    broken = [
        f"{path}:{line}: {message}"
        for path, text in tree().items()
        if rule.reads(path)
        for line, message in rule.check(path, text)
    ]
    assert not broken, f"{rule.name}: {rule.says}\n" + "\n".join(broken)


@_RULES
def test_rule_reads_the_tree(rule: Rule) -> None:
    assert any(rule.reads(path) for path in tree()), (
        f"{rule.name}: no file of the tree matches {rule.include}"
    )


@_RULES
def test_rule_can_fail(rule: Rule) -> None:
    samples = SAMPLES[rule.name]
    assert any(sample.line for sample in samples), "no bad sample"
    assert any(sample.line is None for sample in samples), "no good sample"
    for sample in samples:
        assert rule.reads(sample.path), f"{rule.name} does not read its own sample {sample.path}"
        found = [line for line, _ in rule.check(sample.path, sample.text)]
        expected = [] if sample.line is None else [sample.line]
        assert found == expected, f"{rule.name}: {sample.text!r} gives {found}, not {expected}"


def test_every_part_is_in_the_architecture() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    crates = {path.split("/")[1] for path in tree() if path.startswith("crates/")}
    parts = {
        path.split("/")[2].split(".")[0]
        for path in tree()
        if path.startswith("python/skylight/") and ".py" in path
    }
    shown = crates | {part for part in parts if not part.startswith("_")}
    missing = [name for name in sorted(shown) if f"    {name}/" not in page and f"    {name}.py" not in page]
    assert not missing, f"docs/architecture.md, The house, does not show {missing}"


def _cited() -> citations.Cited:
    return citations.Cited(tree(), citations.rows_of(tree()[citations.FIGURES]))


def test_what_is_cited_is_there() -> None:
    cited, said = _cited(), Rule("", "", citations.elsewhere, SAID, exclude=NOT_READ)
    broken = [
        f"{path}:{line}: {message}"
        for path, text in tree().items()
        if said.reads(path)
        for line, message in citations.missing(path, text, cited)
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("crates/a.rs", "// see docs/nowhere.md", "docs/nowhere.md"),
        ("tests/a.py", "# as tests/test_nothing.py does", "tests/test_nothing.py"),
        ("docs/a.md", "the clock (`drive/nothing.rs`)", "drive/nothing.rs"),
        ("docs/a.svg", '<text class="f">layer/plan.rs, drive/nothing.rs</text>', "drive/nothing.rs"),
        ("crates/layer/src/lib.rs", "//! * [`plan`]: steps. `bands`, `nothing`: the rest.\n", None),
        ("crates/layer/src/lib.rs", "//! * [`plan`], `nothing`: steps.\n", "nothing"),
        ("docs/tests/a.md", "[a page](../nowhere.md#part)", "../nowhere.md"),
        ("docs/tests/a.md", "[a part](../geometry.md#nowhere)", "../geometry.md#nowhere"),
        ("docs/geometry.md", "[a part](#nowhere)", "#nowhere"),
        ("crates/a.rs", '//! Source: docs/geometry.md, "The\n//! nowhere".', "The nowhere"),
        ("crates/a.rs", "// the buffer (crates/layer/src/nowhere).", "crates/layer/src/nowhere"),
        ("python/a.py", "# as in `skylight.infer.nowhere`", "skylight.infer.nowhere"),
        ("python/a.py", "# as in `skylight.units.nowhere`", "skylight.units.nowhere"),
        ("crates/a.rs", "// as row S1z2 and rows S1a to S99 have it", "row S99"),
        (
            "docs/a.md",
            "[x](architecture.md#the-house), [y](tests), `layer/plan.rs`, `plan.rs`; row S1a",
            None,
        ),
        ("README.md", "[x](docs/architecture.md) and [far](https://example.net/docs/a.md)", None),
        ("crates/a.rs", "// docs/architecture.md, row S1e; rows W1 to W7", None),
        ("docs/geometry.md", '[x](#the-idea) and docs/architecture.md, "The\nhouse"', None),
        ("python/a.py", "# crates/layer/src/hbuffer, `skylight.infer.phase.coherence`, skylight.fish", None),
    ],
)
def test_citations_that_are_not_there_are_found(path: str, text: str, message: str | None) -> None:
    found = [words for _, words in citations.missing(path, text, _cited())]
    assert len(found) == (message is not None), found
    assert message is None or message in found[0]


def test_no_modules_of_a_crate_import_each_other_without_a_reason() -> None:
    broken = list(modules.mutual_imports(tree()))
    assert not broken, "\n".join(broken)


_ONE = "//! One.\nuse crate::other::Thing;\n"
_OTHER = "//! Other.\nuse super::{one::Part, third};\n"
_WHY = "//! Imports both ways with `other`: a part of it.\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"one": _ONE, "other": _OTHER}, "crates/a/src/one.rs and crates/a/src/other.rs import each other"),
        ({"one": _ONE, "other": "//! Other.\nfn a() -> crate::one::Part {}\n"}, "import each other"),
        ({"one": _WHY + _ONE, "other": _OTHER}, None),
        ({"one": "//! Imports both ways with `other`:\n" + _ONE, "other": _OTHER}, "import each other"),
        ({"one": _WHY, "other": _OTHER}, "leave the line out"),
        (
            {"one": _ONE, "other": "//! Other.\n#[cfg(test)]\nmod tests {\n    use crate::one::Part;\n}\n"},
            None,
        ),
        (
            {"one/mod": "mod part;\nuse self::part::A;\n", "one/part": "use super::B;\nuse crate::one::C;\n"},
            None,
        ),
        ({"one/part": "use crate::other::A;\n", "other": "use crate::one::part::B;\n"}, "import each other"),
        (
            {"lib": "pub use other::Thing;\n", "one": "use crate::Thing;\n", "other": _OTHER},
            "import each other",
        ),
        (
            {
                "inner/mod": "pub(crate) use part::A;\n",
                "inner/part": "use crate::one::B;\n",
                "one": "use crate::inner::A;\n",
            },
            "import each other",
        ),
        ({"one": "use crate as a;\nfn b() -> a::other::C {}\n", "other": _OTHER}, "import each other"),
        ({"one": "extern crate self as a;\nuse a::other::B;\n", "other": _OTHER}, "import each other"),
        (
            {
                "inner/mod": "",
                "inner/part": "use crate::one::A;\n",
                "one": "use crate::inner;\nuse inner::part::B;\n",
            },
            "import each other",
        ),
        ({"lib": "pub use other::A as B;\n", "one": "use crate::B;\n", "other": _OTHER}, "import each other"),
        (
            {
                "lib": "pub use other::*;\n",
                "one": "use crate::B;\n",
                "other": _OTHER + "pub const fn B() {}\n",
            },
            "import each other",
        ),
        (
            {"lib": "pub use std::fs;\npub use other::Thing;\n", "one": "use crate::Thing;\n", "other": ""},
            None,
        ),
        (
            {"one": _ONE, "other": "use super::third::A;\n", "third": "use super::one::B;\n"},
            "crates/a/src/other.rs imports crates/a/src/third.rs, crates/a/src/third.rs imports",
        ),
        # The two are one thing, and the third leads back to it.
        ({"one": _WHY + _ONE, "other": _OTHER, "third": "use super::one::B;\n"}, "in a ring"),
        (
            {
                "one": _WHY + "//! Imports both ways with `third`: another.\n" + _ONE,
                "other": _OTHER,
                "third": "use super::one::B;\n",
            },
            None,
        ),
        # Two folders, of which no two files import each other.
        (
            {
                "one/a": "use crate::other::b::C;\n",
                "one/d": "",
                "other/b": "",
                "other/e": "use crate::one::d::F;\n",
            },
            "in a ring",
        ),
        ({"one": _ONE, "other": "", "other_tests": _OTHER}, None),
        ({"one": _ONE, "other": "", "other/tests": "use crate::one::Part;\n"}, None),
    ],
)
def test_modules_that_import_each_other_are_found(files: dict[str, str], said: str | None) -> None:
    found = list(modules.mutual_imports({f"crates/a/src/{name}.rs": text for name, text in files.items()}))
    assert len(found) == (said is not None), found
    assert said is None or said in found[0]


def test_no_class_inherits_many_fields_without_a_reason() -> None:
    code = {path: text for path, text in tree().items() if path.endswith(".py")}
    broken = [
        f"{path}:{each.line}: {said}"
        for path, each in python.inheriting(code, WHY_WIDE)
        if (said := too_wide(each))
    ]
    assert not broken, "\n".join(broken)


_EIGHT = "\n".join(f"    b{number}: int" for number in range(8))
_NINE = "\n".join(f"    c{number}: int" for number in range(9))
_WHY_WIDE = '    """More than 15 fields: one per b."""\n'


@pytest.mark.parametrize(
    ("files", "wide"),
    [
        ({"bench/a.py": f"class A:\n{_EIGHT}\nclass B(A):\n{_NINE}"}, ["B"]),
        ({"bench/a.py": f"class A:\n{_EIGHT}\nclass B(A):\n{_WHY_WIDE}{_NINE}"}, []),
        ({"bench/a.py": f"class A:\n{_EIGHT}\nclass B(A):\n{_EIGHT}"}, []),
        ({"bench/a.py": f"class A:\n{_WHY_WIDE}{_EIGHT}\nclass B(A):\n{_NINE}"}, []),
        ({"bench/a.py": f"class A:\n{_EIGHT}\nclass B(A): ...\nclass C(B[int]):\n{_NINE}"}, ["C"]),
        (
            {
                "tests/a/b.py": f"class A:\n{_EIGHT}",
                "tests/a/__init__.py": "from a.b import A as B",
                "python/c.py": f"from a import B\nclass C(B):\n{_NINE}",
            },
            ["C"],
        ),
    ],
)
def test_classes_that_inherit_many_fields_are_found(files: dict[str, str], wide: list[str]) -> None:
    assert [each.name for _, each in python.inheriting(files, WHY_WIDE) if too_wide(each)] == wide


def test_tables_of_modules_name_what_is_there() -> None:
    broken = list(modules.tables(tree()))
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("rows", "differ"),
    [
        ("| `one`, `other` | both |\n| `inner` | a package |\n", []),
        ("| `one` | `other` is named in the wrong cell |\n| `inner` | a package |\n", ["other"]),
        ("| `one`, `other` | both |\n| `inner`, `gone` | the last is not there |\n", ["gone"]),
    ],
)
def test_tables_that_name_other_modules_are_found(rows: str, differ: list[str]) -> None:
    page = f'"""A package.\n\n| module | holds |\n|---|---|\n{rows}"""\n'
    files = {"a/__init__.py": page, "a/one.py": "", "a/other.py": "", "a/inner/__init__.py": "", "b.py": ""}
    said = list(modules.tables(files))
    assert [line.rsplit("`", 2)[1] for line in said] == differ


def test_code_only_keeps_offsets_and_lines() -> None:
    for path, text in tree().items():
        if path.endswith(".rs"):
            code = rust.code_only(text)
            assert len(code) == len(text), path
            assert code.count("\n") == text.count("\n"), path
            assert code.count("{") == code.count("}"), (
                f"{path}: braces do not match, the scanner lost its way"
            )


def test_mirror_hosts_are_read_from_configuration_text() -> None:
    text = "[global]\nindex-url = https://user:secret@mirror.example.net:8081/simple\nurl = 'http://localhost/x'\n"
    assert hosts.hosts_in(text) == {"mirror.example.net"}
