"""The JSON of a probe.

What for: machines. One target gives ``{"schema": 1, "skylight": VERSION, "target": {...}, "findings": {NAME:
{...}}, "plan": {TEST: {...}}, "notes": [...]}``; two or more give ``{"schema": 1, "skylight": VERSION,
"targets": [{"target": {...}, ...}, ...]}`` in the order of the command line.

Invariants:
- Every finding has value, unit, interval, confidence and why; a value that is not known is ``"unknown"``.
- No date and no place where results were kept: the same target and seed give the same bytes, but for the
  notes of a run that was interrupted.
- Numbers are finite, so that every JSON reader takes them.

Source: docs/report.md, "JSON".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from skylight import __version__
from skylight.findings import SCHEMA, findings_json
from skylight.probe.suite import SuiteResult, accounts

__all__ = ["document_text", "probe_document"]


def probe_document(results: Sequence[SuiteResult]) -> dict[str, object]:
    """The document of one ``skylight probe``."""
    parts = [
        {
            **findings_json(result.target, result.findings),
            "plan": {account.test: account.to_json() for account in accounts(result)},
            "notes": list(dict.fromkeys(result.notes)),
        }
        for result in results
    ]
    for part in parts:
        del part["schema"]
    head: dict[str, object] = {"schema": SCHEMA, "skylight": __version__}
    return head | (parts[0] if len(parts) == 1 else {"targets": parts})


def document_text(document: Mapping[str, object]) -> str:
    """A document as text: keys in their order, a newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
