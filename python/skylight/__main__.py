"""`python -m skylight`: the command, for an interpreter whose scripts are not on the path."""

from skylight.cli import main

main()
