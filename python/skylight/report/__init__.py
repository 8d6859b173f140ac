"""The report: findings for people (``html``, ``words``, ``svg_figures``) and for machines (``json``).

It reads results and recordings, never a target, and decides nothing: what a test did not find is not said
here.
"""

FINDINGS_NAME, REPORT_NAME = "findings.json", "report.html"
"""The files of a report; beside them its folder holds the recordings that were made with it."""
