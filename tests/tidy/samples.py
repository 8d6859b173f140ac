"""What each house rule must find, and what it must leave alone: the proof that the rules can fail.

Invariant: every rule has at least one bad sample (with the line that must be named) and one good one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidy import hosts
from tidy.rules import MAX_FIELDS, MAX_FILE_BYTES, MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PAGE_LINES


@dataclass(frozen=True)
class Sample:
    """A file's path and text; `line` is the line that breaks the rule, None when nothing does."""

    path: str
    text: str
    line: int | None


def _rust_function(lines: int) -> str:
    return "fn long() {\n" + "    step();\n" * (lines - 2) + "}\n"


def _rust_struct(fields: int) -> str:
    return "struct A {\n" + "    /// B: c.\n    pub b: Option<(C, D)>,\n" * fields + "}\n"


def _python_fields(count: int) -> str:
    return "".join(f"    c{number}: int\n" for number in range(count))


def _python_init(count: int) -> str:
    return "    def __init__(self) -> None:\n" + "".join(f"        self.d{n} = n\n" for n in range(count))


# Put together from pieces, so that this file obeys the rules it proves.
_HOST = ".".join(("py" + "pi", "org"))
_UNDONE = "to" + "do!()"
_MARK = "# FIX" + "ME later"
_WORK = "/" + "work/main"
_NOTE = "DES" + "IGN"
_AN_ISSUE = "iss" + "ue"
_NOQA = "# no" + "qa"
_IGNORED_TYPE = "# type" + ": ignore"

_PURE_GOOD = """\
//! std::fs is not used.
/* std::net /* std::fs */ */
use std::collections::BTreeMap;
use std::time::Duration;
const A: &str = "std::thread::spawn \\" std::fs";
const B: char = '"';
fn a<'a>(b: &'a str) -> &'a str { b }
"""

SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "no-prints": (
        Sample("crates/serve/src/a.rs", 'fn a() {\n    eprintln!("{b}");\n}\n', 2),
        Sample("crates/serve/src/nbd/a.rs", "fn a() {\n\n    let b = std::io::stdout();\n}\n", 3),
        Sample("crates/serve/src/a.rs", "// eprintln! panics\nfn a() { diagnostics::say(b); }\n", None),
    ),
    "planted-bugs": (
        Sample("crates/a/src/a.rs", "/// The same with a planted bug.\n#[doc(hidden)]\npub fn a() {}\n", 3),
        Sample("crates/a/src/b/a.rs", "    /// Plants a bug.\n    pub fn a(&mut self) {}\n", 2),
        Sample("crates/a/src/a.rs", '/// Plants a bug.\n#[cfg(feature = "planted")]\npub fn a() {}\n', None),
        Sample(
            "crates/a/src/a.rs", "/// None where a bug says so.\nfn a() {}\n\n/// B.\npub fn b() {}\n", None
        ),
    ),
    "capabilities": (
        Sample("crates/image/src/a.rs", "//! A.\nuse skylight_layer::{Layer, Swd};\n", 2),
        Sample("crates/serve/src/core/a.rs", "fn a() -> skylight_layer::raw_shingled::SwdSpec {}\n", 1),
        Sample("crates/drive/src/drive.rs", "use skylight_layer::Overwriting; // not Swd::new\n", None),
    ),
    "pure-code": (
        Sample("crates/disk/src/a.rs", "//! A.\nuse std::time::{Duration, Instant};\n", 2),
        Sample("crates/disk/src/a.rs", "//! A.\nuse std::{\n    fmt,\n    fs::{self},\n};\n", 4),
        Sample("crates/layer/src/a.rs", "fn a() {\n    let t = std::time::SystemTime::now();\n}\n", 2),
        Sample("crates/layer/src/a.rs", "use std::collections::HashMap as Map;\n", 1),
        Sample("crates/layer/src/a.rs", "use std::collections;\n", 1),
        Sample("crates/layer/src/a.rs", "const A: char = '\\'';\nuse std::env::var;\n", 2),
        Sample("crates/drive/src/a.rs", "fn a() { std::thread::spawn(b); }\n", 1),
        Sample("crates/drive/src/a.rs", "\nuse ::std::net::TcpStream;\n", 2),
        Sample("crates/drive/src/a.rs", "fn a() { let mut r = rand::rng(); }\n", 1),
        Sample("crates/drive/src/deep/a.rs", "fn a() { let r = Pcg64::from_os_rng(); }\n", 1),
        Sample("crates/drive/src/a.rs", "use std::io;\nfn a() { io::stdin(); }\n", 2),
        Sample("crates/drive/src/a.rs", "extern crate std as b;\nfn a() { b::fs::read(c); }\n", 2),
        Sample("crates/drive/src/a.rs", _PURE_GOOD, None),
    ),
    "pure-dependencies": (
        Sample("crates/disk/Cargo.toml", '[dependencies]\nrayon = "1"\n', 2),
        Sample("crates/disk/Cargo.toml", '[dependencies]\nhashbrown = "0.16"\n', 2),
        Sample(
            "crates/disk/Cargo.toml",
            '[dependencies]\nhashbrown = { version = "0.16", default-features = false }\n',
            None,
        ),
    ),
    "file-length": (
        Sample("crates/a.rs", "x\n" * (MAX_FILE_LINES + 1), MAX_FILE_LINES + 1),
        Sample("tests/a/b.py", "x\n" * (MAX_FILE_LINES + 1), MAX_FILE_LINES + 1),
        Sample("docs/a.md", "x\n" * (MAX_PAGE_LINES + 1), MAX_PAGE_LINES + 1),
        Sample("docs/a.md", "x\n" * MAX_PAGE_LINES, None),
        Sample("crates/a.rs", "x\n" * MAX_FILE_LINES, None),
    ),
    "struct-fields": (
        Sample("crates/a.rs", "/// A.\n" + _rust_struct(MAX_FIELDS + 1), 2),
        Sample("crates/a.rs", "/// More than 15 fields:\n" + _rust_struct(MAX_FIELDS + 1), 2),
        Sample(
            "crates/a.rs",
            "// More than 15 fields: other one.\n\nfn b() {}\n" + _rust_struct(MAX_FIELDS + 1),
            4,
        ),
        Sample(
            "crates/a.rs",
            f"// More than 15 fields: the kernel's.\n#[repr(C)]\n{_rust_struct(MAX_FIELDS + 1)}",
            None,
        ),
        Sample("crates/a.rs", "struct B;\n" + _rust_struct(MAX_FIELDS), None),
        Sample("crates/a.rs", "\nstruct A<B>(" + "Option<(B, C)>, " * (MAX_FIELDS + 1) + ");\n", 2),
        Sample("crates/a.rs", "struct A(" + "Option<(B, C)>, " * MAX_FIELDS + ");\n", None),
        Sample("crates/a.rs", _rust_struct(MAX_FIELDS + 1).replace("struct", "union"), 1),
        Sample(
            "crates/a.rs", "enum A {\n    B = 1 << 2,\n    C {" + "d: u8, " * (MAX_FIELDS + 1) + "},\n}\n", 3
        ),
        Sample(
            "crates/a.rs", "enum A {\n    B(" + "u8, " * MAX_FIELDS + "),\n" + "    C,\n" * 99 + "}\n", None
        ),
        Sample(
            "crates/a.rs",
            "struct C<F: Fn(u8, u8)> {\n    pub(crate) d: fn(e: u8, f: u8) -> G,\n}\n" * 9,
            None,
        ),
        Sample("tests/a.py", "\nclass A:\n    b = 1\n" + _python_fields(MAX_FIELDS + 1), 2),
        Sample("tests/a.py", "class A:\n" + _python_fields(MAX_FIELDS), None),
        Sample("tests/a.py", "class A:\n" + _python_fields(MAX_FIELDS) + _python_init(1), 1),
        Sample("tests/a.py", "class A:\n" + _python_init(MAX_FIELDS + 1), 1),
        Sample("tests/a.py", "class A:\n" + _python_init(MAX_FIELDS) + "        other.c = 1\n", None),
        Sample("tests/a.py", "class A:\n" + _python_init(MAX_FIELDS + 1).replace("__init__", "b"), 1),
        Sample(
            "tests/a.py",
            'class A:\n    """More than 15 fields: one per b."""\n' + _python_fields(MAX_FIELDS + 1),
            None,
        ),
    ),
    "function-length": (
        Sample("crates/a.rs", "\n" + _rust_function(MAX_FUNCTION_LINES + 1), 2),
        Sample(
            "crates/a.rs", 'fn a(b: [u8; 4]) -> &str { "}" }\n' + _rust_function(MAX_FUNCTION_LINES + 1), 2
        ),
        Sample("crates/a.rs", "trait T { fn a(&self); }\n" + _rust_function(MAX_FUNCTION_LINES), None),
        Sample("crates/a.rs", 'fn a() { let b = \'{\'; let c = r#"{"{"#; /* { */ }\n' + "x\n" * 99, None),
        Sample("tests/a.py", "def a():\n" + "    b()\n" * MAX_FUNCTION_LINES, 1),
        Sample("tests/a.py", "def a():\n" + "    b()\n" * (MAX_FUNCTION_LINES - 1), None),
    ),
    "file-size": (
        Sample("a.bin", "x" * (MAX_FILE_BYTES + 1), 1),
        Sample("a.bin", "x" * MAX_FILE_BYTES, None),
    ),
    "module-page": (
        Sample("crates/disk/src/a.rs", "use a::b;\n", 1),
        Sample("crates/disk/src/a.rs", "//!\n", 1),
        Sample("crates/disk/src/a.rs", "//! What it is for.\n", None),
        Sample("python/skylight/a.py", "", 1),
        Sample("python/skylight/a.py", "import os\n", 1),
        Sample("python/skylight/a.py", '"""What it is for."""\n', None),
    ),
    "cited-elsewhere": (
        Sample("crates/disk/src/a.rs", f"//! A.\n//! Source: {_NOTE}, idea 1.\n", 2),
        Sample("tests/a.py", f'"""{_NOTE}.md says so."""\n', 1),
        Sample("docs/a.md", f"Why: {_AN_ISSUE} 4\n", 1),
        Sample("tests/a.py", f'"""A.\n\nSource: {_AN_ISSUE} "the suite", point 1.\n"""\n', 3),
        Sample(
            "crates/disk/src/a.rs", "// Source: docs/a.md; this issues 4 commands, an issue of it\n", None
        ),
        Sample("tests/a.py", f"_{_NOTE} = 1\n", None),
    ),
    "registry-host": (
        Sample("requirements.lock", f"--index-url https://{_HOST}/simple\n", 1),
        Sample("Cargo.lock", f'\nsource = "registry+https://{_HOST.upper()}"\n', 2),
        Sample("README.md", hosts.CARGO_LOCK_SOURCE, 1),
        Sample("Cargo.lock", f'source = "{hosts.CARGO_LOCK_SOURCE}"\n', None),
    ),
    "machine-path": (
        Sample("docs/a.md", f"\nsee {_WORK}\n", 2),
        Sample("docs/a.md", f"see ../shared/data and frame{_WORK}\n", None),
    ),
    "lock-portable": (
        Sample("requirements.lock", "# Why.\n--find-links wheels\n", 2),
        Sample("requirements.lock", "click==8.1.0\n", 1),
        Sample("requirements.lock", "click>=8.1.0 \\\n    --hash=sha256:00\n", 1),
        Sample("requirements.lock", "# Why.\nclick==8.1.0 \\\n    --hash=sha256:00\n", None),
        Sample("Cargo.lock", '[[package]]\nsource = "git+https://example.net/a"\n', 2),
        Sample("Cargo.lock", f'[[package]]\nsource = "{hosts.CARGO_LOCK_SOURCE}"\n', None),
    ),
    "unfinished": (
        Sample("a.rs", f"fn a() {{\n    {_UNDONE}\n}}\n", 2),
        Sample("a.py", f"a = 1  {_MARK}\n", 1),
        Sample("a.md", "Nothing to do.\n", None),
    ),
    "skip-reason": (
        Sample("crates/disk/src/a.rs", "#[test]\n#[ignore]\nfn a() {}\n", 2),
        Sample("crates/disk/src/a.rs", '#[test]\n#[ignore = "needs a disk"]\nfn a() {}\n', None),
        Sample("tests/a.py", "import pytest\n@pytest.mark.skip\ndef test_a(): ...\n", 2),
        Sample("tests/a.py", "import pytest\n@pytest.mark.skipif(True, reason='')\ndef test_a(): ...\n", 2),
        Sample("tests/a.py", "def test_a():\n    pytest.skip()\n", 2),
        Sample("tests/a.py", "def test_a():\n    pytest.importorskip('numpy')\n", 2),
        Sample("tests/a.py", "def test_a(why):\n    pytest.skip(why)\n    pytest.xfail(reason='a')\n", None),
        Sample("tests/a.py", "@pytest.mark.skipif(a, reason='no disk')\ndef test_a(): ...\n", None),
    ),
    "silencer-reason": (
        Sample("crates/a.rs", "\n#[allow(dead_code)]\nfn a() {}\n", 2),
        Sample("crates/a.rs", "// Its twin is built for tests only.\n#[allow(dead_code)]\nfn a() {}\n", None),
        Sample("crates/a.rs", '#[expect(dead_code, reason = "for tests only")]\nfn a() {}\n', None),
        Sample("tests/a.py", f"import a  {_NOQA}: F401\n", 1),
        Sample("tests/a.py", f"b = a()  {_IGNORED_TYPE}[no-untyped-call]\n", 1),
        Sample("tests/a.py", f"import a  {_NOQA}: F401 - read by b\n", None),
        Sample("tests/a.py", f"b = a()  {_IGNORED_TYPE}[no-untyped-call]  # a has no types\n", None),
    ),
}
