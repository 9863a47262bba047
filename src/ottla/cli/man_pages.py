"""The manual pages of `ottla` and its commands, made from the help texts, in the macros of man(7).

Section 1, one page for each command and each command below it: `ottla`, `ottla-groups`, `ottla-pipeline-run`. It reads click's commands
and writes no file.
"""

import inspect
from collections.abc import Iterator
from typing import Final

import click

from ottla import __version__

PROGRAM: Final = "ottla"
_KEEP_LINES: Final = "\b"
"""Click's mark at the start of a paragraph whose lines are not filled."""


def man_pages(main: click.Group) -> dict[str, str]:
    """The text of every page by its name, `ottla-groups` for `ottla groups`."""
    return dict(_pages(main, click.Context(main, info_name=PROGRAM)))


def _pages(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    name = context.command_path.replace(" ", "-")
    yield name, "\n".join(_page(command, context, name)) + "\n"
    for below, each in _commands(command, context):
        yield from _pages(each, click.Context(each, info_name=below, parent=context))


def _commands(command: click.Command, context: click.Context) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return []
    found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [(name, each) for name, each in found if each is not None]


def _page(command: click.Command, context: click.Context, name: str) -> Iterator[str]:
    yield f'.TH "{_escaped(name.upper())}" 1 "" "ottla {_escaped(__version__)}" "Ottla"'
    yield from (".SH NAME", f"{_escaped(name)} \\- {_escaped(command.get_short_help_str(limit=200).rstrip('.'))}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (".SH SYNOPSIS", f".B {_escaped(context.command_path)}", _escaped(usage))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or "")
    yield ".SH OPTIONS"
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    for names, text in filter(None, records):
        yield from (".TP", f"\\fB{_escaped(names)}\\fR", _escaped(text))
    below = _commands(command, context)
    if below:
        yield ".SH COMMANDS"
        for each_name, each in below:
            yield from (".TP", f"\\fB{_escaped(each_name)}\\fR", _escaped(each.get_short_help_str(limit=200)))
    seen = [f"{name}-{each_name}" for each_name, _ in below] or [PROGRAM]
    yield from (".SH SEE ALSO", ", ".join(f"\\fB{_escaped(each)}\\fR(1)" for each in seen))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        yield ".PP"
        if paragraph.startswith(_KEEP_LINES):
            yield from (".nf", *map(_escaped, paragraph.removeprefix(_KEEP_LINES).strip("\n").splitlines()), ".fi")
        else:
            yield _escaped(" ".join(paragraph.split()))


def _escaped(text: str) -> str:
    """Text as it is to be printed: no escape, no dash that becomes a hyphen, and no request at the start of a line."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
