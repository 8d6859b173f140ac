"""The man pages: ``python -m skylight.cli.man FOLDER`` writes one for each verb, from its help.

click-man makes a page; this adds what it leaves out: the sections that stand below a verb's options. A wheel
of `make wheel` contains the pages; where it is installed, click-man is not needed.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from skylight import __version__
from skylight.cli.app import cli
from skylight.errors import KeepError, SkylightError, UsageError, reason_of

__all__ = ["main", "pages"]

# Characters of the line that says what a verb does: those of any first sentence of ours.
LONGEST_NAME = 150

FILLED_WIDTH = 73
"""Characters of a line beside the seven that man indents a page of 80 by; wider lines are indented less."""


def _sections(epilog: str) -> Iterator[str]:
    """The paragraphs below the options: ``Title:`` and its lines become a section, others notes; after a
    backspace, which tells click not to fill them, lines are kept as they are."""
    noted = False
    for part in inspect.cleandoc(epilog).split("\n\n"):
        kept = part.lstrip("\n ").startswith("\b")
        lines = [line.replace("\\", "\\e").replace("-", "\\-") for line in part.strip("\b\n ").splitlines()]
        if not lines:
            continue
        title = re.fullmatch(r"([A-Z][a-z]+[^:.]*):", lines[0]) if len(lines) > 1 else None
        head = f".SH {title[1].upper()}" if title else ".PP" if noted else ".SH NOTES"
        noted = title is None
        body = lines[1:] if title else lines
        if kept:
            wide = max(len(line.replace("\\-", "-")) for line in body) > FILLED_WIDTH
            yield "\n".join([head, *([".in -5n"] * wide), ".nf", *(f"\\&{line}" for line in body), ".fi"])
        else:
            yield "\n".join([head, *(f"\\&{line}" for line in body)])


def pages(command: click.Command = cli, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Every verb's page: the name of its file and its text. Raises UsageError without click-man."""
    try:
        from click_man.man import ManPage
    except ModuleNotFoundError as error:
        raise UsageError(
            "click-man, which makes the man pages, is not installed; a wheel of make wheel has them: see"
            f" {Path(sys.prefix) / 'share/man/man1'}, or pip install click-man"
        ) from error
    context = click.Context(command, info_name=command.name if parent else "skylight", parent=parent)
    group = command if isinstance(command, click.Group) else click.Group()
    named = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    verbs = {name: verb for name, verb in named if verb is not None}
    page = ManPage(context.command_path)
    page.version = __version__
    page.short_help = command.get_short_help_str(LONGEST_NAME)
    page.description = inspect.cleandoc(command.help or "")
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    page.options = [each.get_help_record(context) for each in options]
    page.commands = [(name, verb.get_short_help_str(LONGEST_NAME)) for name, verb in verbs.items()]
    text = str(page) + "\n".join(_sections(command.epilog or "")) + "\n"
    yield f"{context.command_path.replace(' ', '-')}.1", text
    for verb in verbs.values():
        yield from pages(verb, context)


def _write(folder: Path) -> None:
    """Writes all pages into a folder."""
    made = list(pages())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made:
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise KeepError(
            f"{folder}: man pages cannot be written: {reason_of(error)}; name another folder"
        ) from error


def main(arguments: Sequence[str]) -> int:
    """Writes all pages into the folder that the one argument names; the exit code."""
    try:
        if len(arguments) != 1:
            raise UsageError("name a folder for the man pages: python -m skylight.cli.man FOLDER")
        _write(Path(arguments[0]))
    except SkylightError as error:
        print(f"skylight: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
