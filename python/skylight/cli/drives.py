"""``skylight drives list|show|check|truth|random``: the emulated drives and their profiles.

The native module alone reads and checks a profile; this verb prints the result.
"""

from __future__ import annotations

import json

import click

from skylight.cli.completion import drive_names, files
from skylight.cli.console import line, table
from skylight.engines.sim import profile_names, read_profile
from skylight.engines.sim_under_conditions import DRAWN, IDEAL, conditions_text
from skylight.errors import UsageError
from skylight.units import format_capacity, format_duration, format_size

KINDS = (
    "conventional",
    "ssd",
    "set-associative",
    "fully-associative",
    "journaled",
    "host-managed",
    "host-aware",
)


_KIND_HELP = f"One of {', '.join(KINDS)}. Default: random."


def _checked(name: str) -> dict[str, object]:
    """The profile with its defaults filled in; raises ``UsageError`` with the line of the native module."""
    from skylight import _native

    text, origin = read_profile(name)
    try:
        whole = json.loads(_native.profile_check(text, origin))
    except _native.ProfileError as error:
        raise UsageError(str(error)) from error
    if not isinstance(whole, dict):
        raise TypeError("profile_check gave no object")
    return whole


def _text(profile: dict[str, object], *keys: str) -> str:
    """A part of a profile as text; empty if the profile has none."""
    part: object = profile
    for key in keys:
        part = part.get(key) if isinstance(part, dict) else None
    return "" if part is None else str(part)


def _capacity(profile: dict[str, object]) -> str:
    """A profile's capacity as on a label."""
    capacity = profile.get("capacity")
    return format_capacity(capacity) if isinstance(capacity, int) else str(capacity)


@click.group(
    short_help="List, show, check or draw emulated drives, and their truth.",
    epilog="\b\nExamples:\n  skylight drives list\n  skylight drives show emulated-smr-1\n"
    "  skylight drives check my-drive.toml\n"
    "  skylight drives truth st5000as0011\n  skylight drives random --seed 7 > seven.toml\n",
)
def drives() -> None:
    """The emulated drives: list them, show one, check your own profile, print the truth of a profile, or
    generate a random one."""


@drives.command("list", epilog="\b\nExamples:\n  skylight drives list\n  skylight drives list --json\n")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def list_(as_json: bool) -> None:
    """List the emulated drives shipped with skylight."""
    rows = [(name, _checked(name)) for name in profile_names()]
    if as_json:
        entries = [
            {
                "name": name,
                "capacity": whole.get("capacity"),
                "kind": _text(whole, "layer", "kind"),
                "summary": whole.get("summary"),
            }
            for name, whole in rows
        ]
        line_json({"schema": 1, "drives": entries})
        return
    table(
        ("Drive", "Capacity", "Layer", "Summary"),
        [
            (name, _capacity(whole), _text(whole, "layer", "kind"), _text(whole, "summary"))
            for name, whole in rows
        ],
        right=(1,),
    )


def line_json(document: object) -> None:
    """Prints a JSON document on standard output."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


@drives.command(
    epilog="\b\nExamples:\n  skylight drives show emulated-smr-1\n"
    "  skylight drives show st4000nc001 > mine.toml\n"
    "  skylight drives show st4000nc001 --json\n",
    short_help="Print the profile of a drive, TOML to modify and use.",
)
@click.argument("name", shell_complete=drive_names)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, defaults filled in.")
def show(name: str, as_json: bool) -> None:
    """Print the profile of a drive: TOML that you can modify and use as sim:FILE.toml."""
    whole = _checked(name)
    if as_json:
        line_json(whole)
    else:
        click.echo(read_profile(name)[0], nl=False)


@drives.command(epilog="\b\nExamples:\n  skylight drives check my-drive.toml\n")
@click.argument("file", shell_complete=files)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, defaults filled in.")
def check(file: str, as_json: bool) -> None:
    """Check a profile and print the drive that it defines."""
    whole = _checked(file)
    if as_json:
        line_json(whole)
        return
    line(f"{file}: good: {_text(whole, 'name')}, {_capacity(whole)}, {_text(whole, 'layer', 'kind')}")


def _shown(value: object, unit: str | None) -> str:
    """A value of the truth as text."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part, _unit_of(name, unit))}" for name, part in value.items())
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if unit == "bytes":
        return format_size(value)
    if unit == "ns":
        return format_duration(value)
    return f"{value:,}"


def _unit_of(name: str, unit: str | None) -> str | None:
    """The unit of a part of a value: a count has none."""
    return None if name == "count" else unit


@drives.command(
    epilog="\b\nExamples:\n  skylight drives truth st5000as0011\n"
    "  skylight drives truth my-drive.toml --json\n",
    short_help="Print the findings that a probe of a drive should yield.",
)
@click.argument("name", metavar="NAME|FILE", shell_complete=drive_names)
@click.option(
    "--json", "as_json", is_flag=True, help="Print as JSON, in the form of the findings of `probe --json`."
)
@click.option(
    "--conditions",
    metavar="ideal|FILE",
    help="The conditions under which it is probed. Default: as the profile says, or ideal.",
)
def truth(name: str, as_json: bool, conditions: str | None) -> None:
    """Print the truth of a drive: the findings that a probe of it should yield."""
    from skylight import _native
    from skylight.truth import truth_document

    if conditions == DRAWN:
        raise UsageError(
            f"--conditions {DRAWN}: a truth is of known conditions; give a file, or a drive made by `skylight"
            f" drives random --conditions {DRAWN}`"
        )
    text, origin = read_profile(name)
    given = conditions_text(conditions, 0)
    try:
        document = truth_document(text, origin, given)
    except _native.ProfileError as error:
        raise UsageError(str(error)) from error
    if as_json:
        line_json(document)
        return
    table(
        ("Finding", "Value", "Why"),
        [
            (
                found,
                _shown(facts["value"], facts["unit"])
                + ("" if facts["measurable"] else " (cannot be measured)"),
                facts["why"],
            )
            for found, facts in document["findings"].items()
        ],
    )


@drives.command(
    epilog="\b\nExamples:\n  skylight drives random --seed 7 > seven.toml\n"
    "  skylight drives random --seed 7 --kind journaled\n"
    "  skylight drives random --seed 7 --conditions drawn > seven.toml\n"
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    required=True,
    help="Seed; the same seed yields the same drive.",
)
@click.option("--kind", type=click.Choice(KINDS), metavar="KIND", help=_KIND_HELP)
@click.option(
    "--conditions",
    metavar="ideal|drawn|FILE",
    help="Append what a host meets besides the drive: nothing, a draw from the seed, or a file.",
)
def random(seed: int, kind: str | None, conditions: str | None) -> None:
    """Print the profile of a random drive, to which nothing was tuned."""
    from skylight import _native

    text = _native.random_profile(seed, kind)
    given = conditions_text(conditions, seed)
    if given is not None and conditions != IDEAL:
        text += "\n" + _native.conditions_toml(given)
    click.echo(text, nl=False)
