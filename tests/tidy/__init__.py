"""The house rules as code, run by tests/test_tidy.py.

`rust` and `python` read sources, `citations` what comments and pages cite, `hosts` knows the names that must
not reach a file, `samples` what breaks each rule, and `rules` is the table.
"""
