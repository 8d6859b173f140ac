"""The examples in docstrings say what the code does."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOTS = (ROOT / "python", ROOT / "bench")
MODULES = sorted(
    ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    for root in ROOTS
    for path in root.rglob("*.py")
    if "\n    >>> " in path.read_text(encoding="utf-8")
)


def test_there_are_examples() -> None:
    assert {"skylight.units", "devices.base"} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_hold(module: str) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for example in doctest.DocTestFinder().find(import_module(module)):
        runner.run(example, out=said.append)
    assert runner.tries and not runner.failures, "".join(said)
