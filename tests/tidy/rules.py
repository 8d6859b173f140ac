"""The house rules. Each is a name, the files it reads, and a check that yields (line, message).

Invariants: no file is left out silently (`Rule.reads` is the whole story, and tests/test_tidy.py checks that
every rule reads some file of the tree); every rule has samples in `samples.py` that break it or keep it.
Words that a rule forbids are put together from pieces, so that these files obey their own rules.
Source: docs/architecture.md, "The house" and "Citations".
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch

from tidy import citations, hosts, python, rust

Hits = Iterator[tuple[int, str]]

MAX_FILE_LINES = 600
# A page is found by its headings and read in parts; the longest are references, one entry after another.
MAX_PAGE_LINES = 800
MAX_FUNCTION_LINES = 70
MAX_FIELDS = 15
WHY_WIDE = re.compile(rf"More than {MAX_FIELDS} fields: \w+ \w+")
MAX_FILE_BYTES = 500 * 1024
# Written by tools, not by us; their length is not a matter of style.
LOCK_FILES = ("Cargo.lock", "requirements.lock")
PURE_CRATES = ("disk", "layer", "drive")


@dataclass(frozen=True)
class Rule:
    """One house rule. `include` and `exclude` are shell patterns over paths from the root of the tree."""

    name: str
    says: str
    check: Callable[[str, str], Hits]
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def reads(self, path: str) -> bool:
        """Whether the rule is about this file."""
        return any(fnmatch(path, p) for p in self.include) and not any(fnmatch(path, p) for p in self.exclude)


# --- the pure crates ----------------------------------------------------------------------------------------

_IMPURE = {
    "std::time::Instant": "a clock",
    "std::time::SystemTime": "a clock",
    "std::time::UNIX_EPOCH": "a clock",
    "std::fs": "the file system",
    "std::net": "the network",
    "std::thread": "threads",
    "std::process": "processes",
    "std::env": "the environment",
    "std::io::stdin": "a file",
    "std::collections::HashMap": "hash order",
    "std::collections::HashSet": "hash order",
    "std::collections::hash_map": "hash order",
    "std::collections::hash_set": "hash order",
    "std::hash::RandomState": "hash order",
    "std::hash::DefaultHasher": "a hash that changes with the compiler",
}
# Taking a whole module would let the forbidden part of it in under a short name.
_TOO_WIDE = {
    "std",
    "std::*",
    "std::time",
    "std::time::*",
    "std::collections",
    "std::collections::*",
    "std::hash::*",
}
_ENTROPY = {
    "thread_rng",
    "OsRng",
    "SysRng",
    "ThreadRng",
    "from_entropy",
    "from_os_rng",
    "try_from_os_rng",
    "getrandom",
}
_IMPURE_DEPENDENCIES = {
    "getrandom",
    "rand",
    "tokio",
    "rayon",
    "crossbeam",
    "chrono",
    "time",
    "instant",
    "jiff",
    "libc",
    "rustix",
}


def impure_code(_path: str, text: str) -> Hits:
    """Paths that reach a clock, a file, a thread, the environment, entropy or a hash order."""
    for line, path in sorted(set(rust.named_paths(text))):
        for name, what in _IMPURE.items():
            if path == name or path.startswith(name + "::"):
                yield line, f"{path} is {what}; a pure crate takes it as an argument"
        if path in _TOO_WIDE:
            yield line, f"use {path} is too wide here; name the item"
        if path.startswith("rand::") and path.split("::")[-1] in {"rng", "random"}:
            yield line, f"{path} draws entropy; use a seeded substream"
    code = rust.code_only(text)
    for found in re.finditer(rf"\b(?:{'|'.join(sorted(_ENTROPY))})\b", code):
        yield rust.line_of(code, found.start()), f"{found.group()} draws entropy; use a seeded substream"


def prints(_path: str, text: str) -> Hits:
    """Words to standard output or error past the one place that waits for nobody."""
    code = rust.code_only(text)
    for found in re.finditer(r"\b(?:e?print(?:ln)?|dbg)!|\b(?:stderr|stdout)\(", code):
        yield rust.line_of(code, found.start()), f"{found.group()} may block or panic; use diagnostics::say"


_BUG = re.compile(r"///.*\bbugs?\b")
_BEHIND = re.compile(r'#\[cfg\((?:feature = "planted"|test)\)\]')


def planted_in_releases(_path: str, text: str) -> Hits:
    """Functions for others that plant a bug, by their comment, and that releases have too."""
    rows = text.splitlines()
    for function in rust.functions(text):
        comment = rust.comment_above(rows, function.line)
        if (
            re.match(r"\s*pub\s", rows[function.line - 1])
            and _BUG.search(comment)
            and not _BEHIND.search(comment)
        ):
            yield (
                function.line,
                f'{function.name} plants a bug in a release: put #[cfg(feature = "planted")] above it',
            )


def layer_named(_path: str, text: str) -> Hits:
    """Names of the raw shingled disk where what a layer offers is to be asked for."""
    for line, path in sorted(set(rust.named_paths(text))):
        if {"raw_shingled", "Swd"} & set(path.split("::")):
            yield line, f"{path} names a layer; ask for its capability (crates/layer/src/capabilities)"


def impure_dependencies(_path: str, text: str) -> Hits:
    """Dependencies of a pure crate that bring a clock, threads, entropy or a random hasher."""
    lines = text.splitlines()
    for name, row in tomllib.loads(text).get("dependencies", {}).items():
        line = next((n for n, raw in enumerate(lines, 1) if re.match(rf"\s*{re.escape(name)}\b", raw)), 1)
        if name in _IMPURE_DEPENDENCIES:
            yield line, f"{name} does not belong in a pure crate"
        if name == "hashbrown" and not (isinstance(row, dict) and row.get("default-features") is False):
            yield line, "hashbrown needs default-features = false: its default hasher is random"


# --- lengths ------------------------------------------------------------------------------------------------


def long_file(path: str, text: str) -> Hits:
    """Files over the bound."""
    lines = len(text.splitlines())
    most = MAX_PAGE_LINES if path.endswith(".md") else MAX_FILE_LINES
    if lines > most:
        yield most + 1, f"{lines} lines; at most {most}"


def long_function(path: str, text: str) -> Hits:
    """Functions over the bound, from `fn` or `def` to their last line."""
    found = rust.functions(text) if path.endswith(".rs") else python.functions(text)
    for function in found:
        if function.lines > MAX_FUNCTION_LINES:
            yield function.line, f"{function.name}: {function.lines} lines; at most {MAX_FUNCTION_LINES}"


def wide_struct(path: str, text: str) -> Hits:
    """Structs and data classes over the bound whose comment does not say why."""
    for struct in rust.structs(text) if path.endswith(".rs") else python.classes(text):
        if message := too_wide(struct):
            yield struct.line, message


def too_wide(struct: rust.Struct | python.Class) -> str | None:
    """What is wrong with a struct or class that has too many fields."""
    if struct.fields <= MAX_FIELDS or WHY_WIDE.search(struct.comment):
        return None
    return f"{struct.name}: {struct.fields} fields; say 'More than {MAX_FIELDS} fields: why'"


def large_file(_path: str, text: str) -> Hits:
    """Files too large to be source."""
    size = len(text.encode("utf-8", errors="surrogateescape"))
    if size > MAX_FILE_BYTES:
        yield 1, f"{size // 1024} KiB; at most {MAX_FILE_BYTES // 1024} KiB"


# --- opening pages ------------------------------------------------------------------------------------------


def no_module_page(path: str, text: str) -> Hits:
    """Modules that do not open with a page that says what they are for."""
    if path.endswith(".rs"):
        if not re.match(r"//!\s*\S", text):
            yield 1, "the module does not open with a //! page"
    elif not (ast.get_docstring(ast.parse(text)) or "").strip():
        yield 1, "the module does not open with a docstring"


# --- what must not reach a file -----------------------------------------------------------------------------


def registry_host(path: str, text: str) -> Hits:
    """Hosts of package registries and of this machine's mirrors."""
    lock = path.rpartition("/")[2] == "Cargo.lock"
    for line, row in enumerate(text.splitlines(), 1):
        if lock and row == f'source = "{hosts.CARGO_LOCK_SOURCE}"':
            continue
        for host in hosts.registry_hosts():
            if host in row.lower():
                yield line, f"names the registry host {host}"


