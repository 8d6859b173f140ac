"""The commands that help and documentation show are ones that the command line takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from skylight.cli.app import cli
from test_help import verbs

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(
    r"(?:^|[;&|(]\s*|\bsudo )(?:\S*/bin/)?skylight ((?:[^;&|<>#`)\n\"']|\"[^\"]*\"|'[^']*')+)"
)
LEAST_IN_BLOCKS, LEAST_IN_TEXT = 30, 60
"""Of 35 in blocks and 78 within text when this was written: fewer, and they are not found."""


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each call of skylight in the lines of a shell; remarks follow two spaces or a #."""
    for line in text.replace("\\\n", " ").splitlines():
        for found in _COMMAND.finditer(re.split(r"\s{3,}(?=\S)|\s#\s", line.strip())[0]):
            yield [word for word in shlex.split(found[1]) if word not in ("...", "..")]


def check(arguments: list[str]) -> None:
    """Walks to the verb, and refuses unknown verbs and options, missing values and arguments, and choices and
    numbers that are none; files need not be there."""
    command: click.Command = cli
    context = click.Context(cli, info_name="skylight")
    rest = list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        verb = command.get_command(context, rest.pop(0))
        assert verb is not None
        command, context = verb, click.Context(verb, context, verb.name)
    if {"--help", "-h", "--version", "-V"} & set(rest):
        return
    values, left, _ = command.make_parser(context).parse_args(rest)
    assert not left, left
    for parameter in command.params:
        value = values.get(parameter.name or "")
        given = isinstance(value, str | list | tuple)
        if parameter.required and not parameter.multiple:
            assert given and value, parameter.name
        if given and not isinstance(parameter.type, click.Path | click.File):
            parameter.type_cast_value(context, value)


def described(verb: tuple[str, ...]) -> str:
    shown = CliRunner().invoke(cli, [*verb, "--help"], prog_name="skylight", terminal_width=200)
    return shown.output.split("Examples:")[1]


@pytest.mark.parametrize("verb", [*verbs()], ids=lambda verb: " ".join(verb) or "skylight")
def test_the_examples_of_a_verb_can_be_typed(verb: tuple[str, ...]) -> None:
    shown = [*commands(described(verb))]
    assert shown
    for arguments in shown:
        check(arguments)


def test_the_commands_of_the_pages_can_be_typed() -> None:
    count = 0
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            for arguments in commands(block):
                count += 1
                try:
                    check(arguments)
                except (click.ClickException, AssertionError) as error:
                    pytest.fail(f"{page.relative_to(ROOT)}: skylight {' '.join(arguments)}: {error!r}")
    assert count >= LEAST_IN_BLOCKS, count


def test_the_commands_within_text_have_the_verbs_and_options_that_there_are() -> None:
    count = 0
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for words in re.findall(r"`(skylight [a-z][^`]*)`", text):
            for arguments in commands(" ".join(words.split())):
                count += 1
                try:
                    check(arguments)
                except (click.NoSuchOption, click.exceptions.NoSuchCommand) as error:
                    pytest.fail(f"{page.relative_to(ROOT)}: {words}: {error!r}")
                except (click.BadOptionUsage, AssertionError):
                    pass  # text may leave out what an option or a verb is given
    assert count >= LEAST_IN_TEXT, count


@pytest.mark.parametrize(
    "wrong",
    [
        "prob sim:x", "probe sim:x --quik", "probe sim:x --seed", "probe sim:x --seed many", "geometry fit",
        "serve x --timing slow", "completion tcsh", "drives show",
    ],
)  # fmt: skip
def test_what_cannot_be_typed_is_noticed(wrong: str) -> None:
    with pytest.raises((click.ClickException, AssertionError)):
        check(wrong.split())
