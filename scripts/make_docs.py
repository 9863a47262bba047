"""Writes the pages that are generated from the code: docs/cli.md, apis.md, settings.md, states.md, conformance.md,
diagnosis-rules.md.

`make docs` runs it; a test compares the pages.

python scripts/make_docs.py [DIRECTORY]
"""

import dataclasses
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import click
import conformance

from ottla.broker.api_registry import APIS
from ottla.broker.network.request import Api
from ottla.cli.main import main as cli
from ottla.config import BROKER_SETTINGS, FIXED_VALUES, GROUP_SETTINGS, TOPIC_SETTINGS, Setting
from ottla.groups.classic.states import ANSWERS, TRANSITIONS, GroupState, StateAnswers
from ottla.groups.consumer.reconciliation import OUTCOMES, STEPS
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.arrival_rules import ARRIVAL_RULES, AVOIDED_RULES
from ottla.history.verdicts.change_rules import CHANGE_RULES
from ottla.history.verdicts.departure_rules import DEPARTURE_RULES
from ottla.history.verdicts.policy import POLICIES
from ottla.history.verdicts.verdict import Rule

MADE = "<!-- Generated from the code by `make docs`. -->\n"


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
        "# The APIs that the broker serves\n\n",
        "What is missing, and why: [skipped.md](skipped.md).\n\n",
        "The column *rights* has what a client needs: operation, type of resource, and where a request names it. Without an "
        "authorizer, everything is allowed ([acls.md](acls.md)).\n\n",
        "| key | API | versions | rights | notes |\n|---|---|---|---|---|\n",
    ]
    for api in sorted(APIS.values(), key=lambda api: api.key):
        module = importlib.import_module(api.handle.__module__)
        title = "".join(part.capitalize() for part in module.__name__.rsplit(".", 1)[1].split("_"))
        doc = " ".join((inspect.getdoc(module) or "").split())
        note = doc.split(": ", 1)[1] if ": " in doc else doc
        parts.append(f"| {api.key} | {title} | {api.versions.start}-{api.versions.stop - 1} | {rights(api)} | {note} |\n")
    return "".join(parts)


def rights(api: Api) -> str:
    """The rights that an API needs, in words."""
    texts = []
    for access in api.access:
        text = f"{access.operation.name} {access.resource.name}"
        if access.at:
            text += f" `{access.at}`"
        if access.or_cluster is not None:
            text += f" or {access.or_cluster.name} CLUSTER"
        if access.or_any is not None:
            text += f" or {access.or_any[0].name} of any {access.or_any[1].name}"
        texts.append(text)
    return "; ".join(texts) or "none"


def settings_page() -> str:
    """Every setting of broker, topics and groups."""
    fixed = ", ".join(f"`{name}` = {value}" for name, value in FIXED_VALUES.items())
    parts = [
        MADE,
        "# Settings\n\n",
        "Names, types, defaults and meanings are Kafka's, except `group.initial.rebalance.delay.ms`, which is 0 here. A topic setting "
        "is set with CreateTopics or changed with IncrementalAlterConfigs; a broker setting with `--config` or "
        "`Broker(config=...)`; a setting of a consumer group (KIP-848) with "
        "IncrementalAlterConfigs (`kafka-configs --alter --entity-type groups`), within the broker's `group.consumer.min.*` and "
        "`group.consumer.max.*`: it takes effect at each member's next heartbeat, and one beyond bounds that were changed later is capped, "
        "with a warning in the log. "
        "A setting that is not in these lists is refused; for those of Kafka that are missing, and why, see [skipped.md](skipped.md) and "
        "[groups.md](groups.md). As in Kafka, IncrementalAlterConfigs and AlterConfigs of a broker take names that Kafka does not know "
        "either; they have no effect, and the broker logs them. DescribeConfigs (`kafka-configs --describe --all`) lists all settings of "
        "Apache Kafka 4.3. Those that are not in these lists have no effect; their documentation (`include_documentation`) says so. They "
        "have Kafka's defaults, but "
        f"for these, which say what this broker does: {fixed}; `listeners`, `advertised.listeners`, `log.dirs` and `broker.id` are this "
        "broker's own.\n\n"
        "`min.insync.replicas` is set for all brokers when a data directory is created, from `--config` or its default, as in Apache "
        "Kafka (KIP-966). Later it is changed with `kafka-configs --alter --entity-type brokers --entity-default`; a value in `--config` "
        "has no effect then, and is logged.\n\n"
        "Values are parsed and validated as in Apache Kafka, from every source: `+5` and ` 5 ` are whole numbers, `5_000` and "
        "`5.0` are not; a value in Python may be text, a number, True or False. Some bounds are narrower than Kafka's, since this broker "
        "does not support larger values: at most 10000 partitions per topic, no more replicas than brokers, no NaN, "
        "`group.min.session.timeout.ms` not above `group.max.session.timeout.ms`. An invalid value in an existing data directory "
        "does not keep the broker from starting: the broker uses the default, and logs a warning with topic and setting. Apache Kafka "
        "may not start with it: delete it (`kafka-configs --alter --delete-config`) before you open the directory there.\n",
    ]
    for title, settings in (("Broker", BROKER_SETTINGS), ("Topic", TOPIC_SETTINGS), ("Group", GROUP_SETTINGS)):
        parts.append(f"\n## {title}\n\n| setting | type | default | valid values | meaning |\n|---|---|---|---|---|\n")
        parts += [setting_row(setting) for setting in settings.values()]
    return "".join(parts)


