"""`ottla advise`: whether a consumer's settings will make it leave its group, before they do."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from ottla.cli.options import parse_properties
from ottla.config.client_property import POSITIVE
from ottla.history.advice import HEARTBEAT_OF_GROUP, SESSION_OF_GROUP, Advice, ConsumerSettings, advise, idle_or_uneven, record_budget_ms
from ottla.text import printable

SETTINGS = {
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "max.poll.records": "max_poll_records",
}
"""What it judges; a file may hold other settings too."""
PROTOCOL = "group.protocol"
OF_THE_GROUP = {"session.timeout.ms": SESSION_OF_GROUP, "heartbeat.interval.ms": HEARTBEAT_OF_GROUP}
"""With group.protocol=consumer the group's settings take the place of the consumer's."""
GROUP_HEARTBEAT_MS = 5_000
"""The default of the second."""
UNKNOWN = 2
WORK_MS_MAX = 7 * 24 * 3_600_000
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def parse_duration(text: str) -> int:
    """The milliseconds of `6m`, `90s` or `250ms`. Raises click.BadParameter."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in UNITS_MS:
        raise click.BadParameter(f"{text!r}: write a number with ms, s, m or h, for example 6m")
    milliseconds = float(match[1]) * UNITS_MS[match[2]]
    if milliseconds > WORK_MS_MAX:
        raise click.BadParameter(f"{text!r}: write at most 168h; max.poll.interval.ms itself ends at 24 days")
    return round(milliseconds)


@click.command("advise", short_help="Check whether settings will make a consumer leave.")
@click.option("--properties", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="A consumer.properties.")
@click.option("--set", "given", multiple=True, metavar="K=V", help="A consumer setting by its Kafka name; overrides the file's.")
@click.option("--work-per-poll", type=parse_duration, metavar="TIME", help="Longest processing time of one poll: 6m, 90s, 250ms.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="Partitions of the group's topics; with --members.")
@click.option("--members", type=click.IntRange(1), metavar="N", help="Members of the group; with --partitions.")
@click.option("--group", metavar="GROUP", help="Take timeouts, members and partitions from this group; with --bootstrap-server.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The group's cluster; Ottla or Apache Kafka.")
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    properties: Path | None,
    given: tuple[str, ...],
    work_per_poll: int | None,
    partitions: int | None,
    members: int | None,
    group: str | None,
    bootstrap_server: str | None,
    command_config: str | None,
    as_json: bool,
) -> None:
    """Check whether a consumer's settings will make it leave its group, and print the values to set.

    Settings that are not given have the defaults of Kafka's Java client. With --group, session.timeout.ms and max.poll.interval.ms are
    those that the members sent to the cluster; for members of the consumer protocol, consumer.session.timeout.ms and
    consumer.heartbeat.interval.ms of their group take the place of session.timeout.ms and heartbeat.interval.ms.

    The exit status is 1 if a setting should be changed, 2 if that is not known, else 0.
    """
    if (partitions is None) != (members is None):
        raise click.UsageError("--partitions and --members go together")
    if (group is None) != (bootstrap_server is None):
        raise click.UsageError("--group and --bootstrap-server go together")
    settings = _settings(properties, given)
    if group is not None and bootstrap_server is not None:
        if partitions is not None:
            raise click.UsageError("--partitions and --members are taken from the cluster with --group: leave them out")
        _advise_group(group, bootstrap_server, command_config, settings, work_per_poll, as_json=as_json)
        return
    found = advise(settings, work_per_poll_ms=work_per_poll)
    uneven = idle_or_uneven(partitions, members) if partitions and members else None
    budget_ms = record_budget_ms(settings)
    if as_json:
        click.echo(json.dumps({"advice": [_to_json(each) for each in found], "record_budget_ms": budget_ms, "uneven": uneven}, indent=2))
    else:
        _print_advice(found, settings)
        if uneven is not None:
            click.echo(uneven)
    if found:
        raise SystemExit(1)


def _print_advice(found: Sequence[Advice], settings: ConsumerSettings) -> None:
    for each in found:
        click.echo(each.sentence)
    click.echo(
        f"{settings.max_poll_interval_ms} ms / {settings.max_poll_records} records: "
        f"{record_budget_ms(settings)} ms a record before a full poll makes the member leave."
    )


