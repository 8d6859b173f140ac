"""The typed stub of the native module says what the module is: names, signatures, docstrings.

mypy's stubtest compares the two (names and parameters, from the signatures that the binding writes into the
module); that it would notice a difference is shown by feeding it stubs with one thing changed.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from skylight import _native

STUB = Path(__file__).parent.parent / "python/skylight/_native.pyi"


def _stubtest(search: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Runs stubtest on skylight._native with the stub that lies in `search`."""
    return subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "skylight._native", "--concise"],
        env={**os.environ, "MYPYPATH": str(search), "MYPY_CACHE_DIR": str(cache), "NO_COLOR": "1"},
        cwd=cache,
        capture_output=True,
        text=True,
        check=False,
    )


def test_stub_agrees_with_the_module(tmp_path: Path) -> None:
    result = _stubtest(STUB.parent.parent, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


# Pattern in the stub, what it becomes, the name that has to be told: a name too many, a parameter renamed,
# a method missing.
_CHANGES = (
    (r"\Z", "\ndef not_there() -> None: ...\n", "not_there"),
    (r"def pause\(self, \w+", "def pause(self, other_name", "pause"),
    (r"\n    def erase\(self[^\n]*\n(?:        [^\n]*\n|\n(?=        ))*", "\n", "erase"),
)


def test_every_fault_of_a_wrong_stub_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "python/skylight"
    shutil.copytree(STUB.parent, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    # The package's own stub names all modules, and those are wrong where this one is: they are not asked.
    (package / "__init__.pyi").write_text("", encoding="utf-8")
    text = STUB.read_text(encoding="utf-8")
    for before, after, _ in _CHANGES:
        text, times = re.subn(before, after, text, count=1)
        assert times == 1, "the stub has nothing to change here: mend this test"
    (package / "_native.pyi").write_text(text, encoding="utf-8")
    result = _stubtest(package.parent, tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert all(told in result.stdout for _, _, told in _CHANGES), result.stdout


def test_everything_in_the_module_has_a_docstring() -> None:
    public = {name: thing for name, thing in vars(_native).items() if not name.startswith("_")}
    bare = [name for name, thing in public.items() if callable(thing) and not inspect.getdoc(thing)]
    for name, thing in public.items():
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            bare += [
                f"{name}.{key}"
                for key, value in vars(thing).items()
                if not key.startswith("_") and not inspect.getdoc(value)
            ]
    assert not bare, f"no docstring: {bare}"