def machine_path(_path: str, text: str) -> Hits:
    """Paths that exist on one machine only."""
    for line, row in enumerate(text.splitlines(), 1):
        for path in hosts.MACHINE_PATHS:
            if re.search(rf"(?<![\w.~$}})]){re.escape(path)}", row):
                yield line, f"names the machine path {path}"


def unportable_lock(path: str, text: str) -> Hits:
    """Lock files that say where to fetch from, or leave open what is fetched."""
    rows = text.splitlines()
    for line, row in enumerate(rows, 1):
        if path.endswith("Cargo.lock"):
            if row.startswith("source = ") and row != f'source = "{hosts.CARGO_LOCK_SOURCE}"':
                yield line, "a package that does not come from the default registry"
        elif row.startswith("-"):
            yield line, "an option of pip: it belongs to a machine's configuration"
        elif re.match(r"\w", row):
            hashed = line < len(rows) and rows[line].startswith("    --hash=sha256:")
            if not (re.match(r"[\w.-]+==[\w.+!]+ \\$", row) and hashed):
                yield line, "not an exact version with a hash"


_UNFINISHED = re.compile(
    r"\b(?:"
    + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"])
    + r")\b|\b(?:to"
    + r"do|unimple"
    + r"mented|db"
    + r"g)!"
)


