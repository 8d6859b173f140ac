"""The page of all findings, from their declarations: `python -m skylight.report.findings_page` prints it.

What for: `docs/tests/findings.md`, which a test holds against this.

Invariant: nothing is said here that no test declares.
"""

from __future__ import annotations

from skylight.findings import Property
from skylight.probe import film_findings
from skylight.probe.suite import ALL_TESTS

__all__ = ["findings_page"]

_HEAD = """# Findings

What the tests of the suite find, and films of the head ([camera](../camera.md#findings)). The table is
written by `python -m skylight.report.findings_page` from the declarations in
`python/skylight/probe/*/findings.py` and `python/skylight/probe/film_findings.py`. *Right within* is how
near the truth of an emulated drive an answer must come to count as right; what the truth of each is,
[random drives](../random-drives.md) says. A finding without it is not scored.

| finding | in the report | unit or words | right within | test |
|---|---|---|---|---|
"""


def _values(found: Property) -> str:
    """The unit of its numbers, or its words."""
    if found.words:
        return ", ".join(f"`{value}` {words}" for value, words in found.words.items())
    if found.values:
        return ", ".join(f"`{value}`" for value in found.values)
    return found.unit or "words or a table"


def _row(found: Property, tests: list[str]) -> str:
    right = "" if found.right is None else found.right.words(found.unit)
    cells = (f"`{found.name}`", found.title, _values(found), right, ", ".join(tests))
    return f"| {' | '.join(cells)} |\n"


def findings_page() -> str:
    """The page as Markdown."""
    by_test: dict[str, tuple[Property, list[str]]] = {}
    for test in ALL_TESTS:
        for found in test.findings:
            by_test.setdefault(found.name, (found, []))[1].append(f"`{test.name}`")
    for found in film_findings.FINDINGS:
        by_test.setdefault(found.name, (found, []))[1].append("`camera findings`")
    return _HEAD + "".join(_row(found, tests) for found, tests in by_test.values())


if __name__ == "__main__":
    print(findings_page(), end="")