def setting_row(setting: Setting) -> str:
    """One line of the settings page."""
    return f"| `{setting.name}` | {setting.type.name.lower()} | {setting.default} | {setting.valid} | {setting.doc} |\n"


def states_page() -> str:
    """The states of a classic group: transitions as a diagram, responses as a table; the steps of a consumer group's member."""
    parts = [
        MADE,
        "# The states of groups\n\n",
        "The coordinator, the tests and this page use the same tables (`groups/classic/states.py`, `groups/consumer/reconciliation.py`); "
        "see also [groups.md](groups.md).\n\n## A classic group\n",
        "\n```mermaid\nstateDiagram-v2\n",
    ]
    for state, exits in TRANSITIONS.items():
        parts += [f"    {state.value} --> {to.value}\n" for to in sorted(exits, key=lambda to: to.value) if to is not state]
    parts.append("```\n\n")
    parts += [f"- {line.strip()}\n" for line in (inspect.getdoc(GroupState) or "").splitlines()[2:]]
    columns = [field.name for field in dataclasses.fields(StateAnswers)]
    parts.append("\n### Responses\n\n" + (inspect.getdoc(StateAnswers) or "") + "\n\n")
    parts.append("| | " + " | ".join(state.value for state in ANSWERS) + " |\n|---" + "|---" * len(ANSWERS) + "|\n")
    for column in columns:
        answers = (getattr(answer, column) for answer in ANSWERS.values())
        parts.append(f"| `{column}` | " + " | ".join(_word(answer) for answer in answers) + " |\n")
    parts.append("\n## A member of a consumer group\n\nOf each table, the first row that holds.\n\n| state | if | step |\n|---|---|---|\n")
    parts += [f"| {row.state.name} | {row.condition.value} | {row.step.value} |\n" for row in STEPS]
    parts.append("\n### The next assignment\n\n| if | state | epoch | partitions |\n|---|---|---|---|\n")
    for outcome in OUTCOMES:
        epoch = "the target's" if outcome.at_target_epoch else "its own"
        partitions = "what it keeps" + (" and what is free" if outcome.takes_free else "")
        parts.append(f"| {outcome.need.value} | {outcome.state.name} | {epoch} | {partitions} |\n")
    return "".join(parts)


def rules_page() -> str:
    """The causes, and the rules of diagnosis: what each requires and which causes it leaves open."""
    parts = [
        MADE,
        "# Causes of rebalances, and the rules that find them\n\n",
        "How rules are combined, and what a verdict contains: [diagnose.md](diagnose.md).\n\n",
        "## Causes\n\n| code | meaning | planned | avoidable | class |\n|---|---|---|---|---|\n",
    ]
    parts += [cause_row(cause, meaning) for cause, meaning in cause_meanings().items()]
    for title, note, rules in RULE_TABLES:
        parts.append(
            f"\n## {title}\n\n{note}\n\n| rule | from | when | causes, the likeliest first | sure at most |\n|---|---|---|---|---|\n"
        )
        parts += [rule_row(rule) for rule in rules]
    return "".join(parts)


def cause_meanings() -> dict[Cause, str]:
    """Each cause with the text below its definition."""
    lines = inspect.getsource(Cause).splitlines()
    texts = {lines[at].split(" = ")[0].strip(): lines[at + 1].strip().strip('"') for at in range(len(lines)) if " = " in lines[at]}
    return {cause: texts[cause.name] for cause in Cause}


def cause_row(cause: Cause, meaning: str) -> str:
    """One line of the table of causes."""
    policy, words = POLICIES[cause], {True: "yes", False: "no", None: "it depends"}
    return f"| `{cause}` | {meaning} | {words[policy.planned]} | {words[policy.avoidable]} | {policy.rebalance_class or ''} |\n"


def rule_row(rule: Rule[Any]) -> str:
    """One line of a table of rules."""
    causes = sorted(rule.weights, key=lambda cause: -rule.weights[cause])
    listed = ", ".join(f"{cause} {rule.weights[cause]:g}" for cause in causes)
    return f"| {rule.name} | {rule.source} | {rule.condition} | {listed} | {rule.confidence.name.lower()} |\n"


RULE_TABLES = (
    ("Members that went", "Rules of broker logs hold for group events, too.", DEPARTURE_RULES),
    ("Members that came", "For those that were not there before: a client that came back has the cause of its departure.", ARRIVAL_RULES),
    ("No member came or went", "Topics, subscriptions, assignors, coordinators.", CHANGE_RULES),
    ("Avoided", "What static membership avoided.", AVOIDED_RULES),
)


def conformance_page() -> str:
    """Apache Kafka's tests of groups with the corresponding tests here."""
    return MADE + conformance.page()


def _word(answer: object) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return getattr(answer, "name", str(answer))


def main() -> None:
    """Write the pages into the directory, docs/ by default."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs"
    pages = {
        "cli": cli_page,
        "apis": apis_page,
        "settings": settings_page,
        "states": states_page,
        "conformance": conformance_page,
        "diagnosis-rules": rules_page,
    }
    for name, page in pages.items():
        (directory / f"{name}.md").write_text(page())


if __name__ == "__main__":
    main()