def unfinished(_path: str, text: str) -> Hits:
    """Marks of unfinished work."""
    for line, row in enumerate(text.splitlines(), 1):
        if found := _UNFINISHED.search(row):
            yield line, f"{found.group()}: finish it, or make it an issue"


# --- skips and silencers ------------------------------------------------------------------------------------

_IGNORE = re.compile(r"#\s*\[\s*ignore\s*\]")
_MARKS = {"skip", "skipif", "xfail"}


def skip_without_reason(path: str, text: str) -> Hits:
    """Tests that are skipped, ignored or expected to fail without saying why."""
    if path.endswith(".rs"):
        code = rust.code_only(text)
        for found in _IGNORE.finditer(code):
            yield rust.line_of(code, found.start()), 'say why: #[ignore = "reason"]'
        return
    tree = ast.parse(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _skips(node.func) and not _says_why(node):
            yield node.lineno, f"{ast.unparse(node.func)} without a reason"
        elif isinstance(node, ast.Attribute) and _is_mark(node) and id(node) not in called:
            yield node.lineno, f"{ast.unparse(node)} without a reason"


def _is_mark(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute) and node.attr in _MARKS and ast.unparse(node.value).endswith("mark")
    )


def _skips(node: ast.expr) -> bool:
    return _is_mark(node) or ast.unparse(node) in {"pytest.skip", "pytest.xfail", "pytest.importorskip"}


def _says_why(call: ast.Call) -> bool:
    for word in call.keywords:
        if word.arg == "reason":
            return not (isinstance(word.value, ast.Constant) and not word.value.value)
    name = ast.unparse(call.func)
    takes_it_first = name in {"pytest.skip", "pytest.xfail"} or name.endswith("mark.skip")
    if not (takes_it_first and call.args):
        return False
    return not (isinstance(call.args[0], ast.Constant) and not call.args[0].value)


_ALLOW = re.compile(r"#!?\s*\[\s*(?:allow|expect)\s*\(")
_SILENCER = re.compile(r"#\s*(?:type:\s*ignore|noqa|pyright:|ruff:|mypy:)")


# A second comment, or words after a dash: `# why` or `- why`.
_REASON = re.compile(r"(?:#|\s-)\s*\w+\W+\w")


