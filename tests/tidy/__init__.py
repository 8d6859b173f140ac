"""The house rules as code, run by tests/test_tidy.py.

`rust` and `python` read sources, `layers` knows the arrows of import, `hosts` the names that must not reach
a file, `samples` what breaks each rule, and `rules` is the table.
"""