def _advise_group(
    group: str, bootstrap_server: str, command_config: str | None, settings: ConsumerSettings, work_per_poll: int | None, *, as_json: bool
) -> None:
    """Advice for each set of timeouts that members of the group have."""
    from ottla.cli.advise import read_group_timeouts
    from ottla.cli.clusters import CommandFailed

    try:
        found = read_group_timeouts(group, bootstrap_server=bootstrap_server, command_config=command_config)
    except CommandFailed as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(UNKNOWN)
    uneven = idle_or_uneven(found.partitions, found.members) if found.partitions else None
    judged = [
        (clients, own, advise(own, work_per_poll_ms=work_per_poll), timeouts.max_poll_interval_ms is None)
        for timeouts, clients in found.clients.items()
        for interval_ms in [timeouts.max_poll_interval_ms or settings.max_poll_interval_ms]
        for own in [
            replace(
                settings,
                session_timeout_ms=timeouts.session_timeout_ms,
                heartbeat_interval_ms=timeouts.heartbeat_interval_ms or settings.heartbeat_interval_ms,
                max_poll_interval_ms=interval_ms,
                is_consumer_protocol=timeouts.heartbeat_interval_ms is not None,
            )
        ]
    ]
    if as_json:
        settings_of = [
            {
                "clients": clients,
                **asdict(own),
                "advice": [_to_json(each) for each in advice],
                "record_budget_ms": record_budget_ms(own),
            }
            for clients, own, advice, _ in judged
        ]
        document = {"group": group, "members": found.members, "partitions": found.partitions, "settings": settings_of, "uneven": uneven}
        click.echo(json.dumps(document, indent=2))
    else:
        for clients, own, advice, is_assumed in judged:
            names = SESSION_OF_GROUP, HEARTBEAT_OF_GROUP
            session = f"{names[0]}={own.session_timeout_ms} {names[1]}={own.heartbeat_interval_ms}"
            session = session if own.is_consumer_protocol else f"session.timeout.ms={own.session_timeout_ms}"
            click.echo(f"{printable(', '.join(clients))}: {session} max.poll.interval.ms={own.max_poll_interval_ms}")
            if is_assumed:
                click.echo(
                    "The members send their session timeout as rebalance timeout, as aiokafka does: max.poll.interval.ms is not theirs."
                )
                click.echo("It is the one of --properties or --set, or else the default.")
            _print_advice(advice, own)
        if uneven is not None:
            click.echo(uneven)
    if any(advice for _, _, advice, _ in judged):
        raise SystemExit(1)


def _settings(properties: Path | None, given: tuple[str, ...]) -> ConsumerSettings:
    texts = parse_properties(properties.read_text("latin-1")) if properties else {}
    is_consumer_protocol = texts.get(PROTOCOL, "").strip().lower() == "consumer"
    for setting in given:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or name not in SETTINGS:
            raise click.BadParameter(f"{setting!r}: write one of {', '.join(SETTINGS)} as NAME=VALUE", param_hint="--set")
        texts[name] = text
    if is_consumer_protocol:
        for name, instead in OF_THE_GROUP.items():
            if name in texts:
                message = f"{name}: consumers with {PROTOCOL}=consumer do not start with it; {instead} of their group is in its place"
                raise click.BadParameter(message, param_hint="--set or --properties")
    values: dict[str, Any] = {}
    for name in SETTINGS.keys() & texts.keys():
        try:
            values[SETTINGS[name]] = POSITIVE.parse(texts[name])
        except ValueError as error:
            message = f"{name}={texts[name].strip()}: write a whole number from {POSITIVE.low} to {POSITIVE.high}"
            raise click.BadParameter(message, param_hint="--set or --properties") from error
    if is_consumer_protocol:
        return ConsumerSettings(heartbeat_interval_ms=GROUP_HEARTBEAT_MS, is_consumer_protocol=True, **values)
    return ConsumerSettings(**values)


def _to_json(advice: Advice) -> dict[str, object]:
    return {"setting": advice.setting, "value": advice.value, "suggested": advice.suggested, "why": advice.sentence}


COMMAND = command
