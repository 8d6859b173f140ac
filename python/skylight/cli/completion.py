"""``skylight completion SHELL``: what makes a shell complete the verbs, options and names of skylight.

click makes the script and answers the shell, which runs ``skylight`` with ``VARIABLE`` in its environment;
this module says what the words of our arguments can be.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from skylight.errors import UsageError

__all__ = ["answer_shell", "completion", "drive_names", "files", "suite_tests", "targets"]

PROGRAM = "skylight"
VARIABLE = "_SKYLIGHT_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
_BASH_WORDS = """\
    local words=() word
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 0 && ( $word == :* || ${words[-1]} == *: ) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    local begun="${words[-1]%"${words[-1]##*:}"}"
    [[ $COMP_WORDBREAKS == *:* ]] || begun=""

    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1))"""
_CORRECTIONS = {
    "bash": [
        # A word such as sim:NAME is three to bash, and it replaces what follows the colon.
        ('    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD', _BASH_WORDS),
        ("COMPREPLY+=($value)", 'COMPREPLY+=("${value#"$begun"}")'),
        # Where words of ours and files are both right, bash completes files only if none of the words is.
        ("            COMPREPLY=()\n            compopt -o default", "            compopt -o default"),
    ],
    # A zsh without a configuration has no compdef.
    "zsh": [
        (
            "    compdef _skylight",
            "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n    compdef _skylight",
        )
    ],
    # Words such as rotation,band_size contain commas.
    "fish": [('string split ","', 'string split --max 1 ","')],
}
"""What is mended in click's scripts."""


def answer_shell(cli: click.Command) -> int | None:
    """The exit code of an answer to a shell that asks for completions; None if none asks."""
    asked = os.environ.get(VARIABLE)
    return None if asked is None else shell_complete(cli, {}, PROGRAM, VARIABLE, asked)


def _beginning(words: Sequence[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(begun)]


def drive_names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The emulated drives, and files."""
    from skylight.engines.sim import profile_names

    return [*_beginning(profile_names(), begun), CompletionItem(begun, type="file")]


def files(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Files, devices and sockets."""
    return [CompletionItem(begun, type="file")]


def targets(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Emulated drives as ``sim:NAME``, and files: devices are files."""
    from skylight.engines.sim import profile_names

    named = [f"sim:{name}" for name in profile_names()]
    return [*_beginning(named, begun), CompletionItem(begun, type="file")]


def suite_tests(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The tests of the suite, as the last of a list with commas."""
    from skylight.probe.suite import TESTS, ZONED_TESTS

    before = begun.rpartition(",")[0]
    head = f"{before}," if before else ""
    return _beginning([head + test.name for test in (*TESTS, *ZONED_TESTS)], begun)


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(skylight completion bash)"          in ~/.bashrc\n'
    '  eval "$(skylight completion zsh)"           in ~/.zshrc\n'
    "  skylight completion fish > ~/.config/fish/completions/skylight.fish\n"
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes a shell complete skylight's words."""
    maker = get_completion_class(shell)
    if maker is None:
        raise UsageError(f"{shell}: no completion for this shell; there is one for {', '.join(SHELLS)}")
    root = click.get_current_context().find_root().command
    script = maker(root, {}, PROGRAM, VARIABLE).source()
    for found, better in _CORRECTIONS.get(shell, ()):
        script = script.replace(found, better)
    click.echo(script)