def silenced_without_reason(path: str, text: str) -> Hits:
    """Lints and type checks that are switched off without a reason on the same line or the line above."""
    rows = text.splitlines()
    if path.endswith(".rs"):
        code = rust.code_only(text)
        for found in _ALLOW.finditer(code):
            line = rust.line_of(code, found.start())
            above = rows[line - 2].strip() if line > 1 else ""
            attribute = text[found.start() : text.find("]", found.end())]
            if "//" not in rows[line - 1] and not above.startswith("// ") and "reason" not in attribute:
                yield line, "a lint is switched off without a reason"
        return
    for line, row in enumerate(rows, 1):
        silencer = _SILENCER.search(row)
        if silencer and not _REASON.search(row, silencer.end()):
            yield line, "a check is switched off without a reason: add '# why' after it"


# --- the table ----------------------------------------------------------------------------------------------

_ANY = ("*",)
_RUST = ("crates/*.rs", "fuzz/*.rs")
_PYTHON = ("*.py", "*.pyi")
# What people read; a lock file cites nothing, and the samples break rules on purpose.
SAID = ("*.rs", "*.py", "*.pyi", "*.md", "*.svg", "*.toml", "*.sh", "Makefile", ".ci/*")
_TEXT = ("*.md", "*.toml", "*.sh", "*.j2", "*.css", "*.js", "*.html", "Makefile", ".ci/*")

RULES: tuple[Rule, ...] = (
    Rule(
        "pure-code",
        "disk, layer and drive read no clock, file, thread, environment, entropy or hash order",
        impure_code,
        tuple(f"crates/{name}/src/*.rs" for name in PURE_CRATES),
    ),
    Rule(
        "no-prints",
        "servers write to standard error in one place only, which waits for nobody",
        prints,
        ("crates/serve/src/*.rs",),
        exclude=("crates/serve/src/diagnostics.rs",),
    ),
    Rule(
        "planted-bugs",
        "a bug for tests is planted by nothing that a release has",
        planted_in_releases,
        ("crates/*/src/*.rs",),
        # What asks whether a bug is planted is in releases, and always says no there.
        exclude=("crates/*/src/planted_bugs.rs",),
    ),
    Rule(
        "capabilities",
        "drive, image and server ask for what a layer can do, not for which one it is",
        layer_named,
        ("crates/drive/src/*.rs", "crates/image/src/*.rs", "crates/serve/src/*.rs"),
        # What a drive is called and built from.
        exclude=tuple(f"crates/drive/src/{part}/*" for part in ("build", "profile", "truth")),
    ),
    Rule(
        "pure-dependencies",
        "disk, layer and drive depend on nothing impure",
        impure_dependencies,
        tuple(f"crates/{name}/Cargo.toml" for name in PURE_CRATES),
    ),
    Rule(
        "file-length",
        f"a file has at most {MAX_FILE_LINES} lines, a page {MAX_PAGE_LINES}",
        long_file,
        (*_RUST, *_PYTHON, *_TEXT),
    ),
    Rule(
        "function-length",
        f"a function has at most {MAX_FUNCTION_LINES} lines",
        long_function,
        (*_RUST, *_PYTHON),
    ),
    Rule(
        "struct-fields",
        f"a struct of more than {MAX_FIELDS} fields says why",
        wide_struct,
        (*_RUST, *_PYTHON),
    ),
    Rule("file-size", f"a file has at most {MAX_FILE_BYTES // 1024} KiB", large_file, _ANY),
    Rule("module-page", "a module opens with a page", no_module_page, (*_RUST, *_PYTHON)),
    Rule(
        "cited-elsewhere",
        "what is cited is in the repository",
        citations.elsewhere,
        SAID,
    ),
    Rule("registry-host", "no file names a registry host", registry_host, _ANY),
    Rule("machine-path", "no file names a machine path", machine_path, _ANY),
    Rule("lock-portable", "lock files are exact and name no place", unportable_lock, ("*.lock",)),
    Rule("unfinished", "nothing is left unfinished", unfinished, _ANY, exclude=LOCK_FILES),
    Rule(
        "skip-reason",
        "a test is skipped only with a reason",
        skip_without_reason,
        (*_RUST, "tests/*.py", "bench/*.py"),
    ),
    Rule(
        "silencer-reason",
        "a check is switched off only with a reason",
        silenced_without_reason,
        (*_RUST, *_PYTHON),
    ),
)
