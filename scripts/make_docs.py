"""Writes the pages that are made from the code: docs/cli.md, apis.md, settings.md, states.md, conformance.md. `make docs` runs it; a test
compares.

python scripts/make_docs.py [DIRECTORY]
"""

import dataclasses
import importlib
import inspect
import sys
from pathlib import Path

import click

import conformance
from ottla.broker.dispatch import SERVED_APIS
from ottla.cli.main import main as cli
from ottla.core.config import BROKER_SETTINGS, TOPIC_SETTINGS, Setting
from ottla.core.groups.states import ANSWERS, TRANSITIONS, GroupState, StateAnswers

MADE = "<!-- Made from the code by `make docs`. -->\n"


def cli_page() -> str:
    """Every command's help, as it prints it."""
    parts = [MADE, "# The command line\n"]
    context = click.Context(cli, info_name="ottla", terminal_width=100, max_content_width=100)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts.append(f"\n## ottla {name}\n\n```\n{_help(command, name, context)}\n```\n")
    return "".join(parts)


def _help(command: click.Command, name: str, parent: click.Context) -> str:
    """A command's help, and that of the commands below it."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100, max_content_width=100)
    below = command.commands.items() if isinstance(command, click.Group) else ()
    return "\n\n".join([command.get_help(context), *(_help(each, each_name, context) for each_name, each in below)])


def apis_page() -> str:
    """Every API with its versions and its own notes."""
    parts = [
        MADE,
        "# The APIs that the broker answers\n\n",
        "What is left out, and why: [skipped.md](skipped.md).\n\n",
        "| key | API | versions | notes |\n|---|---|---|---|\n",
    ]
    for api in sorted(SERVED_APIS.values(), key=lambda api: api.key):
        module = importlib.import_module(api.handle.__module__)
        title = "".join(part.capitalize() for part in module.__name__.rsplit(".", 1)[1].split("_"))
        doc = " ".join((inspect.getdoc(module) or "").split())
        note = doc.split(": ", 1)[1] if ": " in doc else doc
        parts.append(f"| {api.key} | {title} | {api.versions.start}-{api.versions.stop - 1} | {note} |\n")
    return "".join(parts)


def settings_page() -> str:
    """Every setting of broker and topics."""
    parts = [
        MADE,
        "# Settings\n\n",
        "Names, types, defaults and meanings are Kafka's, but for `group.initial.rebalance.delay.ms`, which is 0 here. A topic setting "
        "is given with CreateTopics or changed with IncrementalAlterConfigs; a broker setting with `--config` or `Broker(config=...)`. "
        "A setting that is not in these lists is refused; which of Kafka's are not, and why: [skipped.md](skipped.md), "
        "[groups.md](groups.md).\n\n"
        "Values are read and checked as Apache Kafka does it, wherever they come from: `+5` and ` 5 ` are whole numbers, `5_000` and "
        "`5.0` are not; a value in Python may be text, a number, True or False. Some bounds are narrower than Kafka's, since this broker "
        "could not serve what lies beyond: at most 10000 partitions for a topic, no more replicas than brokers, no NaN, "
        "`group.min.session.timeout.ms` not above `group.max.session.timeout.ms`. A value that lies in a data directory already and "
        "is invalid does not keep the broker from starting: the default is used, and a warning names topic and setting. Apache Kafka "
        "may not start with it: delete it (`kafka-configs --alter --delete-config`) before you open the directory there.\n",
    ]
    for title, settings in (("Broker", BROKER_SETTINGS), ("Topic", TOPIC_SETTINGS)):
        parts.append(f"\n## {title}\n\n| setting | type | default | valid values | meaning |\n|---|---|---|---|---|\n")
        parts += [setting_row(setting) for setting in settings.values()]
    return "".join(parts)


def setting_row(setting: Setting) -> str:
    """One line of the settings page."""
    return f"| `{setting.name}` | {setting.type.name.lower()} | {setting.default} | {setting.valid} | {setting.doc} |\n"


def states_page() -> str:
    """The classic group machine: its exits as a diagram, its answers as a table."""
    parts = [
        MADE,
        "# The states of a classic group\n\n",
        "The machine, the tests and this page read the same table (`core/groups/states.py`); the story is in [groups.md](groups.md).\n",
        "\n```mermaid\nstateDiagram-v2\n",
    ]
    for state, exits in TRANSITIONS.items():
        parts += [f"    {state.value} --> {to.value}\n" for to in sorted(exits, key=lambda to: to.value) if to is not state]
    parts.append("```\n\n")
    parts += [f"- {line.strip()}\n" for line in (inspect.getdoc(GroupState) or "").splitlines()[2:]]
    columns = [field.name for field in dataclasses.fields(StateAnswers)]
    parts.append("\n## Answers\n\n" + (inspect.getdoc(StateAnswers) or "") + "\n\n")
    parts.append("| | " + " | ".join(state.value for state in ANSWERS) + " |\n|---" + "|---" * len(ANSWERS) + "|\n")
    for column in columns:
        answers = (getattr(answer, column) for answer in ANSWERS.values())
        parts.append(f"| `{column}` | " + " | ".join(_word(answer) for answer in answers) + " |\n")
    return "".join(parts)


def conformance_page() -> str:
    """Apache Kafka's tests of groups beside ours."""
    return MADE + conformance.page()


def _word(answer: object) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return getattr(answer, "name", str(answer))


def main() -> None:
    """Writes the pages into the directory, docs/ unless another is named."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs"
    pages = {
        "cli": cli_page,
        "apis": apis_page,
        "settings": settings_page,
        "states": states_page,
        "conformance": conformance_page,
    }
    for name, page in pages.items():
        (directory / f"{name}.md").write_text(page())


if __name__ == "__main__":
    main()
